"""What tells a probe's packets and their answers, and what the kernel is asked to trace for it."""

from __future__ import annotations

import pytest

from netlab.packets.headers import Packet, parse_packet
from netlab.packets.observation import Mark
from netlab.packets.probe import trace_matches
from tests.unit.packets import wire
from tests.unit.packets.wire import ACK, FIN, ICMP, PSH, RST, SCTP, SYN, TCP, UDP, Datagram

CLIENT, SERVER = "10.0.0.1", "10.0.0.2"
PAYLOAD = b"nl0123456789"


def packet(protocol: int, **values: object) -> Packet:
    found = parse_packet(wire.whole(Datagram(protocol, SERVER, CLIENT, 80, 40000).changed(**values)))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("flags", "sequence", "acknowledgement", "answers"),
    [
        (SYN | ACK, 5, 1001, True),
        (RST | ACK, 0, 1001, True),
        (RST | ACK, 0, 1002, False),
        (ACK, 5, 1001, False),
        (PSH | ACK, 5, 1001, False),
        (FIN | ACK, 5, 1001, False),
        (RST, 1001, 0, False),
        (SYN, 1001, 0, False),
    ],
)
def test_what_answers_a_syn(flags: int, sequence: int, acknowledgement: int, answers: bool) -> None:
    reply = packet(TCP, flags=flags, sequence=sequence, acknowledgement=acknowledgement)
    assert Mark(TCP, sequence=1000).answered_by(reply) is answers


def test_sequence_numbers_come_round() -> None:
    mark = Mark(TCP, sequence=0xFFFFFFFF)
    assert mark.answered_by(packet(TCP, flags=SYN | ACK, acknowledgement=0))


def test_reset_of_a_segment_that_acknowledges_begins_with_what_it_acknowledged() -> None:
    mark = Mark(TCP, sequence=1000, answers=(1005,), acknowledged=77)
    assert mark.answered_by(packet(TCP, flags=RST, sequence=77))
    assert not mark.answered_by(packet(TCP, flags=RST, sequence=78))
    assert not Mark(TCP, sequence=1000).answered_by(packet(TCP, flags=RST, sequence=0))


def test_error_answers_what_it_quotes() -> None:
    mark = Mark(TCP, sequence=1000)
    quoted = Datagram(TCP, CLIENT, SERVER, 40000, 80, sequence=1000)
    assert mark.answered_by(packet(ICMP, icmp=(3, 3), quoted=quoted))
    assert not mark.answered_by(packet(ICMP, icmp=(3, 3), quoted=quoted.changed(sequence=1001)))


def test_datagrams_are_known_by_their_payload() -> None:
    mark = Mark(UDP, payload=PAYLOAD)
    assert mark.carried_by(packet(UDP, payload=PAYLOAD + b" and more"))
    assert not mark.carried_by(packet(UDP, payload=b"nl9999999999"))
    assert not mark.carried_by(packet(ICMP, icmp=(8, 0), payload=PAYLOAD))


def test_association_is_known_by_the_tag_that_it_asks_for() -> None:
    mark = Mark(SCTP, payload=wire.init_chunk(0x01020304)[:12])
    assert mark.answered_by(packet(SCTP, tag=0x01020304, payload=b"\2\0\0\4"))
    assert not mark.answered_by(packet(SCTP, tag=5, payload=b"\2\0\0\4"))


def test_bare_mark_is_answered_by_nothing_but_errors() -> None:
    mark = Mark(UDP, identification=9)
    assert mark.is_bare
    assert mark.carried_by(packet(UDP, identification=9))
    assert not mark.answered_by(packet(UDP, identification=9))
    quoted = Datagram(UDP, CLIENT, SERVER, 40000, 80, identification=9)
    assert mark.answered_by(packet(ICMP, icmp=(3, 3), quoted=quoted))


def test_ping_is_known_by_its_number() -> None:
    mark = Mark(ICMP, identification=9, echo=77)
    assert not mark.is_bare
    asked = packet(ICMP, icmp=(8, 0), sequence=77, identification=9, echo=5)
    assert mark.carried_by(asked)
    assert not mark.answered_by(asked)
    assert not mark.carried_by(packet(ICMP, icmp=(8, 0), sequence=77, identification=8))
    assert mark.answered_by(packet(ICMP, icmp=(0, 0), sequence=77, echo=6))
    assert not mark.answered_by(packet(ICMP, icmp=(0, 0), sequence=78, echo=5))
    error = Datagram(ICMP, CLIENT, SERVER, icmp=(8, 0), sequence=77, identification=9)
    assert mark.answered_by(packet(ICMP, icmp=(3, 1), quoted=error))


def test_all_datagrams_are_traced_where_answers_are_known_by_ports() -> None:
    mark = Mark(UDP, identification=9)
    assert mark.answers_by_ports
    assert matched(mark, Datagram(UDP, SERVER, CLIENT, 80, 40000, payload=b"anything"))
    assert not matched(mark, Datagram(TCP, SERVER, CLIENT, 80, 40000))


def matched(mark: Mark, found: Datagram) -> bool:
    """Whether nftables would trace a packet, by comparing bytes as it does."""
    network, transport = wire.network_header(found), wire.transport_part(found)
    return any(
        match.protocol == found.protocol
        and (network if match.network else transport)[match.offset : match.offset + len(match.value)] == match.value
        for match in trace_matches(mark, found.family)
    )


@pytest.mark.parametrize("six", [False, True])
@pytest.mark.parametrize(
    ("mark", "protocol", "values", "answer"),
    [
        (Mark(TCP, sequence=1000), TCP, {"sequence": 1000}, {"acknowledgement": 1001, "flags": SYN | ACK}),
        (
            Mark(TCP, sequence=1000, answers=(1000,), acknowledged=77),
            TCP,
            {"sequence": 1000, "acknowledgement": 77, "flags": ACK},
            {"sequence": 77, "flags": RST},
        ),
        (Mark(UDP, payload=PAYLOAD), UDP, {"payload": PAYLOAD + b" more"}, {"payload": PAYLOAD}),
        (
            Mark(SCTP, payload=wire.init_chunk(7)[:12]),
            SCTP,
            {"payload": wire.init_chunk(7)},
            {"tag": 7, "payload": wire.init_chunk(8)},
        ),
        (
            Mark(ICMP, identification=9, echo=77),
            ICMP,
            {"icmp": (8, 0), "sequence": 77},
            {"icmp": (0, 0), "sequence": 77},
        ),
        (Mark(47, identification=9), 47, {"identification": 9}, None),
    ],
)
def test_what_is_traced(
    mark: Mark, protocol: int, values: dict[str, object], answer: dict[str, object] | None, six: bool
) -> None:
    """The request, its answer, and errors that quote the request, wherever NAT has put them."""
    ends = ("fd00::1", "fd00::2") if six else (CLIENT, SERVER)
    asked = Datagram(protocol, *ends, 40000, 80).changed(**values)
    assert matched(mark, asked)
    assert not matched(mark, Datagram(protocol, *ends, 40000, 80, identification=8, payload=b"somebody else's"))
    if answer is not None:
        assert matched(mark, Datagram(protocol, *ends[::-1], 80, 40000).changed(**answer))
    error = Datagram(58 if six else ICMP, *ends[::-1], icmp=(1, 4) if six else (3, 3), quoted=asked)
    assert matched(mark, error)
    assert not matched(mark, error.changed(quoted=asked.changed(sequence=9, payload=b"x" * 30, identification=1)))
