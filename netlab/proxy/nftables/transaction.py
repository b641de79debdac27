"""What ``nft -f`` is told to change the table: in one transaction if it fits, else in as few as the kernel allows.

Inside a user namespace one transaction cannot be larger than the netlink socket's send buffer (nft may not enlarge it
there: EMSGSIZE). A large change is then cut up so that every state in between is consistent: chains are there and
filled before anything leads to them, what belongs to one Service port changes at once, and what nothing leads to any
more is emptied and deleted last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from netlab.proxy.nftables.ruleset import Container, Element, Hook, Rule

LIMIT = 200_000
"""Bytes of netlink messages that surely fit in one transaction inside a user namespace: the default send buffer
(net.core.wmem_default) is 212,992."""


@dataclass(slots=True)
class Change:
    """Commands of one transaction, by what they do, in the order in which nft is told them.

    ``table``: "add" makes the table, "replace" deletes what is there before. ``flushed`` chains lose their rules,
    ``dropped`` sets and maps and ``deleted`` chains go. ``inserted`` rules stand in front of those that are there, the
    last one foremost. An element with another verdict is removed and added again.
    """

    table: Literal["", "add", "replace"] = ""
    chains: dict[str, Hook | None] = field(default_factory=dict)
    flushed: list[str] = field(default_factory=list)
    removed: list[Element] = field(default_factory=list)
    dropped: dict[str, Container] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    containers: dict[str, Container] = field(default_factory=dict)
    appended: list[tuple[str, Rule]] = field(default_factory=list)
    inserted: list[tuple[str, Rule]] = field(default_factory=list)
    added: list[Element] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(
            self.table
            or self.chains
            or self.flushed
            or self.removed
            or self.dropped
            or self.deleted
            or self.containers
            or self.appended
            or self.inserted
            or self.added
        )

    def merge(self, other: Change) -> None:
        """Do the other's commands in the same transaction."""
        self.table = self.table or other.table
        self.chains |= other.chains
        self.flushed += other.flushed
        self.removed += other.removed
        self.dropped |= other.dropped
        self.deleted += other.deleted
        self.containers |= other.containers
        self.appended += other.appended
        self.inserted += other.inserted
        self.added += other.added


def script(place: str, change: Change) -> str:
    """The commands of one transaction; ``place`` names the table ("ip kube-proxy")."""
    lines = []
    if change.table == "replace":
        lines += [f"add table {place}", f"delete table {place}"]
    if change.table:
        lines.append(f"add table {place}")
    for chain, hook in change.chains.items():
        lines.append(f"add chain {place} {chain}{f' {{ {hook.declaration} }}' if hook is not None else ''}")
    lines += [f"flush chain {place} {chain}" for chain in change.flushed]
    lines += [f"delete element {place} {name} {keys}" for name, keys in _listed(change.removed, keys_only=True)]
    lines += [f"delete {container.kind} {place} {name}" for name, container in change.dropped.items()]
    lines += [f"delete chain {place} {chain}" for chain in change.deleted]
    for name, container in change.containers.items():
        lines.append(f"add {container.kind} {place} {name} {{ {'; '.join(container.properties)}; }}")
    lines += [f"add rule {place} {chain} {rule.command}" for chain, rule in change.appended]
    lines += [f"insert rule {place} {chain} {rule.command}" for chain, rule in change.inserted]
    lines += [f"add element {place} {name} {elements}" for name, elements in _listed(change.added, keys_only=False)]
    return "".join(f"{line}\n" for line in lines)


def _listed(elements: Iterable[Element], *, keys_only: bool) -> Iterator[tuple[str, str]]:
    """One list for each set and map."""
    commands: dict[str, list[str]] = {}
    for each in elements:
        commands.setdefault(each.container, []).append(each.key if keys_only else each.command)
    for name, words in commands.items():
        yield name, f"{{ {', '.join(words)} }}"


def transactions(changes: Iterable[Change], limit: int = LIMIT) -> Iterator[Change]:
    """The changes, in their order, in transactions of at most ``limit`` bytes. A change is cut only if it is larger."""
    current, size = Change(), 0
    for change in changes:
        for part in [change] if weight(change) <= limit else _parts(change, limit):
            more = weight(part)
            if current and size + more > limit:
                yield current
                current, size = Change(), 0
            current.merge(part)
            size += more
    if current:
        yield current


def weight(change: Change) -> int:
    """About how many bytes of netlink messages nft makes of it, never less than it does (measured with nft 1.0.6)."""
    size = 200 if change.table else 0
    size += sum(160 + len(chain) for chain in change.chains)
    size += sum(60 + len(chain) for chain in (*change.flushed, *change.deleted, *change.dropped))
    size += sum(160 + len(name) for name in change.containers)
    size += sum(_rule_weight(chain, rule) for chain, rule in (*change.appended, *change.inserted))
    size += sum(_element_weight(each) for each in (*change.removed, *change.added))
    return size


def _rule_weight(chain: str, rule: Rule) -> int:
    """A list within a rule is a set of its own, with a message for itself and about 64 bytes an entry."""
    return 460 + len(chain) + len(rule.command) + 64 * rule.command.count(",")


def _element_weight(element: Element) -> int:
    return 60 + len(element.key) + len(element.value) + len(element.comment)


def _parts(change: Change, limit: int) -> Iterator[Change]:
    """A change that is too large, as many small ones in an order that leaves no name undefined."""
    if change.table:
        yield Change(table=change.table)
    for chain, hook in change.chains.items():
        yield Change(chains={chain: hook})
    emptied: set[str] = set()
    remade = change.dropped.keys() & change.containers.keys()
    if remade:
        # Rules hold on to the sets that they name: all have to go before one of these can be made anew.
        emptied.update(change.flushed)
        yield from (Change(flushed=[chain]) for chain in change.flushed)
    for name, container in change.containers.items():
        yield Change(dropped={name: change.dropped[name]} if name in remade else {}, containers={name: container})
    rules: dict[str, list[Rule]] = {}
    for chain, rule in change.appended:
        rules.setdefault(chain, []).append(rule)
    for chain, listed in rules.items():
        yield from _chain_parts(chain, listed, chain in change.flushed and chain not in emptied, limit)
        emptied.add(chain)
    elements: dict[tuple[str, str], Change] = {}
    for each in change.removed:
        elements.setdefault((each.container, each.key), Change()).removed.append(each)
    for each in change.added:
        elements.setdefault((each.container, each.key), Change()).added.append(each)
    yield from elements.values()
    yield from (Change(flushed=[chain]) for chain in change.flushed if chain not in emptied)
    yield from (Change(dropped={name: each}) for name, each in change.dropped.items() if name not in remade)
    yield from (Change(deleted=[chain]) for chain in change.deleted)


def _chain_parts(chain: str, rules: list[Rule], flush: bool, limit: int) -> Iterator[Change]:
    """A chain is written at once. One that is too large for that gets its last rule first, which takes any packet; the
    others are put in front, so that none is without a way in between."""
    whole = Change(flushed=[chain] if flush else [], appended=[(chain, rule) for rule in rules])
    if weight(whole) <= limit:
        yield whole
        return
    yield Change(flushed=whole.flushed, appended=whole.appended[-1:])
    yield from (Change(inserted=[each]) for each in reversed(whole.appended[:-1]))
