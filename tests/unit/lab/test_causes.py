"""Causes: the lab computes the same rules as the proxy, and knows the field that each comes from."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from netlab.lab.causes import NodeWorld, causes_of, iptables_rules
from netlab.model.keys import Origin
from netlab.objects.node import Node
from netlab.objects.proxyconfig import KubeProxyConfiguration
from netlab.proxy.family import Family
from netlab.proxy.iptables.state import rules_of

NODE = msgspec.convert(
    {
        "metadata": {"name": "node-a", "labels": {"topology.kubernetes.io/zone": "east"}},
        "spec": {"podCIDRs": ["10.200.1.0/24", "fd00:200:1::/64"]},
        "status": {
            "addresses": [
                {"type": "Hostname", "address": "node-a"},
                {"type": "InternalIP", "address": "192.168.60.11"},
                {"type": "InternalIP", "address": "fd00:60::11"},
            ]
        },
    },
    Node,
)
SERVICE: dict[str, Any] = {
    "kind": "Service",
    "metadata": {"namespace": "lab", "name": "web"},
    "spec": {
        "type": "NodePort",
        "clusterIP": "10.96.0.5",
        "clusterIPs": ["10.96.0.5", "fd00:96::5"],
        "externalIPs": ["203.0.113.7"],
        "ports": [{"port": 80, "nodePort": 30080}],
    },
}
SLICES: list[dict[str, Any]] = [
    {
        "kind": "EndpointSlice",
        "metadata": {"namespace": "lab", "name": f"web-{kind}", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": kind,
        "endpoints": [
            {"addresses": [near], "nodeName": "node-a", "hints": {"forZones": [{"name": "east"}]}},
            {"addresses": [far], "nodeName": "node-b", "hints": {"forZones": [{"name": "west"}]}},
        ],
        "ports": [{"name": "", "port": 8080}],
    }
    for kind, near, far in (("IPv4", "10.200.1.2", "10.200.2.2"), ("IPv6", "fd00:200:1::2", "fd00:200:2::2"))
]
CONFIG = msgspec.convert({"clusterCIDR": "10.200.0.0/16,fd00:200::/32"}, KubeProxyConfiguration)
OWN = ["127.0.0.1", "192.168.60.11", "10.200.1.1", "fd00:60::11"]


def world(config: KubeProxyConfiguration, slices: list[dict[str, Any]] = SLICES) -> NodeWorld:
    return NodeWorld(NODE, config, [SERVICE], slices, ["10.96.0.0/16"], OWN)


def causes(config: KubeProxyConfiguration = CONFIG, slices: list[dict[str, Any]] = SLICES) -> dict[str, Origin]:
    """The causes by table, chain and text, of both families."""
    found = causes_of(world(config, slices), lambda origin: Origin(origin.object, origin.field, "lab.yaml", 7))
    return {f"{family} {table} {chain} {text}": origin for (family, table, chain, text), origin in found.rules.items()}


def cause(part: str, chain: str, known: dict[str, Origin]) -> set[str]:
    return {f"{each.object} {each.field}" for rule, each in known.items() if part in rule and f" {chain}" in rule}


@pytest.mark.parametrize(
    ("part", "chain", "expected"),
    [
        ("-d 10.96.0.5/32 -p tcp", "KUBE-SERVICES", "Service lab/web spec.clusterIPs[0]"),
        ("-d fd00:96::5/128 -p tcp", "KUBE-SERVICES", "Service lab/web spec.clusterIPs[1]"),
        ("-d 203.0.113.7/32 -p tcp", "KUBE-SERVICES", "Service lab/web spec.externalIPs[0]"),
        ("--dport 30080", "KUBE-NODEPORTS", "Service lab/web spec.ports[0].nodePort"),
        ("--to-destination 10.200.1.2:8080", "KUBE-SEP-", "EndpointSlice lab/web-IPv4 endpoints[0].addresses[0]"),
        ("! -s 10.200.0.0/16", "KUBE-SVC-", "KubeProxyConfiguration clusterCIDR"),
        ("! -s fd00:200::/32", "KUBE-SVC-", "KubeProxyConfiguration clusterCIDR"),
        ("--dst-type LOCAL -j KUBE-NODEPORTS", "KUBE-SERVICES", "KubeProxyConfiguration nodePortAddresses"),
        ("--set-xmark 0x4000/0x4000", "KUBE-MARK-MASQ", "KubeProxyConfiguration iptables.masqueradeBit"),
    ],
)
def test_a_rule_comes_from_a_field(part: str, chain: str, expected: str) -> None:
    assert cause(part, chain, causes()) == {expected}


def test_causes_are_told_with_file_and_line() -> None:
    assert {(each.file, each.line) for each in causes().values()} == {("lab.yaml", 7)}


def test_each_origin_is_located_once() -> None:
    asked: list[Origin] = []

    def locate(origin: Origin) -> Origin:
        asked.append(origin)
        return origin

    causes_of(world(CONFIG), locate)
    assert len(set(asked)) == len(asked) > 5


def test_zone_node_and_addresses_are_those_of_the_node() -> None:
    text = " ".join(causes())
    assert "10.200.1.2:8080" in text
    assert "10.200.2.2:8080" not in text
    config = msgspec.convert({"nodePortAddresses": ["192.168.60.0/24"]}, KubeProxyConfiguration)
    assert cause("-d 192.168.60.11/32 -j KUBE-NODEPORTS", "KUBE-SERVICES", causes(config)) == {
        "KubeProxyConfiguration nodePortAddresses"
    }
    node_range = msgspec.convert({"detectLocalMode": "NodeCIDR"}, KubeProxyConfiguration)
    assert cause("! -s 10.200.1.0/24", "KUBE-SVC-", causes(node_range)) == {"KubeProxyConfiguration detectLocalMode"}


def test_in_a_large_cluster_rules_have_no_comments_that_grow_with_it() -> None:
    many = [
        {**SLICES[0], "endpoints": [{"addresses": [f"10.201.{n // 250}.{n % 250 + 1}"]} for n in range(1001)]},
        SLICES[1],
    ]
    rules = iptables_rules(world(CONFIG, many), Family.IPV4)
    texts = [rule.text for _, chain, rule in rules_of(rules) if chain.startswith("KUBE-SEP-")]
    assert texts
    assert not [text for text in texts if "--comment" in text]


def test_without_nfacct_rules_do_without() -> None:
    rules = iptables_rules(world(CONFIG), Family.IPV4, counters=False)
    assert not [rule for _, _, rule in rules_of(rules) if "nfacct" in rule.text]


@pytest.mark.parametrize(
    ("container", "key", "value", "expected"),
    [
        ("service-ips", "10.96.0.5 . tcp . 80", "goto service-", "spec.clusterIPs[0]"),
        ("service-ips", "203.0.113.7 . tcp . 80", "goto external-", "spec.externalIPs[0]"),
        ("service-ips", "fd00:96::5 . tcp . 80", "goto service-", "spec.clusterIPs[1]"),
        ("service-nodeports", "tcp . 30080", "goto external-", "spec.ports[0].nodePort"),
        ("cluster-ips", "10.96.0.5", "", "spec.clusterIPs[0]"),
    ],
)
def test_an_element_of_a_map_comes_from_a_field(container: str, key: str, value: str, expected: str) -> None:
    config = msgspec.structs.replace(CONFIG, mode="nftables")
    found = causes_of(world(config), lambda origin: Origin(origin.object, origin.field, "lab.yaml", 7))
    element = found.elements["ip6" if "::" in key else "ip", "kube-proxy", container, key]
    assert element.value.startswith(value)
    assert element.origin == Origin("Service lab/web", expected, "lab.yaml", 7)


def test_a_rule_that_picks_itself_knows_where_each_choice_comes_from() -> None:
    config = msgspec.structs.replace(CONFIG, mode="nftables")
    found = causes_of(world(config), lambda origin: origin)
    picked = {origins for (_, _, _, text), origins in found.choices.items() if "dnat ip to" in text}
    assert picked == {(Origin("EndpointSlice lab/web-IPv4", "endpoints[0].addresses[0]"),)}
