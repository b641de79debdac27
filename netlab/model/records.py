"""What was observed: frames, trace records, conntrack events. The evidence that a walk is made of.

Every record has an ``id`` that is unique within one walk: its kind, its place and a running number there.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Direction = Literal["in", "out"]


class Frame(msgspec.Struct, frozen=True, gc=False):
    """A frame seen at an interface: ``in`` as it arrived there, ``out`` as it left.

    ``time_ns``: wall clock, nanoseconds. ``data``: the bytes from the Ethernet header on, ``length`` how many there
    were on the wire. ``overheard``: it came in addressed to somebody else, flooded by a bridge or on a bridge's port.
    ``complete_checksum`` is false where the kernel had left the transport checksum to hardware.
    """

    id: str
    place: str
    interface: str
    direction: Direction
    time_ns: int
    data: bytes
    length: int
    overheard: bool = False
    complete_checksum: bool = True


class TraceRecord(msgspec.Struct, frozen=True, gc=False):
    """One step of a packet through nftables, as the kernel reported it (iptables-nft rules included).

    ``packet`` is the kernel's number for the packet; it comes back for other packets. ``kind`` is "rule" (the rule
    with ``handle`` matched), "return" (the end of a chain that was jumped to) or "policy" (the end of a base chain).
    ``network`` and ``transport`` are the first bytes of the headers (up to 40 and 20); only the first record of each
    base chain has them. ``order`` counts the records of one place as they were sent.
    """

    id: str
    place: str
    order: int
    packet: int
    family: str
    table: str
    chain: str
    kind: Literal["rule", "return", "policy"]
    handle: int | None
    verdict: str
    target: str | None
    input: str | None
    output: str | None
    mark: int
    network: bytes
    transport: bytes


class Tuple(msgspec.Struct, frozen=True):
    """One direction of a connection. Ports are null where the protocol has none."""

    source: str
    destination: str
    source_port: int | None = None
    destination_port: int | None = None


class ConntrackRecord(msgspec.Struct, frozen=True):
    """A conntrack event: the entry as it was at that moment. ``status`` holds the kernel's names without "IPS_"."""

    id: str
    place: str
    order: int
    event: Literal["new", "update", "destroy"]
    entry: int
    protocol: int
    original: Tuple
    reply: Tuple
    status: tuple[str, ...]
    mark: int = 0


class ProxyConnection(msgspec.Struct, frozen=True):
    """Two connections that a proxy process joined: what it accepted, and what it dialled for that.

    ``accepted`` is as the proxy's socket has it (the client's address as source, the proxy's own as destination; the
    client itself may have asked for another one, which conntrack tells); ``dialled`` has the node's address as source
    and the endpoint as destination, and is null where nothing could be dialled. ``time_ns``: wall clock, when the
    second connection was there (or given up, or both were over). ``tried``: endpoints that did not answer before.
    ``service_port`` as "namespace/name:port", ``protocol`` as the IP protocol's number.
    """

    id: str
    place: str
    order: int
    event: Literal["joined", "failed", "ended"]
    time_ns: int
    service_port: str
    protocol: int
    accepted: Tuple
    dialled: Tuple | None
    tried: tuple[str, ...] = ()


class IpvsRecord(msgspec.Struct, frozen=True):
    """A connection of IPVS, as its table had it at the end of the walk. Addresses are "A:P" or "[A6]:P"; ``state`` is
    the kernel's word (ESTABLISHED, SYN_RECV, UDP, …)."""

    id: str
    place: str
    protocol: str
    client: str
    virtual: str
    real: str
    state: str


class Loss(msgspec.Struct, frozen=True):
    """Records that were made but could not be read in time: ``count`` is null where the kernel does not tell it."""

    place: str
    kind: Literal["frame", "trace", "conntrack"]
    count: int | None
