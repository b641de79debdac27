"""The fabric plan: names and numbers that the kernel takes, and a way from everywhere to every Pod and back."""

from __future__ import annotations

import copy
from dataclasses import asdict
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given, settings

from netlab.lab.networks import Side
from netlab.lab.plan import (
    LONGEST_NAME,
    ROUTER,
    ClientPlan,
    FabricPlan,
    NodePlan,
    PodPlan,
    Wiring,
    mac_for,
    plan_fabric,
    plan_pod,
    short_name,
)
from netlab.model.keys import ObjectKey
from netlab.objects.ip import Address, Network
from tests.unit.lab.fleets import DECLARED, WIRINGS, Fleet, fleets
from tests.unit.lab.reachability import Walker

wirings = pytest.mark.parametrize("wiring", WIRINGS, ids=lambda each: f"{each.pods}-{each.between_nodes}")
quick = settings(max_examples=40, deadline=None)


def node(name: str, addresses: str, cidrs: str) -> NodePlan:
    return NodePlan(name, tuple(map(ip_address, addresses.split())), tuple(ip_network(cidr) for cidr in cidrs.split()))


def client(name: str, addresses: str) -> ClientPlan:
    return ClientPlan(name, tuple(map(ip_address, addresses.split())))


def pod(name: str, at: str, addresses: str) -> PodPlan:
    return PodPlan(ObjectKey("Pod", "default", name), at, tuple(map(ip_address, addresses.split())))


# Ways


def lost(fleet: Fleet, plan: FabricPlan) -> list[str]:
    """From whom to whom there is no way: between hosts, and between hosts and Pods there and back."""
    walker = Walker(plan)
    hosts: dict[str, tuple[Address, ...]] = {each.name: each.addresses for each in fleet.nodes}
    hosts |= {each.name: each.addresses for each in fleet.clients}
    pods: dict[str, tuple[Address, ...]] = {each.place: each.addresses for each in fleet.pods}
    routed = plan.wiring.between_nodes == "routed"
    inside = [*(each.name for each in fleet.nodes), *pods]
    found = []
    for one in (*hosts, *pods):
        for other, addresses in {**hosts, **pods}.items():
            # Without routes on the router, as in a real overlay, only nodes and Pods know the way to Pods.
            if not routed and other in pods and one not in inside:
                continue
            versions = {each.version for each in {**hosts, **pods}[one]}
            found += [
                f"{one} -> {other} ({address})"
                for address in addresses
                if address.version in versions and walker.reaches(one, address) != other
            ]
    return found


@wirings
@quick
@given(fleet=fleets())
def test_every_host_and_pod_reaches_every_other_and_back(wiring: Wiring, fleet: Fleet) -> None:
    assert lost(fleet, fleet.plan(wiring)) == []


@wirings
def test_nodes_on_wires_of_their_own_reach_each_other_through_the_router(wiring: Wiring) -> None:
    fleet = Fleet(
        (node("a", "10.0.1.5", "10.200.1.0/24"), node("b", "10.0.2.5", "10.200.2.0/24")),
        (client("c", "192.168.1.9"),),
        (pod("p", "a", "10.200.1.2"), pod("q", "b", "10.200.2.2")),
    )
    assert lost(fleet, fleet.plan(wiring)) == []


@wirings
def test_nodes_that_share_one_family_only(wiring: Wiring) -> None:
    """Two IPv4 networks on one wire, as both nodes share their IPv6 network: each has a gateway of its own."""
    fleet = Fleet(
        (
            node("a", "10.0.1.5 fd00:a::5", "10.200.1.0/24 fd00:200:1::/64"),
            node("b", "10.0.2.5 fd00:a::6", "10.200.2.0/24 fd00:200:2::/64"),
        ),
        (client("c", "192.168.1.9 fd00:1::9"),),
        (pod("p", "a", "10.200.1.2 fd00:200:1::2"), pod("q", "b", "10.200.2.2 fd00:200:2::2")),
    )
    plan = fleet.plan(wiring)
    assert lost(fleet, plan) == []
    assert [str(route.via) for route in plan.setups["b"].routes if route.destination.prefixlen == 0] == [
        "10.0.2.1",
        "fd00:a::1",
    ]


