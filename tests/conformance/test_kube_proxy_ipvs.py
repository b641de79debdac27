"""Our values in ipvs mode against what kube-proxy 1.36.2 made of the same objects: virtual servers, addresses, sets,
rules and kernel settings.

Rules are compared in their order. Virtual servers, addresses and the elements of sets have none. Left out is what the
kernel makes up: a set's ``initval``, the link's number and MAC address.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from ipaddress import ip_address
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from netlab.kernel import ipset, iptables, netns, nfnetlink
from netlab.objects.endpointslice import EndpointSlice
from netlab.objects.node import Node
from netlab.objects.proxyconfig import KubeProxyConfiguration
from netlab.objects.service import Service
from netlab.objects.yaml_source import Source, documents
from netlab.proxy.changes import ServiceTracker
from netlab.proxy.family import Family
from netlab.proxy.ipvs import names
from netlab.proxy.ipvs.difference import Actual, full_plan
from netlab.proxy.ipvs.host import rule_texts
from netlab.proxy.ipvs.operations import AddElements, CreateSet, DeleteElements, WriteRules
from netlab.proxy.ipvs.settings import ipvs_settings, sysctls
from netlab.proxy.ipvs.state import IpvsState
from netlab.proxy.ipvs.text import dry_run_text, rules_text, server_lines, set_lines
from netlab.proxy.ipvs.values import IpvsValue, port_value
from netlab.proxy.topology import NodeTopology

HERE = Path(__file__).parent
CASES = HERE / "kube-proxy-ipvs"
MANIFESTS = HERE / "kube-proxy"
NAMES = sorted(case.name for case in CASES.iterdir() if not case.name.startswith("_"))
LOCAL_ADDRESSES = [ip_address(each) for each in ("127.0.0.1", "::1", "172.30.0.11", "fd00:172:30::11")]
BASE = {"mode": "ipvs", "clusterCIDR": "10.244.0.0/16,fd00:10:244::/48"}
FAMILIES = list(Family)
RECORDED_KERNEL = (6, 1)

EXCLUDED = {"v-exclude-cidrs": ["-A -t 10.99.0.5:80 -s rr", "-a -t 10.99.0.5:80 -r 10.244.9.1:8080 -m -w 1"]}
"""Virtual servers of others, which are in the recording because the configuration lets them stay."""


def config_of(case: str) -> KubeProxyConfiguration:
    config: dict[str, Any] = dict(BASE)
    file = CASES / case / "config.yaml"
    if file.exists():
        for document in documents(Source("config.yaml", file.read_bytes())):
            assert isinstance(document.value, dict)
            config |= document.value
    return msgspec.convert(config, KubeProxyConfiguration)


def objects_of(case: str) -> list[Any]:
    file = CASES / case / "manifests.yaml"
    if not file.exists():
        file = MANIFESTS / case / "manifests.yaml"
    return [each.value for each in documents(Source("manifests.yaml", file.read_bytes()))]


def node_of(objects: list[Any]) -> Node:
    nodes = (msgspec.convert(each, Node) for each in objects if each["kind"] == "Node")
    return next(node for node in nodes if node.metadata.name == "node-a")


def tracker_of(objects: list[Any], family: Family) -> ServiceTracker:
    zone = node_of(objects).metadata.label("topology.kubernetes.io/zone") or ""
    tracker = ServiceTracker(family, NodeTopology("node-a", zone))
    for each in objects:
        if each["kind"] == "Service":
            tracker.set_service(msgspec.convert(each, Service))
        elif each["kind"] == "EndpointSlice":
            tracker.set_slice(msgspec.convert(each, EndpointSlice))
    return tracker


def state_of(case: str, family: Family) -> IpvsState:
    """What our proxy on node-a makes of the case's objects."""
    objects = objects_of(case)
    node = node_of(objects)
    settings = ipvs_settings(
        config_of(case),
        family,
        node_ips=[ip_address(each) for each in node.addresses_of_type("InternalIP")],
        local_addresses=LOCAL_ADDRESSES,
        pod_cidrs=node.spec.pod_cidrs,
    )
    state = IpvsState(settings)
    changed = tracker_of(objects, family).take_changes()
    state.replace({name: port_value(each, settings) if each is not None else None for name, each in changed.items()})
    return state


def value_of(case: str, family: Family) -> IpvsValue:
    return state_of(case, family).wanted()


def recorded(case: str, name: str) -> list[str]:
    return (CASES / case / name).read_text().splitlines()


@pytest.mark.parametrize("case", NAMES)
def test_virtual_servers(case: str) -> None:
    ours = [line for family in FAMILIES for line in server_lines(value_of(case, family))]
    assert sorted(ours + EXCLUDED.get(case, [])) == sorted(recorded(case, "ipvsadm.txt"))


@pytest.mark.parametrize("case", [name for name in NAMES if name not in EXCLUDED])
def test_virtual_servers_in_the_order_of_the_tool(case: str) -> None:
    ours = [line for family in FAMILIES for line in server_lines(value_of(case, family))]
    assert ours == recorded(case, "ipvsadm.txt")


