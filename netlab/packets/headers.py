"""Headers of frames and of trace records, read just as far as following a packet takes.

A packet's :attr:`Packet.key` is what NAT keeps of it: sequence numbers, flags, payload, the IP identification; not
addresses, ports, checksums and hop limits. Two sightings with one key are one packet, wherever they are.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

from netlab.model.walk import endpoint_text

ICMP, TCP, UDP, ICMPV6, SCTP = 1, 6, 17, 58, 132
PROTOCOL_NAMES = {ICMP: "icmp", TCP: "tcp", UDP: "udp", ICMPV6: "icmpv6", SCTP: "sctp"}

FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10

_ETHERTYPE_IPV4, _ETHERTYPE_IPV6, _ETHERTYPE_ARP = 0x0800, 0x86DD, 0x0806
_ETHERTYPE_VLAN = 0x8100
_ICMP_ERRORS = {3, 4, 5, 11, 12}
_ICMPV6_ERRORS = {1, 2, 3, 4}
_ROUTING_ERRORS = {(3, 0), (3, 1), (3, 4), (11, 0)}
_ROUTING_ERRORS_6 = {(1, 0), (1, 3), (2, 0), (3, 0)}
_NUMBERED = {(8, 0), (0, 0), (13, 0), (14, 0), (128, 0), (129, 0)}
"""ICMP with an identifier and a sequence number: pings and questions for the time, and their answers."""
_EXTENSION_HEADERS = {0, 43, 60}
_FRAGMENT_HEADER = 44
_KEY_PAYLOAD = 12
VXLAN_PORT = 4789


@dataclass(frozen=True, slots=True)
class Packet:
    """One IP packet. Fields that its protocol does not have are None. ``hops`` is the TTL or hop limit: routers count
    it down. ``inner`` is the packet that an ICMP error quotes; ``outer`` the packet that this one was found inside of
    (VXLAN)."""

    family: int
    protocol: int
    hops: int
    source: str
    destination: str
    source_port: int | None
    destination_port: int | None
    sequence: int | None
    acknowledgement: int | None
    flags: int
    icmp: tuple[int, int] | None
    payload: bytes
    key: tuple[object, ...]
    inner: Packet | None = None
    outer: Packet | None = None

    @property
    def verification_tag(self) -> bytes | None:
        """SCTP's verification tag."""
        tag = self.key[3] if self.protocol == SCTP else None
        return tag if isinstance(tag, bytes) and len(tag) == 4 else None

    @property
    def is_abort(self) -> bool:
        """Whether the packet is SCTP's refusal (RFC 9260, 3.3.7)."""
        return self.protocol == SCTP and self.payload[:1] == b"\x06"

    @property
    def source_text(self) -> str:
        return endpoint_text(self.source, self.source_port)

    @property
    def destination_text(self) -> str:
        return endpoint_text(self.destination, self.destination_port)

    @property
    def addresses(self) -> tuple[str, str]:
        """Source and destination as texts."""
        return self.source_text, self.destination_text

    @property
    def is_icmp_error(self) -> bool:
        errors = _ICMP_ERRORS if self.protocol == ICMP else _ICMPV6_ERRORS
        return self.icmp is not None and self.icmp[0] in errors

    @property
    def is_echo_reply(self) -> bool:
        return self.icmp in ((0, 0), (14, 0), (129, 0))

    @property
    def echo_sequence(self) -> int | None:
        """The sequence number of a ping, which NAT keeps (it may change the identifier)."""
        number = self.key[5] if self.icmp in _NUMBERED and len(self.key) == 7 else None
        return int.from_bytes(number) if isinstance(number, bytes) else None

    @property
    def is_out_of_hops(self) -> bool:
        """Whether the packet is the error about one whose hops were used up."""
        return self.icmp == ((11, 0) if self.protocol == ICMP else (3, 0))

    @property
    def is_protocol_error(self) -> bool:
        """Whether the packet is the error about one in a protocol that nothing speaks (RFC 792; RFC 4443, 3.4)."""
        return self.icmp == ((3, 2) if self.protocol == ICMP else (4, 1))

    @property
    def is_routing_error(self) -> bool:
        """Whether routing itself makes such an error: no way on, no neighbour, too big, no hops left."""
        return self.icmp in (_ROUTING_ERRORS if self.protocol == ICMP else _ROUTING_ERRORS_6)


