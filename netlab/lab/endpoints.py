"""EndpointSlices of a running lab follow its Services and Pods (for Services whose slices the lab derives)."""

from __future__ import annotations

from typing import Any

import msgspec

from netlab.cluster.endpointslices import MANAGER, is_managed, slices_for
from netlab.cluster.store import Event, Store
from netlab.model.keys import ObjectKey, key_of
from netlab.objects.endpointslice import MANAGED_BY_LABEL, SERVICE_NAME_LABEL
from netlab.objects.node import Node
from netlab.objects.pod import Pod
from netlab.objects.service import Service

Json = dict[str, Any]


class EndpointSliceController:
    """Brings derived slices up to date after changes.

    ``given``: the slices of lab files. They win over derived ones, for their Service, and are left alone.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.given: set[ObjectKey] = set()
        self._dirty: set[ObjectKey] = set()

    def note(self, event: Event) -> None:
        """Remember what a change touches."""
        kind, metadata = event.object["kind"], event.object["metadata"]
        if kind == "Service":
            self._dirty.add(key_of(event.object))
        elif kind == "Pod":
            self._touch(metadata.get("namespace", ""))
        elif kind == "Node":
            self._touch(None)
        elif kind == "EndpointSlice":
            self._dirty.add(_owner_of(event.object))
            if event.type == "DELETED":
                self.given.discard(key_of(event.object))

    def _touch(self, namespace: str | None) -> None:
        """All Services of a namespace, or of all namespaces."""
        for value in self.store.list("Service"):
            key = key_of(value)
            if namespace in (None, key.namespace):
                self._dirty.add(key)

    def reconcile(self) -> None:
        """Rewrite the slices of the Services that were touched."""
        dirty, self._dirty = self._dirty, set()
        if not dirty:
            return
        nodes = {value["metadata"]["name"]: msgspec.convert(value, Node) for value in self.store.list("Node")}
        pods = [msgspec.convert(value, Pod) for value in self.store.list("Pod")]
        existing: dict[ObjectKey, list[Json]] = {}
        for value in self.store.list("EndpointSlice"):
            existing.setdefault(_owner_of(value), []).append(value)
        for key in sorted(dirty):
            self._reconcile_service(key, existing.get(key, []), pods, nodes)

    def _reconcile_service(self, key: ObjectKey, existing: list[Json], pods: list[Pod], nodes: dict[str, Node]) -> None:
        """A Service that loses its selector keeps the slices that it has; one that goes takes them along."""
        given = [each for each in existing if key_of(each) in self.given]
        derived = [each for each in existing if each not in given and _is_derived(each)]
        value = self.store.get(key)
        wanted: list[Json] = []
        if value is None:
            derived += [each for each in given if _goes_with(key, each)]
        elif not given:
            service = msgspec.convert(value, Service)
            if len(derived) != len(existing) or not is_managed(service):
                return
            wanted = slices_for(service, pods, nodes, derived)
        names = {each["metadata"]["name"] for each in wanted}
        for each in wanted:
            self.store.put(each)
        for each in derived:
            if each["metadata"]["name"] not in names:
                self.store.delete(key_of(each))


def _is_derived(endpoint_slice: Json) -> bool:
    return (endpoint_slice["metadata"].get("labels") or {}).get(MANAGED_BY_LABEL) == MANAGER


def _goes_with(service: ObjectKey, endpoint_slice: Json) -> bool:
    """Whether the garbage collector takes the slice away when the Service is deleted."""
    owners = endpoint_slice["metadata"].get("ownerReferences") or ()
    return any((owner.get("kind"), owner.get("name")) == (service.kind, service.name) for owner in owners)


def _owner_of(endpoint_slice: Json) -> ObjectKey:
    metadata = endpoint_slice["metadata"]
    name = (metadata.get("labels") or {}).get(SERVICE_NAME_LABEL, "")
    return ObjectKey("Service", metadata.get("namespace", ""), name)
