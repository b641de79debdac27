"""When a walk's steps are shown: not in the kernel's microseconds but at the pace of an eye.

The dot stops at each hook where something could happen, for a moment where nothing did, longer where something
changed.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from netlab.model.walk import Step, Walk

TRAVEL_S = 0.4
INSIDE_S = 0.16
GLANCE_S = 0.08
LOOK_S = 1.5
END_S = 0.9


@dataclass(frozen=True)
class Spot:
    """Where a step is: in a hook of a place, at an interface of it, or in its kube-proxy (which then is the hook)."""

    place: str
    interface: str | None
    hook: str | None


PROGRAM = "kube-proxy"


def spot(step: Step) -> Spot:
    if step.action in ("relayed", "closed"):
        return Spot(step.place, None, PROGRAM)
    return Spot(step.place, step.interface if step.hook is None else None, step.hook)


@dataclass(frozen=True)
class Beat:
    """A step's time: travelling to its spot from ``begin`` on, being there from ``there`` to ``end``."""

    begin: float
    there: float
    end: float


class Timeline:
    """The beats of a walk, by the index of its steps."""

    def __init__(self, walk: Walk) -> None:
        self.beats: list[Beat] = []
        now = 0.0
        before: Step | None = None
        for step in walk.steps:
            travel = 0.0
            if before is not None and spot(before) != spot(step):
                travel = TRAVEL_S if before.place != step.place else INSIDE_S
            there = now + travel
            end = there + _dwell(step, last=step.n == walk.steps[-1].n)
            self.beats.append(Beat(now, there, end))
            now, before = end, step
        self.length = now

    def step_at(self, moment: float) -> int:
        """The index of the step that is shown at a moment; travelling counts to the step that is travelled to."""
        return max(0, bisect_right(self.beats, moment, key=lambda beat: beat.begin) - 1)

    def travelled(self, moment: float) -> tuple[int, float]:
        """The step at a moment, and how much of the way to its spot is done, 0 to 1."""
        index = self.step_at(moment)
        if not self.beats:
            return 0, 1.0
        beat = self.beats[index]
        if moment >= beat.there:
            return index, 1.0
        return index, (moment - beat.begin) / (beat.there - beat.begin)


def _dwell(step: Step, *, last: bool) -> float:
    if step.changed or step.action in ("drop", "reject", "unanswered"):
        return LOOK_S
    return END_S if last else GLANCE_S
