"""What came of a probe, in one word, and which endpoint it reached."""

from __future__ import annotations

from collections.abc import Sequence

from netlab.model.walk import Endpoint, Step, Verdict
from netlab.packets.headers import ICMP, RST, TCP, Packet
from netlab.packets.observation import Observation, SocketResult
from netlab.packets.passes import TRACE_TABLE
from netlab.packets.visits import END_HOSTS, Visit


def verdict_of(seen: Observation, replies: Sequence[Visit], steps: Sequence[Step]) -> Verdict:
    """The verdict, as the contract of the walk defines it."""
    result = seen.outcome.result
    if result == "sent":
        result = _result_of_crafted(seen, replies)
    if result == "answered":
        return "answered"
    if _made_by_rule(result, replies, steps):
        return "rejected"
    if result in ("refused", "unreachable"):
        return result
    if any(step.action in ("drop", "reject") for step in steps):
        return "dropped"
    answer = replies[0].first_packet() if replies else None
    if answer is not None and answer.is_icmp_error and came_back(seen, replies):
        return "unreachable"
    return "no-reply"


def _made_by_rule(result: SocketResult, replies: Sequence[Visit], steps: Sequence[Step]) -> bool:
    """Whether the answer is a rule's: one that rejects ended the request, or a drop where the answer began (no other
    rule lets a dropped packet be answered)."""
    ends = [step for step in steps if step.direction == "request" and step.action in ("reject", "drop")]
    if not replies:
        return result in ("refused", "unreachable") and any(step.action == "reject" for step in ends)
    first = replies[0]
    return any(step.place == first.place or (step.action == "reject" and first.incoming) for step in ends)


def _result_of_crafted(seen: Observation, replies: Sequence[Visit]) -> SocketResult:
    """What a socket would have experienced, from the packet that came back to the origin."""
    if not came_back(seen, replies):
        return "timeout"
    packet = replies[-1].last_packet()
    if packet.protocol == TCP:
        return "refused" if packet.flags & RST else "answered"
    if packet.icmp is not None and packet.is_icmp_error:
        port_unreachable = (3, 3) if packet.protocol == ICMP else (1, 4)
        return "refused" if packet.icmp == port_unreachable else "unreachable"
    return "refused" if packet.is_abort else "answered"


def came_back(seen: Observation, replies: Sequence[Visit]) -> bool:
    """Whether the reply got to where the probe came from, under the addresses that the prober knows."""
    if not replies or replies[-1].place != seen.origin or replies[-1].outgoing or replies[-1].dropped:
        return False
    packet = replies[-1].last_packet()
    if packet.is_icmp_error:
        # Only frames show the packet that an error quotes in full.
        quoted = [each.packet.inner for each in replies[-1].incoming if each.packet.inner is not None]
        return any(each.destination_text == seen.outcome.destination for each in quoted)
    return packet.addresses == (seen.outcome.destination, seen.outcome.source)


def endpoint_of(
    seen: Observation, requests: Sequence[Visit], replies: Sequence[Visit], verdict: Verdict
) -> tuple[Endpoint | None, str | None]:
    """Where the request ended, if that is an endpoint, and the source that the Pod there saw."""
    if not requests or requests[-1].outgoing or requests[-1].dropped:
        return None, None
    last = requests[-1]
    packet = last.last_packet()
    place = seen.topology.places.get(last.place)
    if place is None or not _is_own(packet, place.own_addresses()):
        return None, None
    taken = (place.kind in END_HOSTS and bool(last.incoming)) or _passed_input(last)
    if not taken and not (last.passed("INPUT") and _answers_itself(last, replies)):
        return None, None
    owner = seen.owners.get(packet.destination) or seen.owners.get(packet.destination_text)
    if owner is not None and owner.place == last.place:
        source = packet.source_text if taken else None
        return Endpoint(owner.pod, packet.destination, packet.destination_port, owner.node), source
    if verdict != "answered" or not taken:
        return None, None
    return Endpoint(None, packet.destination, packet.destination_port, place.node), None


def _is_own(packet: Packet, addresses: Sequence[str]) -> bool:
    return packet.destination in addresses or packet.destination.startswith("127.")


def _passed_input(last: Visit) -> bool:
    """Whether the packet came through the last chain of INPUT, behind which nothing changes or drops it."""
    return any(each.hook == "INPUT" and each.chain[1] == TRACE_TABLE and each.complete for each in last.passes)


def _answers_itself(last: Visit, replies: Sequence[Visit]) -> bool:
    """Whether an answer was made in the same place that no rule can have made: rules refuse, but do not answer."""
    if not replies or replies[0].incoming or replies[0].place != last.place:
        return False
    answer = replies[0].first_packet()
    return not (answer.is_icmp_error or answer.flags & RST or answer.is_abort)
