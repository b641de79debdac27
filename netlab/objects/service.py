"""Service: the typed view of what this program reads of it (core/v1)."""

from __future__ import annotations

from typing import Any

from msgspec import field

from netlab.objects.meta import Object, ObjectMeta


class ServicePort(Object):
    name: str = ""
    protocol: str = "TCP"
    app_protocol: str | None = None
    port: int = 0
    target_port: int | str | None = None
    node_port: int = 0


class ClientIPConfig(Object):
    timeout_seconds: int | None = None


class SessionAffinityConfig(Object):
    client_ip: ClientIPConfig | None = field(default=None, name="clientIP")


class ServiceSpec(Object):
    type: str = "ClusterIP"
    selector: dict[str, str] | None = None
    ports: list[ServicePort] = field(default_factory=list)
    cluster_ip: str = field(default="", name="clusterIP")
    cluster_ips: list[str] = field(default_factory=list, name="clusterIPs")
    external_ips: list[str] = field(default_factory=list, name="externalIPs")
    load_balancer_ip: str = field(default="", name="loadBalancerIP")
    load_balancer_source_ranges: list[str] = field(default_factory=list)
    load_balancer_class: str | None = None
    external_name: str = ""
    external_traffic_policy: str = ""
    internal_traffic_policy: str | None = None
    health_check_node_port: int = 0
    publish_not_ready_addresses: bool = False
    session_affinity: str = ""
    session_affinity_config: SessionAffinityConfig | None = None
    ip_families: list[str] = field(default_factory=list)
    ip_family_policy: str | None = None
    allocate_load_balancer_node_ports: bool | None = None
    traffic_distribution: str | None = None


class LoadBalancerIngress(Object):
    ip: str = ""
    ip_mode: str | None = None
    hostname: str = ""
    ports: list[dict[str, Any]] | None = None


class LoadBalancerStatus(Object):
    ingress: list[LoadBalancerIngress] = field(default_factory=list)


class ServiceStatus(Object):
    load_balancer: LoadBalancerStatus = field(default_factory=LoadBalancerStatus)
    conditions: list[dict[str, Any]] | None = None


class Service(Object):
    api_version: str = "v1"
    kind: str = "Service"
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: ServiceSpec = field(default_factory=ServiceSpec)
    status: ServiceStatus = field(default_factory=ServiceStatus)
