"""From a packet's sightings to the steps of a walk: what happened where, what it changed, by which rule, and why.

Addresses are what was seen, never what a rule's text promises: a rule that translates gets the change that the next
sighting shows. A change that no rule of the trace explains is conntrack's, where an entry says so, else it is told as
unexplained and as a gap.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from netlab.model.keys import Origin
from netlab.model.records import ConntrackRecord, TraceRecord
from netlab.model.rulebook import Rulebook, RuleEntry
from netlab.model.text import Message, Text
from netlab.model.topology import Topology
from netlab.model.walk import Changed, Direction, Step, endpoint_text, host_of
from netlab.packets import reasons
from netlab.packets.headers import RST, TCP, Packet, icmp_name
from netlab.packets.journey import FrameSighting, HookPass, Visit, hooks_between

NO_RULE_TEXT = Message(
    "gap.no-rule-text",
    en="In {place}, a rule of the chain {chain} matched (handle {handle}), but it was gone when its text was read.",
    zh="在 {place} 中，链 {chain} 的一条规则 (句柄 {handle}) 匹配了，但读取其文本时它已不存在。",
)
UNEXPLAINED_CHANGE = Message(
    "gap.unexplained-change",
    en="In {place}, {old} became {new}, and neither a rule nor a conntrack entry that was observed did it.",
    zh="在 {place} 中，{old} 变成了 {new}，而观察到的规则和连接跟踪条目都没有做这个改动。",
)

_DESTINATION_TARGETS = ("DNAT", "REDIRECT", "TPROXY")
_SOURCE_TARGETS = ("SNAT", "MASQUERADE")


@dataclass
class Context:
    """What explaining takes besides the sightings."""

    topology: Topology
    rulebooks: Mapping[str, Rulebook]
    conntrack: Sequence[ConntrackRecord]
    start_ns: int
    meanings: Mapping[str, Text] = field(default_factory=dict)
    """What an address ("A:P") stands for, where it is a Service's."""


@dataclass
class StepList:
    """Steps and gaps as they are found; numbers are given as steps come in."""

    context: Context
    steps: list[Step] = field(default_factory=list)
    gaps: list[tuple[int, Text]] = field(default_factory=list)
    used_entries: dict[str, ConntrackRecord] = field(default_factory=dict)
    _time_us: float = 0.0

    def at(self, time_ns: int) -> None:
        self._time_us = max(self._time_us, (time_ns - self.context.start_ns) / 1000)

    def gap(self, reason: Text) -> None:
        if (len(self.steps), reason) not in self.gaps:
            self.gaps.append((len(self.steps), reason))

    def add(
        self,
        *,
        direction: Direction,
        place: str,
        action: str,
        addresses: tuple[str, str],
        evidence: tuple[str, ...],
        interface: str | None = None,
        hook: str | None = None,
        table: str | None = None,
        chain: str | None = None,
        rule: str | None = None,
        changed: tuple[Changed, ...] = (),
        reason: Text | None = None,
        origin: Origin | None = None,
    ) -> None:
        self.steps.append(
            Step(
                n=len(self.steps) + 1,
                t_us=round(self._time_us, 3),
                direction=direction,
                place=place,
                interface=interface,
                hook=hook,
                table=table,
                chain=chain,
                rule=rule,
                action=action,
                source=addresses[0],
                destination=addresses[1],
                changed=changed,
                reason=reason,
                origin=origin,
                evidence=evidence,
            )
        )


def add_steps(found: StepList, visits: Sequence[Visit], direction: Direction) -> None:
    """Append the steps of one packet's journey."""
    walker = _Walker(found, direction)
    for index, visit in enumerate(visits):
        after = visits[index + 1].first_packet() if index + 1 < len(visits) else None
        walker.visit(visit, after)


