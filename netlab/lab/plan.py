"""What the fabric is to be: places, links, addresses, routes and settings, worked out before anything is made.

Pure: from nodes, clients and Pods with their addresses to values that ``netlab.lab.fabric`` carries out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_network
from itertools import count
from typing import Literal

from netlab.lab.networks import Attachment, Host, Segment, Side, attach
from netlab.model.keys import ObjectKey
from netlab.model.topology import Interface, InterfaceKind, Peer, Place, PlaceKind, Topology
from netlab.objects.ip import Address, Network, parse_interface
from netlab.objects.ip import Interface as AddressWithPrefix

ROUTER = "router"
POD_BRIDGE = "cni0"
VXLAN = "vxlan1"
VXLAN_IDENTIFIER = 1
VXLAN_PORT = 4789
VXLAN_MTU = 1450
LONGEST_NAME = 15
"""Characters of an interface's name (IFNAMSIZ, less the end mark)."""


@dataclass(frozen=True)
class NodePlan:
    """A node: its addresses outside, primary first, and its ranges for Pods (at most one of each family)."""

    name: str
    addresses: tuple[Address, ...]
    pod_cidrs: tuple[Network, ...]

    def gateways(self) -> tuple[AddressWithPrefix, ...]:
        """The first address of each Pod range behind that of the range itself, which the node has."""
        found = (parse_interface(f"{cidr[min(1, cidr.num_addresses - 1)]}/{cidr.prefixlen}") for cidr in self.pod_cidrs)
        return tuple(each for each in found if each is not None)

    def address(self, version: int) -> Address | None:
        return next((each for each in self.addresses if each.version == version), None)


@dataclass(frozen=True)
class PodPlan:
    """A Pod with a network namespace of its own (Pods on their node's network have none)."""

    key: ObjectKey
    node: str
    addresses: tuple[Address, ...]

    @property
    def place(self) -> str:
        return self.key.path


@dataclass(frozen=True)
class ClientPlan:
    name: str
    addresses: tuple[Address, ...]


@dataclass(frozen=True)
class Wiring:
    """How Pods are wired and how nodes reach each other; see the Lab document."""

    pods: Literal["bridge", "ptp"] = "bridge"
    hairpin: bool = True
    bridge_netfilter: bool = True
    between_nodes: Literal["routed", "vxlan"] = "routed"


@dataclass(frozen=True)
class Route:
    """A route: ``via`` a gateway, out of the interface ``device``, or both."""

    destination: Network
    via: Address | None = None
    device: str | None = None


@dataclass(frozen=True)
class End:
    """One end of a veth pair."""

    place: str
    interface: str
    index: int
    mac: str


@dataclass(frozen=True)
class Veth:
    one: End
    other: End
    mtu: int | None = None


@dataclass(frozen=True)
class VxlanPeer:
    """Another node as a VXLAN device sees it: where its Pods are, and where frames for it go."""

    network: Network
    inner: Address
    mac: str
    node: Address


@dataclass
class PlaceSetup:
    """All that is done inside one place, besides the links that lead out of it."""

    name: str
    kind: PlaceKind
    node: str | None = None
    bridges: list[tuple[str, int, str]] = field(default_factory=list)
    ports: list[tuple[str, str]] = field(default_factory=list)
    hairpin: list[tuple[str, bool]] = field(default_factory=list)
    addresses: list[tuple[str, AddressWithPrefix]] = field(default_factory=list)
    routes: list[Route] = field(default_factory=list)
    forwards: bool = False
    bridge_netfilter: bool = False
    vxlan: tuple[str, int, str, Address] | None = None
    vxlan_peers: list[VxlanPeer] = field(default_factory=list)
    indexes: dict[str, int] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    """Interfaces that were there; their names and numbers are not given again."""

    def interface_name(self, index: int) -> str:
        """The interface with that index; "if7" for one that is not in the plan."""
        names = ("lo", *self.indexes)
        return names[index - 1] if 0 < index <= len(names) else f"if{index}"

    def new_index(self, interface: str) -> int:
        self.indexes[interface] = len(self.indexes) + 2
        return self.indexes[interface]


