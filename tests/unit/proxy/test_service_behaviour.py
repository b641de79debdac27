"""What becomes of a connection to a Service: behaviour of kube-proxy 1.36 in iptables mode, case by case.

Three nodes: n1 in zone za with the Pods a1, a2 and cli1, n2 and n3 in zone zb with b1, b2 and c1. x1 and x2 are
outside, and "host" is a process of the node itself. Slices are those that the EndpointSlice controller makes of the
Pods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest

from netlab.cluster.endpointslices import slices_for
from netlab.objects.endpointslice import EndpointSlice
from netlab.objects.ip import parse_ip
from netlab.objects.node import ZONE_LABEL, Node
from netlab.objects.pod import Pod
from netlab.objects.proxyconfig import KubeProxyConfiguration
from netlab.objects.service import Service
from netlab.proxy.family import Family
from netlab.proxy.iptables.rules import Settings
from netlab.proxy.iptables.ruleset import RuleSet, save_text
from netlab.proxy.settings import iptables_settings
from netlab.proxy.topology import NodeTopology
from tests.unit.proxy.build import NAMESPACE, endpoint_slice, rule_set, service
from tests.unit.proxy.verdicts import Outcome, Packet, outcomes

ZONES = {"n1": "za", "n2": "zb", "n3": "zb"}
NODE_IPS = {"n1": "192.168.50.11", "n2": "192.168.50.12", "n3": "192.168.50.13"}
SERVERS = {
    "a1": ("n1", "10.244.1.5"),
    "a2": ("n1", "10.244.1.6"),
    "b1": ("n2", "10.244.2.7"),
    "b2": ("n2", "10.244.2.8"),
    "c1": ("n3", "10.244.3.9"),
}
NAMES = {ip: name for name, (_, ip) in SERVERS.items()}
CLIENTS = {"cli1": "10.244.1.20", "a1": "10.244.1.5", "x1": "172.20.0.9", "x2": "172.21.0.9"}

NODES = {
    name: msgspec.convert({"metadata": {"name": name, "labels": {ZONE_LABEL: zone}}}, Node)
    for name, zone in ZONES.items()
}


def pod(name: str, state: str) -> Pod:
    """A server: ready, notready, draining (ready and being deleted) or dead (not ready and being deleted)."""
    node, ip = SERVERS[name]
    metadata: dict[str, Any] = {"name": name, "namespace": NAMESPACE, "labels": {"app": "web"}}
    if state in ("draining", "dead"):
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    ready = "True" if state in ("ready", "draining") else "False"
    status = {
        "phase": "Running",
        "podIPs": [{"ip": ip}],
        "conditions": [{"type": "Ready", "status": ready}],
    }
    return msgspec.convert({"metadata": metadata, "spec": {"nodeName": node}, "status": status}, Pod)


@dataclass(frozen=True)
class Cluster:
    """A cluster with one Service or more (all select the same Pods), looked at from one node."""

    services: Sequence[Service]
    backends: Mapping[str, str]
    node: str = "n1"
    config: KubeProxyConfiguration = field(default_factory=lambda: KubeProxyConfiguration(cluster_cidr="10.244.0.0/16"))
    own: frozenset[str] = frozenset()
    slices: Sequence[EndpointSlice] | None = None

    @property
    def local(self) -> frozenset[str]:
        """The node's own addresses."""
        return frozenset({NODE_IPS[self.node], f"10.244.{self.node[1]}.1"}) | self.own

    def rules(self) -> RuleSet:
        pods = [pod(name, state) for name, state in self.backends.items()]
        made = [each for one in self.services for each in slices_for(one, pods, NODES)]
        slices = [msgspec.convert(each, EndpointSlice) for each in made] if self.slices is None else self.slices
        local = [parse_ip(each) for each in ("127.0.0.1", *sorted(self.local))]
        settings = iptables_settings(
            self.config,
            Family.IPV4,
            node_ips=[ip for each in (NODE_IPS[self.node],) if (ip := parse_ip(each)) is not None],
            local_addresses=[each for each in local if each is not None],
            pod_cidrs=[f"10.244.{self.node[1]}.0/24"],
            counters=True,
        )
        return rule_set(self.services, slices, NodeTopology(self.node, ZONES[self.node]), settings)

    def connect(self, client: str, destination: str, port: int = 80, protocol: str = "tcp") -> dict[str, bool] | str:
        """Which Pods may get a connection, and whether with another source; or the verdict where none does."""
        packet = Packet(CLIENTS.get(client, NODE_IPS[self.node]), destination, port, protocol)
        if client in CLIENTS:
            packet = replace(packet, interface="cni0" if CLIENTS[client].startswith("10.244.") else "eth0")
        return told(outcomes(self.rules(), packet, self.local))


