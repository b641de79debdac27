"""The walk of one probe, from everything that was recorded while it ran. A pure function of those records.

The request is the first packet at its origin that carries the probe's mark (a TCP sequence number, a payload), the
reply the first packet that answers it. Each is then followed by what NAT keeps of it (:attr:`Packet.key`): never by
time alone, never by addresses alone. Other traffic, retransmissions and trace numbers that come back have other keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from netlab.model.records import ConntrackRecord, Frame, Loss, TraceRecord
from netlab.model.rulebook import Rulebook
from netlab.model.text import Message, Text
from netlab.model.topology import Topology
from netlab.model.walk import (
    ConntrackEntry,
    Endpoint,
    Gap,
    Pair,
    Probe,
    Step,
    Verdict,
    Walk,
    endpoint_text,
)
from netlab.packets import reasons
from netlab.packets.headers import (
    ACK,
    ICMP,
    PROTOCOL_NAMES,
    RST,
    SCTP,
    SYN,
    TCP,
    Packet,
    parse_frame,
    parse_neighbour_question,
)
from netlab.packets.journey import FrameSighting, HookPass, Visit, group_passes, journey
from netlab.packets.steps import Context, StepList, add_steps

SocketResult = Literal["answered", "refused", "unreachable", "timeout", "sent"]

LOST_FRAMES = Message(
    "gap.lost-frames",
    en="{count} frames in {place} were lost before they could be read: sightings may be missing there.",
    zh="{place} 中有 {count} 个帧在读取前丢失：那里可能缺少观察记录。",
)
LOST_RECORDS = Message(
    "gap.lost-records",
    en="Some {kind} records of {place} were lost before they could be read: steps may be missing there.",
    zh="{place} 的部分 {kind} 记录在读取前丢失：那里可能缺少步骤。",
)
NOT_SEEN_ARRIVING = Message(
    "gap.not-seen-arriving",
    en="The packet left {place} by {interface}, and was not seen at the other end of that link ({peer}).",
    zh="数据包从 {place} 的 {interface} 离开，但在链路另一端 ({peer}) 没有被观察到。",
)
NO_REQUEST = Message(
    "gap.no-request",
    en="The request itself was not observed at {place}.",
    zh="在 {place} 没有观察到请求本身。",
)
UNTRACED = Message(
    "gap.untraced",
    en="The packet passed through {place}, but no record of its hooks there reached the lab.",
    zh="数据包经过了 {place}，但实验没有收到它在那里的钩子记录。",
)


@dataclass(frozen=True)
class Mark:
    """What tells the probe's packets from all others: for TCP the sequence number of its SYN, else the first bytes of
    its payload, else the identification in its IP header (IPv6: the flow label). ``protocol`` is the IP protocol's
    number."""

    protocol: int
    sequence: int | None = None
    payload: bytes = b""
    identification: int | None = None

    @property
    def payload_offset(self) -> int:
        """Where the payload begins, from the start of the transport header, bytes."""
        return 12 if self.protocol == SCTP else 8

    def carried_by(self, packet: Packet) -> bool:
        """Whether the packet is one of the probe's, request or echoed answer."""
        if packet.protocol != self.protocol:
            return False
        if self.protocol == TCP:
            return packet.sequence == self.sequence and packet.flags & (SYN | ACK) != SYN | ACK
        if self.payload:
            return packet.payload[: len(self.payload)] == self.payload
        return packet.key[2] == self.identification

    def answered_by(self, packet: Packet) -> bool:
        """Whether the packet answers the probe's request: a SYN-ACK or RST for its SYN, or an error that quotes it."""
        if packet.inner is not None:
            return packet.is_icmp_error and self.carried_by(packet.inner)
        if self.protocol == TCP and packet.protocol == TCP and self.sequence is not None:
            expected = (self.sequence + 1) & 0xFFFFFFFF
            return packet.acknowledgement == expected and bool(packet.flags & (SYN | RST)) and bool(packet.flags & ACK)
        if self.protocol == SCTP and packet.protocol == SCTP and len(self.payload) >= 8:
            return packet.verification_tag == self.payload[4:8]
        return self.carried_by(packet)


@dataclass(frozen=True)
class Outcome:
    """What the probe's socket experienced. ``source`` and ``destination`` are its own addresses as texts."""

    result: SocketResult
    source: str
    destination: str
    duration_us: float | None = None
    error: str | None = None


@dataclass(frozen=True)
class EndpointOwner:
    """Who has an endpoint's address: a Pod, and its node."""

    pod: str
    node: str
    place: str


