"""A stand-in for a Pod's containers: answers on the Pod's ports with who it is and what address it saw.

TCP speaks HTTP/1.1 to whoever speaks it (any method and path; the answer is JSON and says what was asked), and sends
everything else straight back. UDP sends each datagram back, followed by a line of JSON. It says of itself that it is a
stand-in.

One thread, one epoll, no asyncio: a lab has many of these, and each costs what its fork touches.
"""

from __future__ import annotations

import errno
import select
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from netlab.model import jsonrpc
from netlab.model.walk import endpoint_text

_CHUNK = 64 * 1024
_LIMIT = 1024 * 1024
_METHODS = (b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"TRACE", b"CONNECT")
_BACKLOG = 1024


class StandIn:
    """The servers of one Pod. ``identity`` is what every answer begins with (pod, node, …)."""

    def __init__(self, identity: Mapping[str, Any], addresses: Sequence[str]) -> None:
        self.identity = dict(identity)
        self.addresses = addresses
        self.epoll = select.epoll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._sockets: dict[int, list[socket.socket]] = {}

    def watch(self, connection: socket.socket, handler: Callable[[int], None]) -> None:
        """Call ``handler`` with the events of a socket."""
        self._handlers[connection.fileno()] = handler
        self.epoll.register(connection, select.EPOLLIN)

    def forget(self, connection: socket.socket) -> None:
        self._handlers.pop(connection.fileno(), None)
        self.epoll.unregister(connection)
        connection.close()

    def turn(self) -> None:
        """Wait for something to do, and do it."""
        for descriptor, events in self.epoll.poll():
            handler = self._handlers.get(descriptor)
            if handler is not None:
                handler(events)

    def listen(self, ports: Sequence[int]) -> dict[str, str]:
        """Serve exactly these ports, TCP and UDP; returns the kernel's name for what went wrong, by port."""
        failed: dict[str, str] = {}
        for port in set(self._sockets) - set(ports):
            for each in self._sockets.pop(port):
                self.forget(each)
        for port in ports:
            if port in self._sockets:
                continue
            opened: list[socket.socket] = []
            try:
                opened.append(_listener(port))
                opened += [_receiver(address, port) for address in self.addresses]
            except OSError as error:
                failed[str(port)] = errno.errorcode.get(error.errno or 0, "EIO")
                for each in opened:
                    each.close()
                continue
            self._sockets[port] = opened
            self.watch(opened[0], lambda _, listener=opened[0]: self._accept(listener))  # type: ignore[misc]
            for receiver in opened[1:]:
                self.watch(receiver, lambda _, receiver=receiver: self._receive(receiver))  # type: ignore[misc]
        return failed

    def answer(self, client: tuple[Any, ...], server: tuple[Any, ...], **more: Any) -> bytes:
        """One line of JSON."""
        addresses = {"client": address_text(client), "server": address_text(server)}
        return msgspec.json.encode({**self.identity, **addresses, **more}) + b"\n"

    def _receive(self, receiver: socket.socket) -> None:
        try:
            data, client = receiver.recvfrom(_CHUNK)
            answer = data + b"\n" + self.answer(client, receiver.getsockname())
            receiver.sendto(answer, client)
        except OSError:
            # The client has gone (ECONNREFUSED of an answer before), or the answer does not fit a datagram.
            return

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        connection.setblocking(False)
        state = _Connection(self, connection)
        self.watch(connection, state.handle)


