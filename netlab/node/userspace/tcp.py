"""TCP in mode userspace: accept, dial the next endpoint, copy both ways until both sides have said all.

Source of behaviour: kubernetes/pkg/proxy/userspace/proxysocket.go (1.25).
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable

from netlab.model.records import Tuple
from netlab.node.eventloop import BROKEN, READ, WRITE, EventLoop, Timer
from netlab.node.userspace.reporting import Reporter, pair, split_endpoint
from netlab.proxy.service_ports import ServicePortName
from netlab.proxy.userspace.balancer import Balancer

DIAL_TIMEOUTS_S = (0.25, 0.5, 1.0, 2.0)
"""How long each dial may take; after the last one the client's connection is closed."""

_CHUNK = 64 * 1024
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
_DESCRIPTORS_RETRY_S = 0.1


class TcpPortal:
    """The listener of one Service port.

    One connection is dialled for at a time, as the real one does: an endpoint that does not answer holds up the other
    clients of its Service port.
    """

    def __init__(
        self, loop: EventLoop, name: ServicePortName, listener: socket.socket, balancer: Balancer, reporter: Reporter
    ) -> None:
        self.loop = loop
        self.name = name
        self.listener = listener
        self.balancer = balancer
        self.reporter = reporter
        self.open = True
        loop.watch(listener, READ, self._accept)

    def close(self) -> None:
        """Take no more connections; those that there are go on."""
        self.open = False
        self.loop.forget(self.listener)
        self.listener.close()

    def _accept(self, _: int) -> None:
        try:
            client, address = self.listener.accept()
        except OSError as error:
            if error.errno in _OUT_OF_DESCRIPTORS:
                self._pause()
                self.loop.call_later(_DESCRIPTORS_RETRY_S, self._resume)
            return
        client.setblocking(False)
        self._pause()
        _Dial(self, client, pair(address, client.getsockname())).next()

    def _pause(self) -> None:
        if self.open:
            self.loop.change(self.listener, 0)

    def _resume(self) -> None:
        if self.open:
            self.loop.change(self.listener, READ)

    def joined(self, client: socket.socket, server: socket.socket, accepted: Tuple, tried: tuple[str, ...]) -> None:
        """An endpoint has answered."""
        dialled = pair(server.getsockname(), server.getpeername())
        self.reporter.tell("joined", self.name, accepted, dialled, tried)
        Relay(self.loop, client, server, lambda: self.reporter.tell("ended", self.name, accepted, dialled, tried))
        self._resume()

    def failed(self, client: socket.socket, accepted: Tuple, tried: tuple[str, ...]) -> None:
        """There is no endpoint, or none has answered."""
        client.close()
        self.reporter.tell("failed", self.name, accepted, None, tried)
        self._resume()


class _Dial:
    """The attempts to reach an endpoint for one accepted connection."""

    def __init__(self, portal: TcpPortal, client: socket.socket, accepted: Tuple) -> None:
        self.portal = portal
        self.client = client
        self.accepted = accepted
        self.tried: list[str] = []

    def next(self) -> None:
        """Dial the next endpoint. After a failure the client's affinity is for the one that comes then."""
        portal = self.portal
        if len(self.tried) == len(DIAL_TIMEOUTS_S):
            endpoint = None
        else:
            endpoint = portal.balancer.next(self.accepted.source, reset=bool(self.tried))
        if endpoint is None:
            portal.failed(self.client, self.accepted, tuple(self.tried))
            return
        host, port = split_endpoint(endpoint)
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            server = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        except OSError:
            portal.failed(self.client, self.accepted, tuple(self.tried))
            return
        status = server.connect_ex((host, port))
        if status not in (0, errno.EINPROGRESS):
            self._give_up(server, endpoint)
            return
        timer = portal.loop.call_later(
            DIAL_TIMEOUTS_S[len(self.tried)], lambda: self._finish(server, endpoint, timer, errno.ETIMEDOUT)
        )
        portal.loop.watch(server, WRITE, lambda _: self._finish(server, endpoint, timer, None))

    def _finish(self, server: socket.socket, endpoint: str, timer: Timer, status: int | None) -> None:
        timer.cancel()
        self.portal.loop.forget(server)
        if status is None:
            status = server.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if status:
            self._give_up(server, endpoint)
        else:
            self.portal.joined(self.client, server, self.accepted, tuple(self.tried))

    def _give_up(self, server: socket.socket, endpoint: str) -> None:
        server.close()
        self.tried.append(endpoint)
        self.next()


class _Way:
    """One direction of a relay: what was read and not yet written."""

    __slots__ = ("destination", "ended", "finished", "source", "unsent")

    def __init__(self, source: socket.socket, destination: socket.socket) -> None:
        self.source = source
        self.destination = destination
        self.unsent = b""
        self.ended = False
        self.finished = False

    def pump(self) -> None:
        """Write what is left, else read and write; passes on the end. Raises OSError where a connection is broken."""
        try:
            if not self.unsent and not self.ended:
                self.unsent = self.source.recv(_CHUNK)
                self.ended = not self.unsent
            if self.unsent:
                self.unsent = self.unsent[self.destination.send(self.unsent) :]
        except BlockingIOError:
            pass
        if self.ended and not self.unsent and not self.finished:
            self.finished = True
            self.destination.shutdown(socket.SHUT_WR)


class Relay:
    """Two connections, copied both ways. ``over`` is called once, when both are closed.

    It reads from a side only what the other one takes, so that it never holds more than a chunk each way.
    """

    def __init__(self, loop: EventLoop, client: socket.socket, server: socket.socket, over: Callable[[], None]) -> None:
        self.loop = loop
        self.client = client
        self.server = server
        self.over = over
        self.up = _Way(client, server)
        self.down = _Way(server, client)
        self._events = {client: READ, server: READ}
        loop.watch(client, READ, lambda events: self._handle(events, self.up, self.down))
        loop.watch(server, READ, lambda events: self._handle(events, self.down, self.up))

    def _handle(self, events: int, outgoing: _Way, incoming: _Way) -> None:
        """Something is to be done at one side: ``outgoing`` is what it sends, ``incoming`` what it gets."""
        try:
            if events & (READ | BROKEN):
                if events & BROKEN and (outgoing.ended or outgoing.unsent):
                    # It can neither say nor take any more: what comes from the other side has nowhere to go.
                    raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
                outgoing.pump()
            if events & WRITE:
                incoming.pump()
        except OSError:
            self._close()
            return
        if self.up.finished and self.down.finished:
            self._close()
        else:
            self._set(self.client, self.up, self.down)
            self._set(self.server, self.down, self.up)

    def _set(self, side: socket.socket, outgoing: _Way, incoming: _Way) -> None:
        wanted = (0 if outgoing.ended or outgoing.unsent else READ) | (WRITE if incoming.unsent else 0)
        if self._events[side] != wanted:
            self._events[side] = wanted
            self.loop.change(side, wanted)

    def _close(self) -> None:
        for side in (self.client, self.server):
            self.loop.forget(side)
            side.close()
        self.over()
