"""What the API server fills in of a new Pod by itself.

What admission adds (service account and its volume, tolerations, priority) is not here.

Source: kubernetes/pkg/apis/core/v1/defaults.go and zz_generated.defaults.go, 1.36.
"""

from __future__ import annotations

from typing import Any

PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
FILE_MODE = 0o644
TOKEN_SECONDS = 3600

_PROBE_DEFAULTS = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_SOURCES_WITH_MODE = ("configMap", "downwardAPI", "projected", "secret")


def default_pod(pod: dict[str, Any]) -> None:
    """Fill in a Pod that has been decoded (see netlab.objects.decode); plain values, changed in place."""
    spec = pod.setdefault("spec", {})
    default_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    for container in _containers(spec):
        _default_requests(container)
        if spec.get("hostNetwork"):
            _default_host_ports(container)


def default_pod_spec(spec: dict[str, Any]) -> None:
    """What holds for the template of a workload as well."""
    _default_text(spec, "restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    _default_text(spec, "dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    _default_text(spec, "schedulerName", "default-scheduler")
    for container in _containers(spec):
        _default_container(container)
    for volume in spec.get("volumes", ()):
        _default_volume(volume)


def pull_policy(image: str) -> str:
    """imagePullPolicy where none is given: Always for the tag latest, which is also what no tag and no digest mean."""
    name, at, _ = image.partition("@")
    _, colon, tag = name.rpartition("/")[2].partition(":")
    if not colon and image and not at:
        tag = "latest"
    return "Always" if tag == "latest" else "IfNotPresent"


def _containers(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return [*spec.get("initContainers", ()), *spec.get("containers", ())]


def _default_text(value: dict[str, Any], name: str, default: str) -> None:
    if not value.get(name):
        value[name] = default


def _default_container(container: dict[str, Any]) -> None:
    container.setdefault("resources", {})
    _default_text(container, "terminationMessagePath", "/dev/termination-log")
    _default_text(container, "terminationMessagePolicy", "File")
    _default_text(container, "imagePullPolicy", pull_policy(container.get("image", "")))
    for port in container.get("ports", ()):
        _default_text(port, "protocol", "TCP")
    for name in PROBES:
        if name in container:
            _default_probe(container[name])
    for handler in container.get("lifecycle", {}).values():
        if isinstance(handler, dict):
            _default_http_get(handler)
    for variable in container.get("env", ()):
        _default_field_reference(variable.get("valueFrom", {}))


def _default_probe(probe: dict[str, Any]) -> None:
    _default_http_get(probe)
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")
    for name, default in _PROBE_DEFAULTS.items():
        if not probe.get(name):
            probe[name] = default


def _default_http_get(handler: dict[str, Any]) -> None:
    if "httpGet" in handler:
        _default_text(handler["httpGet"], "path", "/")
        _default_text(handler["httpGet"], "scheme", "HTTP")


def _default_field_reference(source: dict[str, Any]) -> None:
    if "fieldRef" in source:
        _default_text(source["fieldRef"], "apiVersion", "v1")


def _default_requests(container: dict[str, Any]) -> None:
    """Requests come from the limits where there are none of their own."""
    resources = container["resources"]
    for name, quantity in resources.get("limits", {}).items():
        resources.setdefault("requests", {}).setdefault(name, quantity)


def _default_host_ports(container: dict[str, Any]) -> None:
    for port in container.get("ports", ()):
        if not port.get("hostPort"):
            port["hostPort"] = port.get("containerPort", 0)


def _default_volume(volume: dict[str, Any]) -> None:
    if not volume.keys() - {"name"}:
        volume["emptyDir"] = {}
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    for name in _SOURCES_WITH_MODE:
        if name in volume:
            volume[name].setdefault("defaultMode", FILE_MODE)
    items = list(volume.get("downwardAPI", {}).get("items", ()))
    for source in volume.get("projected", {}).get("sources", ()):
        items += source.get("downwardAPI", {}).get("items", ())
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", TOKEN_SECONDS)
    for item in items:
        _default_field_reference(item)
