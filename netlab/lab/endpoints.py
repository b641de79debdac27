"""EndpointSlices of a running lab follow its Services and Pods (for Services whose slices the lab derives)."""

from __future__ import annotations

from typing import Any

import msgspec

from netlab.cluster.endpointslices import MANAGER, slices_for
from netlab.cluster.store import Event, Store, key_of
from netlab.model.keys import ObjectKey
from netlab.objects.endpointslice import MANAGED_BY_LABEL, SERVICE_NAME_LABEL
from netlab.objects.node import Node
from netlab.objects.pod import Pod
from netlab.objects.service import Service

Json = dict[str, Any]


class EndpointSliceController:
    """Brings derived slices up to date after changes. Slices that the user wrote are left alone, and their Services."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._dirty: set[ObjectKey] = set()

    def note(self, event: Event) -> None:
        """Remember what a change touches."""
        kind = event.object["kind"]
        if kind == "Service":
            self._dirty.add(key_of(event.object))
        elif kind == "Pod":
            namespace = event.object["metadata"].get("namespace", "")
            for value in self.store.list("Service"):
                if value["metadata"].get("namespace", "") == namespace:
                    self._dirty.add(key_of(value))

    def reconcile(self) -> None:
        """Rewrite the slices of the Services that were touched."""
        dirty, self._dirty = self._dirty, set()
        if not dirty:
            return
        nodes = {value["metadata"]["name"]: msgspec.convert(value, Node) for value in self.store.list("Node")}
        pods = [msgspec.convert(value, Pod) for value in self.store.list("Pod")]
        existing: dict[ObjectKey, list[Json]] = {}
        for value in self.store.list("EndpointSlice"):
            name = (value["metadata"].get("labels") or {}).get(SERVICE_NAME_LABEL, "")
            owner = ObjectKey("Service", value["metadata"].get("namespace", ""), name)
            existing.setdefault(owner, []).append(value)
        for key in sorted(dirty):
            self._reconcile_service(key, existing.get(key, []), pods, nodes)

    def _reconcile_service(self, key: ObjectKey, existing: list[Json], pods: list[Pod], nodes: dict[str, Node]) -> None:
        derived = [each for each in existing if (each["metadata"].get("labels") or {}).get(MANAGED_BY_LABEL) == MANAGER]
        if len(derived) != len(existing):
            return
        service = self.store.get(key)
        wanted = slices_for(msgspec.convert(service, Service), pods, nodes) if service is not None else []
        names = {each["metadata"]["name"] for each in wanted}
        for each in wanted:
            self.store.put(each)
        for each in derived:
            if each["metadata"]["name"] not in names:
                self.store.delete(key_of(each))
