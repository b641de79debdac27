"""What one Service port asks for in ipvs mode, where the recordings do not tell."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import msgspec
import pytest

from netlab.kernel.ipvs import ServerAddress, Target, Timeouts
from netlab.model.keys import Origin
from netlab.objects.proxyconfig import IPVS_SCHEDULERS, KubeProxyConfiguration
from netlab.proxy.family import Family
from netlab.proxy.ipvs import names
from netlab.proxy.ipvs.settings import Settings, ipvs_settings, sysctls, timeouts
from netlab.proxy.ipvs.state import IpvsState
from netlab.proxy.ipvs.text import Caused, causes, server_lines
from netlab.proxy.ipvs.values import IpvsValue, port_value
from tests.unit.proxy.build import READY, endpoint_slice, service, tracker
from tests.unit.proxy.worlds import NODE

NODE_IP = ip_address("172.30.0.11")
ON_LINKS = [ip_address(each) for each in ("127.0.0.1", "::1", "172.30.0.11", "10.244.1.1", "fe80::1", "fd00::11")]


def settings_for(family: Family = Family.IPV4, **config: Any) -> Settings:
    given = {"clusterCIDR": "10.244.0.0/16", **config}
    return ipvs_settings(
        msgspec.convert(given, KubeProxyConfiguration),
        family,
        node_ips=[NODE_IP],
        local_addresses=ON_LINKS,
        pod_cidrs=["10.244.1.0/24"],
    )


def value_of(*texts: str, endpoints: dict[str, list[str]] | None = None, settings: Settings | None = None) -> IpvsValue:
    """Services by YAML; ``endpoints``: addresses of Pods by Service, those in 10.244.1.0/24 on this node."""
    settings = settings or settings_for()
    slices = [
        endpoint_slice(
            name,
            name,
            [
                {
                    "addresses": [ip],
                    "conditions": READY,
                    "nodeName": "node-a" if ip.startswith("10.244.1.") else "node-b",
                }
                for ip in ips
            ],
            [{"port": 8080}],
        )
        for name, ips in (endpoints or {}).items()
    ]
    changed = tracker([service(text) for text in texts], slices, NODE, settings.family).take_changes()
    state = IpvsState(settings)
    state.replace({name: port_value(each, settings) if each is not None else None for name, each in changed.items()})
    return state.wanted()


def rules(value: IpvsValue, table: str, chain: str) -> list[str]:
    return [rule.text for rule in value.rules.tables[table].chains[chain]]


LB = """
metadata: lb
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.30
  loadBalancerSourceRanges: [203.0.113.0/24]
  ports: [{port: 80, nodePort: 30081, protocol: PROTOCOL}]
status: {loadBalancer: {ingress: [{ip: 192.0.2.30}]}}
"""


@pytest.mark.parametrize(("protocol", "number"), [("TCP", 6), ("UDP", 17), ("SCTP", 132)])
def test_the_node_is_kept_out_where_the_source_ranges_miss_it(protocol: str, number: int) -> None:
    """kubernetes#119656; the text is what iptables-save 1.8.9 printed of this rule."""
    value = value_of(LB.replace("PROTOCOL", protocol))
    assert rules(value, "filter", names.IPVS_OUT_FILTER) == [
        f"-s 192.0.2.30/32 -m ipvs --vproto {number} --vaddr 192.0.2.30 --vport 80 -j DROP"
    ]
    assert value.sets[names.LOAD_BALANCER_SOURCE_IP] == {}


def test_and_let_in_where_they_take_it_in() -> None:
    text = LB.replace("PROTOCOL", "TCP").replace("203.0.113.0/24", "172.30.0.11/32")
    value = value_of(text)
    assert rules(value, "filter", names.IPVS_OUT_FILTER) == []
    assert list(value.sets[names.LOAD_BALANCER_SOURCE_CIDR]) == ["192.0.2.30,tcp:80,172.30.0.11"]
    assert list(value.sets[names.LOAD_BALANCER_SOURCE_IP]) == ["192.0.2.30,tcp:80,192.0.2.30"]


