"""What the instruments of the simulated lab record, and what is true of the packets that they see."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tests.unit.packets import wire
from tests.unit.packets.rules import Base
from tests.unit.packets.simulated_lab import Host
from tests.unit.packets.wire import Datagram

Role = Literal["request", "reply", "noise"]


class Row(NamedTuple):
    """One true step. ``event`` is what recorded it. ``optional``: the walk may leave it out, where frames say the
    same."""

    role: Role
    place: str
    interface: str | None
    hook: str | None
    table: str | None
    chain: str | None
    rule: str | None
    source: str
    destination: str
    changed: tuple[str, ...]
    event: Event | None
    optional: bool = False


@dataclass(eq=False)
class Event:
    """Something that an instrument records. ``values`` are fields of the record; ``token`` stands for the kernel's
    number of the packet."""

    kind: Literal["frame", "trace", "conntrack"]
    place: str
    values: dict[str, object]
    token: object = None
    role: Role = "noise"


@dataclass(eq=False)
class Entry:
    """A conntrack entry. Tuples are source, source port, destination, destination port; an echo's identifier stands
    for its ports."""

    number: int
    protocol: int
    original: tuple[str, int, str, int]
    reply: tuple[str, int, str, int]
    status: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)


@dataclass(eq=False)
class Skb:
    """A packet on its way. ``born`` and ``came_by`` make up the kernel's number for it, ``outer`` is VXLAN's packet."""

    packet: Datagram
    role: Role
    came_by: tuple[str, str] = ("", "")
    mark: int = 0
    traced: bool = False
    entry: Entry | None = None
    reverse: bool = False
    state: str = ""
    update: bool = False
    outer: Datagram | None = None
    inner_macs: tuple[str, str] = ("", "")


class Recorder:
    """Events and true rows, in the order in which they happen. A packet that is sent again has its own true rows."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.sendings: list[list[Row]] = [[]]

    @property
    def rows(self) -> list[Row]:
        """The true rows of the last sending."""
        return self.sendings[-1]

    def frame(
        self, host: Host, device: str, direction: str, skb: Skb, macs: tuple[str, str], *, flood: bool = False
    ) -> None:
        packet = skb.packet
        outer = skb.outer is not None and device not in ("vxlan1", "cni0") and not device.startswith("veth")
        if outer:
            assert skb.outer is not None
            inner = wire.ethernet(*skb.inner_macs, packet)
            data = wire.ethernet(*macs, skb.outer.changed(payload=wire.vxlan_payload(inner)))
        else:
            data = wire.ethernet(*macs, packet)
        overheard = direction == "in" and macs[1] != host.interfaces[device].mac
        values: dict[str, object] = {
            "interface": device,
            "direction": direction,
            "data": data,
            "overheard": overheard,
        }
        event = Event("frame", host.name, values, role=skb.role)
        self.events.append(event)
        if not flood:
            self.tell(skb, host, event, interface=device)

    def tell(
        self,
        skb: Skb,
        host: Host,
        event: Event | None,
        *,
        interface: str | None = None,
        hook: str | None = None,
        place_of_rule: tuple[str | None, str | None, str | None] = (None, None, None),
        changed: tuple[str, ...] = (),
        packet: Datagram | None = None,
        optional: bool = False,
    ) -> None:
        packet = packet or skb.packet
        if skb.role != "noise":
            addresses = packet.source_text, packet.destination_text
            self.rows.append(
                Row(skb.role, host.name, interface, hook, *place_of_rule, *addresses, changed, event, optional)
            )

    def trace(
        self,
        host: Host,
        skb: Skb,
        base: Base,
        chain: str,
        kind: str,
        handle: int | None,
        verdict: str,
        target: str | None,
        devices: tuple[str | None, str | None],
        *,
        header: bool,
    ) -> Event:
        values: dict[str, object] = {
            "family": base.key[0],
            "table": base.key[1],
            "chain": chain,
            "kind": kind,
            "handle": handle,
            "verdict": verdict,
            "target": target,
            "input": devices[0] if header else None,
            "output": devices[1] if header else None,
            "mark": skb.mark,
            "network": wire.network_header(skb.packet) if header else b"",
            "transport": wire.transport_part(skb.packet)[:20] if header else b"",
        }
        event = Event("trace", host.name, values, token=(id(skb), skb.came_by, skb), role=skb.role)
        if skb.traced:
            self.events.append(event)
        return event

    def conntrack_event(self, host: Host, entry: Entry, event: str, skb: Skb) -> None:
        ports = entry.protocol in wire.PORT_PROTOCOLS
        values: dict[str, object] = {
            "event": event,
            "entry": entry.number,
            "protocol": entry.protocol,
            "original": _tuple(entry.original, ports),
            "reply": _tuple(entry.reply, ports),
            "status": tuple(sorted(entry.status)),
        }
        self.events.append(Event("conntrack", host.name, values, role=skb.role))


def _tuple(value: tuple[str, int, str, int], ports: bool) -> tuple[str, str, int | None, int | None]:
    return value[0], value[2], value[1] if ports else None, value[3] if ports else None
