"""Capture of every frame in a network namespace, at all of its interfaces at once (packet(7), packet_mmap of the
kernel's documentation).

One packet socket a namespace with a ring in shared memory: the kernel writes frames into blocks, and a whole block is
taken out in one copy and taken apart only when somebody looks at it. So bursts are not lost, and what streams by costs
next to nothing. A filter in the kernel keeps the ring idle while nobody captures.
"""

from __future__ import annotations

import ctypes
import mmap
import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

from netlab.kernel import libc

_SOL_PACKET = 263
_PACKET_RX_RING, _PACKET_STATISTICS, _PACKET_VERSION = 5, 6, 10
_TPACKET_V3 = 2
_ETH_P_ALL = 3
_PACKET_OTHERHOST, _PACKET_OUTGOING = 3, 4

_BLOCK_STATUS = struct.Struct("=I")
_BLOCK_STATUS_OFFSET = 8
_BLOCK_HEADER = struct.Struct("=IIIIII")
_STATUS_KERNEL, _STATUS_USER = 0, 1
_FRAME_HEADER = struct.Struct("=IIIIIIHH")
_LINK_ADDRESS = struct.Struct("=HHiHBB8s")
_LINK_ADDRESS_OFFSET = 48
_STATUS_CHECKSUM_NOT_READY = 1 << 3

_SO_ATTACH_FILTER = 26
_ACCEPT_ALL = struct.pack("=HBBI", 0x6, 0, 0, 0x40000)
_REJECT_ALL = struct.pack("=HBBI", 0x6, 0, 0, 0)

RETIRE_MS = 1
"""How long a block that is not full stays with the kernel, milliseconds."""


class RawFrame(NamedTuple):
    """A frame as the kernel delivered it. ``time_ns`` is wall clock; ``length`` the frame's length on the wire;
    ``overheard``: addressed to another host."""

    interface: int
    outgoing: bool
    overheard: bool
    time_ns: int
    length: int
    data: bytes
    complete_checksum: bool


class _FilterProgram(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


class CaptureRing:
    """The capture of the namespace that the thread is in when it is made: :meth:`open`, then :meth:`resume`.

    ``blocks`` of ``block_size`` bytes each (a multiple of the page size) are what a burst can fill before frames are
    lost. They are taken from the kernel's memory by :meth:`open`.
    """

    def __init__(self, block_size: int = 64 * 1024, blocks: int = 16) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        self._socket.setblocking(False)
        self._filter(_REJECT_ALL)
        self._socket.setsockopt(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V3)
        self._memory: mmap.mmap | None = None
        self._block_size = block_size
        self._blocks = blocks
        self._next = 0
        self._counted = 0
        self._dropped = 0
        self._dropped_before = 0
        self._read = 0

    @property
    def is_open(self) -> bool:
        return self._memory is not None

    def open(self) -> None:
        """Have the kernel make the ring, and listen at all interfaces; still paused.

        Waits for a grace period (some 10 ms), without the interpreter's lock: many of them wait at the same time, in
        threads.
        """
        frame_size = 2048
        frame_count = self._block_size * self._blocks // frame_size
        ring = struct.pack("=7I", self._block_size, self._blocks, frame_size, frame_count, RETIRE_MS, 0, 0)
        libc.setsockopt(self._socket.fileno(), _SOL_PACKET, _PACKET_RX_RING, ring)
        self._memory = mmap.mmap(self._socket.fileno(), self._block_size * self._blocks)
        address = _LINK_ADDRESS.pack(socket.AF_PACKET, socket.htons(_ETH_P_ALL), 0, 0, 0, 0, b"")
        libc.bind_raw(self._socket.fileno(), address)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        """Waits for a grace period, without the interpreter's lock."""
        if self._memory is not None:
            self._memory.close()
        self._socket.close()

    def resume(self) -> None:
        """Capture from now on; what was captured before and not taken is gone."""
        self.take()
        self._statistics()
        self._dropped_before = self._dropped
        self._filter(_ACCEPT_ALL)

    def pause(self) -> None:
        """Capture nothing more; what was captured can still be taken."""
        self._filter(_REJECT_ALL)

    def _filter(self, program: bytes) -> None:
        value = _FilterProgram(1, program)
        libc.setsockopt(self._socket.fileno(), socket.SOL_SOCKET, _SO_ATTACH_FILTER, bytes(value))

    def take(self) -> list[bytes]:
        """Copies of the blocks that the kernel has finished, oldest first; gives their memory back."""
        taken: list[bytes] = []
        memory = self._memory
        if memory is None:
            return taken
        while True:
            start = self._next * self._block_size
            status = _BLOCK_STATUS.unpack_from(memory, start + _BLOCK_STATUS_OFFSET)[0]
            if not status & _STATUS_USER:
                return taken
            _, _, _, frames, _, length = _BLOCK_HEADER.unpack_from(memory, start)
            taken.append(memory[start : start + length])
            _BLOCK_STATUS.pack_into(memory, start + _BLOCK_STATUS_OFFSET, _STATUS_KERNEL)
            self._read += frames
            self._next = (self._next + 1) % self._blocks

    def outstanding(self) -> int:
        """Frames that the kernel has counted and not yet handed over (they sit in a block that is not finished)."""
        self._statistics()
        return self._counted - self._dropped - self._read

    def dropped(self) -> int:
        """Frames lost since :meth:`resume`, because the ring was full."""
        self._statistics()
        return self._dropped - self._dropped_before

    def _statistics(self) -> None:
        value = self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 12)
        packets, drops, _ = struct.unpack("=III", value)
        self._counted += packets
        self._dropped += drops


def frames(block: bytes) -> Iterator[RawFrame]:
    """The frames in one block."""
    _, _, _, count, offset, _ = _BLOCK_HEADER.unpack_from(block)
    for _ in range(count):
        step, seconds, nanoseconds, captured, length, status, data_offset, _ = _FRAME_HEADER.unpack_from(block, offset)
        _, _, index, _, packet_type, _, _ = _LINK_ADDRESS.unpack_from(block, offset + _LINK_ADDRESS_OFFSET)
        begin = offset + data_offset
        yield RawFrame(
            interface=index,
            outgoing=packet_type == _PACKET_OUTGOING,
            overheard=packet_type == _PACKET_OTHERHOST,
            time_ns=seconds * 1_000_000_000 + nanoseconds,
            length=length,
            data=block[begin : begin + captured],
            complete_checksum=not status & _STATUS_CHECKSUM_NOT_READY,
        )
        offset += step
