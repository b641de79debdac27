from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netlab.objects.names import (
    dns1123_label_fault,
    dns1123_label_faults,
    dns1123_subdomain_fault,
    dns1123_subdomain_faults,
    generated_prefix,
    label_value_faults,
    port_name_faults,
    port_number_faults,
    qualified_name_faults,
    search_domain_faults,
)

LABEL_WORDS = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN_WORDS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
NAME_PART_WORDS = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
LABEL_VALUE_WORDS = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


@pytest.mark.parametrize("name", ["web", "9lives", "a", "0", "a-b", "x" * 63])
def test_a_label_is_fine(name: str) -> None:
    assert dns1123_label_faults(name) == []
    assert dns1123_label_fault(name) is None


@pytest.mark.parametrize(
    ("name", "faults"),
    [
        ("Web", [LABEL_WORDS]),
        ("web-", [LABEL_WORDS]),
        ("-web", [LABEL_WORDS]),
        ("", [LABEL_WORDS]),
        ("web\n", [LABEL_WORDS]),
        ("web.lab", ["must not contain dots"]),
        ("x" * 64, ["must be no more than 63 bytes"]),
        ("X" * 64, ["must be no more than 63 bytes", LABEL_WORDS]),
    ],
)
def test_a_label_is_refused(name: str, faults: list[str]) -> None:
    assert dns1123_label_faults(name) == faults
    assert dns1123_label_fault(name) == faults[0]


def test_subdomains() -> None:
    assert dns1123_subdomain_faults("db.example.net") == []
    assert dns1123_subdomain_faults("-bad-.example") == [SUBDOMAIN_WORDS]
    assert dns1123_subdomain_faults("a..b") == [SUBDOMAIN_WORDS]
    assert dns1123_subdomain_faults("a." * 127) == ["must be no more than 253 bytes", SUBDOMAIN_WORDS]
    assert dns1123_subdomain_fault("db.example.net") is None
    assert dns1123_subdomain_fault("Db") == SUBDOMAIN_WORDS


def test_search_domains_may_have_underscores() -> None:
    assert search_domain_faults("_sip._tcp.example.com") == []
    assert len(search_domain_faults("Example")) == 1


@pytest.mark.parametrize("name", ["app", "App_1.x", "example.com/app", "kubernetes.io/service-name", "x" * 63])
def test_a_qualified_name_is_fine(name: str) -> None:
    assert qualified_name_faults(name) == []


@pytest.mark.parametrize(
    ("name", "faults"),
    [
        ("a b", [NAME_PART_WORDS]),
        ("", ["name part must be non-empty", NAME_PART_WORDS]),
        ("x" * 64, ["name part must be no more than 63 bytes"]),
        ("/a", ["prefix part must be non-empty"]),
        ("Bad/a", [f"prefix part {SUBDOMAIN_WORDS}"]),
        ("a/", ["name part must be non-empty", NAME_PART_WORDS]),
    ],
)
def test_a_qualified_name_is_refused(name: str, faults: list[str]) -> None:
    assert qualified_name_faults(name) == faults


def test_a_qualified_name_has_one_slash_at_most() -> None:
    (fault,) = qualified_name_faults("a/b/c")
    assert fault.startswith("a valid label key must consist of ")
    assert fault.endswith("with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')")


def test_label_values() -> None:
    assert label_value_faults("") == []
    assert label_value_faults("My_value.1") == []
    assert label_value_faults("d e") == [LABEL_VALUE_WORDS]
    assert label_value_faults("x" * 64) == ["must be no more than 63 bytes"]


@pytest.mark.parametrize(
    ("name", "faults"),
    [
        ("http", []),
        ("80-http", []),
        ("waytoolongportname", ["must be no more than 15 bytes"]),
        ("Not_A_Port", ["must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"]),
        ("8080", ["must contain at least one letter (a-z)"]),
        ("a--b", ["must not contain consecutive hyphens"]),
        ("-a", ["must not begin or end with a hyphen"]),
        ("a-", ["must not begin or end with a hyphen"]),
    ],
)
def test_port_names(name: str, faults: list[str]) -> None:
    assert port_name_faults(name) == faults


def test_port_numbers() -> None:
    assert port_number_faults(1) == port_number_faults(65535) == []
    assert port_number_faults(0) == port_number_faults(65536) == ["must be between 1 and 65535, inclusive"]


def test_a_name_to_be_completed_may_end_with_a_hyphen() -> None:
    assert dns1123_label_faults(generated_prefix("web-")) == []
    assert dns1123_label_faults(generated_prefix("-")) == [LABEL_WORDS]


@given(st.text(alphabet="abz019-._/A", max_size=70))
def test_a_label_is_a_subdomain_and_a_label_value(name: str) -> None:
    if not dns1123_label_faults(name):
        assert dns1123_subdomain_faults(name) == []
        assert label_value_faults(name) == []
        assert qualified_name_faults(name) == []
