"""Why a rule is there: the rules that a node's proxy computes, each with its cause, computed once more by the lab.

A rule in the kernel and a rule computed here are the same if their texts are: so causes need no help from the proxy
process, and rules that somebody else wrote have none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from netlab.kernel.ipset import SetSpec
from netlab.kernel.ipvs import Target
from netlab.lab.rulebooks import Causes, RuleKey
from netlab.model.keys import Origin
from netlab.model.rulebook import ElementEntry, ServerEntry
from netlab.objects.endpointslice import EndpointSlice
from netlab.objects.ip import Address, parse_ip
from netlab.objects.node import ZONE_LABEL, Node
from netlab.objects.proxyconfig import KubeProxyConfiguration
from netlab.objects.service import Service
from netlab.packets.ipvs_reasons import SETS
from netlab.proxy.changes import ServiceTracker
from netlab.proxy.family import Family
from netlab.proxy.iptables.rules import LARGE_CLUSTER_ENDPOINTS
from netlab.proxy.iptables.rules import port_rules as iptables_port_rules
from netlab.proxy.iptables.ruleset import RuleSet
from netlab.proxy.iptables.state import IptablesState
from netlab.proxy.iptables.state import rules_of as iptables_rules_of
from netlab.proxy.ipvs.settings import ipvs_settings
from netlab.proxy.ipvs.state import IpvsState
from netlab.proxy.ipvs.values import IpvsValue, port_value
from netlab.proxy.nftables.names import TABLE
from netlab.proxy.nftables.rules import port_rules as nftables_port_rules
from netlab.proxy.nftables.ruleset import Table
from netlab.proxy.nftables.ruleset import rules_of as nftables_rules_of
from netlab.proxy.nftables.state import NftablesState
from netlab.proxy.settings import iptables_settings, nftables_settings
from netlab.proxy.topology import NodeTopology
from netlab.proxy.userspace.proxier import PROTOCOLS
from netlab.proxy.userspace.rules import port_rules as userspace_port_rules
from netlab.proxy.userspace.settings import family_of, userspace_settings
from netlab.proxy.userspace.state import UserspaceState

Json = dict[str, Any]
Locate = Callable[[Origin], Origin]

_NFT_FAMILY = {Family.IPV4: "ip", Family.IPV6: "ip6"}


@dataclass(frozen=True)
class NodeWorld:
    """What one node's proxy computes its rules from. ``local_addresses`` are those on the node's interfaces, which
    nodePortAddresses selects from; ``portals``: in mode userspace, the ports that it listens on, by Service port
    ("namespace/name:port/PROTOCOL"), which are known only when it runs."""

    node: Node
    config: KubeProxyConfiguration
    services: Sequence[Json]
    slices: Sequence[Json]
    service_cidrs: Sequence[str]
    local_addresses: Sequence[str]
    portals: Mapping[str, int] = field(default_factory=dict)

    @property
    def node_ips(self) -> list[Address]:
        return [ip for text in self.node.addresses_of_type("InternalIP") if (ip := parse_ip(text)) is not None]

    @property
    def local_ips(self) -> list[Address]:
        return [ip for text in self.local_addresses if (ip := parse_ip(text)) is not None]

    def tracker(self, family: Family) -> ServiceTracker:
        """All objects, as one family's proxier is told of them."""
        metadata = self.node.metadata
        tracker = ServiceTracker(family, NodeTopology(metadata.name, metadata.label(ZONE_LABEL) or ""))
        for value in self.services:
            tracker.set_service(msgspec.convert(value, Service))
        for value in self.slices:
            tracker.set_slice(msgspec.convert(value, EndpointSlice))
        return tracker


def iptables_rules(world: NodeWorld, family: Family, *, counters: bool = True) -> RuleSet:
    """The whole rule set of iptables mode in one family."""
    settings = iptables_settings(
        world.config,
        family,
        node_ips=world.node_ips,
        local_addresses=world.local_ips,
        pod_cidrs=world.node.spec.pod_cidrs,
        counters=counters,
    )
    tracker = world.tracker(family)
    changed = tracker.take_changes()
    large = tracker.endpoint_count() > LARGE_CLUSTER_ENDPOINTS
    state = IptablesState(settings)
    state.replace(
        {
            name: iptables_port_rules(each.port, each.endpoints, settings, large)
            for name, each in changed.items()
            if each is not None
        }
    )
    return state.wanted()


