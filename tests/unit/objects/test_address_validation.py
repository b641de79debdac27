from __future__ import annotations

from ipaddress import IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netlab.objects.address_validation import (
    cidr_warnings,
    ip_warnings,
    is_dual_stack,
    validate_cidr,
    validate_endpoint_ip,
    validate_ip,
)
from netlab.objects.ip import CIDR_WORDS, IP_WORDS

LEADING_ZEROS = "must not have leading 0s in IP or prefix length"


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("10.0.0.1", None),
        ("2001:DB8:0::1", None),
        ("abc", IP_WORDS),
        ("", IP_WORDS),
        ("fe80::1%eth0", IP_WORDS),
        ("010.0.0.1", "must not have leading 0s"),
        ("::ffff:10.0.0.1", "must not be an IPv4-mapped IPv6 address"),
    ],
)
def test_addresses(text: str, detail: str | None) -> None:
    assert [error.detail for error in validate_ip("spec.x", text)] == ([] if detail is None else [detail])


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("10.0.0.0/8", None),
        ("2001:DB8:0::/64", None),
        ("0.0.0.0/0", None),
        ("10.0.0.0", CIDR_WORDS),
        ("10.0.0.0/33", CIDR_WORDS),
        ("10.0.0.0/255.0.0.0", CIDR_WORDS),
        ("10.0.0.0/-8", CIDR_WORDS),
        ("x/8", CIDR_WORDS),
        ("010.0.0.0/8", LEADING_ZEROS),
        ("10.0.0.0/08", LEADING_ZEROS),
        ("10.0.0.1/8", "must not have bits set beyond the prefix length"),
        ("::ffff:10.0.0.0/104", "must not have an IPv4-mapped IPv6 address"),
    ],
)
def test_ranges(text: str, detail: str | None) -> None:
    assert [error.detail for error in validate_cidr("spec.x", text)] == ([] if detail is None else [detail])


@pytest.mark.parametrize("text", ["10.1.2.3", "2001:db8::1", "224.0.1.1", "239.1.1.1", "ff0e::1", "240.0.0.1"])
def test_an_endpoint_may_have_an_address(text: str) -> None:
    assert validate_endpoint_ip("x", text) == []


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("0.0.0.0", "may not be unspecified (0.0.0.0)"),
        ("::", "may not be unspecified (::)"),
        ("127.1.2.3", "loopback"),
        ("::1", "loopback"),
        ("169.254.1.1", "link-local range"),
        ("fe80::1", "link-local range"),
        ("224.0.0.5", "link-local multicast"),
        ("ff02::5", "link-local multicast"),
        ("x", "must be a valid IP address"),
    ],
)
def test_an_endpoint_may_not_have_a_special_address(text: str, word: str) -> None:
    (error,) = validate_endpoint_ip("x", text)
    assert word in error.detail


def test_uncommon_spellings_are_remarked() -> None:
    assert ip_warnings("spec.x", "2001:db8::1") == ip_warnings("spec.x", "10.0.0.1") == []
    assert ip_warnings("spec.x", "2001:DB8:0::1") == [
        'spec.x: IPv6 address "2001:DB8:0::1" should be in RFC 5952 canonical format ("2001:db8::1")'
    ]
    assert cidr_warnings("spec.x", "2001:db8::/64") == cidr_warnings("spec.x", "10.0.0.0/8") == []
    assert cidr_warnings("spec.x", "2001:DB8::/64") == [
        'spec.x: IPv6 CIDR value "2001:DB8::/64" should be in RFC 5952 canonical format ("2001:db8::/64")'
    ]


def test_dual_stack() -> None:
    assert is_dual_stack(["10.0.0.1", "::1"])
    assert not is_dual_stack(["10.0.0.1", "10.0.0.2"])


@given(st.ip_addresses())
def test_every_printed_address_is_taken(address: object) -> None:
    text = str(address)
    mapped = isinstance(address, IPv6Address) and address.ipv4_mapped is not None
    assert (validate_ip("x", text) == []) != mapped


@given(st.text(max_size=20))
def test_any_text_gets_an_answer(text: str) -> None:
    assert len(validate_ip("x", text)) <= 1
    assert len(validate_cidr("x", text)) <= 1
