"""Cluster IPs and node ports: who has which, and what a new Service gets.

A create goes: decode, default_service, allocate_service, validate_service; what fails after the allocation gives back
what was allocated (release_service). So the allocators speak first: a port that is taken is reported alone, whatever
else is wrong.

Source: kubernetes/pkg/registry/core/service/storage/alloc.go, .../ipallocator, .../portallocator, 1.36.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

from netlab.cluster.bands import ServiceRange, port_bands, service_range
from netlab.objects.address_validation import ip_family
from netlab.objects.decode import typed
from netlab.objects.field import FieldError, invalid
from netlab.objects.ip import parse_cidr, parse_ip
from netlab.objects.labspec import parse_port_range
from netlab.objects.service import Service, ServiceSpec
from netlab.objects.service_validation import is_headless, needs_health_check, validate_cluster_ips

RANGE_FULL = "range is full"
_TYPES_WITH_NODE_PORTS = ("LoadBalancer", "NodePort")
_OTHER_FAMILY = {"IPv4": "IPv6", "IPv6": "IPv4"}
_DRY_RUN_PORT = 32769


class AllocationFailed(Exception):
    """Nothing could be allocated, through no fault of a field: the API server answers 500, with this text."""


class Taken(Exception):
    """A number that was asked for cannot be had; the text is the API server's."""


class Allocators:
    """All cluster IPs and node ports of a cluster."""

    def __init__(
        self,
        service_cidrs: Iterable[str],
        node_port_range: str = "30000-32767",
        *,
        random: Random,
        reserved: Iterable[str] | None = None,
    ) -> None:
        """The first range decides the family that Services have by default.

        ``reserved`` are addresses that belong to Services made otherwise; without it, the first address of the first
        range, which is default/kubernetes'. Raises ValueError for ranges that are none.
        """
        ports = parse_port_range(node_port_range)
        if ports is None:
            raise ValueError(f"not a range of ports: {node_port_range}")
        self.node_port_range = node_port_range
        self.ranges: list[ServiceRange] = []
        self._random = random
        self._ports = port_bands(*ports)
        self._taken_ports: set[int] = set()
        self._taken_addresses: dict[int, set[int]] = {4: set(), 6: set()}
        for cidr in service_cidrs:
            self.add_range(cidr)
        if not self.ranges:
            raise ValueError("no service range")
        for text in [str(self.ranges[0].first)] if reserved is None else reserved:
            self.take_address(text)

    def copy(self) -> Allocators:
        """What is taken here is taken there, to try something with."""
        other = copy.copy(self)
        other.ranges = list(self.ranges)
        other._taken_ports = set(self._taken_ports)
        other._taken_addresses = {version: set(taken) for version, taken in self._taken_addresses.items()}
        return other

    @property
    def families(self) -> list[str]:
        """The families of the ranges, the default one first."""
        return list(dict.fromkeys(each.family for each in self.ranges))

    def add_range(self, cidr: str) -> None:
        """Add a range behind the others, as a new ServiceCIDR does. Raises ValueError for one without addresses."""
        network = parse_cidr(cidr)
        if network is None:
            raise ValueError(f"not a range of addresses: {cidr}")
        self.ranges.append(service_range(network))

    def take_address(self, text: str) -> None:
        """Take a valid address that somebody asked for. Raises :class:`Taken`."""
        address = parse_ip(text)
        if address is None or not any(address in each for each in self.ranges):
            raise Taken("the provided network does not match the current range")
        taken = self._taken_addresses[address.version]
        if int(address) in taken:
            raise Taken("provided IP is already allocated")
        taken.add(int(address))

    def next_address(self, family: str) -> str:
        """Take any free address of a family, from the first range that has one. Raises :class:`AllocationFailed`."""
        for each in self.ranges:
            taken = self._taken_addresses[each.network.version]
            number = each.bands.pick(taken, self._random) if each.family == family else None
            if number is not None:
                taken.add(number)
                return str(each.address(number))
        raise AllocationFailed(f"failed to allocate a serviceIP: {RANGE_FULL}")

    def release_address(self, text: str) -> None:
        """Give an address back; one that nobody has is no error."""
        address = parse_ip(text)
        if address is not None:
            self._taken_addresses[address.version].discard(int(address))

    def take_port(self, port: int) -> None:
        """Take a node port that somebody asked for. Raises :class:`Taken`."""
        if port not in self._ports:
            words = "provided port is not in the valid range. The range of valid ports is"
            raise Taken(f"{words} {self.node_port_range}")
        if port in self._taken_ports:
            raise Taken("provided port is already allocated")
        self._taken_ports.add(port)

    def next_port(self) -> int:
        """Take any free node port. Raises :class:`AllocationFailed`, with the reason only."""
        port = self._ports.pick(self._taken_ports, self._random)
        if port is None:
            raise AllocationFailed(RANGE_FULL)
        self._taken_ports.add(port)
        return port

    def release_port(self, port: int) -> None:
        """Give a node port back; one that nobody has is no error."""
        self._taken_ports.discard(port)

    def is_port_taken(self, port: int) -> bool:
        return port in self._taken_ports


