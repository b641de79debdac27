"""What translated a packet: the conntrack entries that it can have belonged to, and rules that were seen to do it.

An entry explains a change only if it says that very change. The kernel translates destinations in PREROUTING and
OUTPUT, sources in POSTROUTING and INPUT (net/netfilter/nf_nat_core.c).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from netlab.model.records import ConntrackRecord, IpvsRecord, Tuple
from netlab.model.walk import Changed, Direction, endpoint_text, host_of
from netlab.packets.headers import PROTOCOL_NAMES, Packet

Addresses = tuple[str, str]
"""Source and destination as texts."""


@dataclass(frozen=True)
class Entry:
    """A conntrack entry as seen from one packet: ``undoes`` is true for packets of its reply direction.

    ``records`` are all its events, oldest first. ``is_certain`` is false where another entry says the same: pings
    between two hosts differ in nothing that an event tells.
    """

    records: tuple[ConntrackRecord, ...]
    undoes: bool
    is_certain: bool = True

    @property
    def original(self) -> Addresses:
        return texts(self.records[0].original)

    @property
    def reply(self) -> Addresses:
        return texts(self.records[0].reply)

    @property
    def evidence(self) -> tuple[str, ...]:
        """The first event that tells of the translation."""
        telling = (each for each in self.records if {"SNAT", "DNAT"} & set(each.status))
        return (next(telling, self.records[0]).id,) if self.is_certain else ()

    def explains(self, part: Changed, old: str, new: str, packet: Packet) -> bool:
        """Whether the entry turns ``old`` into ``new``. An ICMP error is translated as the packet that it quotes would
        be on its way back; its own source may be any router on that way."""
        before, after = (self.reply, self.original) if self.undoes else (self.original, self.reply)
        if packet.inner is not None or packet.is_icmp_error:
            wanted = host_of(after[1]) if part == "source" else host_of(after[0])
            return new == wanted and (part == "source" or old == host_of(before[1]))
        if part == "source":
            return old == before[0] and new == after[1]
        return old == before[1] and new == after[0]


def texts(value: Tuple) -> Addresses:
    """Source and destination of one direction of a connection."""
    return endpoint_text(value.source, value.source_port), endpoint_text(value.destination, value.destination_port)


@dataclass(frozen=True)
class Translated:
    """A change that a rule was seen to make; ``evidence`` are the ids of its records."""

    place: str
    part: Changed
    old: str
    new: str
    evidence: tuple[str, ...]

    def undone_by(self, part: Changed, old: str, new: str, packet: Packet) -> bool:
        """Whether a change of an answer takes this one back."""
        if part == self.part:
            return False
        if packet.is_icmp_error:
            return new == host_of(self.old) and (part == "source" or old == host_of(self.new))
        return (old, new) == (self.new, self.old)


@dataclass
class Translations:
    """All that was observed to translate."""

    conntrack: Sequence[ConntrackRecord]
    ipvs: Sequence[IpvsRecord] = ()
    by_rules: list[Translated] = field(default_factory=list)

    def entry(self, place: str, arrival: Packet | None, departure: Packet | None, direction: Direction) -> Entry | None:
        """The place's entry for a packet that came as ``arrival`` and left as ``departure``, as far as either was seen.
        None also where several would do that say different things."""
        records: dict[tuple[int, Tuple, Tuple], list[ConntrackRecord]] = {}
        for record in self.conntrack:
            if record.place == place:
                records.setdefault((record.entry, record.original, record.reply), []).append(record)
        found: list[Entry] = []
        ways = (False, True) if direction == "request" else (True, False)
        for undoes in ways:
            entries = [Entry(tuple(each), undoes) for each in records.values()]
            found = [each for each in entries if _belongs(each, arrival, departure)]
            if found:
                break
        if len({(each.original, each.reply) for each in found}) != 1:
            return None
        return replace(found[0], is_certain=len(found) == 1)

    def balanced(self, place: str, part: Changed, addresses: Addresses, new: str, packet: Packet) -> IpvsRecord | None:
        """The connection of IPVS that turns a part of a packet with these addresses into ``new``."""
        source, destination = addresses
        for each in self.ipvs:
            if each.place != place or each.protocol != PROTOCOL_NAMES.get(packet.protocol):
                continue
            if part == "destination" and (each.client, each.virtual, each.real) == (source, destination, new):
                return each
            if part == "source" and (each.client, each.real, each.virtual) == (destination, source, new):
                return each
        return None

    def undone(self, place: str, part: Changed, old: str, new: str, packet: Packet) -> Translated | None:
        """The rule's change that is taken back."""
        return next(
            (each for each in self.by_rules if each.place == place and each.undone_by(part, old, new, packet)), None
        )


def _belongs(entry: Entry, arrival: Packet | None, departure: Packet | None) -> bool:
    """Whether a packet is one of the entry's, by all that was seen of it."""
    before, after = (entry.reply, entry.original) if entry.undoes else (entry.original, entry.reply)
    checks = list(_checks(entry, arrival, before)) + list(_checks(entry, departure, (after[1], after[0])))
    return bool(checks) and all(checks)


def _checks(entry: Entry, packet: Packet | None, expected: Addresses) -> Iterator[bool]:
    if packet is None:
        return
    if packet.inner is not None:
        # An error travels the other way than the packet that it quotes.
        yield packet.inner.protocol == entry.records[0].protocol and packet.inner.addresses == expected[::-1]
    elif not packet.is_icmp_error:
        yield packet.protocol == entry.records[0].protocol and packet.addresses == expected
