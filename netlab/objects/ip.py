"""IP addresses and ranges as the API server takes them: no leading zeros, no zone, ranges with a prefix length.

IPv4 addresses mapped into IPv6 are read as IPv6; :mod:`netlab.objects.address_validation` refuses them where the API
server does.
"""

from __future__ import annotations

from ipaddress import (
    AddressValueError,
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
    ip_address,
    ip_interface,
    ip_network,
)
from socket import AF_INET, inet_pton

Address = IPv4Address | IPv6Address
Interface = IPv4Interface | IPv6Interface
Network = IPv4Network | IPv6Network

IP_WORDS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
CIDR_WORDS = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def parse_ip(text: str) -> Address | None:
    """The address, or None where the text is not one."""
    try:
        return ip_address(text) if "%" not in text else None
    except (AddressValueError, ValueError):
        return None


def canonical_ip(text: str) -> str | None:
    """The address as Kubernetes writes it, or None where the text is none; fast for IPv4."""
    try:
        inet_pton(AF_INET, text)
    except (OSError, ValueError):
        address = parse_ip(text)
        return str(address) if address is not None else None
    return text


def parse_cidr(text: str) -> Network | None:
    """The range; host bits are masked, as net.ParseCIDR does."""
    try:
        return ip_network(text, strict=False) if _has_prefix_length(text) else None
    except ValueError:
        return None


def parse_interface(text: str) -> Interface | None:
    """An address with a prefix length, host bits kept."""
    try:
        return ip_interface(text) if _has_prefix_length(text) else None
    except ValueError:
        return None


def _has_prefix_length(text: str) -> bool:
    """Python takes a netmask too."""
    length = text.partition("/")[2]
    return length.isascii() and length.isdigit() and "%" not in text


def ip_fault(text: str) -> str | None:
    """Why the API server refuses the text as an address; None where it takes it."""
    if parse_ip(text) is not None:
        return None
    parts = text.split(".")
    if len(parts) == 4 and all(part.isdigit() for part in parts):
        stripped = ".".join(part.lstrip("0") or "0" for part in parts)
        if parse_ip(stripped) is not None:
            return "must not have leading 0s"
    return IP_WORDS
