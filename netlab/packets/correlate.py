"""The walk of one probe, from everything that was recorded while it ran. A pure function of those records.

The request is the first packet at its origin that carries the probe's mark (a TCP sequence number, a payload), the
reply the first packet that answers it. Each is then followed by what NAT keeps of it (:attr:`Packet.key`): never by
time alone, never by addresses alone. Other traffic, retransmissions and trace numbers that come back have other keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from netlab.model.records import ProxyConnection
from netlab.model.text import Message, Text
from netlab.model.walk import Gap, Walk, host_of
from netlab.packets import gaps
from netlab.packets.evidence import conntrack_entry, records_of
from netlab.packets.headers import Packet
from netlab.packets.journey import Journey, journey
from netlab.packets.neighbours import add_unanswered_question
from netlab.packets.observation import Observation
from netlab.packets.passes import HookPass, group_passes
from netlab.packets.relay import relayed_at, second_probe, tell_opening, tell_return
from netlab.packets.selection import Key, frame_sightings, reply_key, request_key
from netlab.packets.steplist import Context, StepList
from netlab.packets.steps import add_steps
from netlab.packets.translation import Translations
from netlab.packets.verdict import endpoint_of, verdict_of
from netlab.packets.visits import FrameSighting, Visit

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
NO_REQUEST = Message(
    "gap.no-request",
    en="The request itself was not observed at {place}.",
    zh="在 {place} 没有观察到请求本身。",
)
NO_ANSWER_SEEN = Message(
    "gap.no-answer-seen",
    en="{place} got an answer, but none was observed.",
    zh="{place} 得到了应答，但没有观察到任何应答。",
)
NO_ERROR_SEEN = Message(
    "gap.no-error-seen",
    en="The rule rejects, and no error was seen to be sent: the kernel limits how many it sends.",
    zh="该规则拒绝数据包，但没有观察到发出错误消息：内核会限制错误消息的数量。",
)
ANSWER_UNKNOWN = Message(
    "gap.answer-unknown",
    en="An answer to this packet would carry nothing to know it by: only what came back to {place} was looked for, and "
    "nothing did.",
    zh="对该数据包的应答不带任何可供识别的标记：只查找了返回 {place} 的数据包，但没有找到。",
)
UNPLACED = Message(
    "gap.unplaced",
    en="Records of the packet's hooks in {place} could not be put in order, and are left out.",
    zh="无法确定数据包在 {place} 中的钩子记录的顺序，因此将其略去。",
)
REAPPEARED = Message(
    "gap.reappeared",
    en="After this the same packet was seen where it cannot have come from here; that is left out.",
    zh="此后在不可能由此到达的位置又观察到同一数据包；该部分已略去。",
)


def correlate(seen: Observation) -> Walk:
    """The walk. Rows are made of sightings alone; what could not be observed is said in the walk's gaps."""
    sightings = frame_sightings(seen)
    passes = group_passes(seen.traces, seen.rulebooks)
    asked = request_key(seen, sightings, passes)
    requests = _journey(seen, sightings, passes, asked)
    relayed = relayed_at(seen, requests.visits)
    second = _second_way(seen, sightings, passes, relayed)
    # What a proxy hands on carries the probe's own contents, and is no answer to it.
    own = second.keys if second is not None else ()
    others = [each for each in sightings if each.packet.key not in own]
    passed = [each for each in passes if each.packet.key not in own]
    replies = _journey(seen, sightings, passes, reply_key(seen, others, passed, asked))
    found = StepList(
        Context(
            origin=seen.origin,
            topology=seen.topology,
            rulebooks=seen.rulebooks,
            translations=Translations(seen.conntrack, seen.ipvs),
            start_ns=_start(seen, [*requests.visits, *replies.visits]),
            meanings=seen.meanings,
            unready=seen.unready,
        )
    )
    _tell_request(seen, found, requests, replies)
    if relayed is not None:
        _tell_relayed(found, relayed, requests.visits[-1].last_packet(), second)
    _tell_reply(seen, found, requests, replies)
    verdict = verdict_of(seen, replies.visits, found.steps)
    if verdict == "answered" and relayed is not None and relayed.dialled is None:
        # The proxy took the connection and closed it: nobody has answered.
        verdict = "refused"
    last = second or _Way(seen, requests, replies)
    endpoint, seen_by = endpoint_of(last.seen, last.requests.visits, last.replies.visits, verdict)
    all_gaps = [*found.gaps, *_losses(seen, len(found.steps))]
    steps = tuple(found.steps)
    return Walk(
        mode=seen.mode,
        probe=seen.probe,
        verdict=verdict,
        endpoint=endpoint,
        seen_by_pod=seen_by,
        steps=steps,
        gaps=tuple(Gap(after, reason) for after, reason in sorted(all_gaps, key=lambda gap: gap[0])),
        conntrack=tuple(conntrack_entry(record) for record in found.used_entries.values()),
        records=records_of(seen, steps),
    )


