"""What kube-proxy makes of a Service: one value for each of its ports (kubernetes/pkg/proxy/serviceport.go)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from netlab.model.keys import ObjectKey
from netlab.objects.ip import Network, canonical_ip, parse_cidr
from netlab.objects.service import Service
from netlab.objects.service import ServicePort as PortSpec
from netlab.proxy.family import Family

PROXY_NAME_LABEL = "service.kubernetes.io/service-proxy-name"
HEADLESS_LABEL = "service.kubernetes.io/headless"


class ServicePortName(NamedTuple):
    """What identifies a Service port: namespace, name, port name, protocol."""

    namespace: str
    name: str
    port: str
    protocol: str

    def __str__(self) -> str:
        """ "namespace/name" or "namespace/name:port", as in kube-proxy's comments and hashes."""
        return f"{self.namespace}/{self.name}{f':{self.port}' if self.port else ''}"

    @property
    def service(self) -> ObjectKey:
        return ObjectKey("Service", self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class AddressOfService:
    """An address that a Service is reached at, and the field that it is written in."""

    ip: str
    field: str


@dataclass(frozen=True, slots=True)
class ServicePort:
    """One port of one Service in one family. ``index`` is its place in spec.ports."""

    name: ServicePortName
    index: int
    cluster_ip: AddressOfService
    port: int
    node_port: int
    external_ips: tuple[AddressOfService, ...]
    load_balancer_ips: tuple[AddressOfService, ...]
    source_ranges: tuple[Network, ...]
    health_check_node_port: int
    external_policy_local: bool
    internal_policy_local: bool
    affinity_seconds: int | None

    @property
    def protocol(self) -> str:
        """In lower case, as the tools want it."""
        return self.name.protocol.lower()

    @property
    def externally_accessible(self) -> bool:
        return bool(self.node_port or self.load_balancer_ips or self.external_ips)

    @property
    def uses_cluster_endpoints(self) -> bool:
        """Also with external policy Local: traffic from inside takes the short cut to all endpoints."""
        return not self.internal_policy_local or self.externally_accessible

    @property
    def uses_local_endpoints(self) -> bool:
        return self.internal_policy_local or (self.external_policy_local and self.externally_accessible)

    def port_field(self, field: str) -> str:
        """The path of a field of this port in its Service."""
        return f"spec.ports[{self.index}].{field}"


def is_proxied(service: Service) -> bool:
    """Whether kube-proxy looks at the Service at all: not headless, not ExternalName, not another proxy's."""
    labels = service.metadata.labels or {}
    if PROXY_NAME_LABEL in labels or HEADLESS_LABEL in labels:
        return False
    return service.spec.cluster_ip not in ("", "None") and service.spec.type != "ExternalName"


def service_ports(service: Service, family: Family) -> list[ServicePort]:
    """The Service's ports in one family, in the order of spec.ports; empty where it has no address in it."""
    if not is_proxied(service):
        return []
    cluster_ip = _cluster_ip(service, family)
    if cluster_ip is None:
        return []
    ports = []
    for index, spec in enumerate(service.spec.ports):
        ports.append(_service_port(service, family, cluster_ip, index, spec))
    return ports


def _service_port(
    service: Service, family: Family, cluster_ip: AddressOfService, index: int, port: PortSpec
) -> ServicePort:
    spec = service.spec
    accessible = spec.type in ("LoadBalancer", "NodePort") or (spec.type == "ClusterIP" and bool(spec.external_ips))
    external_local = accessible and spec.external_traffic_policy == "Local"
    affinity = None
    if spec.session_affinity == "ClientIP":
        client = spec.session_affinity_config.client_ip if spec.session_affinity_config else None
        affinity = client.timeout_seconds if client and client.timeout_seconds is not None else 10800
    return ServicePort(
        name=ServicePortName(service.metadata.namespace, service.metadata.name, port.name, port.protocol),
        index=index,
        cluster_ip=cluster_ip,
        port=port.port,
        node_port=port.node_port,
        external_ips=_of_family([(ip, f"spec.externalIPs[{i}]") for i, ip in enumerate(spec.external_ips)], family),
        load_balancer_ips=_load_balancer_ips(service, family),
        source_ranges=_source_ranges(spec.load_balancer_source_ranges, family),
        health_check_node_port=(spec.health_check_node_port if spec.type == "LoadBalancer" and external_local else 0),
        external_policy_local=external_local,
        internal_policy_local=spec.internal_traffic_policy == "Local",
        affinity_seconds=affinity,
    )


def _cluster_ip(service: Service, family: Family) -> AddressOfService | None:
    listed = service.spec.cluster_ips
    if not listed:
        found = _of_family([(service.spec.cluster_ip, "spec.clusterIP")], family)
    else:
        single = len(listed) == 1
        found = _of_family(
            [(ip, "spec.clusterIP" if single else f"spec.clusterIPs[{i}]") for i, ip in enumerate(listed)], family
        )
    return found[0] if found else None


def _load_balancer_ips(service: Service, family: Family) -> tuple[AddressOfService, ...]:
    """Ingress addresses that the node itself has to answer for: ipMode VIP or none given, never a host name."""
    if service.spec.type != "LoadBalancer":
        return ()
    return _of_family(
        [
            (each.ip, f"status.loadBalancer.ingress[{i}].ip")
            for i, each in enumerate(service.status.load_balancer.ingress)
            if each.ip and each.ip_mode in (None, "", "VIP")
        ],
        family,
    )


def _source_ranges(texts: list[str], family: Family) -> tuple[Network, ...]:
    """The ranges of the family; a range of everything in it switches the filter off."""
    parsed = [parse_cidr(text.strip()) for text in texts]
    ranges = tuple(each for each in parsed if each is not None and family.matches(each))
    return () if any(each.prefixlen == 0 for each in ranges) else ranges


def _of_family(candidates: list[tuple[str, str]], family: Family) -> tuple[AddressOfService, ...]:
    found = []
    for text, field in candidates:
        ip = canonical_ip(text)
        if ip is not None and (":" in ip) == (family is Family.IPV6):
            found.append(AddressOfService(ip, field))
    return tuple(found)