def told(found: set[Outcome]) -> dict[str, bool] | str:
    verdicts = {each.verdict for each in found}
    assert len(verdicts) == 1, f"more than one verdict: {found}"
    (verdict,) = verdicts
    if verdict != "answer":
        return verdict
    answers = {each.endpoint: each.masqueraded for each in found if each.endpoint is not None}
    assert len(answers) == len(found), f"not always the same source: {found}"
    return {NAMES[endpoint.rpartition(":")[0]]: masqueraded for endpoint, masqueraded in answers.items()}


PORT = "ports: [{port: 80, targetPort: 8080}]"
NODE_PORT = "type: NodePort, ports: [{port: 80, targetPort: 8080, nodePort: 30080}]"
BALANCER = "type: LoadBalancer, ports: [{port: 80, targetPort: 8080, nodePort: 30080}], healthCheckNodePort: 31999"
LOCAL = "externalTrafficPolicy: Local"
SPECS = {
    "plain": PORT,
    "nodePort": NODE_PORT,
    "nodePort Local": f"{NODE_PORT}, {LOCAL}",
    "balancer": BALANCER,
    "balancer Local": f"{BALANCER}, {LOCAL}",
    "ranges": f"{BALANCER}, loadBalancerSourceRanges: [172.20.0.0/25]",
    "ranges of everything": f"{BALANCER}, loadBalancerSourceRanges: [172.31.0.0/16, 0.0.0.0/0]",
    "ranges with the node": f"{BALANCER}, loadBalancerSourceRanges: [192.168.50.0/24]",
    "externalIP": f"{PORT}, externalIPs: [203.0.113.20]",
    "externalIP Local": f"{PORT}, externalIPs: [203.0.113.20], {LOCAL}",
    "internal Local": f"{PORT}, internalTrafficPolicy: Local",
    "zone": f"{PORT}, trafficDistribution: PreferSameZone",
    "close": f"{PORT}, trafficDistribution: PreferClose",
    "node": f"{PORT}, trafficDistribution: PreferSameNode",
    "nodePort Local zone": f"{NODE_PORT}, {LOCAL}, trafficDistribution: PreferSameZone",
}
ADDRESSES = {"VIP": "10.96.0.50", "LB": "203.0.113.10", "EIP": "203.0.113.20", **NODE_IPS}

