"""Records without what differs from run to run: times, running numbers, numbers of packets, chosen ports, hashed names.

So what was recorded in a real lab can be compared with what the simulator makes up.
"""

from __future__ import annotations

import re

from netlab.model.records import TraceRecord
from netlab.packets.headers import Packet, parse_frame, parse_trace
from netlab.packets.observation import Observation

Line = tuple[object, ...]

_SERVICE_PORTS = range(30017, 30040)
_KNOWN_PORTS = (7777, 8080)
_HASHED_CHAIN = re.compile(r"(KUBE-(?:SVC|SVL|SEP|EXT)-).*")


class Canonical:
    """The records of the probe's request and first answer: frames in order, trace records by place."""

    def __init__(self, seen: Observation) -> None:
        self.seen = seen
        self.keys: list[object] = []
        self.frames: list[Line] = []
        self.traces: dict[str, list[Line]] = {}
        self._ports: dict[str, str] = {}
        self._add_frames()
        self._add_traces()

    def _number(self, packet: Packet) -> int | None:
        """0 for the request, 1 for its first answer; None for other packets."""
        mark = self.seen.mark
        if mark.is_bare or not (mark.carried_by(packet) or mark.answered_by(packet)):
            return None
        if packet.key not in self.keys:
            self.keys.append(packet.key)
        number = self.keys.index(packet.key)
        return number if number < 2 else None

    def _address(self, text: str) -> str:
        """Ports that were chosen by chance are numbered in the order in which they were seen."""
        host, _, port = text.rpartition(":")
        if not host or (":" in text and text.count(":") > 1 and not text.startswith("[")):
            return text
        if int(port) < 1024 or int(port) in _SERVICE_PORTS or int(port) in _KNOWN_PORTS:
            return text
        return f"{host}:{self._ports.setdefault(port, f'chosen-{len(self._ports)}')}"

    def _interface(self, place: str, name: str | None) -> str | None:
        found = self.seen.topology.places[place].interface(name or "")
        if found is None or found.peer is None or name == "eth0":
            return name
        return f"port of {found.peer.place}"

    def _add_frames(self) -> None:
        for frame in sorted(self.seen.frames, key=lambda frame: frame.time_ns):
            packet = parse_frame(frame.data, self.seen.vxlan)
            number = self._number(packet) if packet is not None else None
            if packet is None or number is None:
                continue
            inner = packet.inner.addresses if packet.inner is not None else ()
            self.frames.append(
                (
                    number,
                    frame.place,
                    self._interface(frame.place, frame.interface),
                    frame.direction,
                    frame.overheard,
                    *(self._address(each) for each in packet.addresses),
                    packet.hops,
                    tuple(self._address(each) for each in inner),
                    packet.outer is not None,
                )
            )

    def _add_traces(self) -> None:
        current: dict[tuple[str, int], int | None] = {}
        for record in sorted(self.seen.traces, key=lambda record: (record.place, record.order)):
            packet = parse_trace(record.network, record.transport)
            if packet is not None:
                current[record.place, record.packet] = self._number(packet)
            number = current.get((record.place, record.packet))
            if number is not None:
                self.traces.setdefault(record.place, []).append(self._trace_line(record, packet, number))

    def _trace_line(self, record: TraceRecord, packet: Packet | None, number: int) -> Line:
        header = (*(self._address(each) for each in packet.addresses), packet.hops) if packet is not None else ()
        return (
            number,
            record.table,
            _HASHED_CHAIN.sub(r"\1", record.chain),
            record.kind,
            record.handle is not None,
            record.verdict,
            _HASHED_CHAIN.sub(r"\1", record.target or ""),
            self._interface(record.place, record.input),
            self._interface(record.place, record.output),
            record.mark,
            header,
        )
