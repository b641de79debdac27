"""From changed Service ports to what changes on the node: work in proportion to the change, not to the cluster.

Several Service ports may ask for the same thing (ports of one Service share an address, Services share a Pod). It
stays until the last of them is gone; where they differ, the first by name decides, so that the outcome depends on the
objects alone and not on their history.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from netlab.kernel.ipset import SetSpec
from netlab.kernel.ipvs import ServerAddress
from netlab.model.keys import Origin
from netlab.proxy.iptables.ruleset import Rule, RuleSet, TableChange, same_rules
from netlab.proxy.ipvs import names
from netlab.proxy.ipvs.rules import rule_set
from netlab.proxy.ipvs.settings import Settings
from netlab.proxy.ipvs.values import IpvsValue, PortValue, WantedServer
from netlab.proxy.service_ports import ServicePortName

K = TypeVar("K")
V = TypeVar("V")


class Owned(Generic[K, V]):
    """Things by key, each as its owners want it; the first owner by name counts."""

    def __init__(self) -> None:
        self._owners: dict[K, dict[ServicePortName, V]] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def get(self, key: K) -> V | None:
        owners = self._owners.get(key)
        if owners is None:
            return None
        return next(iter(owners.values())) if len(owners) == 1 else owners[min(owners)]

    def replace(
        self, owner: ServicePortName, old: Mapping[K, V], new: Mapping[K, V], before: dict[K, V | None]
    ) -> None:
        """Let the owner want ``new`` in place of ``old``; ``before`` gets the former value of each key at stake."""
        for key, value in old.items():
            if key not in new or new[key] != value:
                before.setdefault(key, self.get(key))
                if key not in new:
                    self._drop(key, owner)
        for key, value in new.items():
            if key not in old or old[key] != value:
                before.setdefault(key, self.get(key))
                self._owners.setdefault(key, {})[owner] = value

    def _drop(self, key: K, owner: ServicePortName) -> None:
        owners = self._owners[key]
        del owners[owner]
        if not owners:
            del self._owners[key]

    def all(self) -> dict[K, V]:
        found = {}
        for key in self._owners:
            value = self.get(key)
            assert value is not None
            found[key] = value
        return found


@dataclass(frozen=True, slots=True)
class IpvsChange:
    """What a change of objects changes on the node: the things at stake, each as it was and as it is to be.

    ``new_rules``: a chain gets a rule that it has not had.
    """

    addresses: dict[str, tuple[Origin | None, Origin | None]]
    servers: dict[ServerAddress, tuple[WantedServer | None, WantedServer | None]]
    elements: dict[tuple[str, str], tuple[Origin | None, Origin | None]]
    rules: dict[str, TableChange]
    new_rules: bool


class IpvsState:
    """The wanted value of one family on one node, kept from sync to sync."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.specs: dict[str, SetSpec] = names.set_specs(settings.family)
        self.ports: dict[ServicePortName, PortValue] = {}
        self._addresses: Owned[str, Origin] = Owned()
        self._servers: Owned[ServerAddress, WantedServer] = Owned()
        self._elements: Owned[tuple[str, str], Origin] = Owned()
        self._sizes: dict[str, int] = dict.fromkeys(self.specs, 0)
        self._out_filter: dict[ServicePortName, tuple[Rule, ...]] = {}
        self._rules = self._rule_set()

    def replace(self, changed: Mapping[ServicePortName, PortValue | None]) -> IpvsChange:
        """Take in new values of some Service ports (None: the port is gone) and tell what changes."""
        addresses: dict[str, Origin | None] = {}
        servers: dict[ServerAddress, WantedServer | None] = {}
        elements: dict[tuple[str, str], Origin | None] = {}
        nothing = PortValue()
        for name, value in changed.items():
            old = self.ports.pop(name, nothing)
            new = value if value is not None else nothing
            if value is not None:
                self.ports[name] = value
            self._addresses.replace(name, old.addresses, new.addresses, addresses)
            self._servers.replace(name, old.servers, new.servers, servers)
            self._elements.replace(name, old.elements, new.elements, elements)
            self._out_filter.pop(name, None)
            if new.out_filter:
                self._out_filter[name] = new.out_filter
        for (purpose, element), was in elements.items():
            now = self._elements.get((purpose, element))
            self._sizes[purpose] += (now is not None) - (was is not None)
        rules, self._rules = self._rules, self._rule_set()
        return IpvsChange(
            {key: (was, self._addresses.get(key)) for key, was in addresses.items()},
            {key: (was, self._servers.get(key)) for key, was in servers.items()},
            {key: (was, self._elements.get(key)) for key, was in elements.items()},
            *rules_change(self._rules, rules),
        )

    def _rule_set(self) -> RuleSet:
        filled = {purpose for purpose, size in self._sizes.items() if size}
        return rule_set(self.settings, self.specs, filled, self._out_rules(), {})

    def _out_rules(self) -> list[Rule]:
        return [rule for name in sorted(self._out_filter) for rule in self._out_filter[name]]

    def wanted(self) -> IpvsValue:
        """The whole value, with the causes of all its parts."""
        sets: dict[str, dict[str, Origin]] = {purpose: {} for purpose in self.specs}
        for (purpose, element), origin in self._elements.all().items():
            sets[purpose][element] = origin
        causes = {purpose: elements[min(elements)] for purpose, elements in sets.items() if elements}
        rules = rule_set(self.settings, self.specs, causes.keys(), self._out_rules(), causes)
        return IpvsValue(self._addresses.all(), self._servers.all(), sets, rules)


def rules_change(wanted: RuleSet, current: RuleSet) -> tuple[dict[str, TableChange], bool]:
    """The chains to write, by table, and whether any of them gets a rule that it has not had."""
    changes: dict[str, TableChange] = {}
    added = False
    for table, there in wanted.tables.items():
        known = current.tables[table].chains
        written = {chain: rules for chain, rules in there.chains.items() if not same_rules(rules, known.get(chain, ()))}
        if written:
            replaced = {chain: known[chain] for chain in written if chain in known}
            changes[table] = TableChange({}, written, (), replaced)
        for chain, rules in written.items():
            texts = {rule.text for rule in known.get(chain, ())}
            added = added or any(rule.text not in texts for rule in rules)
    return changes, added
