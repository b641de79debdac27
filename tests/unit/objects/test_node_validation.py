from __future__ import annotations

from typing import Any

import pytest

from netlab.objects.decode import decode, typed
from netlab.objects.node import Node
from netlab.objects.node_validation import default_node, validate_node, validate_node_addresses
from netlab.objects.taint_validation import validate_taints, validate_tolerations


def made(name: str = "node-a", **fields: Any) -> Node:
    value = decode({"metadata": {"name": name}} | fields, Node).value
    default_node(value)
    return typed(value, Node)


def faults(**made_of: Any) -> list[tuple[str, str]]:
    return [(error.path, error.kind) for error in validate_node(made(**made_of))]


def test_names() -> None:
    assert faults(name="node-a.example") == []
    assert faults(name="Node") == [("metadata.name", "Invalid")]
    assert faults(metadata={"name": "n", "namespace": "lab"}) == [("metadata.namespace", "Forbidden")]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"podCIDR": "10.1.0.0/24"}, ("10.1.0.0/24", ["10.1.0.0/24"])),
        ({"podCIDRs": ["10.1.0.0/24", "fd00::/64"]}, ("10.1.0.0/24", ["10.1.0.0/24", "fd00::/64"])),
        ({"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.2.0.0/24"]}, ("10.1.0.0/24", ["10.1.0.0/24"])),
        ({}, ("", [])),
    ],
)
def test_pod_cidr_and_pod_cidrs_are_one(spec: dict[str, Any], expected: tuple[str, list[str]]) -> None:
    node = made(spec=spec)
    assert (node.spec.pod_cidr, node.spec.pod_cidrs) == expected


def test_pod_cidrs() -> None:
    assert faults(spec={"podCIDRs": ["10.1.0.0/24", "fd00::/64"]}) == []
    assert faults(spec={"podCIDRs": ["x"]}) == [("spec.podCIDRs[0]", "Invalid")]
    assert faults(spec={"podCIDRs": ["10.1.0.0/24", "10.1.0.0/24"]}) == [
        ("spec.podCIDRs", "Invalid"),
        ("spec.podCIDRs[1]", "Duplicate"),
    ]
    assert faults(spec={"podCIDRs": ["10.1.0.0/24", "fd00::/64", "10.2.0.0/24"]}) == [("spec.podCIDRs", "Invalid")]


def test_addresses() -> None:
    addresses = [
        {"type": "InternalIP", "address": "192.168.60.123"},
        {"type": "Hostname", "address": "node-a"},
        {"type": "InternalIP", "address": "192.168.60.123"},
        {"type": "ExternalIP", "address": "node-a.example"},
    ]
    found = validate_node_addresses(made(status={"addresses": addresses}))
    assert [(error.path, error.kind) for error in found] == [
        ("status.addresses[2]", "Duplicate"),
        ("status.addresses[3].address", "Invalid"),
    ]


def test_taints() -> None:
    taints = [
        {"key": "a", "effect": "NoSchedule"},
        {"key": "a", "value": "b", "effect": "NoSchedule"},
        {"key": "b a d", "value": "b a d"},
    ]
    assert [(error.path, error.kind) for error in validate_taints("t", taints)] == [
        ("t[1]", "Duplicate"),
        ("t[2].key", "Invalid"),
        ("t[2].value", "Invalid"),
        ("t[2].effect", "Required"),
    ]
    assert validate_taints("t", taints)[0].message == (
        'Duplicate value: {"Key":"a","Value":"b","Effect":"NoSchedule","TimeAdded":null}: '
        "taints must be unique by key and effect pair"
    )


def test_tolerations() -> None:
    tolerations: list[dict[str, Any]] = [
        {"operator": "Exists"},
        {"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5},
        {"value": "b"},
        {"key": "b a d", "value": "b a d", "effect": "Odd"},
    ]
    assert [(error.path, error.kind) for error in validate_tolerations("t", tolerations)] == [
        ("t[2].operator", "Invalid"),
        ("t[3].key", "Invalid"),
        ("t[3].operator", "Invalid"),
        ("t[3].effect", "Unsupported"),
    ]
