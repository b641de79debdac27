"""Crafted packets: scapy layers, written as an expression that is parsed and never evaluated.

scapy is imported when the first packet is crafted. What the expression leaves open is chosen as a kernel would choose
it: source address by route, a free port, random numbers; never from the host that the lab runs on.
"""

from __future__ import annotations

import ast
import asyncio
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

from netlab.kernel import nftables
from netlab.model.errors import BadInput
from netlab.model.text import Message
from netlab.model.walk import endpoint_text
from netlab.objects.ip import parse_ip
from netlab.packets.headers import ACK, FIN, ICMP, ICMPV6, SCTP, SYN, TCP, UDP, Packet, parse_frame, parse_packet
from netlab.packets.observation import Mark, Outcome
from netlab.packets.probe import Probe
from netlab.packets.targets import Target, split_target

if TYPE_CHECKING:
    from scapy.packet import Packet as ScapyPacket

LIMIT_CHARACTERS = 10_000
LIMIT_DEPTH = 50
LIMIT_BYTES = 65_000
_SHORTEST_MARK = 8
"""Bytes of payload that other packets do not begin with by chance."""

SYNTAX = Message(
    "packet.syntax",
    en='--packet: column {column}: {what}; layers are written as in IP(dst="10.96.0.1")/UDP(dport=53)/"text"',
    zh='--packet：第 {column} 列：{what}；各层的写法如 IP(dst="10.96.0.1")/UDP(dport=53)/"text"',
)
UNKNOWN_LAYER = Message(
    "packet.unknown-layer",
    en="--packet: column {column}: scapy has no layer {name}{hint}",
    zh="--packet：第 {column} 列：scapy 没有名为 {name} 的层{hint}",
)
UNKNOWN_FIELD = Message(
    "packet.unknown-field",
    en="--packet: column {column}: the layer {layer} has no field {name}; it has {known}",
    zh="--packet：第 {column} 列：层 {layer} 没有字段 {name}；它有 {known}",
)
UNUSABLE = Message(
    "packet.unusable",
    en="--packet: the packet cannot be built: {what}",
    zh="--packet：无法构造该数据包：{what}",
)
NO_IP = Message(
    "packet.no-ip",
    en="--packet: the packet needs an IP or IPv6 layer with one destination",
    zh="--packet：数据包需要一个 IP 或 IPv6 层，且只有一个目标",
)
DIFFERENT_TARGET = Message(
    "packet.different-target",
    en="--packet goes to {packet}, but --to says {to}",
    zh="--packet 发往 {packet}，而 --to 为 {to}",
)
EMPTY = Message("packet.empty", en="", zh="")
DID_YOU_MEAN = Message("packet.did-you-mean", en=" (did you mean {name}?)", zh=" (您是否想写 {name}？)")


class FrameFeed(Protocol):
    """The frames at the sender's interfaces, as they are captured."""

    async def next_frames(self) -> list[bytes]:
        """Frames since the last call; waits until there is one."""
        ...


def parse_expression(text: str) -> ScapyPacket:
    """The packet that an expression stands for: layers joined by "/", each a name with literal field values.

    A value may be a number, text, bytes, a list of values, or a layer again; a bare text or bytes is a payload.
    Raises :class:`BadInput`. Nothing in the text is executed.
    """
    if len(text) > LIMIT_CHARACTERS:
        raise BadInput(SYNTAX(column=LIMIT_CHARACTERS, what=f"longer than {LIMIT_CHARACTERS} characters"))
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        column = getattr(error, "offset", None) or 1
        raise BadInput(SYNTAX(column=column, what=str(getattr(error, "msg", error)))) from error
    packet = _Builder().value(tree.body, 0)
    if not _is_packet(packet):
        raise BadInput(SYNTAX(column=1, what="a layer is expected"))
    return cast("ScapyPacket", packet)


def _is_packet(value: object) -> bool:
    from scapy.packet import Packet

    return isinstance(value, Packet)