def test_a_range_of_everything_is_no_range() -> None:
    value = value_of(LB.replace("PROTOCOL", "TCP").replace("203.0.113.0/24", "0.0.0.0/0"))
    assert value.sets[names.LOAD_BALANCER_FW] == {}
    assert rules(value, "filter", names.PROXY_FIREWALL) == []


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, "! -s 10.244.0.0/16 -m set --match-set KUBE-CLUSTER-IP dst,dst -j KUBE-MARK-MASQ"),
        ({"clusterCIDR": ""}, "-m set --match-set KUBE-CLUSTER-IP src,dst -j KUBE-MARK-MASQ"),
        (
            {"detectLocalMode": "NodeCIDR"},
            "! -s 10.244.1.0/24 -m set --match-set KUBE-CLUSTER-IP dst,dst -j KUBE-MARK-MASQ",
        ),
        (
            {"detectLocalMode": "BridgeInterface", "detectLocal": {"bridgeInterface": "cni0"}},
            "! -i cni0 -m set --match-set KUBE-CLUSTER-IP dst,dst -j KUBE-MARK-MASQ",
        ),
        (
            {"detectLocalMode": "InterfaceNamePrefix", "detectLocal": {"interfaceNamePrefix": "veth"}},
            "! -i veth+ -m set --match-set KUBE-CLUSTER-IP dst,dst -j KUBE-MARK-MASQ",
        ),
        (
            {"iptables": {"masqueradeAll": True}, "clusterCIDR": ""},
            "-m set --match-set KUBE-CLUSTER-IP dst,dst -j KUBE-MARK-MASQ",
        ),
    ],
)
def test_who_is_masqueraded_on_the_way_to_a_cluster_ip(config: dict[str, Any], expected: str) -> None:
    web = "{metadata: web, spec: {clusterIP: 10.96.0.10, ports: [{port: 80}]}}"
    value = value_of(web, settings=settings_for(**config))
    assert rules(value, "nat", names.SERVICES)[1] == expected


def test_the_mark_is_the_configured_bit() -> None:
    value = value_of(settings=settings_for(iptables={"masqueradeBit": 0}))
    assert rules(value, "nat", names.MARK_MASQ) == ["-j MARK --set-xmark 0x1/0x1"]
    assert rules(value, "filter", names.FORWARD)[0] == "-m mark --mark 0x1/0x1 -j ACCEPT"


def test_node_ports_are_served_on_every_address_but_loopback_and_link_local() -> None:
    assert settings_for().node_port_ips == ("10.244.1.1", "172.30.0.11")
    assert settings_for(Family.IPV6).node_port_ips == ("fd00::11",)


@pytest.mark.parametrize(
    ("selectors", "expected"),
    [
        (["172.30.0.0/24"], ("172.30.0.11",)),
        (["127.0.0.0/8", "10.244.0.0/16"], ("10.244.1.1",)),
        (["127.0.0.0/8"], ()),
        (["primary"], ("172.30.0.11",)),
        (["0.0.0.0/0"], ("10.244.1.1", "172.30.0.11")),
        (["fd00::/64"], ("10.244.1.1", "172.30.0.11")),
    ],
)
def test_node_port_addresses(selectors: list[str], expected: tuple[str, ...]) -> None:
    assert settings_for(nodePortAddresses=selectors).node_port_ips == expected


def test_a_node_port_that_no_address_serves_is_in_no_set() -> None:
    settings = settings_for(nodePortAddresses=["127.0.0.0/8"])
    text = "{metadata: np, spec: {type: NodePort, clusterIP: 10.96.0.20, ports: [{port: 80, nodePort: 30080}]}}"
    value = value_of(text, settings=settings)
    assert set(value.servers) == {ServerAddress("tcp", "10.96.0.20", 80)}
    assert value.sets["NODE-PORT-TCP"] == {}


