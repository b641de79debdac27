"""Probes worth sending: who sends what where, in which labs, and what has to come of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.unit.packets.rules import Circumstances, Rule, RuleSet, Service
from tests.unit.packets.simulated_lab import CLIENT, CURL, NODE_A, NODE_B, WEB_1, WEB_3, Setup
from tests.unit.packets.wire import TCP

BARE = "bare"
"""A UDP datagram without payload: nothing marks it but the identification in its IP header, and its answer nothing but
the ports."""

BARE_PING = "bare ping"
"""A ping without payload: it is known by its sequence number."""

ACK_ONLY = "ack"
"""A TCP segment of no connection: it is answered with a reset that acknowledges nothing."""


@dataclass(frozen=True)
class Scenario:
    """One probe. ``to``: "cluster-ip", "localhost", a place's name (for a Service, its nodePort there), or one of the
    addresses that nobody has, "nobody", "nowhere", "unused". ``verdict`` is the walk's verdict, ``endpoint`` the place
    that the request reaches. ``is_lost``: the kernel drops it without a word."""

    name: str
    origin: str
    service: str | None
    to: str
    protocol: str = "tcp"
    port: int | None = None
    verdict: str = "answered"
    endpoint: str | None = None
    hops: int = 64
    is_lost: bool = False
    user: tuple[UserRule | DropPolicy, ...] = ()
    setups: Callable[[Setup], bool] = bool


def services(family: int) -> dict[str, Service]:
    """The lab's Services by name."""
    six = family == 6
    web_1, web_2, web_3 = (
        ("fd00:200:1::2", "fd00:200:1::3", "fd00:200:2::20") if six else ("10.200.1.2", "10.200.1.3", "10.200.2.20")
    )
    node_b = "fd00:60::b" if six else "192.168.60.124"
    near, twin, far = (web_1, 80, NODE_A), (web_2, 80, NODE_A), (web_3, 80, NODE_B)
    on_host = (node_b, 8080, NODE_B)
    found: dict[str, Service] = {}
    number = 16
    for protocol in ("tcp", "udp", "sctp"):
        for name, endpoints, local in (
            ("near", (near,), False),
            ("far", (far,), False),
            ("all", (near, twin, far), False),
            ("local", (far,), True),
            ("empty", (), False),
            ("closed", ((web_3, 81, NODE_B),), False),
            ("host", (on_host,), False),
        ):
            number += 1
            ip = f"fd00:96::{number}" if six else f"10.96.0.{number}"
            key = f"{name}/{protocol}"
            found[key] = Service(
                f"default/{name}-{protocol}", protocol, ip, 80, 30000 + number, tuple(endpoints), local
            )
    return found


@dataclass(frozen=True)
class UserRule:
    """A rule that is not kube-proxy's, first in a base chain of iptables. It matches TCP to ``port``."""

    place: str
    table: str
    chain: str
    port: int
    target: str
    act: str = ""
    to: str = ""

    @property
    def command(self) -> str:
        """What sets it on a real node."""
        return f"iptables -t {self.table} -I {self.chain} -p tcp {self.text}"

    @property
    def text(self) -> str:
        return f"--dport {self.port} -j {self.target}"

    def set(self, rules: RuleSet, family: str) -> None:
        key = (family, self.table, self.chain)
        if all(base.key != key for base in rules.base):
            rules.add_base(*key, self.chain, _PRIORITIES[self.table])
        verdict = "accept" if self.act and self.act not in ("reject", "reset") else "drop"
        rule = Rule(f"-p tcp -m tcp {self.text}", self._matches, verdict, self.to, self.act)
        rules.add(key, rule, first=True)

    def _matches(self, it: Circumstances) -> bool:
        return it.packet.protocol == TCP and it.packet.destination_port == self.port


@dataclass(frozen=True)
class DropPolicy:
    """The policy DROP for a chain of the table "filter"."""

    place: str
    chain: str

    @property
    def command(self) -> str:
        return f"iptables -P {self.chain} DROP"

    def set(self, rules: RuleSet, family: str) -> None:
        rules.policies[family, "filter", self.chain] = "drop"


_PRIORITIES = {"raw": -300, "mangle": -150, "filter": 0, "nat": -100}


def _bridged_without_filter(setup: Setup) -> bool:
    return setup.wiring == "bridge" and not setup.bridge_netfilter


def _translated_back(setup: Setup) -> bool:
    """An answer between two Pods of one node passes conntrack."""
    return not _bridged_without_filter(setup)


def _routed(setup: Setup) -> bool:
    return setup.between_nodes == "routed"


