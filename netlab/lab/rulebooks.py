"""The rules of a place as the kernel has them, by handle: texts from the tools, causes from what the proxy computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from netlab.kernel import iptables, nftables
from netlab.lab.observatory import Watchpoint
from netlab.model.keys import Origin
from netlab.model.rulebook import Rulebook, RuleEntry

Causes = Mapping[tuple[str, str, str, str], Origin]
"""What caused a rule, by family ("ip"), table, chain and text."""

_IPTABLES: dict[str, Literal[4, 6]] = {"ip": 4, "ip6": 6}


class RulebookReader:
    """Reads a place's rulebook, and again only when its rules have changed: every commit raises the generation."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, Rulebook]] = {}

    def read(self, point: Watchpoint, causes: Callable[[], Causes]) -> Rulebook:
        """The rules in the place of the watchpoint, whose own commits do not count as changes.

        ``causes`` is asked only when rules are read anew.
        """
        generation = nftables.generation(point.control) - point.commits
        known = self._known.get(point.place)
        if known is not None and known[0] == generation:
            return known[1]
        rules = nftables.read_rule_set(point.control)
        texts: dict[tuple[str, str, str], list[str]] = {}
        families = {family for family, _, _ in rules.rules}
        with point.namespace.entered():
            for family in families & _IPTABLES.keys():
                texts |= _texts(family, iptables.save(_IPTABLES[family], point.place))
        book = _rulebook(rules, texts, causes() if texts else {})
        self._known[point.place] = (generation, book)
        return book


def _texts(family: str, saved: str) -> dict[tuple[str, str, str], list[str]]:
    """Rules by chain, in order, from what iptables-save prints."""
    texts: dict[tuple[str, str, str], list[str]] = {}
    table = ""
    for line in saved.splitlines():
        if line.startswith("*"):
            table = line[1:]
        elif line.startswith("-A "):
            _, chain, *rest = line.split(" ", 2)
            texts.setdefault((family, table, chain), []).append(rest[0] if rest else "")
    return texts


def _rulebook(rules: nftables.RuleSet, texts: Mapping[tuple[str, str, str], list[str]], causes: Causes) -> Rulebook:
    entries: dict[tuple[str, str, int], RuleEntry] = {}
    for (family, table, chain), handles in rules.rules.items():
        lines = texts.get((family, table, chain), [])
        if len(lines) != len(handles):
            # Rules that the tool does not print, or that changed in between: a walk says that it has no text.
            continue
        choices = sum("-j KUBE-SEP-" in line and "-m recent" not in line for line in lines)
        for position, (handle, text) in enumerate(zip(handles, lines, strict=True), 1):
            origin = causes.get((family, table, chain, text))
            entries[family, table, handle] = RuleEntry(table, chain, handle, text, position, choices, origin)
    return Rulebook(rules.base_chains, entries)