_ICMP_NAMES = {
    (3, 0): "net unreachable",
    (3, 1): "host unreachable",
    (3, 2): "protocol unreachable",
    (3, 3): "port unreachable",
    (3, 4): "fragmentation needed",
    (3, 9): "net prohibited",
    (3, 10): "host prohibited",
    (3, 13): "administratively prohibited",
    (11, 0): "time exceeded",
}
_ICMPV6_NAMES = {
    (1, 0): "no route",
    (1, 1): "administratively prohibited",
    (1, 3): "address unreachable",
    (1, 4): "port unreachable",
    (2, 0): "packet too big",
    (3, 0): "time exceeded",
    (4, 1): "unknown next header",
}


def icmp_name(packet: Packet) -> str:
    """An ICMP error's name, as tcpdump has it: "ICMP port unreachable"."""
    names = _ICMP_NAMES if packet.protocol == ICMP else _ICMPV6_NAMES
    kind = packet.icmp or (0, 0)
    family = "ICMP" if packet.protocol == ICMP else "ICMPv6"
    return f"{family} {names.get(kind, f'type {kind[0]} code {kind[1]}')}"


@dataclass(frozen=True, slots=True)
class NeighbourQuestion:
    """Who has ``address``? Or (``is_answer``) somebody's answer that it does. ARP, or neighbour discovery of IPv6."""

    address: str
    is_answer: bool


def parse_frame(data: bytes, vxlan: bool = False) -> Packet | None:
    """The IP packet in an Ethernet frame; None where there is none. ``vxlan``: look into VXLAN."""
    if len(data) < 14:
        return None
    kind, offset = struct.unpack_from("!H", data, 12)[0], 14
    if kind == _ETHERTYPE_VLAN and len(data) >= 18:
        kind, offset = struct.unpack_from("!H", data, 16)[0], 18
    if kind not in (_ETHERTYPE_IPV4, _ETHERTYPE_IPV6):
        return None
    packet = parse_packet(data[offset:])
    if packet is not None and vxlan and packet.protocol == UDP and packet.destination_port == VXLAN_PORT:
        inner = parse_frame(packet.payload[8:])
        if inner is not None:
            return _inside(inner, packet)
    return packet


def destination_mac(data: bytes) -> str:
    """Whom a frame is addressed to."""
    return ":".join(f"{byte:02x}" for byte in data[:6])


def parse_neighbour_question(data: bytes) -> NeighbourQuestion | None:
    """The question or answer in a frame of ARP (RFC 826) or of neighbour discovery (RFC 4861)."""
    if len(data) < 42:
        return None
    kind = struct.unpack_from("!H", data, 12)[0]
    if kind == _ETHERTYPE_ARP:
        hardware, protocol, _, _, operation = struct.unpack_from("!HHBBH", data, 14)
        if (hardware, protocol) != (1, _ETHERTYPE_IPV4) or operation not in (1, 2):
            return None
        address = data[38:42] if operation == 1 else data[28:32]
        return NeighbourQuestion(socket.inet_ntoa(address), operation == 2)
    packet = parse_frame(data) if kind == _ETHERTYPE_IPV6 else None
    if packet is None or packet.icmp not in ((135, 0), (136, 0)) or len(packet.payload) < 16:
        return None
    return NeighbourQuestion(socket.inet_ntop(socket.AF_INET6, packet.payload[:16]), packet.icmp == (136, 0))


def parse_packet(data: bytes) -> Packet | None:
    """An IP packet from its first byte; it may be cut off behind the headers that matter."""
    header = _ip_header(data)
    if header is None:
        return None
    return _packet(*header)


def parse_trace(network: bytes, transport: bytes) -> Packet | None:
    """The packet of a trace record, which has the first bytes of the two headers apart."""
    header = _ip_header(network)
    if header is None:
        return None
    return _packet(*header[:-1], transport)


def is_later_fragment(data: bytes) -> bool:
    """Whether an IP packet is a fragment other than the first: those have no transport header."""
    if len(data) >= 20 and data[0] >> 4 == 4:
        return bool(struct.unpack_from("!H", data, 6)[0] & 0x1FFF)
    is_fragment = len(data) >= 48 and data[0] >> 4 == 6 and data[6] == _FRAGMENT_HEADER
    return is_fragment and bool(struct.unpack_from("!H", data, 42)[0] >> 3)


