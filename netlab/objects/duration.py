"""Durations as Go writes them ("1m30s", "500ms"), metav1.Duration on the wire."""

from __future__ import annotations

import re

_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float:
    """Seconds. Raises ValueError, in the words of Go's time.ParseDuration, for what it would not take."""
    sign, rest = 1.0, text
    if rest[:1] in ("+", "-"):
        sign, rest = (-1.0 if rest[0] == "-" else 1.0), rest[1:]
    if rest == "0":
        return 0.0
    parts = list(_PART.finditer(rest))
    if not parts or "".join(part.group(0) for part in parts) != rest:
        raise ValueError(f'time: invalid duration "{text}"')
    return sign * sum(float(part.group(1)) * _SECONDS[part.group(2)] for part in parts)
