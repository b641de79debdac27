"""Creates that were recorded at the API server 1.36.2, answered by the pure parts of this program.

A small stand-in for the REST layer puts decoding, defaults, allocation and validation together in the API server's
order. What it leaves out of a comparison, and what is not replayed at all, stands below as data.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import yaml

from netlab.cluster.allocators import AllocationFailed, Allocators, allocate_service, release_service
from netlab.objects.decode import decode, typed
from netlab.objects.endpointslice import EndpointSlice
from netlab.objects.endpointslice_validation import (
    default_endpointslice,
    endpointslice_warnings,
    validate_endpointslice,
)
from netlab.objects.field import FieldError
from netlab.objects.node import Node
from netlab.objects.node_validation import default_node, validate_node
from netlab.objects.pod import Pod
from netlab.objects.pod_defaults import default_pod
from netlab.objects.pod_validation import pod_warnings, validate_pod
from netlab.objects.service import Service
from netlab.objects.service_defaults import default_service
from netlab.objects.service_validation import service_warnings, validate_service

RECORDINGS = Path(__file__).parent / "api"
TOPICS = ("service", "endpointslice", "pod", "small-range")
MORE = ("cidr-service-from-second", "node-create", "node-bad", "m-dry-run-service-ip")
"""Creates of other topics that need the same parts of the program."""

NOT_REPLAYED = {
    "pod-without-serviceaccount": "refused by admission (ServiceAccount)",
    "pod-with-token-volume": "the volume is added by admission (ServiceAccount)",
    "pod-volumes-bad": "volumes and their mounts are not validated",
    "pod-resources-bad": "resources are not validated",
    "pod-affinity-bad": "affinity and topology spread are not validated",
    "pod-binding": "a subresource of its own",
    "pod-evict": "a subresource of its own",
}
OTHER_KINDS = ("Namespace", "ServiceAccount")
"""Kinds that only prepare the ground; nothing here reads them."""

PRINTED_WHEN_ABSENT = {"EndpointSlice": {"endpoints": None, "ports": None}}
"""Fields that Go prints even where there is nothing in them."""

MADE_BY_THE_STORE = ("metadata.generation",)
MADE_BY_ADMISSION_OR_REGISTRY = {
    "Node": ("spec.taints", "status"),
    "Pod": (
        "spec.preemptionPolicy",
        "spec.priority",
        "spec.serviceAccount",
        "spec.serviceAccountName",
        "spec.tolerations",
        "status",
    ),
}
"""Fields that other parts of the API server fill in: left out of the comparison, by kind."""


@dataclass(frozen=True)
class Kind:
    """What the API server does with objects of one kind. (The types differ; each function takes its own.)"""

    type: type[msgspec.Struct]
    group: str
    default: Callable[[dict[str, Any]], None]
    validate: Callable[[Any], list[FieldError]]
    warnings: Callable[[Any], list[str]]


KINDS = {
    "EndpointSlice": Kind(
        EndpointSlice,
        "discovery.k8s.io",
        default_endpointslice,
        validate_endpointslice,
        endpointslice_warnings,
    ),
    "Node": Kind(Node, "", default_node, validate_node, lambda _: []),
    "Pod": Kind(Pod, "", default_pod, validate_pod, pod_warnings),
    "Service": Kind(Service, "", default_service, validate_service, service_warnings),
}


@dataclass
class Answer:
    status: int
    body: dict[str, Any]
    warnings: list[str] = field(default_factory=list)


class Server:
    """Enough of an API server to create objects, and to delete Services."""

    def __init__(self, service_cidrs: list[str]) -> None:
        self.allocators = Allocators(service_cidrs, random=Random(36))
        self.services: dict[str, dict[str, Any]] = {}

    def request(self, recorded: dict[str, Any]) -> Answer:
        path = recorded["path"]
        if recorded["method"] == "DELETE":
            release_service(self.services.pop(path), self.allocators)
            return Answer(200, {})
        body = recorded["body"]
        if body["kind"] == "ServiceCIDR":
            for cidr in body["spec"]["cidrs"]:
                self.allocators.add_range(cidr)
            return Answer(201, body)
        if body["kind"] in OTHER_KINDS:
            return Answer(201, body)
        dry_run = "dryRun=All" in recorded.get("query", "")
        return self._create(path, body, dry_run=dry_run)

    def _create(self, path: str, body: dict[str, Any], *, dry_run: bool) -> Answer:
        kind = KINDS[body["kind"]]
        decoded = decode(body, kind.type)
        assert not decoded.unknown
        value = decoded.value
        if namespace := re.search("/namespaces/([^/]+)/", path):
            value["metadata"].setdefault("namespace", namespace[1])
        kind.default(value)
        try:
            errors = self._allocate(value, dry_run=dry_run)
        except AllocationFailed as failed:
            return Answer(500, internal_error(str(failed)))
        view = typed(value, kind.type)
        if not errors and (errors := kind.validate(view)) and body["kind"] == "Service" and not dry_run:
            release_service(value, self.allocators)
        if errors:
            return Answer(422, invalid(value, kind.group, errors))
        if body["kind"] == "Service" and not dry_run:
            self.services[f"{path}/{value['metadata']['name']}"] = value
        return Answer(201, PRINTED_WHEN_ABSENT.get(body["kind"], {}) | value, kind.warnings(view))

    def _allocate(self, value: dict[str, Any], *, dry_run: bool) -> list[FieldError]:
        return allocate_service(value, self.allocators, dry_run=dry_run) if value["kind"] == "Service" else []


def invalid(value: dict[str, Any], group: str, errors: list[FieldError]) -> dict[str, Any]:
    """The Status for an object with faults (apimachinery's errors.NewInvalid)."""
    name, kind = value["metadata"]["name"], value["kind"]
    texts = [str(error) for error in errors]
    words = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    causes = [{"reason": error.reason, "message": error.message, "field": error.path} for error in errors]
    details = {"name": name, "kind": kind, "causes": causes} | ({"group": group} if group else {})
    message = f'{kind}{"." if group else ""}{group} "{name}" is invalid: {words}'
    return status(422, "Invalid", message) | {"details": details}


def internal_error(message: str) -> dict[str, Any]:
    answer = status(500, "InternalError", f"Internal error occurred: {message}")
    return answer | {"details": {"causes": [{"message": message}]}}


def status(code: int, reason: str, message: str) -> dict[str, Any]:
    head = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
    return head | {"message": message, "reason": reason, "code": code}


def matches(expected: object, found: object) -> bool:
    """Whether a found value is the recorded one, or fits the recorded pattern."""
    if isinstance(expected, dict):
        return (
            isinstance(found, dict)
            and expected.keys() == found.keys()
            and all(matches(value, found[key]) for key, value in expected.items())
        )
    if isinstance(expected, list):
        return (
            isinstance(found, list)
            and len(expected) == len(found)
            and all(matches(one, other) for one, other in zip(expected, found, strict=True))
        )
    if isinstance(expected, str) and expected.startswith("~"):
        return fits(expected, found)
    return expected == found


def fits(pattern: str, found: object) -> bool:
    word, _, rest = pattern.partition(" ")
    if word == "~re":
        return re.search(rest, str(found)) is not None
    if word == "~nodeport":
        return isinstance(found, int) and 30086 <= found <= 32767
    base = {"~clusterip4": "10.96.0.0", "~clusterip6": "fd00:10:96::"}[word]
    return isinstance(found, str) and int(ip_address(found)) - int(ip_address(base)) > 256


def without(body: dict[str, Any], paths: tuple[str, ...]) -> dict[str, Any]:
    """The body without some of its fields."""
    copy = {key: dict(value) if isinstance(value, dict) else value for key, value in body.items()}
    for path in paths:
        outer, _, inner = path.partition(".")
        if not inner:
            copy.pop(outer, None)
        elif outer in copy:
            copy[outer].pop(inner, None)
    return copy


def recordings(name: str) -> dict[str, dict[str, Any]]:
    text = (RECORDINGS / name).read_text()
    return {each["id"]: each for each in yaml.load(text, yaml.CSafeLoader)["requests"]}


LARGE = recordings("requests.yaml")
SMALL = recordings("requests-small-range.yaml")


def is_replayed(recorded: dict[str, Any]) -> bool:
    wanted = recorded["topic"] in TOPICS or recorded["id"] in MORE
    if not wanted or recorded["method"] != "POST" or recorded["id"] in NOT_REPLAYED:
        return False
    return recorded["body"]["kind"] not in (*OTHER_KINDS, "ServiceCIDR")


def with_setup(requests: dict[str, dict[str, Any]], id_: str) -> Iterator[dict[str, Any]]:
    """All requests that have to come before a request, in order, and then the request."""
    wanted: set[str] = set()
    todo = [id_]
    while todo:
        each = todo.pop()
        if each not in wanted:
            wanted.add(each)
            todo += requests[each]["setup"]
    return (each for key, each in requests.items() if key in wanted)


def replay(requests: dict[str, dict[str, Any]], id_: str, service_cidrs: list[str]) -> None:
    server = Server(service_cidrs)
    for recorded in with_setup(requests, id_):
        answer = server.request(recorded)
    expect = recorded["expect"]
    assert (answer.status, answer.warnings) == (expect["status"], expect.get("warnings", [])), answer.body
    if recorded.get("plain_setup"):
        return
    left_out = MADE_BY_THE_STORE + MADE_BY_ADMISSION_OR_REGISTRY.get(recorded["body"]["kind"], ())
    if answer.status != 201:
        left_out = ()
    expected, found = without(expect["body"], left_out), without(answer.body, left_out)
    assert matches(expected, found), f"expected {expected}\n   found {found}"


@pytest.mark.parametrize("id_", [id_ for id_, each in LARGE.items() if is_replayed(each)])
def test_a_create_is_answered_as_recorded(id_: str) -> None:
    replay(LARGE, id_, ["10.96.0.0/12", "fd00:10:96::/112"])


@pytest.mark.parametrize("id_", [id_ for id_, each in SMALL.items() if is_replayed(each)])
def test_a_create_on_a_small_range_is_answered_as_recorded(id_: str) -> None:
    replay(SMALL, id_, ["10.50.0.0/28"])


def test_all_creates_one_after_the_other_on_one_server() -> None:
    server = Server(["10.96.0.0/12", "fd00:10:96::/112"])
    for recorded in LARGE.values():
        if is_replayed(recorded) or recorded["id"] == "cidr-second":
            assert server.request(recorded).status == recorded["expect"]["status"], recorded["id"]


def test_every_service_and_endpointslice_create_is_replayed() -> None:
    topics = {LARGE[id_]["topic"] for id_ in NOT_REPLAYED}
    assert topics == {"pod"}
    assert sum(is_replayed(each) for each in LARGE.values()) > 100
