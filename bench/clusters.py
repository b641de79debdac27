"""Clusters of any size as objects: Services with two endpoints each."""

from __future__ import annotations

from collections.abc import Iterator

from netlab.objects.endpointslice import EndpointSlice
from netlab.objects.service import Service
from netlab.proxy.changes import ServiceTracker
from netlab.proxy.family import Family
from netlab.proxy.topology import NodeTopology

NODE = "node-a"
ENDPOINTS = 2


def service(number: int) -> dict[str, object]:
    ip = f"10.{96 + number // 50_000}.{number // 250 % 200}.{number % 250 + 1}"
    return {
        "kind": "Service",
        "metadata": {"namespace": "bench", "name": f"svc-{number}"},
        "spec": {"clusterIP": ip, "clusterIPs": [ip], "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
    }


def endpoint_slice(number: int, moved: int = 0) -> dict[str, object]:
    """``moved``: how often the first endpoint has got another address."""
    tail = f"{number // 250 % 250}.{number % 250 + 1}"
    first = f"10.{200 + moved % 20}.{tail}"
    return {
        "kind": "EndpointSlice",
        "metadata": {
            "namespace": "bench",
            "name": f"svc-{number}-abcde",
            "labels": {"kubernetes.io/service-name": f"svc-{number}"},
        },
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": [first], "nodeName": "node-b", "conditions": {"ready": True}},
            {"addresses": [f"10.240.{tail}"], "nodeName": NODE, "conditions": {"ready": True}},
        ],
        "ports": [{"name": "http", "port": 8080}],
    }


def objects(services: int) -> Iterator[dict[str, object]]:
    for number in range(services):
        yield service(number)
        yield endpoint_slice(number)


def tracker_of(values: list[dict[str, object]]) -> ServiceTracker:
    """A proxy's tracker that has been told of all objects, as JSON values."""
    import msgspec

    tracker = ServiceTracker(Family.IPV4, NodeTopology(NODE, ""))
    for value in values:
        if value["kind"] == "Service":
            tracker.set_service(msgspec.convert(value, Service))
        else:
            tracker.set_slice(msgspec.convert(value, EndpointSlice))
    return tracker