@wirings
def test_nodes_in_a_part_of_the_clients_network_are_their_neighbours(wiring: Wiring) -> None:
    declared: dict[Side, list[Network]] = {"client": [ip_network("10.0.0.0/8")], "node": [ip_network("10.7.0.0/16")]}
    fleet = Fleet(
        (node("a", "10.7.0.11", "192.168.7.0/24"), node("b", "10.7.0.12", "192.168.8.0/24")),
        (client("c", "10.200.0.9"),),
        (pod("p", "a", "192.168.7.2"),),
    )
    plan = plan_fabric(fleet.nodes, fleet.clients, declared, wiring)
    plan_pod(plan, fleet.pods[0])
    assert lost(fleet, plan) == []
    assert len(plan.segments) == 1


def test_tunnels_end_at_addresses_of_one_family() -> None:
    wiring = Wiring(between_nodes="vxlan")
    nodes = (
        node("a", "192.168.60.11 fd00:60::11", "10.200.1.0/24"),
        node("b", "fd00:60::12 192.168.60.12", "10.200.2.0/24"),
    )
    plan = plan_fabric(nodes, (), DECLARED, wiring)
    ends = [setup.vxlan[3] for setup in plan.setups.values() if setup.vxlan is not None]
    assert [str(each) for each in ends] == ["192.168.60.11", "192.168.60.12"]
    six = plan_fabric((nodes[0], node("b", "fd00:60::12", "10.200.2.0/24")), (), DECLARED, wiring)
    assert {setup.vxlan[3].version for setup in six.setups.values() if setup.vxlan is not None} == {6}


def test_clients_do_not_know_pods_behind_a_tunnel() -> None:
    fleet = Fleet((node("a", "192.168.60.11", "10.200.1.0/24"),), (client("c", "192.168.1.9"),), ())
    plan = fleet.plan(Wiring(between_nodes="vxlan"))
    plan_pod(plan, pod("p", "a", "10.200.1.2"))
    walker = Walker(plan)
    assert walker.reaches("c", ip_address("10.200.1.2")) is None
    assert walker.reaches("a", ip_address("10.200.1.2")) == "default/p"


def test_a_pod_has_no_address_of_a_family_that_its_node_has_no_range_of() -> None:
    plan = plan_fabric((node("a", "192.168.60.11", "10.200.1.0/24"),), (), DECLARED, Wiring())
    plan_pod(plan, pod("p", "a", "10.200.1.2 fd00:99::2"))
    assert [str(each) for _, each in plan.setups["default/p"].addresses] == ["10.200.1.2/24"]


# Names, numbers, MACs


def assert_sound(plan: FabricPlan) -> None:
    """Names that fit, and are unique in their place; indexes unique; MACs unique on every wire; nothing dangling."""
    ends = [end for veth in plan.veths for end in (veth.one, veth.other)]
    macs: dict[tuple[str, str], str] = {}
    for setup in plan.setups.values():
        names = [
            *(end.interface for end in ends if end.place == setup.name),
            *(name for name, _, _ in setup.bridges),
            *([setup.vxlan[0]] if setup.vxlan else []),
        ]
        assert len(set(names)) == len(names)
        assert set(names) == set(setup.indexes)
        assert all(0 < len(name) <= LONGEST_NAME and not set(name) & set("/ \t:") for name in names)
        assert "lo" not in names
        assert sorted(setup.indexes.values()) == list(range(2, len(names) + 2))
        numbers = [*((each.interface, each.index) for each in ends if each.place == setup.name)]
        numbers += [(name, index) for name, index, _ in setup.bridges]
        numbers += [setup.vxlan[:2]] if setup.vxlan else []
        assert dict(numbers) == setup.indexes
        used = {device for device, _ in setup.addresses} | {port for pair in setup.ports for port in pair}
        used |= {port for port, _ in setup.hairpin} | {each.device for each in setup.routes if each.device}
        assert used <= set(names)
        assert len({(device, each) for device, each in setup.addresses}) == len(setup.addresses)
        macs |= {(setup.name, name): mac for name, _, mac in setup.bridges}
    macs |= {(end.place, end.interface): end.mac for end in ends}
    for members in Walker(plan).members.values():
        on_wire = [macs[end] for end in members]
        assert len(set(on_wire)) == len(on_wire)
    for mac in macs.values():
        octets = mac.split(":")
        assert len(octets) == 6
        assert int(octets[0], 16) & 3 == 2, "locally administered, and no group's"


