"""kube-proxy's rules in iptables mode, computed: per Service port, and the frame around them.

The rules, their order and their words are those of kube-proxy 1.36 (kubernetes/pkg/proxy/iptables/proxier.go), in the
form in which iptables-save prints them, less the comments that name no Service port. ``tests/conformance`` compares
them with what the real one wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address

from netlab.model.keys import Origin
from netlab.objects.ip import Address
from netlab.proxy.endpoints import Endpoint
from netlab.proxy.family import Family
from netlab.proxy.iptables import names
from netlab.proxy.iptables.ruleset import Rule, RuleSet
from netlab.proxy.local_traffic import PROXY_CONFIG, LocalTraffic
from netlab.proxy.policies import node_may_connect, reach_of
from netlab.proxy.service_ports import ServicePort
from netlab.proxy.topology import UsableEndpoints

LARGE_CLUSTER_ENDPOINTS = 1000
"""Above so many endpoints in the cluster, kube-proxy leaves out the comments of the rules that grow with them."""

INVALID_COUNTER = "ct_state_invalid_dropped_pkts"
LOCALHOST_COUNTER = "localhost_nps_accepted_pkts"


@dataclass(frozen=True, slots=True)
class Settings:
    """What shapes the rules besides objects. ``counters``: the nfacct objects exist. ``node_port_ips``: None for every
    address of the node."""

    family: Family
    masquerade_bit: int = 14
    masquerade_all: bool = False
    local: LocalTraffic | None = None
    localhost_node_ports: bool = True
    node_port_ips: tuple[str, ...] | None = None
    tcp_be_liberal: bool = False
    counters: bool = True
    node_ips: tuple[Address, ...] = ()

    @property
    def mark(self) -> str:
        return f"{1 << self.masquerade_bit:#x}"

    @property
    def localhost_v4(self) -> bool:
        """Whether nodePorts answer on 127.0.0.0/8: never in IPv6, which has no route_localnet."""
        return self.localhost_node_ports and self.family is Family.IPV4


@dataclass(frozen=True, slots=True)
class PortRules:
    """All that one Service port causes: entries of the shared chains, and chains of its own in the nat table."""

    nat_services: tuple[Rule, ...] = ()
    nat_nodeports: tuple[Rule, ...] = ()
    filter_services: tuple[Rule, ...] = ()
    filter_external: tuple[Rule, ...] = ()
    filter_nodeports: tuple[Rule, ...] = ()
    filter_firewall: tuple[Rule, ...] = ()
    chains: dict[str, tuple[Rule, ...]] = field(default_factory=dict)


def port_rules(port: ServicePort, endpoints: UsableEndpoints, settings: Settings, large: bool = False) -> PortRules:
    """The rules of one Service port on one node; ``large``: without the comments that grow with the cluster."""
    return _PortRulesBuilder(port, endpoints, settings, large).build()


class _PortRulesBuilder:
    def __init__(self, port: ServicePort, endpoints: UsableEndpoints, settings: Settings, large: bool) -> None:
        self.port = port
        self.endpoints = endpoints
        self.settings = settings
        self.large = large
        self.cluster_chain = names.cluster_policy_chain(port.name)
        self.local_chain = names.local_policy_chain(port.name)
        self.external_chain = names.external_chain(port.name)
        self.firewall_chain = names.firewall_chain(port.name)
        self.reach = reach_of(port, endpoints)
        self.filtered = bool(endpoints.anywhere and port.load_balancer_ips and port.source_ranges)
        self.chains: dict[str, list[Rule]] = {}

    def build(self) -> PortRules:
        port = self.port
        nat_services: list[Rule] = []
        filter_services: list[Rule] = []
        filter_external: list[Rule] = []
        filter_firewall: list[Rule] = []
        cluster_ip = port.cluster_ip
        if self.reach.internal:
            nat_services.append(
                self.dispatch(cluster_ip.ip, f"{port.name} cluster IP", self.internal_chain, cluster_ip.field)
            )
        else:
            filter_services.append(self.refuse(cluster_ip.ip, self.reach.anywhere, self.reach.internal_field))
        for external_ip in port.external_ips:
            if self.reach.anywhere:
                comment = f"{port.name} external IP"
                nat_services.append(self.dispatch(external_ip.ip, comment, self.external_chain, external_ip.field))
            if not self.reach.external:
                filter_external.append(self.refuse(external_ip.ip, self.reach.anywhere, self.reach.external_field))
        for ip in port.load_balancer_ips:
            if self.reach.anywhere:
                target = self.firewall_chain if self.filtered else self.external_chain
                nat_services.append(self.dispatch(ip.ip, f"{port.name} loadbalancer IP", target, ip.field))
            if self.filtered:
                comment = f"{port.name} traffic not accepted by {self.firewall_chain}"
                text = self.dispatch(ip.ip, comment, "DROP", "").text
                filter_firewall.append(Rule(text, self.origin("spec.loadBalancerSourceRanges")))
        if not self.reach.external:
            for ip in port.load_balancer_ips:
                filter_external.append(self.refuse(ip.ip, self.reach.anywhere, self.reach.external_field))
        nat_nodeports = self.node_port_rules(filter_external)
        self.own_chains()
        return PortRules(
            nat_services=tuple(nat_services),
            nat_nodeports=nat_nodeports,
            filter_services=tuple(filter_services),
            filter_external=tuple(filter_external),
            filter_nodeports=self.health_check_rules(),
            filter_firewall=tuple(filter_firewall),
            chains={name: tuple(rules) for name, rules in self.chains.items()},
        )

    @property
    def internal_chain(self) -> str:
        return self.local_chain if self.port.internal_policy_local else self.cluster_chain

    def origin(self, field: str) -> Origin:
        return Origin(str(self.port.name.service), field)

    def destination(self, ip: str) -> str:
        return f"-d {ip}/{self.settings.family.host_prefix} "

    def dispatch(self, ip: str, comment: str, target: str, field: str) -> Rule:
        """Traffic to one address and the Service's port goes to ``target``."""
        port = self.port
        text = (
            f"{self.destination(ip)}-p {port.protocol} -m comment --comment {quoted(comment)} "
            f"-m {port.protocol} --dport {port.port} -j {target}"
        )
        return Rule(text, self.origin(field))

    def refuse(self, ip: str | None, elsewhere: bool, field: str) -> Rule:
        """REJECT where no node has an endpoint; DROP where only this one has none, so that a balancer goes elsewhere.

        ``ip`` None: the nodePort on any local address.
        """
        port = self.port
        comment = f"{port.name} has no {'local ' if elsewhere else ''}endpoints"
        if ip is None:
            head, match, number = "", "-m addrtype --dst-type LOCAL ", port.node_port
        else:
            head, match, number = self.destination(ip), "", port.port
        icmp = "icmp" if self.settings.family is Family.IPV4 else "icmp6"
        target = "DROP" if elsewhere else f"REJECT --reject-with {icmp}-port-unreachable"
        text = (
            f"{head}-p {port.protocol} -m comment --comment {quoted(comment)} {match}"
            f"-m {port.protocol} --dport {number} -j {target}"
        )
        return Rule(text, self.origin(field))

    def node_port_rules(self, filter_external: list[Rule]) -> tuple[Rule, ...]:
        port = self.port
        if not port.node_port:
            return ()
        rules = []
        if self.reach.anywhere:
            tail = f"-m comment --comment {quoted(str(port.name))} -m {port.protocol} --dport {port.node_port} "
            origin = self.origin(port.port_field("nodePort"))
            if self.settings.localhost_v4 and self.settings.counters:
                counter = f"-m nfacct --nfacct-name  {LOCALHOST_COUNTER} "
                rules.append(Rule(f"-d 127.0.0.0/8 -p {port.protocol} {tail}{counter}-j {self.external_chain}", origin))
            rules.append(Rule(f"-p {port.protocol} {tail}-j {self.external_chain}", origin))
        if not self.reach.external:
            filter_external.append(self.refuse(None, self.reach.anywhere, self.reach.external_field))
        return tuple(rules)

    def health_check_rules(self) -> tuple[Rule, ...]:
        """The health check's nodePort is let in whatever the policy of INPUT is."""
        port = self.port
        if not port.health_check_node_port:
            return ()
        comment = quoted(f"{port.name} health check node port")
        text = f"-p tcp -m comment --comment {comment} -m tcp --dport {port.health_check_node_port} -j ACCEPT"
        return (Rule(text, self.origin("spec.healthCheckNodePort")),)

    def own_chains(self) -> None:
        if self.reach.internal:
            self.internal_masquerade()
        if self.reach.anywhere and self.port.externally_accessible:
            self.external_rules()
        if self.filtered:
            self.firewall_rules()
        if self.endpoints.cluster and self.port.uses_cluster_endpoints:
            self.balance(self.cluster_chain, self.endpoints.cluster)
        if self.endpoints.local and self.port.uses_local_endpoints:
            self.balance(self.local_chain, self.endpoints.local)
        for endpoint in self.endpoints.reachable:
            self.endpoint_rules(endpoint)

    def add(self, chain: str, text: str, origin: Origin | None) -> None:
        self.chains.setdefault(chain, []).append(Rule(text, origin))

    def internal_masquerade(self) -> None:
        """Who is not known to be a Pod of the cluster is masqueraded on the way to the ClusterIP: its answer might
        take another way back."""
        settings = self.settings
        dispatch = self.dispatch(self.port.cluster_ip.ip, f"{self.port.name} cluster IP", names.MARK_MASQ, "").text
        if settings.masquerade_all:
            self.add(self.internal_chain, dispatch, Origin(PROXY_CONFIG, "iptables.masqueradeAll"))
        elif settings.local is not None:
            text = with_source(dispatch, settings.local, negated=True)
            self.add(self.internal_chain, text, Origin(PROXY_CONFIG, settings.local.field))

    def external_rules(self) -> None:
        chain, policy = self.external_chain, self.origin("spec.externalTrafficPolicy")
        if not self.port.external_policy_local:
            self.add(chain, f"-j {names.MARK_MASQ}", policy)
        else:
            if self.settings.local is not None:
                text = with_source(f"-j {self.cluster_chain}", self.settings.local, negated=False)
                self.add(chain, text, policy)
            self.add(chain, f"-m addrtype --src-type LOCAL -j {names.MARK_MASQ}", policy)
            self.add(chain, f"-m addrtype --src-type LOCAL -j {self.cluster_chain}", policy)
        if self.reach.external:
            target = self.local_chain if self.port.external_policy_local else self.cluster_chain
            self.add(chain, f"-j {target}", policy)
        self.chains.setdefault(chain, [])

    def firewall_rules(self) -> None:
        port, settings = self.port, self.settings
        comment = f"-m comment --comment {quoted(f'{port.name} loadbalancer IP')} "
        origin = self.origin("spec.loadBalancerSourceRanges")
        for index, source in enumerate(port.source_ranges):
            self.add(
                self.firewall_chain,
                f"-s {source} {comment}-j {self.external_chain}",
                self.origin(f"spec.loadBalancerSourceRanges[{index}]"),
            )
        if node_may_connect(port, settings.node_ips, settings.family):
            for each in port.load_balancer_ips:
                source_text = f"{each.ip}/{settings.family.host_prefix}"
                self.add(self.firewall_chain, f"-s {source_text} {comment}-j {self.external_chain}", origin)
        self.add(self.firewall_chain, "", origin)

    def balance(self, chain: str, endpoints: Sequence[Endpoint]) -> None:
        """Stick to the endpoint of before, where affinity asks for it; else each with the same chance."""
        port = self.port
        self.chains.setdefault(chain, [])
        if port.affinity_seconds is not None:
            for endpoint in endpoints:
                target = names.endpoint_chain(port.name, endpoint.text)
                recent = f"-m recent --rcheck --seconds {port.affinity_seconds} --reap --name {target} {self.mask()}"
                self.add(
                    chain, f"{self.balance_comment(endpoint)}{recent} -j {target}", self.origin("spec.sessionAffinity")
                )
        count = len(endpoints)
        for index, endpoint in enumerate(endpoints):
            target = names.endpoint_chain(port.name, endpoint.text)
            chance = ""
            if index < count - 1:
                chance = f"-m statistic --mode random --probability {saved_probability(count - index)} "
            self.add(chain, f"{self.balance_comment(endpoint)}{chance}-j {target}", endpoint.origin)

    def balance_comment(self, endpoint: Endpoint) -> str:
        return "" if self.large else f"-m comment --comment {quoted(f'{self.port.name} -> {endpoint.text}')} "

    def mask(self) -> str:
        mask = "255.255.255.255" if self.settings.family is Family.IPV4 else "ffff:" * 7 + "ffff"
        return f"--mask {mask} --rsource"

    def endpoint_rules(self, endpoint: Endpoint) -> None:
        port = self.port
        chain = names.endpoint_chain(port.name, endpoint.text)
        comment = "" if self.large else f"-m comment --comment {quoted(str(port.name))} "
        source = f"-s {endpoint.ip}/{self.settings.family.host_prefix}"
        self.add(chain, f"{source} {comment}-j {names.MARK_MASQ}", endpoint.origin)
        recent = ""
        if port.affinity_seconds is not None:
            recent = f"-m recent --set --name {chain} {self.mask()} "
        self.add(
            chain,
            f"-p {port.protocol} {comment}{recent}-m {port.protocol} -j DNAT --to-destination {endpoint.text}",
            endpoint.origin,
        )


