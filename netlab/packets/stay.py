"""One stay of a packet in one place, told step by step: what happened, what it changed, by which rule, and why.

Addresses are what was seen: a rule that translates gets the change that the next sighting in the same place shows, or
the one that the conntrack entry tells. A change that no rule of the trace explains is conntrack's, where an entry says
so, else it is told as unexplained and as a gap; a change of which it is not known where it happened is a gap alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from netlab.model.keys import Origin
from netlab.model.records import TraceRecord
from netlab.model.rulebook import ElementEntry, RuleEntry
from netlab.model.text import Message, Text
from netlab.model.walk import Changed, Direction
from netlab.packets import explaining, gaps, ipvs_reasons, nftables_reasons, reasons
from netlab.packets.balancing import refusing_server
from netlab.packets.headers import ACK, PROTOCOL_NAMES, RST, TCP, Packet, icmp_name
from netlab.packets.passes import TRACE_TABLE, HookPass
from netlab.packets.steplist import StepList
from netlab.packets.translation import Addresses, Entry, Translated
from netlab.packets.visits import FrameSighting, Sighting, Visit, hooks_between, interface_of

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
CHANGED_UNSEEN = Message(
    "gap.changed-unseen",
    en="{old} became {new} before the packet was seen in {place}; where and by what was not observed.",
    zh="在 {place} 观察到数据包之前，{old} 已变成 {new}；没有观察到在何处、由什么改变。",
)
RULE_UNSEEN = Message(
    "gap.rule-unseen",
    en="In {place}, conntrack made {new} of {old}; the rule that decided this was not observed.",
    zh="在 {place} 中，连接跟踪把 {old} 变为 {new}；没有观察到做出该决定的规则。",
)
NEW_ADDRESS_UNSEEN = Message(
    "gap.new-address-unseen",
    en="The rule translates, but to what was not observed.",
    zh="该规则进行地址转换，但没有观察到转换的结果。",
)

_NAT_DESTINATION, _NAT_SOURCE = -100, 100
"""Priorities of destination and source NAT: a pass up to there shows the packet before, one after it behind."""


_NO_ENDPOINTS = ("rule.rejected-no-endpoints", "ipvs.no-real-server")


@dataclass
class Way:
    """How far one packet has been told: its addresses after the last step, and whether there was a step yet."""

    direction: Direction
    addresses: Addresses | None = None
    begun: bool = False


class Stay:
    """``link`` is the packet as it left for here, where it was seen leaving; ``after`` the stay behind this one."""

    def __init__(self, found: StepList, way: Way, visit: Visit, link: Packet | None, after: Visit | None) -> None:
        self.found = found
        self.context = found.context
        self.way = way
        self.visit = visit
        self.link = link
        self.after = after
        self.place = self.context.topology.places.get(visit.place)
        self.sightings = list(hooks_between(visit, self.place))
        self.entry = self._find_entry()

    def came_as(self) -> Addresses:
        return (self.link or self.sightings[0].packet).addresses

    def tell(self) -> None:
        previous: Sighting | None = None
        for index, sighting in enumerate(self.sightings):
            if self.way.addresses is not None and self.way.addresses != sighting.packet.addresses:
                self._tell_change(previous, sighting)
            self.way.addresses = sighting.packet.addresses
            if isinstance(sighting, FrameSighting):
                self._tell_frame(sighting, is_last=self._is_last_frame(index))
            else:
                self._tell_hook(sighting, self.sightings[index + 1 :])
            previous = sighting
        self._tell_refusal()

    def _tell_refusal(self) -> None:
        """A virtual server without real servers ends a packet without a rule."""
        server = refusing_server(self.visit, self.context.rulebooks.get(self.visit.place))
        last = self.sightings[-1]
        if server is None or not isinstance(last, HookPass):
            return
        service = server.origin.object if server.origin is not None else "?"
        answer = nftables_reasons.port_unreachable(last.packet)
        virtual = last.packet.destination_text
        reason = ipvs_reasons.NO_REAL_SERVER(virtual=virtual, service=service, answer=answer)
        told = self._with_cause(reason, server.origin, last.packet)
        self._add_hook_step(last, None, action="reject", reason=told, origin=server.origin)

    def _is_last_frame(self, index: int) -> bool:
        return self.after is None and not any(isinstance(each, FrameSighting) for each in self.sightings[index + 1 :])

    # Conntrack

    def _moment(self, sighting: Sighting) -> int:
        """Where on its way through the place a sighting shows the packet: before destinations are translated (0),
        before sources are (1), or behind both (2)."""
        if isinstance(sighting, FrameSighting):
            interface = self.place.interface(sighting.frame.interface) if self.place is not None else None
            bridge = interface is not None and interface.kind == "bridge"
            filtered = bridge and self.place is not None and self.place.bridge_netfilter
            if sighting.frame.direction == "in":
                return 1 if filtered else 0
            following = self.sightings[self.sightings.index(sighting) + 1 :]
            return 1 if any(isinstance(each, HookPass) for each in following) else 2
        if sighting.hook == "OUTPUT" and self.visit.turned:
            return 1
        if sighting.hook in ("PREROUTING", "OUTPUT"):
            return 0 if sighting.priority <= _NAT_DESTINATION else 1
        if sighting.hook in ("INPUT", "POSTROUTING"):
            return 1 if sighting.priority <= _NAT_SOURCE else 2
        return 1

    def _find_entry(self) -> Entry | None:
        """The place's conntrack entry for the packet."""
        first, last = self.sightings[0], self.sightings[-1]
        arrival = self.link or (first.packet if self._moment(first) == 0 else None)
        departure = last.packet if self._moment(last) == 2 else None
        entry = self.context.translations.entry(self.visit.place, arrival, departure, self.way.direction)
        if entry is not None:
            self.found.use(entry)
        return entry

    def _tell_change(self, previous: Sighting | None, sighting: Sighting) -> None:
        """Addresses that changed without a rule: conntrack's work, or unexplained."""
        assert self.way.addresses is not None
        old, new = self.way.addresses, sighting.packet.addresses
        begin = self._moment(previous) if previous is not None else 0 if self.link is not None else None
        end = self._moment(sighting)
        born = self.visit.passed("OUTPUT")
        if old[1] != new[1]:
            hook = "OUTPUT" if born else "PREROUTING"
            self._tell_part("destination", hook, old[1], new[1], sighting, is_here=begin == 0 and end > 0)
        if old[0] != new[0]:
            hook = "INPUT" if self.visit.passed("INPUT") else "POSTROUTING"
            self._tell_part("source", hook, old[0], new[0], sighting, is_here=begin in (0, 1) and end == 2)

    def _tell_part(self, part: Changed, hook: str, old: str, new: str, sighting: Sighting, *, is_here: bool) -> None:
        assert self.way.addresses is not None
        place = self.visit.place
        if self._tell_balancing(part, old, new, sighting):
            return
        if not is_here:
            self.found.gap(CHANGED_UNSEEN(place=place, old=old, new=new))
            return
        source, destination = self.way.addresses
        self.way.addresses = (source, new) if part == "destination" else (new, destination)
        seen = sighting.frame.id if isinstance(sighting, FrameSighting) else sighting.records[0].id
        evidence: tuple[str, ...] = (seen,)
        gap: Text | None = None
        undone = self.context.translations.undone(place, part, old, new, sighting.packet)
        if self.entry is not None and self.entry.explains(part, old, new, sighting.packet):
            evidence = (seen, *self.entry.evidence)
            if self.entry.undoes:
                action, reason = _undoing(part, new)
            else:
                action, reason = "DNAT" if part == "destination" else "SNAT", reasons.BY_ENTRY()
                gap = RULE_UNSEEN(place=place, old=old, new=new)
        elif undone is not None and self.way.direction == "reply":
            evidence = (seen, *undone.evidence)
            action, reason = _undoing(part, new)
        else:
            action, reason = "changed", reasons.UNEXPLAINED()
            gap = UNEXPLAINED_CHANGE(place=place, old=old, new=new)
        self.found.add(
            direction=self.way.direction,
            place=place,
            hook=hook,
            action=action,
            addresses=self.way.addresses,
            changed=(part,),
            reason=reason,
            evidence=evidence,
        )
        self.found.gap(gap)
        self.way.begun = True

    def _tell_balancing(self, part: Changed, old: str, new: str, sighting: Sighting) -> bool:
        """Tell a change that is IPVS' work; false where its table does not say so."""
        assert self.way.addresses is not None
        source, destination = self.way.addresses
        translations = self.context.translations
        connection = translations.balanced(self.visit.place, part, (source, destination), new, sighting.packet)
        if connection is None:
            return False
        self.way.addresses = (source, new) if part == "destination" else (new, destination)
        book = self.context.rulebooks.get(self.visit.place)
        server = book.servers.get((connection.protocol, connection.virtual)) if book is not None else None
        origin: Origin | None = None
        if part == "destination":
            locally = not self.visit.passed("INPUT")
            hook = "OUTPUT" if locally else "INPUT"
            action, reason = "IPVS", ipvs_reasons.explain_balancing(server, old, new, locally=locally)
            origin = server.origin if server is not None else None
        else:
            hook = "FORWARD" if self.visit.passed("FORWARD") else "INPUT"
            action, reason = "IPVS undone", ipvs_reasons.UNDONE(new=new)
        seen = sighting.frame.id if isinstance(sighting, FrameSighting) else sighting.records[0].id
        self.found.add(
            direction=self.way.direction,
            place=self.visit.place,
            hook=hook,
            action=action,
            addresses=self.way.addresses,
            changed=(part,),
            reason=reason,
            origin=origin,
            evidence=(seen, connection.id),
        )
        self.way.begun = True
        return True

    # Frames

    def _tell_frame(self, sighting: FrameSighting, *, is_last: bool) -> None:
        frame = sighting.frame
        self.found.at(frame.time_ns)
        self.found.add(
            direction=self.way.direction,
            place=self.visit.place,
            interface=frame.interface,
            action="sent" if frame.direction == "out" else "received",
            addresses=sighting.packet.addresses,
            reason=self._frame_reason(sighting, is_last=is_last),
            evidence=(frame.id,),
        )
        self.way.begun = True

    def _frame_reason(self, sighting: FrameSighting, *, is_last: bool) -> Text:
        packet = sighting.packet
        if packet.outer is not None:
            return reasons.IN_VXLAN(outer_source=packet.outer.source, outer_destination=packet.outer.destination)
        if sighting.frame.direction == "out":
            if not self.way.begun and gaps.is_born_in(self.visit, self.context.topology):
                return self._sent_reason(packet)
            return reasons.LEAVES(interface=sighting.frame.interface)
        if is_last and self.way.direction == "reply" and self.visit.place == self.context.origin:
            return reasons.ARRIVED_BACK(place=self.visit.place)
        if is_last and self.way.direction == "request" and self.place is not None and self.place.kind == "pod":
            return reasons.ARRIVED_AT_POD(source=packet.source_text)
        return reasons.ARRIVED(place=self.visit.place)

    def _sent_reason(self, packet: Packet) -> Text:
        if self.way.direction == "reply":
            return _reply_words(self.visit.place, packet, by_rule=self._is_of_rule())
        protocol = PROTOCOL_NAMES.get(packet.protocol, "").removesuffix("v6")
        meaning = self.context.meanings.get(f"{packet.destination_text}/{protocol}")
        if meaning is not None:
            message = _SENT_TO.get(meaning.id, reasons.SENT_TO)
            return message(place=self.visit.place, address=packet.destination_text, what=meaning)
        return reasons.SENT(place=self.visit.place)

    def _is_of_rule(self) -> bool:
        """Whether a rule in this place was the request's end, so that the answer is the rule's."""
        asked = [step for step in self.found.steps if step.direction == "request"]
        return bool(asked) and asked[-1].action in ("reject", "drop") and asked[-1].place == self.visit.place

    # Hooks

    def _tell_hook(self, hook: HookPass, following: Sequence[Sighting]) -> None:
        if not self.way.begun and hook.hook == "OUTPUT" and self._is_first_witness(hook):
            self._add_hook_step(hook, None, action="sent", reason=self._sent_reason(hook.packet))
        led_by: ElementEntry | None = None
        for record in hook.records:
            if record.kind != "policy" and record.handle is not None and record.table != TRACE_TABLE:
                led_by = self._tell_rule(hook, record, led_by, following) or led_by
            elif record.kind == "policy" and record.verdict == "drop":
                reason = reasons.DROPPED_BY_POLICY()
                self._add_hook_step(hook, record, action="drop", reason=reason, rule="policy DROP")

    def _is_first_witness(self, hook: HookPass) -> bool:
        """Whether the first hook saw the packet as no frame did: rules may change it before it leaves."""
        if hook.priority > _NAT_DESTINATION:
            return False
        if self.place is not None and self.place.kind == "node":
            return True
        return not self.visit.outgoing or self.visit.outgoing[0].packet.addresses != hook.packet.addresses

    def _tell_rule(
        self, hook: HookPass, record: TraceRecord, led_by: ElementEntry | None, following: Sequence[Sighting]
    ) -> ElementEntry | None:
        """``led_by`` is the element of a map that led the packet here; returns the one that it found in this rule."""
        assert self.way.addresses is not None
        assert record.handle is not None
        book = self.context.rulebooks.get(self.visit.place)
        rule = book.rule(record.family, record.table, record.handle) if book is not None else None
        if book is None or rule is None:
            reason = NO_RULE_TEXT(place=self.visit.place, chain=record.chain, handle=record.handle)
            self._add_hook_step(hook, record, action=explaining.verdict_words(record), reason=reason)
            self.found.gap(reason)
            return None
        if (part := explaining.translated_part(rule)) is not None:
            self._tell_translation(hook, record, rule, part, following)
            return None
        element = self._looked_up(rule, record, hook.packet)
        origin = _origin_of(rule, element, led_by)
        why = explaining.explain_rule(rule, hook.hook, hook.packet, element, led_by, ipvs=bool(book.servers))
        self._add_hook_step(
            hook,
            record,
            action=explaining.action_of(rule, record),
            reason=self._with_cause(why, origin, hook.packet),
            rule=rule.text,
            origin=origin,
        )
        return element

    def _with_cause(self, reason: Text | None, origin: Origin | None, packet: Packet) -> Text | None:
        """A refusal with why the Service has no endpoints, where that is known."""
        if reason is None or origin is None or reason.id not in _NO_ENDPOINTS:
            return reason
        protocol = PROTOCOL_NAMES.get(packet.protocol, "")
        why = self.context.unready.get(f"{origin.object} {packet.destination_port}/{protocol}")
        message = reasons.REJECTED_UNREADY.get(why.id.rpartition(".")[2]) if why is not None else None
        return message(told=reason, why=why) if message is not None else reason

    def _looked_up(self, rule: RuleEntry, record: TraceRecord, packet: Packet) -> ElementEntry | None:
        """The element that the rule found for the packet, if it led where the packet went."""
        book = self.context.rulebooks.get(self.visit.place)
        if book is None:
            return None
        if not rule.native:
            return ipvs_reasons.looked_up(
                rule, packet, lambda name, key: book.element(record.family, ipvs_reasons.SETS, name, key)
            )
        element = nftables_reasons.looked_up(
            rule, packet, lambda container, key: book.element(record.family, record.table, container, key)
        )
        follows = element is None or not element.value or element.value == explaining.verdict_words(record)
        return element if follows else None

    def _tell_translation(
        self, hook: HookPass, record: TraceRecord, rule: RuleEntry, part: Changed, following: Sequence[Sighting]
    ) -> None:
        """A rule that rewrites an address."""
        assert self.way.addresses is not None
        source, destination = self.way.addresses
        old = destination if part == "destination" else source
        new = self._new_address(part, rule, following)
        evidence: tuple[str, ...] = (record.id,)
        if new is not None and self.entry is not None and self.entry.explains(part, old, new, hook.packet):
            evidence = (record.id, *self.entry.evidence)
        changed: tuple[Changed, ...] = ()
        if new is not None and new != old:
            changed = (part,)
            self.way.addresses = (source, new) if part == "destination" else (new, destination)
            self.context.translations.by_rules.append(Translated(self.visit.place, part, old, new, evidence))
        self._add_hook_step(
            hook,
            record,
            action="DNAT" if part == "destination" else "SNAT",
            reason=explaining.explain_translation(rule, part, old, new, hook.output),
            rule=rule.text,
            origin=self._translation_origin(hook, record, rule, new),
            changed=changed,
            evidence=evidence,
        )
        if new is None:
            self.found.gap(NEW_ADDRESS_UNSEEN())

    def _translation_origin(
        self, hook: HookPass, record: TraceRecord, rule: RuleEntry, new: str | None
    ) -> Origin | None:
        """What caused a translation: the endpoint that was picked, or the rule's own cause, or what it looked up."""
        if new is not None and rule.choice_origins:
            choice = nftables_reasons.choice_of(rule, new)
            return rule.choice_origins[choice] if choice is not None else rule.origin
        element = self._looked_up(rule, record, hook.packet)
        return rule.origin or (element.origin if element is not None else None)

    def _new_address(self, part: Changed, rule: RuleEntry, following: Sequence[Sighting]) -> str | None:
        """What a rule made of an address: as seen next in this place, or else as the entry has it, or as it came in at
        the next place, or as the rule can do nothing else."""
        packet = next((each.packet for each in following if self._shows(part, each)), None)
        if packet is None and self.entry is not None and not self.entry.undoes:
            return self.entry.reply[0] if part == "destination" else self.entry.reply[1]
        if packet is None and self.after is not None and self._leads_on():
            packet = self.after.first_packet()
        if packet is None:
            return explaining.promised_destination(rule) if part == "destination" else None
        return packet.destination_text if part == "destination" else packet.source_text

    def _shows(self, part: Changed, sighting: Sighting) -> bool:
        return self._moment(sighting) >= (1 if part == "destination" else 2)

    def _leads_on(self) -> bool:
        """Whether the next stay begins at the other end of a link of this place."""
        if self.after is None or not self.after.incoming:
            return False
        first = self.after.incoming[0]
        interface = interface_of(self.context.topology, first.frame)
        near = interface is not None and interface.peer is not None and interface.peer.place == self.visit.place
        return near and self.visit.last_packet().hops - first.packet.hops in (0, 1)

    def _add_hook_step(
        self,
        hook: HookPass,
        record: TraceRecord | None,
        *,
        action: str,
        reason: Text | None,
        rule: str | None = None,
        origin: Origin | None = None,
        changed: tuple[Changed, ...] = (),
        evidence: tuple[str, ...] | None = None,
    ) -> None:
        """``record`` is what a chain did; without one the hook itself is the witness."""
        assert self.way.addresses is not None
        self.found.add(
            direction=self.way.direction,
            place=self.visit.place,
            interface=hook.output or hook.input,
            hook=hook.hook,
            table=record.table if record is not None else None,
            chain=record.chain if record is not None else None,
            rule=rule,
            action=action,
            addresses=self.way.addresses,
            changed=changed,
            reason=reason,
            origin=origin,
            evidence=evidence or ((record or hook.records[0]).id,),
        )
        self.way.begun = True