# Case, Service, Pods behind it (ready, if it is not said), who connects where, and the Pods that may get it: with a
# star where they see another source than the client's. Or else what becomes of it.
TABLE = """
cip-01 a Pod's address is kept                    | plain                | a2 b1            | cli1 VIP:80    | a2 b1
cip-02 the node itself is masqueraded             | plain                | a2 b1            | host VIP:80    | a2* b1*
cip-04 another port is nobody's | plain | a2 | cli1 VIP:81 | untouched
np-01 outside clients are masqueraded             | nodePort             | a2 b1            | x1 n1:30080    | a2* b1*
np-02 loopback serves nodePorts                   | nodePort             | a2 b1            | host lo:30080  | a2* b1*
np-07 Pods are masqueraded too                    | nodePort             | a2               | cli1 n1:30080  | a2*
np a nodePort is on the node's own addresses only | nodePort | a2 | cli1 EIP:30080 | untouched
lb-01 a load balancer's address                   | balancer             | a2               | x1 LB:80       | a2*
lb-01 its nodePort                                | balancer             | a2               | x1 n1:30080    | a2*
lb-01 its nodePort is not on its own address | balancer | a2 | x1 LB:30080 | untouched
lb-02 a Pod takes the short cut                   | balancer Local       | b1               | cli1 LB:80     | b1
lb-02 so does the node                            | balancer Local       | b1               | host LB:80     | b1*
lb-02 strangers are dropped                       | balancer Local       | b1               | x1 LB:80       | drop
ext-01 an externalIP masquerades all              | externalIP           | b1               | cli1 EIP:80    | b1*
ext-01 from outside                               | externalIP           | b1               | x1 EIP:80      | b1*
ext-02 policy Local from outside                  | externalIP Local     | a2 b1            | x1 EIP:80      | a2
ext-02 policy Local from a Pod                    | externalIP Local     | a2 b1            | cli1 EIP:80    | a2 b1
tp-01 internal policy Local                       | internal Local       | a1 b1            | cli1 VIP:80    | a1
tp-01 internal policy Local, the node itself      | internal Local       | a1 b1            | host VIP:80    | a1*
tp-02 nobody on this node                         | internal Local       | b1               | cli1 VIP:80    | drop
tp-02 nobody anywhere                             | internal Local       |                  | cli1 VIP:80    | reject
tp-04 the client's address is kept                | nodePort Local       | a2 b1            | x1 n1:30080    | a2
tp-04 nobody on this node                         | nodePort Local       | a2 b1            | x1 n3:30080    | drop
tp-05 a Pod reaches all                           | nodePort Local       | b1               | cli1 n1:30080  | b1
tp-05 the node reaches all                        | nodePort Local       | b1               | host n1:30080  | b1*
tp-08 no endpoint anywhere                        | nodePort Local       |                  | x1 n1:30080    | reject
td-01 the zone first                              | zone                 | a1 b1 c1         | cli1 VIP:80    | a1
td-01 the zone of n3                              | zone                 | a1 b1 c1         | n3 VIP:80      | b1 c1
td PreferClose means the zone                     | close                | a1 b1            | cli1 VIP:80    | a1
td-03 the node first                              | node                 | a1 b1 b2         | cli1 VIP:80    | a1
td-03 no other of the zone                        | node                 | b1 c1            | n2 VIP:80      | b1
td-03 the zone where the node has none            | node                 | a1 b1 b2         | n3 VIP:80      | b1 b2
td-04 all where node and zone have none           | node                 | b1 b2 a1:notready | cli1 VIP:80    | b1 b2
td-09 all where the zone has none                 | zone                 | b1 c1            | cli1 VIP:80    | b1 c1
td hints do not bind policy Local                 | nodePort Local zone  | a1 b1            | x1 n2:30080    | b1
te-01 draining where nobody is ready | plain | a1:draining b1:draining b2:dead | cli1 VIP:80 | a1 b1
te-02 ready before draining | plain | a1:draining b1:draining b2:dead c1 | cli1 VIP:80 | c1
te-04 draining here before ready elsewhere        | internal Local       | a1:draining b1   | cli1 VIP:80    | a1
te draining here, external policy Local           | nodePort Local       | a1:draining b1   | x1 n1:30080    | a1
te ready here before draining here                | nodePort Local       | a1:draining a2   | x1 n1:30080    | a2
te only dead ones | plain | a1:dead b1:notready | cli1 VIP:80 | reject
te hints are void for draining ones | zone | a1:draining b1:draining | cli1 VIP:80 | a1 b1
ne-01 clusterIP                                   | balancer             |                  | cli1 VIP:80    | reject
ne-01 clusterIP, the node itself                  | balancer             |                  | host VIP:80    | reject
ne-01 nodePort                                    | balancer             |                  | x1 n1:30080    | reject
ne-01 load balancer's address                     | balancer             |                  | x1 LB:80       | reject
fw-01 in the ranges                               | ranges               | a2               | x1 LB:80       | a2*
fw-01 out of them                                 | ranges               | a2               | x2 LB:80       | drop
fw-01 Pods like everyone                          | ranges               | a2               | cli1 LB:80     | drop
fw-01 B05 the node like everyone                  | ranges               | a2               | host LB:80     | drop
fw-01 nodePorts are never filtered                | ranges               | a2               | x2 n1:30080    | a2*
fw-01 nor is the clusterIP                        | ranges               | a2               | cli1 VIP:80    | a2
fw-02 everything is no filter                     | ranges of everything | a2               | x2 LB:80       | a2*
fw-04 no endpoints, no filter                     | ranges               |                  | x2 LB:80       | reject
fw-05 the node's own range lets it in             | ranges with the node | a2               | host LB:80     | a2*
mq-01 a Pod that meets itself                     | plain                | a1               | a1 VIP:80      | a1*
mq-01 another Pod                                 | plain                | a1               | cli1 VIP:80    | a1
mq-04 from outside to the clusterIP               | plain                | a2 b1            | x1 VIP:80      | a2* b1*
"""
ROWS = [[cell.strip() for cell in line.split("|")] for line in TABLE.strip().splitlines()]