class _Connection:
    """One TCP connection: reads until it knows what is asked, writes, closes; or echoes for as long as it lasts."""

    def __init__(self, stand_in: StandIn, connection: socket.socket) -> None:
        self.stand_in = stand_in
        self.connection = connection
        self.read = b""
        self.unsent = b""
        self.is_http: bool | None = None
        self.finished = False

    def handle(self, events: int) -> None:
        try:
            if events & select.EPOLLOUT:
                self._send()
            elif events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
                self._take(self.connection.recv(_CHUNK))
        except BlockingIOError:
            return
        except OSError:
            self.stand_in.forget(self.connection)

    def _take(self, data: bytes) -> None:
        if not data:
            self.stand_in.forget(self.connection)
            return
        self.read += data
        if self.is_http is None:
            self.is_http = self.read.split(b" ", 1)[0] in _METHODS
        if not self.is_http:
            self.unsent, self.read = self.read, b""
        elif (response := self._http_response()) is not None:
            self.unsent, self.finished = response, True
        elif len(self.read) > _LIMIT:
            self.stand_in.forget(self.connection)
            return
        if self.unsent:
            self._send()

    def _send(self) -> None:
        try:
            sent = self.connection.send(self.unsent)
        except BlockingIOError:
            sent = 0
        self.unsent = self.unsent[sent:]
        if not self.unsent and self.finished:
            self.connection.shutdown(socket.SHUT_WR)
            self.finished = False
        wanted = select.EPOLLOUT if self.unsent else select.EPOLLIN
        self.stand_in.epoll.modify(self.connection, wanted)

    def _http_response(self) -> bytes | None:
        """The response, once the whole request is there."""
        head, found, body = self.read.partition(b"\r\n\r\n")
        if not found:
            return None
        lines = head.decode("latin-1").split("\r\n")
        method, path, *_ = [*lines[0].split(" "), "", ""]
        pairs = (line.partition(":") for line in lines[1:])
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        length = headers.get("content-length", "0")
        if len(body) < (int(length) if length.isdigit() else 0):
            return None
        answer = self.stand_in.answer(
            self.connection.getpeername(),
            self.connection.getsockname(),
            method=method,
            path=path,
            headers=headers,
            body=body.decode("utf-8", "replace"),
        )
        response = [
            "HTTP/1.1 200 OK",
            "Server: kube-netlab-stand-in",
            "Content-Type: application/json",
            f"Content-Length: {len(answer)}",
            "Connection: close",
        ]
        if "x-netlab-probe" in headers:
            response.append(f"X-Netlab-Probe: {headers['x-netlab-probe']}")
        return "\r\n".join([*response, "", ""]).encode("latin-1") + (b"" if method == "HEAD" else answer)


def address_text(address: tuple[Any, ...]) -> str:
    """A socket address as "A:P"; IPv4 that came in by an IPv6 socket is written as IPv4."""
    host = str(address[0]).partition("%")[0]
    return endpoint_text(host.removeprefix("::ffff:") if "." in host else host, int(address[1]))


def _listener(port: int) -> socket.socket:
    """For both families; for IPv4 alone where the kernel has no IPv6."""
    family = socket.AF_INET6 if socket.has_ipv6 and socket.has_dualstack_ipv6() else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(("", port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def _receiver(address: str, port: int) -> socket.socket:
    """A socket for one address: an answer has to come from the very address that was asked."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    receiver = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    try:
        receiver.bind((address, port))
        receiver.setblocking(False)
    except OSError:
        receiver.close()
        raise
    return receiver


def serve(identity: Mapping[str, Any], addresses: Sequence[str], control: socket.socket) -> None:
    """Do what the control connection says, until it closes. Its requests: "listen" with {"ports": [NUMBER…]}."""
    stand_in = StandIn(identity, addresses)
    lines = jsonrpc.LineBuffer()
    open_ = True

    def obey(_: int) -> None:
        nonlocal open_
        try:
            open_ = _obey(stand_in, control, lines)
        except ConnectionError:
            open_ = False

    stand_in.watch(control, obey)
    while open_:
        stand_in.turn()


def _obey(stand_in: StandIn, control: socket.socket, lines: jsonrpc.LineBuffer) -> bool:
    """Do what has come; False at the end. Raises ConnectionError where nobody hears the answer."""
    data = control.recv(_CHUNK)
    for line in lines.feed(data):
        message = jsonrpc.decode(line)
        failed = stand_in.listen([int(port) for port in message.params["ports"]])
        if message.id is not None:
            control.sendall(jsonrpc.answer(message.id, {"failed": failed}))
    return bool(data)
