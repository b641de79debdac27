"""All sockets of a proxy in mode userspace: a listener for each Service port, and held ports of the node."""

from __future__ import annotations

import errno
import random
import resource
import socket
from collections.abc import Callable, Sequence

from netlab.model.records import ProxyConnection
from netlab.node.eventloop import EventLoop
from netlab.node.userspace.reporting import Reporter
from netlab.node.userspace.tcp import TcpPortal
from netlab.node.userspace.udp import UdpPortal
from netlab.proxy.service_ports import ServicePortName
from netlab.proxy.userspace.balancer import Balancer

_BACKLOG = 4096
_DESCRIPTORS = 64_000


def raise_descriptor_limit() -> None:
    """As many open sockets as the system allows, up to what the real one asks for: each connection needs two."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


class UserspaceSockets:
    """Implements :class:`netlab.proxy.userspace.proxier.Sockets`, in the network namespace that the process is in.

    ``place``: the node, in the ids of records; ``ports``: first and last port for listeners (portRange), None for any
    free one; ``udp_idle_s``: udpIdleTimeout.
    """

    def __init__(
        self,
        loop: EventLoop,
        place: str,
        listen_ip: str,
        *,
        report: Callable[[ProxyConnection], None],
        ports: tuple[int, int] | None = None,
        udp_idle_s: float = 0.25,
    ) -> None:
        self.loop = loop
        self.listen_ip = listen_ip
        self.reporter = Reporter(place, report)
        self.ports = ports
        self.udp_idle_s = udp_idle_s
        self._random = random.Random()
        self._balancers: dict[ServicePortName, Balancer] = {}
        self._portals: dict[ServicePortName, TcpPortal | UdpPortal] = {}
        self._held: dict[tuple[str | None, int, str], socket.socket] = {}

    def open(self, name: ServicePortName, affinity_seconds: int | None) -> int:
        balancer = self._balancer(name)
        balancer.affinity_seconds = affinity_seconds
        opened = self._listener(name.protocol)
        if name.protocol == "TCP":
            self._portals[name] = TcpPortal(self.loop, name, opened, balancer, self.reporter)
        else:
            self._portals[name] = UdpPortal(self.loop, name, opened, balancer, self.reporter, self.udp_idle_s)
        return int(opened.getsockname()[1])

    def close(self, name: ServicePortName) -> None:
        portal = self._portals.pop(name, None)
        if portal is not None:
            portal.close()

    def forget(self, name: ServicePortName) -> None:
        self._balancers.pop(name, None)

    def set_endpoints(self, name: ServicePortName, endpoints: Sequence[str]) -> None:
        self._balancer(name).set_endpoints(endpoints)

    def claim(self, ip: str | None, port: int, protocol: str) -> None:
        # Everything for the port is led elsewhere before it gets here; the socket only keeps others from it.
        self._held[ip, port, protocol] = bound(protocol, ip or self._everywhere(), port)

    def release(self, ip: str | None, port: int, protocol: str) -> None:
        self._held.pop((ip, port, protocol)).close()

    def sweep(self) -> None:
        for balancer in self._balancers.values():
            balancer.sweep()

    def _everywhere(self) -> str:
        return "::" if ":" in self.listen_ip else "0.0.0.0"

    def _balancer(self, name: ServicePortName) -> Balancer:
        return self._balancers.setdefault(name, Balancer(clock=self.loop.clock, shuffle=self._random.shuffle))

    def _listener(self, protocol: str) -> socket.socket:
        """A socket on a port of the range that is free, chosen at random. Raises OSError where there is none."""
        if self.ports is None:
            return bound(protocol, self.listen_ip, 0)
        first, last = self.ports
        for port in self._random.sample(range(first, last + 1), last - first + 1):
            try:
                return bound(protocol, self.listen_ip, port)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
        raise OSError(errno.EADDRINUSE, f"no free port in {first}-{last}")


def bound(protocol: str, ip: str, port: int) -> socket.socket:
    """A socket that does not block, bound, and listening where the protocol has that. Raises OSError."""
    kind = socket.SOCK_STREAM if protocol == "TCP" else socket.SOCK_DGRAM
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    made = socket.socket(family, kind | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if protocol == "TCP":
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((ip, port))
        if protocol == "TCP":
            made.listen(_BACKLOG)
    except OSError:
        made.close()
        raise
    return made
