"""The Lab document, and addresses and ranges as they are taken everywhere."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netlab.objects.field import invalid, unsupported
from netlab.objects.ip import ip_fault, parse_cidr, parse_interface, parse_ip
from netlab.objects.labspec import (
    INTER_NODE_WAYS,
    LOAD_BALANCER_MODES,
    POD_WIRINGS,
    Lab,
    LabNetworks,
    parse_port_range,
    validate,
)
from netlab.objects.proxyconfig import MODES


def lab(name: str = "", **spec: Any) -> Lab:
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, Lab)


def faults(name: str = "", **spec: Any) -> list[str]:
    return [str(each) for each in validate(lab(name, **spec))]


def test_every_field_is_optional() -> None:
    assert validate(Lab()) == []
    assert faults(networks={}) == []


def test_an_example_of_everything() -> None:
    everything: dict[str, Any] = {
        "serviceCIDRs": ["10.96.0.0/16", "fd00:96::/112"],
        "nodePortRange": "30000-32767",
        "clusterDomain": "cluster.local",
        "networks": {"client": "192.168.1.0/24", "node": ["192.168.60.0/24", "fd00:60::/64"]},
        "nodes": [{"name": "node-a", "addresses": ["192.168.60.123", "fd00:60::1"], "podCIDRs": ["10.200.1.0/24"]}],
        "clients": [{"name": "client", "addresses": ["192.168.1.100"]}],
        "podWiring": "ptp",
        "hairpin": False,
        "bridgeNetfilter": False,
        "interNode": "vxlan",
        "proxy": {"node-a": {"mode": "nftables"}},
        "loadBalancer": {"mode": "l2", "pool": "192.168.60.240/29"},
    }
    assert faults("nodeport", **everything) == []


CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
PORTS = "must be two ports from 1 to 65535, the lower one first, as in 30000-32767"
ONE = "may hold at most one range of each IP family"
IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


@pytest.mark.parametrize(
    ("spec", "path", "value", "detail"),
    [
        ({"serviceCIDRs": ["10.96.0.0"]}, "serviceCIDRs[0]", "10.96.0.0", CIDR),
        ({"serviceCIDRs": ["10.0.0.0/8", "11.0.0.0/8"]}, "serviceCIDRs", ["10.0.0.0/8", "11.0.0.0/8"], ONE),
        ({"serviceCIDRs": ["10.0.0.0/255.0.0.0"]}, "serviceCIDRs[0]", "10.0.0.0/255.0.0.0", CIDR),
        ({"nodePortRange": "30000"}, "nodePortRange", "30000", PORTS),
        ({"networks": {"node": ["x"]}}, "networks.node[0]", "x", CIDR),
        ({"loadBalancer": {"pool": "x"}}, "loadBalancer.pool", "x", CIDR),
        ({"clients": [{"name": "router"}]}, "clients[0].name", "router", "this is the name of the lab's router"),
        (
            {"nodes": [{"name": "a", "addresses": ["10.0.0.1", "10.0.0"]}]},
            "nodes[0].addresses[1]",
            "10.0.0",
            IP,
        ),
        (
            {"nodes": [{"name": "a", "addresses": ["10.0.0.01"]}]},
            "nodes[0].addresses[0]",
            "10.0.0.01",
            "must not have leading 0s",
        ),
        (
            {"clients": [{"name": "a", "addresses": ["::ffff:10.0.0.1"]}]},
            "clients[0].addresses[0]",
            "::ffff:10.0.0.1",
            "must not be an IPv4-mapped IPv6 address",
        ),
        (
            {"clients": [{"name": "a", "addresses": ["fe80::1%eth0"]}]},
            "clients[0].addresses[0]",
            "fe80::1%eth0",
            IP,
        ),
        (
            {"nodes": [{"name": "a", "podCIDRs": ["fd00::/64", "fd01::/64"]}]},
            "nodes[0].podCIDRs",
            ["fd00::/64", "fd01::/64"],
            ONE,
        ),
    ],
)
def test_an_invalid_value(spec: dict[str, Any], path: str, value: object, detail: str) -> None:
    assert validate(lab(**spec)) == [invalid(f"spec.{path}", value, detail)]


@pytest.mark.parametrize(
    ("spec", "path", "allowed"),
    [
        ({"podWiring": "x"}, "podWiring", POD_WIRINGS),
        ({"interNode": "x"}, "interNode", INTER_NODE_WAYS),
        ({"loadBalancer": {"mode": "x"}}, "loadBalancer.mode", LOAD_BALANCER_MODES),
        ({"proxy": {"a": {"mode": "x"}}}, "proxy[a].mode", MODES),
    ],
)
def test_a_value_outside_its_list(spec: dict[str, Any], path: str, allowed: tuple[str, ...]) -> None:
    assert validate(lab(**spec)) == [unsupported(f"spec.{path}", "x", allowed)]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"networks": {"client": []}}, f"spec.networks.client: Required value: {CIDR}"),
        ({"nodes": [{}]}, "spec.nodes[0].name: Required value"),
        ({"nodes": [{"name": "a"}, {"name": "a"}]}, 'spec.nodes[1].name: Duplicate value: "a"'),
        ({"nodes": [{"name": "a"}], "clients": [{"name": "a"}]}, 'spec.clients[0].name: Duplicate value: "a"'),
        ({"nodes": [{"name": "A"}]}, 'spec.nodes[0].name: Invalid value: "A": a lowercase RFC 1123 subdomain'),
        ({"clusterDomain": "x!"}, 'spec.clusterDomain: Invalid value: "x!": a lowercase RFC 1123 subdomain'),
    ],
)
def test_other_faults(spec: dict[str, Any], words: str) -> None:
    (found,) = faults(**spec)
    assert found.startswith(words)


def test_the_name_is_a_label() -> None:
    (found,) = faults("Two.Words")
    assert found.startswith('metadata.name: Invalid value: "Two.Words": ')


def test_every_fault_is_told() -> None:
    found = faults(podWiring="x", nodes=[{"name": ""}, {"name": "b", "addresses": ["y"], "podCIDRs": ["z"]}])
    assert [each.split(":")[0] for each in found] == [
        "spec.podWiring",
        "spec.nodes[0].name",
        "spec.nodes[1].addresses[0]",
        "spec.nodes[1].podCIDRs[0]",
    ]


def test_a_network_is_one_range_or_a_list() -> None:
    networks = msgspec.convert({"client": "10.0.0.0/24", "node": ["10.1.0.0/24", "fd00::/64"]}, LabNetworks)
    assert networks.ranges("client") == ["10.0.0.0/24"]
    assert networks.ranges("node") == ["10.1.0.0/24", "fd00::/64"]
    assert LabNetworks().ranges("node") == ["192.168.60.0/24"]


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        ("30000-32767", (30000, 32767)),
        ("1-65535", (1, 65535)),
        ("80-80", (80, 80)),
        ("0-10", None),
        ("10-9", None),
        ("1-65536", None),
        ("-5", None),
        ("5-", None),
        ("", None),
        ("1-2-3", None),
        (" 1-2", None),
        ("+1-2", None),
        ("\u00b2-5", None),
        ("\u0663-5", None),
        ("1-" + "9" * 5000, None),
    ],
)
def test_a_range_of_ports(text: str, ports: tuple[int, int] | None) -> None:
    assert parse_port_range(text) == ports


# Addresses and ranges


@pytest.mark.parametrize(
    "text", ["10.0.0.1", "0.0.0.0", "255.255.255.255", "::", "::1", "FD00::00AB", "::ffff:10.0.0.1"]
)
def test_an_address(text: str) -> None:
    assert parse_ip(text) == ip_address(text)
    assert ip_fault(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "10.0.0", "10.0.0.256", "10.0.0.1.2", "10.0.0.1 ", " 10.0.0.1", "10.0.0.1\n", "0x0a.0.0.1", "167772",
        "10.0.0.-1", "10.0.0.\u0661", "fe80::1%eth0", "::1%", "fd00:::1", "fd00::g", "1:2:3:4:5:6:7:8:9", "[::1]",
        "host", "10.0.0.1/24", "10.0.0.1:80",
    ],
)  # fmt: skip
def test_what_is_no_address(text: str) -> None:
    assert parse_ip(text) is None
    assert ip_fault(text) == IP


@pytest.mark.parametrize("text", ["010.0.0.1", "10.0.0.01", "10.00.0.1", "127.000.000.001"])
def test_leading_zeros_are_refused_as_such(text: str) -> None:
    assert parse_ip(text) is None
    assert ip_fault(text) == "must not have leading 0s"


@pytest.mark.parametrize("text", ["010.0.0.256", "0010.0.0", "00.a.0.0"])
def test_leading_zeros_of_no_address_are_no_matter(text: str) -> None:
    assert ip_fault(text) == IP


@pytest.mark.parametrize(
    ("text", "network"),
    [
        ("10.1.2.3/16", "10.1.0.0/16"),
        ("10.0.0.0/0", "0.0.0.0/0"),
        ("10.0.0.1/32", "10.0.0.1/32"),
        ("fd00::5/64", "fd00::/64"),
        ("::/0", "::/0"),
        ("10.0.0.0/08", "10.0.0.0/8"),
    ],
)
def test_a_range_loses_its_host_bits_and_an_interface_keeps_them(text: str, network: str) -> None:
    assert parse_cidr(text) == ip_network(network)
    interface = parse_interface(text)
    assert interface is not None
    assert (interface.network, str(interface.ip)) == (ip_network(network), text.partition("/")[0])


@pytest.mark.parametrize(
    "text",
    [
        "", "10.0.0.0", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0.0/ 8", "10.0.0.0/8 ", "/8",
        "10.0.0.0/255.0.0.0", "10.0.0.0/0.255.255.255", "10.0.0.0/8/8", "010.0.0.0/8", "10.0.0/8", "fd00::/129",
        "fe80::%eth0/64", "fe80::/64%eth0", "10.0.0.0/\u0668", "fd00::/ffff::", "x/8",
    ],
)  # fmt: skip
def test_what_is_no_range(text: str) -> None:
    assert parse_cidr(text) is None
    assert parse_interface(text) is None


@given(address=st.ip_addresses(), length=st.integers(0, 128))
def test_what_prints_reads_back(address: Any, length: int) -> None:
    assert parse_ip(str(address)) == address
    length = min(length, address.max_prefixlen)
    network = parse_cidr(f"{address}/{length}")
    assert network is not None
    assert address in network
    assert parse_cidr(str(network)) == network


@given(text=st.text("0123456789abf.:/%x ", max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    assert (parse_ip(text) is None) == (ip_fault(text) is not None)
    assert (parse_cidr(text) is None) == (parse_interface(text) is None)
    for found in (parse_cidr(text), parse_interface(text)):
        assert found is None or "/" in text
