"""The fabric made real: namespaces, links, addresses, routes, settings, in few exchanges with the kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import ip_network

from netlab.kernel import netns, rtnetlink, sysctl
from netlab.kernel.netlink import NETLINK_ROUTE, NetlinkSocket, Request
from netlab.kernel.netns import NetNamespace
from netlab.lab.plan import VXLAN_IDENTIFIER, VXLAN_PORT, FabricPlan, PlaceSetup, Route, Veth, forget_pod
from netlab.model.errors import MachineCannot
from netlab.model.text import Message

NO_BRIDGE_NETFILTER = Message(
    "fabric.no-br-netfilter",
    en="This kernel has the module br_netfilter not loaded, which podWiring bridge with bridgeNetfilter needs: "
    "'modprobe br_netfilter' as root, or 'podWiring: ptp' in the Lab document.",
    zh="内核没有加载模块 br_netfilter，而启用 bridgeNetfilter 的 podWiring: bridge 需要它：请以 root 执行 "
    "'modprobe br_netfilter'，或在 Lab 文档中使用 'podWiring: ptp'。",
)

_EVERYWHERE = {
    "net/ipv4/conf/all/rp_filter": 0,
    "net/ipv4/conf/default/rp_filter": 0,
    # A probe is to be told each time that there is no way, not once a second.
    "net/ipv4/icmp_ratelimit": 0,
}
_IPV6_EVERYWHERE = {
    "net/ipv6/conf/all/disable_ipv6": 0,
    "net/ipv6/conf/default/disable_ipv6": 0,
    "net/ipv6/conf/default/accept_dad": 0,
    "net/ipv6/conf/default/accept_ra": 0,
    "net/ipv6/conf/default/autoconf": 0,
    "net/ipv6/conf/default/router_solicitations": 0,
    "net/ipv6/icmp/ratelimit": 0,
}
_FORWARDING = {
    "net/ipv4/ip_forward": 1,
    "net/ipv4/conf/all/send_redirects": 0,
    "net/ipv4/conf/default/send_redirects": 0,
}
NEIGHBOUR_RETRY_MS = 250
"""A host that does not answer three questions is unreachable: after 750 ms, within a probe's time-out. (The kernel's
own setting is a second for each.)"""
_BRIDGE_CALLS = ("net/bridge/bridge-nf-call-iptables", "net/bridge/bridge-nf-call-ip6tables")


@dataclass
class _Done:
    """How much of a place's set-up is in the kernel already: the length of each of its lists."""

    links: int = 0
    ports: int = 0
    hairpin: int = 0
    addresses: int = 0
    routes: int = 0


class Fabric:
    """The namespaces of a lab by place, each with a route socket inside."""

    def __init__(self) -> None:
        self.namespaces: dict[str, NetNamespace] = {}
        self._routes: dict[str, NetlinkSocket] = {}
        self._home = NetlinkSocket(NETLINK_ROUTE)
        self._done: dict[str, _Done] = {}
        self._veths_done = 0
        self._unwired: list[str] = []

    def build(self, plan: FabricPlan) -> None:
        """Make what the plan has and the fabric does not have yet; plans only grow (:func:`netlab.lab.plan.plan_pod`).

        Raises :class:`NetlinkError` or :class:`MachineCannot`; the sandbox's end cleans up.
        """
        self.make_places(plan)
        self._home.run(self._veth_request(veth) for veth in plan.veths[self._veths_done :])
        self._veths_done = len(plan.veths)
        # After the links to the outside, as on any node: what leaves by loopback is masqueraded to the first address of
        # the first link.
        for name in self._unwired:
            bridges = plan.setups[name].bridges
            self._routes[name].run(rtnetlink.bridge(bridge, index, mac) for bridge, index, mac in bridges)
        self._unwired.clear()
        for setup in plan.setups.values():
            self._configure(setup)

    def make_places(self, plan: FabricPlan) -> None:
        """Make the namespaces of the plan that are not there yet, without links: processes can start in them.

        Raises as :meth:`build`, which does this first.
        """
        new = [setup for setup in plan.setups.values() if setup.name not in self.namespaces]
        for namespace in netns.create([setup.name for setup in new]):
            self.namespaces[namespace.name] = namespace
        for setup in new:
            with self.namespaces[setup.name].entered():
                _apply_settings(setup)
                self._routes[setup.name] = NetlinkSocket(NETLINK_ROUTE)
        self._unwired += [setup.name for setup in new]

    def _veth_request(self, veth: Veth) -> Request:
        one, other = veth.one, veth.other
        return rtnetlink.veth(
            one.interface,
            one.index,
            one.mac,
            self.namespaces[one.place].descriptor,
            other.interface,
            other.index,
            other.mac,
            self.namespaces[other.place].descriptor,
            veth.mtu,
        )

    def _configure(self, setup: PlaceSetup) -> None:
        """Set up inside a place what has been added to its plan since the last time."""
        done = self._done.get(setup.name)
        if done is not None and done == _all_of(setup):
            return
        links = list(setup.indexes.items())[done.links if done is not None else 0 :]
        self._routes[setup.name].run(_inside_requests(setup, done))
        with self.namespaces[setup.name].entered(), rtnetlink.generic_socket() as generic:
            family = rtnetlink.ethtool_family(generic)
            generic.run(rtnetlink.without_offloads(family, index, f"{setup.name}/{name}") for name, index in links)
        self._done[setup.name] = _all_of(setup)

    def remove_pod(self, plan: FabricPlan, place: str) -> None:
        """Take a Pod's namespace and its link away, and out of the plan."""
        veth = next(each for each in plan.veths if each.one.place == place)
        node = veth.other.place
        self.run(node, [rtnetlink.delete_link(veth.other.index, f"{node}/{veth.other.interface}")])
        for name, routes in forget_pod(plan, place).items():
            setup = plan.setups[name]
            self.run(name, [_route_request(setup, route, setup.indexes, rtnetlink.delete_route) for route in routes])
            self._done[name] = _all_of(setup)
        self._veths_done -= 1
        self._done.pop(place)
        self._routes.pop(place).close()
        self.namespaces.pop(place).close()

    def run(self, place: str, requests: Iterable[Request]) -> None:
        """Further requests in one place (a cut link, another route)."""
        self._routes[place].run(requests)


