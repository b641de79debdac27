"""What the API server fills in of a new Service before anything is allocated.

Source: kubernetes/pkg/apis/core/v1/defaults.go (SetDefaults_Service), pkg/registry/core/service/storage
(normalizeClusterIPs).
"""

from __future__ import annotations

from typing import Any

AFFINITY_TIMEOUT_SECONDS = 10800
_TYPES_WITH_CLUSTER_IP = ("ClusterIP", "LoadBalancer", "NodePort")


def default_service(service: dict[str, Any]) -> None:
    """Fill in a Service that has been decoded (see netlab.objects.decode); plain values, changed in place.

    A status stays as it is: dropping what a user sends of it is up to whoever stores the object.
    """
    spec = service.setdefault("spec", {})
    if not spec.get("type"):
        spec["type"] = "ClusterIP"
    _default_affinity(spec)
    for port in spec.get("ports", ()):
        _default_port(port)
    _default_traffic_policies(spec)
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    _default_status(service, spec["type"])


def _default_affinity(spec: dict[str, Any]) -> None:
    if not spec.get("sessionAffinity"):
        spec["sessionAffinity"] = "None"
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        client_ip = spec.get("sessionAffinityConfig", {}).get("clientIP", {})
        if client_ip.get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": AFFINITY_TIMEOUT_SECONDS}}


def _default_port(port: dict[str, Any]) -> None:
    if not port.get("protocol"):
        port["protocol"] = "TCP"
    if port.get("targetPort") in (None, 0, ""):
        port["targetPort"] = port.get("port", 0)


def _default_traffic_policies(spec: dict[str, Any]) -> None:
    if _is_externally_accessible(spec) and not spec.get("externalTrafficPolicy"):
        spec["externalTrafficPolicy"] = "Cluster"
    if spec.get("internalTrafficPolicy") is None and spec["type"] in _TYPES_WITH_CLUSTER_IP:
        spec["internalTrafficPolicy"] = "Cluster"


def _is_externally_accessible(spec: dict[str, Any]) -> bool:
    """Whether externalTrafficPolicy means something."""
    kind = spec.get("type")
    return kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def _default_status(service: dict[str, Any], kind: str) -> None:
    load_balancer = service.setdefault("status", {}).setdefault("loadBalancer", {})
    for ingress in load_balancer.get("ingress", ()) if kind == "LoadBalancer" else ():
        if ingress.get("ip"):
            ingress.setdefault("ipMode", "VIP")
