"""A small HTTP/1.1 server inside an :class:`EventLoop`, for the few fixed pages that a node's programs serve.

Answers GET and HEAD; keeps connections open as HTTP/1.1 clients expect, up to a limit, beyond which the one that has
been idle for longest goes: a client that says nothing cannot keep others out.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from netlab.node.eventloop import BROKEN, READ, WRITE, EventLoop

_CHUNK = 64 * 1024
_HEAD_LIMIT = 64 * 1024
_MOST_CONNECTIONS = 256
_BACKLOG = 128
TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Response:
    """A whole answer; Content-Length, Date and Connection are added on the way out."""

    status: int
    body: str
    headers: Mapping[str, str] = field(default_factory=dict)


Page = Callable[[], Response]


def plain(body: str, status: int = HTTPStatus.OK) -> Response:
    return Response(status, body, {"Content-Type": TEXT, "X-Content-Type-Options": "nosniff"})


class HttpServer:
    """Pages by path on one or more addresses. The path "" stands for every path that has no page of its own."""

    def __init__(self, loop: EventLoop, pages: Mapping[str, Page]) -> None:
        self.loop = loop
        self.pages = pages
        self._listeners: list[socket.socket] = []
        self._connections: dict[_Connection, None] = {}

    def listen(self, address: str, port: int) -> None:
        """Listen on an address as well; "0.0.0.0", "::" and "" mean all addresses of both families, as in Go.

        Raises OSError.
        """
        listener = open_listener(address, port)
        self._listeners.append(listener)
        self.loop.watch(listener, READ, lambda _: self._accept(listener))

    def close(self) -> None:
        """Stop listening; connections are closed."""
        for listener in self._listeners:
            self.loop.forget(listener)
            listener.close()
        self._listeners.clear()
        for connection in list(self._connections):
            self.drop(connection)

    def answer(self, path: str) -> Response:
        page = self.pages.get(path.partition("?")[0], self.pages.get(""))
        return page() if page is not None else plain("404 page not found\n", HTTPStatus.NOT_FOUND)

    def touch(self, connection: _Connection) -> None:
        """The connection has been used just now."""
        self._connections.pop(connection, None)
        self._connections[connection] = None

    def drop(self, connection: _Connection) -> None:
        if connection in self._connections:
            del self._connections[connection]
            self.loop.forget(connection.socket)
            connection.socket.close()

    def _accept(self, listener: socket.socket) -> None:
        if len(self._connections) >= _MOST_CONNECTIONS:
            self.drop(next(iter(self._connections)))
        try:
            accepted, _ = listener.accept()
        except OSError:
            return
        accepted.setblocking(False)
        connection = _Connection(self, accepted)
        self.touch(connection)
        self.loop.watch(accepted, READ, connection.handle)


class _Connection:
    """One client. Reads a request, sends the answer, and reads on."""

    def __init__(self, server: HttpServer, accepted: socket.socket) -> None:
        self.server = server
        self.socket = accepted
        self.unread = b""
        self.unsent = b""
        self.last = False

    def handle(self, events: int) -> None:
        self.server.touch(self)
        try:
            if events & (READ | BROKEN) and not self.unsent:
                data = self.socket.recv(_CHUNK)
                if not data:
                    self.server.drop(self)
                    return
                self.unread += data
            self._go_on()
        except BlockingIOError:
            return
        except OSError:
            self.server.drop(self)

    def _go_on(self) -> None:
        while True:
            if not self.unsent and not self._take_request():
                break
            try:
                self.unsent = self.unsent[self.socket.send(self.unsent) :]
            except BlockingIOError:
                break
            if not self.unsent and self.last:
                self.server.drop(self)
                return
        self.server.loop.change(self.socket, WRITE if self.unsent else READ)

    def _take_request(self) -> bool:
        """Answer the next whole request of those that have come; False where there is none."""
        head, found, rest = self.unread.partition(b"\r\n\r\n")
        if not found:
            if len(self.unread) > _HEAD_LIMIT:
                self._send("GET", plain("431 Request Header Fields Too Large", 431), last=True)
                return True
            return False
        self.unread = rest
        request, *lines = head.decode("latin-1").split("\r\n")
        words = request.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            self._send("GET", plain("400 Bad Request", HTTPStatus.BAD_REQUEST), last=True)
            return True
        method, path, version = words
        headers = {name.strip().lower(): value.strip().lower() for name, _, value in (x.partition(":") for x in lines)}
        # A body is of no use to any page; what it would take to skip it is not worth having.
        has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        keep = headers.get("connection", "") == "keep-alive" if version == "HTTP/1.0" else True
        last = not keep or has_body or headers.get("connection") == "close"
        self._send(method, self.server.answer(path), last=last)
        return True

    def _send(self, method: str, response: Response, *, last: bool) -> None:
        body = response.body.encode()
        lines = [f"HTTP/1.1 {response.status} {_phrase(response.status)}"]
        lines += [f"{name}: {value}" for name, value in response.headers.items()]
        lines += [f"Date: {http_date(time.time())}", f"Content-Length: {len(body)}"]
        if last:
            lines.append("Connection: close")
        self.last = last
        self.unsent = "\r\n".join([*lines, "", ""]).encode("latin-1") + (b"" if method == "HEAD" else body)


def http_date(seconds: float) -> str:
    """Wall clock as HTTP writes it, in English whatever the locale is (RFC 9110, IMF-fixdate)."""
    now = time.gmtime(seconds)
    day = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[now.tm_wday]
    month = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")[now.tm_mon - 1]
    return f"{day}, {now.tm_mday:02d} {month} {now.tm_year} {time.strftime('%H:%M:%S', now)} GMT"


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


def open_listener(address: str, port: int) -> socket.socket:
    """A listening socket that does not block; for "0.0.0.0", "::" and "" one of both families, where there are two.

    Raises OSError.
    """
    every = address in ("", "0.0.0.0", "::")
    dual = every and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if dual or ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(not dual))
        listener.bind(("" if every else address, port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
