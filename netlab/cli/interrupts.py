"""Signals that ask the command to stop: one exception for all of them, so that every way out cleans up."""

from __future__ import annotations

import signal
import time
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PATIENCE_S = 3.0
"""How long cleaning up may take before a further signal interrupts that too, seconds."""


class Interrupted(BaseException):
    """Somebody wants the command to end: Ctrl-C, a termination signal, a closed terminal."""


def install() -> None:
    """Have the signals raise :class:`Interrupted`. One that the caller ignores (nohup) stays ignored."""
    handler = _Handler()
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


class _Handler:
    """Raises for the first signal, and for one that comes much later: what comes soon after is impatience."""

    def __init__(self) -> None:
        self._last = float("-inf")

    def __call__(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if now - self._last > PATIENCE_S:
            self._last = now
            raise Interrupted
