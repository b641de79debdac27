"""Readiness and timers for servers that live inside another program's loop.

An epoll descriptor can itself be watched: the program that owns the loop registers :meth:`EventLoop.fileno` for reading
in its own poll, waits no longer than until :meth:`EventLoop.due`, and calls :meth:`EventLoop.turn`, which never waits.
"""

from __future__ import annotations

import heapq
import itertools
import select
import time
from collections.abc import Callable
from typing import Protocol

READ, WRITE = select.EPOLLIN, select.EPOLLOUT
BROKEN = select.EPOLLHUP | select.EPOLLERR

Handler = Callable[[int], None]
"""Gets the events that are ready: READ, WRITE, BROKEN."""


class HasDescriptor(Protocol):
    def fileno(self) -> int: ...


class Timer:
    """A call at a time, until it is cancelled. Times are ``time.monotonic()`` seconds."""

    __slots__ = ("callback", "when")

    def __init__(self, when: float, callback: Callable[[], None]) -> None:
        self.when = when
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class EventLoop:
    """Sockets with their handlers, and timers. One thread; handlers must not wait."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._epoll = select.epoll()
        self._handlers: dict[int, Handler] = {}
        self._forgotten: set[int] = set()
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()

    def fileno(self) -> int:
        return self._epoll.fileno()

    def close(self) -> None:
        self._epoll.close()

    def watch(self, socket: HasDescriptor, events: int, handler: Handler) -> None:
        """Call ``handler`` whenever one of ``events`` is there; BROKEN always counts."""
        descriptor = socket.fileno()
        self._epoll.register(descriptor, events)
        self._handlers[descriptor] = handler

    def change(self, socket: HasDescriptor, events: int) -> None:
        """Other events from now on; 0: none but BROKEN."""
        self._epoll.modify(socket.fileno(), events)

    def forget(self, socket: HasDescriptor) -> None:
        """No more calls for this socket, also of events that are there already; to be called before it is closed."""
        descriptor = socket.fileno()
        if self._handlers.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)
            # Its number may belong to a new socket before the events of this turn are through.
            self._forgotten.add(descriptor)

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(when, callback)
        heapq.heappush(self._timers, (when, next(self._order), timer))
        return timer

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        return self.call_at(self.clock() + seconds, callback)

    def due(self) -> float | None:
        """When the next timer is to run; None where there is none."""
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def turn(self, timeout: float = 0.0) -> None:
        """Handle what is ready and due; wait at most ``timeout`` seconds for something to be."""
        due = self.due()
        wait = timeout if due is None else min(timeout, max(0.0, due - self.clock()))
        self._forgotten.clear()
        for descriptor, events in self._epoll.poll(wait):
            handler = self._handlers.get(descriptor)
            if handler is not None and descriptor not in self._forgotten:
                handler(events)
        self._run_timers()

    def _run_timers(self) -> None:
        now = self.clock()
        while (due := self.due()) is not None and due <= now:
            callback = heapq.heappop(self._timers)[2].callback
            if callback is not None:
                callback()
