"""Crafted packets: scapy layers, sent as they are (see :mod:`netlab.packets.expression` for how they are written).

What the layers leave open is chosen as a kernel would choose it: source address by route, a free port, random numbers;
never from the host that the lab runs on.
"""

from __future__ import annotations

import asyncio
import errno
import secrets
import socket
import time
from typing import TYPE_CHECKING, Any, Protocol, cast

from netlab.kernel import nftables
from netlab.model.errors import BadInput
from netlab.model.text import Message
from netlab.model.walk import endpoint_text
from netlab.objects.ip import parse_ip
from netlab.packets.expression import UNUSABLE, first_line
from netlab.packets.fragments import fragments
from netlab.packets.headers import (
    ACK,
    FIN,
    ICMP,
    ICMPV6,
    PROTOCOL_NAMES,
    RST,
    SCTP,
    SYN,
    TCP,
    UDP,
    Packet,
    is_later_fragment,
    parse_frame,
    parse_packet,
)
from netlab.packets.observation import Mark, Outcome, SocketResult
from netlab.packets.probe import Probe, result_of
from netlab.packets.targets import (
    BAD_PROTOCOL,
    NOT_ONE_HOST,
    PROTOCOLS,
    Target,
    is_one_host,
    not_an_address,
    split_target,
)
from netlab.packets.translation import Addresses

if TYPE_CHECKING:
    from scapy.packet import Packet as ScapyPacket

LIMIT_BYTES = 65_000
_IP_MTU, _IPV6_MTU, _IPPROTO_IPV6 = 14, 24, socket.IPPROTO_IPV6
_SHORTEST_MARK = 8
"""Bytes of payload that other packets do not begin with by chance."""

NO_IP = Message(
    "packet.no-ip",
    en="--packet: the packet needs an IP or IPv6 layer with a destination",
    zh="--packet：数据包需要一个带有目标的 IP 或 IPv6 层",
)
DIFFERENT_PROTOCOL = Message(
    "packet.different-protocol",
    en="--packet is {packet}, but --proto says {protocol}",
    zh="--packet 为 {packet}，而 --proto 为 {protocol}",
)
DIFFERENT_FAMILY = Message(
    "packet.different-family",
    en="--packet has an IPv{version} header, but --to says {to}",
    zh="--packet 为 IPv{version} 头部，而 --to 为 {to}",
)
LATER_FRAGMENT = Message(
    "packet.later-fragment",
    en="--packet: a fragment other than the first has no transport header, so nothing in it can be followed",
    zh="--packet：非首个分片没有传输层头部，无法跟踪",
)
BAD_HEADER = Message("packet.bad-header", en="its IP header is none (version, ihl)", zh="其 IP 头部无效 (version、ihl)")
TOO_LONG = Message(
    "packet.too-long", en="{length} bytes, at most {limit} can be sent", zh="{length} 字节，最多可发送 {limit} 字节"
)
DIFFERENT_TARGET = Message(
    "packet.different-target",
    en="--packet goes to {packet}, but --to says {to}",
    zh="--packet 发往 {packet}，而 --to 为 {to}",
)


class FrameFeed(Protocol):
    """The frames at the sender's interfaces, as they are captured."""

    async def next_frames(self) -> list[bytes]:
        """Frames since the last call; waits until there is one."""
        ...


