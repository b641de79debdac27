"""Pod: the typed view of what this program reads of it (core/v1)."""

from __future__ import annotations

from typing import Any

from msgspec import field

from netlab.objects.meta import Object, ObjectMeta

IPS_ANNOTATION = "netlab/ips"
"""The addresses that a lab's Pod gets, separated by commas, at most one of each family."""


class ContainerPort(Object):
    name: str = ""
    host_port: int = 0
    container_port: int = 0
    protocol: str = "TCP"
    host_ip: str = field(default="", name="hostIP")


class Container(Object):
    name: str = ""
    image: str = ""
    ports: list[ContainerPort] = field(default_factory=list)
    command: list[str] | None = None
    args: list[str] | None = None
    working_dir: str = ""
    env: list[dict[str, Any]] | None = None
    env_from: list[dict[str, Any]] | None = None
    restart_policy: str | None = None
    restart_policy_rules: list[dict[str, Any]] | None = None
    resources: dict[str, Any] | None = None
    resize_policy: list[dict[str, Any]] | None = None
    volume_mounts: list[dict[str, Any]] | None = None
    volume_devices: list[dict[str, Any]] | None = None
    liveness_probe: dict[str, Any] | None = None
    readiness_probe: dict[str, Any] | None = None
    startup_probe: dict[str, Any] | None = None
    lifecycle: dict[str, Any] | None = None
    termination_message_path: str = ""
    termination_message_policy: str = ""
    image_pull_policy: str = ""
    security_context: dict[str, Any] | None = None
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False


class PodSpec(Object):
    node_name: str = ""
    host_network: bool = False
    containers: list[Container] = field(default_factory=list)
    init_containers: list[Container] = field(default_factory=list)
    ephemeral_containers: list[dict[str, Any]] | None = None
    hostname: str = ""
    subdomain: str = ""
    readiness_gates: list[dict[str, Any]] | None = None
    volumes: list[dict[str, Any]] | None = None
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    dns_policy: str = ""
    dns_config: dict[str, Any] | None = None
    node_selector: dict[str, str] | None = None
    service_account_name: str = ""
    service_account: str = ""
    automount_service_account_token: bool | None = None
    host_pid: bool = field(default=False, name="hostPID")
    host_ipc: bool = field(default=False, name="hostIPC")
    host_users: bool | None = None
    hostname_override: str | None = None
    share_process_namespace: bool | None = None
    security_context: dict[str, Any] | None = None
    image_pull_secrets: list[dict[str, Any]] | None = None
    affinity: dict[str, Any] | None = None
    scheduler_name: str = ""
    scheduling_gates: list[dict[str, Any]] | None = None
    scheduling_group: dict[str, Any] | None = None
    workload_ref: dict[str, Any] | None = None
    tolerations: list[dict[str, Any]] | None = None
    host_aliases: list[dict[str, Any]] | None = None
    priority_class_name: str = ""
    priority: int | None = None
    runtime_class_name: str | None = None
    enable_service_links: bool | None = None
    preemption_policy: str | None = None
    overhead: dict[str, Any] | None = None
    topology_spread_constraints: list[dict[str, Any]] | None = None
    set_hostname_as_fqdn: bool | None = field(default=None, name="setHostnameAsFQDN")
    os: dict[str, Any] | None = None
    resource_claims: list[dict[str, Any]] | None = None
    resources: dict[str, Any] | None = None


class PodIP(Object):
    ip: str = ""


class PodCondition(Object):
    type: str = ""
    status: str = ""


class PodStatus(Object):
    phase: str = ""
    pod_ip: str = field(default="", name="podIP")
    pod_ips: list[PodIP] = field(default_factory=list, name="podIPs")
    host_ip: str = field(default="", name="hostIP")
    conditions: list[PodCondition] = field(default_factory=list)


class Pod(Object):
    api_version: str = "v1"
    kind: str = "Pod"
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)
