"""kube-proxy's rules in nftables mode, computed: per Service port, and the frame around them.

Chains, sets, maps and rules, their order and their words are those of kube-proxy 1.36 (KEP-3866 and
kubernetes/pkg/proxy/nftables/proxier.go), in the form in which nft prints them, less the comments that name no Service
port. ``tests/conformance`` compares them with what the real one wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address

from netlab.model.keys import ObjectKey, Origin
from netlab.objects.ip import Address, Network
from netlab.proxy.endpoints import Endpoint
from netlab.proxy.family import Family
from netlab.proxy.local_traffic import PROXY_CONFIG, LocalTraffic
from netlab.proxy.nftables import names
from netlab.proxy.nftables.addresses import given_set, listed_set, range_text
from netlab.proxy.nftables.ruleset import COMMENT_LENGTH, Container, Element, Hook, Rule, Table
from netlab.proxy.policies import node_may_connect, reach_of
from netlab.proxy.service_ports import ServicePort
from netlab.proxy.topology import UsableEndpoints

SERVICE_CIDR = str(ObjectKey("ServiceCIDR", "", "kubernetes"))
"""The object that the API server makes of its service ranges; kube-proxy reads them there."""

_HOOKS = {
    names.FILTER_PREROUTING: Hook("filter", "prerouting", -110),
    names.FILTER_OUTPUT_PRE_DNAT: Hook("filter", "output", -110),
    names.FILTER_INPUT: Hook("filter", "input", 0),
    names.FILTER_FORWARD: Hook("filter", "forward", 0),
    names.FILTER_OUTPUT: Hook("filter", "output", 0),
    names.NAT_PREROUTING: Hook("nat", "prerouting", -100),
    names.NAT_OUTPUT: Hook("nat", "output", -100),
    names.NAT_POSTROUTING: Hook("nat", "postrouting", 100),
}
_JUMPS = {
    names.FILTER_PREROUTING: (f"ct state new jump {names.FIREWALL_CHECK}",),
    names.FILTER_OUTPUT_PRE_DNAT: (f"ct state new jump {names.FIREWALL_CHECK}",),
    names.FILTER_INPUT: (
        f"ct state new jump {names.NODEPORT_ENDPOINTS_CHECK}",
        f"ct state new jump {names.SERVICE_ENDPOINTS_CHECK}",
    ),
    names.FILTER_FORWARD: (
        f"ct state new jump {names.SERVICE_ENDPOINTS_CHECK}",
        f"ct state new jump {names.CLUSTER_IPS_CHECK}",
    ),
    names.FILTER_OUTPUT: (
        f"ct state new jump {names.SERVICE_ENDPOINTS_CHECK}",
        f"ct state new jump {names.CLUSTER_IPS_CHECK}",
    ),
    names.NAT_PREROUTING: (f"jump {names.SERVICES}",),
    names.NAT_OUTPUT: (f"jump {names.SERVICES}",),
    names.NAT_POSTROUTING: (f"jump {names.MASQUERADING}",),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """What shapes the rules besides objects. ``node_port_ips``: None for every address of the node but loopback;
    ``service_ranges``: where ClusterIPs come from, which nobody else has to answer for."""

    family: Family
    masquerade_bit: int = 14
    masquerade_all: bool = False
    local: LocalTraffic | None = None
    node_port_ips: tuple[str, ...] | None = None
    service_ranges: tuple[Network, ...] = ()
    node_ips: tuple[Address, ...] = ()

    @property
    def mark(self) -> str:
        return f"{1 << self.masquerade_bit:#010x}"

    @property
    def set_mark(self) -> str:
        """The statement that asks for a packet to be masqueraded when it leaves."""
        return f"meta mark set meta mark | {self.mark}"

    @property
    def address_type(self) -> str:
        return f"ipv{self.family.value}_addr"


@dataclass(frozen=True, slots=True)
class PortRules:
    """All that one Service port causes: elements of the shared sets and maps, and affinity sets and chains of its own.
    A chain stands behind those that it leads to."""

    elements: tuple[Element, ...] = ()
    containers: dict[str, Container] = field(default_factory=dict)
    chains: dict[str, tuple[Rule, ...]] = field(default_factory=dict)


def port_rules(port: ServicePort, endpoints: UsableEndpoints, settings: Settings) -> PortRules:
    """The rules of one Service port on one node."""
    return _PortRulesBuilder(port, endpoints, settings).build()


class _PortRulesBuilder:
    def __init__(self, port: ServicePort, endpoints: UsableEndpoints, settings: Settings) -> None:
        self.port = port
        self.endpoints = endpoints
        self.settings = settings
        self.header = settings.family.nftables
        of_port = names.of_port(port.name)
        self.cluster_chain = names.cluster_policy_chain(of_port)
        self.local_chain = names.local_policy_chain(of_port)
        self.external_chain = names.external_chain(of_port)
        self.firewall_chain = names.firewall_chain(of_port)
        self.service = str(port.name.service)
        self.reach = reach_of(port, endpoints)
        self.elements: dict[tuple[str, str], Element] = {}
        self.containers: dict[str, Container] = {}
        self.chains: dict[str, tuple[Rule, ...]] = {}

    def build(self) -> PortRules:
        """What guards a Service stands before what leads to it: a change that is cut up keeps the order."""
        if self.port.load_balancer_ips and self.port.source_ranges:
            self.firewall()
        self.hairpin_connections()
        self.capture_cluster_ip()
        self.capture_external_addresses()
        self.capture_node_port()
        if self.port.affinity_seconds is not None:
            self.endpoint_chains(self.port.affinity_seconds)
        if self.endpoints.cluster and self.port.uses_cluster_endpoints:
            self.chains[self.cluster_chain] = self.balance(self.endpoints.cluster)
        if self.endpoints.local and self.port.uses_local_endpoints:
            self.chains[self.local_chain] = self.balance(self.endpoints.local)
        if self.reach.anywhere and self.port.externally_accessible:
            self.chains[self.external_chain] = self.external_rules()
        return PortRules(tuple(self.elements.values()), self.containers, self.chains)

    def origin(self, field: str) -> Origin:
        return Origin(self.service, field)

    def element(self, container: str, key: str, value: str, origin: Origin, comment: str = "") -> None:
        """One address may stand in several fields: the last one counts, as with kube-proxy."""
        self.elements[container, key] = Element(container, key, value, comment, origin)

    def destination(self, ip: str) -> str:
        """What the maps find a Service's address by."""
        return f"{ip} . {self.port.protocol} . {self.port.port}"

    def refuse(self, container: str, key: str, field: str) -> None:
        """Reject where no node has an endpoint; drop where only this one has none: a balancer then goes elsewhere."""
        verdict = "drop" if self.reach.anywhere else f"goto {names.REJECT}"
        self.element(container, key, verdict, self.origin(field), str(self.port.name)[:COMMENT_LENGTH])

    def capture_cluster_ip(self) -> None:
        ip, field = self.port.cluster_ip.ip, self.port.cluster_ip.field
        key = self.destination(ip)
        self.element(names.CLUSTER_IPS, ip, "", self.origin(field))
        if self.reach.internal:
            chain = self.local_chain if self.port.internal_policy_local else self.cluster_chain
            self.element(names.SERVICE_IPS, key, f"goto {chain}", self.origin(field))
        else:
            self.refuse(names.NO_ENDPOINT_SERVICES, key, self.reach.internal_field)

    def capture_external_addresses(self) -> None:
        for each in (*self.port.external_ips, *self.port.load_balancer_ips):
            key = self.destination(each.ip)
            if self.reach.anywhere:
                self.element(names.SERVICE_IPS, key, f"goto {self.external_chain}", self.origin(each.field))
            if not self.reach.external:
                self.refuse(names.NO_ENDPOINT_SERVICES, key, self.reach.external_field)

    def capture_node_port(self) -> None:
        port = self.port
        if not port.node_port:
            return
        key = f"{port.protocol} . {port.node_port}"
        if self.reach.anywhere:
            origin = self.origin(port.port_field("nodePort"))
            self.element(names.SERVICE_NODEPORTS, key, f"goto {self.external_chain}", origin)
        if not self.reach.external:
            self.refuse(names.NO_ENDPOINT_NODEPORTS, key, self.reach.external_field)

    def hairpin_connections(self) -> None:
        """An endpoint of this node that reaches itself is masqueraded, or it would answer itself directly."""
        for each in self.endpoints.reachable:
            if each.local:
                key = f"{each.ip} . {each.ip} . {self.port.protocol} . {each.port}"
                self.element(names.HAIRPIN_CONNECTIONS, key, "", each.origin)

    def endpoint_chains(self, affinity_seconds: int) -> None:
        """With affinity each endpoint has a chain, and a set of the clients that it was chosen for."""
        for each in self.endpoints.reachable:
            of_endpoint = names.of_endpoint(self.port.name, each.ip, each.port)
            clients = names.affinity_set(of_endpoint)
            self.containers[clients] = Container(self.settings.address_type, timeout=affinity_seconds)
            self.chains[names.endpoint_chain(of_endpoint)] = (
                Rule(f"update @{clients} {{ {self.header} saddr }}", self.origin("spec.sessionAffinity")),
                Rule(f"meta l4proto {self.port.protocol} dnat to {each.text}", each.origin),
            )

    def balance(self, endpoints: Sequence[Endpoint]) -> tuple[Rule, ...]:
        """Stick to the endpoint of before, where affinity asks for it; else each with the same chance."""
        choices = tuple(each.origin for each in endpoints)
        origin = self.origin("spec.selector")
        draw = f"numgen random mod {len(endpoints)}"
        if self.port.affinity_seconds is None:
            entries = ", ".join(f"{index} : {each.ip} . {each.port}" for index, each in enumerate(endpoints))
            text = f"meta l4proto {self.port.protocol} dnat {self.header} to {draw} map {{ {entries} }}"
            return (Rule(text, origin, choices),)
        affinity = self.origin("spec.sessionAffinity")
        rules = []
        chains = []
        for each in endpoints:
            of_endpoint = names.of_endpoint(self.port.name, each.ip, each.port)
            chain = names.endpoint_chain(of_endpoint)
            chains.append(chain)
            text = f"{self.header} saddr @{names.affinity_set(of_endpoint)} goto {chain}"
            rules.append(Rule(text, affinity, (each.origin,)))
        entries = ", ".join(f"{index} : goto {chain}" for index, chain in enumerate(chains))
        rules.append(Rule(f"{draw} vmap {{ {entries} }}", origin, choices))
        return tuple(rules)

    def external_rules(self) -> tuple[Rule, ...]:
        """Traffic to addresses other than the ClusterIP. With policy Local its source is kept, and what comes from
        this cluster's Pods or from this node takes a short cut to all endpoints."""
        settings, policy = self.settings, self.origin("spec.externalTrafficPolicy")
        texts = []
        if not self.port.external_policy_local:
            texts.append(settings.set_mark)
        else:
            if settings.local is not None:
                texts.append(f"{match_local(settings, negated=False)} goto {self.cluster_chain}")
            texts.append(f"fib saddr type local {settings.set_mark}")
            texts.append(f"fib saddr type local goto {self.cluster_chain}")
        if self.reach.external:
            texts.append(f"goto {self.local_chain if self.port.external_policy_local else self.cluster_chain}")
        return tuple(Rule(text, policy) for text in texts)

    def firewall(self) -> None:
        """Only listed sources reach the load-balancer addresses, whether there are endpoints or not."""
        port, origin = self.port, self.origin("spec.loadBalancerSourceRanges")
        own = [each.ip for each in port.load_balancer_ips]
        if not node_may_connect(port, self.settings.node_ips, self.settings.family):
            own = []
        self.chains[self.firewall_chain] = (
            Rule(
                f"{self.header} saddr != {listed_set(port.source_ranges, own)} drop",
                origin,
                given=f"{self.header} saddr != {given_set(port.source_ranges, own)} drop",
            ),
        )
        for each in port.load_balancer_ips:
            self.element(names.FIREWALL_IPS, self.destination(each.ip), f"goto {self.firewall_chain}", origin)


