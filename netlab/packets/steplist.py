"""A walk's steps and gaps as they are found, and what explaining them takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from netlab.model.keys import Origin
from netlab.model.records import ConntrackRecord
from netlab.model.rulebook import Rulebook
from netlab.model.text import Text
from netlab.model.topology import Topology
from netlab.model.walk import Changed, Direction, Step
from netlab.packets.translation import Addresses, Entry, Translations


@dataclass
class Context:
    """What explaining takes besides the sightings."""

    origin: str
    topology: Topology
    rulebooks: Mapping[str, Rulebook]
    translations: Translations
    start_ns: int
    meanings: Mapping[str, Text] = field(default_factory=dict)
    """What an address ("A:P/tcp") stands for, where it is a Service's."""
    unready: Mapping[str, Text] = field(default_factory=dict)
    """Why a Service has no endpoints, by "Service default/web 80/tcp"."""


@dataclass
class StepList:
    """Steps and gaps as they are found; numbers are given as steps come in."""

    context: Context
    steps: list[Step] = field(default_factory=list)
    gaps: list[tuple[int, Text]] = field(default_factory=list)
    used_entries: dict[tuple[str, int], ConntrackRecord] = field(default_factory=dict)
    ended_new_in: str | None = None
    """Where a rule ended the request, if it began a connection there."""
    _time_us: float = 0.0

    def at(self, time_ns: int) -> None:
        self._time_us = max(self._time_us, (time_ns - self.context.start_ns) / 1000)

    def begin(self, time_ns: int) -> None:
        """Count times from here if nothing has been told that was before."""
        self.context.start_ns = min(self.context.start_ns, time_ns)

    def gap(self, reason: Text | None) -> None:
        if reason is not None and (len(self.steps), reason) not in self.gaps:
            self.gaps.append((len(self.steps), reason))

    def use(self, entry: Entry) -> None:
        """Have the entry in the walk, as it was last seen."""
        last = entry.records[-1]
        self.used_entries[last.place, last.entry] = last

    def add(
        self,
        *,
        direction: Direction,
        place: str,
        action: str,
        addresses: Addresses,
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
