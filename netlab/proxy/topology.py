"""Which endpoints a Service port uses on a node: traffic policies, topology hints, terminating endpoints.

Source: kubernetes/pkg/proxy/topology.go; KEP-2086 (internal policy), KEP-1669 (terminating), KEP-3015 and KEP-4444
(PreferSameZone and PreferSameNode, which arrive here as hints).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from netlab.proxy.endpoints import Endpoint
from netlab.proxy.service_ports import ServicePort


@dataclass(frozen=True, slots=True)
class NodeTopology:
    """What a proxy knows of its node: name, and zone ("" where it has no label)."""

    name: str
    zone: str = ""


@dataclass(frozen=True, slots=True)
class UsableEndpoints:
    """Endpoints for policy Cluster, for policy Local, all that this node's rules lead to, and whether the Service has
    any usable endpoint on any node."""

    cluster: tuple[Endpoint, ...]
    local: tuple[Endpoint, ...]
    reachable: tuple[Endpoint, ...]
    anywhere: bool


def usable_endpoints(endpoints: Sequence[Endpoint], port: ServicePort, node: NodeTopology) -> UsableEndpoints:
    """Sort out the endpoints of one Service port for one node."""
    cluster: tuple[Endpoint, ...] = ()
    local: tuple[Endpoint, ...] = ()
    anywhere = False
    if port.uses_cluster_endpoints:
        cluster = _ready_for(endpoints, node) or _serving_terminating(endpoints)
        anywhere = bool(cluster)
    if port.uses_local_endpoints:
        here = [each for each in endpoints if each.local]
        local = tuple(each for each in here if each.ready) or _serving_terminating(here)
        anywhere = anywhere or any(each.ready or (each.serving and each.terminating) for each in endpoints)
    merged = {each.text: each for each in (*cluster, *local)}
    reachable = tuple(merged[text] for text in sorted(merged))
    return UsableEndpoints(cluster, local, reachable, anywhere)


def _ready_for(endpoints: Sequence[Endpoint], node: NodeTopology) -> tuple[Endpoint, ...]:
    """Ready endpoints that the hints leave to this node; all ready ones where hints do not apply here.

    Hints apply only if every ready endpoint has one of the kind and at least one names this node (or zone).
    """
    ready = tuple(each for each in endpoints if each.ready)
    if all(each.node_hints for each in ready):
        for_node = tuple(each for each in ready if node.name in each.node_hints)
        if for_node:
            return for_node
    if all(each.zone_hints for each in ready):
        for_zone = tuple(each for each in ready if node.zone in each.zone_hints)
        if for_zone:
            return for_zone
    return ready


def _serving_terminating(endpoints: Sequence[Endpoint]) -> tuple[Endpoint, ...]:
    return tuple(each for each in endpoints if each.serving and each.terminating)
