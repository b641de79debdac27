"""The connection tracking table of one network namespace: events, listing, deletion.

Source of names and numbers: include/uapi/linux/netfilter/nfnetlink_conntrack.h and nf_conntrack_common.h.
"""

from __future__ import annotations

import errno
import socket
import struct
from ipaddress import ip_address
from typing import Literal

from netlab.kernel import nfnetlink
from netlab.kernel.netlink import (
    NLM_F_DUMP,
    NetlinkError,
    NetlinkSocket,
    attribute,
    attributes,
    messages,
    nested,
    u8,
    u32,
)
from netlab.model.records import ConntrackRecord, Loss, Tuple

_SUBSYSTEM = nfnetlink.SUBSYSTEM_CONNTRACK
_NEW, _GET, _DELETE = 0, 1, 2
_NLM_F_CREATE, _NLM_F_EXCL = 0x400, 0x200
_ORIGINAL, _REPLY, _STATUS, _MARK, _ID = 1, 2, 3, 8, 12
_TUPLE_IP, _TUPLE_PROTO = 1, 2
_FILTER, _FILTER_ORIGINAL_FLAGS = 25, 1
_FILTER_BY_PROTOCOL = 1 << 3
_STATUS_BITS = {
    0: "EXPECTED",
    1: "SEEN_REPLY",
    2: "ASSURED",
    3: "CONFIRMED",
    4: "SNAT",
    5: "DNAT",
    9: "DYING",
}
_RECEIVE_SIZE = 64 * 1024
_BUFFER = 1024 * 1024


class ConntrackSocket:
    """A subscription to the conntrack events of the namespace that the thread is in when it is made."""

    def __init__(self, place: str) -> None:
        self.place = place
        groups = (
            nfnetlink.GROUP_CONNTRACK_NEW,
            nfnetlink.GROUP_CONNTRACK_UPDATE,
            nfnetlink.GROUP_CONNTRACK_DESTROY,
        )
        self._netlink = nfnetlink.netfilter_socket(groups, _BUFFER)
        self._netlink.socket.setblocking(False)
        self._order = 0

    def fileno(self) -> int:
        return self._netlink.fileno()

    def close(self) -> None:
        self._netlink.close()

    def read(self) -> tuple[list[ConntrackRecord], Loss | None]:
        """All events that the kernel has queued, and whether some were lost before."""
        records: list[ConntrackRecord] = []
        loss: Loss | None = None
        while True:
            try:
                data = self._netlink.socket.recv(_RECEIVE_SIZE)
            except BlockingIOError:
                return records, loss
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                loss = Loss(self.place, "conntrack", None)
                continue
            for message in messages(data):
                if message.type >> 8 != _SUBSYSTEM:
                    continue
                kind: Literal["new", "update", "destroy"] = "update"
                if message.type & 0xFF == _DELETE:
                    kind = "destroy"
                elif message.flags & (_NLM_F_CREATE | _NLM_F_EXCL):
                    kind = "new"
                self._order += 1
                records.append(_record(self.place, self._order, kind, message.body))


def list_entries(
    netlink: NetlinkSocket, place: str, family: int, *, protocol: int | None = None
) -> list[ConntrackRecord]:
    """The table as it is now; ``family`` is 4 or 6, ``protocol`` an IP protocol's number: its entries alone."""
    number = nfnetlink.NFPROTO_IPV4 if family == 4 else nfnetlink.NFPROTO_IPV6
    kind = nfnetlink.message_type(_SUBSYSTEM, _GET)
    body = nfnetlink.header(number)
    if protocol is not None:
        # Kernels before 5.8 send everything all the same.
        body += nested(_ORIGINAL, nested(_TUPLE_PROTO, u8(1, protocol)))
        body += nested(_FILTER, u32(_FILTER_ORIGINAL_FLAGS, _FILTER_BY_PROTOCOL))
    answers = netlink.exchange(kind, NLM_F_DUMP, body, "list conntrack entries")
    records = [_record(place, order, "update", message.body) for order, message in enumerate(answers, 1)]
    return [each for each in records if protocol is None or each.protocol == protocol]


def delete_entry(netlink: NetlinkSocket, entry: ConntrackRecord) -> bool:
    """Delete by original tuple; false if the entry had gone already."""
    family = nfnetlink.NFPROTO_IPV4 if ip_address(entry.original.source).version == 4 else nfnetlink.NFPROTO_IPV6
    body = nfnetlink.header(family) + _pack_tuple(_ORIGINAL, entry.protocol, entry.original)
    body += attribute(_ID, struct.pack("!I", entry.entry))
    try:
        netlink.exchange(nfnetlink.message_type(_SUBSYSTEM, _DELETE), 0, body, "delete a conntrack entry")
    except NetlinkError as error:
        if error.errno == errno.ENOENT:
            return False
        raise
    return True


def _pack_tuple(kind: int, protocol: int, value: Tuple) -> bytes:
    source, destination = ip_address(value.source), ip_address(value.destination)
    numbers = (1, 2) if source.version == 4 else (3, 4)
    parts = [u8(1, protocol)]
    if value.source_port is not None and value.destination_port is not None:
        parts += [
            attribute(2, struct.pack("!H", value.source_port)),
            attribute(3, struct.pack("!H", value.destination_port)),
        ]
    addresses = attribute(numbers[0], source.packed) + attribute(numbers[1], destination.packed)
    return nested(kind, nested(_TUPLE_IP, addresses), nested(_TUPLE_PROTO, *parts))


def _record(place: str, order: int, event: Literal["new", "update", "destroy"], body: bytes) -> ConntrackRecord:
    values = dict(attributes(body[nfnetlink.HEADER_LENGTH :]))
    protocol, original = _tuple(values[_ORIGINAL])
    _, reply = _tuple(values[_REPLY])
    bits = struct.unpack("!I", values[_STATUS])[0] if _STATUS in values else 0
    return ConntrackRecord(
        id=f"conntrack:{place}#{order}",
        place=place,
        order=order,
        event=event,
        entry=struct.unpack("!I", values[_ID])[0] if _ID in values else 0,
        protocol=protocol,
        original=original,
        reply=reply,
        status=tuple(name for bit, name in _STATUS_BITS.items() if bits & 1 << bit),
        mark=struct.unpack("!I", values[_MARK])[0] if _MARK in values else 0,
    )


def _tuple(data: bytes) -> tuple[int, Tuple]:
    parts = dict(attributes(data))
    source = destination = ""
    for kind, value in attributes(parts[_TUPLE_IP]):
        text = socket.inet_ntop(socket.AF_INET if len(value) == 4 else socket.AF_INET6, value)
        if kind in (1, 3):
            source = text
        else:
            destination = text
    protocol_parts = dict(attributes(parts[_TUPLE_PROTO]))
    source_port = destination_port = None
    if 2 in protocol_parts and 3 in protocol_parts:
        source_port = struct.unpack("!H", protocol_parts[2])[0]
        destination_port = struct.unpack("!H", protocol_parts[3])[0]
    return protocol_parts[1][0], Tuple(source, destination, source_port, destination_port)
