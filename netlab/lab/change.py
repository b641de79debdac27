"""Changes of a running lab's objects, worked out before any of it is done. Pure.

Objects are given as in lab files, and what they do not say stays as it is: an address, a node port, the node of a Pod.
Either all of it can be had, or nothing is changed.
"""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import msgspec

from netlab.cluster.allocators import Allocators, release_service
from netlab.cluster.store import Store, same
from netlab.lab.addresses import Addresses
from netlab.lab.allocation import allocate_services
from netlab.lab.faults import Faults
from netlab.lab.input import Given, LabInput
from netlab.lab.placement import STOPPED_PHASES, asked_addresses, place_pods, with_status
from netlab.lab.plan import PodPlan
from netlab.lab.resolve import Resolved, note_missing_pods
from netlab.model.changes import Action
from netlab.model.errors import BadInput
from netlab.model.keys import ObjectKey, key_of
from netlab.model.text import Message, Text
from netlab.objects.field import FieldError, forbidden, invalid
from netlab.objects.node import HOSTNAME_LABEL, Node
from netlab.objects.pod import Pod
from netlab.objects.service import Service
from netlab.objects.service_validation import is_headless, needs_health_check

Json = dict[str, Any]

DELETABLE = ("Service", "EndpointSlice", "Pod")
_NAMES = {"Service": "services", "EndpointSlice": "endpointslices.discovery.k8s.io", "Pod": "pods"}
_WITH_NODE_PORTS = ("LoadBalancer", "NodePort")
_POD_UPDATE = "pod updates may not change fields other than `spec.containers[*].image`"

FIXED = Message(
    "change.fixed",
    en="{file}:{line}: the {kind} document is not the one that the lab runs with, and it cannot change while the lab "
    "runs: end the lab and start it anew",
    zh="{file}:{line}：{kind} 文档与运行中的实验所用的不同，且在实验运行期间不能更改：请结束实验并重新启动",
)
NEW_NODE = Message(
    "change.new-node",
    en="{file}:{line}: {object}: the lab has no such node, and a running lab gets no new ones; there are {nodes}",
    zh="{file}:{line}：{object}：实验中没有该节点，运行中的实验也不能新增节点；现有 {nodes}",
)
NOT_FOUND = Message("change.not-found", en='{kinds} "{name}" not found', zh='{kinds} "{name}" not found (未找到)')
NOT_DELETABLE = Message(
    "change.not-deletable",
    en='"{kind}": what can be deleted are {kinds}',
    zh='"{kind}"：可以删除的类型是 {kinds}',
)


@dataclass
class Change:
    """What is to be done: objects to store in this order, Pods to start or to stop first, and who has what then."""

    allocators: Allocators
    addresses: Addresses
    objects: list[Json] = field(default_factory=list)
    pods: list[PodPlan] = field(default_factory=list)
    host_network: list[ObjectKey] = field(default_factory=list)
    stopped: list[ObjectKey] = field(default_factory=list)
    deleted: list[ObjectKey] = field(default_factory=list)
    actions: dict[ObjectKey, Action] = field(default_factory=dict)
    notes: list[Text] = field(default_factory=list)


def plan_change(given: LabInput, lab: Resolved, store: Store) -> Change:
    """What applying the objects comes to. Raises :class:`BadInput` with every fault that was found."""
    return _Planner(given, lab, store).plan()


def plan_deletion(key: ObjectKey, lab: Resolved, store: Store) -> Change:
    """What taking an object away comes to. Raises :class:`BadInput` where there is no such object."""
    change = _unchanged(lab)
    if key.kind not in DELETABLE:
        raise BadInput(NOT_DELETABLE(kind=key.kind, kinds=", ".join(DELETABLE)))
    value = store.get(key)
    if value is None:
        raise BadInput(NOT_FOUND(kinds=_NAMES[key.kind], name=key.name))
    if key.kind == "Service":
        release_service(value, change.allocators)
    elif key.kind == "Pod":
        change.addresses.release(key.path)
        change.stopped.append(key)
    change.deleted.append(key)
    change.actions[key] = "deleted"
    return change


def _unchanged(lab: Resolved) -> Change:
    assert lab.allocators is not None
    return Change(lab.allocators.copy(), lab.addresses.copy())


