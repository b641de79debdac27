"""Our rules in iptables mode against what kube-proxy 1.36.2 wrote, case by case and rule by rule.

Within a Service's own chains the order counts. Across Services kube-proxy walks a hash map, so in the shared chains
rules are compared as a set, and the jump to KUBE-NODEPORTS has to come last.
"""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

import msgspec
import pytest

from netlab.objects.endpointslice import EndpointSlice
from netlab.objects.node import Node
from netlab.objects.proxyconfig import KubeProxyConfiguration
from netlab.objects.service import Service
from netlab.objects.yaml_source import Source, documents
from netlab.proxy.changes import ServiceTracker
from netlab.proxy.family import Family
from netlab.proxy.iptables import names
from netlab.proxy.iptables.rules import port_rules
from netlab.proxy.iptables.ruleset import RuleSet, parse_save, save_text
from netlab.proxy.iptables.state import IptablesState
from netlab.proxy.settings import iptables_settings
from netlab.proxy.topology import NodeTopology

CASES = Path(__file__).parent / "kube-proxy"
SHARED_CHAINS = {
    names.SERVICES,
    names.NODEPORTS,
    names.EXTERNAL_SERVICES,
    names.PROXY_FIREWALL,
}
LOCAL_ADDRESSES = [ip_address(each) for each in ("127.0.0.1", "::1", "172.30.0.11", "fd00:172:30::11")]


def rule_set(case: Path, family: Family) -> RuleSet:
    config = {"clusterCIDR": "10.244.0.0/16,fd00:10:244::/48"}
    if (case / "config.yaml").exists():
        for document in documents(Source("config.yaml", (case / "config.yaml").read_bytes())):
            assert isinstance(document.value, dict)
            config |= document.value
    configuration = msgspec.convert(config, KubeProxyConfiguration)
    objects = [each.value for each in documents(Source("manifests.yaml", (case / "manifests.yaml").read_bytes()))]
    node = next(
        msgspec.convert(each, Node)
        for each in objects
        if each["kind"] == "Node" and each["metadata"]["name"] == "node-a"  # type: ignore[index]
    )
    tracker = ServiceTracker(family, NodeTopology("node-a", node.metadata.label("topology.kubernetes.io/zone") or ""))
    for each in objects:
        if each["kind"] == "Service":  # type: ignore[index]
            tracker.set_service(msgspec.convert(each, Service))
        elif each["kind"] == "EndpointSlice":  # type: ignore[index]
            tracker.set_slice(msgspec.convert(each, EndpointSlice))
    settings = iptables_settings(
        configuration,
        family,
        node_ips=[ip_address(each) for each in node.addresses_of_type("InternalIP")],
        local_addresses=LOCAL_ADDRESSES,
        pod_cidrs=node.spec.pod_cidrs,
        counters=True,
    )
    state = IptablesState(settings)
    state.replace(
        {
            name: port_rules(each.port, each.endpoints, settings) if each is not None else None
            for name, each in tracker.take_changes().items()
        }
    )
    return state.wanted()


def comparable(rules: RuleSet) -> dict[str, dict[str, list[str]]]:
    result: dict[str, dict[str, list[str]]] = {}
    for table_name, table in rules.tables.items():
        chains: dict[str, list[str]] = {}
        for chain, entries in (*table.built_in.items(), *table.chains.items()):
            texts = [entry.text for entry in entries]
            chains[chain] = sorted(texts) if chain in SHARED_CHAINS else texts
        result[table_name] = {chain: texts for chain, texts in chains.items() if texts or chain.startswith("KUBE")}
    return result


@pytest.mark.parametrize("case", sorted(CASES.iterdir()), ids=lambda case: case.name)
@pytest.mark.parametrize("family", list(Family), ids=lambda family: family.kubernetes)
def test_rules_equal_the_recorded_ones(case: Path, family: Family) -> None:
    name = "iptables-save.txt" if family is Family.IPV4 else "ip6tables-save.txt"
    recorded = parse_save((case / name).read_text())
    ours = rule_set(case, family)
    assert comparable(ours) == comparable(recorded)


@pytest.mark.parametrize("case", sorted(CASES.iterdir()), ids=lambda case: case.name)
def test_the_nodeports_jump_comes_last(case: Path) -> None:
    chain = rule_set(case, Family.IPV4).tables["nat"].chains[names.SERVICES]
    jumps = [rule.text.endswith(f"-j {names.NODEPORTS}") for rule in chain]
    assert jumps == sorted(jumps)
    assert jumps[-1]


def test_saved_text_reads_back_as_the_same_rules() -> None:
    ours = rule_set(CASES / "08-affinity", Family.IPV4)
    assert comparable(parse_save(save_text(ours))) == comparable(ours)
