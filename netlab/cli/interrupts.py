"""Signals that ask the command to stop: one exception for all of them, so that every way out cleans up.

An exception out of a signal handler may come at any instruction, and not every one can take it: raised in a callback
out of C code it is printed and lost, and msgspec crashes where one comes while it looks at a type. So signals wait
(:func:`hold`) until all that the command is made of has been imported, and later while something is being imported.
"""

from __future__ import annotations

import signal
import sys
import time
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PATIENCE_S = 3.0
"""How long cleaning up may take before a further signal interrupts that too, seconds."""
AGAIN_S = 0.002
"""When to try again where a signal has come in the middle of something, seconds."""

_MIDDLE = ("<frozen importlib", "/msgspec/", "/typing.py")
"""In the names of files whose functions are called by C code that cannot take an exception."""


class Interrupted(BaseException):
    """Somebody wants the command to end: Ctrl-C, a termination signal, a closed terminal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    @property
    def exit_status(self) -> int:
        """What a shell says of a command that a signal has ended."""
        return 128 + self.number


def hold() -> None:
    """Have the signals wait from here on."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def release() -> None:
    """Have the signals, also those that wait, raise :class:`Interrupted`. One that the caller ignores (nohup) stays
    ignored."""
    handler = _Handler()
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)
    signal.signal(signal.SIGALRM, handler)
    sys.unraisablehook = handler.lost
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


class _Handler:
    """Raises for the first signal, and for one that comes much later: what comes soon after is impatience."""

    def __init__(self) -> None:
        self._last = float("-inf")
        self._waiting = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGALRM:
            number, self._waiting = self._waiting, 0
        now = time.monotonic()
        if not number or now - self._last <= PATIENCE_S:
            return
        if _in_the_middle(frame):
            self._try_again(number)
            return
        self._last = now
        raise Interrupted(number)

    def lost(self, unraisable: sys.UnraisableHookArgs) -> None:
        """An exception came where nobody could take it."""
        if isinstance(unraisable.exc_value, Interrupted):
            self._last = float("-inf")
            self._try_again(unraisable.exc_value.number)
        else:
            sys.__unraisablehook__(unraisable)

    def _try_again(self, number: int) -> None:
        self._waiting = number
        signal.setitimer(signal.ITIMER_REAL, AGAIN_S)


def _in_the_middle(frame: FrameType | None) -> bool:
    while frame is not None:
        if any(part in frame.f_code.co_filename for part in _MIDDLE):
            return True
        frame = frame.f_back
    return False
