"""Follows a packet over a fabric plan as the kernel would: routes, neighbours, bridges, tunnels."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_network

from netlab.lab.plan import FabricPlan, PlaceSetup, VxlanPeer
from netlab.objects.ip import Address, Interface, Network

MOST_HOPS = 16


@dataclass(frozen=True)
class Way:
    """Out of ``device``, to the neighbour ``via`` (None: the destination itself is the neighbour)."""

    network: Network
    device: str
    via: Address | None = None


@dataclass
class Walker:
    """A plan with what is looked up in it again and again. Raises AssertionError for what the kernel would refuse."""

    plan: FabricPlan
    ways: dict[str, list[Way]] = field(default_factory=dict)
    own: dict[str, set[Address]] = field(default_factory=dict)
    wires: dict[tuple[str, str], int] = field(default_factory=dict)
    members: dict[int, list[tuple[str, str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for setup in self.plan.setups.values():
            self.own[setup.name] = {each.ip for _, each in setup.addresses}
            self.ways[setup.name] = ways_of(setup)
        self._find_wires()

    def _find_wires(self) -> None:
        """Interfaces on one wire: the ends of a veth pair, and a bridge with its ports."""
        pairs = [
            ((veth.one.place, veth.one.interface), (veth.other.place, veth.other.interface)) for veth in self.plan.veths
        ]
        for setup in self.plan.setups.values():
            pairs += [((setup.name, port), (setup.name, bridge)) for port, bridge in setup.ports]
        for number, end in enumerate(dict.fromkeys(end for pair in pairs for end in pair)):
            self.wires[end] = number
            self.members[number] = [end]
        for one, other in pairs:
            kept, gone = self.wires[one], self.wires[other]
            if kept != gone:
                for end in self.members.pop(gone):
                    self.wires[end] = kept
                    self.members[kept].append(end)

    def reaches(self, place: str, destination: Address) -> str | None:
        """The place where a packet to the destination arrives; None where it gets lost."""
        for hop in range(MOST_HOPS):
            if destination in self.own[place]:
                return place
            if hop and not self.plan.setups[place].forwards:
                return None
            way = self._way(place, destination)
            if way is None:
                return None
            following = self._neighbour(place, way, way.via or destination)
            if following is None:
                return None
            place = following
        return None

    def _way(self, place: str, destination: Address) -> Way | None:
        fitting = [way for way in self.ways[place] if destination in way.network]
        return max(fitting, key=lambda way: way.network.prefixlen, default=None)

    def _neighbour(self, place: str, way: Way, address: Address) -> str | None:
        """Who answers for an address on the device's wire: only who has it on that very interface (or its bridge)."""
        setup = self.plan.setups[place]
        if setup.vxlan is not None and way.device == setup.vxlan[0]:
            return self._through_tunnel(place, setup.vxlan_peers, address)
        for name, interface in self.members.get(self.wires.get((place, way.device), -1), ()):
            there = self.plan.setups[name]
            if name != place and any(d == interface and each.ip == address for d, each in there.addresses):
                return name
        return None

    def _through_tunnel(self, place: str, peers: list[VxlanPeer], address: Address) -> str | None:
        for peer in peers:
            if peer.inner == address:
                far = self.reaches(place, peer.node)
                vxlan = self.plan.setups[far].vxlan if far is not None else None
                if vxlan is not None and vxlan[2] == peer.mac and vxlan[3] == peer.node:
                    return far
        return None


def ways_of(setup: PlaceSetup) -> list[Way]:
    """The routing table: networks of addresses, tunnels, then routes, whose gateway has to be a neighbour already."""
    ways = [Way(each.network, device) for device, each in setup.addresses if not is_host(each)]
    if setup.vxlan is not None:
        ways += [Way(host(peer.inner), setup.vxlan[0]) for peer in setup.vxlan_peers]
        ways += [Way(peer.network, setup.vxlan[0], peer.inner) for peer in setup.vxlan_peers]
    for route in setup.routes:
        device = route.device
        if route.via is not None:
            neighbours = [way for way in ways if way.via is None and route.via in way.network]
            assert neighbours, f"{setup.name}: {route} has no gateway that is a neighbour"
            assert route.via not in {each.ip for _, each in setup.addresses}, f"{setup.name}: {route} to itself"
            device = device or max(neighbours, key=lambda way: way.network.prefixlen).device
        assert device in setup.indexes, f"{setup.name}: {route} leads nowhere"
        ways.append(Way(route.destination, device, route.via))
    keys = [(way.network, way.device if way.via is None else "") for way in ways]
    assert len(set(keys)) == len(keys), f"{setup.name}: two routes to one network"
    return ways


def is_host(interface: Interface) -> bool:
    return interface.network.prefixlen == interface.max_prefixlen


def host(address: Address) -> Network:
    return ip_network(f"{address}/{address.max_prefixlen}")
