"""The parts of objects that the typed views leave as plain mappings, described so that decoding can check them.

Defaults and validation work on these parts; nobody holds them as typed values.

Source: k8s.io/api/core/v1/types.go, k8s.io/apimachinery/pkg/apis/meta/v1/types.go, 1.36.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import field

from netlab.objects.meta import Object


class ExecAction(Object):
    command: list[str] | None = None


class HTTPHeader(Object):
    name: str = ""
    value: str = ""


class HTTPGetAction(Object):
    path: str = ""
    port: int | str | None = None
    host: str = ""
    scheme: str = ""
    http_headers: list[HTTPHeader] | None = None


class TCPSocketAction(Object):
    port: int | str | None = None
    host: str = ""


class GRPCAction(Object):
    port: int = 0
    service: str | None = None


class SleepAction(Object):
    seconds: int = 0


class Probe(Object):
    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    grpc: GRPCAction | None = None
    initial_delay_seconds: int = 0
    timeout_seconds: int = 0
    period_seconds: int = 0
    success_threshold: int = 0
    failure_threshold: int = 0
    termination_grace_period_seconds: int | None = None


class LifecycleHandler(Object):
    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    sleep: SleepAction | None = None


class Lifecycle(Object):
    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None
    stop_signal: str | None = None


class ObjectFieldSelector(Object):
    api_version: str = ""
    field_path: str = ""


class EnvVarSource(Object):
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: dict[str, Any] | None = None
    config_map_key_ref: dict[str, Any] | None = None
    secret_key_ref: dict[str, Any] | None = None
    file_key_ref: dict[str, Any] | None = None


class EnvVar(Object):
    name: str = ""
    value: str = ""
    value_from: EnvVarSource | None = None


class ResourceRequirements(Object):
    limits: dict[str, Any] | None = None
    requests: dict[str, Any] | None = None
    claims: list[dict[str, Any]] | None = None


class DownwardAPIVolumeFile(Object):
    path: str = ""
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: dict[str, Any] | None = None
    mode: int | None = None


class DownwardAPIVolumeSource(Object):
    items: list[DownwardAPIVolumeFile] | None = None
    default_mode: int | None = None


class DownwardAPIProjection(Object):
    items: list[DownwardAPIVolumeFile] | None = None


class ServiceAccountTokenProjection(Object):
    audience: str = ""
    expiration_seconds: int | None = None
    path: str = ""


class VolumeProjection(Object):
    secret: dict[str, Any] | None = None
    downward_api: DownwardAPIProjection | None = field(default=None, name="downwardAPI")
    config_map: dict[str, Any] | None = None
    service_account_token: ServiceAccountTokenProjection | None = None
    cluster_trust_bundle: dict[str, Any] | None = None
    pod_certificate: dict[str, Any] | None = None


class ProjectedVolumeSource(Object):
    sources: list[VolumeProjection] | None = None
    default_mode: int | None = None


class HostPathVolumeSource(Object):
    path: str = ""
    type: str | None = None


class Volume(Object):
    name: str = ""
    host_path: HostPathVolumeSource | None = None
    empty_dir: dict[str, Any] | None = None
    gce_persistent_disk: dict[str, Any] | None = None
    aws_elastic_block_store: dict[str, Any] | None = None
    git_repo: dict[str, Any] | None = None
    secret: dict[str, Any] | None = None
    nfs: dict[str, Any] | None = None
    iscsi: dict[str, Any] | None = None
    glusterfs: dict[str, Any] | None = None
    persistent_volume_claim: dict[str, Any] | None = None
    rbd: dict[str, Any] | None = None
    flex_volume: dict[str, Any] | None = None
    cinder: dict[str, Any] | None = None
    cephfs: dict[str, Any] | None = None
    flocker: dict[str, Any] | None = None
    downward_api: DownwardAPIVolumeSource | None = field(default=None, name="downwardAPI")
    fc: dict[str, Any] | None = None
    azure_file: dict[str, Any] | None = None
    config_map: dict[str, Any] | None = None
    vsphere_volume: dict[str, Any] | None = None
    quobyte: dict[str, Any] | None = None
    azure_disk: dict[str, Any] | None = None
    photon_persistent_disk: dict[str, Any] | None = None
    projected: ProjectedVolumeSource | None = None
    portworx_volume: dict[str, Any] | None = None
    scale_io: dict[str, Any] | None = field(default=None, name="scaleIO")
    storageos: dict[str, Any] | None = None
    csi: dict[str, Any] | None = None
    ephemeral: dict[str, Any] | None = None
    image: dict[str, Any] | None = None


class PodDNSConfigOption(Object):
    name: str = ""
    value: str | None = None


class PodDNSConfig(Object):
    nameservers: list[str] | None = None
    searches: list[str] | None = None
    options: list[PodDNSConfigOption] | None = None


class PodReadinessGate(Object):
    condition_type: str = ""


class PodSchedulingGate(Object):
    name: str = ""


class HostAlias(Object):
    ip: str = ""
    hostnames: list[str] | None = None


class Toleration(Object):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class Taint(Object):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class OwnerReference(Object):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectReference(Object):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""


SHAPES: Mapping[str, type[msgspec.Struct]] = MappingProxyType(
    {
        "Container.env": EnvVar,
        "Container.lifecycle": Lifecycle,
        "Container.livenessProbe": Probe,
        "Container.readinessProbe": Probe,
        "Container.resources": ResourceRequirements,
        "Container.startupProbe": Probe,
        "Endpoint.targetRef": ObjectReference,
        "NodeSpec.taints": Taint,
        "ObjectMeta.ownerReferences": OwnerReference,
        "PodSpec.dnsConfig": PodDNSConfig,
        "PodSpec.hostAliases": HostAlias,
        "PodSpec.readinessGates": PodReadinessGate,
        "PodSpec.schedulingGates": PodSchedulingGate,
        "PodSpec.tolerations": Toleration,
        "PodSpec.volumes": Volume,
    }
)
"""What a plain mapping in a typed view, or each mapping of a list, has to look like; the key is "Struct.field"."""
