"""Records as a walk carries them: plain values, by id."""

from __future__ import annotations

from collections.abc import Sequence

from netlab.model.records import ConntrackRecord
from netlab.model.walk import ConntrackEntry, Pair, Step
from netlab.packets.headers import PROTOCOL_NAMES
from netlab.packets.observation import Observation
from netlab.packets.translation import texts


def conntrack_entry(record: ConntrackRecord) -> ConntrackEntry:
    """An entry as it was at the moment of an event."""
    return ConntrackEntry(
        node=record.place,
        protocol=PROTOCOL_NAMES.get(record.protocol, str(record.protocol)),
        original=Pair(*texts(record.original)),
        reply=Pair(*texts(record.reply)),
        status=record.status,
    )


def records_of(seen: Observation, steps: Sequence[Step]) -> dict[str, dict[str, object]]:
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
            entry = conntrack_entry(record)
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
    for joined in seen.proxied:
        if joined.id in wanted:
            accepted, dialled = texts(joined.accepted), texts(joined.dialled) if joined.dialled is not None else None
            records[joined.id] = {
                "time": joined.time_ns,
                "place": joined.place,
                "event": joined.event,
                "service_port": joined.service_port,
                "accepted": {"source": accepted[0], "destination": accepted[1]},
                "dialled": {"source": dialled[0], "destination": dialled[1]} if dialled is not None else None,
                "tried": list(joined.tried),
            }
    for connection in seen.ipvs:
        if connection.id in wanted:
            records[connection.id] = {
                "place": connection.place,
                "protocol": connection.protocol,
                "client": connection.client,
                "virtual": connection.virtual,
                "real": connection.real,
                "state": connection.state,
            }
    return records
