"""Address families are data: everything in this room is computed for one family at a time."""

from __future__ import annotations

import enum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Literal


class Family(enum.Enum):
    """IPv4 or IPv6, with the names that Kubernetes, iptables and nftables have for them."""

    IPV4 = 4
    IPV6 = 6

    @property
    def kubernetes(self) -> str:
        """As in spec.ipFamilies and addressType."""
        return "IPv4" if self is Family.IPV4 else "IPv6"

    @property
    def nftables(self) -> Literal["ip", "ip6"]:
        """The family of tables, and in rules the header that addresses are looked up in."""
        return "ip" if self is Family.IPV4 else "ip6"

    @property
    def host_prefix(self) -> int:
        return 32 if self is Family.IPV4 else 128

    def matches(self, value: IPv4Address | IPv6Address | IPv4Network | IPv6Network) -> bool:
        return value.version == self.value


def join_host_port(address: str, port: int) -> str:
    """ "A:P" or "[A6]:P", as Go's net.JoinHostPort; kube-proxy hashes and compares endpoints in this form."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
