"""The iptables rules of ipvs mode: few, and the same however many Services there are, because they look into sets.

Most of them exist only while their set has elements. Source: kubernetes/pkg/proxy/ipvs/proxier.go, 1.36
(writeIptablesRules); texts as iptables-save prints them, less the comments, none of which names a Service port.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from netlab.kernel.ipset import SetSpec
from netlab.model.keys import Origin
from netlab.proxy.family import Family
from netlab.proxy.iptables.rules import with_source
from netlab.proxy.iptables.ruleset import Rule, RuleSet, Table
from netlab.proxy.ipvs import names
from netlab.proxy.ipvs.settings import Settings
from netlab.proxy.local_traffic import PROXY_CONFIG


def rule_set(
    settings: Settings,
    specs: dict[str, SetSpec],
    filled: Set[str],
    out_filter: Sequence[Rule],
    causes: Mapping[str, Origin],
) -> RuleSet:
    """The rules of one family. ``filled``: the sets that have elements; ``out_filter``: the rules of
    KUBE-IPVS-OUT-FILTER; ``causes``: what made the sets have elements, where it is asked for."""
    builder = _RulesBuilder(settings, specs, filled, causes)
    return RuleSet({"mangle": Table(), "filter": builder.filter(out_filter), "nat": builder.nat()})


class _RulesBuilder:
    def __init__(
        self, settings: Settings, specs: dict[str, SetSpec], filled: Set[str], causes: Mapping[str, Origin]
    ) -> None:
        self.settings = settings
        self.specs = specs
        self.filled = filled
        self.causes = causes
        self.bit = Origin(PROXY_CONFIG, "iptables.masqueradeBit")

    def match(self, purpose: str, directions: str, target: str, head: str = "") -> str:
        return f"{head}-m set --match-set {self.specs[purpose].name} {directions} -j {target}"

    def if_filled(self, purpose: str, directions: str, target: str, head: str = "") -> tuple[Rule, ...]:
        if purpose not in self.filled:
            return ()
        return (Rule(self.match(purpose, directions, target, head), self.causes.get(purpose)),)

    def nat(self) -> Table:
        mark = self.settings.mark
        return Table(
            built_in={
                "PREROUTING": (Rule(f"-j {names.SERVICES}"),),
                "OUTPUT": (Rule(f"-j {names.SERVICES}"),),
                "POSTROUTING": (Rule(f"-j {names.POSTROUTING}"),),
            },
            chains={
                names.SERVICES: self.services(),
                names.POSTROUTING: (
                    *self.if_filled(names.LOOP_BACK, "dst,dst,src", "MASQUERADE"),
                    Rule(f"-m mark ! --mark {mark}/{mark} -j RETURN", self.bit),
                    Rule(f"-j MARK --set-xmark {mark}/0x0", self.bit),
                    Rule("-j MASQUERADE --random-fully", self.bit),
                ),
                names.NODE_PORT: self.node_ports(),
                names.LOAD_BALANCER_CHAIN: (
                    *self.if_filled(names.LOAD_BALANCER_LOCAL, "dst,dst", "RETURN"),
                    Rule(f"-j {names.MARK_MASQ}"),
                ),
                names.MARK_MASQ: (Rule(f"-j MARK --set-xmark {mark}/{mark}", self.bit),),
            },
        )

    def services(self) -> tuple[Rule, ...]:
        loopback = "127.0.0.0/8" if self.settings.family is Family.IPV4 else "::1/128"
        return (
            Rule(f"-s {loopback} -j RETURN"),
            *self.if_filled(names.LOAD_BALANCER, "dst,dst", names.LOAD_BALANCER_CHAIN),
            *self.cluster_ip_masquerade(),
            *self.if_filled(names.EXTERNAL_IP, "dst,dst", names.MARK_MASQ),
            *self.external_ips(names.EXTERNAL_IP),
            *self.external_ips(names.EXTERNAL_IP_LOCAL),
            Rule(f"-m addrtype --dst-type LOCAL -j {names.NODE_PORT}"),
            *self.if_filled(names.CLUSTER_IP, "dst,dst", "ACCEPT"),
            *self.if_filled(names.LOAD_BALANCER, "dst,dst", "ACCEPT"),
        )

    def cluster_ip_masquerade(self) -> tuple[Rule, ...]:
        """Who is not known to be a Pod; where nobody can be told apart, the node's own traffic: its source would be
        the ClusterIP itself."""
        if names.CLUSTER_IP not in self.filled:
            return ()
        settings = self.settings
        text = self.match(names.CLUSTER_IP, "dst,dst", names.MARK_MASQ)
        if settings.masquerade_all:
            return (Rule(text, Origin(PROXY_CONFIG, "iptables.masqueradeAll")),)
        if settings.local is not None:
            return (Rule(with_source(text, settings.local, negated=True), Origin(PROXY_CONFIG, settings.local.field)),)
        text = self.match(names.CLUSTER_IP, "src,dst", names.MARK_MASQ)
        return (Rule(text, Origin(PROXY_CONFIG, "detectLocalMode")),)

    def external_ips(self, purpose: str) -> tuple[Rule, ...]:
        """From outside the node, or to an address that is the node's own: no other rule is to touch it."""
        outside = "-m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL"
        return (
            *self.if_filled(purpose, f"dst,dst {outside}", "ACCEPT"),
            *self.if_filled(purpose, "dst,dst -m addrtype --dst-type LOCAL", "ACCEPT"),
        )

    def node_ports(self) -> tuple[Rule, ...]:
        rules: list[Rule] = []
        for protocol, (all_ports, local_ports) in names.NODE_PORTS.items():
            directions = "dst,dst" if protocol == "sctp" else "dst"
            rules += self.if_filled(local_ports, directions, "RETURN", f"-p {protocol} ")
            rules += self.if_filled(all_ports, directions, names.MARK_MASQ, f"-p {protocol} ")
        return tuple(rules)

    def filter(self, out_filter: Sequence[Rule]) -> Table:
        mark = self.settings.mark
        health_checks = Rule(self.match(names.HEALTH_CHECK_NODE_PORT, "dst", "ACCEPT"))
        firewall = self.if_filled(names.LOAD_BALANCER_FW, "dst,dst", names.SOURCE_RANGES_FIREWALL)
        return Table(
            built_in={
                "INPUT": tuple(
                    Rule(f"-j {chain}") for chain in (names.IPVS_FILTER, names.PROXY_FIREWALL, names.NODE_PORT)
                ),
                "FORWARD": (Rule(f"-j {names.PROXY_FIREWALL}"), Rule(f"-j {names.FORWARD}")),
                "OUTPUT": (Rule(f"-j {names.IPVS_OUT_FILTER}"),),
            },
            chains={
                names.FORWARD: (
                    Rule(f"-m mark --mark {mark}/{mark} -j ACCEPT", self.bit),
                    Rule("-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"),
                ),
                names.NODE_PORT: (health_checks,),
                names.PROXY_FIREWALL: firewall,
                names.SOURCE_RANGES_FIREWALL: (
                    *self.if_filled(names.LOAD_BALANCER_SOURCE_CIDR, "dst,dst,src", "RETURN"),
                    *self.if_filled(names.LOAD_BALANCER_SOURCE_IP, "dst,dst,src", "RETURN"),
                    Rule("-j DROP"),
                ),
                names.IPVS_FILTER: self.access_filter(),
                names.IPVS_OUT_FILTER: tuple(out_filter),
            },
        )

    def access_filter(self) -> tuple[Rule, ...]:
        """Ports of the node itself are not to be reached through a Service's address (kubernetes#72236)."""
        icmp = "icmp" if self.settings.family is Family.IPV4 else "icmp6"
        allowed = (names.LOAD_BALANCER, names.CLUSTER_IP, names.EXTERNAL_IP, names.EXTERNAL_IP_LOCAL)
        reject = f"REJECT --reject-with {icmp}-port-unreachable"
        return (
            *(Rule(self.match(purpose, "dst,dst", "RETURN")) for purpose in allowed),
            Rule(self.match(names.HEALTH_CHECK_NODE_PORT, "dst", "RETURN")),
            Rule(self.match(names.IPVS_IPS, "dst", reject, "-m conntrack --ctstate NEW ")),
        )
