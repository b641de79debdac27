"""A frame's bytes as fields: Ethernet, ARP, IPv4, IPv6, TCP, UDP, SCTP, ICMP, and VXLAN around them.

Damaged or cut frames give the fields that are there. Names are Wireshark's and tcpdump's.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, field

PROTOCOLS = {1: "ICMP", 6: "TCP", 17: "UDP", 58: "ICMPv6", 132: "SCTP"}
ETHERTYPES = {0x0800: "IPv4", 0x0806: "ARP", 0x86DD: "IPv6"}
TCP_FLAGS = ("FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR")
ICMP_TYPES = {0: "echo reply", 3: "destination unreachable", 8: "echo request", 11: "time exceeded"}
ICMP6_TYPES = {
    1: "destination unreachable",
    3: "time exceeded",
    128: "echo request",
    129: "echo reply",
    135: "neighbour solicitation",
    136: "neighbour advertisement",
}
UNREACHABLE = {0: "net", 1: "host", 2: "protocol", 3: "port", 4: "fragmentation needed", 13: "prohibited"}
VXLAN_PORT = 4789


@dataclass
class Field:
    """A header, or a field of one. ``begin`` and ``end`` are offsets in the frame; ``role`` is "source" or
    "destination" for what makes up the packet's addresses."""

    name: str
    value: str
    begin: int
    end: int
    role: str = ""
    fields: list[Field] = field(default_factory=list)


class _Short(Exception):
    """The frame ends before the header does."""


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.layers: list[Field] = []

    def need(self, begin: int, size: int) -> bytes:
        if begin + size > len(self.data):
            raise _Short
        return self.data[begin : begin + size]

    def number(self, begin: int, size: int) -> int:
        return int.from_bytes(self.need(begin, size), "big")

    def layer(self, name: str, begin: int, size: int) -> Field:
        self.need(begin, size)
        made = Field(name, "", begin, begin + size)
        self.layers.append(made)
        return made


def dissect(data: bytes) -> list[Field]:
    """The frame's headers, outermost first, and its payload."""
    reader = _Reader(data)
    try:
        _ethernet(reader, 0)
    except _Short:
        begin = reader.layers[-1].end if reader.layers else 0
        if begin < len(data):
            reader.layers.append(Field("Data", f"{len(data) - begin} bytes, cut short", begin, len(data)))
    return reader.layers


def summary(data: bytes) -> str:
    """One line for a list of packets: the innermost protocol and what it says."""
    for layer in reversed(dissect(data)):
        if layer.name not in ("Data", "Ethernet"):
            return f"{layer.name} {layer.value}".strip()
    return "Ethernet"


def addresses(data: bytes) -> tuple[str, str, str]:
    """Source, destination and protocol, of the innermost packet."""
    source = destination = protocol = ""
    for layer in dissect(data):
        if layer.name in ("IPv4", "IPv6"):
            source, destination = layer.value.split(" → ")
        if layer.name not in ("Data", "Ethernet"):
            protocol = layer.name
    return source, destination, protocol


def _add(
    layer: Field, reader: _Reader, name: str, offset: int, size: int, show: Callable[[int], str] = str, role: str = ""
) -> int:
    begin = layer.begin + offset
    value = reader.number(begin, size)
    layer.fields.append(Field(name, show(value), begin, begin + size, role))
    return value


def _mac(value: int) -> str:
    return ":".join(f"{byte:02x}" for byte in value.to_bytes(6, "big"))


def _ip4(value: int) -> str:
    return str(ipaddress.IPv4Address(value))


def _ip6(value: int) -> str:
    return str(ipaddress.IPv6Address(value))


def _hex(width: int) -> Callable[[int], str]:
    return lambda value: f"0x{value:0{width}x}"


def _ethernet(reader: _Reader, at: int) -> None:
    layer = reader.layer("Ethernet", at, 14)
    _add(layer, reader, "destination", 0, 6, _mac)
    _add(layer, reader, "source", 6, 6, _mac)
    kind = _add(layer, reader, "type", 12, 2, lambda value: f"{ETHERTYPES.get(value, '?')} (0x{value:04x})")
    layer.value = f"{layer.fields[1].value} → {layer.fields[0].value}"
    if kind == 0x0800:
        _ipv4(reader, at + 14)
    elif kind == 0x86DD:
        _ipv6(reader, at + 14)
    elif kind == 0x0806:
        _arp(reader, at + 14)
    else:
        _rest(reader, at + 14)


def _arp(reader: _Reader, at: int) -> None:
    layer = reader.layer("ARP", at, 28)
    question = _add(layer, reader, "operation", 6, 2, lambda value: {1: "request", 2: "reply"}.get(value, str(value)))
    _add(layer, reader, "sender MAC", 8, 6, _mac)
    _add(layer, reader, "sender address", 14, 4, _ip4)
    _add(layer, reader, "target MAC", 18, 6, _mac)
    _add(layer, reader, "target address", 24, 4, _ip4)
    sender, target = layer.fields[2].value, layer.fields[4].value
    layer.value = f"who has {target}? tell {sender}" if question == 1 else f"{sender} is at {layer.fields[1].value}"


