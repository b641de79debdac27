"""The hooks of the simulated kernel: base chains in their order, conntrack and NAT."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.unit.packets.rules import MASQUERADE_MARK, TRACE_TABLE, Base, Circumstances, Rule
from tests.unit.packets.simulated_lab import Host
from tests.unit.packets.simulated_records import Entry, Event, Recorder, Skb
from tests.unit.packets.wire import ACK, RST, SYN, TCP, Datagram

Devices = tuple[str | None, str | None]
"""By which device a packet came in, and by which it goes out, where the hook knows."""


class Hooks:
    """``reject`` has a place answer a packet that a rule rejects, with an error or with a reset."""

    def __init__(
        self, recorder: Recorder, chance: random.Random, reject: Callable[[Host, Skb, Devices, str], None]
    ) -> None:
        self.recorder = recorder
        self.random = chance
        self.reject = reject
        self.entries: dict[str, list[Entry]] = {}

    def run(self, host: Host, hook: str, skb: Skb, came_in: str | None, goes_out: str | None) -> bool:
        """All that happens to a packet in one hook; false where it ends there."""
        devices = (came_in, goes_out)
        jobs: list[tuple[int, Callable[[], bool]]] = []
        for base in host.rules.base:
            if base.hook != hook or base.key[0] not in ("inet", "ip" if skb.packet.family == 4 else "ip6"):
                continue
            if base.key[1] != "nat":
                jobs.append((base.priority, lambda base=base: self._run(host, base, skb, devices)))  # type: ignore[misc]
        if host.tracking:
            if hook in ("PREROUTING", "OUTPUT"):
                jobs.append((-200, lambda: self._track(host, skb)))
                jobs.append((-100, lambda: self._nat(host, hook, "destination", skb, devices)))
            elif hook in ("POSTROUTING", "INPUT"):
                jobs.append((100, lambda: self._nat(host, hook, "source", skb, devices)))
                jobs.append((1000, lambda: self._confirm(host, skb)))
        return all(job() for _, job in sorted(jobs, key=lambda job: job[0]))

    def _run(self, host: Host, base: Base, skb: Skb, devices: Devices) -> bool:
        """A base chain, and the chains that it jumps to."""
        family, table, chain = base.key
        stack: list[tuple[str, int]] = []
        index, header = 0, True
        while True:
            found = self._match(host, (family, table, chain), index, skb, devices)
            if found is None:
                self.recorder.trace(host, skb, base, chain, "rule", None, "continue", None, devices, header=header)
                header = False
            else:
                index, handle, rule = found
                target = rule.target if rule.verdict == "jump" else None
                if rule.act == "mark":
                    skb.mark |= MASQUERADE_MARK
                elif rule.act == "unmark":
                    skb.mark &= ~MASQUERADE_MARK
                elif rule.act == "trace":
                    skb.traced = True
                if rule.act in ("reject", "reset"):
                    # The answer is on its way before the rule's verdict is known, and so before it is reported.
                    self.reject(host, skb, devices, rule.act)
                event = self.recorder.trace(
                    host, skb, base, chain, "rule", handle, rule.verdict, target, devices, header=header
                )
                header = False
                if table == TRACE_TABLE:
                    if base.hook == "OUTPUT":
                        optional = host.kind != "node"
                        self.recorder.tell(skb, host, event, interface=devices[1], hook="OUTPUT", optional=optional)
                else:
                    self._apply(host, base, chain, rule, event, skb, devices)
                if rule.verdict == "jump":
                    stack.append((chain, index + 1))
                    chain, index = rule.target, 0
                    continue
                if rule.verdict == "continue":
                    index += 1
                    continue
                if rule.verdict in ("accept", "drop"):
                    return rule.verdict == "accept"
            if not stack:
                policy = host.rules.policies.get(base.key, "accept")
                event = self.recorder.trace(
                    host, skb, base, chain, "policy", None, policy, None, devices, header=header
                )
                if policy == "drop":
                    where = (table, chain, "policy DROP")
                    self.recorder.tell(
                        skb, host, event, interface=devices[1] or devices[0], hook=base.hook, place_of_rule=where
                    )
                return policy == "accept"
            chain, index = stack.pop()

    def _match(
        self,
        host: Host,
        key: tuple[str, str, str],
        begin: int,
        skb: Skb,
        devices: Devices,
    ) -> tuple[int, int, Rule] | None:
        it = Circumstances(skb.packet, skb.mark, skb.state, *devices, host.addresses())
        for index, (handle, rule) in enumerate(host.rules.chains[key]):
            if index >= begin and rule.when(it):
                return index, handle, rule
        return None

    def _apply(
        self,
        host: Host,
        base: Base,
        chain: str,
        rule: Rule,
        event: Event,
        skb: Skb,
        devices: Devices,
    ) -> None:
        """What a rule does besides its verdict, and the row that tells it."""
        packet, after = skb.packet, skb.packet
        entry = skb.entry
        if rule.act in ("dnat", "redirect"):
            assert entry is not None
            address, port = _split(rule.target)
            if rule.act == "redirect":
                address = host.address_on(devices[0], packet.family) if devices[0] else "127.0.0.1"
            after = packet.changed(destination=address, destination_port=port)
            entry.reply = (address, port, *entry.reply[2:])
            entry.status.add("DNAT")
        elif rule.act in ("masquerade", "snat"):
            assert entry is not None
            assert devices[1] is not None
            address, port = _split(rule.target) if rule.target else ("", 0)
            address = address or host.address_on(_masquerading(host, devices[1]), packet.family)
            port = port or (packet.source_port if "--random" not in rule.text else self.random.randrange(1024, 65536))
            after = packet.changed(source=address, **({"source_port": port} if packet.has_ports else {"echo": port}))
            entry.reply = (*entry.reply[:2], address, port)
            entry.status.add("SNAT")
        changed = tuple(
            name
            for name, one, other in (
                ("source", packet.source_text, after.source_text),
                ("destination", packet.destination_text, after.destination_text),
            )
            if one != other
        )
        self.recorder.tell(
            skb,
            host,
            event,
            interface=devices[1] or devices[0],
            hook=base.hook,
            place_of_rule=(base.key[1], chain, rule.text),
            changed=changed,
            packet=after,
        )

    # Conntrack

    def _track(self, host: Host, skb: Skb) -> bool:
        if skb.entry is not None:
            return True
        packet = skb.packet
        if packet.quoted is not None:
            inverted = _inverted(packet.quoted)
            for entry in self.entries.setdefault(host.name, []):
                if entry.protocol == packet.quoted.protocol and inverted in (entry.original, entry.reply):
                    skb.entry, skb.reverse, skb.state = entry, inverted == entry.reply, "RELATED"
                    return True
            skb.state = "INVALID"
            return True
        key = _key(packet)
        for entry in self.entries.setdefault(host.name, []):
            if entry.protocol == packet.protocol and key in (entry.original, entry.reply):
                skb.entry, skb.reverse = entry, key != entry.original
                if skb.reverse and "SEEN_REPLY" not in entry.status:
                    entry.status.add("SEEN_REPLY")
                    skb.update = True
                skb.state = "ESTABLISHED" if "SEEN_REPLY" in entry.status else "NEW"
                return True
        if packet.protocol == TCP and packet.flags & (SYN | ACK | RST) != SYN and packet.flags & (SYN | RST):
            skb.state = "INVALID"
            return True
        number = self.random.randrange(1 << 32)
        skb.entry = Entry(number, packet.protocol, key, (key[2], key[3], key[0], key[1]))
        skb.reverse, skb.state = False, "NEW"
        return True

    def _nat(self, host: Host, hook: str, part: str, skb: Skb, devices: Devices) -> bool:
        entry = skb.entry
        if entry is None:
            return True
        told = len(self.recorder.rows)
        before = skb.packet
        asks = skb.state == "NEW" or (skb.state == "RELATED" and not before.is_error)
        if asks and part not in entry.done:
            bases = [each for each in host.rules.base if each.key[1] == "nat" and each.hook == hook]
            bases = [each for each in bases if each.key[0] == ("ip" if before.family == 4 else "ip6")]
            if bases and not self._run(host, bases[0], skb, devices):
                return False
            entry.done.add(part)
        self._translate(entry, part, skb)
        changed = (
            before.source_text != skb.packet.source_text
            if part == "source"
            else before.destination_text != skb.packet.destination_text
        )
        explained = any(part in row.changed for row in self.recorder.rows[told:])
        if changed and not explained:
            self.recorder.tell(skb, host, None, hook=hook, changed=(part,))
        return True

    def _translate(self, entry: Entry, part: str, skb: Skb) -> None:
        """Rewrite one side of a packet as the entry says (net/netfilter/nf_nat_core.c)."""
        packet = skb.packet
        needed = {("source", False): "SNAT", ("destination", False): "DNAT"}
        needed |= {("source", True): "DNAT", ("destination", True): "SNAT"}
        if needed[part, skb.reverse] not in entry.status:
            return
        there = entry.original if skb.reverse else entry.reply
        address, port = (there[2], there[3]) if part == "source" else (there[0], there[1])
        if packet.quoted is not None:
            inner = packet.quoted
            if part == "source":
                inner = inner.changed(destination=address, destination_port=port if inner.has_ports else 0)
                skb.packet = packet.changed(source=address, quoted=inner)
            else:
                inner = inner.changed(source=address, source_port=port if inner.has_ports else 0)
                skb.packet = packet.changed(destination=address, quoted=inner)
            return
        values: dict[str, object] = {part: address}
        if packet.has_ports:
            values[f"{part}_port"] = port
        else:
            values["echo"] = port
        skb.packet = packet.changed(**values)

    def _confirm(self, host: Host, skb: Skb) -> bool:
        entry = skb.entry
        if entry is not None and entry not in self.entries.setdefault(host.name, []):
            if skb.reverse:
                return True
            self.entries.setdefault(host.name, []).append(entry)
            entry.status.add("CONFIRMED")
            self.recorder.conntrack_event(host, entry, "new", skb)
        elif entry is not None and skb.update:
            self.recorder.conntrack_event(host, entry, "update", skb)
        skb.update = False
        return True


def _masquerading(host: Host, device: str) -> str:
    """The device whose address a masqueraded packet gets: loopback has none that others could answer to."""
    if device != "lo":
        return device
    four = any(":" not in text for text in host.interfaces["eth0"].addresses)
    return "cni0" if "cni0" in host.interfaces and four else "eth0"


def _key(packet: Datagram) -> tuple[str, int, str, int]:
    if packet.has_ports:
        return packet.source, packet.source_port, packet.destination, packet.destination_port
    return packet.source, packet.echo, packet.destination, packet.echo


def _inverted(packet: Datagram) -> tuple[str, int, str, int]:
    source, source_port, destination, destination_port = _key(packet)
    return destination, destination_port, source, source_port


def _split(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)