def userspace_rules(world: NodeWorld, family: Family) -> RuleSet:
    """The whole rule set of mode userspace in one family: nothing in the one that it does not serve.

    Where it is not known which port a listener has, 0 stands for it.
    """
    if family is not family_of(world.config, world.node_ips):
        return RuleSet()
    settings = userspace_settings(world.config, node_ips=world.node_ips, local_addresses=world.local_ips)
    state = UserspaceState()
    state.replace(
        {
            name: userspace_port_rules(each.port, world.portals.get(f"{name}/{name.protocol}", 0), settings)
            for name, each in world.tracker(family).take_changes().items()
            if each is not None and name.protocol in PROTOCOLS
        }
    )
    return state.wanted()


def nftables_table(world: NodeWorld, family: Family) -> Table:
    """The whole table of nftables mode in one family."""
    settings = nftables_settings(
        world.config,
        family,
        node_ips=world.node_ips,
        local_addresses=world.local_ips,
        pod_cidrs=world.node.spec.pod_cidrs,
        service_cidrs=world.service_cidrs,
    )
    state = NftablesState(settings)
    changed = world.tracker(family).take_changes()
    state.replace(
        {
            name: nftables_port_rules(each.port, each.endpoints, settings)
            for name, each in changed.items()
            if each is not None
        },
        0,
    )
    return state.wanted()


def ipvs_value(world: NodeWorld, family: Family) -> tuple[IpvsValue, dict[str, SetSpec]]:
    """All that ipvs mode wants in one family, and what its sets are."""
    settings = ipvs_settings(
        world.config,
        family,
        node_ips=world.node_ips,
        local_addresses=world.local_ips,
        pod_cidrs=world.node.spec.pod_cidrs,
    )
    state = IpvsState(settings)
    changed = world.tracker(family).take_changes()
    state.replace({name: port_value(each, settings) for name, each in changed.items() if each is not None})
    return state.wanted(), state.specs


def causes_of(world: NodeWorld, locate: Locate) -> Causes:
    """The causes of all rules of a node in its mode, with files and lines where they are known."""
    located = _Located(locate)
    if world.config.proxy_mode == "nftables":
        return _nftables_causes([nftables_table(world, family) for family in Family], located)
    if world.config.proxy_mode == "ipvs":
        return _ipvs_causes({family: ipvs_value(world, family) for family in Family}, located)
    rules = userspace_rules if world.config.proxy_mode == "userspace" else iptables_rules
    return _iptables_causes({family: rules(world, family) for family in Family}, located)


class _Located:
    """Each cause is looked up in the files once."""

    def __init__(self, locate: Locate) -> None:
        self._locate = locate
        self._known: dict[Origin, Origin] = {}

    def __call__(self, origin: Origin) -> Origin:
        if origin not in self._known:
            self._known[origin] = self._locate(origin)
        return self._known[origin]


def _iptables_causes(rule_sets: dict[Family, RuleSet], located: _Located) -> Causes:
    found: dict[RuleKey, Origin] = {}
    for family, rule_set in rule_sets.items():
        for table, chain, rule in iptables_rules_of(rule_set):
            if rule.origin is not None:
                found[_NFT_FAMILY[family], table, chain, rule.text] = located(rule.origin)
    return Causes(found)


def _ipvs_causes(values: dict[Family, tuple[IpvsValue, dict[str, SetSpec]]], located: _Located) -> Causes:
    rules = _iptables_causes({family: value.rules for family, (value, _) in values.items()}, located).rules
    elements: dict[tuple[str, str, str, str], ElementEntry] = {}
    servers: dict[tuple[str, str], ServerEntry] = {}
    for family, (value, specs) in values.items():
        for purpose, by_element in value.sets.items():
            name = specs[purpose].name
            for element, origin in by_element.items():
                elements[_NFT_FAMILY[family], SETS, name, element] = ElementEntry(name, element, "", located(origin))
        for address, server in value.servers.items():
            reals: dict[str, Origin | None] = {target.text: located(origin) for target, origin in server.reals.items()}
            at = Target(address.ip, address.port).text
            servers[address.protocol, at] = ServerEntry(server.server.scheduler, located(server.origin), reals)
    return Causes(rules, elements=elements, servers=servers)


def _nftables_causes(tables: Iterable[Table], located: _Located) -> Causes:
    rules: dict[RuleKey, Origin] = {}
    choices: dict[RuleKey, tuple[Origin, ...]] = {}
    elements: dict[tuple[str, str, str, str], ElementEntry] = {}
    for table in tables:
        for chain, rule in nftables_rules_of(table):
            key = (table.family, TABLE, chain, rule.text)
            if rule.origin is not None:
                rules[key] = located(rule.origin)
            if rule.choices:
                choices[key] = tuple(located(each) for each in rule.choices)
        for container, by_key in table.elements.items():
            for name, each in by_key.items():
                origin = located(each.origin) if each.origin is not None else None
                elements[table.family, TABLE, container, name] = ElementEntry(container, name, each.value, origin)
    return Causes(rules, choices, elements)