@dataclass
class FabricPlan:
    """The whole fabric: set-ups by place, and the veth pairs between places."""

    setups: dict[str, PlaceSetup]
    veths: list[Veth]
    segments: list[Segment]
    attachments: list[Attachment]
    nodes: dict[str, NodePlan]
    wiring: Wiring

    def tunnel_address(self, node: NodePlan) -> Address:
        """Where other nodes send what goes to a node's Pods through the VXLAN: all in one family, if they share one."""
        first = next(iter(self.nodes.values()))
        for version in dict.fromkeys(each.version for each in first.addresses):
            if all(each.address(version) is not None for each in self.nodes.values()):
                return next(each for each in node.addresses if each.version == version)
        return node.addresses[0]

    def topology(self) -> Topology:
        """The plan as others see it."""
        peers: dict[tuple[str, str], Peer] = {}
        macs: dict[tuple[str, str], str] = {}
        for veth in self.veths:
            for end, far in ((veth.one, veth.other), (veth.other, veth.one)):
                peers[end.place, end.interface] = Peer(far.place, far.interface)
                macs[end.place, end.interface] = end.mac
        places = {setup.name: _place(setup, peers, macs) for setup in self.setups.values()}
        return Topology(places)


def _place(setup: PlaceSetup, peers: dict[tuple[str, str], Peer], macs: dict[tuple[str, str], str]) -> Place:
    bridges = {name: mac for name, _, mac in setup.bridges}
    masters = dict(setup.ports)
    hairpin = dict(setup.hairpin)
    interfaces = [
        Interface(name="lo", index=1, kind="loopback", mac="00:00:00:00:00:00", addresses=("127.0.0.1/8", "::1/128"))
    ]
    for name, index in setup.indexes.items():
        if name in setup.gone:
            continue
        kind: InterfaceKind = "veth"
        mac = macs.get((setup.name, name), "")
        if name in bridges:
            kind, mac = "bridge", bridges[name]
        elif setup.vxlan is not None and name == setup.vxlan[0]:
            kind, mac = "vxlan", setup.vxlan[2]
        interfaces.append(
            Interface(
                name=name,
                index=index,
                kind=kind,
                mac=mac,
                addresses=tuple(str(address) for device, address in setup.addresses if device == name),
                peer=peers.get((setup.name, name)),
                master=masters.get(name),
                hairpin=hairpin.get(name),
            )
        )
    return Place(
        name=setup.name,
        kind=setup.kind,
        node=setup.node,
        bridge_netfilter=setup.bridge_netfilter,
        interfaces=tuple(interfaces),
    )


def plan_fabric(
    nodes: Sequence[NodePlan],
    clients: Sequence[ClientPlan],
    declared: dict[Side, list[Network]],
    wiring: Wiring,
    box: ClientPlan | None = None,
) -> FabricPlan:
    """Work the fabric out, without Pods (:func:`plan_pod` adds them). ``box``: a further host on the node network.

    The values are valid already: every address has its network, none is taken twice.
    """
    hosts = [Host(client.name, "client", client.addresses) for client in clients]
    hosts += [Host(node.name, "node", node.addresses) for node in nodes]
    boxes = [box] if box is not None else []
    hosts += [Host(each.name, "node", each.addresses) for each in boxes]
    segments, attachments = attach(hosts, declared)
    plan = FabricPlan({}, [], segments, attachments, {node.name: node for node in nodes}, wiring)
    plan.setups[ROUTER] = PlaceSetup(ROUTER, "router", forwards=True)
    for client in (*clients, *boxes):
        plan.setups[client.name] = PlaceSetup(client.name, "client")
    for node in nodes:
        plan.setups[node.name] = PlaceSetup(
            node.name, "node", node=node.name, forwards=True, bridge_netfilter=wiring.bridge_netfilter
        )
    _plan_router(plan)
    for attachment in attachments:
        _plan_attachment(plan, attachment)
    for node in nodes:
        _plan_node(plan, node)
    _plan_ways_to_pods(plan)
    return plan


