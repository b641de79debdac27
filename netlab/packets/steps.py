"""From a packet's journey to the steps of a walk, stay by stay, and to what is missing in between."""

from __future__ import annotations

from collections.abc import Sequence

from netlab.model.walk import Direction
from netlab.packets import gaps
from netlab.packets.headers import RST, TCP
from netlab.packets.journey import link_between
from netlab.packets.passes import HOOKS
from netlab.packets.stay import Stay, Way
from netlab.packets.steplist import StepList
from netlab.packets.translation import Addresses
from netlab.packets.visits import Visit


def add_steps(found: StepList, visits: Sequence[Visit], direction: Direction) -> None:
    """Append the steps of one packet's journey."""
    walker = _Walker(found, direction)
    for index, visit in enumerate(visits):
        before = visits[index - 1] if index else None
        after = visits[index + 1] if index + 1 < len(visits) else None
        walker.walk(visit, before, after)


class _Walker:
    """Walks through the stays of one packet. ``arrivals`` are the addresses that it came to a place with before."""

    def __init__(self, found: StepList, direction: Direction) -> None:
        self.found = found
        self.context = found.context
        self.way = Way(direction)
        self.arrivals: set[tuple[str, Addresses]] = set()

    def walk(self, visit: Visit, before: Visit | None, after: Visit | None) -> None:
        topology = self.context.topology
        self.found.gap(gaps.gap_before(visit, before, topology))
        stay = Stay(self.found, self.way, visit, link_between(before, visit, topology), after)
        asked_in = self._nat_hooks(visit, stay.came_as())
        stay.tell()
        for gap in gaps.interface_gaps(visit, topology):
            self.found.gap(gap)
        for gap in gaps.hook_gaps(visit, topology, self.context.rulebooks.get(visit.place), asked_in):
            self.found.gap(gap)

    def _nat_hooks(self, visit: Visit, came_as: Addresses) -> Sequence[str]:
        """Where conntrack asks the rules of nat: for a packet that begins a connection, which a request does the first
        time that it comes with these addresses; and for the reset with which a rule answers one, on its way out."""
        if self.way.direction == "request":
            known = (visit.place, came_as) in self.arrivals
            self.arrivals.add((visit.place, came_as))
            if visit.dropped and any(each.nat for each in visit.passes):
                self.found.ended_new_in = visit.place
            return () if known else HOOKS
        packet = visit.first_packet()
        resets = not self.way.begun and packet.protocol == TCP and bool(packet.flags & RST)
        is_answer = resets and visit.passed("OUTPUT") and self.found.ended_new_in == visit.place
        return ("POSTROUTING",) if is_answer else ()
