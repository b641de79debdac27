"""One packet's way through the lab: its sightings, from all places, in the order in which it made them.

Frames carry the kernel's clock, trace records carry none. Within one place the order of a packet's hooks is the
kernel's order of records; where the hooks stand between frames follows from how Linux handles a packet: frames come in,
PREROUTING, then INPUT or FORWARD, POSTROUTING, frames go out (netfilter's packet flow).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from netlab.model.records import Frame, TraceRecord
from netlab.model.rulebook import Rulebook
from netlab.model.topology import Place, Topology
from netlab.packets.headers import Packet, parse_trace

_STAGE = {"PREROUTING": 0, "OUTPUT": 0, "INPUT": 1, "FORWARD": 1, "POSTROUTING": 2}


@dataclass(frozen=True, slots=True)
class FrameSighting:
    """A frame with the packet that it holds."""

    frame: Frame
    packet: Packet


@dataclass(frozen=True, slots=True)
class HookPass:
    """A packet's way through one base chain and the chains it jumped to; ``packet`` is what it was on entering."""

    place: str
    hook: str
    priority: int
    packet: Packet
    records: tuple[TraceRecord, ...]

    @property
    def output(self) -> str | None:
        return self.records[0].output

    @property
    def dropped(self) -> bool:
        return any(record.verdict == "drop" for record in self.records)


@dataclass
class Visit:
    """One stay of a packet in one place: frames in, hooks, frames out."""

    place: str
    incoming: list[FrameSighting] = field(default_factory=list)
    passes: list[HookPass] = field(default_factory=list)
    outgoing: list[FrameSighting] = field(default_factory=list)

    @property
    def begin_ns(self) -> int | None:
        frames = self.incoming or self.outgoing
        return frames[0].frame.time_ns if frames else None

    def first_packet(self) -> Packet:
        """What the packet was when the stay began."""
        if self.incoming:
            return self.incoming[0].packet
        return self.passes[0].packet if self.passes else self.outgoing[0].packet

    def last_packet(self) -> Packet:
        """What the packet was when last seen in the stay."""
        if self.outgoing:
            return self.outgoing[-1].packet
        return self.passes[-1].packet if self.passes else self.incoming[-1].packet

    @property
    def generated_here(self) -> bool:
        """The packet began here: no frame brought it."""
        return not self.incoming


def group_passes(records: Iterable[TraceRecord], rulebooks: Mapping[str, Rulebook]) -> list[HookPass]:
    """Trace records to passes through base chains.

    A base chain's first record carries headers, so a pass begins there. Later records belong to the pass that the same
    packet number opened last in the same place and table: numbers come back for other packets, but a packet is done
    with one base chain before another can have its number.
    """
    open_passes: dict[tuple[str, int], list[TraceRecord]] = {}
    finished: list[list[TraceRecord]] = []
    for record in sorted(records, key=lambda record: record.order):
        key = (record.place, record.packet)
        if record.network:
            open_passes[key] = [record]
            finished.append(open_passes[key])
        elif key in open_passes and open_passes[key][0].table == record.table:
            open_passes[key].append(record)
    passes = []
    for group in finished:
        first = group[0]
        book = rulebooks.get(first.place)
        base = book.chain(first.family, first.table, first.chain) if book is not None else None
        packet = parse_trace(first.network, first.transport)
        if base is not None and packet is not None:
            passes.append(HookPass(first.place, base.hook, base.priority, packet, tuple(group)))
    return passes


def journey(frames: Sequence[FrameSighting], passes: Sequence[HookPass], topology: Topology) -> list[Visit]:
    """The stays of one packet, in order. ``frames`` and ``passes`` are all sightings with this packet's key; ``passes``
    of one place are in the kernel's order.

    A retransmission can be the same packet to the last bit. Then the key alone does not tell them apart, and what was
    seen from the second sending on is left out.
    """
    ordered = sorted(frames, key=lambda sighting: sighting.frame.time_ns)
    first_sending, repeated = _first_sending(ordered)
    by_place: dict[str, list[FrameSighting]] = {}
    for sighting in first_sending:
        by_place.setdefault(sighting.frame.place, []).append(sighting)
    visits: list[Visit] = []
    places = list(dict.fromkeys([*by_place, *(each.place for each in passes)]))
    for name in places:
        place = topology.places.get(name)
        traversals = list(_traversals([each for each in passes if each.place == name]))
        seen = _place_visits(name, place, by_place.get(name, []), traversals)
        if repeated and name in by_place:
            seen = [visit for visit in seen if visit.begin_ns is not None]
        visits += seen if not repeated or name in by_place else seen[:1]
    return _in_order(visits)


