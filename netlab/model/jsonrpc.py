"""JSON-RPC 2.0, one message a line: what engine, frontends, proxies and Pods speak with each other.

An error's ``data`` carries the text in every language and the exit status, so that it reaches the user unchanged.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from netlab.model.errors import EXIT_BAD_INPUT, EXIT_MACHINE, BadInput, LabFailed, MachineCannot, NetlabError
from netlab.model.text import Text

LINE_LIMIT = 64 * 1024 * 1024
"""Longest message in bytes."""

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
NETLAB_ERROR = -32000
GONE = -32010
"""A revision that is asked for is no longer remembered (HTTP's 410 Gone)."""


class ErrorData(msgspec.Struct, frozen=True):
    text: Text
    exit_status: int


class Error(msgspec.Struct, frozen=True):
    code: int
    message: str
    data: ErrorData | None = None


class Message(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A request (method and id), a notification (method alone), or an answer (id with result or error)."""

    jsonrpc: Literal["2.0"] = "2.0"
    id: int | None = None
    method: str | None = None
    params: Any = None
    result: Any = msgspec.UNSET
    error: Error | None = None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Message)


def encode(message: Message) -> bytes:
    """The message as a line."""
    # omit_defaults would leave "jsonrpc" out, which the protocol demands.
    body = _encoder.encode(message)
    return b'{"jsonrpc":"2.0",' + body[1:] + b"\n" if len(body) > 2 else b'{"jsonrpc":"2.0"}\n'


def decode(line: bytes) -> Message:
    """Raises msgspec.DecodeError for what is no message."""
    return _decoder.decode(line)


def request(number: int, method: str, params: Any) -> bytes:
    return encode(Message(id=number, method=method, params=params))


def notification(method: str, params: Any) -> bytes:
    return encode(Message(method=method, params=params))


def answer(number: int, result: Any) -> bytes:
    return encode(Message(id=number, result=result))


def failure(number: int, error: Error) -> bytes:
    return encode(Message(id=number, error=error))


def error_from(exception: NetlabError) -> Error:
    return Error(NETLAB_ERROR, exception.text.en, ErrorData(exception.text, exception.exit_status))


def exception_from(error: Error) -> NetlabError:
    """The exception that a peer's error stands for."""
    text = error.data.text if error.data is not None else Text("jsonrpc.error", error.message, error.message)
    status = error.data.exit_status if error.data is not None else EXIT_MACHINE
    if status == EXIT_BAD_INPUT:
        return BadInput(text)
    return MachineCannot(text) if status == EXIT_MACHINE else LabFailed(text)


class LineBuffer:
    """Cuts a stream of bytes into lines."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are complete now. Raises ValueError for a line beyond the limit."""
        if b"\n" not in data:
            self._parts.append(data)
            self._size += len(data)
            if self._size > LINE_LIMIT:
                raise ValueError(f"a message of more than {LINE_LIMIT} bytes")
            return []
        first, *rest = data.split(b"\n")
        lines = [b"".join((*self._parts, first)), *rest[:-1]]
        self._parts = [rest[-1]]
        self._size = len(rest[-1])
        return [line for line in lines if line]
