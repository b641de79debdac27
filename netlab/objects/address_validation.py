"""Addresses and ranges in objects: what the API server refuses, and what it takes with a warning.

Fields that are older than strict parsing take an IPv6 address in any spelling, but, since 1.36, neither leading zeros
nor IPv4 addresses mapped into IPv6 nor ranges with host bits (feature gate StrictIPCIDRValidation).

Source: k8s.io/apimachinery/pkg/util/validation/ip.go (IsValidIPForLegacyField, IsValidCIDRForLegacyField,
GetWarningsForIP, GetWarningsForCIDR), kubernetes/pkg/apis/core/validation (ValidateEndpointIP).
"""

from __future__ import annotations

from ipaddress import IPv6Address

from netlab.objects.field import FieldError, invalid
from netlab.objects.ip import CIDR_WORDS, Network, ip_fault, parse_cidr, parse_ip

MAPPED_WORDS = "must not be an IPv4-mapped IPv6 address"


def validate_ip(path: str, text: str) -> list[FieldError]:
    """An address in a field that is older than strict parsing."""
    fault = ip_fault(text)
    if fault is None and _is_mapped(text):
        fault = MAPPED_WORDS
    return [] if fault is None else [invalid(path, text, fault)]


def validate_cidr(path: str, text: str) -> list[FieldError]:
    """A range in a field that is older than strict parsing."""
    fault = _cidr_fault(text)
    return [] if fault is None else [invalid(path, text, fault)]


def validate_endpoint_ip(path: str, text: str) -> list[FieldError]:
    """A valid address that traffic is sent to: endpoints and externalIPs may not be special addresses."""
    address = parse_ip(text)
    if address is None:
        return [invalid(path, text, "must be a valid IP address")]
    faults = []
    if address.is_unspecified:
        faults.append(f"may not be unspecified ({text})")
    if address.is_loopback:
        faults.append("may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if address.is_link_local:
        faults.append("may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if _is_link_local_multicast(text):
        faults.append("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
    return [invalid(path, text, fault) for fault in faults]


def ip_warnings(path: str, text: str) -> list[str]:
    """What the API server remarks about an address that it takes."""
    address = parse_ip(text)
    if not isinstance(address, IPv6Address) or str(address) == text:
        return []
    return [f'{path}: IPv6 address "{text}" should be in RFC 5952 canonical format ("{address}")']


def cidr_warnings(path: str, text: str) -> list[str]:
    """What the API server remarks about a range that it takes."""
    network = parse_cidr(text)
    if network is None or network.version == 4 or str(network) == text:
        return []
    return [f'{path}: IPv6 CIDR value "{text}" should be in RFC 5952 canonical format ("{network}")']


def ip_family(text: str) -> str:
    """ "IPv4" or "IPv6"; the text is an address."""
    return "IPv6" if ":" in text else "IPv4"


def is_dual_stack(texts: list[str]) -> bool:
    """Whether valid addresses (or ranges) are of both families."""
    return len({ip_family(text) for text in texts}) == 2


def _cidr_fault(text: str) -> str | None:
    address, _, length = text.partition("/")
    network = parse_cidr(text) if length.isascii() and length.isdigit() else None
    if network is not None and len(length) > 1 and length.startswith("0"):
        return "must not have leading 0s in IP or prefix length"
    if network is None:
        stripped = _without_leading_zeros(address)
        sloppy = stripped is not None and _cidr_fault(f"{stripped}/{length}") != CIDR_WORDS
        return "must not have leading 0s in IP or prefix length" if sloppy else CIDR_WORDS
    if _is_mapped(address):
        return "must not have an IPv4-mapped IPv6 address"
    return None if _without_host_bits(network, address) else "must not have bits set beyond the prefix length"


def _without_leading_zeros(address: str) -> str | None:
    """The address that was meant by one with leading zeros; None where it has none."""
    if ip_fault(address) != "must not have leading 0s":
        return None
    return ".".join(part.lstrip("0") or "0" for part in address.split("."))


def _without_host_bits(network: Network, address: str) -> bool:
    return parse_ip(address) == network.network_address


def _is_mapped(text: str) -> bool:
    address = parse_ip(text)
    return isinstance(address, IPv6Address) and address.ipv4_mapped is not None


def _is_link_local_multicast(text: str) -> bool:
    address = parse_ip(text)
    if isinstance(address, IPv6Address):
        return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 0x02
    return address is not None and address.packed[:3] == b"\xe0\x00\x00"
