"""Changes in ipvs mode, one by one, come to the same as a fresh start; no step is refused, and each leaves a state in
which packets go where they may go."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from ipaddress import ip_address
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from netlab.kernel.ipset import SetSpec
from netlab.kernel.ipvs import RealServer, ServerAddress, Target, VirtualServer
from netlab.model.errors import LabFailed
from netlab.objects.ip import Address
from netlab.objects.proxyconfig import KubeProxyConfiguration
from netlab.objects.service import Service
from netlab.proxy.family import Family
from netlab.proxy.iptables.ruleset import Rule, TableChange
from netlab.proxy.ipvs import names
from netlab.proxy.ipvs.difference import ActualServer
from netlab.proxy.ipvs.host import REFUSED, rule_texts
from netlab.proxy.ipvs.operations import AddElements, NewReal, WriteRules
from netlab.proxy.ipvs.proxier import IpvsProxier
from netlab.proxy.ipvs.settings import ipvs_settings
from netlab.proxy.proxier import SyncReport
from tests.unit.proxy.build import READY, endpoint_slice, service, tracker
from tests.unit.proxy.fake_iptables import FakeIptables
from tests.unit.proxy.ipvs.fake_host import FakeHost
from tests.unit.proxy.worlds import NODE, Change, World, histories, make

CONFIG = KubeProxyConfiguration(mode="ipvs", cluster_cidr="10.244.0.0/16")
NODE_IP = ip_address("172.30.0.11")
ADDRESSES = [ip_address("127.0.0.1"), NODE_IP, ip_address("10.244.1.1"), ip_address("203.0.113.2")]
SPECS = names.set_specs(Family.IPV4)
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Proxy:
    """A proxy on a node: takes changes of the world in, one sync a batch."""

    def __init__(self, host: FakeHost | None = None, config: KubeProxyConfiguration = CONFIG) -> None:
        self.host = host or FakeHost(ADDRESSES[:2])
        self.world = World()
        self.tracker = tracker((), (), NODE)
        self.time = 0.0
        settings_for = partial(ipvs_settings, config, Family.IPV4, node_ips=[NODE_IP], pod_cidrs=["10.244.1.0/24"])
        self.proxier = IpvsProxier(self.host, lambda addresses: settings_for(local_addresses=addresses), self.clock)

    def clock(self) -> float:
        return self.time

    def take(self, batch: Iterable[Change] = ()) -> SyncReport:
        for change in batch:
            make(change, self.world, self.tracker)
        return self.proxier.sync(self.tracker.take_changes(), self.tracker.ports)

    def fresh(self) -> Proxy:
        """A proxy that starts now, on a node that has the same addresses and nothing else."""
        other = Proxy(FakeHost(self.host.node_addresses()))
        other.tracker = tracker(self.world.services.values(), self.world.slices.values(), self.world.node)
        other.take()
        return other


def shared_address(change: Change, shared: bool) -> Change:
    """Let the Services of a change meet on one external address and port."""
    kind, value = change
    if not shared or kind != "put service" or not value.spec.external_ips:
        return change
    spec: dict[str, Any] = msgspec.to_builtins(value)
    spec["spec"]["externalIPs"] = ["203.0.113.1", "203.0.113.2"]
    return kind, msgspec.convert(spec, Service)


shared_histories = st.tuples(histories, st.booleans()).map(
    lambda drawn: [[shared_address(change, drawn[1]) for change in batch] for batch in drawn[0]]
)
node_addresses = st.lists(st.sampled_from(ADDRESSES[1:]), unique=True).map(lambda some: [ADDRESSES[0], *some])


def held(host: FakeHost) -> dict[str, Any]:
    """Everything that a node has, comparable."""
    return {
        "link": host.actual.link,
        "addresses": host.actual.addresses,
        "servers": {key: (each.server, each.reals) for key, each in host.actual.servers.items()},
        "sets": {name: (each.spec, each.elements) for name, each in host.actual.sets.items()},
        "rules": host.iptables.tables,
    }


class Watch:
    """Looks at the node after every step.

    An address of the link is always in the set that keeps the node's own ports away from it; what that set lets in
    always has a virtual server; one that can answer before and after a change can answer in between.
    """

    def __init__(self, host: FakeHost) -> None:
        self.host = host
        self.answering: set[ServerAddress] = set()
        self.seen_without: set[ServerAddress] = set()
        host.after = self.look

    def begin(self) -> None:
        self.answering = self.able()
        self.seen_without = set()

    def able(self) -> set[ServerAddress]:
        servers = self.host.actual.servers
        return {key for key, each in servers.items() if any(real.weight for real in each.reals.values())}

    def look(self) -> None:
        host = self.host
        assert host.actual.addresses <= host.elements(SPECS[names.IPVS_IPS])
        for purpose in (names.CLUSTER_IP, names.EXTERNAL_IP, names.EXTERNAL_IP_LOCAL, names.LOAD_BALANCER):
            for element in host.elements(SPECS[purpose]):
                ip, _, rest = element.partition(",")
                protocol, _, port = rest.partition(":")
                assert ServerAddress(protocol, ip, int(port)) in host.actual.servers
        self.seen_without |= self.answering - self.able()

    def end(self) -> None:
        assert not self.seen_without & self.able()


@quick
@given(shared_histories)
def test_changes_come_to_the_same_as_a_fresh_start(history: list[list[Change]]) -> None:
    proxy = Proxy()
    watch = Watch(proxy.host)
    for batch in history:
        watch.begin()
        proxy.take(batch)
        watch.end()
        assert held(proxy.host) == held(proxy.fresh().host)


@quick
@given(histories, st.lists(node_addresses, min_size=1, max_size=4))
def test_so_do_changes_of_the_nodes_addresses(history: list[list[Change]], addresses: list[list[Address]]) -> None:
    proxy = Proxy()
    for index, batch in enumerate(history):
        proxy.host.set_node_addresses(addresses[index % len(addresses)])
        proxy.take(shared_address(change, True) for change in batch)
        assert held(proxy.host) == held(proxy.fresh().host)


@quick
@given(histories, st.data())
def test_so_do_changes_with_connections_once_they_are_over(history: list[list[Change]], data: st.DataObject) -> None:
    proxy = Proxy()
    for batch in history:
        proxy.take(batch)
        servers = proxy.host.actual.servers
        for address, server in servers.items():
            for target in server.reals:
                if data.draw(st.booleans()):
                    proxy.host.connect(address, target, active=data.draw(st.integers(0, 2)))
        leaving = {
            (address, target)
            for address, server in servers.items()
            for target, real in server.reals.items()
            if real.weight == 0
        }
        known = {(address, target) for address, targets in proxy.proxier.leaving.items() for target in targets}
        assert leaving == known
        assert all(address.protocol == "tcp" for address, _ in leaving)
    for server in proxy.host.actual.servers.values():
        server.reals = {target: RealServer(real.weight) for target, real in server.reals.items()}
    proxy.time += 60.0
    proxy.proxier.tick()
    assert proxy.proxier.tick_due() is None
    assert held(proxy.host) == held(proxy.fresh().host)


@quick
@given(histories, st.data())
def test_a_full_sync_repairs_whatever_others_did(history: list[list[Change]], data: st.DataObject) -> None:
    proxy = Proxy()
    for batch in history:
        proxy.take(batch)
    damage(proxy.host, data)
    proxy.proxier.require_full_sync()
    assert proxy.take().full
    assert held(proxy.host) == held(proxy.fresh().host)
    proxy.proxier.require_full_sync()
    assert proxy.take() == SyncReport(True, 0, 0)


def damage(host: FakeHost, data: st.DataObject) -> None:
    actual = host.actual
    for address in list(actual.servers):
        match data.draw(st.integers(0, 4)):
            case 0:
                del actual.servers[address]
            case 1:
                server = actual.servers[address].server._replace(scheduler="wrr")
                actual.servers[address] = ActualServer(server, {Target("192.0.2.1", 1): RealServer(3, 3)})
    foreign = ServerAddress("tcp", "192.0.2.9", 9)
    actual.servers[foreign] = ActualServer(VirtualServer(foreign, "rr", 0, 0, 32))
    for content in actual.sets.values():
        content.elements = {each for each in content.elements if data.draw(st.booleans())}
        if content.spec.type == "hash:ip":
            content.elements.add("192.0.2.9")
    if data.draw(st.booleans()):
        actual.link, actual.addresses = False, set()
    else:
        actual.addresses = {each for each in actual.addresses if data.draw(st.booleans())} | {"192.0.2.9"}
    if data.draw(st.booleans()):
        host.iptables = FakeIptables()
        actual.sets = {name: each for name, each in actual.sets.items() if data.draw(st.booleans())}


def test_one_new_endpoint_costs_one_real_server_a_virtual_server() -> None:
    proxy = Proxy()
    batch: list[Change] = []
    for number in range(1, 21):
        name = f"s{number}"
        spec = f"{{metadata: {name}, spec: {{clusterIP: 10.96.0.{number}, ports: [{{port: 80}}]}}}}"
        batch.append(("put service", service(spec)))
        batch.append(("put slice", slice_of(name, [f"10.244.2.{number}"])))
    proxy.take(batch)
    proxy.host.done.clear()
    proxy.take([("put slice", slice_of("s7", ["10.244.2.7", "10.244.3.7"]))])
    assert proxy.host.done == [NewReal(ServerAddress("tcp", "10.96.0.7", 80), Target("10.244.3.7", 8080))]


def slice_of(name: str, ips: list[str]) -> Any:
    endpoints = [{"addresses": [ip], "conditions": READY, "nodeName": "node-b"} for ip in ips]
    return endpoint_slice(name, name, endpoints, [{"port": 8080}])


def test_nothing_is_written_where_nothing_changes() -> None:
    proxy = Proxy()
    proxy.take()
    assert proxy.take() == SyncReport(False, 0, 0)


def test_a_refused_step_makes_the_next_sync_a_full_one() -> None:
    proxy = Proxy()
    proxy.take()
    web = service("{metadata: web, spec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}}")

    def refuse() -> None:
        raise LabFailed(REFUSED(node="node-a", what="a step"))

    proxy.host.after = refuse
    with pytest.raises(LabFailed):
        proxy.take([("put service", web)])
    proxy.host.after = lambda: None
    assert proxy.take().full
    assert held(proxy.host) == held(proxy.fresh().host)


def test_changes_outlive_a_failure_to_read_the_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = Proxy()
    proxy.take()
    web = service("{metadata: web, spec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}}")
    proxy.host.set_node_addresses(ADDRESSES)
    with monkeypatch.context() as patch:
        patch.setattr(proxy.host, "node_addresses", refused)
        with pytest.raises(LabFailed):
            proxy.take([("put service", web)])
    assert proxy.take().full
    assert held(proxy.host) == held(proxy.fresh().host)


def refused() -> list[Address]:
    raise LabFailed(REFUSED(node="node-a", what="a step"))


def test_a_set_of_another_type_is_named() -> None:
    proxy = Proxy()
    proxy.take()
    proxy.host.actual.sets["KUBE-CLUSTER-IP"].spec = SetSpec("KUBE-CLUSTER-IP", "hash:net", "inet")
    proxy.proxier.require_full_sync()
    with pytest.raises(LabFailed, match=r"KUBE-CLUSTER-IP exists with type hash:net inet .* hash:ip,port inet"):
        proxy.take()


def test_excluded_virtual_servers_stay_but_not_their_addresses() -> None:
    """As in the recording v-exclude-cidrs."""
    config = msgspec.convert({"ipvs": {"excludeCIDRs": ["10.99.0.0/16"]}}, KubeProxyConfiguration)
    proxy = Proxy(config=config)
    kept, gone = ServerAddress("tcp", "10.99.0.5", 80), ServerAddress("tcp", "10.98.0.5", 80)
    for each in (kept, gone):
        server = ActualServer(VirtualServer(each, "rr", 0, 0, 32), {Target("10.244.9.1", 8080): RealServer(1)})
        proxy.host.actual.servers[each] = server
    proxy.host.actual.link = True
    proxy.host.actual.addresses = {"10.99.0.5", "10.98.0.5"}
    proxy.take()
    assert set(proxy.host.actual.servers) == {kept}
    assert proxy.host.actual.servers[kept].reals == {Target("10.244.9.1", 8080): RealServer(1)}
    assert proxy.host.actual.addresses == set()


def test_rules_come_after_sets_have_what_they_match_and_before_the_address() -> None:
    proxy = Proxy()
    proxy.take()
    proxy.host.done.clear()
    proxy.take([("put service", service("{metadata: web, spec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}}"))])
    kinds = [type(each).__name__ for each in proxy.host.done]
    assert kinds == ["NewServer", "AddElements", "AddElements", "WriteRules", "AddAddress"]
    proxy.host.done.clear()
    proxy.take([("delete service", "web")])
    kinds = [type(each).__name__ for each in proxy.host.done]
    assert kinds == ["DeleteElements", "DeleteServer", "WriteRules", "DeleteAddress", "DeleteElements"]


def test_sets_are_filled_from_the_exception_to_the_rule() -> None:
    proxy = Proxy()
    proxy.take()
    proxy.host.done.clear()
    text = """
