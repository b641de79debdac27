"""The rules of a place as the kernel has them, by handle: texts from the tools, causes from what the proxy computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from netlab.kernel import iptables, nft, nftables
from netlab.lab.observatory import Watchpoint
from netlab.model.keys import Origin
from netlab.model.rulebook import IPTABLES_TABLES, ElementEntry, Rulebook, RuleEntry, ServerEntry

_IPTABLES: dict[str, Literal[4, 6]] = {"ip": 4, "ip6": 6}

RuleKey = tuple[str, str, str, str]
"""A rule by family ("ip"), table, chain and text."""


@dataclass(frozen=True)
class Causes:
    """What caused the rules of a node: each rule, each choice that a rule makes itself, each element that rules look up
    (by family, table, set or map, and key)."""

    rules: Mapping[RuleKey, Origin] = field(default_factory=dict)
    choices: Mapping[RuleKey, tuple[Origin, ...]] = field(default_factory=dict)
    elements: Mapping[tuple[str, str, str, str], ElementEntry] = field(default_factory=dict)
    servers: Mapping[tuple[str, str], ServerEntry] = field(default_factory=dict)


class RulebookReader:
    """Reads a place's rulebook, and again only when its rules have changed (every commit raises the generation) or the
    objects behind them: in mode ipvs these change virtual servers without a commit."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, int, Rulebook]] = {}

    def read(self, point: Watchpoint, revision: int, causes: Callable[[], Causes]) -> Rulebook:
        """The rules in the place of the watchpoint, whose own commits do not count as changes.

        ``revision`` is that of the objects; ``causes`` is asked only when rules are read anew.
        """
        generation = nftables.generation(point.control) - point.commits
        known = self._known.get(point.place)
        if known is not None and known[:2] == (generation, revision):
            return known[2]
        rules = nftables.read_rule_set(point.control)
        book = Rulebook(rules.base_chains)
        # The lab's own rules for tracing are nobody's cause.
        tables = sorted({(family, table) for family, table, _ in rules.rules if table != nftables.TRACE_TABLE})
        if tables:
            with point.namespace.entered():
                book = _read_rules(point.place, rules, tables, causes())
        self._known[point.place] = (generation, revision, book)
        return book


def _read_rules(place: str, rules: nftables.RuleSet, tables: list[tuple[str, str]], causes: Causes) -> Rulebook:
    entries: dict[tuple[str, str, int], RuleEntry] = {}
    saved: dict[str, dict[tuple[str, str], list[str]]] = {}
    for family, table in tables:
        if family in _IPTABLES and table in IPTABLES_TABLES:
            if family not in saved:
                saved[family] = _saved_texts(iptables.save(_IPTABLES[family], place))
            _add_iptables_rules(entries, family, table, rules, saved[family], causes)
        else:
            _add_native_rules(entries, family, table, rules, nft.list_rules(family, table, place), causes)
    return Rulebook(rules.base_chains, entries, dict(causes.elements), dict(causes.servers))


def _saved_texts(saved: str) -> dict[tuple[str, str], list[str]]:
    """Rules by table and chain, in order, from what iptables-save prints."""
    texts: dict[tuple[str, str], list[str]] = {}
    table = ""
    for line in saved.splitlines():
        if line.startswith("*"):
            table = line[1:]
        elif line.startswith("-A "):
            _, chain, *rest = line.split(" ", 2)
            texts.setdefault((table, chain), []).append(rest[0] if rest else "")
    return texts


def _add_iptables_rules(
    entries: dict[tuple[str, str, int], RuleEntry],
    family: str,
    table: str,
    rules: nftables.RuleSet,
    texts: Mapping[tuple[str, str], list[str]],
    causes: Causes,
) -> None:
    for (of_family, of_table, chain), handles in rules.rules.items():
        if (of_family, of_table) != (family, table):
            continue
        lines = texts.get((table, chain), [])
        if len(lines) != len(handles):
            # Rules that the tool does not print, or that changed in between: a walk says that it has no text.
            continue
        choices = sum("-j KUBE-SEP-" in line and "-m recent" not in line for line in lines)
        for position, (handle, text) in enumerate(zip(handles, lines, strict=True), 1):
            origin = causes.rules.get((family, table, chain, text))
            entries[family, table, handle] = RuleEntry(table, chain, handle, text, position, choices, origin)


def _add_native_rules(
    entries: dict[tuple[str, str, int], RuleEntry],
    family: str,
    table: str,
    rules: nftables.RuleSet,
    texts: Mapping[tuple[str, int], str],
    causes: Causes,
) -> None:
    for (of_family, of_table, chain), handles in rules.rules.items():
        if (of_family, of_table) != (family, table):
            continue
        for position, handle in enumerate(handles, 1):
            text = texts.get((chain, handle))
            if text is None:
                # It changed in between: a walk says that it has no text.
                continue
            key = (family, table, chain, text)
            picked = causes.choices.get(key, ())
            entries[family, table, handle] = RuleEntry(
                table,
                chain,
                handle,
                text,
                position,
                choices=len(picked),
                origin=causes.rules.get(key),
                native=True,
                choice_origins=picked,
            )
