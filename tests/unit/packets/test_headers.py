"""Headers as they are read from frames and from trace records; packets made by scapy and from the RFCs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers import inet, sctp
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import ICMPv6DestUnreach, ICMPv6EchoRequest, ICMPv6TimeExceeded, IPv6, IPv6ExtHdrHopByHop
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet as ScapyPacket
from scapy.packet import Raw

from netlab.packets.headers import (
    ACK,
    ICMP,
    ICMPV6,
    RST,
    SCTP,
    SYN,
    TCP,
    NeighbourQuestion,
    Packet,
    destination_mac,
    icmp_name,
    parse_frame,
    parse_neighbour_question,
    parse_packet,
    parse_trace,
)
from tests.unit.packets import wire
from tests.unit.packets.checks import PROFILE
from tests.unit.packets.wire import Datagram

ETHER = Ether(src="0a:58:0a:c8:01:02", dst="0a:58:0a:c8:01:01")


def parsed(packet: ScapyPacket, *, vxlan: bool = False) -> Packet:
    found = parse_frame(bytes(ETHER / packet), vxlan)
    assert found is not None
    return found


def test_tcp() -> None:
    packet = parsed(
        IP(src="192.168.1.100", dst="192.168.60.123", ttl=61, id=7)
        / inet.TCP(sport=43210, dport=30080, seq=1000, ack=5, flags="SA", window=512)
        / Raw(b"hello")
    )
    assert (packet.family, packet.protocol, packet.hops) == (4, TCP, 61)
    assert packet.addresses == ("192.168.1.100:43210", "192.168.60.123:30080")
    assert (packet.sequence, packet.acknowledgement, packet.flags) == (1000, 5, SYN | ACK)
    assert packet.payload == b"hello"
    assert packet.icmp is None


def test_udp_over_ipv6() -> None:
    packet = parsed(
        IPv6(src="fd00:1::100", dst="fd00:60::a", hlim=63, fl=0x12345) / UDP(sport=5, dport=53) / Raw(b"data")
    )
    assert packet.addresses == ("[fd00:1::100]:5", "[fd00:60::a]:53")
    assert (packet.hops, packet.payload) == (63, b"data")
    assert packet.key[2] == 0x12345


def test_sctp() -> None:
    packet = parsed(IP() / sctp.SCTP(sport=1, dport=2, tag=0x01020304) / sctp.SCTPChunkInit(init_tag=0x0A0B0C0D))
    assert (packet.protocol, packet.source_port, packet.destination_port) == (SCTP, 1, 2)
    assert packet.verification_tag == b"\1\2\3\4"
    assert packet.payload[4:8] == b"\x0a\x0b\x0c\x0d"


def test_sctp_abort_is_shorter_than_what_a_trace_record_shows() -> None:
    packet = parsed(IP() / sctp.SCTP(tag=5) / sctp.SCTPChunkAbort())
    assert (packet.verification_tag, packet.is_abort) == (b"\0\0\0\5", True)


def test_echo_has_no_ports() -> None:
    packet = parsed(IP(src="10.0.0.1", dst="10.0.0.2") / inet.ICMP(type=8, id=77) / Raw(b"nl0123456789"))
    assert packet.addresses == ("10.0.0.1", "10.0.0.2")
    assert (packet.icmp, packet.is_icmp_error, packet.is_echo_reply) == ((8, 0), False, False)
    assert parsed(IPv6() / ICMPv6EchoRequest()).protocol == ICMPV6


def test_error_and_what_it_quotes() -> None:
    quoted = IP(src="192.168.1.100", dst="10.200.2.20", id=9) / inet.TCP(sport=1, dport=80, seq=4711, flags="S")
    packet = parsed(IP() / inet.ICMP(type=3, code=3) / quoted)
    assert packet.is_icmp_error
    assert packet.inner is not None
    assert (packet.inner.addresses, packet.inner.sequence) == (("192.168.1.100:1", "10.200.2.20:80"), 4711)
    assert icmp_name(packet) == "ICMP port unreachable"
    assert not packet.is_routing_error


def test_error_that_quotes_as_little_as_it_may() -> None:
    """Eight bytes behind the IP header (RFC 792): the ports, and of TCP the sequence number."""
    quoted = bytes(IP(src="10.0.0.1", dst="10.0.0.2") / inet.TCP(sport=1, dport=80, seq=4711))[:28]
    packet = parsed(IP() / inet.ICMP(type=11, code=0) / Raw(quoted))
    assert packet.inner is not None
    assert (packet.inner.destination_text, packet.inner.sequence) == ("10.0.0.2:80", 4711)
    assert packet.is_out_of_hops
    assert packet.is_routing_error


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (IP() / inet.ICMP(type=3, code=0), "ICMP net unreachable"),
        (IP() / inet.ICMP(type=3, code=77), "ICMP type 3 code 77"),
        (IPv6() / ICMPv6DestUnreach(code=4), "ICMPv6 port unreachable"),
        (IPv6() / ICMPv6TimeExceeded(code=0), "ICMPv6 time exceeded"),
    ],
)
def test_names_of_errors(error: ScapyPacket, name: str) -> None:
    assert icmp_name(parsed(error / IP())) == name


def test_vxlan() -> None:
    inner = Ether() / IP(src="10.200.1.10", dst="10.200.2.20", ttl=63) / inet.TCP(sport=1, dport=80)
    outer = IP(src="192.168.60.123", dst="192.168.60.124") / UDP(sport=9, dport=4789) / VXLAN(vni=1) / inner
    packet = parsed(outer, vxlan=True)
    assert (packet.addresses, packet.hops) == (("10.200.1.10:1", "10.200.2.20:80"), 63)
    assert packet.outer is not None
    assert packet.outer.source == "192.168.60.123"
    assert parsed(outer).destination_port == 4789


def test_vlan_tag_is_passed_over() -> None:
    assert parsed(Dot1Q(vlan=5) / IP(src="1.2.3.4") / UDP()).source == "1.2.3.4"


def test_extension_headers_are_passed_over() -> None:
    packet = parsed(IPv6() / IPv6ExtHdrHopByHop() / UDP(sport=1, dport=2) / Raw(b"x"))
    assert (packet.source_port, packet.payload) == (1, b"x")


def test_padding_of_short_frames_is_no_payload() -> None:
    frame = bytes(ETHER / IP() / UDP() / Raw(b"ab")) + bytes(14)
    packet = parse_frame(frame)
    assert packet is not None
    assert packet.payload == b"ab"


def test_later_fragments_are_no_packets() -> None:
    assert parse_packet(bytes(IP(frag=100) / Raw(b"rest of a datagram"))) is None


def test_neighbour_questions() -> None:
    ask = ETHER / ARP(op="who-has", psrc="10.0.0.1", pdst="10.0.0.2")
    answer = ETHER / ARP(op="is-at", psrc="10.0.0.2", pdst="10.0.0.1")
    assert parse_neighbour_question(bytes(ask)) == NeighbourQuestion("10.0.0.2", False)
    assert parse_neighbour_question(bytes(answer)) == NeighbourQuestion("10.0.0.2", True)
    solicitation = wire.arp_question("0a:58:00:00:00:01", "fd00::1", "fd00::2")
    assert parse_neighbour_question(solicitation) == NeighbourQuestion("fd00::2", False)
    assert parse_neighbour_question(bytes(ETHER / IP() / UDP() / Raw(bytes(40)))) is None


def test_whom_a_frame_is_for() -> None:
    assert destination_mac(bytes(ETHER / IP())) == "0a:58:0a:c8:01:01"


# The key


def same_packet_elsewhere(packet: Datagram) -> Datagram:
    """What NAT and routing make of a packet."""
    if packet.quoted is not None:
        quoted = packet.quoted.changed(source="10.9.9.9", source_port=999)
        return packet.changed(source="10.9.9.1", destination="10.9.9.2", hops=9, quoted=quoted)
    return packet.changed(
        source="10.9.9.1", destination="10.9.9.2", source_port=9, destination_port=99, hops=9, echo=999
    )


BASE = {
    "TCP": Datagram(TCP, "10.0.0.1", "10.0.0.2", 1, 2, identification=5, sequence=7, acknowledgement=8, flags=SYN),
    "UDP": Datagram(wire.UDP, "10.0.0.1", "10.0.0.2", 1, 2, identification=5, payload=b"nl0123456789 more"),
    "SCTP": Datagram(SCTP, "10.0.0.1", "10.0.0.2", 1, 2, identification=5, payload=wire.init_chunk(77)),
    "echo": Datagram(ICMP, "10.0.0.1", "10.0.0.2", identification=5, icmp=(8, 0), echo=3, payload=b"nl0123456789"),
    "error": Datagram(
        ICMP,
        "10.0.0.1",
        "10.0.0.2",
        identification=5,
        icmp=(3, 3),
        quoted=Datagram(TCP, "10.0.0.2", "10.0.0.1", 1, 2, identification=6, sequence=7),
    ),
}


@pytest.mark.parametrize("packet", BASE.values(), ids=BASE)
def test_key_is_what_nat_keeps(packet: Datagram) -> None:
    before, after = parse_packet(wire.whole(packet)), parse_packet(wire.whole(same_packet_elsewhere(packet)))
    assert before is not None
    assert after is not None
    assert before.key == after.key
    assert before.addresses != after.addresses


@pytest.mark.parametrize("packet", BASE.values(), ids=BASE)
def test_key_tells_other_packets(packet: Datagram) -> None:
    others = [packet.changed(identification=6)]
    if packet.protocol == TCP:
        others += [packet.changed(sequence=8), packet.changed(acknowledgement=9), packet.changed(flags=SYN | ACK)]
        others += [packet.changed(flags=RST)]
    elif packet.quoted is not None:
        others += [packet.changed(icmp=(3, 1)), packet.changed(quoted=packet.quoted.changed(identification=7))]
    else:
        others += [packet.changed(payload=b"nl99" + packet.payload[4:])]
    if packet.icmp == (8, 0):
        others += [packet.changed(icmp=(0, 0))]
    keys = {parse_packet(wire.whole(each)).key for each in (packet, *others)}  # type: ignore[union-attr]
    assert len(keys) == 1 + len(others)


@pytest.mark.parametrize("six", [False, True])
@pytest.mark.parametrize("packet", BASE.values(), ids=BASE)
def test_trace_record_has_the_same_key_as_the_frame(packet: Datagram, six: bool) -> None:
    """A record has the first 20 bytes from the transport header on."""
    if six:
        packet = packet.changed(source="fd00::1", destination="fd00::2")
        if packet.quoted is not None:
            quoted = packet.quoted.changed(source="fd00::2", destination="fd00::1")
            packet = packet.changed(protocol=ICMPV6, icmp=(1, 4), quoted=quoted)
    whole = parse_packet(wire.whole(packet))
    traced = parse_trace(wire.network_header(packet), wire.transport_part(packet)[:20])
    assert whole is not None
    assert traced is not None
    assert traced.key == whole.key
    assert (traced.addresses, traced.hops) == (whole.addresses, whole.hops)


@settings(PROFILE, max_examples=300)
@given(data=st.binary(max_size=120), vxlan=st.booleans(), kind=st.sampled_from((0x0800, 0x86DD, 0x0806, 0x8100, 0)))
def test_no_bytes_are_too_strange(data: bytes, vxlan: bool, kind: int) -> None:
    frame = bytes(12) + kind.to_bytes(2) + data
    parse_frame(frame, vxlan)
    parse_frame(data, vxlan)
    parse_neighbour_question(frame)
    parse_trace(data[:40], data[40:60])


@settings(PROFILE, max_examples=150)
@given(cut=st.integers(0, 90), packet=st.sampled_from(list(BASE.values())))
def test_packets_may_be_cut_off_anywhere(cut: int, packet: Datagram) -> None:
    found = parse_packet(wire.whole(packet)[:cut])
    assert found is None or found.source == packet.source
