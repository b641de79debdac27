"""Trace records of one network namespace, from the kernel's nftables trace group (net/netfilter/nf_tables_trace.c)."""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable

from netlab.kernel import nfnetlink, nftables
from netlab.kernel.netlink import attributes, messages
from netlab.model.records import Loss, TraceRecord

_TABLE, _CHAIN, _HANDLE, _TYPE, _VERDICT, _ID = 1, 2, 3, 4, 5, 6
_NETWORK, _TRANSPORT, _IIF, _OIF, _MARK, _POLICY = 8, 9, 10, 12, 14, 16
_KINDS = {1: "policy", 2: "return", 3: "rule"}
_VERDICTS = {0: "drop", 1: "accept", -1: "continue", -2: "break", -3: "jump", -4: "goto", -5: "return", 2: "stolen"}
_VERDICTS |= {3: "queue", 4: "repeat"}
_RECEIVE_SIZE = 64 * 1024
_BUFFER = 4 * 1024 * 1024


class TraceSocket:
    """A subscription to the trace records of the namespace that the thread is in when it is made."""

    def __init__(self, place: str, interface_name: Callable[[int], str]) -> None:
        self.place = place
        self._interface_name = interface_name
        self._netlink = nfnetlink.netfilter_socket((nfnetlink.GROUP_NFTRACE,), _BUFFER)
        self._netlink.socket.setblocking(False)
        self._order = 0

    def fileno(self) -> int:
        return self._netlink.fileno()

    def close(self) -> None:
        self._netlink.close()

    def read(self) -> tuple[list[TraceRecord], Loss | None]:
        """All records that the kernel has queued, and whether some were lost before (it does not tell how many)."""
        records: list[TraceRecord] = []
        loss: Loss | None = None
        while True:
            try:
                data = self._netlink.socket.recv(_RECEIVE_SIZE)
            except BlockingIOError:
                return records, loss
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                loss = Loss(self.place, "trace", None)
                continue
            for message in messages(data):
                if message.type == nftables.MESSAGE_TRACE:
                    self._order += 1
                    records.append(self._record(message.body))

    def _record(self, body: bytes) -> TraceRecord:
        values = dict(attributes(body[nfnetlink.HEADER_LENGTH :]))
        kind = _KINDS.get(_number(values[_TYPE]), "rule")
        verdict, target = "accept", None
        if _VERDICT in values:
            parts = dict(attributes(values[_VERDICT]))
            verdict = _VERDICTS.get(_code(parts[1]), "other")
            target = _text(parts[2]) if 2 in parts else None
        elif _POLICY in values:
            verdict = _VERDICTS.get(_number(values[_POLICY]), "other")
        return TraceRecord(
            id=f"trace:{self.place}#{self._order}",
            place=self.place,
            order=self._order,
            packet=_number(values[_ID]),
            family=nfnetlink.FAMILY_NAMES.get(body[0], str(body[0])),
            table=_text(values[_TABLE]),
            chain=_text(values[_CHAIN]),
            kind=kind,  # type: ignore[arg-type]
            handle=struct.unpack("!Q", values[_HANDLE])[0] if _HANDLE in values else None,
            verdict=verdict,
            target=target,
            input=self._name(values.get(_IIF)),
            output=self._name(values.get(_OIF)),
            mark=_number(values[_MARK]) if _MARK in values else 0,
            network=values.get(_NETWORK, b""),
            transport=values.get(_TRANSPORT, b""),
        )

    def _name(self, index: bytes | None) -> str | None:
        return self._interface_name(_number(index)) if index is not None else None


def _number(value: bytes) -> int:
    return int(struct.unpack("!I", value)[0])


def _code(value: bytes) -> int:
    """A verdict: the low byte of a positive one is netfilter's, the rest a queue number or an errno."""
    number = int(struct.unpack("!i", value)[0])
    return number if number < 0 else number & 0xFF


def _text(value: bytes) -> str:
    return value.rstrip(b"\0").decode()
