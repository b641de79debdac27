"""The lab's load balancer at work: it gives Services their addresses, and has somebody answer for these.

In mode l2 a speaker process on each node does (:mod:`netlab.node.l2_announcer`), in mode proxy a box on the node
network with the balancer's process in it (:mod:`netlab.node.balancer_box`).
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address, ip_interface, ip_network
from typing import Any, Literal

import msgspec

from netlab.cluster.load_balancer import announcements, assign, frontends
from netlab.cluster.store import Event, Store
from netlab.kernel import rtnetlink
from netlab.lab.fabric import Fabric
from netlab.lab.plan import ROUTER, ClientPlan
from netlab.model import jsonrpc
from netlab.model.text import Text
from netlab.model.topology import Interface, Place, Topology
from netlab.node.balancing import BOX, SPEAKER
from netlab.node.zygote import Zygote
from netlab.objects.endpointslice import EndpointSlice
from netlab.objects.ip import Address, Network, parse_cidr
from netlab.objects.labspec import LabLoadBalancer
from netlab.objects.node import Node
from netlab.objects.service import Service

BOX_PLACE = "load-balancer"
"""The name of the box's place."""

Json = dict[str, Any]

_TOUCHING = ("Service", "EndpointSlice", "Node")


@dataclass(frozen=True)
class LoadBalancerPlan:
    """What ``spec.loadBalancer`` comes to. ``box``: the place that mode proxy needs on the node network, with an
    address of its own, the last one of the pool that is free."""

    mode: Literal["l2", "proxy"]
    pool: tuple[Network, ...]
    box: ClientPlan | None = None


def plan_load_balancer(spec: LabLoadBalancer, taken: Iterable[Address]) -> LoadBalancerPlan | None:
    """None for mode none. ``taken``: addresses of nodes and clients. The values are valid already."""
    pool = parse_cidr(spec.pool)
    if spec.mode not in ("l2", "proxy") or pool is None:
        return None
    if spec.mode == "l2":
        return LoadBalancerPlan("l2", (pool,))
    used = set(taken)
    last = pool.network_address + (pool.num_addresses - 1)
    own = next((ip for ip in (last - back for back in range(min(pool.num_addresses, 256))) if ip not in used), last)
    return LoadBalancerPlan("proxy", (pool,), ClientPlan(BOX_PLACE, (own,)))


def with_addresses(
    values: Iterable[Json], plan: LoadBalancerPlan, taken: Mapping[Address, str]
) -> tuple[list[Json], list[Text]]:
    """Those of the Services whose addresses change, with their new status, and why others get none."""
    known = {(each["metadata"].get("namespace", ""), each["metadata"]["name"]): each for each in values}
    others = {**taken, **dict.fromkeys(plan.box.addresses if plan.box else (), BOX_PLACE)}
    made = assign([msgspec.convert(each, Service) for each in known.values()], plan.pool, plan.mode, others)
    changed = []
    for key, ingress in made.ingress.items():
        value = known[key.namespace, key.name]
        status = {"ingress": msgspec.to_builtins(ingress)} if ingress else {}
        changed.append({**value, "status": {**(value.get("status") or {}), "loadBalancer": status}})
    return changed, list(made.refused.values())


