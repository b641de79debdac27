"""Which hosts share a wire, and where the router is on it."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netlab.lab.networks import Attachment, Host, Segment, Side, attach, declared_or_derived
from netlab.objects.ip import Network
from tests.unit.lab.fleets import DECLARED, NODE_NETWORKS, hosts

NOTHING: dict[Side, list[Network]] = {"client": [], "node": []}


def networks(*texts: str) -> list[Network]:
    return [ip_network(text) for text in texts]


def host(name: str, addresses: str, side: Side = "node") -> Host:
    return Host(name, side, tuple(map(ip_address, addresses.split())))


def told(segments: list[Segment]) -> dict[str, dict[str, str]]:
    """The networks of each wire, with the router's addresses."""
    return {
        each.bridge: {str(network): str(each.router.get(network, "-")) for network in each.networks}
        for each in segments
    }


def interfaces(attachments: list[Attachment]) -> dict[str, dict[str, tuple[str, list[str]]]]:
    found: dict[str, dict[str, tuple[str, list[str]]]] = {}
    for each in attachments:
        addresses = [str(address) for address in each.addresses]
        found.setdefault(each.host, {})[each.interface] = (each.segment.bridge, addresses)
    return found


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("192.168.60.11", "192.168.60.0/24"),
        ("10.9.8.7", "10.9.8.0/24"),
        ("fd00:60::11", "fd00:60::/64"),
        ("fd00:7:8:9:a:b:c:d", "fd00:7:8:9::/64"),
        ("10.1.2.3", "10.1.0.0/16"),
    ],
)
def test_the_network_of_an_address_is_the_declared_one_or_the_one_around_it(address: str, expected: str) -> None:
    declared = networks("192.168.60.0/24", "10.1.0.0/16", "fd00:60::/64")
    assert declared_or_derived(ip_address(address), declared) == ip_network(expected)


def test_a_declared_network_has_its_wire_also_when_nobody_is_on_it() -> None:
    segments, attachments = attach([], DECLARED)
    assert told(segments) == {
        "clients0": {"192.168.1.0/24": "192.168.1.1", "fd00:1::/64": "fd00:1::1"},
        "nodes0": {"192.168.60.0/24": "192.168.60.1", "fd00:60::/64": "fd00:60::1"},
    }
    assert attachments == []


def test_without_declared_networks_each_network_in_use_has_a_wire() -> None:
    segments, attachments = attach(
        [host("a", "10.0.1.5"), host("b", "10.0.2.5"), host("c", "10.0.1.9", "client")], NOTHING
    )
    assert told(segments) == {"nodes0": {"10.0.1.0/24": "10.0.1.1"}, "nodes1": {"10.0.2.0/24": "10.0.2.1"}}
    assert interfaces(attachments) == {
        "a": {"eth0": ("nodes0", ["10.0.1.5/24"])},
        "b": {"eth0": ("nodes1", ["10.0.2.5/24"])},
        "c": {"eth0": ("nodes0", ["10.0.1.9/24"])},
    }


def test_each_ipv4_network_is_an_interface_and_ipv6_shares_them_in_order() -> None:
    one = host("a", "fd00:a::5 192.168.60.11 10.0.1.5 fd00:60::11 192.168.60.12 fd00:b::5")
    _, attachments = attach([one], DECLARED)
    assert interfaces(attachments)["a"] == {
        "eth0": ("nodes0", ["192.168.60.11/24", "192.168.60.12/24", "fd00:a::5/64"]),
        "eth1": ("nodes0", ["10.0.1.5/24", "fd00:60::11/64"]),
        "eth2": ("nodes1", ["fd00:b::5/64"]),
    }


def test_a_host_with_ipv6_alone() -> None:
    _, attachments = attach([host("a", "fd00:60::11")], DECLARED)
    assert interfaces(attachments) == {"a": {"eth0": ("nodes0", ["fd00:60::11/64"])}}


def test_a_host_without_addresses_has_no_interface() -> None:
    _, attachments = attach([host("a", "")], DECLARED)
    assert attachments == []


def test_networks_that_meet_on_an_interface_are_one_wire() -> None:
    segments, _ = attach([host("a", "10.0.1.5 fd00:a::5"), host("b", "10.0.2.5 fd00:a::6")], NOTHING)
    assert told(segments) == {
        "nodes0": {"10.0.1.0/24": "10.0.1.1", "fd00:a::/64": "fd00:a::1", "10.0.2.0/24": "10.0.2.1"}
    }