@dataclass
class Observation:
    """All that was recorded, and what is needed to read it. ``owners`` by IP address (or "A:P" for Pods on their node's
    network)."""

    origin: str
    mark: Mark
    probe: Probe
    mode: str
    outcome: Outcome
    topology: Topology
    frames: Sequence[Frame]
    traces: Sequence[TraceRecord]
    conntrack: Sequence[ConntrackRecord]
    losses: Sequence[Loss] = ()
    rulebooks: Mapping[str, Rulebook] = field(default_factory=dict)
    owners: Mapping[str, EndpointOwner] = field(default_factory=dict)
    meanings: Mapping[str, Text] = field(default_factory=dict)
    vxlan: bool = False


def correlate(seen: Observation) -> Walk:
    """The walk. Rows are made of sightings alone; what could not be observed is said in the walk's gaps."""
    sightings = _sightings(seen)
    passes = group_passes(seen.traces, seen.rulebooks)
    request_key = _request_key(seen, sightings, passes)
    requests = _journey(seen, sightings, passes, request_key)
    reply_key = _reply_key(seen, sightings, passes, request_key, requests)
    replies = _journey(seen, sightings, passes, reply_key)
    start = min((visit.begin_ns for visit in requests if visit.begin_ns is not None), default=0)
    if not start and seen.frames:
        start = min(frame.time_ns for frame in seen.frames)
    found = StepList(Context(seen.topology, seen.rulebooks, seen.conntrack, start, seen.meanings))
    if not requests:
        found.gap(NO_REQUEST(place=seen.origin))
    add_steps(found, requests, "request")
    _add_unanswered_question(seen, found, requests)
    _note_gaps(seen, found, requests)
    add_steps(found, replies, "reply")
    _note_gaps(seen, found, replies)
    verdict = _verdict(seen, replies, found.steps)
    endpoint, seen_by = _endpoint(seen, requests, verdict)
    gaps = [*found.gaps, *_losses(seen, len(found.steps))]
    entries = tuple(_entry(record) for record in found.used_entries.values())
    steps = tuple(found.steps)
    return Walk(
        mode=seen.mode,
        probe=seen.probe,
        verdict=verdict,
        endpoint=endpoint,
        seen_by_pod=seen_by,
        steps=steps,
        gaps=tuple(Gap(after, reason) for after, reason in sorted(gaps, key=lambda gap: gap[0])),
        conntrack=entries,
        records=_records(seen, steps),
    )


def _sightings(seen: Observation) -> list[FrameSighting]:
    """The IP packets among the frames, without what a bridge flooded to places that it was not meant for."""
    sightings = []
    flooded: set[tuple[str, str, tuple[object, ...]]] = set()
    for frame in seen.frames:
        packet = parse_frame(frame.data, seen.vxlan)
        if packet is None:
            continue
        place = seen.topology.places.get(frame.place)
        interface = place.interface(frame.interface) if place is not None else None
        if frame.overheard and interface is not None and interface.master is None:
            if interface.peer is not None:
                flooded.add((interface.peer.place, interface.peer.interface, packet.key))
            continue
        sightings.append(FrameSighting(frame, packet))
    return [
        each
        for each in sightings
        if each.frame.direction == "in" or (each.frame.place, each.frame.interface, each.packet.key) not in flooded
    ]


def _request_key(
    seen: Observation, sightings: Sequence[FrameSighting], passes: Sequence[HookPass]
) -> tuple[object, ...] | None:
    """The key of the first packet at the origin that carries the mark and has the socket's addresses."""
    wanted = (seen.outcome.source, seen.outcome.destination)
    for each in passes:
        if each.place == seen.origin and each.hook == "OUTPUT" and _is_request(seen.mark, each.packet, wanted):
            return each.packet.key
    for sighting in sorted(sightings, key=lambda sighting: sighting.frame.time_ns):
        if sighting.frame.place == seen.origin and _is_request(seen.mark, sighting.packet, wanted):
            return sighting.packet.key
    return None


def _is_request(mark: Mark, packet: Packet, addresses: tuple[str, str]) -> bool:
    return packet.inner is None and mark.carried_by(packet) and packet.addresses == addresses


