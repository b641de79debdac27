"""The text that ``iptables-restore --noflush`` takes to make a change, in as few transactions as the kernel allows.

Inside a user namespace one transaction cannot be larger than the netlink socket's send buffer (iptables-nft may not
enlarge it there: EMSGSIZE). So a large change is cut into several, ordered so that every state in between is
consistent: first chains that nothing refers to yet, then the chains that refer to them, the shared chains that lead
there, then the jumps from built-in chains, and deletions last. A chain that fits into one transaction is written in
one; one that does not, and has rules already, is changed rule by rule, so that rules that stay are always there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from netlab.proxy.iptables import names
from netlab.proxy.iptables.ruleset import TABLES, Rule, TableChange

LINES_PER_TRANSACTION = 250
"""Lines that surely fit in one transaction inside a user namespace, with the default send buffer of 208 KiB."""

_ORDER = ("KUBE-MARK-MASQ", "KUBE-SEP-", "KUBE-SVC-", "KUBE-SVL-", "KUBE-EXT-", "KUBE-FW-")


@dataclass
class _Lines:
    """Lines that belong in one transaction; ``declared`` stand before all others of their table."""

    declared: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.declared) + len(self.body)

    def add(self, other: _Lines) -> None:
        self.declared += other.declared
        self.body += other.body

    def text(self, table: str) -> str:
        return "\n".join([f"*{table}", *self.declared, *self.body, "COMMIT\n"])


def restore_texts(changes: Mapping[str, TableChange], limit: int | None = LINES_PER_TRANSACTION) -> Iterator[str]:
    """One text for each call of iptables-restore; ``limit`` None: one call for everything (as real root)."""
    tables = [table for table in TABLES if table in changes]
    lines = sum(_size(change) for change in changes.values())
    if limit is None or lines <= limit:
        text = "".join(text for table in tables for text in _transactions(table, changes[table], lines))
        if text:
            yield text
        return
    for table in tables:
        yield from _transactions(table, changes[table], limit)


def _size(change: TableChange) -> int:
    chains = (*change.jumps.values(), *change.written.values())
    return sum(len(rules) + 1 for rules in chains) + 2 * len(change.deleted)


def _transactions(table: str, change: TableChange, limit: int) -> Iterator[str]:
    transaction = _Lines()
    for unit in _units(change, limit):
        if transaction and len(transaction) + len(unit) > limit:
            yield transaction.text(table)
            transaction = _Lines()
        transaction.add(unit)
    if transaction:
        yield transaction.text(table)


def _units(change: TableChange, limit: int) -> Iterator[_Lines]:
    """The change in its order, cut wherever it may be cut."""
    for chain in sorted(change.written, key=_chain_order):
        rules, replaced = change.written[chain], change.replaced.get(chain, ())
        appended = [f"-A {chain} {rule.text}".rstrip() for rule in rules]
        if len(rules) < limit:
            yield _Lines([_declaration(chain)], appended)
        elif replaced and len({rule.text for rule in rules}) == len(rules):
            yield from (_Lines(body=lines) for lines in _edits(chain, replaced, rules))
        else:
            yield _Lines([_declaration(chain)])
            yield from (_Lines(body=[line]) for line in appended)
    for chain, rules in change.jumps.items():
        yield from (_Lines(body=[f"-I {chain} 1 {rule.text}"]) for rule in reversed(rules))
    yield from (_Lines([_declaration(chain)]) for chain in change.deleted)
    yield from (_Lines(body=[f"-X {chain}"]) for chain in change.deleted)


def _declaration(chain: str) -> str:
    """Makes the chain, or takes all rules out of it."""
    return f":{chain} - [0:0]"


def _edits(chain: str, replaced: Sequence[Rule], wanted: Sequence[Rule]) -> Iterator[list[str]]:
    """Lines that turn one list of rules into another without touching those that stay where they are.

    Rules are taken out by their text, and the first one of the same text goes, so that a chain that has been changed by
    others meanwhile makes the tool fail instead of losing another rule. The wanted texts differ from each other.
    """
    texts = [rule.text for rule in wanted]
    live = [rule.text for rule in replaced]
    surplus = Counter(live) - Counter(texts)
    for text in surplus.elements():
        live.remove(text)
        yield [f"-D {chain} {text}".rstrip()]
    there = set(live)
    for index, text in enumerate(texts):
        if index < len(live) and live[index] == text:
            continue
        insertion = f"-I {chain} {index + 1} {text}".rstrip()
        if text in there:
            live.remove(text)
            yield [f"-D {chain} {text}".rstrip(), insertion]
        else:
            yield [insertion]
        live.insert(index, text)


def _chain_order(chain: str) -> tuple[int, str]:
    """Chains that are jumped to stand before those that jump."""
    for position, prefix in enumerate(_ORDER):
        if chain.startswith(prefix):
            return position, chain
    return len(_ORDER) + (chain in (names.SERVICES, names.EXTERNAL_SERVICES)), chain