def test_a_node_in_the_clients_network_is_on_their_wire() -> None:
    _, attachments = attach([host("a", "192.168.1.5"), host("c", "192.168.1.100", "client")], DECLARED)
    assert {each.host: each.segment.bridge for each in attachments} == {"a": "clients0", "c": "clients0"}


def test_a_side_without_networks_of_its_own_uses_those_of_the_other() -> None:
    declared: dict[Side, list[Network]] = {"client": networks("10.0.0.0/8"), "node": []}
    segments, attachments = attach([host("a", "10.7.7.7")], declared)
    assert told(segments) == {"clients0": {"10.0.0.0/8": "10.0.0.1"}}
    assert interfaces(attachments) == {"a": {"eth0": ("clients0", ["10.7.7.7/8"])}}


def test_networks_that_overlap_are_one_wire() -> None:
    declared: dict[Side, list[Network]] = {"client": networks("10.0.0.0/28"), "node": networks("192.168.60.0/24")}
    segments, attachments = attach([host("c", "10.0.0.100", "client"), host("d", "10.0.0.5", "client")], declared)
    assert told(segments)["clients0"] == {"10.0.0.0/28": "10.0.0.1", "10.0.0.0/24": "10.0.0.2"}
    assert interfaces(attachments) == {
        "c": {"eth0": ("clients0", ["10.0.0.100/24"])},
        "d": {"eth0": ("clients0", ["10.0.0.5/28"])},
    }


@pytest.mark.parametrize(
    ("network", "taken", "router"),
    [
        ("10.0.0.0/24", "", "10.0.0.1"),
        ("10.0.0.0/24", "10.0.0.1 10.0.0.2", "10.0.0.3"),
        ("10.0.0.0/24", "10.0.0.2", "10.0.0.1"),
        ("10.0.0.0/30", "10.0.0.1", "10.0.0.2"),
        ("10.0.0.0/30", "10.0.0.1 10.0.0.2", "-"),
        ("10.0.0.0/31", "10.0.0.0", "10.0.0.1"),
        ("10.0.0.0/32", "10.0.0.0", "-"),
        ("fd00::/64", "fd00::1", "fd00::2"),
        ("fd00::/126", "fd00::1 fd00::2", "fd00::3"),
    ],
)
def test_the_router_has_the_first_address_that_no_host_has(network: str, taken: str, router: str) -> None:
    declared: dict[Side, list[Network]] = {"client": [], "node": networks(network)}
    segments, _ = attach([host(f"h{n}", each) for n, each in enumerate(taken.split())], declared)
    assert told(segments) == {"nodes0": {network: router}}


@settings(max_examples=60, deadline=None)
@given(addresses=hosts(4, (4, 6), NODE_NETWORKS, 1), sides=st.lists(st.sampled_from(["client", "node"]), min_size=4))
def test_wires_and_router_addresses(addresses: list[tuple[object, ...]], sides: list[Side]) -> None:
    given_hosts = [
        Host(f"h{number}", sides[number], each)  # type: ignore[arg-type]
        for number, each in enumerate(addresses)
    ]
    segments, attachments = attach(given_hosts, DECLARED)
    taken = {address for each in given_hosts for address in each.addresses}
    routers = [address for segment in segments for address in segment.router.values()]
    assert not taken & set(routers)
    assert len(set(routers)) == len(routers)
    for segment in segments:
        assert set(segment.router) == set(segment.networks)
        for network, address in segment.router.items():
            assert address in network
            assert address != network.network_address
            assert network.version == 6 or address != network.broadcast_address
    every = [network for segment in segments for network in segment.networks]
    assert len(set(every)) == len(every)
    assert len({segment.bridge for segment in segments}) == len(segments)
    for each in given_hosts:
        own = [one for one in attachments if one.host == each.name]
        assert sorted(str(a.ip) for one in own for a in one.addresses) == sorted(map(str, each.addresses))
        assert [one.interface for one in own] == [f"eth{number}" for number in range(len(own))]
        for one in own:
            assert len({address.network for address in one.addresses if address.version == 4}) <= 1
            assert all(address.network in one.segment.networks for address in one.addresses)
