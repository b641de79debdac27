"""Fragments: put together again they are the packet, and each fits the link."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netlab.packets.fragments import fragments
from netlab.packets.headers import is_later_fragment, parse_packet
from tests.unit.packets import wire
from tests.unit.packets.wire import UDP, Datagram

ENDS = {4: ("10.0.0.1", "10.0.0.2"), 6: ("fd00::1", "fd00::2")}


def whole(family: int, length: int) -> bytes:
    payload = bytes(number % 251 for number in range(length))
    packet = bytearray(wire.whole(Datagram(UDP, *ENDS[family], 40000, 80, identification=7, payload=payload)))
    if family == 4:
        packet[6] &= ~0x40  # May be cut.
    return bytes(packet)


@given(family=st.sampled_from((4, 6)), length=st.integers(0, 9000), mtu=st.sampled_from((1280, 1450, 1500)))
def test_fragments_are_the_packet(family: int, length: int, mtu: int) -> None:
    packet = whole(family, length)
    pieces = fragments(packet, mtu, 99)
    header, extra = (20, 0) if family == 4 else (40, 8)
    if len(packet) <= mtu:
        assert pieces == [packet]
        return
    assert all(len(piece) <= mtu for piece in pieces)
    body = b""
    for piece in pieces:
        assert is_later_fragment(piece) == bool(body)
        if family == 4:
            total, _, word = struct.unpack_from("!HHH", piece, 2)
            offset, more = (word & 0x1FFF) * 8, bool(word & 0x2000)
        else:
            total = 40 + struct.unpack_from("!H", piece, 4)[0]
            word = struct.unpack_from("!H", piece, 42)[0]
            offset, more = word & 0xFFF8, bool(word & 1)
            assert (piece[6], piece[40], piece[44:48]) == (44, UDP, (99).to_bytes(4))
        assert (total, offset, more) == (len(piece), len(body), piece is not pieces[-1])
        body += piece[header + extra :]
    assert body == packet[header:]


@pytest.mark.parametrize("family", [4, 6])
def test_first_fragment_is_known_as_the_packet(family: int) -> None:
    packet = whole(family, 3000)
    asked, first = parse_packet(packet), parse_packet(fragments(packet, 1500, 99)[0])
    assert asked is not None
    assert first is not None
    assert first.key == asked.key
    assert first.addresses == asked.addresses
    assert parse_packet(fragments(packet, 1500, 99)[1]) is None


def test_what_must_not_be_cut() -> None:
    packet = bytearray(whole(4, 3000))
    packet[6] |= 0x40
    assert fragments(bytes(packet), 1500, 99) == [bytes(packet)]
    routed = bytearray(whole(6, 3000))
    routed[6] = 43
    assert fragments(bytes(routed), 1500, 99) == [bytes(routed)]