def _ipv4(reader: _Reader, at: int) -> None:
    size = (reader.number(at, 1) & 0x0F) * 4
    layer = reader.layer("IPv4", at, max(size, 20))
    _add(layer, reader, "total length", 2, 2)
    _add(layer, reader, "identification", 4, 2, _hex(4))
    fragment = _add(layer, reader, "flags, fragment offset", 6, 2, _fragment)
    _add(layer, reader, "TTL", 8, 1)
    protocol = _add(layer, reader, "protocol", 9, 1, lambda value: f"{PROTOCOLS.get(value, '?')} ({value})")
    _add(layer, reader, "header checksum", 10, 2, _hex(4))
    _add(layer, reader, "source", 12, 4, _ip4, "source")
    _add(layer, reader, "destination", 16, 4, _ip4, "destination")
    layer.value = f"{layer.fields[-2].value} → {layer.fields[-1].value}"
    if fragment & 0x1FFF:
        _rest(reader, layer.end)
    else:
        _transport(reader, layer.end, protocol)


def _fragment(value: int) -> str:
    flags = [name for bit, name in ((0x4000, "DF"), (0x2000, "MF")) if value & bit]
    return f"{' '.join(flags) or '-'}, {(value & 0x1FFF) * 8}"


def _ipv6(reader: _Reader, at: int) -> None:
    layer = reader.layer("IPv6", at, 40)
    _add(layer, reader, "payload length", 4, 2)
    following = _add(layer, reader, "next header", 6, 1, lambda value: f"{PROTOCOLS.get(value, '?')} ({value})")
    _add(layer, reader, "hop limit", 7, 1)
    _add(layer, reader, "source", 8, 16, _ip6, "source")
    _add(layer, reader, "destination", 24, 16, _ip6, "destination")
    layer.value = f"{layer.fields[-2].value} → {layer.fields[-1].value}"
    _transport(reader, at + 40, following)


def _transport(reader: _Reader, at: int, protocol: int) -> None:
    known = {6: _tcp, 17: _udp, 132: _sctp, 1: _icmp, 58: _icmp6}.get(protocol)
    if known is not None:
        known(reader, at)
    else:
        _rest(reader, at)


def _ports(layer: Field, reader: _Reader) -> None:
    source = _add(layer, reader, "source port", 0, 2, role="source")
    destination = _add(layer, reader, "destination port", 2, 2, role="destination")
    layer.value = f"{source} → {destination}"


def _tcp(reader: _Reader, at: int) -> None:
    size = (reader.number(at + 12, 1) >> 4) * 4
    layer = reader.layer("TCP", at, max(size, 20))
    _ports(layer, reader)
    _add(layer, reader, "sequence number", 4, 4)
    _add(layer, reader, "acknowledgement number", 8, 4)
    flags = _add(layer, reader, "flags", 13, 1, _tcp_flags)
    _add(layer, reader, "window", 14, 2)
    _add(layer, reader, "checksum", 16, 2, _hex(4))
    layer.value += f" [{_tcp_flags(flags)}]"
    _rest(reader, layer.end)


def _tcp_flags(value: int) -> str:
    return " ".join(name for bit, name in enumerate(TCP_FLAGS) if value >> bit & 1) or "-"


def _udp(reader: _Reader, at: int) -> None:
    layer = reader.layer("UDP", at, 8)
    _ports(layer, reader)
    _add(layer, reader, "length", 4, 2)
    _add(layer, reader, "checksum", 6, 2, _hex(4))
    if reader.number(at + 2, 2) == VXLAN_PORT and len(reader.data) >= at + 8 + 8 + 14:
        outer = reader.layer("VXLAN", at + 8, 8)
        network = _add(outer, reader, "VNI", 4, 3)
        outer.value = f"VNI {network}"
        _ethernet(reader, at + 16)
    else:
        _rest(reader, at + 8)


def _sctp(reader: _Reader, at: int) -> None:
    layer = reader.layer("SCTP", at, 12)
    _ports(layer, reader)
    _add(layer, reader, "verification tag", 4, 4, _hex(8))
    _add(layer, reader, "checksum", 8, 4, _hex(8))
    _rest(reader, at + 12)


def _icmp(reader: _Reader, at: int) -> None:
    layer = reader.layer("ICMP", at, 8)
    kind = _add(layer, reader, "type", 0, 1, lambda value: f"{ICMP_TYPES.get(value, '?')} ({value})")
    code = _add(layer, reader, "code", 1, 1)
    _add(layer, reader, "checksum", 2, 2, _hex(4))
    layer.value = ICMP_TYPES.get(kind, f"type {kind}")
    if kind == 3:
        layer.value = f"{UNREACHABLE.get(code, f'code {code}')} unreachable"
    if kind in (0, 8):
        _add(layer, reader, "identifier", 4, 2, _hex(4))
        _add(layer, reader, "sequence", 6, 2)
    _rest(reader, at + 8)


def _icmp6(reader: _Reader, at: int) -> None:
    layer = reader.layer("ICMPv6", at, 8)
    kind = _add(layer, reader, "type", 0, 1, lambda value: f"{ICMP6_TYPES.get(value, '?')} ({value})")
    _add(layer, reader, "code", 1, 1)
    _add(layer, reader, "checksum", 2, 2, _hex(4))
    layer.value = ICMP6_TYPES.get(kind, f"type {kind}")
    _rest(reader, at + 8)


def _rest(reader: _Reader, at: int) -> None:
    if at < len(reader.data):
        rest = reader.data[at:]
        text = rest.split(b"\r\n")[0][:60].decode("ascii", "replace")
        shown = f"{len(rest)} bytes" + (f", {text}" if text.isprintable() and len(text) > 3 else "")
        reader.layers.append(Field("Data", shown, at, len(reader.data)))