def allocate_service(service: dict[str, Any], allocators: Allocators, *, dry_run: bool = False) -> list[FieldError]:
    """Give a new, defaulted Service its IP families, cluster IPs and node ports; plain values, changed in place.

    What is wrong comes back; then, and when :class:`AllocationFailed` is raised (the API server's 500), neither the
    Service nor the allocators are changed. A dry run fills in values that stand for some, and takes none.
    """
    view = typed(service, Service)
    operation = _Operation(allocators, dry_run)
    try:
        families, policy = _families(view.spec, allocators)
        addresses = _cluster_ips(view.spec, families, operation)
        node_ports = _node_ports(view.spec, operation)
        health_check_port = _health_check_node_port(view.spec, operation)
    except _Refused as refused:
        operation.revert()
        return refused.errors
    except AllocationFailed:
        operation.revert()
        raise
    spec = service.setdefault("spec", {})
    if policy is not None:
        spec |= {"ipFamilies": families, "ipFamilyPolicy": policy}
    if addresses:
        spec |= {"clusterIP": addresses[0], "clusterIPs": addresses}
    for port, number in zip(spec.get("ports", ()), node_ports, strict=False):
        if number:
            port["nodePort"] = number
    if health_check_port:
        spec["healthCheckNodePort"] = health_check_port
    return []


def release_service(service: dict[str, Any], allocators: Allocators) -> None:
    """Give back all that a Service got by allocate_service: when it is deleted, or refused for something else."""
    spec = typed(service, Service).spec
    if spec.type != "ExternalName" and not is_headless(spec):
        for text in spec.cluster_ips:
            allocators.release_address(text)
    for port in spec.ports if spec.type in _TYPES_WITH_NODE_PORTS else ():
        if port.node_port:
            allocators.release_port(port.node_port)
    if needs_health_check(spec) and spec.health_check_node_port:
        allocators.release_port(spec.health_check_node_port)


class _Refused(Exception):
    """The Service is at fault."""

    def __init__(self, *errors: FieldError) -> None:
        super().__init__()
        self.errors = list(errors)


@dataclass
class _Operation:
    """One attempt: remembers what it took, to give all back. A dry run takes nothing, and makes up what it gives."""

    allocators: Allocators
    dry_run: bool

    def __post_init__(self) -> None:
        self.addresses: list[str] = []
        self.ports: list[int] = []

    def take_address(self, text: str) -> None:
        if self.dry_run:
            return
        self.allocators.take_address(text)
        self.addresses.append(text)

    def next_address(self, family: str) -> str:
        if self.dry_run:
            first = next(each for each in self.allocators.ranges if each.family == family)
            return str(first.network.network_address)
        text = self.allocators.next_address(family)
        self.addresses.append(text)
        return text

    def take_port(self, port: int) -> None:
        if not self.dry_run:
            self.allocators.take_port(port)
        elif port in self.ports or self.allocators.is_port_taken(port):
            raise Taken("provided port is already allocated")
        self.ports.append(port)

    def next_port(self) -> int:
        made_up = max(self.ports, default=_DRY_RUN_PORT - 1) + 1
        port = made_up if self.dry_run else self.allocators.next_port()
        self.ports.append(port)
        return port

    def revert(self) -> None:
        if self.dry_run:
            return
        for text in self.addresses:
            self.allocators.release_address(text)
        for port in self.ports:
            self.allocators.release_port(port)