def _only_routed(setup: Setup) -> bool:
    return setup.wiring == "ptp" and _routed(setup)


def _without_hairpin(setup: Setup) -> bool:
    return setup.wiring == "bridge" and setup.bridge_netfilter and not setup.hairpin


def _with_hairpin(setup: Setup) -> bool:
    return setup.hairpin or setup.wiring == "ptp"


SCENARIOS = (
    Scenario("client to nodePort, endpoint there", CLIENT, "near", NODE_A, endpoint=WEB_1),
    Scenario("client to nodePort, endpoint elsewhere", CLIENT, "far", NODE_A, endpoint=WEB_3),
    Scenario("client to nodePort of the endpoint's node", CLIENT, "local", NODE_B, endpoint=WEB_3),
    Scenario("client to nodePort without local endpoint", CLIENT, "local", NODE_A, verdict="dropped"),
    Scenario("client to nodePort without endpoints", CLIENT, "empty", NODE_A, verdict="rejected"),
    Scenario("client to a closed port of a Pod", CLIENT, "closed", NODE_A, verdict="refused", endpoint=WEB_3),
    Scenario("client to a Pod on its node's network", CLIENT, "host", NODE_A, endpoint=NODE_B),
    Scenario("client to a closed port of a node", CLIENT, None, NODE_A, port=9, verdict="refused"),
    Scenario("client to nobody", CLIENT, None, "nobody", port=9, verdict="no-reply"),
    Scenario("client to no route", CLIENT, None, "nowhere", port=9, verdict="unreachable"),
    Scenario("hops used up on the way", CLIENT, "far", NODE_A, hops=2, verdict="unreachable", setups=_routed),
    Scenario("Pod to clusterIP, endpoint elsewhere", CURL, "far", "cluster-ip", endpoint=WEB_3),
    Scenario(
        "Pod to clusterIP, endpoint beside it",
        CURL,
        "near",
        "cluster-ip",
        endpoint=WEB_1,
        setups=_translated_back,
    ),
    Scenario(
        "answer past conntrack",
        CURL,
        "near",
        "cluster-ip",
        verdict="no-reply",
        endpoint=WEB_1,
        setups=_bridged_without_filter,
    ),
    Scenario("Pod to itself by its Service", WEB_1, "near", "cluster-ip", endpoint=WEB_1, setups=_with_hairpin),
    Scenario(
        "Pod to itself, port without hairpin",
        WEB_1,
        "near",
        "cluster-ip",
        verdict="no-reply",
        is_lost=True,
        setups=_without_hairpin,
    ),
    Scenario("round and round", CURL, None, "unused", port=9, verdict="unreachable", setups=_only_routed),
    Scenario(
        "back to where it came from",
        NODE_A,
        None,
        "unused",
        port=9,
        verdict="no-reply",
        is_lost=True,
        setups=lambda setup: setup.family == 4 and _only_routed(setup),
    ),
    Scenario("segment of no connection", CLIENT, "far", NODE_A, ACK_ONLY, verdict="refused", endpoint=WEB_3),
    Scenario("Pod to clusterIP without endpoints", CURL, "empty", "cluster-ip", verdict="rejected"),
    Scenario("Pod to the other node's nodePort and back", CURL, "near", NODE_B, endpoint=WEB_1),
    Scenario("Pod to the other node's nodePort", CURL, "far", NODE_B, endpoint=WEB_3),
    Scenario("Pod to Pod beside it", CURL, None, WEB_1, port=80, endpoint=WEB_1),
    Scenario("Pod to Pod elsewhere", CURL, None, WEB_3, port=80, endpoint=WEB_3),
    Scenario("Pod to host network", CURL, "host", "cluster-ip", endpoint=NODE_B),
    Scenario("node to clusterIP, endpoint there", NODE_A, "near", "cluster-ip", endpoint=WEB_1),
    Scenario("node to clusterIP, endpoint elsewhere", NODE_A, "far", "cluster-ip", endpoint=WEB_3),
    Scenario("node to its own nodePort", NODE_A, "far", NODE_A, endpoint=WEB_3),
    Scenario(
        "node to a nodePort at localhost", NODE_A, "far", "localhost", endpoint=WEB_3, setups=lambda it: it.family == 4
    ),
    Scenario("node to the other node's nodePort and back", NODE_B, "far", NODE_A, endpoint=WEB_3),
    Scenario("node to a closed port of its own", NODE_A, None, NODE_A, port=9, verdict="refused"),
    Scenario("node to clusterIP without endpoints", NODE_A, "empty", "cluster-ip", verdict="rejected"),
    Scenario("node to itself by a Service", NODE_B, "host", "cluster-ip", endpoint=NODE_B),
    Scenario(
        "dropped by a rule in FORWARD",
        CURL,
        "far",
        "cluster-ip",
        verdict="dropped",
        user=(UserRule(NODE_B, "filter", "FORWARD", 80, "DROP"),),
    ),
    Scenario(
        "dropped by the policy of FORWARD",
        CURL,
        None,
        WEB_3,
        port=80,
        verdict="dropped",
        user=(DropPolicy(NODE_A, "FORWARD"),),
    ),
    Scenario(
        "reset by a rule",
        CURL,
        None,
        WEB_3,
        port=80,
        verdict="rejected",
        user=(UserRule(NODE_B, "filter", "FORWARD", 80, "REJECT --reject-with tcp-reset", "reset"),),
    ),
    Scenario(
        "reset where it was translated",
        CLIENT,
        "far",
        NODE_A,
        verdict="rejected",
        user=(UserRule(NODE_A, "filter", "FORWARD", 80, "REJECT --reject-with tcp-reset", "reset"),),
    ),
    Scenario(
        "rejected where it was translated",
        CURL,
        "far",
        "cluster-ip",
        verdict="rejected",
        user=(UserRule(NODE_A, "filter", "FORWARD", 80, "REJECT", "reject"),),
    ),
    Scenario(
        "redirected by a user's rule",
        CLIENT,
        None,
        NODE_A,
        port=7777,
        verdict="refused",
        user=(UserRule(NODE_A, "nat", "PREROUTING", 7777, "REDIRECT --to-ports 9", "redirect", ":9"),),
    ),
    Scenario(
        "masqueraded by a user's rule",
        CURL,
        None,
        WEB_3,
        port=80,
        endpoint=WEB_3,
        user=(UserRule(NODE_A, "nat", "POSTROUTING", 80, "MASQUERADE", "masquerade"),),
    ),
    Scenario("UDP to nodePort, endpoint elsewhere", CLIENT, "far", NODE_A, "udp", endpoint=WEB_3),
    Scenario("UDP to a closed port", CLIENT, "closed", NODE_A, "udp", verdict="refused", endpoint=WEB_3),
    Scenario("UDP from a Pod to itself", WEB_1, "near", "cluster-ip", "udp", endpoint=WEB_1, setups=_with_hairpin),
    Scenario("UDP to a clusterIP without endpoints", CURL, "empty", "cluster-ip", "udp", verdict="rejected"),
    Scenario("UDP from a node", NODE_A, "far", "cluster-ip", "udp", endpoint=WEB_3),
    Scenario("datagram without payload", CLIENT, "near", NODE_A, BARE, endpoint=WEB_1),
    Scenario(
        "datagram without payload to a closed port", CLIENT, "closed", NODE_A, BARE, verdict="refused", endpoint=WEB_3
    ),
    Scenario("SCTP to nodePort", CLIENT, "far", NODE_A, "sctp", verdict="unreachable", endpoint=WEB_3),
    Scenario("SCTP association", CLIENT, "near", NODE_A, "sctp", endpoint=WEB_1),
    Scenario("SCTP to a closed port", CURL, None, WEB_1, "sctp", port=9, verdict="refused", endpoint=WEB_1),
    Scenario("ping to a node", CLIENT, None, NODE_A, "icmp"),
    Scenario("ping to a Pod", CURL, None, WEB_3, "icmp", endpoint=WEB_3),
    Scenario("ping without payload", CLIENT, None, NODE_A, BARE_PING),
    Scenario("ping without payload to a Pod", CURL, None, WEB_3, BARE_PING, endpoint=WEB_3),
    Scenario("ping from a node", NODE_B, None, WEB_1, "icmp", endpoint=WEB_1),
    Scenario(
        "dropped before conntrack",
        CLIENT,
        "far",
        NODE_A,
        verdict="dropped",
        user=(UserRule(NODE_B, "raw", "PREROUTING", 80, "DROP"),),
    ),
)

_WIRINGS = (Setup(), Setup(bridge_netfilter=False), Setup(wiring="ptp"))

SETUPS = (
    *(
        replace(wiring, family=family, between_nodes=between, neighbours_known=known, ports_known=known)
        for family in (4, 6)
        for between in ("routed", "vxlan")
        for wiring in _WIRINGS
        for known in ((True, False) if wiring.wiring == "bridge" else (True,))
    ),
    Setup(hairpin=False),
    Setup(hairpin=False, neighbours_known=False),
)

CASES = tuple((setup, scenario) for setup in SETUPS for scenario in SCENARIOS if scenario.setups(setup))
