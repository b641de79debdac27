"""What the correlator is given: all that was recorded while one probe ran, and what is needed to read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from netlab.model.records import ConntrackRecord, Frame, IpvsRecord, Loss, ProxyConnection, TraceRecord
from netlab.model.rulebook import Rulebook
from netlab.model.text import Text
from netlab.model.topology import Topology
from netlab.model.walk import Probe
from netlab.packets.headers import ACK, RST, SCTP, SYN, TCP, UDP, Packet

SocketResult = Literal["answered", "refused", "unreachable", "timeout", "sent"]


@dataclass(frozen=True)
class Mark:
    """What tells the probe's packets from all others: for TCP the sequence number, else the first bytes of the payload,
    for a ping without one its sequence number (``echo``), else the identification in the IP header (IPv6: the flow
    label). ``protocol`` is the IP protocol's number.

    For TCP, ``answers`` are the numbers that an answer acknowledges, where they are others than the next one, and
    ``acknowledged`` what the probe acknowledges itself: a reset begins with that (RFC 9293, 3.10.7).
    """

    protocol: int
    sequence: int | None = None
    payload: bytes = b""
    identification: int | None = None
    answers: tuple[int, ...] = ()
    acknowledged: int | None = None
    echo: int | None = None

    @property
    def payload_offset(self) -> int:
        """Where the payload begins, from the start of the transport header, bytes."""
        return 12 if self.protocol == SCTP else 8

    @property
    def expected(self) -> tuple[int, ...]:
        """The numbers that an answer may acknowledge."""
        if self.sequence is None:
            return ()
        return self.answers or ((self.sequence + 1) & 0xFFFFFFFF,)

    @property
    def is_bare(self) -> bool:
        """Whether answers carry nothing of the mark."""
        return self.protocol != TCP and not self.payload and self.echo is None

    @property
    def answers_by_ports(self) -> bool:
        """Whether answers, which carry nothing of the mark, are known by their ports."""
        return self.is_bare and self.protocol in (UDP, SCTP)

    def carried_by(self, packet: Packet) -> bool:
        """Whether the packet is one of the probe's, request or echoed answer."""
        if packet.protocol != self.protocol:
            return False
        if self.protocol == TCP:
            return packet.sequence == self.sequence
        if self.payload:
            return packet.payload[: len(self.payload)] == self.payload
        if self.echo is not None:
            is_same = packet.is_echo_reply or packet.key[2] == self.identification
            return is_same and packet.echo_sequence == self.echo
        return packet.key[2] == self.identification

    def answered_by(self, packet: Packet) -> bool:
        """Whether the packet answers the probe's request: a SYN-ACK or RST for its packet, or an error that quotes it.
        Answers to a bare mark are not known by it."""
        if packet.inner is not None:
            return packet.is_icmp_error and self.carried_by(packet.inner)
        if packet.protocol != self.protocol or self.is_bare:
            return False
        if self.protocol == TCP:
            if packet.flags & RST and not packet.flags & ACK:
                return self.acknowledged is not None and packet.sequence == self.acknowledged
            return bool(packet.flags & (SYN | RST)) and packet.acknowledgement in self.expected
        if self.echo is not None:
            return packet.is_echo_reply and packet.echo_sequence == self.echo
        if self.protocol == SCTP and len(self.payload) >= 8 and packet.verification_tag == self.payload[4:8]:
            return True
        return self.carried_by(packet)


@dataclass(frozen=True)
class Outcome:
    """What the probe's socket experienced. ``source`` and ``destination`` are its own addresses as texts."""

    result: SocketResult
    source: str
    destination: str
    duration_us: float | None = None
    error: str | None = None


@dataclass(frozen=True)
class EndpointOwner:
    """Who has an endpoint's address: a Pod, and its node."""

    pod: str
    node: str
    place: str


@dataclass
class Observation:
    """All that was recorded, and what is needed to read it. ``owners`` by IP address (or "A:P" for Pods on their node's
    network); ``meanings`` by "A:P/tcp"; ``unready`` says why a Service has no endpoints, by "Service default/web
    80/tcp".
    """

    origin: str
    mark: Mark
    probe: Probe
    mode: str
    outcome: Outcome
    topology: Topology
    frames: Sequence[Frame]
    traces: Sequence[TraceRecord]
    conntrack: Sequence[ConntrackRecord]
    ipvs: Sequence[IpvsRecord] = ()
    proxied: Sequence[ProxyConnection] = ()
    losses: Sequence[Loss] = ()
    rulebooks: Mapping[str, Rulebook] = field(default_factory=dict)
    owners: Mapping[str, EndpointOwner] = field(default_factory=dict)
    meanings: Mapping[str, Text] = field(default_factory=dict)
    unready: Mapping[str, Text] = field(default_factory=dict)
    vxlan: bool = False
