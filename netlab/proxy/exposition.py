"""Metrics as values, and the text that Prometheus reads (exposition format 0.0.4).

Counters, gauges and histograms under a registry: what a proxy needs of a metrics library and no more, since each node
of a lab has a proxy of its own, forked, which is to stay small.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Labels = tuple[str, ...]


@dataclass
class Metric:
    """One family of series. ``labels`` names what tells its series apart; without any there is one, at 0 from the
    beginning."""

    name: str
    help: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...] = ()
    series: dict[Labels, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.labels and self.kind != "histogram":
            self.series[()] = 0.0

    def add(self, *labels: str, amount: float = 1.0) -> None:
        self.series[labels] = self.series.get(labels, 0.0) + amount

    def set(self, value: float, *labels: str) -> None:
        self.series[labels] = value

    def lines(self) -> Iterator[str]:
        for labels in sorted(self.series):
            yield f"{self.name}{label_text(self.labels, labels)} {number_text(self.series[labels])}"


@dataclass
class Histogram(Metric):
    """Observed values, counted in buckets with these upper bounds (the last one, infinity, goes without saying)."""

    buckets: Sequence[float] = ()
    counts: dict[Labels, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.labels:
            self._start(())

    def _start(self, labels: Labels) -> list[int]:
        self.series.setdefault(labels, 0.0)
        return self.counts.setdefault(labels, [0] * (len(self.buckets) + 1))

    def observe(self, value: float, *labels: str) -> None:
        self._start(labels)[bisect_left(self.buckets, value)] += 1
        self.series[labels] += value

    def lines(self) -> Iterator[str]:
        for labels in sorted(self.counts):
            total = 0
            bounds = [*map(number_text, self.buckets), "+Inf"]
            for bound, count in zip(bounds, self.counts[labels], strict=True):
                total += count
                text = label_text((*self.labels, "le"), (*labels, bound))
                yield f"{self.name}_bucket{text} {total}"
            text = label_text(self.labels, labels)
            yield f"{self.name}_sum{text} {number_text(self.series[labels])}"
            yield f"{self.name}_count{text} {total}"


def exposition(metrics: Iterable[Metric]) -> str:
    """The text, metrics in the order of their names; those without any series are left out."""
    lines: list[str] = []
    for metric in sorted(metrics, key=lambda metric: metric.name):
        series = list(metric.lines())
        if series:
            lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}", *series]
    return "\n".join(lines) + "\n"


def label_text(names: Sequence[str], values: Sequence[str]) -> str:
    """ "{a="x",b="y"}"; nothing without labels. Names come in alphabetical order, but ``le`` last."""
    pairs: Mapping[str, str] = dict(zip(names, values, strict=True))
    ordered = sorted(pairs, key=lambda name: (name == "le", name))
    texts = [f'{name}="{_escaped(pairs[name])}"' for name in ordered]
    return f"{{{','.join(texts)}}}" if texts else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def number_text(value: float) -> str:
    """The shortest text that reads back as the same number, with an exponent where Go's 'g' format has one."""
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    digits, _, exponent = f"{value!r}".partition("e")
    if not exponent and 1e-4 <= abs(value) < 1e6:
        return digits
    texts = (f"{value:.{precision}e}" for precision in range(17))
    mantissa, power = next(text for text in texts if float(text) == value).split("e")
    number = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{number}e{power[0]}{power[1:].zfill(2)}"


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Bounds that each are ``factor`` times the one before."""
    return tuple(start * factor**index for index in range(count))


def linear(start: float, width: float, count: int) -> tuple[float, ...]:
    """Bounds that each are ``width`` more than the one before."""
    return tuple(start + width * index for index in range(count))