def _plan_router(plan: FabricPlan) -> None:
    router = plan.setups[ROUTER]
    for segment in plan.segments:
        addresses = [parse_interface(f"{ip}/{network.prefixlen}") for network, ip in segment.router.items()]
        kept = [each for each in addresses if each is not None]
        mac = mac_for(kept[0].ip if kept else None, ROUTER, segment.bridge)
        router.bridges.append((segment.bridge, router.new_index(segment.bridge), mac))
        router.addresses += [(segment.bridge, each) for each in kept]


def _plan_attachment(plan: FabricPlan, attachment: Attachment) -> None:
    """A host's interface on its wire, and its default route to the router."""
    router, host = plan.setups[ROUTER], plan.setups[attachment.host]
    suffix = "" if attachment.interface == "eth0" else f"_{attachment.interface[3:]}"
    port = short_name("p-", f"{attachment.host}{suffix}", router.indexes)
    mac = mac_for(attachment.addresses[0].ip, attachment.host, attachment.interface)
    plan.veths.append(
        Veth(
            End(host.name, attachment.interface, host.new_index(attachment.interface), mac),
            End(ROUTER, port, router.new_index(port), mac_for(None, ROUTER, port)),
        )
    )
    router.ports.append((port, attachment.segment.bridge))
    host.addresses += [(attachment.interface, each) for each in attachment.addresses]
    for each in attachment.addresses:
        gateway = attachment.segment.router.get(each.network)
        default = ip_network("0.0.0.0/0" if each.version == 4 else "::/0")
        if gateway is not None and all(route.destination != default for route in host.routes):
            host.routes.append(Route(default, via=gateway))


def _plan_node(plan: FabricPlan, node: NodePlan) -> None:
    """The bridge for Pods (wiring ptp needs none), and the VXLAN device."""
    setup, wiring = plan.setups[node.name], plan.wiring
    if wiring.pods == "bridge":
        gateways = node.gateways()
        mac = mac_for(gateways[0].ip if gateways else None, node.name, POD_BRIDGE)
        setup.bridges.append((POD_BRIDGE, setup.new_index(POD_BRIDGE), mac))
        setup.addresses += [(POD_BRIDGE, each) for each in gateways]
    if wiring.between_nodes == "vxlan" and node.pod_cidrs:
        inner = [parse_interface(f"{cidr.network_address}/{cidr.max_prefixlen}") for cidr in node.pod_cidrs]
        mac = mac_for(None, node.name, VXLAN)
        setup.vxlan = (VXLAN, setup.new_index(VXLAN), mac, plan.tunnel_address(node))
        setup.addresses += [(VXLAN, each) for each in inner if each is not None]


def _plan_ways_to_pods(plan: FabricPlan) -> None:
    """How nodes and router reach the Pods of a node: over its address, or through the VXLAN."""
    for node in plan.nodes.values():
        for cidr in node.pod_cidrs:
            for other in plan.nodes.values():
                if other is node:
                    continue
                if plan.wiring.between_nodes == "vxlan":
                    far = plan.setups[node.name].vxlan
                    assert far is not None
                    peer = VxlanPeer(cidr, cidr.network_address, far[2], far[3])
                    plan.setups[other.name].vxlan_peers.append(peer)
                else:
                    _add_way(plan.setups[other.name], cidr, node)
            if plan.wiring.between_nodes == "routed":
                _add_way(plan.setups[ROUTER], cidr, node)


def _add_way(setup: PlaceSetup, destination: Network, node: NodePlan) -> None:
    """A route to ``destination`` via the node's address, where that is a neighbour's; the router knows the others."""
    via = node.address(destination.version)
    if via is not None and any(via in each.network for _, each in setup.addresses):
        setup.routes.append(Route(destination, via=via))