def web(spec: str, status: str = "{loadBalancer: {ingress: [{ip: 203.0.113.10}]}}") -> Service:
    text = f"{{metadata: web, status: {status}, spec: {{clusterIP: 10.96.0.50, selector: {{app: web}}, {spec}}}}}"
    return service(text)


def backends(text: str) -> dict[str, str]:
    """ "a1 b1:draining": Pods by name with their states."""
    return {name: state or "ready" for name, _, state in (each.partition(":") for each in text.split())}


def expected(text: str) -> dict[str, bool] | str:
    if text in ("drop", "reject", "untouched"):
        return text
    return {name.rstrip("*"): name.endswith("*") for name in text.split()}


@pytest.mark.parametrize(("spec", "pods", "probe", "outcome"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_a_connection(spec: str, pods: str, probe: str, outcome: str) -> None:
    client, _, target = probe.partition(" ")
    address, _, port = target.partition(":")
    node = next((name for name in (address, client) if name in NODES), "n1")
    given = Cluster([web(SPECS[spec])], backends(pods), node)
    destination = "127.0.0.2" if address == "lo" else ADDRESSES[address]
    if client in NODES:
        # A Pod of that node; the rules know it by its range only.
        given, client = replace(given, node=client), "cli1"
    assert given.connect(client, destination, int(port)) == expected(outcome)


def config(**changes: Any) -> KubeProxyConfiguration:
    return msgspec.convert({"clusterCIDR": "10.244.0.0/16", **changes}, KubeProxyConfiguration)


def test_ip_mode_proxy_leaves_the_address_to_the_load_balancer() -> None:
    ingress = "{{loadBalancer: {{ingress: [{{ip: 203.0.113.10, ipMode: {}}}]}}}}"
    for mode, outcome in (("Proxy", "untouched"), ("VIP", {"a2": True})):
        given = Cluster([web(BALANCER, ingress.format(mode))], backends("a2"))
        assert given.connect("x1", "203.0.113.10") == outcome
        assert given.connect("x1", "192.168.50.11", 30080) == {"a2": True}


def test_an_ingress_with_a_host_name_only_is_not_programmed() -> None:
    given = Cluster([web(BALANCER, "{loadBalancer: {ingress: [{hostname: lb.example.test}]}}")], backends("a2"))
    assert "loadbalancer" not in save_text(given.rules())


@pytest.mark.parametrize(
    "spec",
    ["clusterIP: None, ports: [{port: 5432}]", "type: ExternalName, externalName: far.example.test, clusterIP: ''"],
)
def test_headless_and_external_name_services_have_no_rules(spec: str) -> None:
    nothing = save_text(Cluster([], {}).rules())
    given = Cluster([service(f"{{metadata: web, spec: {{selector: {{app: web}}, {spec}}}}}")], backends("a1"))
    assert save_text(given.rules()) == nothing


def test_a_service_of_another_proxy_is_not_programmed_until_the_label_goes() -> None:
    label = "service.kubernetes.io/service-proxy-name: custom"
    spec = f"{{clusterIP: 10.96.0.50, selector: {{app: web}}, {PORT}}}"
    labelled = service(f"{{metadata: {{name: web, labels: {{{label}}}}}, spec: {spec}}}")
    assert Cluster([labelled], backends("a1")).connect("cli1", "10.96.0.50") == "untouched"
    plain = service(f"{{metadata: web, spec: {spec}}}")
    assert Cluster([plain], backends("a1")).connect("cli1", "10.96.0.50") == {"a1": False}


def test_masquerade_all_is_about_cluster_ips_only() -> None:
    everything = config(iptables={"masqueradeAll": True})
    assert Cluster([web(PORT)], backends("a2 b1"), config=everything).connect("cli1", "10.96.0.50") == {
        "a2": True,
        "b1": True,
    }
    local = Cluster([web(SPECS["nodePort Local"])], backends("a2"), config=everything)
    assert local.connect("x1", "192.168.50.11", 30080) == {"a2": False}


def test_without_a_detector_strangers_keep_their_address_on_the_way_to_a_cluster_ip() -> None:
    given = Cluster([web(PORT)], backends("b1"), config=KubeProxyConfiguration())
    assert given.connect("x1", "10.96.0.50") == {"b1": False}
    assert given.connect("cli1", "10.96.0.50") == {"b1": False}


def test_without_a_detector_there_is_no_short_cut_for_pods() -> None:
    given = Cluster([web(SPECS["nodePort Local"])], backends("b1"), config=KubeProxyConfiguration())
    assert given.connect("cli1", "192.168.50.11", 30080) == "drop"
    assert given.connect("host", "192.168.50.11", 30080) == {"b1": True}


@pytest.mark.parametrize(
    ("detector", "outcome"),
    [
        ({"detectLocalMode": "ClusterCIDR"}, {"c1": False}),
        ({"detectLocalMode": "NodeCIDR"}, "drop"),
        ({"detectLocalMode": "InterfaceNamePrefix", "detectLocal": {"interfaceNamePrefix": "veth"}}, "drop"),
        ({"detectLocalMode": "BridgeInterface", "detectLocal": {"bridgeInterface": "cni0"}}, "drop"),
    ],
)
def test_a_pod_of_another_node_is_local_to_the_cluster_cidr_alone(
    detector: dict[str, Any], outcome: dict[str, bool] | str
) -> None:
    given = Cluster([web(SPECS["nodePort Local"])], backends("c1"), "n2", config(**detector))
    packet = Packet(CLIENTS["cli1"], NODE_IPS["n2"], 30080, interface="eth0")
    assert told(outcomes(given.rules(), packet, given.local)) == outcome


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({}, {"a1": True}),
        ({"iptables": {"localhostNodePorts": False}}, "untouched"),
        ({"nodePortAddresses": ["192.168.50.0/24"]}, "untouched"),
        ({"nodePortAddresses": ["primary"]}, "untouched"),
        ({"nodePortAddresses": ["127.0.0.0/8"]}, {"a1": True}),
        ({"nodePortAddresses": ["127.0.0.1/32", "192.168.50.0/24"]}, {"a1": True}),
        ({"nodePortAddresses": ["0.0.0.0/0"]}, {"a1": True}),
        ({"nodePortAddresses": ["fd00::/8"]}, {"a1": True}),
    ],
)
def test_who_serves_node_ports_on_loopback(changes: dict[str, Any], outcome: dict[str, bool] | str) -> None:
    given = Cluster([web(NODE_PORT)], backends("a1"), config=config(**changes))
    assert given.connect("host", "127.0.0.1", 30080) == outcome