@wirings
@quick
@given(fleet=fleets())
def test_names_numbers_and_macs_are_what_the_kernel_takes(wiring: Wiring, fleet: Fleet) -> None:
    assert_sound(fleet.plan(wiring))


@quick
@given(fleet=fleets())
def test_no_address_is_in_two_places(fleet: Fleet) -> None:
    plan = fleet.plan(Wiring())
    owners: dict[Address, str] = {}
    for setup in plan.setups.values():
        for _, each in setup.addresses:
            assert owners.setdefault(each.ip, setup.name) == setup.name


def test_names_that_are_alike_or_long_do_not_meet() -> None:
    long = [f"ip-10-0-{number // 256}-{number % 256}.eu-west-1.compute.internal" for number in range(600)]
    nodes = [NodePlan(name, (ip_address(0x0A000001 + number),), ()) for number, name in enumerate(long)]
    nodes += [node("node", "192.168.60.11 192.168.61.11", ""), node("node-1", "192.168.60.12", "")]
    plan = plan_fabric(nodes, [client("client-1", "192.168.1.1")], DECLARED, Wiring())
    assert_sound(plan)
    ports = {veth.one.place: veth.other.interface for veth in plan.veths if veth.one.interface == "eth0"}
    assert (ports["node"], ports["node-1"], ports["client-1"]) == ("p-node", "p-node-1", "p-client-1")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("node-a", "p-node-a"),
        ("1234567890123", "p-1234567890123"),
        ("12345678901234", "p-12345678-????"),
        ("default/web", "p-default-web"),
    ],
)
def test_a_short_name_is_the_name_where_it_fits(name: str, expected: str) -> None:
    found = short_name("p-", name)
    assert len(found) == len(expected) <= LONGEST_NAME
    assert all(wanted in ("?", char) for wanted, char in zip(expected, found, strict=True))
    assert short_name("p-", name) == found


def test_a_short_name_avoids_what_is_taken() -> None:
    taken: dict[str, int] = {}
    for _ in range(20):
        name = short_name("p-", "node-a", taken)
        assert name not in taken
        assert len(name) <= LONGEST_NAME
        taken[name] = 1
    assert next(iter(taken)) == "p-node-a"


def test_a_mac_tells_its_ipv4_address() -> None:
    assert mac_for(ip_address("10.200.1.2"), "default/p", "eth0") == "0a:58:0a:c8:01:02"
    six = mac_for(ip_address("fd00::1"), "default/p", "eth0")
    assert six.startswith("0a:59:")
    assert six == mac_for(None, "default/p", "eth0") != mac_for(None, "default/p", "eth1")


# Growth


def lengths(plan: FabricPlan) -> dict[str, Any]:
    return {name: asdict(setup) for name, setup in plan.setups.items()}


def is_prefix(old: Any, new: Any) -> bool:
    if isinstance(old, list):
        return bool(new[: len(old)] == old)
    if isinstance(old, dict):
        return list(new.items())[: len(old)] == list(old.items())
    return bool(old == new)


@wirings
@quick
@given(fleet=fleets())
def test_a_plan_only_grows(wiring: Wiring, fleet: Fleet) -> None:
    """The fabric makes what has been added since: so nothing that was there may change or move."""
    plan = plan_fabric(fleet.nodes, fleet.clients, DECLARED, wiring)
    for each in fleet.pods:
        before, veths = copy.deepcopy(lengths(plan)), list(plan.veths)
        plan_pod(plan, each)
        after = lengths(plan)
        assert list(after)[: len(before)] == list(before)
        assert list(after)[len(before) :] == [each.place]
        for name, fields in before.items():
            assert all(is_prefix(fields[key], after[name][key]) for key in fields), name
        assert plan.veths[: len(veths)] == veths
        assert len(plan.veths) == len(veths) + 1


