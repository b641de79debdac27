"""The lab's load balancer as a controller: addresses for Services, and who answers for them.

Source of behaviour: for mode l2, MetalLB in layer 2 mode (its speaker/layer2_controller.go and internal/allocator); for
mode proxy, a balancer outside of the cluster that ends connections itself (KEP-1860, ipMode Proxy).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal

from netlab.model.balancer import Frontend
from netlab.model.keys import ObjectKey
from netlab.model.text import Message, Text
from netlab.objects.endpointslice import SERVICE_NAME_LABEL, EndpointConditions, EndpointSlice
from netlab.objects.ip import Address, Network, parse_ip
from netlab.objects.node import Node
from netlab.objects.service import LoadBalancerIngress, Service

EXCLUDE_LABEL = "node.kubernetes.io/exclude-from-external-load-balancers"
HEALTHZ_PORT = 10256
IP_MODES = {"l2": "VIP", "proxy": "Proxy"}

POOL_USED_UP = Message(
    "load-balancer.pool-used-up",
    en="{service} gets no load-balancer address: loadBalancer.pool has no free {family} address left",
    zh="{service} 得不到负载均衡器地址：loadBalancer.pool 中已没有空闲的 {family} 地址",
)
NOT_IN_POOL = Message(
    "load-balancer.not-in-pool",
    en="{service} gets no load-balancer address: {ip} (spec.loadBalancerIP) is not in loadBalancer.pool",
    zh="{service} 得不到负载均衡器地址：{ip} (spec.loadBalancerIP) 不在 loadBalancer.pool 中",
)
TAKEN = Message(
    "load-balancer.taken",
    en="{service} gets no load-balancer address: {ip} (spec.loadBalancerIP) is in use by {other}",
    zh="{service} 得不到负载均衡器地址：{ip} (spec.loadBalancerIP) 已被 {other} 使用",
)


@dataclass
class Assignments:
    """Statuses to write, by Service (status.loadBalancer.ingress), and why others get none."""

    ingress: dict[ObjectKey, list[LoadBalancerIngress]] = field(default_factory=dict)
    refused: dict[ObjectKey, Text] = field(default_factory=dict)


def assign(
    services: Iterable[Service],
    pool: Sequence[Network],
    mode: Literal["l2", "proxy"],
    taken: Mapping[Address, str] | None = None,
) -> Assignments:
    """Give every Service of type LoadBalancer that has no address one of each of its families, in the order given.

    An address that it has stays, whoever wrote it. Services of another load balancer (loadBalancerClass) are left
    alone. Addresses of a Service that is no load balancer any more are taken back. ``taken``: addresses that something
    else has, and what.
    """
    known = list(services)
    used: dict[Address, str] = dict(taken or {})
    for service in known:
        if service.spec.type == "LoadBalancer":
            for each in service.status.load_balancer.ingress:
                if (ip := parse_ip(each.ip)) is not None:
                    used[ip] = str(_key(service))
    made = Assignments()
    for service in known:
        key = _key(service)
        has = bool(service.status.load_balancer.ingress)
        if service.spec.type != "LoadBalancer":
            if has:
                made.ingress[key] = []
        elif not has and not service.spec.load_balancer_class:
            found = _addresses(service, pool, used)
            if isinstance(found, Text):
                made.refused[key] = found
                continue
            used |= dict.fromkeys(found, str(key))
            made.ingress[key] = [LoadBalancerIngress(ip=str(ip), ip_mode=IP_MODES[mode]) for ip in found]
    return made


def _key(service: Service) -> ObjectKey:
    return ObjectKey("Service", service.metadata.namespace, service.metadata.name)


def _addresses(service: Service, pool: Sequence[Network], used: Mapping[Address, str]) -> list[Address] | Text:
    """Free addresses for one Service, or why there are none. One family is enough where two are only preferred."""
    key = _key(service)
    wanted = parse_ip(service.spec.load_balancer_ip)
    if wanted is not None:
        if not any(wanted in network for network in pool):
            return NOT_IN_POOL(service=key, ip=wanted)
        if wanted in used:
            return TAKEN(service=key, ip=wanted, other=used[wanted])
        return [wanted]
    families = service.spec.ip_families or ["IPv4"]
    versions = [4 if family == "IPv4" else 6 for family in families]
    free = [_first_free(version, pool, used) for version in versions]
    found = [ip for ip in free if ip is not None]
    if not found or (len(found) < len(free) and service.spec.ip_family_policy == "RequireDualStack"):
        return POOL_USED_UP(service=key, family=families[free.index(None)])
    return found


def _first_free(version: int, pool: Sequence[Network], used: Mapping[Address, str]) -> Address | None:
    """Every address of a range may be used, its first and last one too."""
    ranges = (network for network in pool if network.version == version)
    every: Iterable[Address] = chain.from_iterable(ranges)
    return next((ip for ip in every if ip not in used), None)


def speakers(nodes: Iterable[Node]) -> list[str]:
    """The nodes that may answer for load-balancer addresses."""
    return [node.metadata.name for node in nodes if EXCLUDE_LABEL not in (node.metadata.labels or {})]


def _serves(conditions: EndpointConditions) -> bool:
    """``serving`` where it is told, else ``ready``, which counts as true where it is not."""
    return conditions.serving if conditions.serving is not None else conditions.ready is not False


def announcer(service: Service, ip: str, slices: Iterable[EndpointSlice], nodes: Sequence[str]) -> str | None:
    """The one node of ``nodes`` that answers for ``ip``; None while the Service has no serving endpoint.

    With externalTrafficPolicy Local only nodes with such an endpoint count. Of those that count, the first by the
    SHA-256 of "node#ip" wins: every node comes to the same result by itself, and different addresses fall to different
    nodes.
    """
    serving = [each.node_name for of in slices for each in of.endpoints if _serves(each.conditions)]
    if not serving:
        return None
    usable = list(nodes)
    if service.spec.external_traffic_policy == "Local":
        usable = [node for node in nodes if node in serving]
    return min(usable, key=lambda node: hashlib.sha256(f"{node}#{ip}".encode()).digest(), default=None)


def announcements(
    services: Iterable[Service], slices: Iterable[EndpointSlice], nodes: Sequence[Node]
) -> dict[str, list[str]]:
    """The addresses that each node answers for (mode l2), for all nodes, those without any as well."""
    names = [node.metadata.name for node in nodes]
    may = speakers(nodes)
    of_service: dict[tuple[str, str], list[EndpointSlice]] = {}
    for each in slices:
        owner = (each.metadata.labels or {}).get(SERVICE_NAME_LABEL, "")
        of_service.setdefault((each.metadata.namespace, owner), []).append(each)
    found: dict[str, list[str]] = {name: [] for name in names}
    for service in services:
        if service.spec.type != "LoadBalancer":
            continue
        own = of_service.get((service.metadata.namespace, service.metadata.name), [])
        for ingress in service.status.load_balancer.ingress:
            if not ingress.ip or ingress.ip_mode == "Proxy":
                continue
            node = announcer(service, ingress.ip, own, may)
            if node is not None:
                found[node].append(ingress.ip)
    return found


def frontends(services: Iterable[Service], nodes: Sequence[Node]) -> list[Frontend]:
    """What the balancer serves: every port with a nodePort of every Service with an address of ipMode Proxy.

    A Service with externalTrafficPolicy Local is asked for at its healthCheckNodePort; for any other one the health of
    the node's kube-proxy counts (KEP-3458), which also says when a node is about to go.
    """
    may = set(speakers(nodes))
    usable = [node for node in nodes if node.metadata.name in may]
    found: list[Frontend] = []
    for service in services:
        spec = service.spec
        if spec.type != "LoadBalancer":
            continue
        local = spec.external_traffic_policy == "Local" and spec.health_check_node_port
        check = (spec.health_check_node_port, "/") if local else (HEALTHZ_PORT, "/healthz")
        for ingress in service.status.load_balancer.ingress:
            if not ingress.ip or ingress.ip_mode != "Proxy":
                continue
            for port in spec.ports:
                if port.node_port and port.protocol in ("TCP", "UDP"):
                    found.append(
                        Frontend(
                            namespace=service.metadata.namespace,
                            service=service.metadata.name,
                            port_name=port.name,
                            protocol=port.protocol,
                            ip=ingress.ip,
                            port=port.port,
                            backends=tuple((ip, port.node_port) for ip in _addresses_of(usable, ":" in ingress.ip)),
                            check_port=check[0],
                            check_path=check[1],
                        )
                    )
    return found


def _addresses_of(nodes: Iterable[Node], six: bool) -> list[str]:
    """The first internal address of each node in one family."""
    found = []
    for node in nodes:
        own = next((ip for ip in node.addresses_of_type("InternalIP") if (":" in ip) == six), None)
        if own is not None:
            found.append(own)
    return found