def test_a_local_sctp_node_port_is_in_both_sets_with_every_address() -> None:
    text = """
metadata: np
spec:
  {type: NodePort, clusterIP: 10.96.0.20, externalTrafficPolicy: Local,
   ports: [{port: 80, nodePort: 30080, protocol: SCTP}]}
"""
    value = value_of(text)
    both = ["10.244.1.1,sctp:30080", "172.30.0.11,sctp:30080"]
    assert sorted(value.sets["NODE-PORT-SCTP-HASH"]) == sorted(value.sets["NODE-PORT-LOCAL-SCTP-HASH"]) == both
    assert rules(value, "nat", names.NODE_PORT) == [
        "-p sctp -m set --match-set KUBE-NODE-PORT-LOCAL-SCTP-HASH dst,dst -j RETURN",
        "-p sctp -m set --match-set KUBE-NODE-PORT-SCTP-HASH dst,dst -j KUBE-MARK-MASQ",
    ]


def test_an_address_that_the_node_has_is_not_bound_again() -> None:
    spec = "{clusterIP: 10.96.0.50, externalIPs: [172.30.0.11, 203.0.113.20], ports: [{port: 8000}]}"
    text = f"{{metadata: web, spec: {spec}}}"
    value = value_of(text, endpoints={"web": ["10.244.2.7"]})
    assert set(value.addresses) == set(value.sets[names.IPVS_IPS]) == {"10.96.0.50", "203.0.113.20"}
    assert ServerAddress("tcp", "172.30.0.11", 8000) in value.servers


@pytest.mark.parametrize(
    ("extra", "internal", "external"),
    [
        ("", ["10.244.2.7"], None),
        ("internalTrafficPolicy: Local,", [], None),
        ("internalTrafficPolicy: Local, externalIPs: [203.0.113.20],", ["10.244.2.7"], ["10.244.2.7"]),
        ("externalTrafficPolicy: Local, externalIPs: [203.0.113.20],", ["10.244.2.7"], ["10.244.2.7"]),
    ],
)
def test_local_without_local_endpoints(extra: str, internal: list[str], external: list[str] | None) -> None:
    """As recorded: a Service that has cluster-wide endpoints for other traffic falls back to them."""
    text = f"{{metadata: web, spec: {{clusterIP: 10.96.0.50, {extra} ports: [{{port: 80}}]}}}}"
    value = value_of(text, endpoints={"web": ["10.244.2.7"]})
    assert [target.ip for target in value.servers[ServerAddress("tcp", "10.96.0.50", 80)].reals] == internal
    if external is not None:
        assert [target.ip for target in value.servers[ServerAddress("tcp", "203.0.113.20", 80)].reals] == external


@pytest.mark.parametrize("scheduler", IPVS_SCHEDULERS)
def test_schedulers(scheduler: str) -> None:
    web = "{metadata: web, spec: {clusterIP: 10.96.0.10, ports: [{port: 80}]}}"
    (line,) = server_lines(value_of(web, settings=settings_for(ipvs={"scheduler": scheduler})))
    flag = " -b mh-port" if scheduler == "mh" else ""
    assert line == f"-A -t 10.96.0.10:80 -s {scheduler}{flag}"


def test_where_services_ask_for_the_same_the_first_by_name_gets_it() -> None:
    text = "{{metadata: {name}, spec: {{clusterIP: 10.96.0.{ip}, externalIPs: [203.0.113.20], ports: [{{port: 80}}]}}}}"
    texts = [text.format(name=name, ip=ip) for name, ip in (("b", 2), ("a", 1))]
    value = value_of(*texts, endpoints={"a": ["10.244.1.5"], "b": ["10.244.1.6"]})
    shared = value.servers[ServerAddress("tcp", "203.0.113.20", 80)]
    assert shared.origin == Origin("Service lab/a", "spec.externalIPs[0]")
    assert list(shared.reals) == [Target("10.244.1.5", 8080)]