@pytest.mark.parametrize("case", NAMES)
def test_addresses_of_the_link(case: str) -> None:
    ours = {f"{ip}/{family.host_prefix}" for family in FAMILIES for ip in value_of(case, family).addresses}
    assert ours == set(re.findall(r"inet6? (\S+)", "\n".join(recorded(case, "addresses.txt"))))


@pytest.mark.parametrize("case", NAMES)
def test_sets(case: str) -> None:
    states = [state_of(case, family) for family in FAMILIES]
    ours = [line for state in states for line in set_lines(state.wanted(), state.specs)]
    assert sorted(ours) == sorted(re.sub(r" initval \S+", "", line) for line in recorded(case, "ipset.txt"))


@pytest.mark.parametrize("case", NAMES)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.kubernetes)
def test_rules(case: str, family: Family) -> None:
    name = "iptables-save.txt" if family is Family.IPV4 else "ip6tables-save.txt"
    assert rules_text(value_of(case, family)).splitlines() == recorded(case, name)


@pytest.mark.parametrize("case", NAMES)
def test_kernel_settings(case: str) -> None:
    ours = sysctls(config_of(case), RECORDED_KERNEL)
    found = dict(re.split(r" = ", line) for line in recorded(case, "sysctl.txt"))
    untouched = {"net.ipv4.conf.all.arp_ignore": "0", "net.ipv4.conf.all.arp_announce": "0"}
    wanted = untouched | {name.replace("/", "."): str(value) for name, value in ours.items()}
    assert {name: found[name] for name in wanted} == wanted
    assert found["net.ipv4.conf.all.route_localnet"] == "0"
    assert found["net.ipv6.conf.all.forwarding"] == "0"


def test_dry_run_has_all_parts_in_order() -> None:
    states = [state_of("17-dualstack", family) for family in FAMILIES]
    lines = dry_run_text([(state.wanted(), state.specs) for state in states]).splitlines()
    titles = [line for line in lines if line.startswith("#")]
    assert titles == ["# ipvsadm -Sn", "# ipset save", "# iptables-save", "# ip6tables-save"]
    parts = dict(zip(titles, (part.splitlines()[1:] for part in split(lines, titles)), strict=True))
    assert parts["# ipvsadm -Sn"] == recorded("17-dualstack", "ipvsadm.txt")
    assert parts["# iptables-save"] == recorded("17-dualstack", "iptables-save.txt")
    assert parts["# ip6tables-save"] == recorded("17-dualstack", "ip6tables-save.txt")


def split(lines: list[str], titles: list[str]) -> list[str]:
    starts = [lines.index(title) for title in titles] + [len(lines)]
    return ["\n".join(lines[start:end]) for start, end in pairwise(starts)]


def apply_sets_and_rules(case: str, family: Family) -> tuple[list[str], str]:
    """Bring the case's sets and rules into a new namespace; returns the sets' elements and iptables-save's text."""
    version: Literal[4, 6] = 4 if family is Family.IPV4 else 6
    state = state_of(case, family)
    value = state.wanted()
    with netns.create(["rules"])[0].entered(), nfnetlink.netfilter_socket() as netlink:
        for purpose, spec in state.specs.items():
            netlink.run([ipset.create(spec, ipset.type_revision(netlink, spec.type, spec.family))])
            netlink.run(ipset.add(spec, list(value.sets[purpose])))
        plan = full_plan(value, Actual(sets=ipset.list_sets(netlink)), state.specs, (), {})
        assert not any(isinstance(each, CreateSet | AddElements | DeleteElements) for each in plan.operations)
        changes = next(each.changes for each in plan.operations if isinstance(each, WriteRules))
        for text in rule_texts(changes):
            iptables.restore(version, "test", text)
        sets = ipset.list_sets(netlink)
        assert sets[state.specs[names.IPVS_IPS].name].references == 1
        lines = [f"add {name} {element}" for name, content in sets.items() for element in content.elements]
        return sorted(lines), iptables.save(version, "test")


@pytest.mark.kernel
@pytest.mark.parametrize("case", ["07-externalips", "12-udp-sctp", "17-dualstack", "v-default"])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.kubernetes)
def test_the_kernel_takes_the_sets_and_rules_as_they_are(
    sandbox: Callable[[Callable[[], Any]], Any], case: str, family: Family
) -> None:
    elements, saved = sandbox(partial(apply_sets_and_rules, case, family))
    prefix = "add KUBE-6-" if family is Family.IPV6 else "add KUBE-"
    of_family = [line for line in recorded(case, "ipset.txt") if line.startswith(prefix)]
    if family is Family.IPV4:
        of_family = [line for line in of_family if not line.startswith("add KUBE-6-")]
    assert elements == sorted(of_family)
    kept = (re.sub(r" \[\d+:\d+\]", "", line) for line in saved.splitlines() if not line.startswith("#"))
    name = "iptables-save.txt" if family is Family.IPV4 else "ip6tables-save.txt"
    assert list(kept) == recorded(case, name)


def test_recorded_cases_are_all_here() -> None:
    assert len(NAMES) == 27
