"""Probes: a real connection from a socket, or a crafted packet, each with a mark that its packets are known by.

Sockets are made by the caller's choice of network namespace; waiting is asyncio's.
"""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import socket
import struct
import time
from abc import ABC, abstractmethod

from netlab.kernel.nftables import PacketMatch
from netlab.model.errors import BadInput
from netlab.model.text import Message
from netlab.model.walk import endpoint_text
from netlab.packets.headers import ICMP, ICMPV6, PROTOCOL_NAMES, SCTP, TCP, UDP
from netlab.packets.observation import Mark, Outcome, SocketResult
from netlab.packets.targets import Target

_TCP_REPAIR, _TCP_REPAIR_QUEUE, _TCP_QUEUE_SEQ, _TCP_SEND_QUEUE = 19, 20, 21, 2
_IP_RECVERR, _IPV6_RECVERR = 11, 25
_RESPONSE_LIMIT = 1024 * 1024
_REFUSED = (errno.ECONNREFUSED, errno.ECONNRESET)
_UNREACHABLE = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN)
CANNOT_SEND = Message(
    "probe.cannot-send",
    en="the packet to {target} could not be sent: {what}",
    zh="发往 {target} 的数据包无法发送：{what}",
)


class Probe(ABC):
    """One probe. It is made in the namespace that it is sent from, and sends nothing before :meth:`run`."""

    mark: Mark
    target: Target

    @property
    def protocol(self) -> str:
        """The protocol's name."""
        return PROTOCOL_NAMES.get(self.mark.protocol, str(self.mark.protocol))

    @abstractmethod
    async def run(self, timeout: float) -> Outcome:
        """Send, and wait for what comes of it, at most ``timeout`` seconds."""

    @abstractmethod
    def close(self) -> None:
        """Give back what the probe holds."""

    def matches(self) -> list[PacketMatch]:
        """The packets to trace: those with the mark, answers to them, and ICMP errors that quote them."""
        return trace_matches(self.mark, self.target.family)

    def drops(self) -> list[bytes]:
        """Packets that are not to leave the sender while the probe runs (nftables expressions)."""
        return []


def trace_matches(mark: Mark, family: int) -> list[PacketMatch]:
    """What nftables has to compare to find a mark's packets, wherever NAT has put them.

    An ICMP error quotes an IP header without options (20 or 40 bytes) and the first bytes behind it.
    """
    inner = 8 + (20 if family == 4 else 40)
    icmp = ICMP if family == 4 else ICMPV6
    if mark.protocol == TCP and mark.sequence is not None:
        number = struct.pack("!I", mark.sequence)
        answers = [PacketMatch(family, TCP, 8, struct.pack("!I", each)) for each in mark.expected]
        if mark.acknowledged is not None:
            answers.append(PacketMatch(family, TCP, 4, struct.pack("!I", mark.acknowledged)))
        return [PacketMatch(family, TCP, 4, number), *answers, PacketMatch(family, icmp, inner + 4, number)]
    if mark.echo is not None:
        number = mark.echo.to_bytes(2)
        return [PacketMatch(family, mark.protocol, 6, number), PacketMatch(family, icmp, inner + 6, number)]
    if not mark.payload:
        start, length = (4, 2) if family == 4 else (1, 3)
        number = (mark.identification or 0).to_bytes(length)
        # Of an answer nothing is known that NAT would keep: then all of the protocol are traced, and picked from later.
        wanted = PacketMatch(family, mark.protocol, start, number, network=True)
        if mark.answers_by_ports:
            wanted = PacketMatch(family, mark.protocol, 0, b"")
        return [wanted, PacketMatch(family, icmp, 8 + start, number)]
    begin = mark.payload[:12]
    matches = [
        PacketMatch(family, mark.protocol, mark.payload_offset, begin),
        PacketMatch(family, icmp, inner + mark.payload_offset, begin),
    ]
    if mark.protocol == SCTP and len(begin) >= 8:
        # The answer carries the tag that the INIT asked for as its verification tag.
        matches.append(PacketMatch(family, SCTP, 4, begin[4:8]))
    return matches


def new_payload_mark() -> bytes:
    """Twelve bytes that nothing else carries: as many as a trace record shows of a datagram."""
    return b"nl" + secrets.token_hex(5).encode()


def result_of(error: OSError, target: Target) -> SocketResult:
    """What an error of a socket says about the probe. Raises :class:`BadInput` where it says that there is none."""
    if error.errno in _REFUSED:
        return "refused"
    if error.errno in _UNREACHABLE:
        return "unreachable"
    if error.errno == errno.EPERM:
        # A local hook dropped the packet.
        return "timeout"
    raise BadInput(CANNOT_SEND(target=target.text, what=error.strerror or error)) from error


def socket_text(connection: socket.socket) -> str:
    """A socket's own address as text."""
    name = connection.getsockname()
    return endpoint_text(str(name[0]).partition("%")[0], int(name[1]))


