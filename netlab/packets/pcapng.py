"""Capture files: frames from everywhere in the lab as one pcapng file.

Wireshark shows what a lab captured, all interfaces side by side, and each packet's comment says what happened to it
there. The layout of the blocks is that of the Internet draft draft-ietf-opsawg-pcapng ("PCAP Next Generation Capture
File Format"); the names of its options (``if_name``, ``epb_flags``, …) are used here as they stand there. All numbers
in the file are little-endian, all times nanoseconds since 1970 (UTC).

A file that ends early, after any whole block, is still a good file: so it can be streamed to a reader, and what was
written before a crash can be read.
"""

from __future__ import annotations

import errno
import io
import os
import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import BinaryIO

from netlab.model.records import Frame, Loss
from netlab.model.text import Message, Text

SNAPLEN = 262144
"""The most bytes of one frame that a file holds (``SnapLen``): the most that Wireshark takes."""

_SECTION_HEADER, _INTERFACE, _STATISTICS, _PACKET = 0x0A0D0D0A, 1, 5, 6
_BYTE_ORDER_MAGIC = 0x1A2B3C4D
_LENGTH_UNKNOWN = -1
_LINKTYPE_ETHERNET = 1
_NANOSECONDS = b"\x09"
"""``if_tsresol``: 10 to the power of minus 9 seconds."""

_COMMENT = 1
_SHB_HARDWARE, _SHB_OS, _SHB_USERAPPL = 2, 3, 4
_IF_NAME, _IF_DESCRIPTION, _IF_TSRESOL = 2, 3, 9
_EPB_FLAGS = 2
_ISB_STARTTIME, _ISB_ENDTIME, _ISB_IFRECV, _ISB_IFDROP = 2, 3, 4, 5

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_OPTION_HEADER = struct.Struct("<HH")
_BLOCK_HEADER = struct.Struct("<II")
_PACKET_HEADER = struct.Struct("<7I")
_END_OF_OPTIONS = bytes(4)
_PADDING = (b"", bytes(1), bytes(2), bytes(3))
_OPTION_LIMIT = 0xFFFF
_FRAMES_PER_CHUNK = 4096

_INBOUND, _OUTBOUND, _PROMISCUOUS, _CHECKSUM_NOT_READY = 1, 2, 4 << 2, 1 << 9

_LOST = {
    "frame": Message(
        "capture.lost.frame",
        en="Frames lost at {place}: {count}, at all of its interfaces together. They are missing in this file.",
        zh="在 {place} 丢失的帧：{count}（该处所有接口合计）。此文件中缺少这些帧。",
    ),
    "trace": Message(
        "capture.lost.trace",
        en="Trace records lost at {place}: {count}. Comments on packets there may leave out a rule.",
        zh="在 {place} 丢失的跟踪记录：{count}。该处数据包的注释可能遗漏某条规则。",
    ),
    "conntrack": Message(
        "capture.lost.conntrack",
        en="Conntrack events lost at {place}: {count}. Comments on packets there may leave out a changed address.",
        zh="在 {place} 丢失的 conntrack 事件：{count}。该处数据包的注释可能遗漏某次地址变更。",
    ),
}
_COUNT_UNKNOWN = Message("capture.lost.unknown", en="how many is not known", zh="数量未知")


@dataclass(frozen=True, slots=True)
class Interface:
    """An interface of the capture; ``description`` is what a person would call it ("bridge of node-a's Pods")."""

    place: str
    name: str
    description: str = ""

    @property
    def label(self) -> str:
        """Its name in the file (``if_name``): "node-a/eth0"."""
        return f"{self.place}/{self.name}"