def _reply_key(
    seen: Observation,
    sightings: Sequence[FrameSighting],
    passes: Sequence[HookPass],
    request_key: tuple[object, ...] | None,
    requests: Sequence[Visit],
) -> tuple[object, ...] | None:
    """The key of the first packet that answers the request, by the clock of frames; from hooks alone where no frame of
    it exists."""
    if request_key is None:
        return None
    begin = requests[0].begin_ns or 0 if requests else 0
    answers = [
        sighting
        for sighting in sightings
        if sighting.packet.key != request_key
        and seen.mark.answered_by(sighting.packet)
        and sighting.frame.time_ns >= begin
        and not _same_direction(seen, sighting.packet)
    ]
    if answers:
        return min(answers, key=lambda sighting: sighting.frame.time_ns).packet.key
    for each in passes:
        if each.packet.key != request_key and seen.mark.answered_by(each.packet):
            return each.packet.key
    return None


def _same_direction(seen: Observation, packet: Packet) -> bool:
    """A retransmission of the request, which carries the mark too, is no answer: it comes from the same source."""
    return packet.inner is None and packet.source_text == seen.outcome.source


def _journey(
    seen: Observation,
    sightings: Sequence[FrameSighting],
    passes: Sequence[HookPass],
    key: tuple[object, ...] | None,
) -> list[Visit]:
    if key is None:
        return []
    return journey(
        [each for each in sightings if each.packet.key == key],
        [each for each in passes if each.packet.key == key],
        seen.topology,
    )


def _verdict(seen: Observation, replies: Sequence[Visit], steps: Sequence[Step]) -> Verdict:
    answer = replies[0].first_packet() if replies else None
    rejected = any(step.action == "reject" for step in steps)
    dropped = any(step.action == "drop" for step in steps)
    result = seen.outcome.result
    if result == "sent":
        result = _result_of_crafted(seen, replies)
    if result == "answered":
        return "answered"
    if result == "refused":
        return "rejected" if rejected else "refused"
    if result == "unreachable":
        if rejected:
            return "rejected"
        return "unreachable"
    if rejected and answer is not None:
        return "rejected"
    if dropped:
        return "dropped"
    if answer is not None and answer.icmp is not None and answer.is_icmp_error and _came_back(seen, replies):
        return "unreachable"
    return "no-reply"


def _result_of_crafted(seen: Observation, replies: Sequence[Visit]) -> SocketResult:
    """What a socket would have experienced, from the packet that came back to the origin."""
    if not _came_back(seen, replies):
        return "timeout"
    packet = replies[-1].last_packet()
    if packet.protocol == TCP:
        return "refused" if packet.flags & RST else "answered"
    if packet.icmp is not None and packet.is_icmp_error:
        port_unreachable = (3, 3) if packet.protocol == ICMP else (1, 4)
        return "refused" if packet.icmp == port_unreachable else "unreachable"
    return "answered"


def _came_back(seen: Observation, replies: Sequence[Visit]) -> bool:
    """Whether the reply got to where the probe came from, under the addresses that the prober knows."""
    if not replies or replies[-1].place != seen.origin:
        return False
    packet = replies[-1].last_packet()
    if packet.is_icmp_error:
        # Only frames show the packet that an error quotes in full.
        quoted = [each.packet.inner for each in replies[-1].incoming if each.packet.inner is not None]
        return any(each.destination_text == seen.outcome.destination for each in quoted)
    return packet.addresses == (seen.outcome.destination, seen.outcome.source)


def _endpoint(seen: Observation, requests: Sequence[Visit], verdict: Verdict) -> tuple[Endpoint | None, str | None]:
    """Where the request ended, if that is an endpoint, and the source that the Pod there saw."""
    if not requests:
        return None, None
    last = requests[-1]
    packet = last.last_packet()
    delivered = bool(last.incoming) or any(each.hook == "INPUT" for each in last.passes)
    if not delivered or last.outgoing or any(each.dropped for each in last.passes):
        return None, None
    owner = seen.owners.get(packet.destination) or seen.owners.get(packet.destination_text)
    if owner is not None and owner.place == last.place:
        return Endpoint(owner.pod, packet.destination, packet.destination_port, owner.node), packet.source_text
    if verdict != "answered":
        return None, None
    place = seen.topology.places.get(last.place)
    return Endpoint(None, packet.destination, packet.destination_port, place.node if place is not None else None), None


def _entry(record: ConntrackRecord) -> ConntrackEntry:
    return ConntrackEntry(
        node=record.place,
        protocol=PROTOCOL_NAMES.get(record.protocol, str(record.protocol)),
        original=Pair(
            endpoint_text(record.original.source, record.original.source_port),
            endpoint_text(record.original.destination, record.original.destination_port),
        ),
        reply=Pair(
            endpoint_text(record.reply.source, record.reply.source_port),
            endpoint_text(record.reply.destination, record.reply.destination_port),
        ),
        status=record.status,
    )