metadata: lb
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.1
  externalTrafficPolicy: Local
  loadBalancerSourceRanges: [203.0.113.0/24]
  ports: [{port: 80, nodePort: 30080}]
status: {loadBalancer: {ingress: [{ip: 192.0.2.30}]}}
"""
    proxy.take([("put service", service(text))])
    filled = [each.spec.name for each in proxy.host.done if isinstance(each, AddElements)]
    assert filled.index("KUBE-LOAD-BALANCER-SOURCE-CIDR") < filled.index("KUBE-LOAD-BALANCER-FW")
    assert filled.index("KUBE-LOAD-BALANCER-LOCAL") < filled.index("KUBE-LOAD-BALANCER")
    assert filled.index("KUBE-NODE-PORT-LOCAL-TCP") < filled.index("KUBE-NODE-PORT-TCP")
    assert filled[-1] == "KUBE-IPVS-IPS"


@pytest.mark.parametrize("limit", [3, 7, 40])
def test_rules_in_several_texts_never_jump_to_what_is_not_there(limit: int) -> None:
    proxy = Proxy()
    proxy.take()
    rules = next(each for each in proxy.host.done if isinstance(each, WriteRules))
    drops = tuple(Rule(f"-s 192.0.2.{number}/32 -j DROP") for number in range(20))
    written = {**rules.changes["filter"].written, names.IPVS_OUT_FILTER: drops}
    written[names.PROXY_FIREWALL] = (Rule(f"-j {names.SOURCE_RANGES_FIREWALL}"),)
    changes = {**rules.changes, "filter": TableChange(rules.changes["filter"].jumps, written, ())}
    kernel = FakeIptables()
    for text in rule_texts(changes, limit):
        kernel.restore(text)
    assert kernel.tables["filter"][names.IPVS_OUT_FILTER] == [rule.text for rule in drops]