def _families(spec: ServiceSpec, allocators: Allocators) -> tuple[list[str], str | None]:
    """ipFamilies and ipFamilyPolicy: what is given, what the addresses tell, else the default family.

    A headless Service without selector may have families that the cluster has not, and has both by default.
    """
    if spec.type == "ExternalName":
        return [], None
    free = spec.cluster_ip == "None" and not spec.selector
    policy = spec.ip_family_policy or ("RequireDualStack" if free else "SingleStack")
    if errors := validate_cluster_ips(spec):
        raise _Refused(*errors)
    errors = _single_stack_faults(spec, policy)
    families = list(spec.ip_families)
    for index in range(len(families), 0 if is_headless(spec) else len(spec.cluster_ips)):
        family = ip_family(spec.cluster_ips[index])
        if family in allocators.families:
            families.append(family)
        else:
            words = f"{family} is not configured on this cluster"
            errors.append(invalid(f"spec.clusterIPs[{index}]", spec.cluster_ips, words))
    if errors:
        raise _Refused(*errors)
    if not free:
        _demand_families(families, policy, allocators)
    families = families or allocators.families[:1]
    if policy != "SingleStack" and len(families) == 1 and (free or len(allocators.families) == 2):
        families.append(_OTHER_FAMILY[families[0]])
    return families, policy


def _single_stack_faults(spec: ServiceSpec, policy: str) -> list[FieldError]:
    counts = {"cluster IPs": len(spec.cluster_ips), "IP families": len(spec.ip_families)}
    words = "must be 'RequireDualStack' or 'PreferDualStack' when multiple {} are specified"
    return [
        invalid("spec.ipFamilyPolicy", policy, words.format(what))
        for what, count in counts.items()
        if policy == "SingleStack" and count == 2
    ]


def _demand_families(families: list[str], policy: str, allocators: Allocators) -> None:
    errors = []
    if policy == "RequireDualStack" and len(allocators.families) < 2:
        words = "this cluster is not configured for dual-stack services"
        errors.append(invalid("spec.ipFamilyPolicy", policy, words))
    errors += [
        invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")
        for index, family in enumerate(families)
        if family not in allocators.families
    ]
    if errors:
        raise _Refused(*errors)


def _cluster_ips(spec: ServiceSpec, families: list[str], operation: _Operation) -> list[str]:
    """The addresses, one for each family: the given ones, and new ones for the rest."""
    if spec.type == "ExternalName" or is_headless(spec):
        return []
    for text in spec.cluster_ips:
        try:
            operation.take_address(text)
        except Taken as taken:
            words = f"failed to allocate IP {text}: {taken}"
            raise _Refused(invalid("spec.clusterIPs", spec.cluster_ips, words)) from taken
    return spec.cluster_ips + [operation.next_address(family) for family in families[len(spec.cluster_ips) :]]


def _node_ports(spec: ServiceSpec, operation: _Operation) -> list[int]:
    """The node port of every port (0 for none). Ports with the same number, of two protocols, share one."""
    if spec.type not in _TYPES_WITH_NODE_PORTS:
        return []
    wanted = spec.type == "NodePort" or spec.allocate_load_balancer_node_ports is not False
    by_port: dict[int, int] = {}
    numbers = []
    for index, port in enumerate(spec.ports):
        number = port.node_port
        if not number and not wanted:
            numbers.append(0)
            continue
        shared = by_port.get(port.port, 0)
        if not shared:
            asked = next((each.node_port for each in spec.ports if each.port == port.port and each.node_port), 0)
            number = by_port[port.port] = _node_port(asked, f"spec.ports[{index}].nodePort", operation)
        elif not number:
            number = shared
        elif number != shared:
            number = _node_port(number, f"spec.ports[{index}].nodePort", operation)
        numbers.append(number)
    return numbers


def _node_port(asked: int, path: str, operation: _Operation) -> int:
    if not asked:
        try:
            return operation.next_port()
        except AllocationFailed as failed:
            raise AllocationFailed(f"failed to allocate a nodePort: {failed}") from failed
    try:
        operation.take_port(asked)
    except Taken as taken:
        raise _Refused(invalid(path, asked, str(taken))) from taken
    return asked


def _health_check_node_port(spec: ServiceSpec, operation: _Operation) -> int:
    """The port on which nodes say whether they have endpoints; 0 where none is needed."""
    if not needs_health_check(spec):
        return 0
    asked = spec.health_check_node_port
    if not asked:
        try:
            return operation.next_port()
        except AllocationFailed as failed:
            raise AllocationFailed(f"failed to allocate a HealthCheck NodePort 0: {failed}") from failed
    try:
        operation.take_port(asked)
    except Taken as taken:
        raise AllocationFailed(f"failed to allocate requested HealthCheck NodePort {asked}: {taken}") from taken
    return asked