def match_local(settings: Settings, *, negated: bool) -> str:
    """The match on local traffic (or, negated, on any other); ``settings.local`` must be known."""
    local = settings.local
    assert local is not None
    operator = "!= " if negated else ""
    if local.by == "source":
        return f"{settings.family.nftables} saddr {operator}{range_text(local.value)}"
    return f'iifname {operator}"{local.value}{"*" if local.by == "prefix" else ""}"'


def frame(settings: Settings) -> Table:
    """What is there without any Service: hooks, dispatch, checks, masquerading, and the sets and maps they look in."""
    table = Table(settings.family.nftables, hooks=dict(_HOOKS))
    _frame_containers(table, settings)
    for chain, texts in _JUMPS.items():
        table.chains[chain] = tuple(Rule(text) for text in texts)
    _frame_checks(table, settings)
    table.chains[names.SERVICES] = _dispatch(settings)
    table.chains[names.MASQUERADING] = _masquerading(settings)
    table.chains[names.CLUSTER_IPS_CHECK] = _cluster_ips_check(settings)
    table.chains[names.REJECT] = (Rule("reject"),)
    return table


def _frame_containers(table: Table, settings: Settings) -> None:
    address = settings.address_type
    transport = "inet_proto . inet_service"
    containers = table.containers
    containers[names.HAIRPIN_CONNECTIONS] = Container(f"{address} . {address} . {transport}")
    containers[names.CLUSTER_IPS] = Container(address)
    if settings.node_port_ips is not None:
        containers[names.NODEPORT_IPS] = Container(address)
        origin = Origin(PROXY_CONFIG, "nodePortAddresses")
        table.elements[names.NODEPORT_IPS] = {
            ip: Element(names.NODEPORT_IPS, ip, origin=origin)
            for ip in settings.node_port_ips
            if not ip_address(ip).is_loopback
        }
    containers[names.NO_ENDPOINT_SERVICES] = Container(f"{address} . {transport}", verdicts=True)
    containers[names.NO_ENDPOINT_NODEPORTS] = Container(transport, verdicts=True)
    containers[names.FIREWALL_IPS] = Container(f"{address} . {transport}", verdicts=True)
    containers[names.SERVICE_IPS] = Container(f"{address} . {transport}", verdicts=True)
    containers[names.SERVICE_NODEPORTS] = Container(transport, verdicts=True)