class TcpProbe(Probe):
    """A connection, and an HTTP GET over it that names the probe.

    The kernel lets a socket choose its first sequence number while in repair mode (tcp(7), as CRIU does): so the SYN is
    known before it is sent, and known again wherever it shows up.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.mark = Mark(TCP, sequence=secrets.randbits(32) or 1)
        family = socket.AF_INET if target.family == 4 else socket.AF_INET6
        self._socket = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        for option, value in (
            (_TCP_REPAIR, 1),
            (_TCP_REPAIR_QUEUE, _TCP_SEND_QUEUE),
            (_TCP_QUEUE_SEQ, self.mark.sequence or 1),
            (_TCP_REPAIR, 0),
        ):
            self._socket.setsockopt(socket.IPPROTO_TCP, option, struct.pack("=I", value))

    async def run(self, timeout: float) -> Outcome:
        loop = asyncio.get_running_loop()
        begin = time.perf_counter()
        result: SocketResult = "timeout"
        error_text = None
        source = ""
        try:
            code = self._socket.connect_ex((self.target.address, self.target.port))
            source = socket_text(self._socket)
            if code not in (0, errno.EINPROGRESS):
                raise OSError(code, os.strerror(code))
            async with asyncio.timeout(timeout):
                await _writable(self._socket)
                code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if code:
                    raise OSError(code, os.strerror(code))
                source = socket_text(self._socket)
                result = "answered"
                await self._request(loop)
        except TimeoutError:
            # The connection itself may have come about: then the endpoint answered, if not with HTTP.
            error_text = "timeout"
        except OSError as error:
            if result != "answered":
                result = result_of(error, self.target)
            error_text = error.strerror
        duration = (time.perf_counter() - begin) * 1e6
        return Outcome(result, source, self.target.text, duration, error_text)

    async def _request(self, loop: asyncio.AbstractEventLoop) -> None:
        request = (
            f"GET / HTTP/1.1\r\nHost: {self.target.text}\r\nUser-Agent: kube-netlab\r\n"
            f"X-Netlab-Probe: {self.mark.sequence:08x}\r\nConnection: close\r\n\r\n"
        )
        await loop.sock_sendall(self._socket, request.encode())
        received = 0
        while received < _RESPONSE_LIMIT:
            data = await loop.sock_recv(self._socket, 65536)
            if not data:
                return
            received += len(data)

    def close(self) -> None:
        self._socket.close()


class UdpProbe(Probe):
    """One datagram whose payload begins with the mark, from a connected socket: only then does the kernel tell about
    ICMP errors (udp(7))."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.mark = Mark(UDP, payload=new_payload_mark())
        family = socket.AF_INET if target.family == 4 else socket.AF_INET6
        self._socket = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)

    async def run(self, timeout: float) -> Outcome:
        loop = asyncio.get_running_loop()
        begin = time.perf_counter()
        result: SocketResult = "timeout"
        error_text = None
        source = ""
        try:
            self._socket.connect((self.target.address, self.target.port))
            source = socket_text(self._socket)
            self._socket.send(self.mark.payload + b" kube-netlab")
            async with asyncio.timeout(timeout):
                await loop.sock_recv(self._socket, 65536)
            result = "answered"
        except TimeoutError:
            error_text = "timeout"
        except OSError as error:
            result, error_text = result_of(error, self.target), error.strerror
        duration = (time.perf_counter() - begin) * 1e6
        return Outcome(result, source, self.target.text, duration, error_text)

    def close(self) -> None:
        self._socket.close()


class EchoProbe(Probe):
    """One ICMP echo request whose data begins with the mark."""

    def __init__(self, target: Target) -> None:
        self.target = Target(target.address, None)
        self._version = target.family
        protocol = ICMP if self._version == 4 else ICMPV6
        self.mark = Mark(protocol, payload=new_payload_mark())
        family = socket.AF_INET if self._version == 4 else socket.AF_INET6
        kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
        self._socket = socket.socket(family, kind, protocol)
        if self._version == 4:
            self._socket.setsockopt(socket.IPPROTO_IP, _IP_RECVERR, 1)
        else:
            self._socket.setsockopt(socket.IPPROTO_IPV6, _IPV6_RECVERR, 1)

    async def run(self, timeout: float) -> Outcome:
        begin = time.perf_counter()
        result: SocketResult = "timeout"
        error_text = None
        source = ""
        try:
            self._socket.connect((self.target.address, 0))
            source = str(self._socket.getsockname()[0])
            self._socket.send(self._request())
            async with asyncio.timeout(timeout):
                while not self._is_answer(await self._receive()):
                    pass
            result = "answered"
        except TimeoutError:
            error_text = "timeout"
        except OSError as error:
            result, error_text = result_of(error, self.target), error.strerror
        duration = (time.perf_counter() - begin) * 1e6
        return Outcome(result, source, self.target.address, duration, error_text)

    async def _receive(self) -> bytes:
        return await asyncio.get_running_loop().sock_recv(self._socket, 65536)

    def _request(self) -> bytes:
        kind = 8 if self._version == 4 else 128
        body = struct.pack("!HH", secrets.randbits(16), 1) + self.mark.payload + b" kube-netlab"
        # The kernel fills the checksum of ICMPv6 in, not that of ICMP.
        checksum = internet_checksum(struct.pack("!BBH", kind, 0, 0) + body) if self._version == 4 else 0
        return struct.pack("!BBH", kind, 0, checksum) + body

    def _is_answer(self, data: bytes) -> bool:
        body = data[(data[0] & 0xF) * 4 :] if self._version == 4 else data
        kind = 0 if self._version == 4 else 129
        return len(body) >= 8 and body[0] == kind and body[8:].startswith(self.mark.payload)

    def close(self) -> None:
        self._socket.close()


def internet_checksum(data: bytes) -> int:
    """RFC 1071."""
    if len(data) % 2:
        data += b"\0"
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


async def _writable(connection: socket.socket) -> None:
    """Until a connect is done, one way or the other."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    loop.add_writer(connection, done.set)
    try:
        await done.wait()
    finally:
        loop.remove_writer(connection)
