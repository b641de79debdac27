"""Netlink messages (RFC 3549, netlink(7)): build them, send many at once, read the answers.

Our own encoder, because bulk work needs it: a lab of 100 Pods is a few hundred messages, sent in a handful of system
calls, with the kernel's verdict on each one of them kept (see ``bench/``).
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

NETLINK_ROUTE = 0
NETLINK_NETFILTER = 12
NETLINK_GENERIC = 16

NLM_F_REQUEST = 0x1
NLM_F_ACK = 0x4
NLM_F_ECHO = 0x8
NLM_F_DUMP = 0x300
NLM_F_REPLACE = 0x100
NLM_F_EXCL = 0x200
NLM_F_CREATE = 0x400
NLM_F_APPEND = 0x800

NLMSG_ERROR = 2
NLMSG_DONE = 3
NLA_F_NESTED = 0x8000
NLA_TYPE_MASK = 0x3FFF

SOL_NETLINK = 270
NETLINK_ADD_MEMBERSHIP = 1
NETLINK_DROP_MEMBERSHIP = 2
NETLINK_EXT_ACK = 11
NETLINK_CAP_ACK = 10
_NLM_F_CAPPED = 0x100
_NLM_F_ACK_TLVS = 0x200
_NLMSGERR_ATTR_MSG = 1

_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_SEND_LIMIT = 48 * 1024
_RECEIVE_SIZE = 256 * 1024


class Received(NamedTuple):
    """One message from the kernel: its type, flags, sequence number and what follows the header."""

    type: int
    flags: int
    sequence: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Request:
    """One message to the kernel; ``purpose`` is what an error message says was being done."""

    type: int
    flags: int
    body: bytes
    purpose: str


class NetlinkError(OSError):
    """The kernel refused a request: errno, what was asked, and the kernel's own words where it gave some."""

    def __init__(self, code: int, purpose: str, words: str) -> None:
        super().__init__(code, f"{purpose}: {os.strerror(code)}{f' ({words})' if words else ''}")
        self.purpose = purpose


def attribute(kind: int, value: bytes) -> bytes:
    """One attribute (TLV), padded to four bytes."""
    length = 4 + len(value)
    return _ATTRIBUTE.pack(length, kind) + value + b"\0" * (-length % 4)


def nested(kind: int, *parts: bytes) -> bytes:
    """An attribute that holds attributes."""
    return attribute(kind | NLA_F_NESTED, b"".join(parts))


def text(kind: int, value: str) -> bytes:
    return attribute(kind, value.encode() + b"\0")


