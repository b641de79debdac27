"""From what the user gave to a whole cluster: nodes, addresses, allocations, statuses. Pure, and repeatable.

What is not given is chosen: nodes, Pod ranges, Pod addresses, the node of a Pod, clusterIPs, nodePorts, EndpointSlices.
What is given is kept, or refused with its place.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec

from netlab.cluster.allocators import Allocators
from netlab.cluster.endpointslices import slices_for
from netlab.lab.addresses import Addresses, Ranges, host_fault
from netlab.lab.allocation import allocate_services
from netlab.lab.faults import Faults
from netlab.lab.input import Given, LabInput, Locator
from netlab.lab.load_balancing import LoadBalancerPlan, plan_load_balancer, with_addresses
from netlab.lab.networks import Side, declared_or_derived
from netlab.lab.placement import place_pods
from netlab.lab.plan import ROUTER, ClientPlan, NodePlan, PodPlan, Wiring
from netlab.model.errors import BadInput
from netlab.model.keys import ObjectKey, key_of
from netlab.model.text import Message, Text
from netlab.objects.endpointslice import SERVICE_NAME_LABEL, EndpointSlice
from netlab.objects.field import FieldError, invalid, required
from netlab.objects.ip import IP_WORDS, Address, Network, parse_cidr, parse_ip
from netlab.objects.labspec import LabNetworks
from netlab.objects.node import HOSTNAME_LABEL, Node
from netlab.objects.pod import Pod
from netlab.objects.proxyconfig import MODES, KubeProxyConfiguration
from netlab.objects.service import Service
from netlab.objects.yaml_source import Document

Json = dict[str, Any]
_Label = tuple[str, str, str]
"""Namespace, name, value."""

DEFAULT_SERVICE_CIDR = "10.96.0.0/16"
DEFAULT_NODES = ("node-a", "node-b")
FIRST_NODE_HOST = 11
FIRST_CLIENT_HOST = 100
LEAST_POD_RANGE = 4
NO_FREE_ADDRESS = "no address of it is free for {owner}"

BAD_MODE = Message(
    "resolve.bad-mode",
    en='--mode: "{mode}" is none of {modes}',
    zh='--mode："{mode}" 不是 {modes} 之一',
)
NO_POD_BEHIND = Message(
    "resolve.no-pod-behind",
    en="{service}: no Pod of the lab has the endpoint {addresses}; it gets its rules and answers nothing",
    zh="{service}：实验中没有 Pod 拥有端点 {addresses}；它有规则，但不会应答",
)
NO_POD_CIDR = Message(
    "resolve.no-pod-cidr",
    en="{node}: no podCIDRs given, so the lab chose {cidrs}",
    zh="{node}：未指定 podCIDRs，由实验选择 {cidrs}",
)


@dataclass
class Resolved:
    """A cluster ready to be built. ``objects`` go into the store in this order."""

    name: str
    objects: list[Json] = field(default_factory=list)
    nodes: list[NodePlan] = field(default_factory=list)
    clients: list[ClientPlan] = field(default_factory=list)
    pods: list[PodPlan] = field(default_factory=list)
    host_network_pods: list[ObjectKey] = field(default_factory=list)
    declared: dict[Side, list[Network]] = field(default_factory=dict)
    wiring: Wiring = field(default_factory=Wiring)
    configs: dict[str, KubeProxyConfiguration] = field(default_factory=dict)
    allocators: Allocators | None = None
    addresses: Addresses = field(default_factory=Addresses)
    given: LabInput = field(default_factory=LabInput)
    load_balancer: LoadBalancerPlan | None = None
    locator: Locator | None = None
    notes: list[Text] = field(default_factory=list)


def resolve(given: LabInput, mode: str | None = None) -> Resolved:
    """Work the cluster out; ``mode`` overrides the proxy mode of every node.

    Raises :class:`BadInput` with every fault that was found.
    """
    if mode is not None and mode not in MODES:
        raise BadInput(BAD_MODE(mode=mode, modes=", ".join(MODES)))
    return _Resolver(given, mode).run()


class _Resolver:
    def __init__(self, given: LabInput, mode: str | None) -> None:
        self.given = given
        self.spec = given.lab.spec
        self.mode = mode
        self.faults = Faults()
        self.result = Resolved(given.lab.metadata.name or "lab", notes=list(given.notes))
        self.random = Random(self.result.name)
        self.result.given = given
        self.addresses = self.result.addresses
        self.ranges = Ranges()

    def run(self) -> Resolved:
        result = self.result
        result.locator = Locator(self.given)
        self._networks()
        self._nodes()
        self._clients()
        self._load_balancer()
        self.faults.raise_any()
        pods = self._pods()
        services = self._services()
        self.faults.raise_any()
        self._slices(services, pods)
        self._load_balancer_addresses()
        self._wiring()
        return result

    # Networks, nodes, clients

    def _networks(self) -> None:
        networks = self.spec.networks or LabNetworks()
        for side in ("client", "node"):
            ranges = [network for text in networks.ranges(side) if (network := parse_cidr(text)) is not None]
            self.result.declared[side] = ranges
        self.ranges = Ranges(each for ranges in self.result.declared.values() for each in ranges)

    def _lab_fault(self, fault: FieldError) -> None:
        self.faults.add_field(self.given.lab_document, "Lab", fault)

    def _host_addresses(
        self, side: Side, texts: Sequence[str], owner: str, path: str, document: Document | None, name: str
    ) -> tuple[Address, ...]:
        """A host's own addresses. Where the Lab document gives the network, they have to be in it."""
        strict = self.spec.networks is not None and document is self.given.lab_document
        declared = self.result.declared[side]
        found: list[Address] = []
        for index, text in enumerate(texts):
            address = parse_ip(text)
            if address is None:
                self.faults.add_field(document, name, invalid(f"{path}[{index}]", text, IP_WORDS))
                continue
            of_family = [network for network in declared if network.version == address.version]
            if strict and of_family and not any(address in network for network in of_family):
                allowed = ", ".join(str(network) for network in of_family)
                detail = f"must be within the network {allowed} (spec.networks.{side})"
                self.faults.add_field(document, name, invalid(f"{path}[{index}]", text, detail))
                continue
            if (fault := host_fault(address, declared_or_derived(address, declared))) is not None:
                self.faults.add_field(document, name, invalid(f"{path}[{index}]", text, fault))
                continue
            if (earlier := self.addresses.take(address, owner)) is not None:
                detail = f"the address belongs to {earlier} already"
                self.faults.add_field(document, name, invalid(f"{path}[{index}]", text, detail))
                continue
            found.append(address)
        return tuple(found)

    def _nodes(self) -> None:
        objects = {each.key.name: each for each in self.given.of_kind("Node")}
        in_lab = {node.name for node in self.spec.nodes}
        for index, lab_node in enumerate(self.spec.nodes):
            path = f"spec.nodes[{index}]"
            addresses = self._host_addresses(
                "node", lab_node.addresses, lab_node.name, f"{path}.addresses", self.given.lab_document, "Lab"
            )
            cidrs = self._pod_cidrs(lab_node.pod_cidrs, f"{path}.podCIDRs", self.given.lab_document, "Lab")
            self._add_node(lab_node.name, addresses, cidrs, objects.get(lab_node.name), lab_node.labels)
        for name, each in objects.items():
            if name not in in_lab:
                self._add_node_object(name, each)
        if not self.result.nodes:
            for name in self._node_names_of_pods() or DEFAULT_NODES:
                self._add_node(name, (), (), None, None)
        self._complete_nodes()

    def _add_node_object(self, name: str, given: Given) -> None:
        node = msgspec.convert(given.value, Node)
        listed = [each for each in node.status.addresses if each.type == "InternalIP"]
        indexes = [i for i, each in enumerate(node.status.addresses) if each.type == "InternalIP"]
        addresses: list[Address] = []
        for index, each in zip(indexes, listed, strict=True):
            path = f"status.addresses[{index}].address"
            found = self._host_addresses("node", [each.address], name, path, given.document, f"Node {name}")
            addresses += found
        texts = node.spec.pod_cidrs or ([node.spec.pod_cidr] if node.spec.pod_cidr else [])
        cidrs = self._pod_cidrs(texts, "spec.podCIDRs", given.document, f"Node {name}")
        self._add_node(name, tuple(addresses), cidrs, given, None)

    def _pod_cidrs(self, texts: Sequence[str], path: str, document: Document | None, name: str) -> tuple[Network, ...]:
        found: list[Network] = []
        for index, text in enumerate(texts):
            network = parse_cidr(text)
            if network is None:
                continue
            if network.num_addresses < LEAST_POD_RANGE:
                detail = f"must have at least {LEAST_POD_RANGE} addresses: the second one is the node's"
                self.faults.add_field(document, name, invalid(f"{path}[{index}]", text, detail))
                continue
            if (fault := host_fault(network[1], network)) is not None:
                self.faults.add_field(document, name, invalid(f"{path}[{index}]", text, f"{network[1]} {fault}"))
                continue
            if (clash := self.ranges.clash(network)) is not None:
                detail = f"must not overlap with {clash}"
                self.faults.add_field(document, name, invalid(f"{path}[{index}]", text, detail))
            self.ranges.add(network)
            found.append(network)
        return tuple(found)

    def _node_names_of_pods(self) -> list[str]:
        """Without any Node, the nodes are those that Pods name."""
        pods = (msgspec.convert(each.value, Pod) for each in self.given.of_kind("Pod"))
        return sorted({pod.spec.node_name for pod in pods if pod.spec.node_name})

    def _add_node(
        self,
        name: str,
        addresses: tuple[Address, ...],
        cidrs: tuple[Network, ...],
        given: Given | None,
        labels: dict[str, str] | None,
    ) -> None:
        value: Json = copy.deepcopy(given.value) if given is not None else _new_object("Node", "", name)
        own = value["metadata"].setdefault("labels", {})
        own.setdefault(HOSTNAME_LABEL, name)
        own.update(labels or {})
        self.result.nodes.append(NodePlan(name, addresses, cidrs))
        self.result.objects.append(value)

    def _complete_nodes(self) -> None:
        """Give nodes what they lack, and write it into their objects."""
        values = {each["metadata"]["name"]: each for each in self.result.objects if each["kind"] == "Node"}
        completed = []
        for number, node in enumerate(self.result.nodes, 1):
            addresses = node.addresses or self._free_addresses("node", FIRST_NODE_HOST, node.name)
            cidrs = node.pod_cidrs
            if not cidrs:
                cidrs = self._free_cidrs(number, node.name, sorted({address.version for address in addresses}))
                if values[node.name].get("spec"):
                    listed = ", ".join(str(each) for each in cidrs)
                    self.result.notes.append(NO_POD_CIDR(node=node.name, cidrs=listed))
            completed.append(NodePlan(node.name, addresses, cidrs))
            _write_node(values[node.name], completed[-1])
        self.result.nodes = completed

    def _free_addresses(self, side: Side, start: int, owner: str) -> tuple[Address, ...]:
        """An address of each network of a side."""
        found = []
        for network in self.result.declared[side]:
            address = self.addresses.free(network, start, owner)
            if address is None:
                detail = NO_FREE_ADDRESS.format(owner=owner)
                self._lab_fault(invalid(f"spec.networks.{side}", str(network), detail))
            else:
                found.append(address)
        return tuple(found)

    def _free_cidrs(self, number: int, node: str, versions: Iterable[int]) -> tuple[Network, ...]:
        found = []
        for version in versions:
            cidr = self.ranges.free_cidr(version, number)
            if cidr is None:
                self._lab_fault(required("spec.nodes[].podCIDRs", f"no range of IPv{version} is free for {node}"))
            else:
                found.append(cidr)
        return tuple(found)

    def _clients(self) -> None:
        names = {node.name for node in self.result.nodes}
        for index, client in enumerate(self.spec.clients):
            path = f"spec.clients[{index}]"
            if client.name in names:
                self._lab_fault(invalid(f"{path}.name", client.name, "a node has this name"))
            addresses = self._host_addresses(
                "client", client.addresses, client.name, f"{path}.addresses", self.given.lab_document, "Lab"
            )
            self.result.clients.append(ClientPlan(client.name, addresses))
        for node in self.result.nodes:
            if node.name == ROUTER:
                given = next((each for each in self.given.of_kind("Node") if each.key.name == ROUTER), None)
                fault = invalid("metadata.name", ROUTER, "this is the name of the lab's router")
                self.faults.add_field(given.document if given else None, f"Node {ROUTER}", fault)
        if not self.spec.clients and "client" not in names:
            self.result.clients.append(ClientPlan("client", ()))
        self.result.clients = [
            ClientPlan(each.name, each.addresses or self._free_addresses("client", FIRST_CLIENT_HOST, each.name))
            for each in self.result.clients
        ]

    def _load_balancer(self) -> None:
        plan = plan_load_balancer(self.spec.load_balancer, self._hosts())
        self.result.load_balancer = plan
        if plan is not None and plan.box is not None and plan.box.name in self._hosts().values():
            self._lab_fault(invalid("spec.loadBalancer.mode", plan.mode, f"a host is named {plan.box.name}"))

    def _hosts(self) -> dict[Address, str]:
        """Nodes and clients by address."""
        hosts = {address: node.name for node in self.result.nodes for address in node.addresses}
        return hosts | {address: client.name for client in self.result.clients for address in client.addresses}

    def _load_balancer_addresses(self) -> None:
        """Give Services their addresses before there is anything to answer for them."""
        if self.result.load_balancer is None:
            return
        services = [each for each in self.result.objects if each["kind"] == "Service"]
        changed, refused = with_addresses(services, self.result.load_balancer, self._hosts())
        new = {key_of(each): each for each in changed}
        self.result.objects = [new.get(key_of(each), each) for each in self.result.objects]
        self.result.notes += refused

    # Pods

    def _pods(self) -> list[Pod]:
        placed = place_pods(self.given.of_kind("Pod"), self.result.nodes, self.addresses, self.faults)
        self.result.objects += placed.objects
        self.result.pods, self.result.host_network_pods = placed.pods, placed.host_network
        self.result.notes += placed.notes
        return placed.running

    # Services and EndpointSlices

    def _services(self) -> list[Service]:
        cidrs = self.spec.service_cidrs or [DEFAULT_SERVICE_CIDR]
        try:
            api_server = ObjectKey("Service", "default", "kubernetes")
            reserved = () if any(each.key == api_server for each in self.given.objects) else None
            allocators = Allocators(cidrs, self.spec.node_port_range, random=self.random, reserved=reserved)
        except ValueError as error:
            self._lab_fault(invalid("spec.serviceCIDRs", cidrs, str(error)))
            return []
        self.result.allocators = allocators
        self.result.objects.append(_service_cidr([str(each.network) for each in allocators.ranges]))
        values = [(each, copy.deepcopy(each.value)) for each in self.given.of_kind("Service")]
        own_ranges = bool(self.spec.service_cidrs)
        self.result.notes += allocate_services(values, allocators, self.faults, own_ranges=own_ranges)
        self.result.objects += [value for _, value in values]
        return [msgspec.convert(value, Service) for _, value in values]

    def _slices(self, services: list[Service], pods: list[Pod]) -> None:
        """Slices in the input win over derived ones, for their Service."""
        given = self.given.of_kind("EndpointSlice")
        owned = set()
        for each in given:
            self.result.objects.append(copy.deepcopy(each.value))
            name = (each.value["metadata"].get("labels") or {}).get(SERVICE_NAME_LABEL)
            owned.add((each.key.namespace, name))
        self.result.notes += note_missing_pods(given, self.addresses)
        nodes = {
            each["metadata"]["name"]: msgspec.convert(each, Node)
            for each in self.result.objects
            if each["kind"] == "Node"
        }
        labelled = _by_label(pods)
        for service in services:
            if (service.metadata.namespace, service.metadata.name) not in owned:
                self.result.objects += slices_for(service, _candidates(service, labelled), nodes)

    # The rest

    def _wiring(self) -> None:
        spec = self.spec
        self.result.wiring = Wiring(
            pods="bridge" if spec.pod_wiring == "bridge" else "ptp",
            hairpin=spec.hairpin,
            bridge_netfilter=spec.bridge_netfilter,
            between_nodes="routed" if spec.inter_node == "routed" else "vxlan",
        )
        own = spec.proxy or {}
        for node in self.result.nodes:
            mode = self.mode or (own[node.name].mode if node.name in own else "") or self.given.config.proxy_mode
            self.result.configs[node.name] = msgspec.structs.replace(self.given.config, mode=mode)
        for name in own:
            if name not in self.result.configs:
                detail = f"there is no such node; the lab has {', '.join(self.result.configs)}"
                self._lab_fault(invalid(f"spec.proxy[{name}]", name, detail))
        self.faults.raise_any()