def _first_sending(ordered: Sequence[FrameSighting]) -> tuple[list[FrameSighting], bool]:
    """The sightings up to when the packet leaves its first interface a second time, and whether it does."""
    if not ordered:
        return [], False
    begin = ordered[0].frame
    again = [
        sighting.frame.time_ns
        for sighting in ordered[1:]
        if (sighting.frame.place, sighting.frame.interface, sighting.frame.direction)
        == (begin.place, begin.interface, begin.direction)
    ]
    if not again:
        return list(ordered), False
    return [sighting for sighting in ordered if sighting.frame.time_ns < again[0]], True


def _traversals(passes: Sequence[HookPass]) -> Iterator[list[HookPass]]:
    """Cut a place's passes where the packet comes by again: when a hook follows that cannot come later."""
    current: list[HookPass] = []
    for each in passes:
        if current:
            last = current[-1]
            position = (_STAGE[each.hook], each.hook, each.priority)
            again = _STAGE[each.hook] < _STAGE[last.hook] or (
                each.hook == last.hook and position <= (_STAGE[last.hook], last.hook, last.priority)
            )
            if again or (each.hook != last.hook and _STAGE[each.hook] == _STAGE[last.hook]):
                yield current
                current = []
        current.append(each)
    if current:
        yield current


def _place_visits(
    name: str, place: Place | None, frames: Sequence[FrameSighting], traversals: list[list[HookPass]]
) -> list[Visit]:
    visits = _frame_visits(name, frames)
    for visit in visits:
        if not traversals:
            break
        passes = traversals[0]
        starts_here = passes[0].hook == "OUTPUT"
        if starts_here != visit.generated_here:
            continue
        if visit.incoming and not _reaches_ip(place, visit):
            continue
        if visit.incoming and visit.first_packet().addresses != passes[0].packet.addresses:
            continue
        visit.passes = traversals.pop(0)
    # A traversal without frames: the packet never got to an interface, or its frames were lost.
    before = [Visit(name, passes=passes) for passes in traversals if passes[0].hook == "OUTPUT" and not visits]
    after = [Visit(name, passes=passes) for passes in traversals if passes[0].hook != "OUTPUT" or visits]
    return [*before, *visits, *after]


def _frame_visits(name: str, frames: Sequence[FrameSighting]) -> list[Visit]:
    visits: list[Visit] = []
    for sighting in frames:
        incoming = sighting.frame.direction == "in"
        if not visits or (incoming and visits[-1].outgoing):
            visits.append(Visit(name))
        (visits[-1].incoming if incoming else visits[-1].outgoing).append(sighting)
    return visits


def _reaches_ip(place: Place | None, visit: Visit) -> bool:
    """Whether IP saw the frame: it came by an interface that is no bridge port, or bridged frames pass iptables."""
    if place is None or place.bridge_netfilter:
        return True
    interfaces = (place.interface(sighting.frame.interface) for sighting in visit.incoming)
    return any(interface is None or interface.master is None for interface in interfaces)


def _in_order(visits: Sequence[Visit]) -> list[Visit]:
    """By the clock of their frames; a stay without frames follows the stay before it in the same place, or, if it has
    none, comes first."""
    timed = sorted((visit for visit in visits if visit.begin_ns is not None), key=lambda visit: visit.begin_ns or 0)
    for visit in visits:
        if visit.begin_ns is not None:
            continue
        position = max((i + 1 for i, each in enumerate(timed) if each.place == visit.place), default=0)
        timed.insert(position, visit)
    return timed


def hooks_between(visit: Visit, place: Place | None) -> Iterator[FrameSighting | HookPass]:
    """The sightings of one stay in order.

    With bridge netfilter, a frame from a bridge port passes PREROUTING in the bridge, before the bridge device itself
    sees it; and one that DNAT sends back into the same bridge goes out by the bridge device first, and through FORWARD
    and POSTROUTING on its way to the port (net/bridge/br_netfilter_hooks.c).
    """
    ports: list[FrameSighting] = []
    others: list[FrameSighting] = []
    for sighting in visit.incoming:
        interface = place.interface(sighting.frame.interface) if place is not None else None
        (ports if interface is not None and interface.master is not None else others).append(sighting)
    before = [each for each in visit.passes if each.hook == "PREROUTING"]
    after = [each for each in visit.passes if each.hook != "PREROUTING"]
    outgoing = visit.outgoing
    if ports and place is not None and place.bridge_netfilter:
        yield from ports
        yield from before
        yield from others
        bridges = {interface.name for interface in place.interfaces if interface.kind == "bridge"}
        turned = [each for each in outgoing if each.frame.interface in bridges and not others]
        yield from turned
        outgoing = [each for each in outgoing if each not in turned]
    else:
        yield from visit.incoming
        yield from before
    yield from after
    yield from outgoing