def plan_pod(plan: FabricPlan, pod: PodPlan) -> None:
    """A Pod's namespace and its veth pair, and ways to it where its address is outside its node's ranges."""
    node, setup = plan.nodes[pod.node], plan.setups[pod.node]
    inside = PlaceSetup(pod.place, "pod", node=pod.node)
    plan.setups[pod.place] = inside
    port = short_name("veth", hashlib.sha256(pod.place.encode()).hexdigest()[:8], setup.indexes)
    mtu = VXLAN_MTU if plan.wiring.between_nodes == "vxlan" else None
    mac = mac_for(pod.addresses[0] if pod.addresses else None, pod.place, "eth0")
    plan.veths.append(
        Veth(
            End(pod.place, "eth0", inside.new_index("eth0"), mac),
            End(pod.node, port, setup.new_index(port), mac_for(None, pod.node, port)),
            mtu,
        )
    )
    bridged = plan.wiring.pods == "bridge"
    if bridged:
        setup.ports.append((port, POD_BRIDGE))
        setup.hairpin.append((port, plan.wiring.hairpin))
    for address in pod.addresses:
        gateway = next((each for each in node.gateways() if each.version == address.version), None)
        if gateway is None:
            continue
        in_range = address in gateway.network
        host_route = ip_network(f"{address}/{address.max_prefixlen}")
        prefix = gateway.network.prefixlen if bridged and in_range else address.max_prefixlen
        own = parse_interface(f"{address}/{prefix}")
        assert own is not None
        inside.addresses.append(("eth0", own))
        if prefix == address.max_prefixlen:
            inside.routes.append(Route(ip_network(f"{gateway.ip}/{address.max_prefixlen}"), device="eth0"))
        inside.routes.append(Route(ip_network("0.0.0.0/0" if address.version == 4 else "::/0"), via=gateway.ip))
        if not bridged:
            gateway_only = parse_interface(f"{gateway.ip}/{address.max_prefixlen}")
            assert gateway_only is not None
            setup.addresses.append((port, gateway_only))
            setup.routes.append(Route(host_route, device=port))
        elif not in_range:
            setup.routes.append(Route(host_route, device=POD_BRIDGE))
        if not in_range:
            for other in (*plan.nodes.values(), None):
                if other is not node:
                    _add_way(plan.setups[other.name if other else ROUTER], host_route, node)


def forget_pod(plan: FabricPlan, place: str) -> dict[str, list[Route]]:
    """Take a Pod out of the plan; returns the routes that led to it from elsewhere, by place.

    What hangs on its link goes with the link.
    """
    veth = next(each for each in plan.veths if each.one.place == place)
    plan.veths.remove(veth)
    own = {each.ip for _, each in plan.setups.pop(place).addresses}
    setup, port = plan.setups[veth.other.place], veth.other.interface
    setup.gone.add(port)
    setup.ports = [each for each in setup.ports if each[0] != port]
    setup.hairpin = [each for each in setup.hairpin if each[0] != port]
    setup.addresses = [each for each in setup.addresses if each[0] != port]
    setup.routes = [each for each in setup.routes if each.device != port]
    ways: dict[str, list[Route]] = {}
    for other in plan.setups.values():
        ways[other.name] = [each for each in other.routes if _is_for_one_of(each, own)]
        other.routes = [each for each in other.routes if not _is_for_one_of(each, own)]
    return ways


def _is_for_one_of(route: Route, addresses: Container[Address]) -> bool:
    network = route.destination
    return network.prefixlen == network.max_prefixlen and network.network_address in addresses


def mac_for(address: Address | None, place: str, interface: str) -> str:
    """A MAC that tells its IPv4 address, as the CNI bridge plugin used to make them; else one made from the names."""
    if address is not None and address.version == 4:
        tail = address.packed
    else:
        tail = hashlib.sha256(f"{place}/{interface}".encode()).digest()[:4]
    first = b"\x0a\x58" if address is not None and address.version == 4 else b"\x0a\x59"
    return ":".join(f"{byte:02x}" for byte in first + tail)


def short_name(prefix: str, name: str, taken: Container[str] = ()) -> str:
    """An interface name of at most 15 characters that is not ``taken``: the name where it fits, else its end replaced
    by a hash."""
    full = f"{prefix}{name}".replace("/", "-")
    if len(full) <= LONGEST_NAME and full not in taken:
        return full
    for attempt in count():
        digest = hashlib.sha256(f"{name}{attempt or ''}".encode()).hexdigest()[:4]
        short = f"{full[: LONGEST_NAME - 5]}-{digest}"
        if short not in taken:
            break
    return short
