"""Rules of mode userspace as kube-proxy 1.25 wrote them."""

from __future__ import annotations

import pytest

from netlab.objects.ip import parse_ip
from netlab.objects.proxyconfig import KubeProxyConfiguration
from netlab.proxy.family import Family
from netlab.proxy.service_ports import ServicePort, service_ports
from netlab.proxy.userspace.rules import PortRules, Settings, frame, port_rules
from netlab.proxy.userspace.settings import family_of, proxy_ports, userspace_settings
from netlab.proxy.userspace.state import UserspaceState
from tests.unit.proxy.build import service

EVERYWHERE = Settings(Family.IPV4, host_ip="192.168.50.11")
CONTAINER = '-p tcp -m comment --comment "lab/web:http" -m tcp --dport 80 '


def port(text: str, family: Family = Family.IPV4) -> ServicePort:
    return service_ports(service(text), family)[0]


def texts(rules: PortRules) -> list[list[str]]:
    return [[rule.text for rule in chain] for chain in rules.by_chain()]


WEB = "{metadata: web, spec: {clusterIP: 10.96.0.50, ports: [{name: http, port: 80}]}}"


def test_cluster_ip_is_redirected_for_pods_and_sent_to_the_node_for_the_node() -> None:
    container, host, *others = texts(port_rules(port(WEB), 40123, EVERYWHERE))
    assert container == [f"-d 10.96.0.50/32 {CONTAINER}-j REDIRECT --to-ports 40123"]
    assert host == [f"-d 10.96.0.50/32 {CONTAINER}-j DNAT --to-destination 192.168.50.11:40123"]
    assert others == [[], [], []]


def test_a_bind_address_is_a_destination_for_all() -> None:
    settings = Settings(Family.IPV4, host_ip="192.168.50.11", listen_ip="192.168.60.1")
    container, host, *_ = texts(port_rules(port(WEB), 40123, settings))
    assert container == host == [f"-d 10.96.0.50/32 {CONTAINER}-j DNAT --to-destination 192.168.60.1:40123"]


def test_external_ips_of_this_node_or_from_other_machines() -> None:
    text = "{metadata: web, spec: {clusterIP: 10.96.0.50, externalIPs: [203.0.113.9], ports: [{name: http, port: 80}]}}"
    container, host, *_ = texts(port_rules(port(text), 40123, EVERYWHERE))
    assert container[1:] == [
        f"-d 203.0.113.9/32 {CONTAINER}-m physdev ! --physdev-is-in -j REDIRECT --to-ports 40123",
        f"-d 203.0.113.9/32 {CONTAINER}-m addrtype --dst-type LOCAL -j REDIRECT --to-ports 40123",
    ]
    assert host[1:] == [
        f"-d 203.0.113.9/32 {CONTAINER}-m addrtype --dst-type LOCAL -j DNAT --to-destination 192.168.50.11:40123"
    ]


def test_load_balancer_addresses_are_like_the_cluster_ip() -> None:
    text = """
    {metadata: web, spec: {type: LoadBalancer, clusterIP: 10.96.0.50, ports: [{name: http, port: 80}]},
     status: {loadBalancer: {ingress: [{ip: 203.0.113.10}]}}}
    """
    container, host, *_ = texts(port_rules(port(text), 40123, EVERYWHERE))
    assert container[1] == f"-d 203.0.113.10/32 {CONTAINER}-j REDIRECT --to-ports 40123"
    assert host[1] == f"-d 203.0.113.10/32 {CONTAINER}-j DNAT --to-destination 192.168.50.11:40123"


NODE_PORT = """
{metadata: dns, spec: {type: NodePort, clusterIP: 10.96.0.53, externalTrafficPolicy: Local,
 ports: [{port: 53, protocol: UDP, nodePort: 30053}]}}
"""


def test_node_ports_whatever_the_traffic_policy() -> None:
    rules = texts(port_rules(port(NODE_PORT), 40124, EVERYWHERE))
    match = '-p udp -m comment --comment "lab/dns" -m udp --dport'
    assert rules[2:] == [
        [f"{match} 30053 -j REDIRECT --to-ports 40124"],
        [f"{match} 30053 -j DNAT --to-destination 192.168.50.11:40124"],
        [f"{match} 40124 -m state --state NEW -j ACCEPT"],
    ]
    assert texts(port_rules(port(NODE_PORT), 40124, EVERYWHERE, node_port=False))[2:] == [[], [], []]


