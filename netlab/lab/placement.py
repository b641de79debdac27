"""Pods on their nodes: which one, with which addresses, and the status that says so. Pure."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from ipaddress import ip_network
from typing import Any

import msgspec

from netlab.lab.addresses import Addresses, host_fault
from netlab.lab.faults import Faults
from netlab.lab.input import Given
from netlab.lab.plan import NodePlan, PodPlan
from netlab.model.keys import ObjectKey
from netlab.model.text import Message, Text
from netlab.objects.field import FieldError, duplicate, invalid, required
from netlab.objects.ip import IP_WORDS, Address, Network, parse_ip
from netlab.objects.pod import IPS_ANNOTATION, Pod

Json = dict[str, Any]

FIRST_POD_HOST = 2
STOPPED_PHASES = ("Succeeded", "Failed")

UNSCHEDULED = Message(
    "resolve.scheduled",
    en="{pods}: no nodeName given, so the lab chose the nodes",
    zh="{pods}：未指定 nodeName，由实验选择节点",
)
NOT_RUNNING = Message(
    "resolve.not-running",
    en="{pods}: not started, their phase is {phase}",
    zh="{pods}：未启动，其阶段为 {phase}",
)


@dataclass
class Placed:
    """Pods with nodes and addresses: their objects, which of them are to be started, and what is worth telling."""

    objects: list[Json] = field(default_factory=list)
    pods: list[PodPlan] = field(default_factory=list)
    host_network: list[ObjectKey] = field(default_factory=list)
    running: list[Pod] = field(default_factory=list)
    notes: list[Text] = field(default_factory=list)


def place_pods(
    given: Iterable[Given],
    nodes: Sequence[NodePlan],
    addresses: Addresses,
    faults: Faults,
    counts: Mapping[str, int] | None = None,
) -> Placed:
    """Find a node and addresses for every Pod that is to run.

    ``counts``: Pods that nodes have already. ``addresses`` grows by what the Pods get. What is wrong goes to
    ``faults``.
    """
    return _Placing(nodes, addresses, faults, counts or {}).place(given)


class _Placing:
    def __init__(
        self, nodes: Sequence[NodePlan], addresses: Addresses, faults: Faults, counts: Mapping[str, int]
    ) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.addresses = addresses
        self.faults = faults
        self.counts = counts
        self.result = Placed()

    def place(self, given: Iterable[Given]) -> Placed:
        running = []
        stopped: dict[str, list[str]] = {}
        for each in given:
            pod = msgspec.convert(each.value, Pod)
            waiting = each.from_server and pod.status.phase == "Pending" and not pod.spec.node_name
            if pod.status.phase in STOPPED_PHASES or waiting:
                stopped.setdefault(pod.status.phase, []).append(each.key.path)
                self.result.objects.append(copy.deepcopy(each.value))
            else:
                running.append((each, pod))
        for phase, paths in stopped.items():
            self.result.notes.append(NOT_RUNNING(pods=", ".join(sorted(paths)), phase=phase))
        placed = self._schedule(running)
        # Addresses that are asked for come before those that are free.
        wanted = [(each, pod, node, self._wanted_addresses(each, pod, node)) for each, pod, node in placed]
        for each, pod, node, asked in wanted:
            self._complete(each, pod, node, asked)
        return self.result

    def _schedule(self, pods: Iterable[tuple[Given, Pod]]) -> list[tuple[Given, Pod, NodePlan]]:
        """Every Pod on a node: the one it names, else the one with the fewest Pods."""
        nodes = self.nodes
        counts = {name: self.counts.get(name, 0) for name in nodes}
        named, unnamed = [], []
        for each, pod in pods:
            name = pod.spec.node_name
            if not name:
                unnamed.append((each, pod))
            elif name in nodes:
                named.append((each, pod, nodes[name]))
                counts[name] += 1
            else:
                detail = f"there is no such node; the lab has {', '.join(nodes)}"
                fault = invalid("spec.nodeName", name, detail)
                self.faults.add_field(each.document, str(each.key), fault)
        chosen = []
        waiting = [(count, position, name) for position, (name, count) in enumerate(counts.items())]
        heapify(waiting)
        for each, pod in unnamed:
            count, position, name = waiting[0]
            heapreplace(waiting, (count + 1, position, name))
            chosen.append((each, pod, nodes[name]))
        if chosen:
            self.result.notes.append(UNSCHEDULED(pods=", ".join(each.key.path for each, _, _ in chosen)))
        return [*named, *chosen]

    def _wanted_addresses(self, given: Given, pod: Pod, node: NodePlan) -> list[Address]:
        if pod.spec.host_network:
            return []
        path, texts = asked_addresses(pod)
        found: list[Address] = []
        for text in texts:
            fault = self._address_fault(given, text, path, found, node)
            if fault is not None:
                self.faults.add_field(given.document, str(given.key), fault)
        return found

    def _address_fault(
        self, given: Given, text: str, path: str, found: list[Address], node: NodePlan
    ) -> FieldError | None:
        address = parse_ip(text)
        if address is None:
            return invalid(path, text, IP_WORDS)
        if any(other.version == address.version for other in found):
            return invalid(path, text, "may specify no more than one IP for each IP family")
        ranges = [cidr for cidr in node.pod_cidrs if cidr.version == address.version]
        if path.startswith("metadata") and not any(address in cidr for cidr in ranges):
            listed = ", ".join(str(each) for each in ranges) or f"none of IPv{address.version}"
            return invalid(path, text, f"must be within the Pod range of {node.name}: {listed}")
        network = next((cidr for cidr in ranges if address in cidr), ip_network(str(address)))
        if (detail := host_fault(address, network)) is not None:
            return invalid(path, text, detail)
        if any(address in (gateway.ip, gateway.network.network_address) for gateway in node.gateways()):
            return invalid(path, text, f"this is an address of {node.name} itself")
        if (earlier := self.addresses.take(address, given.key.path)) is not None:
            fault = duplicate(path, text)
            return FieldError(fault.kind, fault.path, fault.value, f"{earlier} has this address")
        found.append(address)
        return None

    def _complete(self, given: Given, pod: Pod, node: NodePlan, wanted: list[Address]) -> None:
        """Allocate what is missing, and write the status as a kubelet would."""
        addresses = list(wanted)
        if pod.spec.host_network:
            addresses = list(node.addresses)
            self.result.host_network.append(given.key)
        else:
            for cidr in node.pod_cidrs:
                if not wanted and (address := self._free_address(given, cidr, node)) is not None:
                    addresses.append(address)
            self.result.pods.append(PodPlan(given.key, node.name, tuple(addresses)))
        value = with_status(given.value, node.name, str(node.addresses[0]), [str(each) for each in addresses])
        self.result.objects.append(value)
        self.result.running.append(msgspec.convert(value, Pod))

    def _free_address(self, given: Given, cidr: Network, node: NodePlan) -> Address | None:
        address = self.addresses.free(cidr, FIRST_POD_HOST, given.key.path)
        if address is None:
            detail = f"no address in the Pod range of {node.name} is free: {cidr}"
            self.faults.add_field(given.document, str(given.key), required("status.podIPs", detail))
        return address


def asked_addresses(pod: Pod) -> tuple[str, list[str]]:
    """The addresses that a Pod asks for, by annotation, else as its status says; and the field that does."""
    annotation = pod.metadata.annotation(IPS_ANNOTATION)
    if annotation is not None:
        return f"metadata.annotations[{IPS_ANNOTATION}]", [text.strip() for text in annotation.split(",")]
    texts = [each.ip for each in pod.status.pod_ips] or ([pod.status.pod_ip] if pod.status.pod_ip else [])
    return "status.podIPs", texts


def with_status(given: Json, node: str, host_ip: str, addresses: Sequence[str]) -> Json:
    """A Pod with the status of one that runs; ready, if it does not say otherwise itself."""
    value = copy.deepcopy(given)
    value["spec"]["nodeName"] = node
    status = value.setdefault("status", {})
    status["phase"] = "Running"
    status["hostIP"] = host_ip
    if addresses:
        status["podIP"] = addresses[0]
        status["podIPs"] = [{"ip": each} for each in addresses]
    if not any(each.get("type") == "Ready" for each in status.get("conditions") or []):
        status["conditions"] = [*(status.get("conditions") or []), {"type": "Ready", "status": "True"}]
    return value