class CraftedProbe(Probe):
    """One crafted packet, sent as it is from where the probe is made; a reply is recognized on the wire."""

    def __init__(
        self, packet: ScapyPacket, destination: str | None, feed: FrameFeed, protocol: str | None = None
    ) -> None:
        """``destination`` fills in what the packet leaves open, and has to agree with what it says; so has
        ``protocol``. ``feed`` shows the frames at the sender. Raises :class:`BadInput`."""
        self._feed = feed
        self._held: list[socket.socket] = []
        self._packet = packet
        network = self._network_layer()
        self._version = 4 if network.name == "IP" else 6
        self._mtu = LIMIT_BYTES
        self._sent_as: set[Addresses] = set()
        try:
            self._complete(network, destination)
            self._bytes = self._built()
            self.parsed = self._parsed()
            self._check_protocol(protocol)
        except BaseException:
            self.close()
            raise
        self.target = Target(self.parsed.destination, self.parsed.destination_port)
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
        asked = parse_ip(text)
        if text and asked is None:
            raise BadInput(not_an_address(destination or "", text, "ADDR[:PORT]"))
        if asked is not None and asked.version != self._version:
            raise BadInput(DIFFERENT_FAMILY(version=self._version, to=destination))
        host, port = text or None, int(number) if number.isdecimal() else None
        transport = next((network.getlayer(name) for name in ("TCP", "UDP", "SCTP") if network.haslayer(name)), None)
        if "dst" not in network.fields and host is not None:
            network.dst = host
        if transport is not None and "dport" not in transport.fields and port is not None:
            transport.dport = port
        address = parse_ip(str(network.fields.get("dst", "")))
        if address is None:
            raise BadInput(NO_IP())
        if not is_one_host(address):
            raise BadInput(NOT_ONE_HOST(option="--packet", text=address))
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
        if self._version == 4 and not network.fields.get("id"):
            # The kernel takes 0 for open as well.
            network.id = secrets.randbelow(0xFFFF) + 1
        if self._version == 6 and "fl" not in network.fields:
            network.fl = secrets.randbelow(0xFFFFF) + 1
        if transport is not None and transport.name == "TCP" and "seq" not in transport.fields:
            transport.seq = secrets.randbits(32) or 1
        self._complete_ping(network)

    def _complete_ping(self, network: Any) -> None:
        """A ping is known by its numbers where it has no payload: those that are open are chosen as ping(8) does."""
        ping = network.getlayer("ICMP" if self._version == 4 else "ICMPv6EchoRequest")
        if ping is None or (self._version == 4 and ping.type not in (8, 13)):
            return
        for name in ("id", "seq"):
            if name not in ping.fields:
                setattr(ping, name, secrets.randbits(16))

    def _own_address(self, destination: str, transport: Any) -> tuple[str, int]:
        """The source that the kernel would choose, and a port that is free here; the port is held while the probe
        lives, for UDP by a socket that swallows the answer."""
        family = socket.AF_INET if self._version == 4 else socket.AF_INET6
        with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as asking:
            try:
                asking.connect((destination, 9))
                source = str(asking.getsockname()[0]).partition("%")[0]
                level, option = (socket.IPPROTO_IP, _IP_MTU) if self._version == 4 else (_IPPROTO_IPV6, _IPV6_MTU)
                self._mtu = asking.getsockopt(level, option)
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
            raise BadInput(UNUSABLE(what=first_line(error))) from error
        if len(whole) > LIMIT_BYTES:
            raise BadInput(UNUSABLE(what=TOO_LONG(length=len(whole), limit=LIMIT_BYTES)))
        self._frame = whole if whole != data else None
        if self._frame is None and self._version == 4:
            # The kernel sets the length itself.
            data = data[:2] + len(data).to_bytes(2) + data[4:]
        return data

    def _parsed(self) -> Packet:
        data = self._bytes
        if is_later_fragment(data):
            raise BadInput(LATER_FRAGMENT())
        parsed = parse_packet(data)
        length = (data[0] & 0xF) * 4 if self._version == 4 else 40
        if (
            parsed is None
            or parsed.family != self._version
            or not (20 if self._version == 4 else 40) <= length <= len(data)
        ):
            raise BadInput(UNUSABLE(what=BAD_HEADER()))
        return parsed

    def _check_protocol(self, protocol: str | None) -> None:
        if protocol is None:
            return
        if protocol not in PROTOCOLS:
            raise BadInput(BAD_PROTOCOL(text=protocol))
        found = PROTOCOL_NAMES.get(self.parsed.protocol, str(self.parsed.protocol))
        if protocol != found.replace("icmpv6", "icmp"):
            raise BadInput(DIFFERENT_PROTOCOL(packet=found, protocol=protocol))

    def drops(self) -> list[bytes]:
        """The kernel knows nothing of a crafted connection and would reset it at the first answer. (A reset is not
        answered, and must not be taken for the kernel's own.)"""
        parsed = self.parsed
        if (
            parsed.protocol != TCP
            or parsed.flags & RST
            or parsed.source_port is None
            or parsed.destination_port is None
        ):
            return []
        return [nftables.tcp_reset_expressions(self._version, parsed.source_port, parsed.destination_port)]

    async def run(self, timeout: float) -> Outcome:
        begin = time.perf_counter()
        result: SocketResult = "sent"
        error_text = None
        try:
            self._send()
        except OSError as error:
            error_text = error.strerror
            if error.errno != errno.EPERM:
                result = result_of(error, self.target)
        if result == "sent":
            try:
                async with asyncio.timeout(timeout):
                    await self._reply()
            except TimeoutError:
                error_text = "timeout"
        duration = (time.perf_counter() - begin) * 1e6
        return Outcome(result, self.parsed.source_text, self.parsed.destination_text, duration, error_text)

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
            return
        for each in fragments(self._bytes, self._mtu, secrets.randbits(32)):
            self._wire.sendto(each, (self.target.address, 0))

    async def _reply(self) -> None:
        """Until an answer is seen here; on a node it comes in before conntrack gives it back the addresses asked."""
        self._sent_as = {self.parsed.addresses}
        while True:
            for frame in await self._feed.next_frames():
                packet = parse_frame(frame)
                if packet is None:
                    continue
                if self._is_own(packet):
                    self._sent_as.add(packet.addresses)
                elif self._is_answer(packet):
                    return

    def _is_answer(self, packet: Packet) -> bool:
        if self.mark.is_bare and packet.protocol == self.parsed.protocol and packet.inner is None:
            return packet.addresses[::-1] in self._sent_as
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
    identification = int.from_bytes(data[start:end]) & (0xFFFF if version == 4 else 0xFFFFF)
    return Mark(packet.protocol, identification=identification, echo=packet.echo_sequence)
