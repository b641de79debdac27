"""What the EndpointSlice controller makes of a Service with a selector: a function of Service, Pods and nodes.

Source: k8s.io/endpointslice (reconciler.go, utils.go) and kubernetes/pkg/controller/endpointslice, 1.36. One set of
slices for each address family and each set of port numbers, at most 100 endpoints a slice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from netlab.cluster.packing import pack
from netlab.objects.ip import parse_ip
from netlab.objects.node import ZONE_LABEL, Node
from netlab.objects.pod import Pod
from netlab.objects.service import Service, ServicePort

Json = dict[str, Any]
Ports = tuple[tuple[str, str, int, str | None], ...]
"""Name, protocol, number and application protocol of each port."""

MANAGER = "endpointslice-controller.k8s.io"
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_NODE_CHOICES = ("PreferSameNode",)
_ZONE_CHOICES = ("PreferClose", "PreferSameZone", "PreferSameNode")
_RESERVED_LABELS = (
    "kubernetes.io/service-name",
    "endpointslice.kubernetes.io/managed-by",
    "service.kubernetes.io/headless",
)


def selects(service: Service, pod: Pod) -> bool:
    """Whether the Service's selector picks the Pod (an empty selector picks none)."""
    if not service.spec.selector or pod.metadata.namespace != service.metadata.namespace:
        return False
    labels = pod.metadata.labels or {}
    return all(labels.get(name) == value for name, value in service.spec.selector.items())


def slices_for(
    service: Service, pods: Iterable[Pod], nodes: Mapping[str, Node], existing: Sequence[Json] = ()
) -> list[Json]:
    """All EndpointSlices of a Service with a selector; ``pods`` are those of its namespace, ``nodes`` by name.

    ``existing`` are its slices of before: what can stay as it is stays, and what is made takes the name of what goes.
    A Service that selects nothing has one empty slice for each of its families, as the real controller leaves it.
    """
    if not is_managed(service):
        return []
    chosen = [pod for pod in pods if selects(service, pod) and _is_listed(service, pod, nodes)]
    chosen.sort(key=lambda pod: pod.metadata.name)
    names = {each["metadata"]["name"] for each in existing}
    made: list[Json] = []
    for family in service.spec.ip_families or ["IPv4"]:
        wanted: dict[Ports, list[Json]] = {}
        for pod in chosen:
            address = _address(pod, family)
            if address is not None:
                wanted.setdefault(_ports(service, pod), []).append(_endpoint(service, pod, address, nodes))
        for endpoints in wanted.values():
            _add_hints(service, endpoints)
        of_family = [each for each in existing if each["addressType"] == family]
        made += _slices_of_family(service, family, wanted, of_family, names)
    return made


def is_managed(service: Service) -> bool:
    """Whether the controller looks at the Service at all."""
    return bool(service.spec.selector) and service.spec.type != "ExternalName"


def _slices_of_family(
    service: Service, family: str, wanted: Mapping[Ports, list[Json]], existing: Sequence[Json], names: set[str]
) -> list[Json]:
    """Pack the endpoints of each set of ports; ``names`` are those in use, and grow."""
    by_ports: dict[Ports, list[Json]] = {ports: [] for ports in wanted}
    for each in existing:
        by_ports.setdefault(_ports_of(each), []).append(each)
    made: list[Json] = []
    new: list[tuple[Ports, list[Json]]] = []
    free: list[Json] = []
    for ports, slices in by_ports.items():
        packed = pack([each["endpoints"] or [] for each in slices], wanted.get(ports, ()))
        for old, endpoints in zip(slices, packed, strict=False):
            if endpoints:
                made.append(_slice(service, family, ports, endpoints, old["metadata"]))
            else:
                free.append(old)
        new += [(ports, endpoints) for endpoints in packed[len(slices) :]]
    if not made and not new:
        new.append(((), []))
    for ports, endpoints in new:
        metadata = free.pop(0)["metadata"] if free else {"name": _new_name(service, family, names)}
        made.append(_slice(service, family, ports, endpoints, metadata))
    return made


def _is_listed(service: Service, pod: Pod, nodes: Mapping[str, Node]) -> bool:
    """Pods that have ended, or have no address yet, are no endpoints; nor are, as a rule, those of missing nodes."""
    if pod.status.phase in ("Succeeded", "Failed") or not (pod.status.pod_ips or pod.status.pod_ip):
        return False
    return pod.spec.node_name in nodes or service.spec.publish_not_ready_addresses


def _address(pod: Pod, family: str) -> str | None:
    version = 4 if family == "IPv4" else 6
    texts = [each.ip for each in pod.status.pod_ips] or [pod.status.pod_ip]
    for text in texts:
        parsed = parse_ip(text)
        if parsed is not None and parsed.version == version:
            return text
    return None


def _ports(service: Service, pod: Pod) -> Ports:
    """The Service's ports as this Pod has them; a name that the Pod does not have leaves the port out."""
    found = []
    for port in service.spec.ports:
        number = target_port(port, pod)
        if number is not None:
            found.append((port.name, port.protocol, number, port.app_protocol))
    return tuple(found)


def _ports_of(endpoint_slice: Json) -> Ports:
    return tuple(
        (each.get("name") or "", each.get("protocol") or "TCP", each.get("port") or 0, each.get("appProtocol"))
        for each in endpoint_slice["ports"] or ()
    )


def target_port(port: ServicePort, pod: Pod) -> int | None:
    """The number behind targetPort. A name is looked up, with the protocol, in containers and in sidecars."""
    target = port.target_port
    if not target:
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


def _slice(service: Service, family: str, ports: Ports, endpoints: list[Json], metadata: Json) -> Json:
    """A slice; ``metadata`` is that of the slice that it replaces, or just a name."""
    labels = {name: value for name, value in (service.metadata.labels or {}).items() if name not in _RESERVED_LABELS}
    labels["kubernetes.io/service-name"] = service.metadata.name
    labels["endpointslice.kubernetes.io/managed-by"] = MANAGER
    if service.spec.cluster_ip == "None":
        labels["service.kubernetes.io/headless"] = ""
    owner = {
        "apiVersion": "v1",
        "kind": "Service",
        "name": service.metadata.name,
        "uid": service.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            **metadata,
            "generateName": f"{service.metadata.name}-",
            "namespace": service.metadata.namespace,
            "labels": labels,
            **({"ownerReferences": [owner]} if service.metadata.uid else {}),
        },
        "addressType": family,
        "endpoints": endpoints,
        "ports": [
            {"name": name, "protocol": protocol, "port": number, **({"appProtocol": app} if app else {})}
            for name, protocol, number, app in ports
        ],
    }


def _new_name(service: Service, family: str, names: set[str]) -> str:
    """A name with five letters like the API server's, but the same in every run: a lab is to be repeatable."""
    for number in count():
        text = f"{service.metadata.namespace}/{service.metadata.name}/{family}/{number}"
        digest = hashlib.sha256(text.encode()).digest()
        suffix = "".join(_SUFFIX_ALPHABET[byte % len(_SUFFIX_ALPHABET)] for byte in digest[:5])
        name = f"{service.metadata.name}-{suffix}"
        if name not in names:
            break
    names.add(name)
    return name