class _Builder:
    """Turns the syntax tree into layers. Only what is listed here has a meaning."""

    def __init__(self) -> None:
        from scapy.packet import Raw

        self.layers = _known_layers()
        self.raw: Callable[..., Any] = Raw

    def value(self, node: ast.expr, depth: int) -> Any:
        if depth > LIMIT_DEPTH:
            raise BadInput(SYNTAX(column=node.col_offset + 1, what="nested too deeply"))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            return self._joined(node, depth)
        if isinstance(node, ast.Call):
            return self._layer(node, depth)
        if isinstance(node, ast.List | ast.Tuple):
            values = [self.value(each, depth + 1) for each in node.elts]
            return values if isinstance(node, ast.List) else tuple(values)
        if isinstance(node, ast.Name):
            return self._layer(ast.Call(node, [], [], col_offset=node.col_offset, lineno=node.lineno), depth)
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError, MemoryError, RecursionError) as error:
            what = f"{ast.unparse(node)[:40]} is no layer and no literal value"
            raise BadInput(SYNTAX(column=node.col_offset + 1, what=what)) from error

    def _joined(self, node: ast.BinOp, depth: int) -> Any:
        left, right = self.value(node.left, depth + 1), self.value(node.right, depth + 1)
        for side, value in ((node.left, left), (node.right, right)):
            if not _is_packet(value) and not isinstance(value, str | bytes):
                raise BadInput(SYNTAX(column=side.col_offset + 1, what="only layers and payloads can be joined"))
        if isinstance(left, str | bytes):
            left = self.raw(load=left)
        return left / (self.raw(load=right) if isinstance(right, str | bytes) else right)

    def _layer(self, node: ast.Call, depth: int) -> Any:
        column = node.col_offset + 1
        if not isinstance(node.func, ast.Name):
            raise BadInput(SYNTAX(column=column, what=f"{ast.unparse(node.func)[:40]} is no layer"))
        name = node.func.id
        layer = self.layers.get(name)
        if layer is None:
            near = next((known for known in self.layers if known.lower() == name.lower()), None)
            hint = DID_YOU_MEAN(name=near) if near else EMPTY()
            raise BadInput(UNKNOWN_LAYER(column=column, name=name, hint=hint))
        values: dict[str, Any] = {}
        if node.args:
            if name != "Raw" or len(node.args) > 1:
                raise BadInput(SYNTAX(column=column, what=f"the fields of {name} need names"))
            values["load"] = self.value(node.args[0], depth + 1)
        fields = [each.name for each in layer.fields_desc]
        for keyword in node.keywords:
            if keyword.arg is None or keyword.arg not in fields:
                known = ", ".join(fields)
                place = keyword.value.col_offset + 1
                raise BadInput(UNKNOWN_FIELD(column=place, layer=name, name=keyword.arg or "**", known=known))
            values[keyword.arg] = self.value(keyword.value, depth + 1)
        try:
            return layer(**values)
        except Exception as error:
            raise BadInput(UNUSABLE(what=f"{name}: {error}")) from error


def _known_layers() -> Mapping[str, Any]:
    """scapy's own layers by name."""
    import scapy.layers.all  # noqa: F401
    from scapy.config import conf
    from scapy.layers import sctp  # noqa: F401

    return {layer.__name__: layer for layer in conf.layers}


