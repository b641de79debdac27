"""An IP packet cut into fragments, as a host does with one that is too long for its link (RFC 791; RFC 8200, 4.5)."""

from __future__ import annotations

import struct

_UNIT = 8
_MORE, _DONT = 0x2000, 0x4000
_NEVER_CUT = {0, 43, 44}
"""Headers of IPv6 that every router on the way reads, and that of a fragment."""


def fragments(packet: bytes, mtu: int, identification: int) -> list[bytes]:
    """The packet itself where it is short enough or must not be cut. ``identification`` is for IPv6."""
    if len(packet) <= mtu:
        return [packet]
    return _cut_ipv4(packet, mtu) if packet[0] >> 4 == 4 else _cut_ipv6(packet, mtu, identification)


def _cut_ipv4(packet: bytes, mtu: int) -> list[bytes]:
    """Every fragment has the whole header, with its options; the kernel fills the checksum in."""
    length = (packet[0] & 0xF) * 4
    (word,) = struct.unpack_from("!H", packet, 6)
    if word & _DONT:
        return [packet]
    found = []
    for offset, piece, more in _pieces(packet[length:], mtu - length):
        header = bytearray(packet[:length])
        struct.pack_into("!H", header, 2, length + len(piece))
        struct.pack_into("!H", header, 6, word + offset // _UNIT | (_MORE if more else 0))
        found.append(bytes(header) + piece)
    return found


def _cut_ipv6(packet: bytes, mtu: int, identification: int) -> list[bytes]:
    if packet[6] in _NEVER_CUT:
        return [packet]
    found = []
    for offset, piece, more in _pieces(packet[40:], mtu - 48):
        header = bytearray(packet[:40])
        struct.pack_into("!HB", header, 4, 8 + len(piece), 44)
        fragment = struct.pack("!BxHI", packet[6], offset | more, identification)
        found.append(bytes(header) + fragment + piece)
    return found


def _pieces(data: bytes, room: int) -> list[tuple[int, bytes, bool]]:
    """Offset, bytes, and whether there are more; all but the last are of whole units."""
    size = room // _UNIT * _UNIT
    starts = range(0, len(data), size)
    return [(start, data[start : start + size], start + size < len(data)) for start in starts]
