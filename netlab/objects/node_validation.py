"""What the API server fills in of a new Node, and what it refuses, in its words.

Source: kubernetes/pkg/apis/core/validation/validation.go (ValidateNode, ValidateNodeUpdate),
pkg/apis/core/v1/conversion.go (NodeSpec), 1.36.
"""

from __future__ import annotations

from typing import Any

from netlab.objects.address_validation import is_dual_stack, validate_cidr, validate_ip
from netlab.objects.field import FieldError, duplicate, invalid
from netlab.objects.metadata_validation import validate_metadata
from netlab.objects.names import dns1123_subdomain_faults
from netlab.objects.node import Node
from netlab.objects.taint_validation import validate_taints

IP_ADDRESS_TYPES = ("ExternalIP", "InternalIP")


def default_node(node: dict[str, Any]) -> None:
    """Make podCIDR and podCIDRs one; where they contradict each other, podCIDR counts. Changed in place."""
    spec = node.setdefault("spec", {})
    single, several = spec.get("podCIDR"), spec.get("podCIDRs")
    if single and (not several or several[0] != single):
        spec["podCIDRs"] = [single]
    elif several and not single:
        spec["podCIDR"] = several[0]


def validate_node(node: Node) -> list[FieldError]:
    """Everything wrong with a new Node; empty if it is fine. (The path of its taints is as the API server has it.)"""
    errors = validate_metadata(node.metadata, dns1123_subdomain_faults, namespaced=False)
    errors += validate_taints("metadata.taints", node.spec.taints or [])
    path, cidrs = "spec.podCIDRs", node.spec.pod_cidrs
    for index, text in enumerate(cidrs):
        errors += validate_cidr(f"{path}[{index}]", text)
    if len(cidrs) > 2 or (len(cidrs) == 2 and not is_dual_stack(cidrs)):
        errors.append(invalid(path, cidrs, "may specify no more than one CIDR for each IP family"))
    errors += [duplicate(f"{path}[{index}]", text) for index, text in enumerate(cidrs) if text in cidrs[:index]]
    return errors


def validate_node_addresses(node: Node) -> list[FieldError]:
    """The addresses in a Node's status, where it is read as it stands.

    The API server refuses repeated ones when the kubelet reports them; that InternalIP and ExternalIP have to hold
    addresses, the lab demands by itself.
    """
    errors = []
    seen: set[tuple[str, str]] = set()
    for index, address in enumerate(node.status.addresses):
        path = f"status.addresses[{index}]"
        if (address.type, address.address) in seen:
            errors.append(duplicate(path, {"Type": address.type, "Address": address.address}))
        seen.add((address.type, address.address))
        if address.type in IP_ADDRESS_TYPES:
            errors += validate_ip(f"{path}.address", address.address)
    return errors
