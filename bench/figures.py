"""What a benchmark yields, and how it is shown."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One measured value beside its limit.

    ``value`` and ``limit`` are in ``unit`` ("ms", "×", "%"); ``limit`` is the largest good value; None: only shown.
    ``detail``: what it was worked out from, for a reader.
    """

    name: str
    value: float
    unit: str
    limit: float | None = None
    detail: str = ""

    @property
    def good(self) -> bool:
        return self.limit is None or self.value <= self.limit


def show(figures: Sequence[Figure]) -> str:
    """The figures as lines of a table."""
    width = max(len(each.name) for each in figures)
    lines = []
    for each in figures:
        limit = "" if each.limit is None else f"≤ {each.limit:g} {each.unit}"
        verdict = "" if each.limit is None else ("ok" if each.good else "OVER")
        lines.append(f"{each.name:<{width}}  {each.value:>9.2f} {each.unit:<3} {limit:<12} {verdict:<5} {each.detail}")
    return "\n".join(line.rstrip() for line in lines)


def median(values: Sequence[float]) -> float:
    return statistics.median(values)