def u8(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=B", value))


def u16(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=H", value))


def u32(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=I", value))


def be16(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("!H", value))


def be32(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("!I", value))


def attributes(data: bytes | memoryview) -> Iterator[tuple[int, bytes]]:
    """The attributes in ``data`` as (type without flags, value)."""
    data = bytes(data)
    offset, end = 0, len(data)
    while offset + 4 <= end:
        length, kind = _ATTRIBUTE.unpack_from(data, offset)
        if length < 4 or offset + length > end:
            raise ValueError(f"netlink attribute of length {length} at {offset} of {end}")
        yield kind & NLA_TYPE_MASK, data[offset + 4 : offset + length]
        offset += (length + 3) & ~3


def messages(data: bytes) -> Iterator[Received]:
    """The messages in what one receive call returned."""
    offset, end = 0, len(data)
    while offset + 16 <= end:
        length, kind, flags, sequence, _ = _HEADER.unpack_from(data, offset)
        if length < 16 or offset + length > end:
            raise ValueError(f"netlink message of length {length} at {offset} of {end}")
        yield Received(kind, flags, sequence, data[offset + 16 : offset + length])
        offset += (length + 3) & ~3


def pack(kind: int, flags: int, sequence: int, body: bytes) -> bytes:
    """A message with its header; bodies are padded by their attributes already."""
    return _HEADER.pack(16 + len(body), kind, flags, sequence, 0) + body


class NetlinkSocket:
    """A socket in the network namespace that the thread is in when it is made.

    Blocking use is for requests whose answer the kernel has ready at once; subscriptions are read without blocking.
    """

    def __init__(self, protocol: int, groups: Iterable[int] = (), receive_buffer: int | None = None) -> None:
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        self.socket.setsockopt(SOL_NETLINK, NETLINK_EXT_ACK, 1)
        self.socket.setsockopt(SOL_NETLINK, NETLINK_CAP_ACK, 1)
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.bind((0, 0))
        for group in groups:
            self.subscribe(group)
        self._sequence = 0

    def subscribe(self, group: int) -> None:
        """Be sent the events of a group from now on."""
        self.socket.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, group)

    def unsubscribe(self, group: int) -> None:
        """Be sent no more events of a group; those that wait to be read stay."""
        self.socket.setsockopt(SOL_NETLINK, NETLINK_DROP_MEMBERSHIP, group)

    def fileno(self) -> int:
        return self.socket.fileno()

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> NetlinkSocket:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, requests: Iterable[Request]) -> None:
        """Send all requests in as few system calls as possible; raise the first :class:`NetlinkError`.

        The kernel works through a batch in order and goes on after an error, so everything else is done all the same.
        """
        batch: list[Request] = []
        size = 0
        for request in requests:
            batch.append(request)
            size += 16 + len(request.body)
            if size >= _SEND_LIMIT:
                self._send(batch)
                batch, size = [], 0
        if batch:
            self._send(batch)

    def transaction(self, begin: Request, requests: list[Request], end: Request) -> None:
        """Send one nfnetlink batch: all of ``requests`` take effect at once, or none of them does."""
        self._send(requests, before=[begin], after=[end])

    def _send(self, requests: list[Request], before: Sequence[Request] = (), after: Sequence[Request] = ()) -> None:
        """One send call; the last of ``requests`` asks for an acknowledgement, errors come unasked."""
        purposes: dict[int, str] = {}
        parts: list[bytes] = []
        acknowledged = 0
        for request in (*before, *requests, *after):
            self._sequence += 1
            purposes[self._sequence] = request.purpose
            flags = request.flags | NLM_F_REQUEST
            if request is requests[-1]:
                flags |= NLM_F_ACK
                acknowledged = self._sequence
            parts.append(pack(request.type, flags, self._sequence, request.body))
        self.socket.send(b"".join(parts))
        first_error: NetlinkError | None = None
        while True:
            for message in messages(self.socket.recv(_RECEIVE_SIZE)):
                if message.type != NLMSG_ERROR or message.sequence not in purposes:
                    continue
                code = -struct.unpack_from("=i", message.body)[0]
                if code and first_error is None:
                    first_error = NetlinkError(code, purposes[message.sequence], _words(message))
                if message.sequence == acknowledged:
                    if first_error is not None:
                        raise first_error
                    return

    def exchange(self, kind: int, flags: int, body: bytes, purpose: str) -> list[Received]:
        """Send one request and return all that the kernel answers (a dump, an echo, or one object)."""
        self._sequence += 1
        wanted_flags = flags | NLM_F_REQUEST | (0 if flags & NLM_F_DUMP == NLM_F_DUMP else NLM_F_ACK)
        self.socket.send(pack(kind, wanted_flags, self._sequence, body))
        answers: list[Received] = []
        while True:
            for message in messages(self.socket.recv(_RECEIVE_SIZE)):
                if message.sequence != self._sequence:
                    continue
                if message.type == NLMSG_ERROR:
                    code = -struct.unpack_from("=i", message.body)[0]
                    if code:
                        raise NetlinkError(code, purpose, _words(message))
                    return answers
                if message.type == NLMSG_DONE:
                    return answers
                answers.append(message)


def _words(message: Received) -> str:
    """The kernel's own explanation in an extended acknowledgement, or nothing."""
    if not message.flags & _NLM_F_ACK_TLVS:
        return ""
    offset = 4 + 16
    if not message.flags & _NLM_F_CAPPED:
        inner = struct.unpack_from("=I", message.body, 4)[0]
        offset = 4 + ((inner + 3) & ~3)
    for kind, value in attributes(message.body[offset:]):
        if kind == _NLMSGERR_ATTR_MSG:
            return value.rstrip(b"\0").decode(errors="replace")
    return ""
