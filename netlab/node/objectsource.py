"""Where a node's programs get objects from: first all of them, then every change, as from a list and a watch."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from netlab.model import jsonrpc

Json = dict[str, Any]


@dataclass(frozen=True)
class Listed:
    """All objects of the wanted kinds, as of ``revision``: whatever was known before is to be forgotten."""

    objects: Sequence[Json]
    revision: int


@dataclass(frozen=True)
class Changed:
    """One change, after ``revision``."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    object: Json
    revision: int


class SourceEnded(Exception):
    """There is nobody to get objects from any more."""


class ObjectSource(Protocol):
    """Objects of some kinds. ``fileno`` is ready for reading when :meth:`read` has something."""

    def fileno(self) -> int: ...

    def read(self) -> list[Listed | Changed]:
        """What has come since the last call. Raises :class:`SourceEnded`."""
        ...

    def report(self, method: str, params: Any) -> None:
        """Tell the other side something."""
        ...


class EngineSource:
    """An :class:`ObjectSource` over the engine's socket: JSON-RPC "objects.list", then "objects.watch" from there."""

    def __init__(self, connection: socket.socket, kinds: Sequence[str]) -> None:
        self._socket = connection
        self._kinds = list(kinds)
        self._lines = jsonrpc.LineBuffer()
        self._number = 0
        self._listing = 0
        self._watching = 0
        self._list()

    def fileno(self) -> int:
        return self._socket.fileno()

    def report(self, method: str, params: Any) -> None:
        self._send(jsonrpc.notification(method, params))

    def _send(self, line: bytes) -> None:
        try:
            self._socket.sendall(line)
        except ConnectionError as error:
            raise SourceEnded from error

    def read(self) -> list[Listed | Changed]:
        try:
            data = self._socket.recv(256 * 1024)
        except ConnectionError as error:
            raise SourceEnded from error
        if not data:
            raise SourceEnded
        found: list[Listed | Changed] = []
        for line in self._lines.feed(data):
            message = jsonrpc.decode(line)
            if message.method == "objects.event":
                found.append(Changed(**message.params))
            elif message.id == self._listing:
                found.append(Listed(message.result["objects"], message.result["revision"]))
                self._watching = self._request("objects.watch", {"revision": message.result["revision"]})
            elif message.id == self._watching and message.error is not None:
                self._list()
        return found

    def _list(self) -> None:
        self._listing = self._request("objects.list", {})

    def _request(self, method: str, params: Json) -> int:
        self._number += 1
        self._send(jsonrpc.request(self._number, method, {"kinds": self._kinds, **params}))
        return self._number