class _Planner:
    def __init__(self, given: LabInput, lab: Resolved, store: Store) -> None:
        self.given = given
        self.lab = lab
        self.store = store
        self.faults = Faults()
        self.change = _unchanged(lab)
        self.change.notes += given.notes
        self.nodes = {node.name: node for node in lab.nodes}

    def plan(self) -> Change:
        self._demand_the_same_lab()
        for each in self.given.of_kind("Node"):
            self._node(each)
        self._pods()
        self._services()
        for kind in ("EndpointSlice", "Namespace"):
            self.change.objects += [each.value for each in self.given.of_kind(kind)]
        self.faults.raise_any()
        self.change.notes += note_missing_pods(self.given.of_kind("EndpointSlice"), self.change.addresses)
        self._tell()
        return self.change

    def _demand_the_same_lab(self) -> None:
        """The documents that are no objects may be there, as the whole file is applied again."""
        old = self.lab.given
        pairs = (
            ("Lab", self.given.lab_document, self.given.lab == old.lab),
            ("KubeProxyConfiguration", self.given.config_document, self.given.config == old.config),
        )
        for kind, document, is_same in pairs:
            if document is not None and not is_same:
                self.faults.add(FIXED(file=document.source, line=document.line, kind=kind))

    def _fault(self, given: Given, fault: FieldError) -> None:
        self.faults.add_field(given.document, str(given.key), fault)

    def _tell(self) -> None:
        stored = {key_of(each): each for each in self.change.objects}
        for given in self.given.objects:
            old = self.store.get(given.key)
            new = stored[given.key]
            self.change.actions[given.key] = (
                "created" if old is None else "unchanged" if same(old, new) else "configured"
            )

    # Nodes

    def _node(self, given: Given) -> None:
        """Labels, annotations and taints; what the fabric is made of stays."""
        old = self.store.get(given.key)
        if old is None:
            document = given.document
            assert document is not None
            names = ", ".join(self.nodes)
            self.faults.add(NEW_NODE(file=document.source, line=document.line, object=given.key, nodes=names))
            return
        wanted, plan = msgspec.convert(given.value, Node), self.nodes[given.key.name]
        addresses, cidrs = [str(each) for each in plan.addresses], [str(each) for each in plan.pod_cidrs]
        asked = wanted.addresses_of_type("InternalIP")
        if asked and asked != addresses:
            self._fault(given, forbidden("status.addresses", "may not change while the lab runs"))
        asked = wanted.spec.pod_cidrs or ([wanted.spec.pod_cidr] if wanted.spec.pod_cidr else [])
        if asked and asked != cidrs:
            self._fault(given, forbidden("spec.podCIDRs", "may not change while the lab runs"))
        in_lab = next((each.labels for each in self.lab.given.lab.spec.nodes if each.name == given.key.name), None)
        labels = {**(in_lab or {}), HOSTNAME_LABEL: given.key.name, **(wanted.metadata.labels or {})}
        fixed = {name: old["spec"][name] for name in ("podCIDR", "podCIDRs") if name in old["spec"]}
        status = {**(given.value.get("status") or {}), "addresses": old["status"]["addresses"]}
        self.change.objects.append(
            {
                **given.value,
                "metadata": {**given.value["metadata"], "labels": labels},
                "spec": {**(given.value.get("spec") or {}), **fixed},
                "status": status,
            }
        )

    # Pods

    def _pods(self) -> None:
        new = []
        for each in self.given.of_kind("Pod"):
            old = self.store.get(each.key)
            if old is None:
                new.append(each)
            else:
                self._known_pod(each, old)
        counts = Counter(value["spec"].get("nodeName", "") for value in self.store.list("Pod"))
        placed = place_pods(new, self.lab.nodes, self.change.addresses, self.faults, counts)
        self.change.objects += placed.objects
        self.change.pods, self.change.host_network = placed.pods, placed.host_network
        self.change.notes += placed.notes

    def _known_pod(self, given: Given, old: Json) -> None:
        """Labels, annotations, conditions, the end of its life; not what it is made of."""
        pod, before = msgspec.convert(given.value, Pod), msgspec.convert(old, Pod)
        spec = copy.deepcopy(given.value["spec"])
        spec.setdefault("nodeName", before.spec.node_name)
        if _without_images(spec) != _without_images(old["spec"]):
            self._fault(given, forbidden("spec", _POD_UPDATE))
        own = [each.ip for each in before.status.pod_ips]
        path, asked = asked_addresses(pod)
        if asked and asked != own:
            self._fault(given, invalid(path, ", ".join(asked), f"the Pod has {', '.join(own)}, and keeps it"))
        value = {**given.value, "spec": spec}
        if pod.status.phase in STOPPED_PHASES:
            self.change.stopped.append(given.key)
        elif before.status.phase not in STOPPED_PHASES:
            value = with_status(value, before.spec.node_name, before.status.host_ip, own)
        self.change.objects.append(value)

    # Services

    def _services(self) -> None:
        pairs: list[tuple[Given, Json]] = []
        for each in self.given.of_kind("Service"):
            value = copy.deepcopy(each.value)
            old = self.store.get(each.key)
            if old is not None:
                if (fault := _cluster_ip_fault(value, old)) is not None:
                    self._fault(each, fault)
                    continue
                _keep_allocated(value, old)
                if self.lab.load_balancer is not None:
                    _keep_balancer_status(value, old)
                release_service(old, self.change.allocators)
            pairs.append((each, value))
        own_ranges = bool(self.lab.given.lab.spec.service_cidrs)
        self.change.notes += allocate_services(pairs, self.change.allocators, self.faults, own_ranges=own_ranges)
        self.change.objects += [value for _, value in pairs]


