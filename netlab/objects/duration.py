"""Durations as Go writes them ("1m30s", "500ms"), metav1.Duration on the wire."""

from __future__ import annotations

import re

_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([^0-9.]*)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_MOST_S = 2**63 / 1e9
"""Go counts nanoseconds in 64 bits."""


def parse_duration(text: str) -> float:
    """Seconds. Raises ValueError, in the words of Go's time.ParseDuration, for what it would not take."""
    sign, rest = 1.0, text
    if rest[:1] in ("+", "-"):
        sign, rest = (-1.0 if rest[0] == "-" else 1.0), rest[1:]
    if rest == "0":
        return 0.0
    seconds = 0.0
    position = 0
    while position < len(rest):
        part = _PART.match(rest, position)
        if part is None:
            break
        number, unit = part.groups()
        if not unit:
            raise ValueError(f'time: missing unit in duration "{text}"')
        if unit not in _SECONDS:
            raise ValueError(f'time: unknown unit "{unit}" in duration "{text}"')
        seconds += float(number) * _SECONDS[unit]
        position = part.end()
    if not rest or position < len(rest) or seconds >= _MOST_S:
        raise ValueError(f'time: invalid duration "{text}"')
    return sign * seconds