@pytest.mark.parametrize("selectors", [["192.168.50.0/24"], ["primary"]])
def test_node_port_addresses_select_which_addresses_serve(selectors: list[str]) -> None:
    own = frozenset({"192.168.77.11"})
    given = Cluster([web(NODE_PORT)], backends("a2"), config=config(nodePortAddresses=selectors), own=own)
    assert given.connect("x1", "192.168.50.11", 30080) == {"a2": True}
    assert given.connect("x1", "192.168.77.11", 30080) == "untouched"
    assert Cluster([web(NODE_PORT)], backends("a2"), own=own).connect("x1", "192.168.77.11", 30080) == {"a2": True}


def test_an_exact_address_and_port_comes_before_a_node_port() -> None:
    own = frozenset({"203.0.113.9"})
    one = service("{metadata: np, spec: {type: NodePort, clusterIP: 10.96.0.60, ports: [{port: 80, nodePort: 30080}]}}")
    other = service(
        "{metadata: lb, spec: {type: LoadBalancer, clusterIP: 10.96.0.61, ports: [{port: 30080}]},"
        " status: {loadBalancer: {ingress: [{ip: 203.0.113.9}]}}}"
    )
    slices = [slice_of("np", "a1"), slice_of("lb", "a2")]
    given = Cluster([one, other], {}, own=own, slices=slices)
    assert given.connect("x1", "203.0.113.9", 30080) == {"a2": True}
    assert given.connect("x1", "192.168.50.11", 30080) == {"a1": True}


