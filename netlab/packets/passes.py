"""A packet's ways through base chains, put together from the kernel's trace records.

Which record can follow which is fixed: a jump leads into its target, a chain's end back to where it was called, and so
on to a verdict or the base chain's policy (``nft_do_chain`` in net/netfilter/nf_tables_core.c). So a lost record shows,
and what came after it is not taken for this packet's: numbers of packets come back for other packets. What was lost
without a break shows where a rule was among it that matches every packet.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from netlab.model.records import TraceRecord
from netlab.model.rulebook import Rulebook
from netlab.packets.headers import Packet, parse_trace

HOOKS = ("PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING")
TRACE_TABLE = "netlab-trace"
_STAYING = ("continue", "break")
_BEHIND = 1 << 31


@dataclass(frozen=True, slots=True)
class HookPass:
    """A packet's way through one base chain and the chains it jumped to; ``packet`` is what it was on entering.

    ``complete`` is false where records are known to be missing. ``hook`` is empty where nobody knows the chain's hook.
    ``nat``: only the first packet of a connection comes to the chain.
    """

    place: str
    hook: str
    priority: int
    packet: Packet
    records: tuple[TraceRecord, ...]
    complete: bool
    nat: bool = False

    @property
    def chain(self) -> tuple[str, str, str]:
        """The base chain's family, table and name."""
        first = self.records[0]
        return first.family, first.table, first.chain

    @property
    def input(self) -> str | None:
        return self.records[0].input

    @property
    def output(self) -> str | None:
        return self.records[0].output

    @property
    def dropped(self) -> bool:
        return any(record.verdict == "drop" for record in self.records)


def group_passes(records: Sequence[TraceRecord], rulebooks: Mapping[str, Rulebook]) -> list[HookPass]:
    """All passes, those of one place in the kernel's order. A base chain's first record carries headers, so a pass
    begins there; what has no beginning belongs to nobody."""
    groups: list[_Group] = []
    open_groups: dict[tuple[str, int], _Group] = {}
    certain = _certain_rules(records, rulebooks)
    for record in sorted(records, key=lambda record: record.order):
        key = (record.place, record.packet)
        if record.network:
            book = rulebooks.get(record.place)
            open_groups[key] = _Group(record, book, certain.get(record.place, {}))
            groups.append(open_groups[key])
        elif key in open_groups and not open_groups[key].take(record):
            del open_groups[key]
    passes = (_hook_pass(group, rulebooks.get(group.records[0].place)) for group in groups)
    return [each for each in passes if each is not None]


_Certain = Mapping[tuple[str, str, str], list[int]]
"""The positions of rules that match every packet, by family, table and chain."""

_MATCHES_ALL = re.compile(r'(?:-m comment --comment (?:"(?:[^"\\]|\\.)*"|\S+) )?-[jg] |(?:jump|goto) ')


def _certain_rules(records: Sequence[TraceRecord], rulebooks: Mapping[str, Rulebook]) -> dict[str, _Certain]:
    """By place, for the chains that packets were seen in."""
    seen: dict[str, set[tuple[str, str, str]]] = {}
    for record in records:
        seen.setdefault(record.place, set()).add((record.family, record.table, record.chain))
    found: dict[str, _Certain] = {}
    for place, chains in seen.items():
        positions: dict[tuple[str, str, str], list[int]] = {}
        for (family, table, _), rule in rulebooks[place].rules.items() if place in rulebooks else ():
            chain = (family, table, rule.chain)
            if chain in chains and _MATCHES_ALL.match(rule.text):
                positions.setdefault(chain, []).append(rule.position)
        found[place] = positions
    return found


class _Group:
    """The records of one pass as they come in. ``_inside`` are the chains that the packet is in, the innermost last,
    each with the position of the rule that matched last."""

    def __init__(self, first: TraceRecord, book: Rulebook | None, certain: _Certain) -> None:
        self.records: list[TraceRecord] = []
        self.ended = False
        self.skipped = False
        self._book = book
        self._certain = certain
        self._inside: list[tuple[str, int]] = [(first.chain, 0)]
        self._add(first)

    def take(self, record: TraceRecord) -> bool:
        """Add a record; false if it does not follow."""
        if self.ended or not self._continued_by(record):
            return False
        self._add(record)
        return True

    def _continued_by(self, record: TraceRecord) -> bool:
        first = self.records[0]
        if (record.family, record.table) != (first.family, first.table):
            return False
        if record.kind == "policy":
            return not self._inside and record.chain == first.chain
        return bool(self._inside) and record.chain == self._inside[-1][0]

    def _add(self, record: TraceRecord) -> None:
        self.records.append(record)
        if record.kind == "policy":
            self.ended = True
            return
        chain, begin = self._inside[-1]
        position = self._position(record)
        passed = self._certain.get((record.family, record.table, chain), [])
        if position is not None:
            self.skipped |= any(begin < each < position for each in passed)
            self._inside[-1] = (chain, position)
        if record.kind == "return" or record.handle is None or record.verdict == "return":
            self._inside.pop()
        elif record.verdict == "jump" and record.target is not None:
            self._inside.append((record.target, 0))
        elif record.verdict == "goto" and record.target is not None:
            self._inside[-1] = (record.target, 0)
        elif record.verdict not in _STAYING:
            self.ended = True

    def _position(self, record: TraceRecord) -> int | None:
        """Where the record's rule stands in its chain; behind all rules for a record of the chain's end."""
        if record.handle is None:
            return _BEHIND
        rule = self._book.rule(record.family, record.table, record.handle) if self._book is not None else None
        return rule.position if rule is not None and rule.chain == record.chain else None


def _hook_pass(group: _Group, book: Rulebook | None) -> HookPass | None:
    first = group.records[0]
    packet = parse_trace(first.network, first.transport)
    if packet is None:
        return None
    base = book.chain(first.family, first.table, first.chain) if book is not None else None
    name = first.chain.upper()
    hook, priority = (base.hook, base.priority) if base is not None else (name if name in HOOKS else "", 0)
    complete = group.ended and not group.skipped
    nat = base is not None and base.nat
    return HookPass(first.place, hook, priority, packet, tuple(group.records), complete, nat)
