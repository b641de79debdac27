"""What the EndpointSlice controller makes of a Service with a selector: a function of Service, Pods and nodes.

Source: k8s.io/endpointslice (reconciler.go, utils.go) and kubernetes/pkg/controller/endpointslice, 1.36. One set of
slices for each address family and each set of port numbers, at most 100 endpoints a slice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from netlab.objects.ip import parse_ip
from netlab.objects.node import ZONE_LABEL, Node
from netlab.objects.pod import Pod
from netlab.objects.service import Service, ServicePort

Json = dict[str, Any]

MAX_ENDPOINTS = 100
MANAGER = "endpointslice-controller.k8s.io"
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_NODE_CHOICES = ("PreferSameNode",)
_ZONE_CHOICES = ("PreferClose", "PreferSameZone", "PreferSameNode")


def selects(service: Service, pod: Pod) -> bool:
    """Whether the Service's selector picks the Pod (an empty selector picks none)."""
    if not service.spec.selector or pod.metadata.namespace != service.metadata.namespace:
        return False
    labels = pod.metadata.labels or {}
    return all(labels.get(name) == value for name, value in service.spec.selector.items())


def slices_for(service: Service, pods: Iterable[Pod], nodes: Mapping[str, Node]) -> list[Json]:
    """All EndpointSlices of a Service with a selector; ``pods`` are those of its namespace, ``nodes`` by name.

    A Service that selects nothing has one empty slice for each of its families, as the real controller leaves it.
    """
    if not service.spec.selector or service.spec.type == "ExternalName":
        return []
    chosen = sorted((pod for pod in pods if selects(service, pod) and _is_listed(pod)), key=lambda p: p.metadata.name)
    made: list[Json] = []
    for family in service.spec.ip_families or ["IPv4"]:
        groups: dict[tuple[tuple[str, str, int, str | None], ...], list[Json]] = {}
        for pod in chosen:
            address = _address(pod, family)
            if address is None:
                continue
            ports = _ports(service, pod)
            groups.setdefault(ports, []).append(_endpoint(service, pod, address, nodes))
        if not groups:
            groups[()] = []
        for ports, endpoints in groups.items():
            _add_hints(service, endpoints)
            for start in range(0, max(len(endpoints), 1), MAX_ENDPOINTS):
                part = endpoints[start : start + MAX_ENDPOINTS]
                made.append(_slice(service, family, ports, part, len(made)))
    return made


def _is_listed(pod: Pod) -> bool:
    """Pods that have ended, or have no address yet, are no endpoints."""
    return pod.status.phase not in ("Succeeded", "Failed") and bool(pod.status.pod_ips or pod.status.pod_ip)


def _address(pod: Pod, family: str) -> str | None:
    version = 4 if family == "IPv4" else 6
    texts = [each.ip for each in pod.status.pod_ips] or [pod.status.pod_ip]
    for text in texts:
        parsed = parse_ip(text)
        if parsed is not None and parsed.version == version:
            return text
    return None


def _ports(service: Service, pod: Pod) -> tuple[tuple[str, str, int, str | None], ...]:
    """The Service's ports as this Pod has them; a name that the Pod does not have leaves the port out."""
    found = []
    for port in service.spec.ports:
        number = target_port(port, pod)
        if number is not None:
            found.append((port.name, port.protocol, number, port.app_protocol))
    return tuple(found)


def target_port(port: ServicePort, pod: Pod) -> int | None:
    """The number behind targetPort. A name is looked up, with the protocol, in containers and in sidecars."""
    target = port.target_port
    if target is None or target == 0:
        return port.port
    if isinstance(target, int):
        return target
    sidecars = [each for each in pod.spec.init_containers if each.restart_policy == "Always"]
    for container in (*pod.spec.containers, *sidecars):
        for each in container.ports:
            if each.name == target and each.protocol == port.protocol:
                return each.container_port
    return None


def is_ready(pod: Pod) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)


def _endpoint(service: Service, pod: Pod, address: str, nodes: Mapping[str, Node]) -> Json:
    terminating = pod.metadata.deletion_timestamp is not None
    serving = is_ready(pod)
    ready = service.spec.publish_not_ready_addresses or (serving and not terminating)
    endpoint: Json = {
        "addresses": [address],
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
        "targetRef": {
            "kind": "Pod",
            "namespace": pod.metadata.namespace,
            "name": pod.metadata.name,
            **({"uid": pod.metadata.uid} if pod.metadata.uid else {}),
        },
    }
    if pod.spec.node_name:
        endpoint["nodeName"] = pod.spec.node_name
        node = nodes.get(pod.spec.node_name)
        zone = node.metadata.label(ZONE_LABEL) if node is not None else None
        if zone:
            endpoint["zone"] = zone
    if pod.spec.hostname and pod.spec.subdomain == service.metadata.name:
        endpoint["hostname"] = pod.spec.hostname
    return endpoint


def _add_hints(service: Service, endpoints: Sequence[Json]) -> None:
    """trafficDistribution as hints (KEP-4444): each ready endpoint is for its own zone, and for its own node."""
    wish = service.spec.traffic_distribution
    if wish not in _ZONE_CHOICES:
        return
    for endpoint in endpoints:
        if not endpoint["conditions"]["ready"]:
            continue
        hints: Json = {}
        if endpoint.get("zone"):
            hints["forZones"] = [{"name": endpoint["zone"]}]
        if wish in _NODE_CHOICES and endpoint.get("nodeName"):
            hints["forNodes"] = [{"name": endpoint["nodeName"]}]
        if hints:
            endpoint["hints"] = hints


def _slice(
    service: Service,
    family: str,
    ports: tuple[tuple[str, str, int, str | None], ...],
    endpoints: list[Json],
    number: int,
) -> Json:
    labels = {
        name: value
        for name, value in (service.metadata.labels or {}).items()
        if not name.startswith(("endpointslice.kubernetes.io/", "kubernetes.io/service-name"))
    }
    labels["kubernetes.io/service-name"] = service.metadata.name
    labels["endpointslice.kubernetes.io/managed-by"] = MANAGER
    if service.spec.cluster_ip == "None":
        labels["service.kubernetes.io/headless"] = ""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": f"{service.metadata.name}-{_suffix(service, family, number)}",
            "generateName": f"{service.metadata.name}-",
            "namespace": service.metadata.namespace,
            "labels": labels,
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Service",
                    "name": service.metadata.name,
                    "uid": service.metadata.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "addressType": family,
        "endpoints": endpoints,
        "ports": [
            {"name": name, "protocol": protocol, "port": number, **({"appProtocol": app} if app else {})}
            for name, protocol, number, app in ports
        ],
    }


def _suffix(service: Service, family: str, number: int) -> str:
    """Five letters like the API server's, but the same in every run: a lab is to be repeatable."""
    text = f"{service.metadata.namespace}/{service.metadata.name}/{family}/{number}"
    digest = hashlib.sha256(text.encode()).digest()
    return "".join(_SUFFIX_ALPHABET[byte % len(_SUFFIX_ALPHABET)] for byte in digest[:5])
