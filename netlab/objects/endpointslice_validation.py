"""What the API server fills in of a new EndpointSlice, and what it refuses, in its words.

Two things it does not look at: the number of a port, and whether addresses repeat.

Source: kubernetes/pkg/apis/discovery/v1/defaults.go, pkg/apis/discovery/validation/validation.go,
pkg/registry/discovery/endpointslice/strategy.go, 1.36.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netlab.objects.address_validation import ip_family, ip_warnings, validate_endpoint_ip, validate_ip
from netlab.objects.endpointslice import Endpoint, EndpointHints, EndpointPort, EndpointSlice
from netlab.objects.field import FieldError, duplicate, invalid, required
from netlab.objects.metadata_validation import validate_metadata
from netlab.objects.names import (
    dns1123_label_faults,
    dns1123_subdomain_faults,
    label_value_faults,
    qualified_name_faults,
)
from netlab.objects.value_validation import validate_choice, validate_protocol

ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
ENDPOINTS_MAX = 1000
ADDRESSES_MAX = 100
PORTS_MAX = 100
HINTS_MAX = 8


def default_endpointslice(endpointslice: dict[str, Any]) -> None:
    """Fill in an EndpointSlice that has been decoded; plain values, changed in place.

    Each endpoint has ``conditions`` afterwards, and no deprecatedTopology.
    """
    for endpoint in endpointslice.get("endpoints", ()):
        endpoint.setdefault("conditions", {})
        endpoint.pop("deprecatedTopology", None)
    for port in endpointslice.get("ports", ()):
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def validate_endpointslice(endpointslice: EndpointSlice) -> list[FieldError]:
    """Everything wrong with a new EndpointSlice; empty if it is fine."""
    errors = validate_metadata(endpointslice.metadata, dns1123_subdomain_faults, namespaced=True)
    kind = endpointslice.address_type
    errors += validate_choice("addressType", kind, ADDRESS_TYPES)
    errors += _too_many("endpoints", endpointslice.endpoints, ENDPOINTS_MAX) or [
        error
        for index, endpoint in enumerate(endpointslice.endpoints)
        for error in _validate_endpoint(endpoint, kind, f"endpoints[{index}]")
    ]
    errors += _too_many("ports", endpointslice.ports, PORTS_MAX) or _validate_ports(endpointslice.ports)
    return errors


def endpointslice_warnings(endpointslice: EndpointSlice) -> list[str]:
    """The texts of the Warning headers for an EndpointSlice that is valid."""
    if endpointslice.address_type == "FQDN":
        return ["spec.addressType: FQDN endpoints are deprecated"]
    return [
        warning
        for i, endpoint in enumerate(endpointslice.endpoints)
        for j, text in enumerate(endpoint.addresses)
        for warning in ip_warnings(f"endpoints[{i}].addresses[{j}]", text)
    ]


def _validate_endpoint(endpoint: Endpoint, kind: str, path: str) -> list[FieldError]:
    errors = []
    addresses = f"{path}.addresses"
    if endpoint.addresses:
        errors += _too_many(addresses, endpoint.addresses, ADDRESSES_MAX)
    else:
        errors.append(required(addresses, "must contain at least 1 address"))
    for index, text in enumerate(endpoint.addresses):
        if kind == "FQDN":
            errors += _validate_domain_name(f"{addresses}[{index}]", text)
        elif kind in ADDRESS_TYPES:
            errors += _validate_address(addresses, index, text, kind)
    if endpoint.node_name is not None:
        faults = dns1123_subdomain_faults(endpoint.node_name)
        errors += [invalid(f"{path}.nodeName", endpoint.node_name, fault) for fault in faults]
    if endpoint.hostname is not None:
        faults = dns1123_label_faults(endpoint.hostname)
        errors += [invalid(f"{path}.hostname", endpoint.hostname, fault) for fault in faults]
    if endpoint.hints is not None:
        errors += _validate_hints(endpoint.hints, f"{path}.hints")
    return errors


def _validate_address(path: str, index: int, text: str, kind: str) -> list[FieldError]:
    """An address of an endpoint; a wrong family is said of the list, as the API server does."""
    faults = validate_ip(f"{path}[{index}]", text)
    if faults:
        return faults
    family = [] if ip_family(text) == kind else [invalid(path, text, f"must be an {kind} address")]
    return family + validate_endpoint_ip(f"{path}[{index}]", text)


def _validate_domain_name(path: str, text: str) -> list[FieldError]:
    """A fully qualified domain name, with or without the dot at the end."""
    if not text:
        return [required(path)]
    name = text.removesuffix(".")
    if faults := dns1123_subdomain_faults(name):
        return [invalid(path, name, ",".join(faults))]
    labels = name.split(".")
    if len(labels) < 2:
        return [invalid(path, name, "should be a domain with at least two segments separated by dots")]
    for label in labels:
        if faults := dns1123_label_faults(label):
            return [invalid(path, label, ",".join(faults))]
    return []


def _validate_ports(ports: list[EndpointPort]) -> list[FieldError]:
    errors = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        path = f"ports[{index}]"
        name = port.name or ""
        if name:
            errors += [invalid(f"{path}.name", name, fault) for fault in dns1123_label_faults(name)]
        if name in names:
            errors.append(duplicate(f"{path}.name", name))
        names.add(name)
        errors += validate_protocol(f"{path}.protocol", port.protocol)
        if port.app_protocol is not None:
            faults = qualified_name_faults(port.app_protocol)
            errors += [invalid(f"{path}.appProtocol", port.app_protocol, fault) for fault in faults]
    return errors


def _validate_hints(hints: EndpointHints, path: str) -> list[FieldError]:
    zones = [zone.name for zone in hints.for_zones]
    nodes = [node.name for node in hints.for_nodes]
    errors = _too_many(f"{path}.forZones", zones, HINTS_MAX) or [
        error
        for index, name in enumerate(zones)
        for error in _validate_hint(f"{path}.forZones[{index}].name", name, zones[:index], label_value_faults(name))
    ]
    errors += _too_many(f"{path}.forNodes", nodes, HINTS_MAX) or [
        error
        for index, name in enumerate(nodes)
        for error in _validate_hint(
            f"{path}.forNodes[{index}].name", name, nodes[:index], dns1123_subdomain_faults(name)
        )
    ]
    return errors


def _validate_hint(path: str, name: str, before: Sequence[str], faults: Sequence[str]) -> list[FieldError]:
    repeated = [duplicate(path, name)] if name in before else []
    return repeated + [invalid(path, name, fault) for fault in faults]


def _too_many(path: str, values: Sequence[object], limit: int) -> list[FieldError]:
    if len(values) <= limit:
        return []
    return [FieldError("TooMany", path, len(values), f"must have at most {limit} items")]
