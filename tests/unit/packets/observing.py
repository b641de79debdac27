"""From what happened in a simulated lab to what the correlator is given."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from netlab.model.records import ConntrackRecord, Frame, TraceRecord, Tuple
from netlab.model.walk import Probe as ProbeWords
from netlab.packets.observation import EndpointOwner, Observation, Outcome
from tests.unit.packets.probing import Simulated
from tests.unit.packets.scenarios import ACK_ONLY, BARE, BARE_PING
from tests.unit.packets.simulated_lab import NODE_A, NODE_B, topology
from tests.unit.packets.simulated_records import Event
from tests.unit.packets.wire import address_text

START_NS = 1_700_000_000_000_000_000


@dataclass
class Records:
    """Events as the lab hands them over. ``events`` by record id."""

    frames: list[Frame]
    traces: list[TraceRecord]
    conntrack: list[ConntrackRecord]
    events: dict[str, Event]
    ids: dict[int, str]

    def id_of(self, event: Event) -> str:
        return self.ids[id(event)]


def merged(streams: Sequence[Sequence[Event]], chance: random.Random) -> list[Event]:
    """Several packets' events as if they had happened at the same time; each keeps its own order."""
    left = [list(stream) for stream in streams if stream]
    found: list[Event] = []
    while left:
        stream = chance.choice(left)
        for _ in range(min(len(stream), chance.choice((1, 1, 2, 5, 20)))):
            found.append(stream.pop(0))
        left = [each for each in left if each]
    return found


def records(events: Iterable[Event], chance: random.Random, *, reuse_numbers: bool = False) -> Records:
    """Give times, running numbers and ids. With ``reuse_numbers``, a packet's number in the trace comes back as soon as
    that packet is done with."""
    events = list(events)
    numbers = _packet_numbers(events, chance, reuse=reuse_numbers)
    result = Records([], [], [], {}, {})
    time_ns = START_NS
    counts: dict[object, int] = {}
    for event in events:
        time_ns += chance.randrange(200, 30_000)
        values = dict(event.values)
        if event.kind == "frame":
            key: object = ("frame", event.place, values["interface"])
            number = counts[key] = counts.get(key, 0) + 1
            identifier = f"frame:{event.place}/{values['interface']}#{number}"
            data: Any = values["data"]
            result.frames.append(
                Frame(id=identifier, place=event.place, time_ns=time_ns, length=len(data), **values)  # type: ignore[arg-type]
            )
        else:
            number = counts[event.kind, event.place] = counts.get((event.kind, event.place), 0) + 1
            identifier = f"{event.kind}:{event.place}#{number}"
            if event.kind == "trace":
                packet = numbers[event.place, event.token]
                result.traces.append(
                    TraceRecord(id=identifier, place=event.place, order=number, packet=packet, **values)  # type: ignore[arg-type]
                )
            else:
                values["original"], values["reply"] = Tuple(*values["original"]), Tuple(*values["reply"])  # type: ignore[misc]
                result.conntrack.append(
                    ConntrackRecord(id=identifier, place=event.place, order=number, **values)  # type: ignore[arg-type]
                )
        result.events[identifier] = event
        result.ids[id(event)] = identifier
    # The lab hands frames over place by place.
    result.frames.sort(key=lambda frame: frame.place)
    result.traces.sort(key=lambda trace: trace.place)
    return result


def _packet_numbers(events: list[Event], chance: random.Random, *, reuse: bool) -> dict[tuple[str, object], int]:
    last: dict[tuple[str, object], int] = {}
    for index, event in enumerate(events):
        if event.kind == "trace":
            last[event.place, event.token] = index
    found: dict[tuple[str, object], int] = {}
    free: dict[str, list[int]] = {}
    fresh = chance.randrange(1 << 31)
    for index, event in enumerate(events):
        if event.kind != "trace":
            continue
        key = event.place, event.token
        if key not in found:
            pool = free.setdefault(event.place, [])
            if reuse and pool:
                found[key] = pool.pop()
            else:
                fresh += 1
                found[key] = fresh
        if last[key] == index:
            free.setdefault(event.place, []).append(found[key])
    return found


def observation(probe: Simulated, recorded: Records) -> Observation:
    """What the correlator is given."""
    sim, scenario = probe.sim, probe.scenario
    owners = {}
    for host in sim.hosts.values():
        if host.kind == "pod":
            address = host.address_on("eth0", sim.setup.family)
            owners[address] = EndpointOwner(host.name, host.node or "", host.name)
    node_b = sim.hosts[NODE_B].address_on("eth0", sim.setup.family)
    owners[address_text(node_b, 8080)] = EndpointOwner("default/on-host", NODE_B, NODE_B)
    traced = {record.place for record in recorded.traces}
    places = traced | {NODE_A, NODE_B}
    crafted = scenario.protocol in (BARE, BARE_PING, ACK_ONLY, "sctp") or scenario.hops != 64
    return Observation(
        origin=scenario.origin,
        mark=probe.mark,
        probe=ProbeWords(scenario.origin, probe.packet.destination_text, scenario.protocol),
        mode="iptables",
        outcome=Outcome("sent" if crafted else probe.result, probe.packet.source_text, probe.packet.destination_text),
        topology=topology(sim.hosts),
        frames=recorded.frames,
        traces=recorded.traces,
        conntrack=recorded.conntrack,
        rulebooks={place: sim.hosts[place].rules.rulebook() for place in sorted(places)},
        owners=owners,
        vxlan=sim.setup.between_nodes == "vxlan",
    )