def _inside(inner: Packet, outer: Packet) -> Packet:
    values = {name: getattr(inner, name) for name in inner.__slots__}
    return Packet(**{**values, "outer": outer})


def _ip_header(data: bytes) -> tuple[int, int, int, str, str, int, bytes] | None:
    """Family, protocol, hops left, source, destination, identification (IPv6: flow label), and what follows."""
    if len(data) < 20:
        return None
    version = data[0] >> 4
    if version == 4:
        length = (data[0] & 0xF) * 4
        total, identification, fragment = struct.unpack_from("!HHH", data, 2)
        if fragment & 0x1FFF:
            return None
        source, destination = socket.inet_ntoa(data[12:16]), socket.inet_ntoa(data[16:20])
        return 4, data[9], data[8], source, destination, identification, data[length : max(total, length)]
    if version == 6 and len(data) >= 40:
        label = struct.unpack_from("!I", data)[0] & 0xFFFFF
        source = socket.inet_ntop(socket.AF_INET6, data[8:24])
        destination = socket.inet_ntop(socket.AF_INET6, data[24:40])
        protocol, offset = data[6], 40
        while protocol in (*_EXTENSION_HEADERS, _FRAGMENT_HEADER) and offset + 8 <= len(data):
            if protocol == _FRAGMENT_HEADER and struct.unpack_from("!H", data, offset + 2)[0] >> 3:
                return None
            length = 0 if protocol == _FRAGMENT_HEADER else data[offset + 1]
            protocol, offset = data[offset], offset + 8 + length * 8
        end = 40 + int(struct.unpack_from("!H", data, 4)[0])
        return 6, protocol, data[7], source, destination, label, data[offset : max(end, offset)]
    return None


def _packet(
    family: int, protocol: int, hops: int, source: str, destination: str, identification: int, body: bytes
) -> Packet:
    source_port = destination_port = sequence = acknowledgement = None
    flags = 0
    icmp: tuple[int, int] | None = None
    payload = b""
    inner: Packet | None = None
    kept: tuple[object, ...] = (body[:20],)
    if protocol in (TCP, UDP, SCTP) and len(body) >= 8:
        source_port, destination_port = struct.unpack_from("!HH", body)
    if protocol == TCP and len(body) >= 8:
        # As much as the shortest quotation in an ICMP error has.
        sequence = struct.unpack_from("!I", body, 4)[0]
    if protocol == TCP and len(body) >= 20:
        sequence, acknowledgement, offset_flags, window, _, urgent = struct.unpack_from("!IIHHHH", body, 4)
        flags = offset_flags & 0x1FF
        payload = body[(offset_flags >> 12) * 4 :]
        kept = (sequence, acknowledgement, offset_flags, window, urgent)
    elif protocol == UDP and len(body) >= 8:
        length = struct.unpack_from("!H", body, 4)[0]
        payload = body[8:]
        kept = (length, payload[:_KEY_PAYLOAD])
    elif protocol == SCTP and len(body) >= 12:
        payload = body[12:]
        kept = (body[4:8], body[12:20])
    elif protocol in (ICMP, ICMPV6) and len(body) >= 8:
        icmp = (body[0], body[1])
        payload = body[8:]
        errors = _ICMP_ERRORS if protocol == ICMP else _ICMPV6_ERRORS
        if body[0] in errors:
            inner = parse_packet(payload)
            kept = ("error", *icmp, *_quoted(payload))
        else:
            kept = (*icmp, body[6:8], payload[:_KEY_PAYLOAD])
    return Packet(
        family=family,
        protocol=protocol,
        hops=hops,
        source=source,
        destination=destination,
        source_port=source_port,
        destination_port=destination_port,
        sequence=sequence,
        acknowledgement=acknowledgement,
        flags=flags,
        icmp=icmp,
        payload=payload,
        key=(family, protocol, identification, *kept),
        inner=inner,
    )


def _quoted(data: bytes) -> tuple[object, ...]:
    """What tells a quoted packet, from the twelve bytes of it that even a trace record has."""
    if len(data) >= 12 and data[0] >> 4 == 4:
        total, identification = struct.unpack_from("!HH", data, 2)
        return total, identification, data[9]
    if len(data) >= 8 and data[0] >> 4 == 6:
        label = struct.unpack_from("!I", data)[0] & 0xFFFFF
        return label, struct.unpack_from("!H", data, 4)[0], data[6]
    return (data[:12],)
