"""A control plane in memory: a store, and the controllers that answer to its changes."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from netlab.cluster.store import Store
from netlab.lab.endpoints import EndpointSliceController
from netlab.model.keys import ObjectKey
from netlab.objects.pod_defaults import default_pod
from netlab.objects.service_defaults import default_service

Json = dict[str, Any]

NAMESPACE = "ns"
ZONES = {"n-east1": "east", "n-east2": "east", "n-west1": "west"}


class ControlPlane:
    """Nodes as in the recordings; the slices are up to date after every change."""

    def __init__(self) -> None:
        self.store = Store()
        self.controller = EndpointSliceController(self.store)
        self.store.watch(self.controller.note)
        self.waiting = False
        for name, zone in ZONES.items():
            labels = {"topology.kubernetes.io/zone": zone}
            self.store.put({"kind": "Node", "metadata": {"name": name, "labels": labels}})

    def reconcile(self) -> None:
        if not self.waiting:
            self.controller.reconcile()

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Several changes that the controller sees together."""
        self.waiting = True
        yield
        self.waiting = False
        self.reconcile()

    def put(self, value: Json) -> None:
        """Create or replace an object; defaults are filled in."""
        value = copy.deepcopy(value)
        if value["kind"] != "Node":
            value["metadata"].setdefault("namespace", NAMESPACE)
        value["metadata"].setdefault("uid", f"uid-of-{value['metadata']['name']}")
        if value["kind"] == "Service":
            default_service(value)
        elif value["kind"] == "Pod":
            default_pod(value)
        self.store.put(value)
        self.reconcile()

    def service(self, name: str = "web", labels: Json | None = None, **spec: Any) -> None:
        spec = {"clusterIP": "10.96.30.1", "selector": {"app": "web"}, "ports": [{"port": 80}], **spec}
        metadata = {"name": name, **({"labels": labels} if labels else {})}
        self.put({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})

    def pod(self, name: str, *ips: str, node: str = "n-east1", ready: bool = True, **changes: Any) -> None:
        """A running Pod; ``changes``: metadata, spec, status."""
        status = {
            "phase": "Running",
            "podIPs": [{"ip": ip} for ip in ips],
            "conditions": [{"type": "Ready", "status": str(ready)}],
        }
        metadata = {"name": name, "labels": {"app": "web"}, **changes.get("metadata", {})}
        spec = {"nodeName": node, "containers": [{"name": "c", "image": "i:1"}], **changes.get("spec", {})}
        status |= changes.get("status", {})
        self.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status})

    def pods(self, *numbers: int) -> None:
        """Ready Pods p0, p1, … with an address for each number."""
        for number in numbers:
            self.pod(f"p{number}", f"10.244.{number // 250}.{number % 250 + 1}")

    def delete(self, kind: str, name: str) -> None:
        self.store.delete(ObjectKey(kind, NAMESPACE, name))
        self.reconcile()

    def update(self, kind: str, name: str, patch: Json) -> None:
        """A merge patch."""
        value = self.store.get(ObjectKey(kind, NAMESPACE, name))
        assert value is not None
        self.put(merged(value, patch))

    def slices(self) -> list[Json]:
        return list(self.store.list("EndpointSlice"))

    def sizes(self) -> list[int]:
        """Endpoints per slice, the fullest first."""
        return sorted((len(each["endpoints"]) for each in self.slices()), reverse=True)

    def addresses(self) -> list[str]:
        return sorted(address for each in self.slices() for one in each["endpoints"] for address in one["addresses"])

    def endpoint(self, address: str) -> Json:
        found = [one for each in self.slices() for one in each["endpoints"] if one["addresses"] == [address]]
        assert len(found) == 1, f"{address}: {found}"
        endpoint: Json = found[0]
        return endpoint


def merged(value: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(value) if isinstance(value, dict) else {}
    for key, each in patch.items():
        if each is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), each)
    return result


def numbers_in(text: str) -> range:
    """ "p60..p274": the numbers from 60 to 274."""
    first, last = re.findall(r"p(\d+)\.\.p(\d+)", text)[0]
    return range(int(first), int(last) + 1)