def _apply_settings(setup: PlaceSetup) -> None:
    settings = dict(_EVERYWHERE)
    if sysctl.exists("net/ipv6/conf/all/disable_ipv6"):
        settings |= _IPV6_EVERYWHERE
        if setup.forwards:
            settings["net/ipv6/conf/all/forwarding"] = 1
    if setup.forwards:
        settings |= _FORWARDING
    for name, value in settings.items():
        sysctl.write(name, value)
    if setup.bridges:
        if sysctl.exists(_BRIDGE_CALLS[0]):
            for name in _BRIDGE_CALLS:
                sysctl.write(name, int(setup.bridge_netfilter))
        elif setup.bridge_netfilter:
            raise MachineCannot(NO_BRIDGE_NETFILTER())


def _all_of(setup: PlaceSetup) -> _Done:
    return _Done(len(setup.indexes), len(setup.ports), len(setup.hairpin), len(setup.addresses), len(setup.routes))


def _inside_requests(setup: PlaceSetup, done: _Done | None) -> Iterable[Request]:
    """All requests of a place's set-up, or those that what is ``done`` already lacks."""
    index = {"lo": 1, **setup.indexes}
    first, done = done is None, done or _Done()

    def what(interface: str) -> str:
        return f"{setup.name}/{interface}"

    if first:
        yield rtnetlink.up(1, what("lo"))
    if first and setup.vxlan is not None:
        name, number, mac, local = setup.vxlan
        underlay = next(device for device, each in setup.addresses if each.ip == local)
        yield rtnetlink.vxlan(name, number, mac, VXLAN_IDENTIFIER, index[underlay], local, VXLAN_PORT)
    for port, bridge in setup.ports[done.ports :]:
        yield rtnetlink.enslave(index[port], index[bridge], what(port))
    for port, on in setup.hairpin[done.hairpin :]:
        if on:
            yield rtnetlink.hairpin(index[port], on, what(port))
    for device, each in setup.addresses[done.addresses :]:
        yield rtnetlink.address(index[device], each, what(device))
        yield rtnetlink.neighbour_retries(index[device], each.version, NEIGHBOUR_RETRY_MS, what(device))
    for device, number in list(setup.indexes.items())[done.links :]:
        yield rtnetlink.up(number, what(device))
    for peer in setup.vxlan_peers if first else ():
        assert setup.vxlan is not None
        number = setup.vxlan[1]
        yield rtnetlink.neighbour(number, peer.inner, peer.mac)
        yield rtnetlink.forward_entry(number, peer.mac, peer.node)
        yield rtnetlink.route(ip_network(f"{peer.inner}/{peer.inner.max_prefixlen}"), index=number, what=setup.name)
        yield rtnetlink.route(peer.network, via=peer.inner, index=number, what=setup.name)
    for route in setup.routes[done.routes :]:
        yield _route_request(setup, route, index)


def _route_request(
    setup: PlaceSetup, route: Route, index: dict[str, int], make: Callable[..., Request] = rtnetlink.route
) -> Request:
    device = index[route.device] if route.device is not None else None
    return make(route.destination, via=route.via, index=device, what=setup.name)
