"""EndpointSlice: the typed view of what this program reads of it (discovery.k8s.io/v1)."""

from __future__ import annotations

from typing import Any

from msgspec import field

from netlab.objects.meta import Object, ObjectMeta

SERVICE_NAME_LABEL = "kubernetes.io/service-name"
MANAGED_BY_LABEL = "endpointslice.kubernetes.io/managed-by"


class EndpointConditions(Object):
    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class ForZone(Object):
    name: str = ""


class ForNode(Object):
    name: str = ""


class EndpointHints(Object):
    for_zones: list[ForZone] = field(default_factory=list)
    for_nodes: list[ForNode] = field(default_factory=list)


class Endpoint(Object):
    addresses: list[str] = field(default_factory=list)
    conditions: EndpointConditions = field(default_factory=EndpointConditions)
    hostname: str | None = None
    target_ref: dict[str, Any] | None = None
    deprecated_topology: dict[str, str] | None = None
    node_name: str | None = None
    zone: str | None = None
    hints: EndpointHints | None = None


class EndpointPort(Object):
    name: str | None = None
    protocol: str | None = None
    port: int | None = None
    app_protocol: str | None = None


class EndpointSlice(Object):
    api_version: str = "discovery.k8s.io/v1"
    kind: str = "EndpointSlice"
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    address_type: str = ""
    endpoints: list[Endpoint] = field(default_factory=list)
    ports: list[EndpointPort] = field(default_factory=list)
