"""Many connections over one line of bytes: the frontends' connections on their way into the guest.

QEMU gives the guest a serial line, which has one reader and no connections; frames make streams of it. Both ends run
this same code. A stream whose socket does not read is cut off, as an engine does with a peer that does not; where the
line is full, nothing is read from any socket until it has room.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import NamedTuple

BACKLOG_LIMIT = 64 * 1024 * 1024
"""Bytes that may wait for a slow socket before its stream is closed."""

_HEADER = struct.Struct("!BII")


class Kind(IntEnum):
    """What a frame says: a new stream (and what for), bytes of it, its end."""

    OPEN = 1
    DATA = 2
    CLOSE = 3


class Frame(NamedTuple):
    kind: Kind
    stream: int
    data: bytes = b""

    def encode(self) -> bytes:
        return _HEADER.pack(self.kind, self.stream, len(self.data)) + self.data


class Decoder:
    """Cuts the line's bytes into frames."""

    def __init__(self) -> None:
        self._unread = bytearray()

    def feed(self, data: bytes) -> Iterable[Frame]:
        """The frames that are complete now. Raises ValueError for what is none."""
        self._unread += data
        begin = 0
        found = []
        while len(self._unread) - begin >= _HEADER.size:
            kind, stream, length = _HEADER.unpack_from(self._unread, begin)
            end = begin + _HEADER.size + length
            if len(self._unread) < end:
                break
            found.append(Frame(Kind(kind), stream, bytes(self._unread[begin + _HEADER.size : end])))
            begin = end
        del self._unread[:begin]
        return found


class Stream(asyncio.Protocol):
    """One connection, from its socket's side: give it to asyncio as the socket's protocol."""

    def __init__(self, line: Line, number: int = 0) -> None:
        self.line = line
        self.number = number
        self.transport: asyncio.Transport | None = None
        self._early: list[bytes] = []
        self._closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if self.line.full:
            transport.pause_reading()
        for data in self._early:
            transport.write(data)
        self._early.clear()
        if self._closed:
            transport.close()

    def data_received(self, data: bytes) -> None:
        self.line.send(Frame(Kind.DATA, self.number, data))

    def connection_lost(self, exc: Exception | None) -> None:
        self.line.forget(self)

    def deliver(self, data: bytes) -> None:
        """Bytes from the other end of the line."""
        if self.transport is None:
            self._early.append(data)
            return
        self.transport.write(data)
        if self.transport.get_write_buffer_size() > BACKLOG_LIMIT:
            self.transport.abort()

    def close(self) -> None:
        """Close the socket when all that was written has gone out."""
        self._closed = True
        if self.transport is not None:
            self.transport.close()


class Line(asyncio.Protocol):
    """One end of the line. ``opened`` gets the streams that the other end opens, with what each is for."""

    def __init__(self, opened: Callable[[Stream, str], None]) -> None:
        self.streams: dict[int, Stream] = {}
        self.full = False
        self.received = 0
        self.lost = asyncio.Event()
        self.writer: asyncio.WriteTransport | None = None
        self._opened = opened
        self._number = 0
        self._decoder = Decoder()

    def begin(self, stream: Stream, purpose: str) -> None:
        """Begin a new stream, whose socket is still to come. Only one end of a line may do so."""
        self._number += 1
        stream.number = self._number
        self.streams[stream.number] = stream
        self.send(Frame(Kind.OPEN, stream.number, purpose.encode()))

    def send(self, frame: Frame) -> None:
        if self.writer is not None and not self.writer.is_closing():
            self.writer.write(frame.encode())

    def forget(self, stream: Stream) -> None:
        """A stream's socket has closed: the other end is told, unless it was the one that said so."""
        if self.streams.pop(stream.number, None) is not None:
            self.send(Frame(Kind.CLOSE, stream.number))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.WriteTransport):
            self.writer = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        for frame in self._decoder.feed(data):
            self._take(frame)

    def pause_writing(self) -> None:
        self.full = True
        for stream in self.streams.values():
            if stream.transport is not None:
                stream.transport.pause_reading()

    def resume_writing(self) -> None:
        self.full = False
        for stream in self.streams.values():
            if stream.transport is not None:
                stream.transport.resume_reading()

    def _take(self, frame: Frame) -> None:
        if frame.kind is Kind.OPEN:
            stream = Stream(self, frame.stream)
            self.streams[stream.number] = stream
            self._opened(stream, frame.data.decode())
            return
        # A stream that this end has closed may still have frames under way to it.
        known = self.streams.get(frame.stream)
        if known is None:
            return
        if frame.kind is Kind.DATA:
            known.deliver(frame.data)
        else:
            del self.streams[frame.stream]
            known.close()