class Encoder:
    """The bytes of one capture file, piece by piece: :meth:`begin`, then any :meth:`add` and :meth:`packets`, then
    :meth:`end`. Each returns whole blocks, to be written in the order of the calls.

    ``version`` is kube-netlab's, ``system`` the operating system in words (as uname gives it), ``hardware`` the
    machine. ``language`` ("en" or "zh") is that of the sentences about losses. Frames are cut to ``snaplen`` bytes.
    """

    def __init__(
        self, version: str, system: str, *, hardware: str = "", language: str = "en", snaplen: int = SNAPLEN
    ) -> None:
        self._version = version
        self._system = system
        self._hardware = hardware
        self._language = language
        self._snaplen = snaplen
        self._interfaces: list[Interface] = []
        self._numbers: dict[tuple[str, str], int] = {}
        self._counts: list[int] = []
        self._held: list[Frame] = []

    def begin(
        self, interfaces: Sequence[Interface], comments: Sequence[str] = (), losses: Sequence[Loss] = ()
    ) -> bytes:
        """The section header, with ``comments`` on the whole capture and those ``losses`` that are known by now in
        words, and the ``interfaces`` in the order given.
        """
        told = [*comments, *(text.in_language(self._language) for text in describe_losses(losses))]
        options = [
            *(_text_option(_COMMENT, comment) for comment in told),
            _text_option(_SHB_HARDWARE, self._hardware),
            _text_option(_SHB_OS, self._system),
            _text_option(_SHB_USERAPPL, f"kube-netlab {self._version}"),
        ]
        fixed = struct.pack("<IHHq", _BYTE_ORDER_MAGIC, 1, 0, _LENGTH_UNKNOWN)
        return _block(_SECTION_HEADER, fixed, options) + self.add(interfaces)

    def add(self, interfaces: Iterable[Interface]) -> bytes:
        """More ``interfaces``, say of a Pod that has just started; those that the file has already are passed over."""
        blocks: list[bytes] = []
        for interface in interfaces:
            key = (interface.place, interface.name)
            if key in self._numbers:
                continue
            self._numbers[key] = len(self._interfaces)
            self._interfaces.append(interface)
            self._counts.append(0)
            options = [
                _text_option(_IF_NAME, interface.label),
                _text_option(_IF_DESCRIPTION, interface.description),
                _option(_IF_TSRESOL, _NANOSECONDS),
            ]
            blocks.append(_block(_INTERFACE, struct.pack("<HHI", _LINKTYPE_ETHERNET, 0, self._snaplen), options))
        return b"".join(blocks)

    def packets(
        self,
        frames: Iterable[Frame],
        comments: Mapping[str, Sequence[str]] | None = None,
        until_ns: int | None = None,
    ) -> bytes:
        """``frames`` in the order of their times; frames of the same time stay in the order given.

        ``comments`` are by the frame's id. Frames at interfaces that the file does not have are left out. While a
        capture runs, a place that is read later may have older frames: with ``until_ns`` frames from that time on
        are held back, to be sorted in with those of the next call. Give their comments with that call.
        """
        ordered = sorted([*self._held, *frames], key=attrgetter("time_ns"))
        if until_ns is None:
            self._held = []
        else:
            ready = bisect_left(ordered, until_ns, key=attrgetter("time_ns"))
            self._held = ordered[ready:]
            del ordered[ready:]
        return self._encode(ordered, comments or {})

    def end(
        self,
        began_ns: int,
        ended_ns: int,
        losses: Sequence[Loss] = (),
        comments: Mapping[str, Sequence[str]] | None = None,
    ) -> bytes:
        """Frames still held back with their ``comments``, and the statistics of each interface for the capture from
        ``began_ns`` to ``ended_ns`` with all its ``losses``.

        ``isb_ifrecv`` counts the frames in the file. Frames are lost by a place, not by one interface, so
        ``isb_ifdrop`` is the place's count at each of its interfaces, and a comment says so; it is left out where
        the count is not known.
        """
        blocks = [self.packets((), comments)]
        for number, interface in enumerate(self._interfaces):
            here = [loss for loss in losses if loss.place == interface.place]
            dropped = _total(loss.count for loss in here if loss.kind == "frame")
            options = [
                *(_text_option(_COMMENT, text.in_language(self._language)) for text in describe_losses(here)),
                _option(_ISB_STARTTIME, _timestamp(began_ns)),
                _option(_ISB_ENDTIME, _timestamp(ended_ns)),
                _option(_ISB_IFRECV, _U64.pack(self._counts[number])),
                b"" if dropped is None else _option(_ISB_IFDROP, _U64.pack(dropped)),
            ]
            blocks.append(_block(_STATISTICS, _U32.pack(number) + _timestamp(ended_ns), options))
        return b"".join(blocks)

    def _encode(self, frames: Iterable[Frame], comments: Mapping[str, Sequence[str]]) -> bytes:
        numbers, counts, snaplen = self._numbers, self._counts, self._snaplen
        parts: list[bytes] = []
        for frame in frames:
            number = numbers.get((frame.place, frame.interface))
            if number is None:
                continue
            counts[number] += 1
            data = frame.data
            if len(data) > snaplen:
                data = data[:snaplen]
            captured = len(data)
            options = _FLAG_OPTIONS[frame.direction, frame.overheard, frame.complete_checksum]
            if frame.id in comments:
                options = b"".join([_text_option(_COMMENT, comment) for comment in comments[frame.id]]) + options
            padding = -captured & 3
            size = _PACKET_HEADER.size + captured + padding + len(options) + _U32.size
            time_ns = frame.time_ns
            header = _PACKET_HEADER.pack(
                _PACKET, size, number, time_ns >> 32, time_ns & 0xFFFFFFFF, captured, max(frame.length, captured)
            )
            parts += (header, data, _PADDING[padding], options, _U32.pack(size))
        return b"".join(parts)


