"""IP packets as values and as bytes, for the simulator; written from the RFCs, apart from the code under test."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, replace

ICMP, TCP, UDP, ICMPV6, SCTP = 1, 6, 17, 58, 132
FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10
PORT_PROTOCOLS = (TCP, UDP, SCTP)
VXLAN_PORT = 4789


@dataclass(frozen=True)
class Datagram:
    """One IP packet. ``hops`` is the TTL or hop limit, ``identification`` IPv6's flow label, ``echo`` ICMP's echo
    identifier (``sequence`` its number, where it is not 1), ``tag`` SCTP's verification tag. ``quoted`` is what an ICMP
    error quotes."""

    protocol: int
    source: str
    destination: str
    source_port: int = 0
    destination_port: int = 0
    hops: int = 64
    identification: int = 0
    sequence: int = 0
    acknowledgement: int = 0
    flags: int = 0
    icmp: tuple[int, int] = (0, 0)
    echo: int = 0
    tag: int = 0
    payload: bytes = b""
    quoted: Datagram | None = None

    @property
    def family(self) -> int:
        return 6 if ":" in self.source else 4

    @property
    def is_error(self) -> bool:
        return self.quoted is not None

    @property
    def has_ports(self) -> bool:
        return self.protocol in PORT_PROTOCOLS

    @property
    def source_text(self) -> str:
        return address_text(self.source, self.source_port if self.has_ports else None)

    @property
    def destination_text(self) -> str:
        return address_text(self.destination, self.destination_port if self.has_ports else None)

    def changed(self, **values: object) -> Datagram:
        return replace(self, **values)  # type: ignore[arg-type]


def address_text(address: str, port: int | None) -> str:
    if port is None:
        return address
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def packed(address: str) -> bytes:
    return socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)


def network_header(packet: Datagram) -> bytes:
    length = len(transport_part(packet))
    source, destination = packed(packet.source), packed(packet.destination)
    if packet.family == 4:
        start = struct.pack(
            "!BBHHHBBH", 0x45, 0, 20 + length, packet.identification, 0x4000, packet.hops, packet.protocol, 0
        )
        return start + source + destination
    first = 6 << 28 | packet.identification
    return struct.pack("!IHBB", first, length, packet.protocol, packet.hops) + source + destination


def transport_part(packet: Datagram) -> bytes:
    """The transport header and what follows. Checksums are left out: nothing looks at them."""
    ports = struct.pack("!HH", packet.source_port, packet.destination_port)
    if packet.protocol == TCP:
        numbers = struct.pack("!IIHHHH", packet.sequence, packet.acknowledgement, 5 << 12 | packet.flags, 64240, 0, 0)
        return ports + numbers + packet.payload
    if packet.protocol == UDP:
        return ports + struct.pack("!HH", 8 + len(packet.payload), 0) + packet.payload
    if packet.protocol == SCTP:
        return ports + struct.pack("!II", packet.tag, 0) + packet.payload
    kind, code = packet.icmp
    if packet.quoted is not None:
        return struct.pack("!BBHI", kind, code, 0, 0) + whole(packet.quoted)
    return struct.pack("!BBHHH", kind, code, 0, packet.echo, packet.sequence or 1) + packet.payload


def whole(packet: Datagram) -> bytes:
    return network_header(packet) + transport_part(packet)


def ethernet(source: str, destination: str, packet: Datagram) -> bytes:
    return _macs(source, destination) + struct.pack("!H", 0x0800 if packet.family == 4 else 0x86DD) + whole(packet)


def arp_question(source: str, sender: str, target: str) -> bytes:
    """Who has ``target``? ARP, or a neighbour solicitation."""
    if ":" in target:
        packet = Datagram(ICMPV6, sender, "ff02::1:ff00:1", icmp=(135, 0), payload=packed(target), hops=255)
        # A solicitation has four reserved bytes where an echo has its identifier and number.
        return ethernet(source, "33:33:ff:00:00:01", packet)
    body = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + _mac(source) + packed(sender) + bytes(6) + packed(target)
    return _macs(source, "ff:ff:ff:ff:ff:ff") + struct.pack("!H", 0x0806) + body


def vxlan_payload(frame: bytes) -> bytes:
    return struct.pack("!II", 0x08000000, 1 << 8) + frame


def init_chunk(tag: int) -> bytes:
    """SCTP's INIT (RFC 9260, 3.3.2)."""
    return struct.pack("!BBHIIHHI", 1, 0, 20, tag, 65536, 10, 10, 1)


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def _macs(source: str, destination: str) -> bytes:
    return _mac(destination) + _mac(source)
