"""From changed Service ports to the changes of the table: work in proportion to the change, not to the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from netlab.proxy.nftables.rules import PortRules, Settings, frame
from netlab.proxy.nftables.ruleset import Container, Element, Hook, Rule, Table, same_rules
from netlab.proxy.nftables.transaction import Change
from netlab.proxy.service_ports import ServicePortName

STALE_S = 1.0
"""How long kube-proxy leaves an emptied chain where it is. Kernels before 6.2 notice only some time after a map's
element is gone that its chain is free to be deleted."""

_NOTHING = PortRules()
_NO_RULES: tuple[Rule, ...] = ()


@dataclass
class NftablesState:
    """The wanted table of one family on one node, kept from sync to sync.

    ``stale``: chains that are still in the kernel, empty, and since when. ``deletes_at_once``: the kernel lets go of a
    chain in the transaction that removes the last element that leads to it.

    An address and port that several Service ports claim belongs to the first of them by name.
    """

    settings: Settings
    deletes_at_once: bool = False
    ports: dict[ServicePortName, PortRules] = field(default_factory=dict)
    stale: dict[str, float] = field(default_factory=dict)
    _claims: dict[str, dict[str, list[tuple[ServicePortName, Element]]]] = field(default_factory=dict)

    def replace(self, changed: Mapping[ServicePortName, PortRules | None], now: float) -> list[Change]:
        """Take in new rules of some Service ports (None: the port is gone) and tell what changes in the table.

        Each change is one Service port's, but for the last, which takes away what no port wants any more. ``now`` is
        any clock in seconds.
        """
        changes: dict[ServicePortName, Change] = {}
        cleanup = Change(deleted=self._take_aged(changed, now))
        before: dict[tuple[str, str], tuple[Element | None, ServicePortName]] = {}
        for name, new in changed.items():
            old = self.ports.pop(name, _NOTHING)
            current = new if new is not None else _NOTHING
            if new is not None:
                self.ports[name] = new
            self._replace_claims(name, old, current, before)
            there = old.chains | dict.fromkeys(self.stale.keys() & current.chains.keys(), _NO_RULES)
            changes[name] = change = _written(current, old.containers, there)
            for chain in current.chains:
                self.stale.pop(chain, None)
            for chain in old.chains.keys() - current.chains.keys():
                # A chain that holds on to a set that is made anew cannot wait for the clean-up.
                (change if change.dropped else cleanup).flushed.append(chain)
                self.stale[chain] = now
            for each in old.containers.keys() - current.containers.keys():
                cleanup.dropped[each] = old.containers[each]
        for (container, key), (old_element, cause) in before.items():
            owner, element = self._winner(container, key)
            change = changes[owner if owner in changes else cause]
            _exchange(change, old_element, element)
        return [change for change in (*changes.values(), cleanup) if change]

    def _take_aged(self, changed: Mapping[ServicePortName, PortRules | None], now: float) -> list[str]:
        """Chains that have been stale for long enough and that no change brings back."""
        if not self.stale:
            return []
        wanted = {chain for new in changed.values() if new is not None for chain in new.chains}
        aged = [chain for chain, since in self.stale.items() if since <= now - STALE_S and chain not in wanted]
        for chain in aged:
            del self.stale[chain]
        return aged

    def _replace_claims(
        self,
        name: ServicePortName,
        old: PortRules,
        new: PortRules,
        before: dict[tuple[str, str], tuple[Element | None, ServicePortName]],
    ) -> None:
        """Take the port's elements over; ``before`` gets what each touched key led to, and the first port touching."""
        kept = {(each.container, each.key): each for each in new.elements}
        for each in old.elements:
            other = kept.get((each.container, each.key))
            if other is not None and each.same(other) and each.origin == other.origin:
                del kept[each.container, each.key]
                continue
            before.setdefault((each.container, each.key), (self._winner(each.container, each.key)[1], name))
            by_key = self._claims[each.container]
            by_key[each.key] = [claim for claim in by_key[each.key] if claim[0] != name]
            if not by_key[each.key]:
                del by_key[each.key]
        for each in kept.values():
            before.setdefault((each.container, each.key), (self._winner(each.container, each.key)[1], name))
            claims = self._claims.setdefault(each.container, {}).setdefault(each.key, [])
            claims.append((name, each))
            if len(claims) > 1:
                claims.sort(key=lambda claim: claim[0])

    def _winner(self, container: str, key: str) -> tuple[ServicePortName | None, Element | None]:
        claims = self._claims.get(container, {}).get(key)
        return claims[0] if claims else (None, None)

    def wanted(self) -> Table:
        """The whole table."""
        table = frame(self.settings)
        for container, by_key in self._claims.items():
            table.elements[container] = {key: claims[0][1] for key, claims in by_key.items()}
        for rules in self.ports.values():
            table.containers.update(rules.containers)
            table.chains.update(rules.chains)
        return table

    def full_change(self, current: Table | None, now: float) -> list[Change]:
        """What turns the table that is there (as read from the kernel; None: none) into the wanted one.

        A table that kube-proxy of this version would not have made is made anew. Whatever is in the table besides is
        removed: it is kube-proxy's alone. The hooks come last: a new table sees no packet before it is complete.
        """
        base = frame(self.settings)
        first = Change()
        if current is None or not _compatible(base, current):
            first.table = "add" if current is None else "replace"
            current = Table(base.family)
        hooks = Change()
        for chain, rules in base.chains.items():
            hook = base.hooks.get(chain)
            _write_chain(first if hook is None else hooks, chain, rules, current.chains, hook)
        for name, container in base.containers.items():
            if name not in current.containers:
                first.containers[name] = container
            _exchange_all(first, base.elements.get(name, {}), current.elements.get(name, {}))
        changes = {name: _written(rules, current.containers, current.chains) for name, rules in self.ports.items()}
        for name, by_key in self._claims.items():
            there = current.elements.get(name, {})
            for key, claims in by_key.items():
                owner, element = claims[0]
                _exchange(changes[owner], there.get(key), element)
        cleanup = self._leftovers(base, current, now)
        remade = {f"@{name}" for change in changes.values() for name in change.dropped}
        if remade:
            for chain in [each for each in cleanup.flushed if _words_of(current.chains[each]) & remade]:
                cleanup.flushed.remove(chain)
                first.flushed.append(chain)
        return [each for each in (first, *changes.values(), cleanup, hooks) if each]

    def _leftovers(self, base: Table, current: Table, now: float) -> Change:
        """What takes away all that is there and that nobody wants."""
        cleanup = Change()
        chains = set(base.chains)
        containers = set(base.containers)
        for rules in self.ports.values():
            chains.update(rules.chains)
            containers.update(rules.containers)
        for name, container in current.containers.items():
            if name not in containers:
                cleanup.dropped[name] = container
            else:
                wanted = base.elements.get(name, {}).keys() | self._claims.get(name, {}).keys()
                cleanup.removed += [each for key, each in current.elements.get(name, {}).items() if key not in wanted]
        led_to = {each.value for by_key in current.elements.values() for each in by_key.values()}
        known, self.stale = self.stale, {}
        for chain, there in current.chains.items():
            if chain in chains:
                continue
            if there:
                cleanup.flushed.append(chain)
            free = not there and f"goto {chain}" not in led_to and known.get(chain, now - STALE_S) <= now - STALE_S
            if free or self.deletes_at_once:
                cleanup.deleted.append(chain)
            else:
                self.stale[chain] = now if there else known.get(chain, now)
        return cleanup


