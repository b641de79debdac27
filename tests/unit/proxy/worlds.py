"""Random clusters and random changes of them, as hypothesis strategies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import msgspec
from hypothesis import strategies as st

from netlab.model.keys import ObjectKey
from netlab.objects.endpointslice import EndpointSlice
from netlab.objects.service import Service
from netlab.proxy.changes import ServiceTracker
from netlab.proxy.topology import NodeTopology
from tests.unit.proxy.build import DEAD, DRAINING, NAMESPACE, NOT_READY, READY, endpoint_slice

T = TypeVar("T")

NODE = NodeTopology("node-a", "east")
ZONES = ("east", "west", "")
NAMES = ("a", "b", "c", "d", "e")
SLICES = ("s1", "s2", "s3", "s4")
PORTS = ({"name": "http", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "admin", "port": 81})
EAST, WEST = [{"name": "east"}], [{"name": "west"}]
HINTS = (None, None, {"forZones": EAST}, {"forZones": WEST}, {"forZones": EAST, "forNodes": [{"name": "node-a"}]})
KINDS = ("ClusterIP", "NodePort", "LoadBalancer", "NodePort", "LoadBalancer", "Headless", "ExternalName")


class Choices:
    """One random number that many choices are made of: far cheaper than a draw for each of them."""

    def __init__(self, number: int) -> None:
        self.number = number

    def of(self, values: Sequence[T]) -> T:
        self.number, index = divmod(self.number, len(values))
        return values[index]


choices = st.integers(0, 2**40).map(Choices)


def any_service(name: str, choices: Choices) -> Service:
    """Any Service that kube-proxy may meet, also those that it passes over."""
    index = NAMES.index(name) + 1
    kind = choices.of(KINDS)
    ports: list[dict[str, Any]] = [dict(each) for each in PORTS[: choices.of((3, 2, 1, 0))]]
    for number, port in enumerate(ports):
        if kind in ("NodePort", "LoadBalancer") and choices.of((True, False)):
            port["nodePort"] = 30000 + 10 * index + number
    spec: dict[str, Any] = {
        "type": "ClusterIP" if kind == "Headless" else kind,
        "ports": ports,
        "clusterIP": {"Headless": "None", "ExternalName": ""}.get(kind, f"10.96.0.{index}"),
        "externalTrafficPolicy": choices.of(("", "Local", "Cluster")),
        "internalTrafficPolicy": choices.of((None, None, "Local")),
        "sessionAffinity": choices.of(("None", "None", "ClientIP")),
        "externalIPs": choices.of(([], [], [f"203.0.113.{index}"])),
    }
    status: dict[str, Any] = {}
    if kind == "LoadBalancer":
        status["loadBalancer"] = {"ingress": choices.of(([{"ip": f"198.51.100.{index}"}], []))}
        spec["healthCheckNodePort"] = 32000 + index
        spec["loadBalancerSourceRanges"] = choices.of(([], ["172.20.0.0/16"], ["0.0.0.0/0"]))
    metadata = {"namespace": NAMESPACE, "name": name}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Service)


def any_endpoint(choices: Choices) -> dict[str, Any]:
    return {
        "addresses": [f"10.244.1.{choices.of(range(1, 13))}"],
        "conditions": choices.of((READY, READY, NOT_READY, DRAINING, DEAD, {})),
        "nodeName": choices.of(("node-a", "node-b", None)),
        "hints": choices.of(HINTS),
    }


def any_slice(name: str, choices: Choices, endpoints: Sequence[Choices]) -> EndpointSlice:
    owner, number = choices.of(NAMES), choices.of((8080, 9090))
    ports = [{**port, "port": number} for port in PORTS[: choices.of((3, 2, 1))]]
    return endpoint_slice(name, owner, [any_endpoint(each) for each in endpoints], ports)


@dataclass
class World:
    """What the API server has."""

    services: dict[str, Service] = field(default_factory=dict)
    slices: dict[str, EndpointSlice] = field(default_factory=dict)
    node: NodeTopology = NODE


Change = tuple[str, Any]


def put_service(name: str, choices: Choices) -> Change:
    return "put service", any_service(name, choices)


def put_slice(name: str, choices: Choices, endpoints: Sequence[Choices]) -> Change:
    return "put slice", any_slice(name, choices, endpoints)


several = st.lists(choices, max_size=4)
changes = st.one_of(
    st.builds(put_service, st.sampled_from(NAMES), choices),
    st.builds(put_slice, st.sampled_from(SLICES), choices, several),
    st.sampled_from([("delete service", name) for name in NAMES]),
    st.sampled_from([("delete slice", name) for name in SLICES]),
    st.sampled_from([("zone", zone) for zone in ZONES]),
)
batches = st.lists(changes, min_size=1, max_size=5)
beginnings = st.tuples(
    *(st.builds(put_service, st.just(name), choices) for name in NAMES),
    *(st.builds(put_slice, st.just(name), choices, several) for name in SLICES),
).map(list)
histories = st.builds(lambda first, rest: [first, *rest], beginnings, st.lists(batches, max_size=4))


def make(change: Change, world: World, tracker: ServiceTracker) -> None:
    """One change, in the world and as the proxy is told of it."""
    kind, value = change
    if kind == "put service":
        world.services[value.metadata.name] = value
        tracker.set_service(value)
    elif kind == "put slice":
        world.slices[value.metadata.name] = value
        tracker.set_slice(value)
    elif kind == "delete service":
        world.services.pop(value, None)
        tracker.delete_service(ObjectKey("Service", NAMESPACE, value))
    elif kind == "delete slice":
        world.slices.pop(value, None)
        tracker.delete_slice(ObjectKey("EndpointSlice", NAMESPACE, value))
    else:
        world.node = replace(world.node, zone=value)
        tracker.set_node(world.node)