def quoted(comment: str) -> str:
    """A comment as iptables-save prints it: quoted unless it is one plain word (xtables' save_string)."""
    return f'"{comment}"'


def saved_probability(endpoints: int) -> str:
    """1/n as kube-proxy writes it (ten digits) and the kernel keeps it (in units of 1/2**31), printed again."""
    unit = 0x80000000
    return f"{round(float(f'{1 / endpoints:.10f}') * unit) / unit:.11f}"


def with_source(text: str, local: LocalTraffic, *, negated: bool) -> str:
    """Put the match on local traffic where iptables-save has it: before -d for sources, after it for interfaces."""
    mark = "! " if negated else ""
    if local.by == "source":
        return f"{mark}-s {local.value} {text}"
    interface = f"{local.value}+" if local.by == "prefix" else local.value
    match = f"{mark}-i {interface} "
    if text.startswith("-d "):
        _, address, rest = text.split(" ", 2)
        return f"-d {address} {match}{rest}"
    return f"{match}{text}"


def frame(settings: Settings) -> RuleSet:
    """What is there without any Service: jumps from built-in chains, marking, masquerading, forwarding, canaries."""
    rule_set = RuleSet()
    for table in rule_set.tables.values():
        table.chains[names.CANARY] = ()
    _frame_nat(rule_set, settings)
    _frame_filter(rule_set, settings)
    return rule_set