def _written(rules: PortRules, containers: Mapping[str, Container], chains: Mapping[str, tuple[Rule, ...]]) -> Change:
    """What brings a Service port's own sets and chains in, where ``containers`` and ``chains`` are there.

    A set with another timeout has to be made anew, and all rules that name it with it.
    """
    change = Change()
    for name, container in rules.containers.items():
        there = containers.get(name)
        if there == container:
            continue
        change.containers[name] = container
        if there is not None:
            change.dropped[name] = there
    for chain, wanted in rules.chains.items():
        _write_chain(change, chain, wanted, chains, anew=bool(change.dropped))
    return change


def _write_chain(
    change: Change,
    chain: str,
    rules: tuple[Rule, ...],
    there: Mapping[str, tuple[Rule, ...]],
    hook: Hook | None = None,
    *,
    anew: bool = False,
) -> None:
    """Make a chain, or give it other rules; ``anew``: also where they are there already."""
    current = there.get(chain)
    if current is None:
        change.chains[chain] = hook
    elif same_rules(rules, current) and not anew:
        return
    elif current:
        change.flushed.append(chain)
    change.appended += [(chain, rule) for rule in rules]


def _words_of(rules: Iterable[Rule]) -> set[str]:
    return {word for rule in rules for word in rule.text.split(" ")}


def _exchange(change: Change, old: Element | None, new: Element | None) -> None:
    if old is new or (new is not None and new.same(old)):
        return
    if old is not None:
        change.removed.append(old)
    if new is not None:
        change.added.append(new)


def _exchange_all(change: Change, wanted: Mapping[str, Element], there: Mapping[str, Element]) -> None:
    for key, element in wanted.items():
        _exchange(change, there.get(key), element)


def _compatible(base: Table, current: Table) -> bool:
    """Whether what this version of kube-proxy wants can be made of the table: nothing has the wrong type or hook."""
    containers = all(current.containers.get(name, each) == each for name, each in base.containers.items())
    chains: Iterable[str] = base.chains.keys() & current.chains.keys()
    return containers and all(current.hooks.get(chain) == base.hooks.get(chain) for chain in chains)