def _frame_checks(table: Table, settings: Settings) -> None:
    look_up = f"{settings.family.nftables} daddr . meta l4proto . th dport vmap"
    node_ports = f"{_node_port_destination(settings)} meta l4proto . th dport vmap @{names.NO_ENDPOINT_NODEPORTS}"
    table.chains[names.NODEPORT_ENDPOINTS_CHECK] = (Rule(node_ports, Origin(PROXY_CONFIG, "nodePortAddresses")),)
    table.chains[names.SERVICE_ENDPOINTS_CHECK] = (Rule(f"{look_up} @{names.NO_ENDPOINT_SERVICES}"),)
    table.chains[names.FIREWALL_CHECK] = (Rule(f"{look_up} @{names.FIREWALL_IPS}"),)


def _node_port_destination(settings: Settings) -> str:
    """The match on addresses that serve nodePorts, where it is known that the destination is this node."""
    header = settings.family.nftables
    if settings.node_port_ips is not None:
        return f"{header} daddr @{names.NODEPORT_IPS}"
    return f"{header} daddr != {'127.0.0.0/8' if settings.family is Family.IPV4 else '::1'}"


def _dispatch(settings: Settings) -> tuple[Rule, ...]:
    header = settings.family.nftables
    rules = []
    to_cluster_ip = f"{header} daddr @{names.CLUSTER_IPS}"
    if settings.masquerade_all:
        origin = Origin(PROXY_CONFIG, "nftables.masqueradeAll")
        rules.append(Rule(f"{to_cluster_ip} {settings.set_mark}", origin))
    elif settings.local is not None:
        text = f"{to_cluster_ip} {match_local(settings, negated=True)} {settings.set_mark}"
        rules.append(Rule(text, Origin(PROXY_CONFIG, settings.local.field)))
    rules.append(Rule(f"{header} daddr . meta l4proto . th dport vmap @{names.SERVICE_IPS}"))
    to_node = _node_port_destination(settings)
    if settings.node_port_ips is None:
        to_node = f"fib daddr type local {to_node}"
    text = f"{to_node} meta l4proto . th dport vmap @{names.SERVICE_NODEPORTS}"
    rules.append(Rule(text, Origin(PROXY_CONFIG, "nodePortAddresses")))
    return tuple(rules)


def _masquerading(settings: Settings) -> tuple[Rule, ...]:
    header, mark = settings.family.nftables, settings.mark
    marked = f"meta mark & {mark} != 0x00000000 meta mark set meta mark ^ {mark} masquerade fully-random"
    to_itself = f"ct status dnat {header} saddr . {header} daddr . meta l4proto . th dport"
    return (
        Rule(marked, Origin(PROXY_CONFIG, "nftables.masqueradeBit")),
        Rule(f"{to_itself} @{names.HAIRPIN_CONNECTIONS} masquerade fully-random"),
    )


def _cluster_ips_check(settings: Settings) -> tuple[Rule, ...]:
    """What is left of traffic to ClusterIPs: refused on the wrong port, dropped where no Service has the address."""
    header, ranges = settings.family.nftables, settings.service_ranges
    rules = [Rule(f"{header} daddr @{names.CLUSTER_IPS} reject")]
    if ranges:
        text = f"{header} daddr {listed_set(ranges, ())} drop"
        given = f"{header} daddr {given_set(ranges, ())} drop"
        rules.append(Rule(text, Origin(SERVICE_CIDR, "spec.cidrs"), given=given))
    return tuple(rules)