@wirings
@quick
@given(fleet=fleets())
def test_the_order_of_pods_changes_no_names_and_no_addresses(wiring: Wiring, fleet: Fleet) -> None:
    forth, back = fleet.plan(wiring), Fleet(fleet.nodes, fleet.clients, fleet.pods[::-1]).plan(wiring)
    for name, setup in forth.setups.items():
        assert set(setup.indexes) == set(back.setups[name].indexes)
        assert set(setup.addresses) == set(back.setups[name].addresses)
        assert set(setup.routes) == set(back.setups[name].routes)


# The topology that others see


@wirings
@quick
@given(fleet=fleets())
def test_the_topology_says_what_the_plan_says(wiring: Wiring, fleet: Fleet) -> None:
    plan = fleet.plan(wiring)
    topology = plan.topology()
    assert list(topology.places) == list(plan.setups)
    for name, place in topology.places.items():
        setup = plan.setups[name]
        assert {each.name: each.index for each in place.interfaces} == {"lo": 1, **setup.indexes}
        assert all(each.mac for each in place.interfaces)
        for each in place.interfaces:
            if each.peer is not None:
                far = topology.places[each.peer.place]
                (back,) = [one for one in far.interfaces if one.name == each.peer.interface]
                assert back.peer is not None
                assert (back.peer.place, back.peer.interface) == (name, each.name)
            if each.name != "lo":
                assert list(each.addresses) == [str(one) for device, one in setup.addresses if device == each.name]
        kinds = {each.name: each.kind for each in place.interfaces}
        assert all(kinds[bridge] == "bridge" for bridge, _, _ in setup.bridges)
        assert setup.vxlan is None or kinds[setup.vxlan[0]] == "vxlan"
    assert topology.places[ROUTER].kind == "router"
    assert {name: topology.places[name].kind for name in (each.place for each in fleet.pods)} == {
        each.place: "pod" for each in fleet.pods
    }


def test_wiring_decides_about_bridges_hairpin_and_netfilter() -> None:
    nodes = (node("a", "192.168.60.11", "10.200.1.0/24"),)
    for wiring in (Wiring(), Wiring(hairpin=False, bridge_netfilter=False), Wiring(pods="ptp")):
        plan = plan_fabric(nodes, (), DECLARED, wiring)
        plan_pod(plan, pod("p", "a", "10.200.1.2"))
        setup = plan.setups["a"]
        bridged = wiring.pods == "bridge"
        assert [name for name, _, _ in setup.bridges] == ["cni0"] * bridged
        assert [on for _, on in setup.hairpin] == [wiring.hairpin] * bridged
        assert setup.bridge_netfilter is wiring.bridge_netfilter
        assert [veth.mtu for veth in plan.veths] == [None, None]


def test_pods_behind_a_tunnel_send_smaller_packets() -> None:
    plan = plan_fabric((node("a", "192.168.60.11", "10.200.1.0/24"),), (), DECLARED, Wiring(between_nodes="vxlan"))
    plan_pod(plan, pod("p", "a", "10.200.1.2"))
    assert [veth.mtu for veth in plan.veths] == [None, 1450]


@pytest.mark.parametrize(
    ("cidr", "gateway"),
    [
        ("10.200.1.0/24", "10.200.1.1/24"),
        ("fd00:200::/64", "fd00:200::1/64"),
        ("10.0.0.4/31", "10.0.0.5/31"),
        ("255.255.255.255/32", "255.255.255.255/32"),
    ],
)
def test_the_gateway_is_the_first_address_behind_the_ranges_own(cidr: str, gateway: str) -> None:
    assert [str(each) for each in node("a", "192.168.60.11", cidr).gateways()] == [gateway]