def _undoing(part: Changed, new: str) -> tuple[str, Text]:
    if part == "destination":
        return "SNAT undone", reasons.UNDO_SNAT(new=new)
    return "DNAT undone", reasons.UNDO_DNAT(new=new)


_SENT_TO = {
    "address.no-such-port": reasons.SENT_TO_NO_PORT,
    "address.no-such-protocol": reasons.SENT_TO_NO_PORT,
    "address.external-ip": reasons.SENT_TO_BALANCED,
    "address.load-balancer-ip": reasons.SENT_TO_BALANCED,
}


def _reply_words(place: str, packet: Packet, *, by_rule: bool) -> Text:
    """What kind of answer a place gives. A reset without an acknowledgement answers a packet that had one (RFC 9293,
    3.10.7): no request for a connection."""
    if packet.is_icmp_error:
        message = reasons.ANSWERS_WITH_ERROR
        if packet.is_out_of_hops:
            message = reasons.HOPS_USED_UP
        elif packet.is_protocol_error:
            message = reasons.NOBODY_SPEAKS_IT
        return message(place=place, error=icmp_name(packet))
    if packet.protocol == TCP:
        if packet.flags & RST and by_rule:
            return reasons.RESETS_BY_RULE(place=place)
        if packet.flags & RST:
            message = reasons.RESETS if packet.flags & ACK else reasons.RESETS_STRAY
            return message(place=place, port=packet.source_port)
        return reasons.ACCEPTS(place=place)
    return reasons.ANSWERS(place=place)


def _origin_of(rule: RuleEntry, element: ElementEntry | None, led_by: ElementEntry | None) -> Origin | None:
    """A rule's cause; where it looked up a verdict, that of what it found, and else that of what led to it."""
    if element is not None and element.value:
        return element.origin
    if element is not None and rule.origin is not None and rule.origin.object.startswith("Service "):
        # A rule on a set that several Services share: the first of them made it, this one the packet found.
        return element.origin
    found = element or led_by
    return rule.origin or (found.origin if found is not None else None)