def _without_images(spec: Json) -> Json:
    """A Pod's specification as far as an update may not change it."""
    kept = copy.deepcopy(spec)
    for container in (*(kept.get("containers") or ()), *(kept.get("initContainers") or ())):
        container.pop("image", None)
    return kept


def _has_cluster_ips(service: Service) -> bool:
    return service.spec.type != "ExternalName" and not is_headless(service.spec)


def _cluster_ip_fault(value: Json, old: Json) -> FieldError | None:
    """A cluster IP stays as long as the Service does."""
    new, before = msgspec.convert(value, Service), msgspec.convert(old, Service)
    if "ExternalName" in (new.spec.type, before.spec.type):
        return None
    asked = new.spec.cluster_ips or ([new.spec.cluster_ip] if new.spec.cluster_ip else [])
    if not asked or not before.spec.cluster_ips or asked[0] == before.spec.cluster_ips[0]:
        return None
    return invalid("spec.clusterIPs[0]", asked, "may not change once set")


def _keep_allocated(value: Json, old: Json) -> None:
    """What the Service has and the new version of it does not mention; ports are the same where their names are.

    Source: kubernetes/pkg/registry/core/service/storage/storage.go (patchAllocatedValues); that families stay, too, is
    what a client's patch makes of it.
    """
    new, before = msgspec.convert(value, Service), msgspec.convert(old, Service)
    spec = value["spec"]
    if _has_cluster_ips(new) and _has_cluster_ips(before):
        _keep_families(spec, new, before)
    if new.spec.type in _WITH_NODE_PORTS and before.spec.type in _WITH_NODE_PORTS:
        by_name = {port.name: port.node_port for port in before.spec.ports}
        used = {port.node_port for port in before.spec.ports} & {port.node_port for port in new.spec.ports}
        for port in spec.get("ports") or ():
            number = by_name.get(port.get("name", ""), 0)
            if not port.get("nodePort") and number and number not in used:
                port["nodePort"] = number
                used.add(number)
    if needs_health_check(new.spec) and needs_health_check(before.spec) and not new.spec.health_check_node_port:
        spec["healthCheckNodePort"] = before.spec.health_check_node_port


def _keep_families(spec: Json, new: Service, before: Service) -> None:
    policy = new.spec.ip_family_policy or before.spec.ip_family_policy
    count = 1 if policy == "SingleStack" else 2
    if policy:
        spec["ipFamilyPolicy"] = policy
    if not new.spec.ip_families:
        spec["ipFamilies"] = before.spec.ip_families[:count]
    if not new.spec.cluster_ips:
        families = spec["ipFamilies"]
        own = before.spec.cluster_ips[: min(count, len(families))]
        spec["clusterIPs"], spec["clusterIP"] = own, own[0]


def _keep_balancer_status(value: Json, old: Json) -> None:
    """The addresses that the lab's load balancer gave are its own to take back."""
    status = value.setdefault("status", {})
    ingress = (old.get("status") or {}).get("loadBalancer", {}).get("ingress")
    if ingress and not status.get("loadBalancer", {}).get("ingress"):
        status["loadBalancer"] = {"ingress": ingress}
