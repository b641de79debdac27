"""Frames as fields: those of recorded walks, and damaged ones."""

from __future__ import annotations

import random

import pytest

from gui.values.dissect import addresses, dissect, summary
from gui.values.moment import frames
from tests.gui.recorded import walk


@pytest.mark.parametrize("name", ["far", "near", "pod", "refused"])
def test_recorded_frames_are_understood_to_the_last_byte(name: str) -> None:
    for seen in frames(walk(name)):
        layers = dissect(seen.data)
        assert layers[0].name == "Ethernet"
        assert [layer.begin for layer in layers[1:]] == [layer.end for layer in layers[:-1]]
        assert layers[-1].end == len(seen.data)
        assert "TCP" in [layer.name for layer in layers]


def test_a_syn_reads_as_one() -> None:
    first = frames(walk("far"))[0]
    source, destination, protocol = addresses(first.data)
    assert (source, destination, protocol) == ("192.168.1.100", "192.168.60.123", "TCP")
    assert summary(first.data).endswith("→ 30080 [SYN]")
    roles = [field.role for layer in dissect(first.data) for field in layer.fields if field.role]
    assert roles == ["source", "destination", "source", "destination"]


def test_a_frame_in_vxlan() -> None:
    inner = frames(walk("far"))[0].data
    udp = (4789).to_bytes(2, "big") * 2 + (8 + 8 + len(inner)).to_bytes(2, "big") + b"\0\0"
    total = (20 + 8 + 8 + len(inner)).to_bytes(2, "big")
    header = b"\x45\0" + total + bytes(4) + b"\x40\x11\0\0" + bytes([10, 0, 0, 1]) + bytes([10, 0, 0, 2])
    frame = bytes(12) + b"\x08\0" + header + udp + b"\x08\0\0\0\0\0\x07\0" + inner
    names = [layer.name for layer in dissect(frame)]
    assert names == ["Ethernet", "IPv4", "UDP", "VXLAN", "Ethernet", "IPv4", "TCP"]
    assert addresses(frame)[0] == "192.168.1.100"


def test_damaged_frames_give_what_is_there() -> None:
    whole = frames(walk("far"))[0].data
    chance = random.Random(7)
    for size in range(len(whole) + 1):
        layers = dissect(whole[:size])
        assert all(layer.end <= size for layer in layers)
    for _ in range(500):
        noise = bytearray(whole)
        for _ in range(6):
            noise[chance.randrange(len(noise))] = chance.randrange(256)
        assert dissect(bytes(noise))
        assert summary(bytes(noise))
