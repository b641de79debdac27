"""UDP in mode userspace: one socket towards the endpoint for each client, until nothing has come for a while.

Source of behaviour: kubernetes/pkg/proxy/userspace/proxysocket.go (1.25).
"""

from __future__ import annotations

import socket
import struct
from ipaddress import ip_address

from netlab.model.records import Tuple
from netlab.node.eventloop import READ, EventLoop
from netlab.node.userspace.reporting import Address, Reporter, host_of, pair, split_endpoint
from netlab.proxy.service_ports import ServicePortName
from netlab.proxy.userspace.balancer import Balancer

_LARGEST = 4096
"""Bytes of a datagram that get through; the rest of a longer one is lost, as it was."""

_IPV6_RECVPKTINFO, _IPV6_PKTINFO = 49, 50
_IP_PKTINFO = 8
_ANCILLARY = 64

_AT_ONCE = 64
"""Datagrams that one socket may pass on before others have their turn."""


class UdpPortal:
    """The socket of one Service port, and its flows by client."""

    def __init__(
        self,
        loop: EventLoop,
        name: ServicePortName,
        receiver: socket.socket,
        balancer: Balancer,
        reporter: Reporter,
        idle_s: float,
    ) -> None:
        self.loop = loop
        self.name = name
        self.receiver = receiver
        self.balancer = balancer
        self.reporter = reporter
        self.idle_s = idle_s
        self.flows: dict[Address, _Flow] = {}
        if receiver.family == socket.AF_INET:
            receiver.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)
        else:
            receiver.setsockopt(socket.IPPROTO_IPV6, _IPV6_RECVPKTINFO, 1)
        loop.watch(receiver, READ, self._take)

    def close(self) -> None:
        """Take no more datagrams; the flows end, for their answers would have no socket to leave by."""
        self.loop.forget(self.receiver)
        for flow in list(self.flows.values()):
            flow.end()
        self.receiver.close()

    def _take(self, _: int) -> None:
        for _ in range(_AT_ONCE):
            try:
                data, ancillary, _, client = self.receiver.recvmsg(_LARGEST, _ANCILLARY)
            except OSError:
                # Nothing more, or the error of an answer that its client did not want.
                return
            flow = self.flows.get(client) or self._begin(client, ancillary)
            if flow is not None:
                flow.send(data)

    def _begin(self, client: Address, ancillary: list[tuple[int, int, bytes]]) -> _Flow | None:
        own = (_addressed_to(ancillary) or self.receiver.getsockname()[0], self.receiver.getsockname()[1])
        endpoint = self.balancer.next(host_of(client))
        if endpoint is None:
            self.reporter.tell("failed", self.name, pair(client, own), None)
            return None
        host, port = split_endpoint(endpoint)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            server = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        except OSError:
            return None
        if server.connect_ex((host, port)):
            server.close()
            self.reporter.tell("failed", self.name, pair(client, own), None, (endpoint,))
            return None
        accepted, dialled = pair(client, own), pair(server.getsockname(), server.getpeername())
        self.reporter.tell("joined", self.name, accepted, dialled)
        flow = self.flows[client] = _Flow(self, client, server, accepted, dialled)
        return flow


def _addressed_to(ancillary: list[tuple[int, int, bytes]]) -> str | None:
    """The address that a datagram came to: a socket that listens everywhere does not know it (ip(7), ipv6(7))."""
    for level, kind, data in ancillary:
        if (level, kind) == (socket.IPPROTO_IP, _IP_PKTINFO):
            return str(ip_address(struct.unpack_from("=i4s4s", data)[2]))
        if (level, kind) == (socket.IPPROTO_IPV6, _IPV6_PKTINFO):
            return str(ip_address(data[:16]))
    return None


class _Flow:
    """The datagrams of one client. It lives ``idle_s`` from the last one, whichever way that went."""

    def __init__(
        self, portal: UdpPortal, client: Address, server: socket.socket, accepted: Tuple, dialled: Tuple
    ) -> None:
        self.portal = portal
        self.client = client
        self.server = server
        self.accepted = accepted
        self.dialled = dialled
        self.last = portal.loop.clock()
        self.open = True
        portal.loop.watch(server, READ, self._answer)
        self.timer = portal.loop.call_at(self.last + portal.idle_s, self._look)

    def send(self, data: bytes) -> None:
        try:
            self.server.send(data)
        except BlockingIOError:
            return
        except OSError:
            # The endpoint refused the datagram before; its error is read, and ends the flow, in _answer.
            return
        self.last = self.portal.loop.clock()

    def _answer(self, _: int) -> None:
        for _ in range(_AT_ONCE):
            try:
                data = self.server.recv(_LARGEST)
                self.last = self.portal.loop.clock()
                self.portal.receiver.sendto(data, self.client)
            except BlockingIOError:
                return
            except OSError:
                self.end()
                return

    def _look(self) -> None:
        """End where nothing has come for long enough; else look again when that would be."""
        due = self.last + self.portal.idle_s
        if due <= self.portal.loop.clock():
            self.end()
        else:
            self.timer = self.portal.loop.call_at(due, self._look)

    def end(self) -> None:
        if not self.open:
            return
        self.open = False
        self.timer.cancel()
        self.portal.loop.forget(self.server)
        self.server.close()
        del self.portal.flows[self.client]
        self.portal.reporter.tell("ended", self.portal.name, self.accepted, self.dialled)