class LoadBalancing:
    """One lab's load balancer. Register :meth:`note` with the store, and call :meth:`reconcile` after changes."""

    def __init__(self, store: Store, plan: LoadBalancerPlan, zygote: Zygote) -> None:
        self.store = store
        self.plan = plan
        self.zygote = zygote
        self.refused: list[Text] = []
        self._dirty = True
        self._fabric: Fabric | None = None
        self._topology = Topology({})
        self._speakers: dict[tuple[str, str], _Control] = {}
        self._box: _Control | None = None
        self._on_box: set[str] = set()

    def note(self, event: Event) -> None:
        """Remember that a change may matter."""
        if event.object["kind"] in _TOUCHING:
            self._dirty = True

    def start(self, fabric: Fabric, topology: Topology) -> None:
        """The fabric is there, and Services with their slices are in the store."""
        self._fabric, self._topology = fabric, topology
        router = topology.places[ROUTER]
        for pool in self.plan.pool:
            if not any(pool.network_address in network for network in _networks(router)):
                # The router takes the pool for a part of the first node network: it asks there for its addresses.
                bridge = next(each for each in router.interfaces if each.name.startswith("node"))
                if self.plan.mode == "l2":
                    fabric.run(ROUTER, [rtnetlink.route(pool, index=bridge.index, what=ROUTER)])
        self.reconcile()

    def close(self) -> None:
        """Let its processes end: nobody answers for the addresses any more."""
        for control in (*self._speakers.values(), *([self._box] if self._box is not None else ())):
            control.connection.close()
        self._speakers, self._box = {}, None

    def reconcile(self) -> None:
        """Give addresses to Services that want one, and tell those who answer for them."""
        if not self._dirty:
            return
        self._assign()
        if self._fabric is None:
            return
        services = [msgspec.convert(value, Service) for value in self.store.list("Service")]
        nodes = [msgspec.convert(value, Node) for value in self.store.list("Node")]
        if self.plan.mode == "l2":
            slices = [msgspec.convert(value, EndpointSlice) for value in self.store.list("EndpointSlice")]
            self._announce(announcements(services, slices, nodes))
        else:
            self._serve(services, nodes)
        self._dirty = False

    def _assign(self) -> None:
        """Write the statuses of Services."""
        places = self._topology.places.values()
        taken = {ip_address(ip): place.name for place in places for ip in place.own_addresses()}
        changed, self.refused = with_addresses(self.store.list("Service"), self.plan, taken)
        for value in changed:
            self.store.put(value)

    def _announce(self, wanted: Mapping[str, list[str]]) -> None:
        """Tell the speakers of all nodes; each link that an address belongs to has its own."""
        by_link: dict[tuple[str, str], list[str]] = {link: [] for link in self._speakers}
        for node, ips in wanted.items():
            place = self._topology.places.get(node)
            for ip in ips if place is not None else ():
                assert place is not None
                by_link.setdefault((node, _link_of(place, ip).name), []).append(ip)
        # Who gives an address up is told first: two that answer would be worse than none for a moment.
        for link in sorted(by_link, key=lambda link: len(by_link[link])):
            if link not in self._speakers:
                self._speakers[link] = self._start_speaker(*link)
            self._speakers[link].tell("announce", {"addresses": by_link[link]})

    def _start_speaker(self, node: str, interface: str) -> _Control:
        link = self._topology.places[node].interface(interface)
        assert link is not None
        return self._start(SPEAKER, node, {"interface": interface, "mac": link.mac})

    def _serve(self, services: list[Service], nodes: list[Node]) -> None:
        """Give the box its addresses, and tell it what to serve."""
        wanted = frontends(services, nodes)
        place = self._topology.places[BOX_PLACE]
        new = sorted({each.ip for each in wanted} - self._on_box)
        assert self._fabric is not None
        self._fabric.run(
            BOX_PLACE,
            (
                rtnetlink.address(link.index, ip_interface(ip), f"{BOX_PLACE}/{link.name}")
                for ip in new
                for link in [_link_of(place, ip)]
            ),
        )
        self._on_box.update(new)
        if self._box is None:
            self._box = self._start(BOX, BOX_PLACE, {"place": BOX_PLACE})
        self._box.tell("serve", {"frontends": msgspec.to_builtins(wanted)})

    def _start(self, kind: str, place: str, given: Mapping[str, Any]) -> _Control:
        assert self._fabric is not None
        ours, theirs = socket.socketpair()
        with theirs:
            self.zygote.spawn(kind, given, [self._fabric.namespaces[place].descriptor, theirs.fileno()])
        return _Control(ours)


class _Control:
    """The engine's end of a control connection: tells what has changed."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._last = b""

    def tell(self, method: str, params: Mapping[str, Any]) -> None:
        line = jsonrpc.notification(method, params)
        if line != self._last:
            self._last = line
            # A process that has been killed hears nothing; its addresses go unanswered, as they would.
            with suppress(ConnectionError):
                self.connection.sendall(line)


def _networks(place: Place) -> list[Network]:
    return [ip_network(text, strict=False) for each in place.interfaces for text in each.addresses]


def _link_of(place: Place, ip: str) -> Interface:
    """The place's interface that the address belongs to: in whose network it is, else the first one outside."""
    address = ip_address(ip)
    outside = [each for each in place.interfaces if each.kind == "veth" and each.name.startswith("eth")]
    inside = (each for each in outside for text in each.addresses if address in ip_network(text, strict=False))
    return next(inside, outside[0])
