"""Rules of iptables as values: what tables, chains and rules there are to be, and what differs from what there is.

A rule is kept in the form in which ``iptables-save`` prints it, so that a wanted rule and a rule read back from the
kernel are equal as texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from netlab.model.keys import Origin

BUILT_IN = {
    "mangle": ("PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"),
    "filter": ("INPUT", "FORWARD", "OUTPUT"),
    "nat": ("PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"),
}
TABLES = ("mangle", "filter", "nat")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule without its chain ("-d 10.96.0.10/32 -p tcp … -j KUBE-SVC-…"), and what caused it."""

    text: str
    origin: Origin | None = None


@dataclass(slots=True)
class Table:
    """One table: rules in its built-in chains, and its other chains with their rules, in order."""

    built_in: dict[str, tuple[Rule, ...]] = field(default_factory=dict)
    chains: dict[str, tuple[Rule, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class RuleSet:
    """All tables of one address family."""

    tables: dict[str, Table] = field(default_factory=lambda: {name: Table() for name in TABLES})

    def rule_count(self) -> int:
        return sum(
            len(rules) for table in self.tables.values() for rules in (*table.built_in.values(), *table.chains.values())
        )


def save_text(rule_set: RuleSet) -> str:
    """The rule set as ``iptables-save`` would print it, without counters, times and policies' packet counts."""
    lines: list[str] = []
    for name in TABLES:
        table = rule_set.tables[name]
        lines.append(f"*{name}")
        lines += [f":{chain} ACCEPT" for chain in BUILT_IN[name]]
        lines += [f":{chain} -" for chain in sorted(table.chains)]
        for chain in BUILT_IN[name]:
            lines += _rule_lines(chain, table.built_in.get(chain, ()))
        for chain in sorted(table.chains):
            lines += _rule_lines(chain, table.chains[chain])
        lines.append("COMMIT")
    return "\n".join(lines) + "\n"


def _rule_lines(chain: str, rules: Iterable[Rule]) -> list[str]:
    return [f"-A {chain} {rule.text}".rstrip() for rule in rules]


def parse_save(text: str) -> RuleSet:
    """The inverse of ``iptables-save`` (origins unknown); tables that kube-proxy does not use are passed over.

    Counters ("[0:0]") and comments (lines with "#") are ignored.
    """
    rule_set = RuleSet()
    table: Table | None = None
    built_in: tuple[str, ...] = ()
    collected: dict[str, list[Rule]] = {}
    for line in text.splitlines():
        if line.startswith("*"):
            table = rule_set.tables.get(line[1:].strip())
            built_in = BUILT_IN.get(line[1:].strip(), ())
            collected = {}
        elif table is None:
            continue
        elif line.startswith(":"):
            name = line[1:].split(" ", 1)[0]
            collected[name] = []
        elif line.startswith("-A "):
            _, chain, *rest = line.split(" ", 2)
            collected.setdefault(chain, []).append(Rule(rest[0] if rest else ""))
        elif line.startswith("COMMIT"):
            for name, rules in collected.items():
                (table.built_in if name in built_in else table.chains)[name] = tuple(rules)
            table = None
    return rule_set


@dataclass(frozen=True, slots=True)
class TableChange:
    """What has to change in one table: jumps to add at the head of built-in chains (in final order), chains to write
    (made or emptied first), chains to delete; and the rules that are in the chains to write until then."""

    jumps: Mapping[str, tuple[Rule, ...]]
    written: Mapping[str, tuple[Rule, ...]]
    deleted: tuple[str, ...]
    replaced: Mapping[str, tuple[Rule, ...]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.jumps or self.written or self.deleted)


def difference(name: str, wanted: Table, current: Table) -> TableChange:
    """What turns ``current`` into ``wanted`` without touching what is not kube-proxy's.

    In built-in chains wanted rules that are there stay where they are; missing ones go in front, as kube-proxy puts
    them. Of the other chains, those that are not wanted are deleted only if kube-proxy made them for a Service, and
    only emptied where a rule of somebody else leads there: the kernel would refuse to delete them.
    """
    from netlab.proxy.iptables.names import is_service_chain

    jumps = {}
    for chain in BUILT_IN[name]:
        there = {rule.text for rule in current.built_in.get(chain, ())}
        missing = tuple(rule for rule in wanted.built_in.get(chain, ()) if rule.text not in there)
        if missing:
            jumps[chain] = missing
    written = {
        chain: rules
        for chain, rules in wanted.chains.items()
        if chain not in current.chains or not same_rules(rules, current.chains[chain])
    }
    gone = [chain for chain in current.chains if chain not in wanted.chains and is_service_chain(chain)]
    foreign = [rules for chain, rules in current.chains.items() if chain not in wanted.chains and chain not in gone]
    held = {target(rule) for rules in (*current.built_in.values(), *foreign) for rule in rules}
    written |= {chain: () for chain in gone if chain in held and current.chains[chain]}
    replaced = {chain: current.chains[chain] for chain in written if chain in current.chains}
    return TableChange(jumps, written, tuple(chain for chain in gone if chain not in held), replaced)


def target(rule: Rule) -> str:
    """Where a rule jumps or goes to; "" for one that only counts."""
    words = f" {rule.text} ".replace(" -g ", " -j ").rpartition(" -j ")
    return words[2].partition(" ")[0] if words[1] else ""


def same_rules(left: tuple[Rule, ...], right: tuple[Rule, ...]) -> bool:
    """Equal as texts: origins do not count."""
    return len(left) == len(right) and all(a.text == b.text for a, b in zip(left, right, strict=True))
