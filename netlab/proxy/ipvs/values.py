"""kube-proxy's ipvs mode as values: what each Service port asks for in virtual servers, addresses and sets.

Source: kubernetes/pkg/proxy/ipvs/proxier.go, 1.36. ``tests/conformance`` compares with what the real one made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from netlab.kernel.ipvs import PERSISTENT, SCHEDULER_2, ServerAddress, Target, VirtualServer
from netlab.model.keys import Origin
from netlab.proxy.changes import PortState
from netlab.proxy.endpoints import Endpoint
from netlab.proxy.iptables.ruleset import Rule, RuleSet
from netlab.proxy.ipvs import names
from netlab.proxy.ipvs.settings import Settings
from netlab.proxy.policies import node_may_connect
from netlab.proxy.service_ports import AddressOfService

WEIGHT = 1
"""Every real server that is in service has the same weight."""

_PROTOCOL_NUMBERS = {"tcp": 6, "udp": 17, "sctp": 132}


@dataclass(frozen=True, slots=True)
class WantedServer:
    """A virtual server with its real servers, each with what caused it."""

    server: VirtualServer
    origin: Origin
    reals: Mapping[Target, Origin]


@dataclass(slots=True)
class IpvsValue:
    """All that ipvs mode wants on one node in one family.

    ``addresses`` are those of kube-ipvs0; ``sets`` holds every set, by what it is for, with its elements; ``rules``
    are in the tables filter and nat.
    """

    addresses: dict[str, Origin] = field(default_factory=dict)
    servers: dict[ServerAddress, WantedServer] = field(default_factory=dict)
    sets: dict[str, dict[str, Origin]] = field(default_factory=dict)
    rules: RuleSet = field(default_factory=RuleSet)


@dataclass(slots=True)
class PortValue:
    """All that one Service port asks for. ``elements``: (set, element) with its cause; ``out_filter``: its rules in
    KUBE-IPVS-OUT-FILTER."""

    addresses: dict[str, Origin] = field(default_factory=dict)
    servers: dict[ServerAddress, WantedServer] = field(default_factory=dict)
    elements: dict[tuple[str, str], Origin] = field(default_factory=dict)
    out_filter: tuple[Rule, ...] = ()


def port_value(state: PortState, settings: Settings) -> PortValue:
    """The value of one Service port with its endpoints on one node."""
    return _PortValueBuilder(state, settings).build()


class _PortValueBuilder:
    def __init__(self, state: PortState, settings: Settings) -> None:
        self.port = state.port
        self.settings = settings
        self.all_endpoints = state.all_endpoints
        self.service = str(self.port.name.service)
        # Local without local endpoints falls back to all: then the real one routes outside traffic away, too.
        local = state.endpoints.local or state.endpoints.cluster
        cluster = state.endpoints.cluster
        self.internal = self.reals(local if self.port.internal_policy_local else cluster)
        self.external = self.reals(local if self.port.external_policy_local else cluster)
        self.flags, self.timeout = self.server_flags()
        self.value = PortValue()

    def build(self) -> PortValue:
        port = self.port
        self.loop_back()
        self.cluster_ip()
        for each in port.external_ips:
            purpose = names.EXTERNAL_IP_LOCAL if port.external_policy_local else names.EXTERNAL_IP
            self.element(purpose, self.service_element(each.ip), self.origin(each.field))
            self.external_server(each)
        for each in port.load_balancer_ips:
            self.load_balancer(each)
        if port.node_port and not self.settings.node_port_ips:
            # kube-proxy does nothing more for a nodePort that no address serves, not even for its health check.
            return self.value
        if port.node_port:
            self.node_port()
        if port.health_check_node_port:
            element = str(port.health_check_node_port)
            self.element(names.HEALTH_CHECK_NODE_PORT, element, self.origin("spec.healthCheckNodePort"))
        return self.value

    def origin(self, path: str) -> Origin:
        return Origin(self.service, path)

    def reals(self, endpoints: Sequence[Endpoint]) -> dict[Target, Origin]:
        return {Target(each.ip, each.port): each.origin for each in endpoints}

    def server_flags(self) -> tuple[int, int]:
        """With "mh" the port is hashed, too: else all connections of a client would go one way."""
        flags = SCHEDULER_2 if self.settings.scheduler == "mh" else 0
        if self.port.affinity_seconds is None:
            return flags, 0
        return flags | PERSISTENT, self.port.affinity_seconds

    def service_element(self, ip: str) -> str:
        return f"{ip},{self.port.protocol}:{self.port.port}"

    def element(self, purpose: str, element: str, origin: Origin) -> None:
        self.value.elements.setdefault((purpose, element), origin)

    def bind(self, ip: str, origin: Origin) -> None:
        self.value.addresses.setdefault(ip, origin)
        self.element(names.IPVS_IPS, ip, origin)

    def server(self, ip: str, number: int, reals: Mapping[Target, Origin], origin: Origin) -> None:
        address = ServerAddress(self.port.protocol, ip, number)
        prefix = self.settings.family.host_prefix
        server = VirtualServer(address, self.settings.scheduler, self.flags, self.timeout, prefix)
        self.value.servers.setdefault(address, WantedServer(server, origin, reals))

    def loop_back(self) -> None:
        """A Pod that reaches itself through the Service has to be masqueraded; unready and leaving Pods count, too."""
        for each in self.all_endpoints:
            if each.local:
                element = f"{each.ip},{self.port.protocol}:{each.port},{each.ip}"
                self.element(names.LOOP_BACK, element, each.origin)

    def cluster_ip(self) -> None:
        ip, origin = self.port.cluster_ip.ip, self.origin(self.port.cluster_ip.field)
        self.element(names.CLUSTER_IP, self.service_element(ip), origin)
        self.server(ip, self.port.port, self.internal, origin)
        self.bind(ip, origin)

    def external_server(self, address: AddressOfService) -> None:
        """An address that a link of the node has is not bound once more: the link would no longer answer for it."""
        origin = self.origin(address.field)
        self.server(address.ip, self.port.port, self.external, origin)
        if address.ip not in self.settings.node_addresses:
            self.bind(address.ip, origin)

    def load_balancer(self, address: AddressOfService) -> None:
        port = self.port
        element, origin = self.service_element(address.ip), self.origin(address.field)
        self.element(names.LOAD_BALANCER, element, origin)
        if port.external_policy_local:
            self.element(names.LOAD_BALANCER_LOCAL, element, self.origin("spec.externalTrafficPolicy"))
        if port.source_ranges:
            self.source_ranges(address.ip, element)
        self.external_server(address)

    def source_ranges(self, ip: str, element: str) -> None:
        ranges = self.origin("spec.loadBalancerSourceRanges")
        self.element(names.LOAD_BALANCER_FW, element, ranges)
        for index, network in enumerate(self.port.source_ranges):
            host = network.prefixlen == network.max_prefixlen
            source = str(network.network_address) if host else str(network)
            cause = self.origin(f"spec.loadBalancerSourceRanges[{index}]")
            self.element(names.LOAD_BALANCER_SOURCE_CIDR, f"{element},{source}", cause)
        if node_may_connect(self.port, self.settings.node_ips, self.settings.family):
            # From the node itself the packet's source is the very address that it goes to.
            self.element(names.LOAD_BALANCER_SOURCE_IP, f"{element},{ip}", ranges)
        else:
            match = f"-m ipvs --vproto {_PROTOCOL_NUMBERS[self.port.protocol]} --vaddr {ip} --vport {self.port.port}"
            rule = Rule(f"-s {ip}/{self.settings.family.host_prefix} {match} -j DROP", ranges)
            self.value.out_filter += (rule,)

    def node_port(self) -> None:
        port = self.port
        origin = self.origin(port.port_field("nodePort"))
        all_ports, local_ports = names.NODE_PORTS[port.protocol]
        elements = [str(port.node_port)]
        if port.protocol == "sctp":
            elements = [f"{ip},sctp:{port.node_port}" for ip in self.settings.node_port_ips]
        for element in elements:
            self.element(all_ports, element, origin)
            if port.external_policy_local:
                self.element(local_ports, element, self.origin("spec.externalTrafficPolicy"))
        for ip in self.settings.node_port_ips:
            self.server(ip, port.node_port, self.external, origin)