@dataclass(frozen=True, slots=True)
class Capture:
    """A capture that is over: what :func:`chunks` makes a file of.

    ``packet_comments`` are by the frame's id, ``comments`` on the capture as a whole; times as in :meth:`Encoder.end`.
    """

    interfaces: Sequence[Interface]
    frames: Sequence[Frame]
    began_ns: int
    ended_ns: int
    packet_comments: Mapping[str, Sequence[str]] = field(default_factory=dict)
    comments: Sequence[str] = ()
    losses: Sequence[Loss] = ()


def chunks(capture: Capture, encoder: Encoder) -> Iterator[bytes]:
    """The file of a whole capture, in pieces of a few thousand frames, for a fresh ``encoder``."""
    yield encoder.begin(capture.interfaces, capture.comments, capture.losses)
    ordered = sorted(capture.frames, key=attrgetter("time_ns"))
    for first in range(0, len(ordered), _FRAMES_PER_CHUNK):
        yield encoder.packets(ordered[first : first + _FRAMES_PER_CHUNK], capture.packet_comments)
    yield encoder.end(capture.began_ns, capture.ended_ns, capture.losses)


def write(file: BinaryIO, pieces: Iterable[bytes]) -> int:
    """Write ``pieces`` to an open ``file`` and see to it that they are on the disk; returns how many bytes they were.

    What is no file on a disk (a pipe, a buffer in memory) is flushed only. Raises OSError when something could not
    be written, a full disk for instance.
    """
    size = 0
    for piece in pieces:
        rest = memoryview(piece)
        while rest:
            written = file.write(rest)
            if not written:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            size += written
            rest = rest[written:]
    file.flush()
    try:
        os.fsync(file.fileno())
    except io.UnsupportedOperation:
        pass
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    return size


def describe_losses(losses: Iterable[Loss]) -> list[Text]:
    """What was lost, in words: one sentence or two for each place and kind, in the order given."""
    counts: dict[tuple[str, str], list[int | None]] = {}
    for loss in losses:
        counts.setdefault((loss.place, loss.kind), []).append(loss.count)
    texts: list[Text] = []
    for (place, kind), each in counts.items():
        total = _total(each)
        if total != 0:
            texts.append(_LOST[kind](place=place, count=_COUNT_UNKNOWN() if total is None else total))
    return texts


def _total(counts: Iterable[int | None]) -> int | None:
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total


def _timestamp(time_ns: int) -> bytes:
    """A time as the format has it everywhere: the upper 32 bits, then the lower ones."""
    return struct.pack("<II", time_ns >> 32, time_ns & 0xFFFFFFFF)


def _option(code: int, value: bytes) -> bytes:
    return _OPTION_HEADER.pack(code, len(value)) + value + _PADDING[-len(value) & 3]


def _text_option(code: int, text: str) -> bytes:
    """An option of UTF-8 text, cut to what an option can hold; none for an empty text. A zero octet would end the text
    (section "Options"), so it is replaced.
    """
    if not text:
        return b""
    value = text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace")
    if len(value) > _OPTION_LIMIT:
        mark = "…".encode()
        value = value[: _OPTION_LIMIT - len(mark)].decode("utf-8", "ignore").encode() + mark
    return _option(code, value)


def _block(kind: int, fixed: bytes, options: Iterable[bytes]) -> bytes:
    """A block of the ``kind`` (Block Type): its ``fixed`` part, a multiple of 4 bytes, then the list of options."""
    body = fixed + b"".join(options) + _END_OF_OPTIONS
    size = _BLOCK_HEADER.size + len(body) + _U32.size
    return _BLOCK_HEADER.pack(kind, size) + body + _U32.pack(size)


def _flags(direction: int, overheard: bool, complete_checksum: bool) -> bytes:
    """The option list of a packet without comments: ``epb_flags`` and the end (section "Enhanced Packet Block Flags
    Word"). An overheard frame was received promiscuously.
    """
    value = direction
    if overheard:
        value |= _PROMISCUOUS
    if not complete_checksum:
        value |= _CHECKSUM_NOT_READY
    return _option(_EPB_FLAGS, _U32.pack(value)) + _END_OF_OPTIONS


_FLAG_OPTIONS = {
    (name, overheard, complete): _flags(direction, overheard, complete)
    for name, direction in (("in", _INBOUND), ("out", _OUTBOUND))
    for overheard in (False, True)
    for complete in (False, True)
}
