"""What iptables rules do with the first packet of a connection: every outcome that chance allows."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from ipaddress import ip_address, ip_network
from typing import NamedTuple

from netlab.proxy.iptables.ruleset import RuleSet, Table

_LAST_WORDS = ("ACCEPT", "DROP", "REJECT", "MASQUERADE", "DNAT")
_IGNORED = ("-m", "--comment", "--nfacct-name", "--mode", "--probability", "--name", "--mask", "--seconds")
_IGNORED_FLAGS = ("--set", "--reap", "--rsource", "--random-fully")


@dataclass(frozen=True)
class Packet:
    """The first packet of a connection. ``interface`` None: a process of the node itself sends it."""

    source: str
    destination: str
    port: int
    protocol: str = "tcp"
    interface: str | None = None
    marked: bool = False
    translated: bool = False


class Outcome(NamedTuple):
    """``verdict``: "answer" where an endpoint gets the packet, "reject", "drop", or "untouched"."""

    verdict: str
    endpoint: str | None = None
    masqueraded: bool = False


def outcomes(rules: RuleSet, packet: Packet, local: frozenset[str]) -> set[Outcome]:
    """All that may happen to the packet on a node with the addresses ``local``."""
    return set(_outcomes(_Evaluation(rules, local), packet))


def _outcomes(node: _Evaluation, packet: Packet) -> Iterator[Outcome]:
    first = "OUTPUT" if packet.interface is None else "PREROUTING"
    for word, after in node.walk("nat", first, packet):
        hook = first if packet.interface is None else "INPUT" if node.is_local(after.destination) else "FORWARD"
        for verdict, passed in node.walk("filter", hook, replace(after, translated=word == "DNAT")):
            if verdict in ("DROP", "REJECT"):
                yield Outcome(verdict.lower())
            else:
                for last, _ in node.walk("nat", "POSTROUTING", passed):
                    yield _delivered(passed, masqueraded=last == "MASQUERADE")


def _delivered(packet: Packet, *, masqueraded: bool) -> Outcome:
    if not packet.translated:
        return Outcome("untouched", None, masqueraded)
    return Outcome("answer", f"{packet.destination}:{packet.port}", masqueraded)


@dataclass(frozen=True)
class _Evaluation:
    rules: RuleSet
    local: frozenset[str]

    def is_local(self, address: str) -> bool:
        return address in self.local or ip_address(address).is_loopback

    def walk(self, table: str, chain: str, packet: Packet) -> Iterator[tuple[str, Packet]]:
        """How the packet may leave a chain: by a last word, or at its end ("")."""
        there = self.rules.tables[table]
        waiting, returned = [packet], []
        for rule in _rules_of(there, chain):
            still = []
            for each in waiting:
                target, options = self.match(rule, each)
                if target is None or "--probability" in rule:
                    still.append(each)
                if target is None:
                    continue
                if target == "RETURN":
                    returned.append(each)
                elif target in _LAST_WORDS:
                    yield target, _translated(each, options) if target == "DNAT" else each
                elif target == "MARK":
                    value, _, mask = options["--set-xmark"].partition("/")
                    still.append(replace(each, marked=value == mask))
                else:
                    for word, after in self.walk(table, target, each):
                        if word:
                            yield word, after
                        else:
                            still.append(after)
            waiting = still
        yield from (("", each) for each in (*waiting, *returned))

    def match(self, rule: str, packet: Packet) -> tuple[str | None, dict[str, str]]:
        """The rule's target and its options, or None where the packet does not match."""
        words = iter(shlex.split(rule))
        negated = False
        for word in words:
            if word == "!":
                negated = True
                continue
            if word == "-j":
                target = next(words)
                rest = [each for each in words if each not in _IGNORED_FLAGS]
                return target, dict(zip(rest[::2], rest[1::2], strict=True))
            if word in _IGNORED_FLAGS:
                continue
            if word == "--rcheck":
                return None, {}
            value = next(words)
            if word not in _IGNORED and self.holds(word, value, packet) == negated:
                return None, {}
            negated = negated and word in _IGNORED
        raise AssertionError(f"a rule without a target: {rule}")

    def holds(self, word: str, value: str, packet: Packet) -> bool:
        if word in ("-s", "-d"):
            return ip_address(packet.source if word == "-s" else packet.destination) in ip_network(value)
        if word == "-p":
            return value == packet.protocol
        if word == "--dport":
            return int(value) == packet.port
        if word == "-i":
            interface = packet.interface or ""
            return interface.startswith(value[:-1]) if value.endswith("+") else interface == value
        if word in ("--dst-type", "--src-type"):
            assert value == "LOCAL"
            return self.is_local(packet.destination if word == "--dst-type" else packet.source)
        if word == "--ctstate":
            return "NEW" in value.split(",") or ("DNAT" in value.split(",") and packet.translated)
        if word == "--mark":
            return packet.marked
        raise AssertionError(f"not understood: {word} {value}")


def _rules_of(table: Table, chain: str) -> list[str]:
    rules = table.built_in.get(chain, ()) if chain not in table.chains else table.chains[chain]
    return [rule.text for rule in rules if rule.text]


def _translated(packet: Packet, options: dict[str, str]) -> Packet:
    address, _, port = options["--to-destination"].rpartition(":")
    return replace(packet, destination=address.strip("[]"), port=int(port), translated=True)