def _frame_nat(rule_set: RuleSet, settings: Settings) -> None:
    nat = rule_set.tables["nat"]
    mark = settings.mark
    bit = Origin(PROXY_CONFIG, "iptables.masqueradeBit")
    nat.built_in = {
        "PREROUTING": (Rule(f"-j {names.SERVICES}"),),
        "OUTPUT": (Rule(f"-j {names.SERVICES}"),),
        "POSTROUTING": (Rule(f"-j {names.POSTROUTING}"),),
    }
    nat.chains[names.SERVICES] = node_port_jumps(settings)
    nat.chains[names.NODEPORTS] = ()
    nat.chains[names.MARK_MASQ] = (Rule(f"-j MARK --set-xmark {mark}/{mark}", bit),)
    nat.chains[names.POSTROUTING] = (
        Rule(f"-m mark ! --mark {mark}/{mark} -j RETURN", bit),
        Rule(f"-j MARK --set-xmark {mark}/0x0", bit),
        Rule("-j MASQUERADE --random-fully", bit),
    )


def _frame_filter(rule_set: RuleSet, settings: Settings) -> None:
    table = rule_set.tables["filter"]
    new = "-m conntrack --ctstate NEW -j "
    table.built_in = {
        "INPUT": (
            Rule(f"-j {names.FIREWALL}"),
            Rule(new + names.PROXY_FIREWALL),
            Rule(f"-j {names.NODEPORTS}"),
            Rule(new + names.EXTERNAL_SERVICES),
        ),
        "FORWARD": (
            Rule(new + names.PROXY_FIREWALL),
            Rule(f"-j {names.FORWARD}"),
            Rule(new + names.SERVICES),
            Rule(new + names.EXTERNAL_SERVICES),
        ),
        "OUTPUT": (
            Rule(f"-j {names.FIREWALL}"),
            Rule(new + names.PROXY_FIREWALL),
            Rule(new + names.SERVICES),
        ),
    }
    for chain in (names.EXTERNAL_SERVICES, names.NODEPORTS, names.PROXY_FIREWALL, names.SERVICES):
        table.chains[chain] = ()
    guard = "! -s 127.0.0.0/8 -d 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP"
    localhost = Origin(PROXY_CONFIG, "iptables.localhostNodePorts")
    table.chains[names.FIREWALL] = (Rule(guard, localhost),) if settings.localhost_v4 else ()
    forward = [
        Rule(
            f"-m mark --mark {settings.mark}/{settings.mark} -j ACCEPT", Origin(PROXY_CONFIG, "iptables.masqueradeBit")
        ),
        Rule("-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"),
    ]
    if not settings.tcp_be_liberal:
        counter = f"-m nfacct --nfacct-name  {INVALID_COUNTER} " if settings.counters else ""
        origin = Origin(PROXY_CONFIG, "conntrack.tcpBeLiberal")
        forward.insert(0, Rule(f"-m conntrack --ctstate INVALID {counter}-j DROP", origin))
    table.chains[names.FORWARD] = tuple(forward)


def node_port_jumps(settings: Settings) -> tuple[Rule, ...]:
    """The last rules of KUBE-SERVICES: what is for this node itself goes to KUBE-NODEPORTS."""
    origin = Origin(PROXY_CONFIG, "nodePortAddresses")
    if settings.node_port_ips is None:
        exception = ""
        if settings.family is Family.IPV6:
            exception = "! -d ::1/128 "
        elif not settings.localhost_node_ports:
            exception = "! -d 127.0.0.0/8 "
        return (Rule(f"{exception}-m addrtype --dst-type LOCAL -j {names.NODEPORTS}", origin),)
    return tuple(
        Rule(f"-d {ip}/{settings.family.host_prefix} -j {names.NODEPORTS}", origin)
        for ip in settings.node_port_ips
        if settings.localhost_v4 or not ip_address(ip).is_loopback
    )
