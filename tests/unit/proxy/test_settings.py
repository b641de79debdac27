"""What the rules depend on besides objects: detection of local traffic, nodePortAddresses, the mark."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import msgspec
import pytest

from netlab.objects.proxyconfig import KubeProxyConfiguration
from netlab.proxy.family import Family
from netlab.proxy.local_traffic import LocalTraffic, local_traffic
from netlab.proxy.settings import iptables_settings, node_port_ips, serves_loopback

NODE_IPS = [ip_address(each) for each in ("192.168.60.11", "fd00:60::11", "192.168.60.99")]
OWN = [ip_address(each) for each in ("127.0.0.1", "192.168.60.99", "192.168.60.11", "10.1.1.1", "::1", "fd00:60::11")]
POD_CIDRS = ["10.200.1.0/24", "fd00:200:1::/64"]


def config(**fields: Any) -> KubeProxyConfiguration:
    return msgspec.convert(fields, KubeProxyConfiguration)


@pytest.mark.parametrize(
    ("fields", "four", "six"),
    [
        ({}, None, None),
        ({"clusterCIDR": "10.244.0.0/16"}, ("source", "10.244.0.0/16", "clusterCIDR"), None),
        (
            {"clusterCIDR": "fd00:10::/48, 10.244.0.7/16"},
            ("source", "10.244.0.0/16", "clusterCIDR"),
            ("source", "fd00:10::/48", "clusterCIDR"),
        ),
        (
            {"clusterCIDR": "10.1.0.0/16", "detectLocal": {"clusterCIDRs": ["10.2.0.0/16"]}},
            ("source", "10.2.0.0/16", "detectLocal.clusterCIDRs"),
            None,
        ),
        (
            {"detectLocalMode": "NodeCIDR"},
            ("source", "10.200.1.0/24", "detectLocalMode"),
            ("source", "fd00:200:1::/64", "detectLocalMode"),
        ),
        (
            {"detectLocalMode": "BridgeInterface", "detectLocal": {"bridgeInterface": "cni0"}},
            ("interface", "cni0", "detectLocal.bridgeInterface"),
            ("interface", "cni0", "detectLocal.bridgeInterface"),
        ),
        (
            {"detectLocalMode": "InterfaceNamePrefix", "detectLocal": {"interfaceNamePrefix": "veth"}},
            ("prefix", "veth", "detectLocal.interfaceNamePrefix"),
            ("prefix", "veth", "detectLocal.interfaceNamePrefix"),
        ),
        ({"detectLocalMode": "InterfaceNamePrefix"}, None, None),
        ({"detectLocalMode": "BridgeInterface", "clusterCIDR": "10.244.0.0/16"}, None, None),
    ],
)
def test_what_local_traffic_is(
    fields: dict[str, Any], four: tuple[Any, ...] | None, six: tuple[Any, ...] | None
) -> None:
    for family, expected in ((Family.IPV4, four), (Family.IPV6, six)):
        found = local_traffic(config(**fields), family, POD_CIDRS)
        assert found == (LocalTraffic(*expected) if expected is not None else None)


@pytest.mark.parametrize(
    ("selectors", "four", "six"),
    [
        ([], None, None),
        (["0.0.0.0/0"], None, None),
        (["192.168.60.0/24"], ["192.168.60.11", "192.168.60.99"], None),
        (["192.168.60.11/32", "127.0.0.0/8"], ["127.0.0.1", "192.168.60.11"], None),
        (["fd00:60::/64"], None, ["fd00:60::11"]),
        (["10.9.9.0/24", "fd00:9::/64"], [], []),
        (["192.168.60.0/24", "0.0.0.0/0"], None, None),
        (["primary"], ["192.168.60.11"], ["fd00:60::11"]),
    ],
)
def test_which_addresses_serve_node_ports(selectors: list[str], four: list[str] | None, six: list[str] | None) -> None:
    for family, expected in ((Family.IPV4, four), (Family.IPV6, six)):
        found = node_port_ips(selectors, family, NODE_IPS, OWN)
        assert (list(found) if found is not None else None) == expected


def test_an_address_on_two_interfaces_serves_once() -> None:
    twice = [*OWN, ip_address("192.168.60.11")]
    assert node_port_ips(["192.168.60.11/32"], Family.IPV4, NODE_IPS, twice) == ("192.168.60.11",)


@pytest.mark.parametrize(
    ("selectors", "served"),
    [
        ([], True),
        (["127.0.0.0/8"], True),
        (["127.5.0.0/16"], True),
        (["126.0.0.0/7"], True),
        (["0.0.0.0/0"], True),
        (["192.168.60.0/24"], False),
        (["::1/128"], True),
        (["fd00::/8", "192.168.60.0/24"], False),
        (["primary"], False),
    ],
)
def test_whether_loopback_serves_node_ports(selectors: list[str], served: bool) -> None:
    assert serves_loopback(selectors) is served


@pytest.mark.parametrize(("bit", "mark"), [(None, "0x4000"), (0, "0x1"), (31, "0x80000000")])
def test_the_mark(bit: int | None, mark: str) -> None:
    settings = iptables_settings(
        config(iptables={"masqueradeBit": bit}),
        Family.IPV4,
        node_ips=NODE_IPS,
        local_addresses=OWN,
        pod_cidrs=POD_CIDRS,
        counters=True,
    )
    assert settings.mark == mark


@pytest.mark.parametrize(
    ("fields", "four", "six"),
    [
        ({}, True, False),
        ({"iptables": {"localhostNodePorts": False}}, False, False),
        ({"iptables": {"localhostNodePorts": True}}, True, False),
        ({"iptables": {"localhostNodePorts": True}, "nodePortAddresses": ["192.168.60.0/24"]}, False, False),
    ],
)
def test_node_ports_on_loopback_are_an_affair_of_ipv4(fields: dict[str, Any], four: bool, six: bool) -> None:
    for family, expected in ((Family.IPV4, four), (Family.IPV6, six)):
        settings = iptables_settings(
            config(**fields), family, node_ips=NODE_IPS, local_addresses=OWN, pod_cidrs=POD_CIDRS, counters=False
        )
        assert settings.localhost_v4 is expected