def note_missing_pods(given: Sequence[Given], addresses: Addresses) -> list[Text]:
    """Endpoints of given slices that nobody in the lab is, by Service."""
    missing: dict[str, list[str]] = {}
    for each in given:
        value = msgspec.convert(each.value, EndpointSlice)
        service = value.metadata.label(SERVICE_NAME_LABEL) or value.metadata.name
        for endpoint in value.endpoints:
            for text in endpoint.addresses:
                address = parse_ip(text)
                if address is not None and address not in addresses:
                    missing.setdefault(f"Service {value.metadata.namespace}/{service}", []).append(text)
    return [
        NO_POD_BEHIND(service=service, addresses=", ".join(dict.fromkeys(texts))) for service, texts in missing.items()
    ]


def _by_label(pods: Iterable[Pod]) -> dict[_Label, list[Pod]]:
    found: dict[_Label, list[Pod]] = {}
    for pod in pods:
        for name, value in (pod.metadata.labels or {}).items():
            found.setdefault((pod.metadata.namespace, name, value), []).append(pod)
    return found


def _candidates(service: Service, labelled: dict[_Label, list[Pod]]) -> list[Pod]:
    """The Pods that have the rarest of the labels that a Service selects by."""
    selector = (service.spec.selector or {}).items()
    groups = [labelled.get((service.metadata.namespace, name, value), []) for name, value in selector]
    return min(groups, key=len, default=[])


def _new_object(kind: str, namespace: str, name: str) -> Json:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": {}}


def _service_cidr(cidrs: list[str]) -> Json:
    """The object that an API server makes of its ranges at its first start."""
    value = _new_object("ServiceCIDR", "", "kubernetes")
    return {**value, "apiVersion": "networking.k8s.io/v1", "spec": {"cidrs": cidrs}}


def _write_node(value: Json, node: NodePlan) -> None:
    spec = value.setdefault("spec", {})
    spec["podCIDRs"] = [str(each) for each in node.pod_cidrs]
    if node.pod_cidrs:
        spec["podCIDR"] = str(node.pod_cidrs[0])
    status = value.setdefault("status", {})
    others = [each for each in status.get("addresses") or [] if each.get("type") != "InternalIP"]
    if not any(each.get("type") == "Hostname" for each in others):
        others.append({"type": "Hostname", "address": node.name})
    own = [{"type": "InternalIP", "address": str(each)} for each in node.addresses]
    status["addresses"] = [*own, *others]
