"""A walk as a ladder: places across, time down. Arrows between places, and what was done in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from netlab.model.walk import Step, Walk

Kind = Literal["move", "act", "pass", "stand"]


@dataclass(frozen=True)
class Rung:
    """One row: the packet moves to another place, something is done to it, it passes a hook, or it is seen.

    ``first`` and ``last`` are indices of the steps that the row stands for; ``step`` is the one that tells most.
    """

    kind: Kind
    column: int
    to_column: int
    step: Step
    first: int
    last: int


@dataclass(frozen=True)
class Ladder:
    columns: tuple[str, ...]
    rungs: tuple[Rung, ...]

    def rung_of(self, index: int) -> int:
        """The row that stands for a step."""
        return next((at for at, rung in enumerate(self.rungs) if index <= rung.last), max(0, len(self.rungs) - 1))


def ladder(walk: Walk) -> Ladder:
    columns = tuple(dict.fromkeys(step.place for step in walk.steps))
    at = {place: number for number, place in enumerate(columns)}
    rungs: list[Rung] = []
    index = 0
    steps = walk.steps
    while index < len(steps):
        step = steps[index]
        before = steps[index - 1] if index else None
        if before is not None and before.place != step.place and before.direction == step.direction:
            rungs.append(Rung("move", at[before.place], at[step.place], step, index, index))
            index += 1
            continue
        if step.hook is None:
            rungs += _seen(at[step.place], step, index, first=not rungs, last=index == len(steps) - 1)
            if rungs and rungs[-1].last < index:
                rungs[-1] = _longer(rungs[-1], index)
            index += 1
            continue
        last = _end_of_hook(steps, index)
        told = next((each for each in steps[index : last + 1] if _acts(each)), steps[last])
        rungs.append(Rung("act" if _acts(told) else "pass", at[step.place], at[step.place], told, index, last))
        index = last + 1
    return Ladder(columns, tuple(rungs))


def _acts(step: Step) -> bool:
    return bool(step.changed) or step.action in ("drop", "reject")


def _seen(column: int, step: Step, index: int, *, first: bool, last: bool) -> list[Rung]:
    """A row of its own for the beginning, for who answers, and for questions that nobody answered."""
    begins_answer = step.reason is not None and step.reason.id in ("walk.accepts", "walk.resets", "walk.answers")
    if first or begins_answer or step.action == "unanswered" or (last and not first):
        return [Rung("stand", column, column, step, index, index)]
    return []


def _longer(rung: Rung, last: int) -> Rung:
    return Rung(rung.kind, rung.column, rung.to_column, rung.step, rung.first, last)


def _end_of_hook(steps: tuple[Step, ...], index: int) -> int:
    """The last step of the stay in one hook; a change ends it, as another may follow."""
    step = steps[index]
    last = index
    while last + 1 < len(steps):
        following = steps[last + 1]
        same = (following.place, following.hook, following.direction) == (step.place, step.hook, step.direction)
        if not same or _acts(steps[last]):
            break
        last += 1
    return last
