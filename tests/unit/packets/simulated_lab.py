"""The simulated lab: places with their interfaces, routes and rules, as the lab of ``record.py`` has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_interface, ip_network
from typing import Literal

from netlab.model.topology import Interface, InterfaceKind, Peer, Place, PlaceKind, Topology
from tests.unit.packets.rules import RuleSet, Service, When, node_rules, trace_rules
from tests.unit.packets.wire import SCTP, TCP, UDP

CLIENT, ROUTER, NODE_A, NODE_B = "client", "router", "node-a", "node-b"
OTHER_CLIENT = "client-2"
WEB_1, WEB_2, WEB_3, CURL = "default/web-1", "default/web-2", "default/web-3", "default/curl"


@dataclass(frozen=True)
class Setup:
    """How the lab is built. ``neighbours_known``: a node has resolved the addresses on its bridge before;
    ``ports_known``: bridges have learnt which MAC is behind which port."""

    family: int = 4
    wiring: Literal["bridge", "ptp"] = "bridge"
    bridge_netfilter: bool = True
    hairpin: bool = True
    between_nodes: Literal["routed", "vxlan"] = "routed"
    neighbours_known: bool = True
    ports_known: bool = True


@dataclass(eq=False)
class Host:
    """A place. ``tracking``: conntrack works there."""

    name: str
    kind: PlaceKind
    rules: RuleSet
    node: str | None = None
    interfaces: dict[str, Interface] = field(default_factory=dict)
    routes: list[tuple[str, str | None, str]] = field(default_factory=list)
    listens: set[tuple[int, int]] = field(default_factory=set)
    tracking: bool = False
    bridge_netfilter: bool = False
    forwards: bool = False

    def addresses(self) -> frozenset[str]:
        found = {text.partition("/")[0] for each in self.interfaces.values() for text in each.addresses}
        return frozenset(found)

    def address_on(self, device: str, family: int) -> str:
        texts = (text.partition("/")[0] for text in self.interfaces[device].addresses)
        return next(text for text in texts if (":" in text) == (family == 6))

    def route(self, destination: str) -> tuple[str | None, str] | None:
        """Next hop (None: on the link) and device, by the longest match."""
        if destination in self.addresses() or destination.startswith("127."):
            return None, "lo"
        matches = [
            (ip_network(prefix).prefixlen, via, device)
            for prefix, via, device in self.routes
            if ip_address(destination) in ip_network(prefix)
        ]
        if not matches:
            return None
        _, via, device = max(matches, key=lambda match: match[0])
        return via, device


def build(setup: Setup, services: tuple[Service, ...], traced: When, choose: Callable[[int], int]) -> dict[str, Host]:
    """All places by name. ``traced`` are the packets that the lab has the kernel trace; ``choose`` picks one of so many
    endpoints."""
    builder = _Builder(setup, services, traced, choose)
    builder.build()
    return builder.hosts


def topology(hosts: dict[str, Host]) -> Topology:
    """The places as the lab tells them."""
    return Topology(
        {
            host.name: Place(
                name=host.name,
                kind=host.kind,
                node=host.node,
                bridge_netfilter=host.bridge_netfilter,
                interfaces=tuple(host.interfaces.values()),
            )
            for host in hosts.values()
        }
    )


class _Builder:
    """The lab's places and links."""

    def __init__(self, setup: Setup, services: tuple[Service, ...], traced: When, choose: Callable[[int], int]) -> None:
        self.hosts: dict[str, Host] = {}
        self.setup = setup
        self.services = services
        self.traced = traced
        self.choose = choose
        self.six = setup.family == 6
        self._macs = 0

    def build(self) -> None:
        self._host(ROUTER, "router", forwards=True)
        self._interface(ROUTER, "clients0", "bridge", self._pick("192.168.1.1/24", "fd00:1::1/64"))
        self._interface(ROUTER, "nodes0", "bridge", self._pick("192.168.60.1/24", "fd00:60::1/64"))
        self._edge(CLIENT, "client", "clients0", self._pick("192.168.1.100/24", "fd00:1::100/64"))
        self._edge(OTHER_CLIENT, "client", "clients0", self._pick("192.168.1.101/24", "fd00:1::101/64"))
        self._edge(NODE_A, "node", "nodes0", self._pick("192.168.60.123/24", "fd00:60::a/64"))
        self._edge(NODE_B, "node", "nodes0", self._pick("192.168.60.124/24", "fd00:60::b/64"))
        for node, other in ((NODE_A, NODE_B), (NODE_B, NODE_A)):
            self._node(node, other)
        for name, node, address in (
            (WEB_1, NODE_A, self._pick("10.200.1.2", "fd00:200:1::2")),
            (WEB_2, NODE_A, self._pick("10.200.1.3", "fd00:200:1::3")),
            (CURL, NODE_A, self._pick("10.200.1.10", "fd00:200:1::10")),
            (WEB_3, NODE_B, self._pick("10.200.2.20", "fd00:200:2::20")),
        ):
            self._pod(name, node, address)

    def _pick(self, four: str, six: str) -> str:
        return six if self.six else four

    def _host(self, name: str, kind: PlaceKind, node: str | None = None, *, forwards: bool = False) -> Host:
        rules = trace_rules(self.traced)
        if kind == "node":
            cidr = self._pick("10.200.0.0/16", "fd00:200::/32")
            family = "ip6" if self.six else "ip"
            rules = node_rules(self.traced, name, family, cidr, self.services, self.choose)
        host = Host(name, kind, rules, node, forwards=forwards, tracking=kind == "node")
        host.bridge_netfilter = kind == "node" and self.setup.bridge_netfilter
        self.hosts[name] = host
        local = ("127.0.0.1/8", "::1/128")
        host.interfaces["lo"] = Interface(name="lo", index=1, kind="loopback", mac="00:00:00:00:00:00", addresses=local)
        return host

    def _interface(
        self,
        place: str,
        name: str,
        kind: InterfaceKind,
        address: str | None = None,
        peer: Peer | None = None,
        master: str | None = None,
    ) -> None:
        host = self.hosts[place]
        self._macs += 1
        mac = f"0a:58:00:00:{self._macs >> 8:02x}:{self._macs & 0xFF:02x}"
        addresses = (address,) if address is not None else ()
        host.interfaces[name] = Interface(
            name=name,
            index=len(host.interfaces) + 1,
            kind=kind,
            mac=mac,
            addresses=addresses,
            peer=peer,
            master=master,
            hairpin=self.setup.hairpin if master == "cni0" else None,
        )
        if address is not None and ip_interface(address).network.num_addresses > 1:
            host.routes.append((str(ip_interface(address).network), None, name))

    def _edge(self, name: str, kind: PlaceKind, bridge: str, address: str) -> None:
        host = self._host(name, kind, name if kind == "node" else None, forwards=kind == "node")
        port = f"p-{name}"
        self._interface(name, "eth0", "veth", address, Peer(ROUTER, port))
        self._interface(ROUTER, port, "veth", None, Peer(name, "eth0"), bridge)
        gateway = self.hosts[ROUTER].address_on(bridge, self.setup.family)
        host.routes.append((self._pick("0.0.0.0/0", "::/0"), gateway, "eth0"))

    def _node(self, node: str, other: str) -> None:
        host = self.hosts[node]
        host.listens |= {(TCP, 8080), (UDP, 8080)}
        mine, theirs = ("1", "2") if node == NODE_A else ("2", "1")
        if self.setup.wiring == "bridge":
            self._interface(node, "cni0", "bridge", self._pick(f"10.200.{mine}.1/24", f"fd00:200:{mine}::1/64"))
        there = self._pick(f"10.200.{theirs}.0/24", f"fd00:200:{theirs}::/64")
        if self.setup.between_nodes == "vxlan":
            inner = self._pick(f"10.200.{mine}.0/32", f"fd00:200:{mine}::/128")
            self._interface(node, "vxlan1", "vxlan", inner)
            far = self._pick(f"10.200.{theirs}.0", f"fd00:200:{theirs}::")
            host.routes.append((there, far, "vxlan1"))
        else:
            via = self.hosts[other].address_on("eth0", self.setup.family)
            host.routes.append((there, via, "eth0"))
            self.hosts[ROUTER].routes.append((there, via, "nodes0"))

    def _pod(self, name: str, node: str, address: str) -> None:
        pod = self._host(name, "pod", node)
        pod.listens = {(TCP, 80), (UDP, 80)}
        if name == WEB_1:
            # Whether a kernel speaks SCTP is one setting for all; here one Pod's does.
            pod.listens.add((SCTP, 80))
        port = f"veth-{name.rpartition('/')[2]}"
        bridged = self.setup.wiring == "bridge"
        number = address.split(".")[2] if not self.six else address.split(":")[2]
        gateway = self._pick(f"10.200.{number}.1", f"fd00:200:{number}::1")
        width = self._pick("24", "64") if bridged else self._pick("32", "128")
        self._interface(name, "eth0", "veth", f"{address}/{width}", Peer(node, port))
        only = None if bridged else f"{gateway}/{self._pick('32', '128')}"
        self._interface(node, port, "veth", only, Peer(name, "eth0"), "cni0" if bridged else None)
        pod.routes.append((self._pick("0.0.0.0/0", "::/0"), gateway, "eth0"))
        if not bridged:
            pod.routes.append((f"{gateway}/{self._pick('32', '128')}", None, "eth0"))
            self.hosts[node].routes.append((f"{address}/{self._pick('32', '128')}", None, port))
