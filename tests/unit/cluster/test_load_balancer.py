"""Addresses of the lab's load balancer, the node that answers for each, and what the box is told."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from netlab.cluster.load_balancer import Assignments, announcements, announcer, assign, frontends
from netlab.model.keys import ObjectKey
from netlab.objects.ip import Network, parse_cidr, parse_ip
from netlab.objects.node import Node
from netlab.objects.service import Service
from tests.unit.proxy.build import DRAINING, NOT_READY, READY, endpoint_slice, service

NODES = ["n1", "n2", "n3"]


def pool(*texts: str) -> list[Network]:
    return [network for text in texts if (network := parse_cidr(text)) is not None]


def lb(name: str, spec: str = "", ingress: str = "") -> Service:
    return service(
        f"{{metadata: {name}, spec: {{type: LoadBalancer, clusterIP: 10.96.0.9, "
        f"ports: [{{port: 80, nodePort: 30080}}], {spec}}}, status: {{loadBalancer: {{ingress: [{ingress}]}}}}}}"
    )


def key(name: str) -> ObjectKey:
    return ObjectKey("Service", "lab", name)


def addresses(made: Assignments) -> dict[str, list[str]]:
    return {of.name: [each.ip for each in ingress] for of, ingress in made.ingress.items()}


def node(name: str, *ips: str, labels: dict[str, str] | None = None) -> Node:
    value = {
        "metadata": {"name": name, "labels": labels},
        "status": {"addresses": [{"type": "InternalIP", "address": ip} for ip in ips]},
    }
    return msgspec.convert(value, Node)


def test_each_gets_the_first_free_address_with_its_mode() -> None:
    made = assign([lb("a"), lb("b")], pool("192.168.60.240/29"), "l2")
    assert addresses(made) == {"a": ["192.168.60.240"], "b": ["192.168.60.241"]}
    assert made.ingress[key("a")][0].ip_mode == "VIP"
    assert assign([lb("a")], pool("192.168.60.240/29"), "proxy").ingress[key("a")][0].ip_mode == "Proxy"


def test_what_there_is_stays_and_is_not_given_twice() -> None:
    known = [lb("new"), lb("old", ingress="{ip: 192.168.60.240}"), lb("other", ingress="{hostname: x.example}")]
    assert addresses(assign(known, pool("192.168.60.240/31"), "l2")) == {"new": ["192.168.60.241"]}


def test_taken_addresses_are_passed_over() -> None:
    ip = parse_ip("192.168.60.240")
    assert ip
    made = assign([lb("a")], pool("192.168.60.240/31"), "l2", {ip: "node-a"})
    assert addresses(made) == {"a": ["192.168.60.241"]}
    wish = assign([lb("a", "loadBalancerIP: 192.168.60.240")], pool("192.168.60.240/31"), "l2", {ip: "node-a"})
    assert "is in use by node-a" in wish.refused[key("a")].en


def test_a_pool_that_is_used_up() -> None:
    made = assign([lb("a"), lb("b")], pool("192.168.60.240/32"), "l2")
    assert addresses(made) == {"a": ["192.168.60.240"]}
    assert "no free IPv4 address" in made.refused[key("b")].en
    assert "负载均衡器" in made.refused[key("b")].zh


def test_wishes() -> None:
    asked = [lb("a"), lb("b", "loadBalancerIP: 192.168.60.241"), lb("c", "loadBalancerIP: 10.0.0.1")]
    made = assign(asked, pool("192.168.60.240/29"), "l2")
    assert addresses(made) == {"a": ["192.168.60.240"], "b": ["192.168.60.241"]}
    assert "is not in loadBalancer.pool" in made.refused[key("c")].en


def test_families() -> None:
    both = "ipFamilies: [IPv6, IPv4], ipFamilyPolicy: "
    ranges = pool("192.168.60.240/29", "fd00:60::f0/124")
    made = assign([lb("a", both + "PreferDualStack"), lb("b", "ipFamilies: [IPv6]")], ranges, "l2")
    assert addresses(made) == {"a": ["fd00:60::f0", "192.168.60.240"], "b": ["fd00:60::f1"]}
    one = [lb("a", both + "PreferDualStack"), lb("b", both + "RequireDualStack")]
    made = assign(one, pool("192.168.60.240/29"), "l2")
    assert addresses(made) == {"a": ["192.168.60.240"]}
    assert "no free IPv6 address" in made.refused[key("b")].en


def test_others_are_left_alone_and_given_up_ones_taken_back() -> None:
    gone = service(
        "{metadata: g, spec: {type: ClusterIP, clusterIP: 10.96.0.9, ports: [{port: 80}]},"
        " status: {loadBalancer: {ingress: [{ip: 192.168.60.240}]}}}"
    )
    made = assign([lb("a", "loadBalancerClass: other/one"), gone, lb("b")], pool("192.168.60.240/32"), "l2")
    assert addresses(made) == {"g": [], "b": ["192.168.60.240"]}


def slices(*endpoints: tuple[str, dict[str, bool] | None]) -> list[Any]:
    values = [
        {"addresses": [f"10.244.1.{index}"], "nodeName": name, "conditions": state or {}}
        for index, (name, state) in enumerate(endpoints, 5)
    ]
    return [endpoint_slice("a-1", "a", values, [{"port": 8080}])]


def by_hash(ip: str, nodes: list[str]) -> str:
    return sorted(nodes, key=lambda each: hashlib.sha256(f"{each}#{ip}".encode()).digest())[0]


def test_one_node_by_hash() -> None:
    ips = [f"192.168.60.{number}" for number in range(240, 248)]
    chosen = [announcer(lb("a"), ip, slices(("n1", READY)), NODES) for ip in ips]
    assert chosen == [by_hash(ip, NODES) for ip in ips]
    assert len(set(chosen)) > 1


def test_local_policy_wants_a_node_with_an_endpoint_that_serves() -> None:
    local = lb("a", "externalTrafficPolicy: Local")
    for index in range(8):
        ip = f"192.168.60.{240 + index}"
        known = slices(("n1", NOT_READY), ("n2", DRAINING), ("n3", None))
        assert announcer(local, ip, known, NODES) == by_hash(ip, ["n2", "n3"])
    assert announcer(local, "192.168.60.240", slices(("n9", READY)), NODES) is None


def test_nobody_answers_for_a_service_without_endpoints() -> None:
    assert announcer(lb("a"), "192.168.60.240", slices(("n1", NOT_READY)), NODES) is None
    assert announcer(lb("a"), "192.168.60.240", [], NODES) is None


def test_announcements_of_all_nodes() -> None:
    known = [
        lb("a", ingress="{ip: 192.168.60.240, ipMode: VIP}, {hostname: x}"),
        lb("b", ingress="{ip: 192.168.60.241}"),
        lb("p", ingress="{ip: 192.168.60.242, ipMode: Proxy}"),
    ]
    excluded = node("n1", labels={"node.kubernetes.io/exclude-from-external-load-balancers": ""})
    made = announcements(known, slices(("n1", READY)), [excluded, node("n2")])
    assert made == {"n1": [], "n2": ["192.168.60.240"]}


def test_frontends_of_the_box() -> None:
    local = lb("l", "externalTrafficPolicy: Local, healthCheckNodePort: 31000", "{ip: 192.168.60.241, ipMode: Proxy}")
    known = [
        lb("a", ingress="{ip: 192.168.60.240, ipMode: Proxy}"),
        local,
        lb("v", ingress="{ip: 192.168.60.242}"),
        lb("six", ingress='{ip: "fd00:60::f0", ipMode: Proxy}'),
    ]
    nodes = [node("n1", "192.168.60.1", "fd00:60::1"), node("n2", "192.168.60.2")]
    made = frontends(known, nodes)
    assert [(each.service, each.ip, each.port, each.check_port, each.check_path) for each in made] == [
        ("a", "192.168.60.240", 80, 10256, "/healthz"),
        ("l", "192.168.60.241", 80, 31000, "/"),
        ("six", "fd00:60::f0", 80, 10256, "/healthz"),
    ]
    assert made[0].backends == (("192.168.60.1", 30080), ("192.168.60.2", 30080))
    assert made[2].backends == (("fd00:60::1", 30080),)
