"""kube-proxy's rules in mode userspace: every address of a Service port leads to one port of the proxy itself.

Chains, match arguments, comments and order are those of kubernetes/pkg/proxy/userspace/proxier.go (1.25, the last
release that had it), in the form in which iptables-save prints them. Traffic that arrives (from Pods and from outside)
is redirected, traffic of the node itself is sent to an address of the node: a redirect would send it to loopback, and
its answers would come from another address.
"""

from __future__ import annotations

from dataclasses import dataclass

from netlab.model.keys import Origin
from netlab.proxy.family import Family, join_host_port
from netlab.proxy.iptables.rules import quoted
from netlab.proxy.iptables.ruleset import Rule, RuleSet
from netlab.proxy.service_ports import ServicePort

PORTALS_CONTAINER = "KUBE-PORTALS-CONTAINER"
PORTALS_HOST = "KUBE-PORTALS-HOST"
NODEPORT_CONTAINER = "KUBE-NODEPORT-CONTAINER"
NODEPORT_HOST = "KUBE-NODEPORT-HOST"
NODEPORT_NON_LOCAL = "KUBE-NODEPORT-NON-LOCAL"

CHAINS = (
    ("nat", PORTALS_CONTAINER),
    ("nat", PORTALS_HOST),
    ("nat", NODEPORT_CONTAINER),
    ("nat", NODEPORT_HOST),
    ("filter", NODEPORT_NON_LOCAL),
)
"""All chains of this mode, with their tables; there are no chains of single Services."""

_PORTALS_COMMENT = "handle ClusterIPs; NOTE: this must be before the NodePort rules"
_NODEPORTS_COMMENT = "handle service NodePorts; NOTE: this must be the last rule in the chain"
_NON_LOCAL_COMMENT = "Ensure that non-local NodePort traffic can flow"

_ANY = ("0.0.0.0", "::")

PREPENDED = {
    ("nat", "PREROUTING"): Rule(f"-m comment --comment {quoted(_PORTALS_COMMENT)} -j {PORTALS_CONTAINER}"),
    ("nat", "OUTPUT"): Rule(f"-m comment --comment {quoted(_PORTALS_COMMENT)} -j {PORTALS_HOST}"),
    ("filter", "INPUT"): Rule(f"-m comment --comment {quoted(_NON_LOCAL_COMMENT)} -j {NODEPORT_NON_LOCAL}"),
}
"""Jumps at the head of built-in chains."""

_LOCAL = f"-m addrtype --dst-type LOCAL -m comment --comment {quoted(_NODEPORTS_COMMENT)} -j "
APPENDED = {
    ("nat", "PREROUTING"): Rule(_LOCAL + NODEPORT_CONTAINER),
    ("nat", "OUTPUT"): Rule(_LOCAL + NODEPORT_HOST),
}
"""Jumps at the end of built-in chains."""


@dataclass(frozen=True, slots=True)
class Settings:
    """``listen_ip``: where the proxy listens (bindAddress); ``host_ip``: the node's address that its own traffic is
    sent to where the proxy listens everywhere."""

    family: Family
    host_ip: str
    listen_ip: str = "0.0.0.0"

    @property
    def listens_everywhere(self) -> bool:
        return self.listen_ip in _ANY


@dataclass(frozen=True, slots=True)
class PortRules:
    """What one Service port causes, by chain (the chains of :data:`CHAINS`, in that order)."""

    portals_container: tuple[Rule, ...] = ()
    portals_host: tuple[Rule, ...] = ()
    nodeport_container: tuple[Rule, ...] = ()
    nodeport_host: tuple[Rule, ...] = ()
    nodeport_non_local: tuple[Rule, ...] = ()

    def by_chain(self) -> tuple[tuple[Rule, ...], ...]:
        return (
            self.portals_container,
            self.portals_host,
            self.nodeport_container,
            self.nodeport_host,
            self.nodeport_non_local,
        )


def port_rules(port: ServicePort, proxy_port: int, settings: Settings, *, node_port: bool = True) -> PortRules:
    """The rules of one Service port, whose connections the proxy takes at ``proxy_port``.

    ``node_port`` false: the proxy could not get hold of the nodePort. An external IP counts only where it is the
    node's own, or for what comes in from another machine; a load balancer's address counts for everybody.
    """
    words = _Words(port, proxy_port, settings)
    container = [words.rule(port.cluster_ip.ip, "", words.from_container, port.cluster_ip.field)]
    host = [words.rule(port.cluster_ip.ip, "", words.from_host, port.cluster_ip.field)]
    for each in port.external_ips:
        container.append(words.rule(each.ip, "-m physdev ! --physdev-is-in ", words.from_container, each.field))
        container.append(words.rule(each.ip, "-m addrtype --dst-type LOCAL ", words.from_container, each.field))
        host.append(words.rule(each.ip, "-m addrtype --dst-type LOCAL ", words.from_host, each.field))
    for each in port.load_balancer_ips:
        container.append(words.rule(each.ip, "", words.from_container, each.field))
        host.append(words.rule(each.ip, "", words.from_host, each.field))
    if not port.node_port or not node_port:
        return PortRules(tuple(container), tuple(host))
    field = port.port_field("nodePort")
    return PortRules(
        tuple(container),
        tuple(host),
        nodeport_container=(words.rule(None, "", words.from_container, field),),
        nodeport_host=(words.rule(None, "", words.from_host, field),),
        nodeport_non_local=(words.let_in(field),),
    )


class _Words:
    def __init__(self, port: ServicePort, proxy_port: int, settings: Settings) -> None:
        self.port = port
        self.proxy_port = proxy_port
        self.settings = settings
        address = settings.host_ip if settings.listens_everywhere else settings.listen_ip
        self.from_host = f"-j DNAT --to-destination {join_host_port(address, proxy_port)}"
        self.from_container = f"-j REDIRECT --to-ports {proxy_port}" if settings.listens_everywhere else self.from_host

    def rule(self, ip: str | None, match: str, target: str, field: str) -> Rule:
        """Traffic to one address and the Service's port; ``ip`` None: to the nodePort."""
        destination = f"-d {ip}/{self.settings.family.host_prefix} " if ip is not None else ""
        number = self.port.port if ip is not None else self.port.node_port
        return Rule(f"{destination}{self._protocol(number)}{match}{target}", self._origin(field))

    def let_in(self, field: str) -> Rule:
        """The redirected traffic of a nodePort may come in whatever the policy of INPUT is."""
        return Rule(f"{self._protocol(self.proxy_port)}-m state --state NEW -j ACCEPT", self._origin(field))

    def _protocol(self, number: int) -> str:
        protocol, comment = self.port.protocol, quoted(str(self.port.name))
        return f"-p {protocol} -m comment --comment {comment} -m {protocol} --dport {number} "

    def _origin(self, field: str) -> Origin:
        return Origin(str(self.port.name.service), field)


def frame() -> RuleSet:
    """What is there without any Service: empty chains, and the jumps to them."""
    rule_set = RuleSet()
    for table, chain in CHAINS:
        rule_set.tables[table].chains[chain] = ()
    for jumps in (PREPENDED, APPENDED):
        for (table, chain), rule in jumps.items():
            built_in = rule_set.tables[table].built_in
            built_in[chain] = (*built_in.get(chain, ()), rule)
    return rule_set
