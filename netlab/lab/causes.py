"""Why a rule is there: the rules that a node's proxy computes, each with its cause, computed once more by the lab.

A rule in the kernel and a rule computed here are the same if their texts are: so causes need no help from the proxy
process, and rules that somebody else wrote have none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from netlab.lab.rulebooks import Causes
from netlab.model.keys import Origin
from netlab.objects.endpointslice import EndpointSlice
from netlab.objects.ip import parse_ip
from netlab.objects.node import ZONE_LABEL, Node
from netlab.objects.proxyconfig import KubeProxyConfiguration
from netlab.objects.service import Service
from netlab.proxy.changes import ServiceTracker
from netlab.proxy.family import Family
from netlab.proxy.iptables.rules import port_rules
from netlab.proxy.iptables.state import IptablesState, rules_of
from netlab.proxy.settings import iptables_settings
from netlab.proxy.topology import NodeTopology

Json = dict[str, Any]

_NFT_FAMILY = {Family.IPV4: "ip", Family.IPV6: "ip6"}


def iptables_state(
    family: Family,
    node: Node,
    config: KubeProxyConfiguration,
    services: Iterable[Json],
    slices: Iterable[Json],
    local_addresses: Sequence[str],
    *,
    counters: bool = True,
) -> IptablesState:
    """The whole iptables state of one node in one family, from objects.

    ``local_addresses`` are those on the node's interfaces, which nodePortAddresses selects from.
    """
    settings = iptables_settings(
        config,
        family,
        node_ips=[ip for text in node.addresses_of_type("InternalIP") if (ip := parse_ip(text)) is not None],
        local_addresses=[ip for text in local_addresses if (ip := parse_ip(text)) is not None],
        pod_cidrs=node.spec.pod_cidrs,
        counters=counters,
    )
    tracker = ServiceTracker(family, NodeTopology(node.metadata.name, node.metadata.label(ZONE_LABEL) or ""))
    for value in services:
        tracker.set_service(msgspec.convert(value, Service))
    for value in slices:
        tracker.set_slice(msgspec.convert(value, EndpointSlice))
    changed = tracker.take_changes()
    large = tracker.endpoint_count() > 1000
    state = IptablesState(settings)
    state.replace(
        {
            name: port_rules(each.port, each.endpoints, settings, large) if each is not None else None
            for name, each in changed.items()
        }
    )
    return state


def causes_of(states: Iterable[IptablesState], locate: Callable[[Origin], Origin]) -> Causes:
    """The causes of all rules, with files and lines where they are known."""
    found: dict[tuple[str, str, str, str], Origin] = {}
    located: dict[Origin, Origin] = {}
    for state in states:
        family = _NFT_FAMILY[state.settings.family]
        for table, chain, rule in rules_of(state.wanted()):
            if rule.origin is not None:
                if rule.origin not in located:
                    located[rule.origin] = locate(rule.origin)
                found[family, table, chain, rule.text] = located[rule.origin]
    return found
