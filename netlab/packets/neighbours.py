"""Packets that end with a question that nobody answers: who has the next address?"""

from __future__ import annotations

from ipaddress import ip_address, ip_interface

from netlab.model.records import Frame
from netlab.model.walk import host_of
from netlab.packets import reasons
from netlab.packets.headers import parse_neighbour_question
from netlab.packets.observation import Observation
from netlab.packets.steplist import StepList
from netlab.packets.visits import END_HOSTS, Visit, interface_of


def add_unanswered_question(seen: Observation, found: StepList, last: Visit) -> str | None:
    """A packet that did not leave a place, because nobody answered who has the next address (ARP, neighbour discovery),
    ends with that question. Returns the interface where it was asked."""
    place = seen.topology.places.get(last.place)
    if place is None or last.outgoing or last.dropped or last.passed("INPUT"):
        return None
    if place.kind in END_HOSTS and last.incoming:
        return None
    packet = last.last_packet()
    source, destination = packet.addresses
    if found.steps:
        source, destination = found.steps[-1].source, found.steps[-1].destination
    for frame in sorted(seen.frames, key=lambda frame: frame.time_ns):
        if frame.place != last.place or frame.direction != "out" or frame.time_ns < (last.begin_ns or 0):
            continue
        question = parse_neighbour_question(frame.data)
        if question is None or question.is_answer or _is_answered(seen, question.address):
            continue
        if _is_next_hop(seen, frame, question.address, host_of(destination)):
            found.begin(frame.time_ns)
            found.at(frame.time_ns)
            found.add(
                direction="request",
                place=last.place,
                interface=frame.interface,
                action="unanswered",
                addresses=(source, destination),
                reason=reasons.NOBODY_THERE(place=last.place, address=question.address),
                evidence=(frame.id,),
            )
            return frame.interface
    return None


def _is_answered(seen: Observation, address: str) -> bool:
    answers = (parse_neighbour_question(frame.data) for frame in seen.frames)
    return any(each is not None and each.is_answer and each.address == address for each in answers)


def _is_next_hop(seen: Observation, frame: Frame, asked: str, destination: str) -> bool:
    """Whether a question on an interface can be one for the packet's sake: for its destination, or, if that is not on
    the link, for a router."""
    interface = interface_of(seen.topology, frame)
    if interface is None or interface.master is not None:
        return False
    if asked == destination:
        return True
    networks = [ip_interface(text).network for text in interface.addresses]
    router = seen.topology.place_with_address(asked)
    on_link = any(ip_address(destination) in network for network in networks)
    return not on_link and router is not None and router.kind in ("router", "node")
