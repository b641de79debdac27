"""The wanted rules of mode userspace, kept from sync to sync, and what changes in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from netlab.proxy.iptables.restore import restore_texts
from netlab.proxy.iptables.ruleset import Rule, RuleSet, TableChange, same_rules
from netlab.proxy.service_ports import ServicePortName
from netlab.proxy.userspace.rules import APPENDED, CHAINS, PREPENDED, PortRules, frame

_NOTHING = PortRules()


@dataclass(frozen=True, slots=True)
class Change:
    """What has to change: tables, and jumps that are to stand at the end of built-in chains."""

    tables: Mapping[str, TableChange]
    appended: Mapping[tuple[str, str], Rule]

    def texts(self) -> Iterator[str]:
        """What iptables-restore takes, one text for each call."""
        yield from restore_texts(self.tables)
        for table in sorted({table for table, _ in self.appended}):
            jumps = [f"-A {chain} {rule.text}" for (of, chain), rule in self.appended.items() if of == table]
            yield "\n".join([f"*{table}", *jumps, "COMMIT\n"])


@dataclass
class UserspaceState:
    """Rules by Service port. A port that is changed goes to the end of each chain, as it did: rules of one Service were
    deleted and appended one by one."""

    ports: dict[ServicePortName, PortRules] = field(default_factory=dict)

    def replace(self, changed: Mapping[ServicePortName, PortRules | None]) -> Change:
        """Take in new rules of some Service ports (None: the port is gone) and tell what changes."""
        touched: set[int] = set()
        before = {index: self._chain(index) for index in range(len(CHAINS))}
        for name, new in changed.items():
            old = self.ports.pop(name, _NOTHING)
            if new is not None:
                self.ports[name] = new
            pairs = zip(old.by_chain(), (new or _NOTHING).by_chain(), strict=True)
            touched |= {index for index, (left, right) in enumerate(pairs) if left != right}
        written: dict[str, dict[str, tuple[Rule, ...]]] = {"filter": {}, "nat": {}}
        replaced: dict[str, dict[str, tuple[Rule, ...]]] = {"filter": {}, "nat": {}}
        for index in sorted(touched):
            table, chain = CHAINS[index]
            after = self._chain(index)
            if not same_rules(before[index], after):
                written[table][chain], replaced[table][chain] = after, before[index]
        tables = {table: TableChange({}, written[table], (), replaced[table]) for table in written}
        return Change({table: change for table, change in tables.items() if change}, {})

    def _chain(self, index: int) -> tuple[Rule, ...]:
        return tuple(rule for rules in self.ports.values() for rule in rules.by_chain()[index])

    def wanted(self) -> RuleSet:
        """The whole rule set."""
        rule_set = frame()
        for index, (table, chain) in enumerate(CHAINS):
            rule_set.tables[table].chains[chain] = self._chain(index)
        return rule_set

    def full_change(self, current: RuleSet) -> Change:
        """What turns the rules that are there (as read from the kernel) into the wanted ones; others' rules stay."""
        wanted = self.wanted()
        tables: dict[str, TableChange] = {}
        for table in ("filter", "nat"):
            there = current.tables[table]
            chains = wanted.tables[table].chains
            jumps = {
                chain: (rule,)
                for (of, chain), rule in PREPENDED.items()
                if of == table and rule.text not in _texts(there.built_in.get(chain, ()))
            }
            written = {
                chain: rules
                for chain, rules in chains.items()
                if chain not in there.chains or not same_rules(rules, there.chains[chain])
            }
            replaced = {chain: there.chains[chain] for chain in written if chain in there.chains}
            change = TableChange(jumps, written, (), replaced)
            if change:
                tables[table] = change
        appended = {
            (table, chain): rule
            for (table, chain), rule in APPENDED.items()
            if rule.text not in _texts(current.tables[table].built_in.get(chain, ()))
        }
        return Change(tables, appended)


def _texts(rules: tuple[Rule, ...]) -> set[str]:
    return {rule.text for rule in rules}