def slice_of(name: str, pod_name: str, *ports: dict[str, Any]) -> EndpointSlice:
    endpoints = [{"addresses": [SERVERS[pod_name][1]], "nodeName": SERVERS[pod_name][0]}]
    return endpoint_slice(f"{name}-1", name, endpoints, ports or [{"name": "", "protocol": "TCP", "port": 8080}])


def test_a_node_that_the_ranges_cover_reaches_the_balancer_from_its_address() -> None:
    """With the load balancer's address on the node itself, that is the source of its own connections."""
    packet = Packet("203.0.113.10", "203.0.113.10", 80)
    for ranges, outcome in (("192.168.50.0/24", {"a2": True}), ("192.168.60.0/24", "drop")):
        spec = f"{BALANCER}, loadBalancerSourceRanges: [{ranges}]"
        given = Cluster([web(spec)], backends("a2"), own=frozenset({"203.0.113.10"}))
        assert told(outcomes(given.rules(), packet, given.local)) == outcome


def test_hand_written_slices_join_by_port_name_and_use_their_own_number() -> None:
    manual = service("{metadata: manual, spec: {clusterIP: 10.96.0.50, ports: [{port: 80, targetPort: 7777}]}}")
    named = slice_of("manual", "a1", {"name": "http", "protocol": "TCP", "port": 8080})
    assert Cluster([manual], {}, slices=[named]).connect("cli1", "10.96.0.50") == "reject"
    for port in (8080, 3307):
        unnamed = slice_of("manual", "a1", {"name": "", "protocol": "TCP", "port": port})
        rules = Cluster([manual], {}, slices=[unnamed]).rules()
        found = outcomes(rules, Packet("10.244.1.20", "10.96.0.50", 80, interface="cni0"), frozenset())
        assert found == {Outcome("answer", f"10.244.1.5:{port}")}


def test_each_protocol_of_one_port_number_has_its_own_way() -> None:
    protocols = {"t": ("TCP", 8080), "u": ("UDP", 8081), "s": ("SCTP", 8082)}
    ports = ", ".join(f"{{name: {name}, protocol: {protocol}, port: 80}}" for name, (protocol, _) in protocols.items())
    tri = service(f"{{metadata: tri, spec: {{clusterIP: 10.96.0.50, ports: [{ports}]}}}}")
    targets = [{"name": name, "protocol": protocol, "port": port} for name, (protocol, port) in protocols.items()]
    rules = Cluster([tri], {}, slices=[slice_of("tri", "a1", *targets)]).rules()
    for protocol, port in protocols.values():
        packet = Packet("10.244.1.20", "10.96.0.50", 80, protocol.lower(), interface="cni0")
        assert outcomes(rules, packet, frozenset()) == {Outcome("answer", f"10.244.1.5:{port}")}
    chains = [chain for chain in rules.tables["nat"].chains if chain.startswith("KUBE-SVC-")]
    assert len(chains) == 3


def test_a_ping_to_a_cluster_ip_is_nobodys() -> None:
    given = Cluster([web(PORT)], backends("a2"))
    assert given.connect("cli1", "10.96.0.50", 0, "icmp") == "untouched"


