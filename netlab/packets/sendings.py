"""A packet that is sent again can be the same one to the last bit: its frames, cut into sendings.

What tells two sendings apart is where one packet can have been and where it can go on from there: a station that comes
again with as many hops left, hops that rise, an end host that hands on what it got.
"""

from __future__ import annotations

from collections.abc import Sequence

from netlab.model.topology import Topology
from netlab.packets.visits import END_HOSTS, LOOPBACK, FrameSighting, interface_of


def split_sendings(ordered: Sequence[FrameSighting], topology: Topology) -> tuple[list[list[FrameSighting]], bool]:
    """Cut frames where a packet with the same bits was sent again, and whether the first cut was made without having
    seen the same frame twice."""
    sendings: list[list[FrameSighting]] = []
    seen: set[tuple[str, str, str, int]] = set()
    reappeared = False
    for sighting in ordered:
        frame = sighting.frame
        station = (frame.place, frame.interface, frame.direction, sighting.packet.hops)
        repeated = station in seen
        if not sendings or repeated or not _can_follow(sendings[-1][-1], sighting, topology):
            reappeared |= len(sendings) == 1 and not repeated
            sendings.append([])
            seen = set()
        sendings[-1].append(sighting)
        seen.add(station)
    return sendings, reappeared


def _can_follow(last: FrameSighting, new: FrameSighting, topology: Topology) -> bool:
    """Whether one packet can have made the second sighting some time after the first."""
    there, here = topology.places.get(last.frame.place), topology.places.get(new.frame.place)
    came_in = last.frame.direction == "in"
    if last.frame.place == new.frame.place:
        return new.packet.hops < last.packet.hops or (
            new.packet.hops == last.packet.hops and _is_behind(last, new, topology)
        )
    if here is not None and here.kind in END_HOSTS and new.frame.direction == "out":
        return False
    if there is not None and there.kind in END_HOSTS and came_in:
        return False
    interface = interface_of(topology, last.frame)
    routed = came_in and interface is not None and interface.master is None
    return new.packet.hops <= last.packet.hops - routed


def _is_behind(last: FrameSighting, new: FrameSighting, topology: Topology) -> bool:
    """Whether a frame can come after another one in the same place where no router has counted hops down in between:
    bridges and tunnels are behind their ports on the way in and before them on the way out. A host can get back what it
    sent."""
    place = topology.places.get(new.frame.place)
    end_host = place is not None and place.kind in END_HOSTS
    if new.frame.direction == "in" and last.frame.direction == "out":
        return new.frame.interface == LOOPBACK or end_host
    if last.frame.interface == LOOPBACK or end_host:
        return False
    return _depth(last, topology) < _depth(new, topology)


def _depth(sighting: FrameSighting, topology: Topology) -> int:
    interface = interface_of(topology, sighting.frame)
    inner = interface is not None and interface.kind in ("bridge", "vxlan")
    return int(inner) if sighting.frame.direction == "in" else 3 - int(inner)
