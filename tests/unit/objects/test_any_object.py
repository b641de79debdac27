"""Whatever can be decoded can be defaulted and validated: no object makes the rules themselves stumble."""

from __future__ import annotations

import copy
import types
import typing
from random import Random
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from netlab.cluster.allocators import AllocationFailed, Allocators, allocate_service
from netlab.objects.decode import decode, typed
from netlab.objects.endpointslice import EndpointSlice
from netlab.objects.endpointslice_validation import (
    default_endpointslice,
    endpointslice_warnings,
    validate_endpointslice,
)
from netlab.objects.field import FieldError
from netlab.objects.node import Node
from netlab.objects.node_validation import default_node, validate_node, validate_node_addresses
from netlab.objects.pod import Pod
from netlab.objects.pod_defaults import default_pod
from netlab.objects.pod_validation import pod_warnings, validate_pod
from netlab.objects.service import Service
from netlab.objects.service_defaults import default_service
from netlab.objects.service_validation import service_warnings, validate_service
from netlab.objects.shapes import SHAPES

TEXTS = [
    "",
    "None",
    "web",
    "Web",
    "a.b",
    "10.96.0.7",
    "fd00::7",
    "10.0.0.0/8",
    "IPv4",
    "IPv6",
    "Always",
    "Local",
    "TCP",
]
TEXTS += ["NodePort", "LoadBalancer", "ExternalName", "ClientIP", "RequireDualStack", "NoExecute", "Exists"]


def of_type(type_: type[msgspec.Struct], *, whole: bool = False) -> st.SearchStrategy[dict[str, Any]]:
    """Plain values that a struct can be decoded from: with all its fields, or with a few."""
    hints = typing.get_type_hints(type_)
    hint_of = {each.encode_name: hints[each.name] for each in msgspec.structs.fields(type_)}

    def with_fields(chosen: list[str]) -> st.SearchStrategy[dict[str, Any]]:
        return st.fixed_dictionaries({name: of_hint(hint_of[name], f"{type_.__name__}.{name}") for name in chosen})

    names = sorted(hint_of)
    return (
        with_fields(names) if whole else st.lists(st.sampled_from(names), max_size=8, unique=True).flatmap(with_fields)
    )


def of_hint(hint: Any, name: str) -> st.SearchStrategy[Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return st.one_of(*(of_hint(each, name) for each in arguments))
    if origin is list:
        return st.lists(of_hint(arguments[0], name), max_size=2)
    if origin is dict and name in SHAPES:
        return of_type(SHAPES[name])
    if origin is dict:
        values = st.sampled_from(TEXTS) if arguments[1] is str else st.none() | st.integers(0, 3)
        return st.dictionaries(st.sampled_from(TEXTS), values, max_size=2)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return of_type(hint)
    leaves: dict[Any, st.SearchStrategy[Any]] = {
        str: st.sampled_from(TEXTS),
        bool: st.booleans(),
        int: st.sampled_from([-1, 0, 1, 80, 30007, 70000]),
        types.NoneType: st.none(),
    }
    return leaves[hint]


def check(errors: list[FieldError]) -> None:
    for error in errors:
        assert error.path
        assert str(error).startswith(f"{error.path}: ")


many = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@many
@given(of_type(Service, whole=True))
def test_any_service(value: dict[str, Any]) -> None:
    plain = decode(value, Service).value
    default_service(plain)
    allocators = Allocators(["10.96.0.0/24", "fd00::/112"], random=Random(1))
    before = copy.deepcopy(plain)
    try:
        errors = allocate_service(plain, allocators)
    except AllocationFailed:
        assert plain == before
        return
    check(errors)
    check(validate_service(typed(plain, Service)))
    service_warnings(typed(plain, Service))


@many
@given(of_type(EndpointSlice, whole=True))
def test_any_endpointslice(value: dict[str, Any]) -> None:
    plain = decode(value, EndpointSlice).value
    default_endpointslice(plain)
    check(validate_endpointslice(typed(plain, EndpointSlice)))
    endpointslice_warnings(typed(plain, EndpointSlice))


@many
@given(of_type(Pod, whole=True))
def test_any_pod(value: dict[str, Any]) -> None:
    plain = decode(value, Pod).value
    default_pod(plain)
    check(validate_pod(typed(plain, Pod)))
    pod_warnings(typed(plain, Pod))


@many
@given(of_type(Node, whole=True))
def test_any_node(value: dict[str, Any]) -> None:
    plain = decode(value, Node).value
    default_node(plain)
    check(validate_node(typed(plain, Node)))
    check(validate_node_addresses(typed(plain, Node)))