class CraftedProbe(Probe):
    """One crafted packet, sent as it is from where the probe is made; a reply is recognized on the wire."""

    def __init__(self, packet: ScapyPacket, destination: str | None, feed: FrameFeed) -> None:
        """``destination`` fills in what the packet leaves open, and has to agree with what it says. ``feed`` shows the
        frames at the sender. Raises :class:`BadInput`."""
        self._feed = feed
        self._held: list[socket.socket] = []
        self._packet = packet
        network = self._network_layer()
        self._version = 4 if network.name == "IP" else 6
        self._complete(network, destination)
        self._bytes = self._built()
        parsed = parse_packet(self._bytes)
        if parsed is None:
            self.close()
            raise BadInput(NO_IP())
        self.parsed = parsed
        self.target = Target(parsed.destination, parsed.destination_port)
        self.mark = _mark_of(self._bytes, self._version)
        self._wire = self._open_wire()

    def _network_layer(self) -> Any:
        for name in ("IP", "IPv6"):
            if self._packet.haslayer(name):
                return self._packet.getlayer(name)
        raise BadInput(NO_IP())

    def _complete(self, network: Any, destination: str | None) -> None:
        """Choose what is open: addresses, a free source port, numbers that nobody else uses."""
        text, number = split_target(destination) if destination else ("", "")
        host, port = text or None, int(number) if number.isdigit() else None
        transport = next((network.getlayer(name) for name in ("TCP", "UDP", "SCTP") if network.haslayer(name)), None)
        if "dst" not in network.fields and host is not None:
            network.dst = host
        if transport is not None and "dport" not in transport.fields and port is not None:
            transport.dport = port
        address = parse_ip(str(network.fields.get("dst", "")))
        if address is None:
            raise BadInput(NO_IP())
        if host is not None and (
            parse_ip(host) != address or (port is not None and transport is not None and transport.dport != port)
        ):
            there = endpoint_text(str(address), int(transport.dport) if transport is not None else None)
            raise BadInput(DIFFERENT_TARGET(packet=there, to=destination))
        source, source_port = self._own_address(str(address), transport)
        if "src" not in network.fields:
            network.src = source
        if transport is not None and "sport" not in transport.fields:
            transport.sport = source_port
        if self._version == 4 and "id" not in network.fields:
            network.id = secrets.randbelow(0xFFFF) + 1
        if self._version == 6 and "fl" not in network.fields:
            network.fl = secrets.randbelow(0xFFFFF) + 1
        if transport is not None and transport.name == "TCP" and "seq" not in transport.fields:
            transport.seq = secrets.randbits(32) or 1

    def _own_address(self, destination: str, transport: Any) -> tuple[str, int]:
        """The source that the kernel would choose, and a port that is free here; the port is held while the probe
        lives, for UDP by a socket that swallows the answer."""
        family = socket.AF_INET if self._version == 4 else socket.AF_INET6
        with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as asking:
            try:
                asking.connect((destination, 9))
                source = str(asking.getsockname()[0]).partition("%")[0]
            except OSError:
                source = "0.0.0.0" if self._version == 4 else "::"
        kind = socket.SOCK_STREAM if transport is not None and transport.name == "TCP" else socket.SOCK_DGRAM
        holder = socket.socket(family, kind | socket.SOCK_CLOEXEC)
        given = int(transport.sport) if transport is not None and "sport" in transport.fields else 0
        self._held.append(holder)
        try:
            holder.bind(("", given))
        except OSError:
            return source, given
        return source, int(holder.getsockname()[1])

    def _built(self) -> bytes:
        try:
            whole = bytes(self._packet)
            network = self._network_layer()
            data = bytes(network)
        except Exception as error:
            self.close()
            raise BadInput(UNUSABLE(what=str(error) or type(error).__name__)) from error
        if len(whole) > LIMIT_BYTES:
            self.close()
            raise BadInput(UNUSABLE(what=f"{len(whole)} bytes, at most {LIMIT_BYTES} can be sent"))
        self._frame = whole if whole != data else None
        return data

    def drops(self) -> list[bytes]:
        """The kernel knows nothing of a crafted connection and would reset it at the first answer."""
        parsed = self.parsed
        if parsed.protocol != TCP or parsed.source_port is None or parsed.destination_port is None:
            return []
        return [nftables.tcp_reset_expressions(self._version, parsed.source_port, parsed.destination_port)]

    async def run(self, timeout: float) -> Outcome:
        begin = time.perf_counter()
        error_text = None
        try:
            self._send()
            async with asyncio.timeout(timeout):
                await self._reply()
        except TimeoutError:
            error_text = "timeout"
        except OSError as error:
            error_text = error.strerror
        duration = (time.perf_counter() - begin) * 1e6
        return Outcome("sent", self.parsed.source_text, self.parsed.destination_text, duration, error_text)

    def _open_wire(self) -> socket.socket:
        """A raw socket, so that the packet passes OUTPUT like any other; for a frame with an Ethernet header of its own
        a packet socket, straight to the wire."""
        if self._frame is not None:
            wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
            wire.bind(("eth0", 0))
        else:
            family = socket.AF_INET if self._version == 4 else socket.AF_INET6
            wire = socket.socket(family, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.IPPROTO_RAW)
        self._held.append(wire)
        return wire

    def _send(self) -> None:
        if self._frame is not None:
            self._wire.send(self._frame)
        else:
            self._wire.sendto(self._bytes, (self.target.address, 0))

    async def _reply(self) -> None:
        """Until an answer is seen here; on a node it comes in before conntrack gives it back the addresses asked."""
        while True:
            for frame in await self._feed.next_frames():
                packet = parse_frame(frame)
                if packet is not None and self._is_answer(packet) and not self._is_own(packet):
                    return

    def _is_answer(self, packet: Packet) -> bool:
        asked = self.parsed
        if self.mark.is_bare and packet.protocol == asked.protocol:
            return packet.addresses == (asked.destination_text, asked.source_text)
        return self.mark.answered_by(packet)

    def _is_own(self, packet: Packet) -> bool:
        """Whether the frame is the probe itself on its way out, translated or not."""
        return packet.inner is None and packet.key == self.parsed.key

    def close(self) -> None:
        for each in self._held:
            each.close()
        self._held = []


def sctp_init(target: Target) -> ScapyPacket:
    """An SCTP INIT: what a client's first packet looks like (RFC 9260)."""
    from scapy.layers import sctp
    from scapy.layers.inet import IP
    from scapy.layers.inet6 import IPv6

    network = IP(dst=target.address) if target.family == 4 else IPv6(dst=target.address)
    tag = secrets.randbits(32) or 1
    return cast("ScapyPacket", network / sctp.SCTP(dport=target.port) / sctp.SCTPChunkInit(init_tag=tag, a_rwnd=65536))


def _mark_of(data: bytes, version: int) -> Mark:
    """What the packet will be known by: its own numbers or payload, as far as they are unlikely to come by chance."""
    packet = parse_packet(data)
    assert packet is not None
    if packet.protocol == TCP and packet.sequence is not None:
        syn, fin = bool(packet.flags & SYN), bool(packet.flags & FIN)
        ends = {packet.sequence + len(packet.payload) + syn + fin, packet.sequence + syn}
        answers = tuple(sorted(each & 0xFFFFFFFF for each in ends))
        acknowledged = packet.acknowledgement if packet.flags & ACK else None
        return Mark(TCP, sequence=packet.sequence, answers=answers, acknowledged=acknowledged)
    if packet.protocol in (UDP, ICMP, ICMPV6, SCTP) and len(packet.payload) >= _SHORTEST_MARK:
        return Mark(packet.protocol, payload=packet.payload[:12])
    start, end = (4, 6) if version == 4 else (1, 4)
    return Mark(packet.protocol, identification=int.from_bytes(data[start:end]) & (0xFFFF if version == 4 else 0xFFFFF))
