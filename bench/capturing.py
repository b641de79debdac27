"""How many packets a capture of all interfaces at once loses, and whether it says so."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

from bench.figures import Figure

RATE = 20_000
"""Packets a second."""


def run(*, smoke: bool) -> Iterator[Figure]:
    seconds = 1 if smoke else 5
    done = subprocess.run(
        [sys.executable, "-m", "bench.capture_inside", str(RATE), str(seconds)],
        capture_output=True,
        check=True,
    )
    result = json.loads(done.stdout)
    points = result["points"]
    detail = ", ".join(f"{name} {count}" for name, count in points.items())
    expected = result["sent"] * len(points)
    seen = sum(points.values())
    name = f"{RATE} packets/s at {len(points)} points"
    yield Figure(f"{name}: sent", result["sent"] / result["seconds"], "/s", None, f"{result['sent']} packets")
    yield Figure(f"{name}: lost", 100 * (expected - seen) / expected, "%", 1, detail)
    unstated = max(0, expected - seen - result["stated"])
    yield Figure(f"{name}: lost without a word", 100 * unstated / expected, "%", 0)
