"""Where a probe goes: what is taken, and what is refused in which words."""

from __future__ import annotations

import pytest

from netlab.model.errors import BadInput
from netlab.packets.targets import Target, parse_target


@pytest.mark.parametrize(
    ("text", "protocol", "target"),
    [
        ("10.96.0.1:80", "tcp", Target("10.96.0.1", 80)),
        ("[fd00::1]:53", "udp", Target("fd00::1", 53)),
        ("10.96.0.1", "icmp", Target("10.96.0.1", None)),
        ("fd00::1", "icmp", Target("fd00::1", None)),
    ],
)
def test_addresses(text: str, protocol: str, target: Target) -> None:
    assert parse_target(text, protocol) == target


@pytest.mark.parametrize(
    ("text", "protocol", "said"),
    [
        ("web:80", "tcp", "names are not supported yet"),
        ("www.example.com:80", "udp", "names are not supported yet"),
        ("web.default.svc.cluster.local.", "icmp", "names are not supported yet"),
        ("10.96.0.1", "tcp", "ADDR:PORT is expected"),
        ("10.96.0.1:80", "icmp", "ADDR is expected"),
        ("10.96.0.1:²", "tcp", "ADDR:PORT is expected"),
        ("10.96.0.1:" + "9" * 5000, "tcp", "ADDR:PORT is expected"),
        ("1.2.3:4", "tcp", "ADDR:PORT is expected"),
        ("", "tcp", "ADDR:PORT is expected"),
        ("255.255.255.255:80", "udp", "no address of one host"),
        ("224.0.0.1", "icmp", "no address of one host"),
        ("0.0.0.0:80", "tcp", "no address of one host"),
        ("[ff02::1]:80", "tcp", "no address of one host"),
        ("10.96.0.1:80", "quic", "is none of tcp"),
    ],
)
def test_what_is_refused(text: str, protocol: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        parse_target(text, protocol)
