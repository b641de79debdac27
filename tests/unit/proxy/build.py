"""Services, EndpointSlices and rules in few words, for tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import yaml

from netlab.objects.endpointslice import EndpointSlice
from netlab.objects.service import Service
from netlab.proxy.changes import PortState, ServiceTracker
from netlab.proxy.family import Family
from netlab.proxy.iptables.rules import PortRules, Settings, port_rules
from netlab.proxy.iptables.ruleset import RuleSet
from netlab.proxy.iptables.state import IptablesState
from netlab.proxy.local_traffic import LocalTraffic
from netlab.proxy.service_ports import ServicePortName
from netlab.proxy.topology import NodeTopology

NAMESPACE = "lab"

READY = {"ready": True, "serving": True, "terminating": False}
NOT_READY = {"ready": False, "serving": False, "terminating": False}
DRAINING = {"ready": False, "serving": True, "terminating": True}
DEAD = {"ready": False, "serving": False, "terminating": True}

POD_RANGE = LocalTraffic("source", "10.244.0.0/16", "clusterCIDR")


def service(text: str) -> Service:
    """A Service from YAML; metadata may be just a name, and namespace "lab" goes without saying."""
    value: dict[str, Any] = yaml.safe_load(text)
    metadata = value.get("metadata", {})
    if isinstance(metadata, str):
        metadata = {"name": metadata}
    return msgspec.convert({**value, "metadata": {"namespace": NAMESPACE, **metadata}}, Service)


def endpoint_slice(
    name: str,
    of: str,
    endpoints: Sequence[Mapping[str, Any]],
    ports: Sequence[Mapping[str, Any]],
    *,
    address_type: str = "IPv4",
    labels: Mapping[str, str] | None = None,
) -> EndpointSlice:
    """An EndpointSlice of the Service ``of``."""
    value = {
        "metadata": {
            "namespace": NAMESPACE,
            "name": name,
            "labels": {"kubernetes.io/service-name": of, **(labels or {})},
        },
        "addressType": address_type,
        "endpoints": list(endpoints),
        "ports": list(ports),
    }
    return msgspec.convert(value, EndpointSlice)


def tracker(
    services: Iterable[Service],
    slices: Iterable[EndpointSlice],
    node: NodeTopology,
    family: Family = Family.IPV4,
) -> ServiceTracker:
    """A tracker that knows these objects; their changes are still to be taken."""
    made = ServiceTracker(family, node)
    for each in services:
        made.set_service(each)
    for each_slice in slices:
        made.set_slice(each_slice)
    return made


def rules_for(
    changed: Mapping[ServicePortName, PortState | None], settings: Settings
) -> dict[ServicePortName, PortRules | None]:
    return {
        name: port_rules(each.port, each.endpoints, settings) if each is not None else None
        for name, each in changed.items()
    }


def rule_set(
    services: Iterable[Service],
    slices: Iterable[EndpointSlice],
    node: NodeTopology,
    settings: Settings | None = None,
) -> RuleSet:
    """All rules of a proxy that starts with these objects."""
    settings = settings or Settings(Family.IPV4, local=POD_RANGE)
    state = IptablesState(settings)
    state.replace(rules_for(tracker(services, slices, node, settings.family).take_changes(), settings))
    return state.wanted()
