"""A node's rules as a tree that follows jumps: under a rule that jumps, the rules of the chain that it jumps to.

Branches are made when they are looked at: a chain that many rules jump to appears under each of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from netlab.model.keys import Origin
from netlab.model.rulebook import IPTABLES_TABLES
from netlab.model.walk import Step

_JUMP = re.compile(r"(?:^|\s)(?:-j|-g|jump|goto)\s+(\S+)")
BASE = ("PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING")


class RuleItem(msgspec.Struct, frozen=True):
    """A rule as the engine lists it."""

    family: str
    table: str
    chain: str
    handle: int
    text: str
    position: int = 0
    origin: Origin | None = None


class NodeRules(msgspec.Struct, frozen=True):
    """What the engine answers: a node's rules as values, and as its tool prints them."""

    node: str
    mode: str
    text: str
    items: list[RuleItem]


@dataclass(eq=False)
class Branch:
    """A chain, or a rule; ``row`` is its place among its parent's children."""

    tree: RuleTree
    parent: Branch | None
    row: int
    table: str
    chain: str
    rule: RuleItem | None = None
    family: str = "ip"
    _children: list[Branch] | None = field(default=None, repr=False)

    @property
    def key(self) -> tuple[str, str, str]:
        """What a step of a walk is compared with."""
        return (self.table, self.chain, self.rule.text if self.rule is not None else "")

    @property
    def target(self) -> str | None:
        """The chain that a rule jumps to."""
        if self.rule is None:
            return self.chain
        found = _JUMP.search(self.rule.text)
        name = found.group(1) if found is not None else None
        return name if name is not None and self.tree.has(self.family, self.table, name) else None

    @property
    def children(self) -> list[Branch]:
        if self._children is None:
            target = self.target
            rules = self.tree.rules_of(self.family, self.table, target) if target is not None else []
            self._children = [
                Branch(self.tree, self, row, self.table, rule.chain, rule, self.family)
                for row, rule in enumerate(rules)
                if not self._above(rule)
            ]
        return self._children

    def _above(self, rule: RuleItem) -> bool:
        """Chains cannot call themselves; a damaged listing may look as if they did."""
        at: Branch | None = self
        while at is not None:
            if at.rule is rule:
                return True
            at = at.parent
        return False


class RuleTree:
    """``roots``: the chains that nothing jumps to, base chains first; or, of a search, the rules that match."""

    def __init__(self, items: Iterable[RuleItem], wanted: str = "") -> None:
        self._chains: dict[tuple[str, str, str], list[RuleItem]] = {}
        for item in items:
            self._chains.setdefault((item.family, item.table, item.chain), []).append(item)
        for rules in self._chains.values():
            rules.sort(key=lambda rule: rule.position)
        self.roots = self._matching(wanted) if wanted.strip() else self._unreached()

    def has(self, family: str, table: str, chain: str) -> bool:
        return (family, table, chain) in self._chains

    def rules_of(self, family: str, table: str, chain: str) -> list[RuleItem]:
        return self._chains.get((family, table, chain), [])

    def _unreached(self) -> list[Branch]:
        reached = {
            (family, table, found)
            for (family, table, _), rules in self._chains.items()
            for rule in rules
            for found in _JUMP.findall(rule.text)
        }
        names = [key for key in self._chains if key not in reached or key[2] in BASE]
        return [
            Branch(self, None, row, key[1], key[2], None, key[0]) for row, key in enumerate(sorted(names, key=_order))
        ]

    def _matching(self, wanted: str) -> list[Branch]:
        words = wanted.casefold().split()
        found = [
            rule
            for key in sorted(self._chains, key=_order)
            for rule in self._chains[key]
            if all(word in _searched(rule) for word in words)
        ]
        return [Branch(self, None, row, rule.table, rule.chain, rule, rule.family) for row, rule in enumerate(found)]

    def find(self, step: Step, ways: set[tuple[str, str, str]]) -> Branch | None:
        """The branch of a step's rule, on the way that the packet went (``ways``: all rules that it came by)."""
        return self._find((step.table or "", step.chain or "", step.rule or ""), ways, self.roots, 0)

    def _find(
        self, wanted: tuple[str, str, str], ways: set[tuple[str, str, str]], within: list[Branch], depth: int
    ) -> Branch | None:
        for branch in within:
            if branch.rule is not None and branch.key == wanted:
                return branch
            on_way = branch.rule is None or branch.key in ways
            if on_way and depth < _DEEPEST and branch.table == wanted[0] and branch.target is not None:
                found = self._find(wanted, ways, branch.children, depth + 1)
                if found is not None:
                    return found
        return None


_DEEPEST = 12


def _order(key: tuple[str, str, str]) -> tuple[object, ...]:
    family, table, chain = key
    tables = IPTABLES_TABLES.index(table) if table in IPTABLES_TABLES else len(IPTABLES_TABLES)
    chains = next((at for at, base in enumerate(BASE) if chain.upper().endswith(base)), len(BASE))
    return (family != "ip", family, chains == len(BASE), tables, table, chains, chain)


def _searched(rule: RuleItem) -> str:
    origin = f"{rule.origin.object} {rule.origin.field}" if rule.origin is not None else ""
    return f"{rule.table} {rule.chain} {rule.text} {origin}".casefold()


def passed(steps: Iterable[Step], node: str) -> set[tuple[str, str, str]]:
    """The rules of a node that a walk came by."""
    return {
        (step.table or "", step.chain or "", step.rule)
        for step in steps
        if step.place == node and step.rule is not None
    }
