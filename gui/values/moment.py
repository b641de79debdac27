"""What there is to know at a step beyond the step itself: the frame and the conntrack entry as they are then."""

from __future__ import annotations

from dataclasses import dataclass

from netlab.model.walk import Pair, Walk


@dataclass(frozen=True)
class FrameSeen:
    """A frame of the walk; ``here`` is false where it was seen before the step, on the way to it."""

    id: str
    place: str
    interface: str
    direction: str
    time_ns: int
    data: bytes
    length: int
    here: bool = True


@dataclass(frozen=True)
class EntrySeen:
    """A conntrack entry as an event told it, or (``final``) as the walk's end found it."""

    node: str
    protocol: str
    original: Pair
    reply: Pair
    status: tuple[str, ...]
    final: bool = False


def frame(walk: Walk, name: str, *, here: bool = True) -> FrameSeen | None:
    """The frame that a record holds; None for other records and damaged ones."""
    record = walk.records.get(name)
    if record is None or not name.startswith("frame:"):
        return None
    try:
        return FrameSeen(
            name,
            str(record["place"]),
            str(record["interface"]),
            str(record["direction"]),
            int(str(record["time"])),
            bytes.fromhex(str(record["bytes"])),
            int(str(record["length"])),
            here,
        )
    except (KeyError, ValueError):
        return None


def frame_at(walk: Walk, index: int) -> FrameSeen | None:
    """The frame of the step, else the last one that was seen of the packet before."""
    step = walk.steps[index]
    for number in range(index, -1, -1):
        earlier = walk.steps[number]
        if earlier.direction != step.direction:
            break
        for name in earlier.evidence:
            found = frame(walk, name, here=number == index)
            if found is not None:
                return found
    return None


def frames(walk: Walk) -> list[FrameSeen]:
    """All frames of the walk in the order of their times."""
    found = [seen for name in walk.records if (seen := frame(walk, name)) is not None]
    return sorted(found, key=lambda seen: (seen.time_ns, seen.id))


def entry_at(walk: Walk, index: int) -> EntrySeen | None:
    """The connection's conntrack entry on the step's node at that moment; None while there is none.

    The kernel puts an entry into its table (and tells of it) when the packet leaves the last hook, with all that the
    hooks have done to it; the steps that did it name that same event as their evidence.
    """
    step = walk.steps[index]
    so_far = [each for each in walk.steps[: index + 1] if each.place == step.place]
    if not any(each.direction == "reply" or (each.hook is None and each.action == "sent") for each in so_far):
        return None
    latest = None
    for earlier in so_far:
        for name in earlier.evidence:
            if name.startswith("conntrack:"):
                latest = _entry(step.place, walk.records.get(name, {})) or latest
    final = next((each for each in walk.conntrack if each.node == step.place), None)
    if latest is None and final is not None:
        return EntrySeen(step.place, final.protocol, final.original, final.reply, final.status, final=True)
    return latest


def _entry(node: str, record: dict[str, object]) -> EntrySeen | None:
    original, reply, status = record.get("original"), record.get("reply"), record.get("status")
    if not (isinstance(original, dict) and isinstance(reply, dict) and isinstance(status, list)):
        return None
    return EntrySeen(
        node,
        str(record.get("protocol", "")),
        Pair(str(original.get("source")), str(original.get("destination"))),
        Pair(str(reply.get("source")), str(reply.get("destination"))),
        tuple(str(each) for each in status),
    )