def test_everything_names_its_cause() -> None:
    value = value_of(LB.replace("PROTOCOL", "TCP"), endpoints={"lb": ["10.244.1.5"]})
    found = {(each.part, each.place, each.text): each.origin for each in causes(value, names.set_specs(Family.IPV4))}
    lb = "Service lab/lb"
    endpoint = Origin("EndpointSlice lab/lb", "endpoints[0].addresses[0]")
    expected = [
        Caused("kube-ipvs0", "kube-ipvs0", "10.96.0.30", Origin(lb, "spec.clusterIP")),
        Caused("kube-ipvs0", "kube-ipvs0", "192.0.2.30", Origin(lb, "status.loadBalancer.ingress[0].ip")),
        Caused(
            "ipvsadm",
            "tcp 172.30.0.11:30081",
            "-A -t 172.30.0.11:30081 -s rr",
            Origin(lb, "spec.ports[0].nodePort"),
        ),
        Caused("ipvsadm", "tcp 192.0.2.30:80", "-a -t 192.0.2.30:80 -r 10.244.1.5:8080 -m -w 1", endpoint),
        Caused("ipset", "KUBE-LOOP-BACK", "10.244.1.5,tcp:8080,10.244.1.5", endpoint),
        Caused(
            "ipset",
            "KUBE-LOAD-BALANCER-SOURCE-CIDR",
            "192.0.2.30,tcp:80,203.0.113.0/24",
            Origin(lb, "spec.loadBalancerSourceRanges[0]"),
        ),
        Caused("ipset", "KUBE-NODE-PORT-TCP", "30081", Origin(lb, "spec.ports[0].nodePort")),
        Caused(
            "iptables",
            "nat KUBE-SERVICES",
            "! -s 10.244.0.0/16 -m set --match-set KUBE-CLUSTER-IP dst,dst -j KUBE-MARK-MASQ",
            Origin("KubeProxyConfiguration", "clusterCIDR"),
        ),
        Caused(
            "iptables",
            "nat KUBE-NODE-PORT",
            "-p tcp -m set --match-set KUBE-NODE-PORT-TCP dst -j KUBE-MARK-MASQ",
            Origin(lb, "spec.ports[0].nodePort"),
        ),
    ]
    for each in expected:
        assert found[each.part, each.place, each.text] == each.origin
    assert all(origin is not None for (part, _, _), origin in found.items() if part != "iptables")


def test_names_of_sets_are_cut_to_what_the_kernel_takes() -> None:
    cut = {
        purpose: spec.name for purpose, spec in names.set_specs(Family.IPV6).items() if not spec.name.endswith(purpose)
    }
    assert cut == {
        names.LOAD_BALANCER_SOURCE_CIDR: "KUBE-6-LOAD-BALANCER-SOURCE-CID",
        "NODE-PORT-LOCAL-SCTP-HASH": "KUBE-6-NODE-PORT-LOCAL-SCTP-HAS",
    }


def test_kernel_settings() -> None:
    old, new, ancient = (4, 19), (5, 9), (3, 10)
    config = KubeProxyConfiguration()
    assert sysctls(config, old)["net/ipv4/vs/conn_reuse_mode"] == 0
    assert "net/ipv4/vs/conn_reuse_mode" not in sysctls(config, new) | sysctls(config, ancient)
    strict = sysctls(msgspec.convert({"ipvs": {"strictARP": True}}, KubeProxyConfiguration), new)
    assert strict["net/ipv4/conf/all/arp_ignore"] == 1
    assert strict["net/ipv4/conf/all/arp_announce"] == 2


def test_timeouts() -> None:
    assert timeouts(KubeProxyConfiguration()) is None
    config = msgspec.convert({"ipvs": {"tcpTimeout": "15m", "udpTimeout": "1m30s"}}, KubeProxyConfiguration)
    assert timeouts(config) == Timeouts(900, 0, 90)