@dataclass(frozen=True)
class _Way:
    """One connection's request and reply. ``seen`` has its mark and its socket's addresses."""

    seen: Observation
    requests: Journey
    replies: Journey
    keys: tuple[Key, ...] = ()


def _second_way(
    seen: Observation,
    sightings: Sequence[FrameSighting],
    passes: Sequence[HookPass],
    relayed: ProxyConnection | None,
) -> _Way | None:
    """The connection that a proxy opened for the probe's."""
    if relayed is None or relayed.dialled is None:
        return None
    inner = second_probe(seen, relayed, sightings, passes)
    if inner is None:
        return None
    asked = request_key(inner, sightings, passes)
    answer = reply_key(inner, sightings, passes, asked)
    keys = tuple(each for each in (asked, answer) if each is not None)
    return _Way(inner, _journey(seen, sightings, passes, asked), _journey(seen, sightings, passes, answer), keys)


def _tell_relayed(found: StepList, relayed: ProxyConnection, taken: Packet, second: _Way | None) -> None:
    """What the proxy did with the packet ``taken``, and the way of its own connection to the endpoint and back."""
    tell_opening(found, relayed, taken)
    if relayed.dialled is None:
        return
    if second is None:
        found.gap(NO_REQUEST(place=relayed.place))
        return
    _tell_request(second.seen, found, second.requests, second.replies)
    _tell_reply(second.seen, found, second.requests, second.replies)
    if second.replies.visits:
        tell_return(found, relayed, taken)


def _start(seen: Observation, visits: Sequence[Visit]) -> int:
    """The time of the walk's first frame; of the first one of all where the packets were seen in none."""
    begins = [visit.begin_ns for visit in visits if visit.begin_ns is not None]
    return min(begins or (frame.time_ns for frame in seen.frames), default=0)


def _journey(
    seen: Observation, sightings: Sequence[FrameSighting], passes: Sequence[HookPass], key: Key | None
) -> Journey:
    if key is None:
        return Journey()
    return journey(
        [each for each in sightings if each.packet.key == key],
        [each for each in passes if each.packet.key == key],
        seen.topology,
    )


# What is told


def _losses(seen: Observation, after: int) -> list[tuple[int, Text]]:
    """Losses are said wherever they happened: what was lost may have been part of this walk."""
    found = []
    for loss in seen.losses:
        if loss.kind == "frame":
            found.append((after, LOST_FRAMES(count=loss.count, place=loss.place)))
        else:
            found.append((after, LOST_RECORDS(kind=loss.kind, place=loss.place)))
    return found


def _tell_request(seen: Observation, found: StepList, requests: Journey, replies: Journey) -> None:
    if not requests.visits:
        found.gap(NO_REQUEST(place=seen.origin))
        return
    if requests.visits[0].place != seen.origin:
        found.gap(NO_REQUEST(place=seen.origin))
    add_steps(found, requests.visits, "request")
    last = requests.visits[-1]
    asked_on = add_unanswered_question(seen, found, last)
    explained = asked_on is not None or (bool(found.steps) and found.steps[-1].action == "reject")
    if replies.visits:
        # Routing makes an error where the packet that it quotes ended.
        first = replies.visits[0]
        explained |= first.place == last.place and first.first_packet().is_routing_error and not first.incoming
    if explained:
        found.gap(gaps.gap_of_bridge(last, seen.topology, asked_on))
    found.gap(gaps.gap_at_end(last, seen.topology, explained=explained, to=_going_to(found)))
    _tell_left_out(found, requests)
    if last.dropped and not replies.visits and found.steps[-1].action == "reject":
        found.gap(NO_ERROR_SEEN())


def _going_to(found: StepList) -> str:
    """Where the packet was last seen to go."""
    return host_of(found.steps[-1].destination) if found.steps else ""


def _tell_reply(seen: Observation, found: StepList, requests: Journey, replies: Journey) -> None:
    if replies.visits:
        add_steps(found, replies.visits, "reply")
        last = replies.visits[-1]
        found.gap(gaps.gap_at_end(last, seen.topology, explained=False, to=_going_to(found)))
        _tell_left_out(found, replies)
        return
    result = seen.outcome.result
    told = bool(found.steps) and found.steps[-1].action == "unanswered"
    nameless = seen.mark.is_bare and not seen.mark.answers_by_ports
    if nameless and requests.visits and not requests.visits[-1].dropped and not told:
        found.gap(ANSWER_UNKNOWN(place=seen.origin))
    elif result in ("answered", "refused") or (result == "unreachable" and requests.visits and not told):
        found.gap(NO_ANSWER_SEEN(place=seen.origin))


def _tell_left_out(found: StepList, way: Journey) -> None:
    for place in dict.fromkeys(each.place for each in way.unplaced):
        found.gap(UNPLACED(place=place))
    if way.reappeared:
        found.gap(REAPPEARED())