class _Walker:
    def __init__(self, found: StepList, direction: Direction) -> None:
        self.found = found
        self.direction = direction
        self.addresses: tuple[str, str] | None = None
        self.first = True

    def visit(self, visit: Visit, after: Packet | None) -> None:
        place = self.found.context.topology.places.get(visit.place)
        sightings = list(hooks_between(visit, place))
        entry = self._conntrack_entry(visit)
        for index, sighting in enumerate(sightings):
            following = sightings[index + 1].packet if index + 1 < len(sightings) else after
            if self.addresses is not None and self.addresses != sighting.packet.addresses:
                self._translated(visit, sighting, entry)
            self.addresses = sighting.packet.addresses
            if isinstance(sighting, FrameSighting):
                last = after is None and not any(isinstance(each, FrameSighting) for each in sightings[index + 1 :])
                self._frame(visit, sighting, last)
            else:
                self._hook(visit, sighting, following, entry)

    def _conntrack_entry(self, visit: Visit) -> ConntrackRecord | None:
        """The place's conntrack entry for the packet, by what the packet was when it came."""
        packet = visit.first_packet()
        found: ConntrackRecord | None = None
        for record in self.found.context.conntrack:
            if record.place != visit.place:
                continue
            if packet.inner is not None:
                # An error quotes the packet as it went on from here: the reply tuple, turned round.
                reply = (
                    endpoint_text(record.reply.destination, record.reply.destination_port),
                    endpoint_text(record.reply.source, record.reply.source_port),
                )
                matches = packet.inner.addresses == reply
            elif record.protocol != packet.protocol:
                continue
            else:
                side = record.original if self.direction == "request" else record.reply
                source = endpoint_text(side.source, side.source_port)
                matches = packet.addresses == (source, endpoint_text(side.destination, side.destination_port))
            if matches:
                found = record
        if found is not None:
            self.found.used_entries[f"{found.place}/{found.entry}"] = found
        return found

    def _frame(self, visit: Visit, sighting: FrameSighting, last: bool) -> None:
        frame, packet = sighting.frame, sighting.packet
        self.found.at(frame.time_ns)
        sent = frame.direction == "out"
        self.found.add(
            direction=self.direction,
            place=visit.place,
            interface=frame.interface,
            action="sent" if sent else "received",
            addresses=packet.addresses,
            reason=self._frame_reason(visit, sighting, last),
            evidence=(frame.id,),
        )
        self.first = False

    def _frame_reason(self, visit: Visit, sighting: FrameSighting, last: bool) -> Text:
        place = self.found.context.topology.places.get(visit.place)
        packet = sighting.packet
        if packet.outer is not None:
            return reasons.IN_VXLAN(outer_source=packet.outer.source, outer_destination=packet.outer.destination)
        if sighting.frame.direction == "out":
            if not self.first:
                return reasons.LEAVES(interface=sighting.frame.interface)
            return self._sent_reason(visit, packet)
        if last and self.direction == "reply":
            return reasons.ARRIVED_BACK(place=visit.place)
        if last and place is not None and place.kind == "pod":
            return reasons.ARRIVED_AT_POD(source=packet.source_text)
        return reasons.ARRIVED(place=visit.place)

    def _shows_more_than_frames(self, visit: Visit, hook: HookPass) -> bool:
        """Whether the first hook saw the packet as no frame did: rules may change it before it leaves."""
        place = self.found.context.topology.places.get(visit.place)
        if place is not None and place.kind == "node":
            return True
        return not visit.outgoing or visit.outgoing[0].packet.addresses != hook.packet.addresses

    def _sent_reason(self, visit: Visit, packet: Packet) -> Text:
        if self.direction == "reply":
            return _reply_words(visit.place, packet)
        meaning = self.found.context.meanings.get(packet.destination_text)
        if meaning is not None:
            return reasons.SENT_TO(place=visit.place, address=packet.destination_text, what=meaning)
        return reasons.SENT(place=visit.place)

    def _hook(self, visit: Visit, hook: HookPass, following: Packet | None, entry: ConntrackRecord | None) -> None:
        if self.first and hook.hook == "OUTPUT" and self._shows_more_than_frames(visit, hook):
            # Made here and not on any wire yet: the first hook is the first witness.
            self._add_hook_step(
                visit, hook, hook.records[0], action="sent", reason=self._sent_reason(visit, hook.packet)
            )
        for record in hook.records:
            if record.kind == "rule" and record.handle is not None and record.table != TRACE_TABLE:
                self._rule(visit, hook, record, following, entry)
            elif record.kind == "policy" and record.verdict == "drop":
                self._add_hook_step(
                    visit, hook, record, action="drop", reason=reasons.DROPPED_BY_POLICY(), rule="policy DROP"
                )

    def _rule(
        self,
        visit: Visit,
        hook: HookPass,
        record: TraceRecord,
        following: Packet | None,
        entry: ConntrackRecord | None,
    ) -> None:
        assert self.addresses is not None
        assert record.handle is not None
        book = self.found.context.rulebooks.get(visit.place)
        rule = book.rule(record.family, record.table, record.handle) if book is not None else None
        if rule is None:
            reason = NO_RULE_TEXT(place=visit.place, chain=record.chain, handle=record.handle)
            self._add_hook_step(visit, hook, record, action=_verdict_action(record), reason=reason)
            self.found.gap(reason)
            return
        target = reasons.rule_target(rule.text)
        if target in _DESTINATION_TARGETS or target in _SOURCE_TARGETS:
            self._translation(visit, hook, record, rule, following, entry)
            return
        self._add_hook_step(
            visit,
            hook,
            record,
            action=_rule_action(rule, record),
            reason=reasons.explain_rule(rule, hook.hook, host_of(self.addresses[0])),
            rule=rule.text,
            origin=rule.origin,
        )

    def _translation(
        self,
        visit: Visit,
        hook: HookPass,
        record: TraceRecord,
        rule: RuleEntry,
        following: Packet | None,
        entry: ConntrackRecord | None,
    ) -> None:
        """A rule that rewrites an address: the change is what the next sighting shows."""
        assert self.addresses is not None
        old = self.addresses
        changed: tuple[Changed, ...] = ()
        evidence = (record.id,) if entry is None else (record.id, entry.id)
        reason: Text
        if reasons.rule_target(rule.text) in _DESTINATION_TARGETS:
            new = following.destination_text if following is not None else _promised(rule.text) or old[1]
            if new != old[1]:
                changed, self.addresses = ("destination",), (old[0], new)
            action = "DNAT"
            reason = reasons.DNAT(old=old[1], new=new)
        else:
            new = following.source_text if following is not None else old[0]
            if new != old[0]:
                changed, self.addresses = ("source",), (new, old[1])
            action = "SNAT"
            same_host = host_of(new) == host_of(old[0])
            reason = (
                reasons.MASQUERADE_UNCHANGED()
                if same_host
                else reasons.MASQUERADE(new=host_of(new), interface=hook.output or "?")
            )
        self._add_hook_step(
            visit,
            hook,
            record,
            action=action,
            reason=reason,
            rule=rule.text,
            origin=rule.origin,
            changed=changed,
            evidence=evidence,
        )

    def _add_hook_step(
        self,
        visit: Visit,
        hook: HookPass,
        record: TraceRecord,
        *,
        action: str,
        reason: Text | None,
        rule: str | None = None,
        origin: Origin | None = None,
        changed: tuple[Changed, ...] = (),
        evidence: tuple[str, ...] | None = None,
    ) -> None:
        assert self.addresses is not None
        self.found.add(
            direction=self.direction,
            place=visit.place,
            interface=record.output or record.input or hook.records[0].output or hook.records[0].input,
            hook=hook.hook,
            table=record.table if record.table != TRACE_TABLE else None,
            chain=record.chain if record.table != TRACE_TABLE else None,
            rule=rule,
            action=action,
            addresses=self.addresses,
            changed=changed,
            reason=reason,
            origin=origin,
            evidence=evidence if evidence is not None else (record.id,),
        )
        self.first = False

    def _translated(self, visit: Visit, sighting: FrameSighting | HookPass, entry: ConntrackRecord | None) -> None:
        """Addresses that changed between two sightings without a rule: conntrack's work, or unexplained.

        Where it happens is fixed in the kernel: destinations change in PREROUTING and OUTPUT, sources in POSTROUTING
        and INPUT (net/netfilter/nf_nat_core.c).
        """
        assert self.addresses is not None
        old, new = self.addresses, sighting.packet.addresses
        seen = sighting.frame.id if isinstance(sighting, FrameSighting) else sighting.records[0].id
        delivered = any(each.hook == "INPUT" for each in visit.passes)
        parts: list[tuple[Changed, str, tuple[str, str]]] = []
        if old[1] != new[1]:
            parts.append(("destination", "OUTPUT" if visit.generated_here else "PREROUTING", (old[0], new[1])))
        if old[0] != new[0]:
            parts.append(("source", "INPUT" if delivered else "POSTROUTING", new))
        for part, hook, addresses in parts:
            changed_to = addresses[1] if part == "destination" else addresses[0]
            action, reason = self._translation_words(part, changed_to, entry)
            self.found.add(
                direction=self.direction,
                place=visit.place,
                interface=None,
                hook=hook,
                action=action,
                addresses=addresses,
                changed=(part,),
                reason=reason,
                evidence=(seen,) if entry is None else (seen, entry.id),
            )
            if entry is None:
                was = old[1] if part == "destination" else old[0]
                self.found.gap(UNEXPLAINED_CHANGE(place=visit.place, old=was, new=changed_to))

    def _translation_words(self, part: Changed, new: str, entry: ConntrackRecord | None) -> tuple[str, Text]:
        if entry is None:
            return "changed", reasons.UNEXPLAINED()
        if self.direction == "reply":
            if part == "destination":
                return "SNAT undone", reasons.UNDO_SNAT(new=new)
            return "DNAT undone", reasons.UNDO_DNAT(new=new)
        return ("DNAT" if part == "destination" else "SNAT"), reasons.BY_ENTRY()


