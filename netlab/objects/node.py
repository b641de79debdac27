"""Node and Namespace: the typed views of what this program reads of them (core/v1)."""

from __future__ import annotations

from typing import Any

from msgspec import field

from netlab.objects.meta import Object, ObjectMeta

HOSTNAME_LABEL = "kubernetes.io/hostname"
ZONE_LABEL = "topology.kubernetes.io/zone"


class NodeSpec(Object):
    pod_cidr: str = field(default="", name="podCIDR")
    pod_cidrs: list[str] = field(default_factory=list, name="podCIDRs")
    provider_id: str = field(default="", name="providerID")
    unschedulable: bool = False
    taints: list[dict[str, Any]] | None = None
    config_source: dict[str, Any] | None = None
    external_id: str = field(default="", name="externalID")


class NodeAddress(Object):
    type: str = ""
    address: str = ""


class NodeStatus(Object):
    addresses: list[NodeAddress] = field(default_factory=list)


class Node(Object):
    api_version: str = "v1"
    kind: str = "Node"
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)

    def addresses_of_type(self, kind: str) -> list[str]:
        return [each.address for each in self.status.addresses if each.type == kind]


class Namespace(Object):
    api_version: str = "v1"
    kind: str = "Namespace"
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: dict[str, Any] | None = None
    status: dict[str, Any] | None = None
