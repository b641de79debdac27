"""Ctrl-C in the terminal, and a polite request to end, close the window as a person would."""

from __future__ import annotations

import signal
import socket

from PySide6.QtCore import QSocketNotifier
from PySide6.QtWidgets import QWidget

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")


def end_on_signals(window: QWidget) -> None:
    """Python runs handlers only between its own instructions: a byte in a socket wakes the event loop up."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
    signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    for name in _NAMES:
        number = getattr(signal, name, None)
        # What the caller ignores (nohup) stays ignored.
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    notifier = QSocketNotifier(ours.fileno(), QSocketNotifier.Type.Read, window)

    def close() -> None:
        notifier.setEnabled(False)
        signal.set_wakeup_fd(-1)
        theirs.close()
        ours.close()
        window.close()

    notifier.activated.connect(close)
