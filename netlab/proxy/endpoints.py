"""Endpoints: what kube-proxy makes of a Service's EndpointSlices (kubernetes/pkg/proxy/endpointslicecache.go)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from netlab.model.keys import ObjectKey, Origin
from netlab.objects.endpointslice import SERVICE_NAME_LABEL, EndpointSlice
from netlab.objects.endpointslice import Endpoint as EndpointSpec
from netlab.objects.ip import canonical_ip
from netlab.proxy.family import Family, join_host_port
from netlab.proxy.service_ports import HEADLESS_LABEL, PROXY_NAME_LABEL, ServicePortName


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One endpoint of one Service port. ``local``: it is on the proxy's own node."""

    ip: str
    port: int
    local: bool
    ready: bool
    serving: bool
    terminating: bool
    zone_hints: frozenset[str]
    node_hints: frozenset[str]
    origin: Origin

    @property
    def text(self) -> str:
        """ "A:P" or "[A6]:P": the form that names, hashes and orders endpoints."""
        return join_host_port(self.ip, self.port)


def service_of(endpoint_slice: EndpointSlice) -> ObjectKey | None:
    """The Service that the slice belongs to; None where kube-proxy ignores the slice."""
    labels = endpoint_slice.metadata.labels or {}
    name = labels.get(SERVICE_NAME_LABEL)
    if not name or HEADLESS_LABEL in labels or PROXY_NAME_LABEL in labels:
        return None
    return ObjectKey("Service", endpoint_slice.metadata.namespace, name)


def endpoints_of(
    slices: Iterable[EndpointSlice], family: Family, node_name: str
) -> dict[ServicePortName, tuple[Endpoint, ...]]:
    """The endpoints of one Service by Service port, each list in the order of the endpoints' texts.

    An endpoint that stands in several slices counts once: one on this node wins over others, then a ready one (slices
    are updated one by one, and an address moves between them).
    """
    found: dict[ServicePortName, dict[str, Endpoint]] = {}
    for each in sorted(slices, key=lambda each: each.metadata.name):
        if each.address_type != family.kubernetes:
            continue
        service = service_of(each)
        if service is None:
            continue
        for port in each.ports:
            if not port.port:
                continue
            name = ServicePortName(service.namespace, service.name, port.name or "", port.protocol or "TCP")
            group = found.setdefault(name, {})
            for index, spec in enumerate(each.endpoints):
                endpoint = _endpoint(each, index, spec, port.port, node_name)
                if endpoint is not None:
                    known = group.get(endpoint.text)
                    group[endpoint.text] = endpoint if known is None else _preferred(known, endpoint)
    return {name: tuple(group[text] for text in sorted(group)) for name, group in found.items()}


def _endpoint(
    endpoint_slice: EndpointSlice, index: int, spec: EndpointSpec, port: int, node_name: str
) -> Endpoint | None:
    ip = canonical_ip(spec.addresses[0]) if spec.addresses else None
    if ip is None:
        return None
    conditions = spec.conditions
    metadata = endpoint_slice.metadata
    return Endpoint(
        ip=ip,
        port=port,
        local=bool(spec.node_name) and spec.node_name == node_name,
        ready=conditions.ready is not False,
        serving=conditions.serving is not False,
        terminating=bool(conditions.terminating),
        zone_hints=frozenset(zone.name for zone in spec.hints.for_zones) if spec.hints else frozenset(),
        node_hints=frozenset(node.name for node in spec.hints.for_nodes) if spec.hints else frozenset(),
        origin=Origin(
            str(ObjectKey("EndpointSlice", metadata.namespace, metadata.name)), f"endpoints[{index}].addresses[0]"
        ),
    )


def _preferred(known: Endpoint, other: Endpoint) -> Endpoint:
    """Of two entries for one address: the one that is on this node, then ready before not ready, then serving."""
    rank_known = (known.local, known.ready, known.serving, not known.terminating)
    rank_other = (other.local, other.ready, other.serving, not other.terminating)
    return other if rank_other > rank_known else known
