"""The lab's networks outside the nodes: which hosts share a wire, and the router's address on each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from typing import Literal

from netlab.objects.ip import Address, Interface, Network, parse_cidr, parse_interface

Side = Literal["client", "node"]


@dataclass(frozen=True)
class Host:
    """A client or a node with its addresses outside (``side`` says which)."""

    name: str
    side: Side
    addresses: tuple[Address, ...]


@dataclass
class Segment:
    """One wire: its IP networks, the router's address in each of them, and the bridge that stands for it.

    In a network that hosts fill up the router has no address.
    """

    bridge: str
    side: Side
    networks: list[Network] = field(default_factory=list)
    router: dict[Network, Address] = field(default_factory=dict)


@dataclass(frozen=True)
class Attachment:
    """One interface of a host: the segment that it is on, and its addresses there."""

    host: str
    interface: str
    segment: Segment
    addresses: tuple[Interface, ...]


def declared_or_derived(address: Address, declared: Sequence[Network]) -> Network:
    """The declared network that holds the address, else the /24 (IPv6: /64) around it."""
    for network in declared:
        if address in network:
            return network
    derived = parse_cidr(f"{address}/{24 if address.version == 4 else 64}")
    assert derived is not None
    return derived


def attach(hosts: Iterable[Host], declared: dict[Side, list[Network]]) -> tuple[list[Segment], list[Attachment]]:
    """Put every host's addresses on interfaces and wires.

    A host has an interface for each IPv4 network it has an address in, and the n-th IPv6 network shares the n-th one.
    Networks that meet on an interface are on one wire, and so are networks that overlap: in one of them the hosts of
    the other are neighbours. A declared network has its wire also when nobody is on it.
    """
    all_declared = [network for networks in declared.values() for network in networks]
    groups: list[tuple[Host, list[list[Interface]]]] = []
    for host in hosts:
        groups.append((host, _interfaces(host, declared[host.side] or all_declared)))
    segments = _segments(groups, declared)
    taken = {address for host, _ in groups for address in host.addresses}
    for segment in segments:
        for network in segment.networks:
            address = next((each for each in network.hosts() if each not in taken), None)
            if address is not None:
                segment.router[network] = address
                taken.add(address)
    attachments = []
    for host, interfaces in groups:
        for number, addresses in enumerate(interfaces):
            segment = next(each for each in segments if addresses[0].network in each.networks)
            attachments.append(Attachment(host.name, f"eth{number}", segment, tuple(addresses)))
    return segments, attachments


def _interfaces(host: Host, declared: Sequence[Network]) -> list[list[Interface]]:
    by_network: dict[Network, list[Interface]] = {}
    for address in host.addresses:
        network = declared_or_derived(address, declared)
        interface = parse_interface(f"{address}/{network.prefixlen}")
        assert interface is not None
        by_network.setdefault(network, []).append(interface)
    first = [group for network, group in by_network.items() if network.version == 4]
    second = [group for network, group in by_network.items() if network.version == 6]
    count = max(len(first), len(second))
    return [
        [*(first[number] if number < len(first) else []), *(second[number] if number < len(second) else [])]
        for number in range(count)
    ]


def _segments(
    groups: Sequence[tuple[Host, list[list[Interface]]]], declared: dict[Side, list[Network]]
) -> list[Segment]:
    segments: list[Segment] = []

    def add(networks: list[Network], side: Side) -> None:
        touching = [
            each for each in segments if any(_overlap(one, other) for one in networks for other in each.networks)
        ]
        merged = touching[0] if touching else Segment("", side)
        for other in touching[1:]:
            merged.networks += other.networks
            segments.remove(other)
        if not touching:
            segments.append(merged)
        merged.networks += [network for network in networks if network not in merged.networks]

    for side, declared_networks in declared.items():
        if declared_networks:
            add(list(declared_networks), side)
    for host, interfaces in groups:
        for addresses in interfaces:
            add([each.network for each in addresses], host.side)
    counts: dict[Side, int] = {"client": 0, "node": 0}
    for segment in segments:
        segment.bridge = f"{segment.side}s{counts[segment.side]}"
        counts[segment.side] += 1
    return segments


def _overlap(one: Network, other: Network) -> bool:
    if isinstance(one, IPv4Network):
        return isinstance(other, IPv4Network) and one.overlaps(other)
    return isinstance(other, IPv6Network) and one.overlaps(other)
