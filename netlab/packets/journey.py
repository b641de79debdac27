"""One packet's way through the lab: its sightings, from all places, in the order in which it made them.

Frames carry the kernel's clock, trace records carry none. Within one place the order of a packet's hooks is the
kernel's order of records; to which frames they belong is told by the hops that the packet had left, which every router
counts down; where they stand between frames follows from how Linux handles a packet (netfilter's packet flow).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from netlab.model.topology import Topology
from netlab.packets.headers import Packet
from netlab.packets.passes import HookPass
from netlab.packets.runs import Run, belongs, is_again, position, split_runs
from netlab.packets.sendings import split_sendings
from netlab.packets.visits import FrameSighting, Visit, is_port, leads_to


@dataclass
class Journey:
    """The stays of one packet in order. ``unplaced`` are passes of which it is not known where they belong;
    ``reappeared``: frames were left out that may be those of a second sending."""

    visits: list[Visit] = field(default_factory=list)
    unplaced: list[HookPass] = field(default_factory=list)
    reappeared: bool = False


def link_between(before: Visit | None, visit: Visit, topology: Topology) -> Packet | None:
    """The packet as it left the stay before, if it came straight from there: nothing changes on a link."""
    if before is None or not before.outgoing or not leads_to(topology, before.outgoing[-1].frame, visit.place):
        return None
    packet, first = before.outgoing[-1].packet, visit.sightings[0]
    counted = packet.hops - first.packet.hops
    if isinstance(first, HookPass):
        return packet if counted == 0 or (counted == 1 and first.hook in ("FORWARD", "POSTROUTING")) else None
    routed = first.frame.direction == "out" and not is_port(topology, first.frame)
    return packet if counted == 0 or (counted == 1 and routed) else None


def journey(frames: Sequence[FrameSighting], passes: Sequence[HookPass], topology: Topology) -> Journey:
    """``frames`` and ``passes`` are all sightings with one packet's key; ``passes`` of one place are in the kernel's
    order.

    A retransmission can be the same packet to the last bit. Then the key alone does not tell them apart, and what was
    seen from the second sending on is left out.
    """
    ordered = sorted(frames, key=lambda sighting: sighting.frame.time_ns)
    sendings, reappeared = split_sendings(ordered, topology)
    found = Journey(reappeared=reappeared)
    for sighting in sendings[0] if sendings else ():
        at_port = is_port(topology, sighting.frame)
        last = found.visits[-1] if found.visits else None
        if last is None or last.place != sighting.frame.place or not last.takes(sighting, at_port=at_port):
            found.visits.append(Visit(sighting.frame.place))
        visit = found.visits[-1]
        (visit.incoming if sighting.frame.direction == "in" else visit.outgoing).append(sighting)
    unseen: list[Run] = []
    for run in split_runs(passes, topology):
        came = [any(each.frame.place == run.place for each in sending) for sending in sendings]
        visit_of_run = next((visit for visit in found.visits if belongs(run, visit)), None)
        if visit_of_run is not None and not visit_of_run.passes and run.times >= sum(came):
            visit_of_run.passes += run.passes
        elif visit_of_run is not None or not run.passes[0].hook or (len(came) > 1 and came[0]):
            # A copy's, or another sending's, or nobody knows what hook's.
            found.unplaced += run.passes
        elif not any(came) or len(came) == 1:
            unseen.append(run)
    for run in sorted(unseen, key=lambda run: -run.first_hops):
        _insert(found, run, topology)
    return found


def _insert(found: Journey, run: Run, topology: Topology) -> None:
    """Find the place in the journey of a stay without frames: behind the stay whose frame led here, before the one that
    a frame led to from here, else by the hops left."""
    index = position(found.visits, run, topology)
    if index is None or any(is_again(run, visit) for visit in found.visits):
        found.unplaced += run.passes
    else:
        found.visits.insert(index, Visit(run.place, passes=run.passes))
