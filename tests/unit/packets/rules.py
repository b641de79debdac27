"""A node's rules as kube-proxy writes them in iptables mode, for the simulator: chains of rules with predicates.

Only what a packet can meet is modelled; texts are those of iptables-save, shortened where nothing reads them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import NamedTuple

from netlab.model.rulebook import ChainInfo, Rulebook, RuleEntry
from tests.unit.packets.wire import Datagram

MASQUERADE_MARK = 0x4000
TRACE_TABLE = "netlab-trace"

Key = tuple[str, str, str]


@dataclass(frozen=True)
class Circumstances:
    """What a rule can ask about besides the packet's headers."""

    packet: Datagram
    mark: int
    state: str
    input: str | None
    output: str | None
    local: frozenset[str]

    @property
    def is_local(self) -> bool:
        return self.packet.destination in self.local or self.packet.destination.startswith("127.")


When = Callable[[Circumstances], bool]


class Rule(NamedTuple):
    """``verdict`` is the nftables verdict of a match; ``target`` the chain of a jump, or an address to translate to;
    ``act`` what else the rule does: "mark", "unmark", "dnat", "redirect", "masquerade", "snat", "reject", "reset"."""

    text: str
    when: When
    verdict: str = "continue"
    target: str = ""
    act: str = ""


class Base(NamedTuple):
    """A base chain."""

    key: Key
    hook: str
    priority: int


@dataclass
class RuleSet:
    """Chains with their rules, base chains, policies, and a handle for every rule."""

    base: list[Base] = field(default_factory=list)
    chains: dict[Key, list[tuple[int, Rule]]] = field(default_factory=dict)
    policies: dict[Key, str] = field(default_factory=dict)
    _handles: dict[tuple[str, str], int] = field(default_factory=dict)

    def add_base(self, family: str, table: str, chain: str, hook: str, priority: int) -> None:
        self.base.append(Base((family, table, chain), hook, priority))
        self.chains[family, table, chain] = []

    def add(self, key: Key, rule: Rule, *, first: bool = False) -> None:
        table = key[:2]
        self._handles[table] = self._handles.get(table, 4) + 1
        rules = self.chains.setdefault(key, [])
        rules.insert(0 if first else len(rules), (self._handles[table], rule))

    def rulebook(self) -> Rulebook:
        """As the lab would read it."""
        entries = {}
        for (family, table, chain), rules in self.chains.items():
            choices = sum("-j KUBE-SEP-" in rule.text for _, rule in rules)
            for position, (handle, rule) in enumerate(rules, 1):
                if table != TRACE_TABLE:
                    entry = RuleEntry(table, chain, handle, rule.text, position, choices)
                    entries[family, table, handle] = entry
        return Rulebook(
            {base.key: ChainInfo(base.hook, base.priority, base.key[1] == "nat") for base in self.base}, entries
        )


@dataclass(frozen=True)
class Service:
    """``endpoints`` are (address, port, node); ``local``: externalTrafficPolicy is Local."""

    name: str
    protocol: str
    cluster_ip: str
    port: int
    node_port: int
    endpoints: tuple[tuple[str, int, str], ...]
    local: bool = False

    def hashed(self, what: str = "") -> str:
        return hashlib.sha256(f"{self.name}/{what}".encode()).hexdigest()[:16].upper()


def trace_rules(traced: When) -> RuleSet:
    """The lab's own table, which every place has."""
    rules = RuleSet()
    for chain, hook, priority in (
        ("prerouting", "PREROUTING", -450),
        ("input", "INPUT", 300),
        ("forward", "FORWARD", -450),
        ("output", "OUTPUT", -450),
        ("postrouting", "POSTROUTING", 300),
    ):
        rules.add_base("inet", TRACE_TABLE, chain, hook, priority)
    for chain in ("prerouting", "output"):
        rules.add(("inet", TRACE_TABLE, chain), Rule("trace", traced, act="trace"))
    return rules


def node_rules(
    traced: When, node: str, family: str, cluster_cidr: str, services: Iterable[Service], choose: Callable[[int], int]
) -> RuleSet:
    """All rules of a node; ``choose`` picks one of so many endpoints, as "statistic" does by chance."""
    rules = trace_rules(traced)
    for table, chain, priority in (
        ("nat", "PREROUTING", -100),
        ("nat", "OUTPUT", -100),
        ("nat", "POSTROUTING", 100),
        ("filter", "INPUT", 0),
        ("filter", "FORWARD", 0),
        ("filter", "OUTPUT", 0),
    ):
        rules.add_base(family, table, chain, chain, priority)
    _Writer(rules, node, family, cluster_cidr).write(list(services), choose)
    return rules