def _note_gaps(seen: Observation, found: StepList, visits: Sequence[Visit]) -> None:
    """What the sightings leave open: a link that a packet entered and did not leave, a node without hook records."""
    for index, visit in enumerate(visits):
        place = seen.topology.places.get(visit.place)
        if place is None:
            continue
        if not visit.passes and seen.rulebooks.get(visit.place) and _should_be_traced(seen, visit):
            found.gap(UNTRACED(place=visit.place))
        if not visit.outgoing:
            continue
        last = visit.outgoing[-1].frame
        interface = place.interface(last.interface)
        if interface is None or interface.peer is None:
            continue
        following = visits[index + 1] if index + 1 < len(visits) else None
        if following is None or following.place != interface.peer.place:
            peer = f"{interface.peer.place}/{interface.peer.interface}"
            found.gap(NOT_SEEN_ARRIVING(place=visit.place, interface=last.interface, peer=peer))


def _should_be_traced(seen: Observation, visit: Visit) -> bool:
    """Nodes have rules, so hooks leave records; a frame that is only bridged passes none of them by."""
    place = seen.topology.places.get(visit.place)
    if place is None or place.kind != "node":
        return False
    interfaces = [place.interface(sighting.frame.interface) for sighting in visit.incoming]
    return place.bridge_netfilter or any(each is not None and each.master is None for each in interfaces)


def _losses(seen: Observation, after: int) -> list[tuple[int, Text]]:
    """Losses are said wherever they happened: what was lost may have been part of this walk."""
    gaps = []
    for loss in seen.losses:
        if loss.kind == "frame":
            gaps.append((after, LOST_FRAMES(count=loss.count, place=loss.place)))
        else:
            gaps.append((after, LOST_RECORDS(kind=loss.kind, place=loss.place)))
    return gaps


def _records(seen: Observation, steps: Sequence[Step]) -> dict[str, dict[str, object]]:
    """The records that the steps name, as plain values."""
    wanted = {identifier for step in steps for identifier in step.evidence}
    records: dict[str, dict[str, object]] = {}
    for frame in seen.frames:
        if frame.id in wanted:
            records[frame.id] = {
                "time": frame.time_ns,
                "place": frame.place,
                "interface": frame.interface,
                "direction": frame.direction,
                "length": frame.length,
                "bytes": frame.data.hex(),
            }
    for trace in seen.traces:
        if trace.id in wanted:
            records[trace.id] = {
                "place": trace.place,
                "packet": trace.packet,
                "family": trace.family,
                "table": trace.table,
                "chain": trace.chain,
                "type": trace.kind,
                "handle": trace.handle,
                "verdict": f"{trace.verdict} {trace.target}" if trace.target else trace.verdict,
                "mark": trace.mark,
            }
    for record in seen.conntrack:
        if record.id in wanted:
            entry = _entry(record)
            records[record.id] = {
                "place": record.place,
                "event": record.event,
                "id": record.entry,
                "protocol": entry.protocol,
                "original": {"source": entry.original.source, "destination": entry.original.destination},
                "reply": {"source": entry.reply.source, "destination": entry.reply.destination},
                "status": list(record.status),
                "mark": record.mark,
            }
    return records


def _add_unanswered_question(seen: Observation, found: StepList, requests: Sequence[Visit]) -> None:
    """A packet that did not leave a place, because nobody answered who has the next address (ARP, neighbour discovery),
    ends with that question."""
    if (
        not requests
        or requests[-1].outgoing
        or any(each.hook == "INPUT" or each.dropped for each in requests[-1].passes)
    ):
        return
    visit = requests[-1]
    questions: dict[str, Frame] = {}
    for frame in seen.frames:
        if frame.place != visit.place:
            continue
        question = parse_neighbour_question(frame.data)
        if question is not None and frame.direction == "out" and not question.is_answer:
            questions.setdefault(question.address, frame)
        elif question is not None and question.is_answer:
            questions.pop(question.address, None)
    for address, frame in questions.items():
        found.at(frame.time_ns)
        found.add(
            direction="request",
            place=visit.place,
            interface=frame.interface,
            action="unanswered",
            addresses=visit.last_packet().addresses,
            reason=reasons.NOBODY_THERE(place=visit.place, address=address),
            evidence=(frame.id,),
        )
        return
