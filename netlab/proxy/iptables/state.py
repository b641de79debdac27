"""From changed Service ports to the changes of the rule set: work in proportion to the change, not to the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from netlab.proxy.iptables import names
from netlab.proxy.iptables.rules import PortRules, Settings, frame
from netlab.proxy.iptables.ruleset import Rule, RuleSet, TableChange, difference, same_rules
from netlab.proxy.service_ports import ServicePortName

_SHARED = {
    ("nat", names.SERVICES): "nat_services",
    ("nat", names.NODEPORTS): "nat_nodeports",
    ("filter", names.SERVICES): "filter_services",
    ("filter", names.EXTERNAL_SERVICES): "filter_external",
    ("filter", names.NODEPORTS): "filter_nodeports",
    ("filter", names.PROXY_FIREWALL): "filter_firewall",
}
_NOTHING = PortRules()


@dataclass
class IptablesState:
    """The wanted rules of one family on one node, kept from sync to sync."""

    settings: Settings
    ports: dict[ServicePortName, PortRules] = field(default_factory=dict)
    _shared: dict[tuple[str, str], tuple[Rule, ...]] = field(init=False)

    def __post_init__(self) -> None:
        self._shared = {place: self._shared_chain(*place) for place in _SHARED}

    def replace(self, changed: Mapping[ServicePortName, PortRules | None]) -> dict[str, TableChange]:
        """Take in new rules of some Service ports (None: the port is gone) and tell what changes in each table."""
        written: dict[str, dict[str, tuple[Rule, ...]]] = {"filter": {}, "nat": {}}
        replaced: dict[str, dict[str, tuple[Rule, ...]]] = {"filter": {}, "nat": {}}
        deleted: list[str] = []
        touched: set[tuple[str, str]] = set()
        for name, new in changed.items():
            old = self.ports.pop(name, _NOTHING)
            current = new if new is not None else _NOTHING
            if new is not None:
                self.ports[name] = new
            for chain, rules in current.chains.items():
                if chain not in old.chains or not same_rules(rules, old.chains[chain]):
                    written["nat"][chain] = rules
                    replaced["nat"][chain] = old.chains.get(chain, ())
            deleted += [chain for chain in old.chains if chain not in current.chains]
            for place, attribute in _SHARED.items():
                if getattr(old, attribute) != getattr(current, attribute):
                    touched.add(place)
        for table, chain in touched:
            before, after = self._shared[table, chain], self._shared_chain(table, chain)
            self._shared[table, chain] = after
            if not same_rules(before, after):
                written[table][chain], replaced[table][chain] = after, before
        gone = {"filter": (), "nat": tuple(chain for chain in deleted if chain not in written["nat"])}
        changes = {table: TableChange({}, written[table], gone[table], replaced[table]) for table in written}
        return {table: change for table, change in changes.items() if change}

    def _shared_chain(self, table: str, chain: str) -> tuple[Rule, ...]:
        attribute = _SHARED[table, chain]
        rules = [rule for name in sorted(self.ports) for rule in getattr(self.ports[name], attribute)]
        if (table, chain) == ("nat", names.SERVICES):
            rules += frame(self.settings).tables["nat"].chains[names.SERVICES]
        return tuple(rules)

    def wanted(self) -> RuleSet:
        """The whole rule set."""
        rule_set = frame(self.settings)
        for (table, chain), shared in self._shared.items():
            rule_set.tables[table].chains[chain] = shared
        for rules in self.ports.values():
            rule_set.tables["nat"].chains.update(rules.chains)
        return rule_set

    def full_change(self, current: RuleSet) -> dict[str, TableChange]:
        """What turns the rules that are there (as read from the kernel) into the wanted ones."""
        wanted = self.wanted()
        changes = {table: difference(table, wanted.tables[table], current.tables[table]) for table in wanted.tables}
        return {table: change for table, change in changes.items() if change}


def rules_of(rule_set: RuleSet) -> Iterable[tuple[str, str, Rule]]:
    """Every rule with its table and chain."""
    for table_name, table in rule_set.tables.items():
        for chains in (table.built_in, table.chains):
            for chain, rules in chains.items():
                for rule in rules:
                    yield table_name, chain, rule