def test_affinity_is_kept_by_each_service_port_for_itself() -> None:
    spec = "sessionAffinity: ClientIP, ports: [{name: http, port: 80}, {name: admin, port: 81}]"
    rules = Cluster([web(spec)], backends("a2 b1 b2 c1")).rules()
    kept = [rule.text for rules_of in rules.tables["nat"].chains.values() for rule in rules_of if "--set " in rule.text]
    lists = {text.split("--name ")[1].split()[0] for text in kept}
    assert len(kept) == len(lists) == 8
    assert all("--seconds 10800 " in rule for rule in save_text(rules).splitlines() if "--rcheck" in rule)


def test_equal_chances_are_written_as_one_of_those_that_are_left() -> None:
    rules = Cluster([web(PORT)], backends("b1 a1 a2")).rules()
    (chain,) = [each for name, each in rules.tables["nat"].chains.items() if name.startswith("KUBE-SVC-")]
    jumps = [rule.text for rule in chain if "->" in rule.text]
    assert [text.split("-> ")[1].split('"')[0] for text in jumps] == [
        "10.244.1.5:8080",
        "10.244.1.6:8080",
        "10.244.2.7:8080",
    ]
    assert ["--probability 0.33333333349" in jumps[0], "--probability 0.50000000000" in jumps[1]] == [True, True]
    assert "--probability" not in jumps[2]


def test_the_health_check_port_is_let_in_only_where_it_is_needed() -> None:
    for spec, there in (("balancer Local", True), ("balancer", False), ("nodePort Local", False)):
        rules = Cluster([web(SPECS[spec])], backends("a1")).rules().tables["filter"].chains["KUBE-NODEPORTS"]
        assert [rule.text.endswith("--dport 31999 -j ACCEPT") for rule in rules] == [True] * there


@pytest.mark.parametrize(("bit", "mark"), [(None, "0x4000"), (14, "0x4000"), (20, "0x100000"), (0, "0x1")])
def test_the_mark_is_the_masquerade_bit_in_all_three_places(bit: int | None, mark: str) -> None:
    given = Cluster([web(PORT)], backends("a1"), config=config(iptables={"masqueradeBit": bit}))
    chains = given.rules().tables["nat"].chains
    assert [rule.text for rule in chains["KUBE-MARK-MASQ"]] == [f"-j MARK --set-xmark {mark}/{mark}"]
    assert [rule.text for rule in chains["KUBE-POSTROUTING"]] == [
        f"-m mark ! --mark {mark}/{mark} -j RETURN",
        f"-j MARK --set-xmark {mark}/0x0",
        "-j MASQUERADE --random-fully",
    ]
    assert given.connect("x1", "10.96.0.50") == {"a1": True}


def test_invalid_packets_are_dropped_first_unless_conntrack_is_liberal() -> None:
    for liberal in (False, True):
        rules = Cluster([], {}, config=config(conntrack={"tcpBeLiberal": liberal})).rules()
        first = rules.tables["filter"].chains["KUBE-FORWARD"][0].text
        assert ("--ctstate INVALID" in first and first.endswith("-j DROP")) == (not liberal)


def test_an_ipv6_service_without_endpoints_is_refused_with_icmpv6() -> None:
    six = service("{metadata: n6, spec: {clusterIP: 'fd00:10:96::111', ports: [{port: 80}]}}")
    rules = rule_set([six], [], NodeTopology("n1"), Settings(Family.IPV6))
    (refusal,) = rules.tables["filter"].chains["KUBE-SERVICES"]
    assert refusal.text.endswith("-j REJECT --reject-with icmp6-port-unreachable")
    assert outcomes(rules, Packet("fd00::1", "fd00:10:96::111", 80, interface="eth0"), frozenset()) == {
        Outcome("reject")
    }


def test_the_loopback_guard_is_there_only_with_node_ports_on_loopback() -> None:
    packet = Packet("192.168.50.99", "127.0.0.1", 10248, interface="eth0")
    given = Cluster([], {})
    assert outcomes(given.rules(), packet, given.local) == {Outcome("drop")}
    off = Cluster([], {}, config=config(iptables={"localhostNodePorts": False}))
    assert outcomes(off.rules(), packet, off.local) == {Outcome("untouched")}
