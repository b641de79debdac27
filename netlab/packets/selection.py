"""Which of all the packets that were recorded are the probe's request and the reply to it.

Both are told by what NAT keeps (the probe's mark), and named by their keys from then on (:attr:`Packet.key`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from netlab.model.records import Frame
from netlab.packets.headers import Packet, destination_mac, parse_frame
from netlab.packets.observation import Observation
from netlab.packets.passes import HookPass
from netlab.packets.translation import Addresses, texts
from netlab.packets.visits import FrameSighting, interface_of

Key = tuple[object, ...]


def frame_sightings(seen: Observation) -> list[FrameSighting]:
    """The IP packets among the frames, by time, without what a bridge flooded to places that it was not meant for."""
    sightings = []
    for frame in seen.frames:
        packet = parse_frame(frame.data, seen.vxlan)
        if packet is not None and not _is_flooded(seen, frame):
            sightings.append(FrameSighting(frame, packet))
    return sorted(sightings, key=lambda sighting: sighting.frame.time_ns)


def _is_flooded(seen: Observation, frame: Frame) -> bool:
    """Whether a frame is a copy that a bridge sent by a port behind which somebody else is."""
    interface = interface_of(seen.topology, frame)
    if interface is None:
        return False
    if frame.direction == "in":
        return frame.overheard and interface.master is None
    if interface.master is None or interface.peer is None or frame.data[0] & 1:
        return False
    there = seen.topology.places.get(interface.peer.place)
    far = there.interface(interface.peer.interface) if there is not None else None
    return far is not None and far.mac != destination_mac(frame.data)


def request_key(seen: Observation, sightings: Sequence[FrameSighting], passes: Sequence[HookPass]) -> Key | None:
    """The key of the first packet at the origin that carries the mark and has the socket's addresses."""
    wanted = (seen.outcome.source, seen.outcome.destination)

    def asks(packet: Packet) -> bool:
        return packet.inner is None and seen.mark.carried_by(packet) and packet.addresses == wanted

    hooked = [
        each.packet.key for each in passes if each.place == seen.origin and each.hook == "OUTPUT" and asks(each.packet)
    ]
    framed = [each.packet.key for each in sightings if each.frame.place == seen.origin and asks(each.packet)]
    if framed and framed[0] not in hooked and hooked and hooked[0] in framed:
        # The first one's hook records are lost.
        return framed[0]
    if hooked or framed:
        return (hooked or framed)[0]
    return _request_key_elsewhere(seen, sightings, passes)


def _packets(sightings: Sequence[FrameSighting], passes: Sequence[HookPass]) -> list[Packet]:
    """All packets as they were seen: first by frames, in the order of time, then by hooks."""
    return [*(each.packet for each in sightings), *(each.packet for each in passes)]


def _request_key_elsewhere(
    seen: Observation, sightings: Sequence[FrameSighting], passes: Sequence[HookPass]
) -> Key | None:
    """The request where it was not seen as it was sent. An answer may echo the mark: only a packet that still has one
    of the socket's addresses on the right side is the request, and none that ever has one on the other side."""
    source, destination = seen.outcome.source, seen.outcome.destination
    packets = _packets(sightings, passes)
    marked = [each for each in packets if each.inner is None and not each.is_icmp_error and seen.mark.carried_by(each)]
    for key in dict.fromkeys(each.key for each in marked):
        same = [each for each in marked if each.key == key]
        if any(each.destination_text == source or each.source_text == destination for each in same):
            continue
        if any(each.source_text == source or each.destination_text == destination for each in same):
            return key
    return None


def reply_key(
    seen: Observation, sightings: Sequence[FrameSighting], passes: Sequence[HookPass], asked: Key | None
) -> Key | None:
    """The key of the first packet that answers the request ``asked``, by the clock of frames; from hooks alone where no
    frame of it exists."""
    if asked is None:
        return None
    begin = next((each.frame.time_ns for each in sightings if each.packet.key == asked), 0)
    later = [each for each in sightings if each.frame.time_ns >= begin]
    packets = _packets(sightings, passes)
    asked_as = {each.addresses for each in packets if each.key == asked}
    # A request that is sent again carries the mark too; at some place it has the prober's own source.
    mine = [each for each in packets if each.source_text == seen.outcome.source]
    resent = {each.key for each in mine if not each.is_echo_reply and not each.is_icmp_error}

    def answers(packet: Packet) -> bool:
        if packet.key == asked or packet.key in resent or not seen.mark.answered_by(packet):
            return False
        # A bare mark alone may come by chance: the error has to quote the request as it was seen.
        return packet.inner is None or not seen.mark.is_bare or packet.inner.addresses in asked_as

    if seen.mark.echo is not None:
        # Numbers of pings come by chance too: one that comes back to the prober is the one.
        mine_back = (seen.outcome.destination, seen.outcome.source)
        back = (each.key for each in _packets(later, passes) if answers(each) and each.addresses == mine_back)
        if (key := next(back, None)) is not None:
            return key
    found = next((each.key for each in _packets(later, passes) if answers(each)), None)
    if found is None and seen.mark.answers_by_ports:
        wanted = _turned_round(seen, asked_as)
        others = (each for each in _packets(later, passes) if each.key != asked and each.key not in resent)
        same = (each for each in others if each.protocol == seen.mark.protocol and each.inner is None)
        return next((each.key for each in same if each.addresses in wanted), None)
    if found is None and seen.mark.is_bare:
        return _unmarked_reply_key(seen, [each for each in later if each.packet.key != asked])
    return found


def _turned_round(seen: Observation, asked_as: Collection[Addresses]) -> set[Addresses]:
    """The addresses that an answer can have: those of the request the other way round, and what conntrack expects."""
    expected = (texts(record.reply) for record in seen.conntrack if texts(record.original) in asked_as)
    return {(destination, source) for source, destination in asked_as} | set(expected)


def _unmarked_reply_key(seen: Observation, later: Sequence[FrameSighting]) -> Key | None:
    """The key of what came back to the prober's own addresses, where answers can be known by nothing else."""
    wanted = _turned_round(seen, {(seen.outcome.source, seen.outcome.destination)})
    for each in later:
        came_in = each.frame.place == seen.origin and each.frame.direction == "in"
        if came_in and each.packet.protocol == seen.mark.protocol and each.packet.addresses in wanted:
            return each.packet.key
    return None