class _Writer:
    def __init__(self, rules: RuleSet, node: str, family: str, cluster_cidr: str) -> None:
        self.rules = rules
        self.node = node
        self.family = family
        self.cidr = cluster_cidr
        self.width = 32 if family == "ip" else 128

    def nat(self, chain: str, text: str, when: When, verdict: str = "jump", target: str = "", act: str = "") -> None:
        self.rules.add((self.family, "nat", chain), Rule(text, when, verdict, target, act))

    def filter(self, chain: str, text: str, when: When, verdict: str = "jump", target: str = "", act: str = "") -> None:
        self.rules.add((self.family, "filter", chain), Rule(text, when, verdict, target, act))

    def jump(self, table: str, chain: str, target: str, *, new: bool = False) -> None:
        text = f"-m conntrack --ctstate NEW -j {target}" if new else f"-j {target}"
        when = (lambda it: it.state == "NEW") if new else _always
        self.rules.add((self.family, table, chain), Rule(text, when, "jump", target))
        self.rules.chains.setdefault((self.family, table, target), [])

    def write(self, services: list[Service], choose: Callable[[int], int]) -> None:
        self._entries()
        for service in services:
            self._service(service, choose)
        local = "-m addrtype --dst-type LOCAL -j KUBE-NODEPORTS"
        self.nat("KUBE-SERVICES", local, lambda it: it.is_local, target="KUBE-NODEPORTS")
        self.nat("KUBE-MARK-MASQ", "-j MARK --set-xmark 0x4000/0x4000", _always, "continue", act="mark")
        unmarked = "-m mark ! --mark 0x4000/0x4000 -j RETURN"
        self.nat("KUBE-POSTROUTING", unmarked, lambda it: not it.mark, "return")
        self.nat("KUBE-POSTROUTING", "-j MARK --set-xmark 0x4000/0x0", _always, "continue", act="unmark")
        self.nat("KUBE-POSTROUTING", "-j MASQUERADE --random-fully", _always, "accept", act="masquerade")
        invalid = "-m conntrack --ctstate INVALID -j DROP"
        self.filter("KUBE-FORWARD", invalid, lambda it: it.state == "INVALID", "drop")
        marked = "-m mark --mark 0x4000/0x4000 -j ACCEPT"
        self.filter("KUBE-FORWARD", marked, lambda it: bool(it.mark), "accept")
        known = "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"
        self.filter("KUBE-FORWARD", known, lambda it: it.state in ("ESTABLISHED", "RELATED"), "accept")

    def _entries(self) -> None:
        self.jump("nat", "PREROUTING", "KUBE-SERVICES")
        self.jump("nat", "OUTPUT", "KUBE-SERVICES")
        self.jump("nat", "POSTROUTING", "KUBE-POSTROUTING")
        self.jump("filter", "INPUT", "KUBE-FIREWALL")
        self.jump("filter", "INPUT", "KUBE-PROXY-FIREWALL", new=True)
        self.jump("filter", "INPUT", "KUBE-NODEPORTS")
        self.jump("filter", "INPUT", "KUBE-EXTERNAL-SERVICES", new=True)
        self.jump("filter", "FORWARD", "KUBE-PROXY-FIREWALL", new=True)
        self.jump("filter", "FORWARD", "KUBE-FORWARD")
        self.jump("filter", "FORWARD", "KUBE-SERVICES", new=True)
        self.jump("filter", "FORWARD", "KUBE-EXTERNAL-SERVICES", new=True)
        self.jump("filter", "OUTPUT", "KUBE-FIREWALL")
        self.jump("filter", "OUTPUT", "KUBE-PROXY-FIREWALL", new=True)
        self.jump("filter", "OUTPUT", "KUBE-SERVICES", new=True)
        for chain in ("KUBE-NODEPORTS", "KUBE-MARK-MASQ"):
            self.rules.chains.setdefault((self.family, "nat", chain), [])

    def _service(self, service: Service, choose: Callable[[int], int]) -> None:
        to_cluster_ip = _to(service.protocol, service.cluster_ip, service.port)
        to_node_port = _to(service.protocol, None, service.node_port)
        ip = f"-d {service.cluster_ip}/{self.width} -p {service.protocol}"
        port = f"-p {service.protocol} -m comment --comment"
        if not service.endpoints:
            none = f'--comment "{service.name} has no endpoints"'
            answer = "icmp-port-unreachable" if self.family == "ip" else "icmp6-port-unreachable"
            reject = f"{none} --dport {service.port} -j REJECT --reject-with {answer}"
            self.filter("KUBE-SERVICES", f"{ip} {reject}", to_cluster_ip, "drop", act="reject")
            reject = f"{none} --dport {service.node_port} -j REJECT --reject-with {answer}"
            self.filter("KUBE-EXTERNAL-SERVICES", reject, _both(to_node_port, _is_local), "drop", act="reject")
            return
        svc, ext = f"KUBE-SVC-{service.hashed()}", f"KUBE-EXT-{service.hashed()}"
        name = f'-m comment --comment "{service.name} cluster IP" --dport {service.port}'
        self.nat("KUBE-SERVICES", f"{ip} {name} -j {svc}", to_cluster_ip, target=svc)
        outside = f"! -s {self.cidr} {ip} {name} -j KUBE-MARK-MASQ"
        self.nat(svc, outside, _both(to_cluster_ip, _not(self._from(self.cidr))), target="KUBE-MARK-MASQ")
        self._choices(service, svc, service.endpoints, choose)
        name = f'{port} "{service.name}" --dport {service.node_port}'
        if self.family == "ip":
            self.nat(
                "KUBE-NODEPORTS", f"-d 127.0.0.0/8 {name} -j {ext}", _both(to_node_port, _to_localhost), target=ext
            )
        self.nat("KUBE-NODEPORTS", f"{name} -j {ext}", to_node_port, target=ext)
        if not service.local:
            self.nat(ext, "-j KUBE-MARK-MASQ", _always, target="KUBE-MARK-MASQ")
            self.nat(ext, f"-j {svc}", _always, target=svc)
            return
        here = tuple(each for each in service.endpoints if each[2] == self.node)
        self.nat(ext, f"-s {self.cidr} -j {svc}", self._from(self.cidr), target=svc)
        if here:
            svl = f"KUBE-SVL-{service.hashed()}"
            self.nat(ext, f"-j {svl}", _always, target=svl)
            self._choices(service, svl, here, choose)
        else:
            text = f'{port} "{service.name} has no local endpoints" --dport {service.node_port} -j DROP'
            self.filter("KUBE-EXTERNAL-SERVICES", text, _both(to_node_port, _is_local), "drop")

    def _choices(
        self,
        service: Service,
        chain: str,
        endpoints: tuple[tuple[str, int, str], ...],
        choose: Callable[[int], int],
    ) -> None:
        chosen = choose(len(endpoints))
        for number, (address, port, _) in enumerate(endpoints):
            sep = f"KUBE-SEP-{service.hashed(address)}"
            to = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
            text = f'-m comment --comment "{service.name} -> {to}" -j {sep}'
            self.nat(chain, text, _always if number == chosen else _never, target=sep)
            if (self.family, "nat", sep) in self.rules.chains:
                continue
            hairpin = f'-s {address}/{self.width} -m comment --comment "{service.name}" -j KUBE-MARK-MASQ'
            self.nat(sep, hairpin, self._from(f"{address}/{self.width}"), target="KUBE-MARK-MASQ")
            dnat = f'-p {service.protocol} -m comment --comment "{service.name}" -j DNAT --to-destination {to}'
            self.nat(sep, dnat, _always, "accept", to, "dnat")

    def _from(self, cidr: str) -> When:
        network = ip_network(cidr)
        return lambda it: ip_address(it.packet.source) in network


_NUMBERS = {"tcp": 6, "udp": 17, "sctp": 132}


def _to(protocol: str, address: str | None, port: int) -> When:
    def matches(it: Circumstances) -> bool:
        packet = it.packet
        return (
            packet.protocol == _NUMBERS[protocol]
            and (address is None or packet.destination == address)
            and packet.destination_port == port
        )

    return matches


def _always(it: Circumstances) -> bool:
    return True


def _never(it: Circumstances) -> bool:
    return False


def _is_local(it: Circumstances) -> bool:
    return it.is_local


def _to_localhost(it: Circumstances) -> bool:
    return it.packet.destination.startswith("127.")


def _both(one: When, other: When) -> When:
    return lambda it: one(it) and other(it)


def _not(one: When) -> When:
    return lambda it: not one(it)
