"""Our table in nftables mode against what kube-proxy 1.36.2 wrote, case by case: every element, every rule.

Within a chain the order counts. Elements of sets and maps, and the chains themselves, stand in the order of a hash map
with kube-proxy: they are compared by key and by name. Nothing else is left out.
"""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import Any

import msgspec
import pytest

from netlab.objects.endpointslice import EndpointSlice
from netlab.objects.node import Node
from netlab.objects.proxyconfig import KubeProxyConfiguration
from netlab.objects.service import Service
from netlab.objects.yaml_source import Source, documents
from netlab.proxy.changes import ServiceTracker
from netlab.proxy.family import Family
from netlab.proxy.nftables.listing import parse_listing
from netlab.proxy.nftables.rules import Settings, port_rules
from netlab.proxy.nftables.ruleset import Table, table_text
from netlab.proxy.nftables.state import NftablesState
from netlab.proxy.settings import nftables_settings
from netlab.proxy.topology import NodeTopology

CASES = Path(__file__).parent / "kube-proxy"
LOCAL_ADDRESSES = [ip_address(each) for each in ("127.0.0.1", "::1", "172.30.0.11", "fd00:172:30::11")]
SERVICE_CIDRS = ["10.96.0.0/12", "fd00:10:96::/112"]
BASE = {"mode": "nftables", "clusterCIDR": "10.244.0.0/16,fd00:10:244::/48"}


def load(case: Path, family: Family) -> tuple[Settings, ServiceTracker]:
    """The settings and the objects of the proxy on node-a."""
    config: dict[str, Any] = dict(BASE)
    if (case / "config.yaml").exists():
        for document in documents(Source("config.yaml", (case / "config.yaml").read_bytes())):
            assert isinstance(document.value, dict)
            config |= document.value
    objects: list[Any] = [
        each.value for each in documents(Source("manifests.yaml", (case / "manifests.yaml").read_bytes()))
    ]
    node = next(
        msgspec.convert(each, Node)
        for each in objects
        if each["kind"] == "Node" and each["metadata"]["name"] == "node-a"
    )
    tracker = ServiceTracker(family, NodeTopology("node-a", node.metadata.label("topology.kubernetes.io/zone") or ""))
    for each in objects:
        if each["kind"] == "Service":
            tracker.set_service(msgspec.convert(each, Service))
        elif each["kind"] == "EndpointSlice":
            tracker.set_slice(msgspec.convert(each, EndpointSlice))
    settings = nftables_settings(
        msgspec.convert(config, KubeProxyConfiguration),
        family,
        node_ips=[ip_address(each) for each in node.addresses_of_type("InternalIP")],
        local_addresses=LOCAL_ADDRESSES,
        pod_cidrs=node.spec.pod_cidrs,
        service_cidrs=SERVICE_CIDRS,
    )
    return settings, tracker


def state_of(case: Path, family: Family) -> NftablesState:
    """What our proxy on node-a makes of the case's objects."""
    settings, tracker = load(case, family)
    state = NftablesState(settings)
    state.replace(
        {
            name: port_rules(each.port, each.endpoints, settings) if each is not None else None
            for name, each in tracker.take_changes().items()
        },
        now=0.0,
    )
    return state


def comparable(table: Table) -> dict[str, Any]:
    """The table without origins, and without order where there is none."""
    return {
        "containers": table.containers,
        "elements": {
            name: {key: (each.value, each.comment) for key, each in table.elements.get(name, {}).items()}
            for name in table.containers
        },
        "hooks": table.hooks,
        "chains": {chain: [rule.text for rule in rules] for chain, rules in table.chains.items()},
    }


@pytest.mark.parametrize("case", sorted(CASES.iterdir()), ids=lambda case: case.name)
@pytest.mark.parametrize("family", list(Family), ids=lambda family: family.kubernetes)
def test_table_equals_the_recorded_one(case: Path, family: Family) -> None:
    recorded = parse_listing((case / "nft.json").read_bytes(), family.nftables).table
    assert comparable(state_of(case, family).wanted()) == comparable(recorded)


@pytest.mark.parametrize("case", sorted(CASES.iterdir()), ids=lambda case: case.name)
@pytest.mark.parametrize("family", list(Family), ids=lambda family: family.kubernetes)
def test_table_is_written_as_in_the_recorded_text(case: Path, family: Family) -> None:
    """The recorded text and the recorded JSON were printed of one table: this holds our reading of the JSON as well."""
    recorded = recorded_text(case, family)
    ours = state_of(case, family).wanted()
    assert blocks(recorded, "chain") == {
        chain: [*([ours.hooks[chain].declaration] if chain in ours.hooks else []), *(rule.text for rule in rules)]
        for chain, rules in ours.chains.items()
    }
    for kind in ("set", "map"):
        assert blocks(recorded, kind).keys() == {name for name, each in ours.containers.items() if each.kind == kind}
        for name, lines in blocks(recorded, kind).items():
            properties = ours.containers[name].properties
            assert tuple(lines[: len(properties)]) == properties
            elements = ours.elements.get(name, {}).values()
            assert elements_in(lines[len(properties) :]) == {each.command for each in elements}


def recorded_text(case: Path, family: Family) -> str:
    ipv4, _, ipv6 = (case / "nft.txt").read_text().partition("table ip6 kube-proxy")
    return ipv4 if family is Family.IPV4 else ipv6


def blocks(text: str, kind: str) -> dict[str, list[str]]:
    """The lines within each block of a kind."""
    found: dict[str, list[str]] = {}
    for block in text.split("\n\t}"):
        head, *lines = [line for line in block.splitlines() if line.startswith("\t")] or [""]
        word, _, name = head.strip().removesuffix(" {").partition(" ")
        if word == kind:
            found[name] = [with_numbers(line.strip()) for line in lines]
    return found


def elements_in(lines: list[str]) -> set[str]:
    """Of "elements = { a, b }", over one line or several."""
    listed = " ".join(lines).removeprefix("elements = { ").removesuffix(" }")
    return set(listed.split(", ")) if listed else set()


def with_numbers(line: str) -> str:
    """nft's text has names for some priorities."""
    for name, number in (("dstnat - 10", -110), ("dstnat", -100), ("srcnat", 100), ("filter", 0)):
        line = line.replace(f"priority {name};", f"priority {number};")
    return line


def test_the_whole_table_reads_like_a_listing() -> None:
    text = table_text(state_of(CASES / "08-affinity", Family.IPV4).wanted())
    recorded = recorded_text(CASES / "08-affinity", Family.IPV4)
    assert sorted(text.splitlines()) == sorted(with_numbers(line) for line in recorded.splitlines())


def test_recorded_cases_are_all_here() -> None:
    assert len(list(CASES.glob("*/nft.json"))) == len(list(CASES.glob("*/nft.txt"))) == 25