def test_ipv6_destinations_are_bracketed() -> None:
    text = '{metadata: web, spec: {clusterIP: "fd00::50", ports: [{name: http, port: 80}]}}'
    settings = Settings(Family.IPV6, host_ip="fd00:50::11", listen_ip="::")
    container, host, *_ = texts(port_rules(port(text, Family.IPV6), 40123, settings))
    assert container == [f"-d fd00::50/128 {CONTAINER}-j REDIRECT --to-ports 40123"]
    assert host == [f"-d fd00::50/128 {CONTAINER}-j DNAT --to-destination [fd00:50::11]:40123"]


def test_rules_say_what_caused_them() -> None:
    rules = port_rules(port(NODE_PORT), 40124, EVERYWHERE)
    origins = [str(rule.origin) for chain in rules.by_chain() for rule in chain]
    assert origins == ["Service lab/dns spec.clusterIP"] * 2 + ["Service lab/dns spec.ports[0].nodePort"] * 3


def test_node_ports_come_after_portals() -> None:
    nat = frame().tables["nat"].built_in
    assert [rule.text.split(" -j ")[1] for rule in nat["PREROUTING"]] == [
        "KUBE-PORTALS-CONTAINER",
        "KUBE-NODEPORT-CONTAINER",
    ]
    assert [rule.text.split(" -j ")[1] for rule in nat["OUTPUT"]] == ["KUBE-PORTALS-HOST", "KUBE-NODEPORT-HOST"]


def test_a_changed_port_goes_to_the_end() -> None:
    state = UserspaceState()
    web, dns = port(WEB), port(NODE_PORT)
    change = state.replace({web.name: port_rules(web, 40123, EVERYWHERE), dns.name: port_rules(dns, 40124, EVERYWHERE)})
    assert set(change.tables["nat"].written) == {
        "KUBE-PORTALS-CONTAINER",
        "KUBE-PORTALS-HOST",
        "KUBE-NODEPORT-CONTAINER",
        "KUBE-NODEPORT-HOST",
    }
    change = state.replace({web.name: port_rules(web, 40999, EVERYWHERE)})
    assert set(change.tables) == {"nat"}
    assert [rule.text[:20] for rule in change.tables["nat"].written["KUBE-PORTALS-HOST"]] == [
        "-d 10.96.0.53/32 -p ",
        "-d 10.96.0.50/32 -p ",
    ]
    assert not state.replace({}).tables
    state.replace({web.name: None, dns.name: None})
    assert state.wanted() == frame()
    assert not state.full_change(frame()).tables
    assert not state.full_change(frame()).appended


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        ("", None),
        ("0-0", None),
        ("40000-40010", (40000, 40010)),
        ("40000+10", (40000, 40010)),
        ("40000", (40000, 40000)),
    ],
)
def test_port_ranges(text: str, ports: tuple[int, int] | None) -> None:
    assert proxy_ports(text) == ports


@pytest.mark.parametrize("text", ["x", "5-4", "1-70000", "0-5", "-5"])
def test_bad_port_ranges(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        proxy_ports(text)


def test_one_family_alone() -> None:
    six, four = parse_ip("fd00:50::11"), parse_ip("192.168.50.11")
    assert six
    assert four
    assert family_of(KubeProxyConfiguration(), [six, four]) is Family.IPV6
    assert family_of(KubeProxyConfiguration(bind_address="192.168.50.11"), [six, four]) is Family.IPV4
    assert family_of(KubeProxyConfiguration(), []) is Family.IPV4


def test_settings_of_a_node() -> None:
    four, other = parse_ip("192.168.50.11"), parse_ip("10.244.1.1")
    assert four
    assert other
    given = KubeProxyConfiguration()
    assert userspace_settings(given, node_ips=[four], local_addresses=[other, four]) == EVERYWHERE
    bound = KubeProxyConfiguration(bind_address="10.244.1.1")
    assert userspace_settings(bound, node_ips=[four], local_addresses=[]).listen_ip == "10.244.1.1"
    with pytest.raises(ValueError, match="localhost"):
        userspace_settings(KubeProxyConfiguration(bind_address="127.0.0.1"), node_ips=[four], local_addresses=[])
