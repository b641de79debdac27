"""Change tracking: objects in, changed Service ports out. What no change touches is not looked at again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from netlab.model.keys import ObjectKey
from netlab.objects.endpointslice import EndpointSlice
from netlab.objects.service import Service
from netlab.proxy.endpoints import Endpoint, endpoints_of, service_of
from netlab.proxy.family import Family
from netlab.proxy.service_ports import ServicePort, ServicePortName, service_ports
from netlab.proxy.topology import NodeTopology, UsableEndpoints, usable_endpoints


@dataclass(frozen=True, slots=True)
class PortState:
    """A Service port with its endpoints as one node uses them; ``all_endpoints`` also those that it does not."""

    port: ServicePort
    endpoints: UsableEndpoints
    all_endpoints: tuple[Endpoint, ...]


@dataclass
class ServiceTracker:
    """Services and EndpointSlices as one node's proxy knows them, in one family."""

    family: Family
    node: NodeTopology
    ports: dict[ServicePortName, PortState] = field(default_factory=dict)
    _services: dict[ObjectKey, Service] = field(default_factory=dict)
    _slices: dict[ObjectKey, EndpointSlice] = field(default_factory=dict)
    _slices_of: dict[ObjectKey, set[ObjectKey]] = field(default_factory=dict)
    _ports_of: dict[ObjectKey, list[ServicePortName]] = field(default_factory=dict)
    _dirty: set[ObjectKey] = field(default_factory=set)
    _endpoints: int = 0

    def set_service(self, service: Service) -> None:
        key = ObjectKey("Service", service.metadata.namespace, service.metadata.name)
        self._services[key] = service
        self._dirty.add(key)

    def delete_service(self, key: ObjectKey) -> None:
        if self._services.pop(key, None) is not None:
            self._dirty.add(key)

    def set_slice(self, endpoint_slice: EndpointSlice) -> None:
        metadata = endpoint_slice.metadata
        key = ObjectKey("EndpointSlice", metadata.namespace, metadata.name)
        self.delete_slice(key)
        owner = service_of(endpoint_slice)
        if owner is not None:
            self._slices[key] = endpoint_slice
            self._slices_of.setdefault(owner, set()).add(key)
            self._dirty.add(owner)

    def delete_slice(self, key: ObjectKey) -> None:
        old = self._slices.pop(key, None)
        owner = service_of(old) if old is not None else None
        if owner is not None:
            self._slices_of[owner].discard(key)
            if not self._slices_of[owner]:
                del self._slices_of[owner]
            self._dirty.add(owner)

    def forget_all_but(self, listed: Collection[ObjectKey]) -> None:
        """A full list has come: what it does not have is gone."""
        for key in self._services.keys() - listed:
            self.delete_service(key)
        for key in self._slices.keys() - listed:
            self.delete_slice(key)

    def set_node(self, node: NodeTopology) -> None:
        """Another zone: every Service may use other endpoints."""
        if node != self.node:
            self.node = node
            self._dirty.update(self._services)

    @property
    def pending(self) -> bool:
        """Whether something has changed since the last :meth:`take_changes`."""
        return bool(self._dirty)

    def endpoint_count(self) -> int:
        """Endpoints of all Service ports together, each counted once a port: what decides about a large cluster."""
        return self._endpoints

    def take_changes(self) -> dict[ServicePortName, PortState | None]:
        """The Service ports whose state has changed, with their new state (None: there is no such port any more)."""
        changed: dict[ServicePortName, PortState | None] = {}
        for key in self._dirty:
            old_names = self._ports_of.pop(key, [])
            service = self._services.get(key)
            new: dict[ServicePortName, PortState] = {}
            if service is not None:
                new = self._states(key, service)
                if new:
                    self._ports_of[key] = list(new)
            for name in old_names:
                if name not in new:
                    self._endpoints -= len(self.ports.pop(name).all_endpoints)
                    changed[name] = None
            for name, state in new.items():
                known = self.ports.get(name)
                if known != state:
                    self._endpoints += len(state.all_endpoints) - (len(known.all_endpoints) if known is not None else 0)
                    self.ports[name] = state
                    changed[name] = state
        self._dirty.clear()
        return changed

    def _states(self, key: ObjectKey, service: Service) -> dict[ServicePortName, PortState]:
        ports = service_ports(service, self.family)
        if not ports:
            return {}
        slices = [self._slices[each] for each in self._slices_of.get(key, ())]
        endpoints = endpoints_of(slices, self.family, self.node.name)
        states = {}
        for port in ports:
            group = endpoints.get(port.name, ())
            states[port.name] = PortState(port, usable_endpoints(group, port, self.node), group)
        return states