TRACE_TABLE = "netlab-trace"


def _reply_words(place: str, packet: Packet) -> Text:
    """What kind of answer a place gives."""
    if packet.is_icmp_error:
        return reasons.ANSWERS_WITH_ERROR(place=place, error=icmp_name(packet))
    if packet.protocol == TCP:
        if packet.flags & RST:
            return reasons.RESETS(place=place, port=packet.source_port)
        return reasons.ACCEPTS(place=place)
    return reasons.ANSWERS(place=place)


def _verdict_action(record: TraceRecord) -> str:
    return f"{record.verdict} {record.target}" if record.target else record.verdict


def _rule_action(rule: RuleEntry, record: TraceRecord) -> str:
    """A short word for what the rule did: its verdict, or its target where that is no verdict."""
    if record.verdict in ("jump", "goto"):
        return _verdict_action(record)
    target = reasons.rule_target(rule.text)
    if target == "REJECT":
        return "reject"
    if target == "MARK":
        match = re.search(r"--set-xmark (\S+)", rule.text)
        return f"mark {match.group(1)}" if match else "mark"
    return record.verdict


def _promised(text: str) -> str | None:
    """Where a DNAT rule leads, from its text: the only witness where nothing was seen afterwards."""
    match = re.search(r"--to-destination (\S+)", text)
    return match.group(1) if match else None
