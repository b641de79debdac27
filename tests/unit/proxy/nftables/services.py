"""Service ports and endpoints to compute rules of, and random histories of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_network

from hypothesis import strategies as st

from netlab.model.keys import Origin
from netlab.proxy.endpoints import Endpoint
from netlab.proxy.family import Family
from netlab.proxy.local_traffic import LocalTraffic
from netlab.proxy.nftables.rules import PortRules, Settings, port_rules
from netlab.proxy.service_ports import AddressOfService, ServicePort, ServicePortName
from netlab.proxy.topology import NodeTopology, usable_endpoints

NODE = NodeTopology("n1")
SETTINGS = Settings(
    Family.IPV4,
    local=LocalTraffic("source", "10.244.0.0/16", "clusterCIDR"),
    node_port_ips=("192.168.50.11",),
    service_ranges=(ip_network("10.96.0.0/16"),),
)


def endpoint(number: int, port: int = 8080, *, local: bool = False, ready: bool = True) -> Endpoint:
    origin = Origin("EndpointSlice lab/s", f"endpoints[{number}].addresses[0]")
    return Endpoint(f"10.244.1.{number}", port, local, ready, ready, not ready, frozenset(), frozenset(), origin)


@dataclass(frozen=True)
class Drawn:
    """What a Service port is made of, in few words: hypothesis prints it."""

    cluster_ip: int = 1
    port: int = 80
    node_port: int = 0
    external: tuple[int, ...] = ()
    balancer: tuple[int, ...] = ()
    ranges: tuple[str, ...] = ()
    external_local: bool = False
    internal_local: bool = False
    affinity: int | None = None
    endpoints: tuple[Endpoint, ...] = ()

    def rules(self, name: ServicePortName, settings: Settings = SETTINGS) -> PortRules:
        port = ServicePort(
            name=name,
            index=0,
            cluster_ip=AddressOfService(f"10.96.0.{self.cluster_ip}", "spec.clusterIP"),
            port=self.port,
            node_port=self.node_port,
            external_ips=_addresses("198.18.0", self.external, "spec.externalIPs"),
            load_balancer_ips=_addresses("203.0.113", self.balancer, "status.loadBalancer.ingress"),
            source_ranges=tuple(ip_network(each) for each in self.ranges),
            health_check_node_port=0,
            external_policy_local=self.external_local,
            internal_policy_local=self.internal_local,
            affinity_seconds=self.affinity,
        )
        return port_rules(port, usable_endpoints(self.endpoints, port, NODE), settings)


def _addresses(prefix: str, numbers: Sequence[int], field: str) -> tuple[AddressOfService, ...]:
    return tuple(AddressOfService(f"{prefix}.{each}", f"{field}[{i}]") for i, each in enumerate(numbers))


NAMES = [
    ServicePortName("lab", f"s{number}", port, protocol)
    for number in range(3)
    for port in ("", "a")
    for protocol in ("TCP", "UDP")
]


def few(values: st.SearchStrategy[int]) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(values, max_size=2, unique=True).map(tuple)


ENDPOINTS = st.lists(
    st.builds(endpoint, st.integers(1, 5), local=st.booleans(), ready=st.booleans()),
    max_size=4,
    unique_by=lambda each: each.ip,
).map(lambda each: tuple(sorted(each, key=lambda one: one.text)))
"""Few addresses, so that Services share them."""

SERVICE_PORTS = st.builds(
    Drawn,
    cluster_ip=st.integers(1, 3),
    port=st.sampled_from([80, 81]),
    node_port=st.sampled_from([0, 30080, 30081]),
    external=few(st.integers(1, 2)),
    balancer=few(st.integers(1, 2)),
    ranges=st.lists(st.sampled_from(["10.0.0.0/8", "10.1.0.0/16", "192.168.50.0/24"]), max_size=2).map(tuple),
    external_local=st.booleans(),
    internal_local=st.booleans(),
    affinity=st.sampled_from([None, 600, 60]),
    endpoints=ENDPOINTS,
)

HISTORIES = st.lists(
    st.dictionaries(st.sampled_from(NAMES), st.none() | SERVICE_PORTS, min_size=1, max_size=5), min_size=1, max_size=6
)
"""Syncs one after the other, each with the Service ports that have changed (None: deleted)."""
