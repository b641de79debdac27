"""A load balancer outside of the cluster that ends connections itself: it asks nodes how they are, and passes on.

The address of a Service is its own (ipMode Proxy); connections go on to the nodePort of each healthy node in turn, from
an address of the box, so that Pods do not see the client's.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from netlab.model.balancer import Frontend
from netlab.model.records import ProxyConnection
from netlab.model.text import Message, Text
from netlab.node.eventloop import READ, WRITE, EventLoop, Timer
from netlab.node.userspace.reporting import Reporter
from netlab.node.userspace.sockets import bound
from netlab.node.userspace.tcp import TcpPortal
from netlab.node.userspace.udp import UdpPortal
from netlab.proxy.family import join_host_port
from netlab.proxy.service_ports import ServicePortName
from netlab.proxy.userspace.balancer import Balancer

CHECK_S, CHECK_TIMEOUT_S = 2.0, 1.0
"""How often a node is asked, and how long it has to answer."""
RETRY_S = 0.25
"""After how long a node that is not well is asked again: one that comes up is not to wait."""
UDP_IDLE_S = 30.0

CANNOT_LISTEN = Message(
    "balancer.cannot-listen",
    en="the load balancer cannot listen on {address} ({protocol}): {error}",
    zh="负载均衡器无法在 {address} ({protocol}) 上监听：{error}",
)

CheckKey = tuple[str, int, str]
"""A node's address, the port and the path that it is asked at."""


class BalancerBox:
    """All frontends of one box, in the network namespace that the thread is in; their addresses have to be there."""

    def __init__(
        self,
        loop: EventLoop,
        place: str,
        *,
        report: Callable[[ProxyConnection], None],
        complain: Callable[[Text], None],
        check_s: float = CHECK_S,
    ) -> None:
        self.loop = loop
        self.reporter = Reporter(place, report)
        self.complain = complain
        self.check_s = check_s
        self.healthy: set[CheckKey] = set()
        self._checks: dict[CheckKey, _Check] = {}
        self._open: dict[tuple[str, int, str], _OpenFrontend] = {}

    def set_frontends(self, frontends: Iterable[Frontend]) -> None:
        """Serve exactly these. Connections that there are go on."""
        wanted = {(each.ip, each.port, each.protocol): each for each in frontends}
        for key in [key for key in self._open if key not in wanted]:
            self._open.pop(key).portal.close()
        for key, frontend in wanted.items():
            known = self._open.get(key)
            if known is not None and known.frontend.service == frontend.service:
                known.frontend = frontend
                continue
            if known is not None:
                self._open.pop(key).portal.close()
            self._listen(key, frontend)
        self._set_checks({check for each in wanted.values() for check in _checks_of(each)})
        self._spread()

    def close(self) -> None:
        self.set_frontends(())

    def _listen(self, key: tuple[str, int, str], frontend: Frontend) -> None:
        name = ServicePortName(frontend.namespace, frontend.service, frontend.port_name, frontend.protocol)
        balancer = Balancer(clock=self.loop.clock)
        try:
            opened = bound(frontend.protocol, frontend.ip, frontend.port)
        except OSError as error:
            address = join_host_port(frontend.ip, frontend.port)
            self.complain(CANNOT_LISTEN(address=address, protocol=frontend.protocol, error=error.strerror))
            return
        portal: TcpPortal | UdpPortal
        if frontend.protocol == "TCP":
            portal = TcpPortal(self.loop, name, opened, balancer, self.reporter)
        else:
            portal = UdpPortal(self.loop, name, opened, balancer, self.reporter, UDP_IDLE_S)
        self._open[key] = _OpenFrontend(frontend, balancer, portal)

    def _set_checks(self, wanted: set[CheckKey]) -> None:
        for key in [key for key in self._checks if key not in wanted]:
            self._checks.pop(key).stop()
            self.healthy.discard(key)
        for key in sorted(wanted - set(self._checks)):
            self._checks[key] = _Check(self.loop, key, self.check_s, self._told)

    def _told(self, key: CheckKey, healthy: bool) -> None:
        if healthy != (key in self.healthy):
            (self.healthy.add if healthy else self.healthy.discard)(key)
            self._spread()

    def _spread(self) -> None:
        """Give every frontend the nodes that are healthy."""
        for each in self._open.values():
            checks = zip(each.frontend.backends, _checks_of(each.frontend), strict=True)
            each.balancer.set_endpoints(
                [join_host_port(ip, port) for (ip, port), check in checks if check in self.healthy]
            )


@dataclass(slots=True)
class _OpenFrontend:
    frontend: Frontend
    balancer: Balancer
    portal: TcpPortal | UdpPortal


def _checks_of(frontend: Frontend) -> list[CheckKey]:
    return [(ip, frontend.check_port, frontend.check_path) for ip, _ in frontend.backends]


@dataclass(slots=True)
class _Check:
    """Asks one node again and again; any answer but 200 within the time is none."""

    loop: EventLoop
    key: CheckKey
    every_s: float
    tell: Callable[[CheckKey, bool], None]
    _socket: socket.socket | None = None
    _answer: bytes = b""
    _next: Timer = field(init=False)

    def __post_init__(self) -> None:
        self._next = self.loop.call_later(0.0, self._ask)

    def stop(self) -> None:
        self._next.cancel()
        self._hang_up()

    def _hang_up(self) -> None:
        if self._socket is not None:
            self.loop.forget(self._socket)
            self._socket.close()
            self._socket = None

    def _ask(self) -> None:
        ip, port, _ = self.key
        family = socket.AF_INET6 if ":" in ip else socket.AF_INET
        self._answer = b""
        self._socket = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        self.loop.watch(self._socket, WRITE, self._handle)
        self._next = self.loop.call_later(CHECK_TIMEOUT_S, lambda: self._finish(False))
        status = self._socket.connect_ex((ip, port))
        if status not in (0, errno.EINPROGRESS):
            self._finish(False)

    def _handle(self, events: int) -> None:
        assert self._socket is not None
        ip, port, path = self.key
        try:
            if events & WRITE:
                request = f"GET {path} HTTP/1.1\r\nHost: {join_host_port(ip, port)}\r\nConnection: close\r\n\r\n"
                self._socket.sendall(request.encode())
                self.loop.change(self._socket, READ)
                return
            data = self._socket.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            self._finish(False)
            return
        self._answer += data
        line, found, _ = self._answer.partition(b"\r\n")
        if found or not data:
            words = line.split(b" ")
            self._finish(len(words) > 1 and words[0].startswith(b"HTTP/1.") and words[1] == b"200")

    def _finish(self, healthy: bool) -> None:
        self._hang_up()
        self._next.cancel()
        self._next = self.loop.call_later(self.every_s if healthy else min(self.every_s, RETRY_S), self._ask)
        self.tell(self.key, healthy)
