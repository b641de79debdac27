"""What there is on the wire: places (network namespaces), their interfaces, and which end belongs to which."""

from __future__ import annotations

from typing import Literal

import msgspec

PlaceKind = Literal["client", "router", "node", "pod"]
InterfaceKind = Literal["veth", "bridge", "vxlan", "loopback"]


class Peer(msgspec.Struct, frozen=True):
    """The other end of a veth pair."""

    place: str
    interface: str


class Interface(msgspec.Struct, frozen=True, kw_only=True):
    """``addresses`` with prefix length; ``master`` is the bridge that it is a port of, ``hairpin`` whether that may
    send a frame back by it to where it came from (null where it is no port, or nobody set it)."""

    name: str
    index: int
    kind: InterfaceKind
    mac: str
    addresses: tuple[str, ...] = ()
    peer: Peer | None = None
    master: str | None = None
    hairpin: bool | None = None


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """One network namespace. Pods are named "namespace/name" and say which node they are on.

    ``bridge_netfilter``: bridged frames pass iptables there (the bridge-nf-call-iptables sysctl).
    """

    name: str
    kind: PlaceKind
    node: str | None = None
    bridge_netfilter: bool = False
    interfaces: tuple[Interface, ...] = ()

    @property
    def short_name(self) -> str:
        """The name without the Kubernetes namespace."""
        return self.name.rpartition("/")[2]

    def interface(self, name: str) -> Interface | None:
        return next((each for each in self.interfaces if each.name == name), None)

    def own_addresses(self) -> list[str]:
        """All addresses of the place, without prefix lengths."""
        return [text.partition("/")[0] for each in self.interfaces for text in each.addresses]


class Topology(msgspec.Struct, frozen=True):
    """All places by name."""

    places: dict[str, Place]

    def place_with_address(self, address: str) -> Place | None:
        """The place that has the address on an interface (loopback does not count)."""
        for place in self.places.values():
            if address in place.own_addresses() and not address.startswith("127.") and address != "::1":
                return place
        return None
