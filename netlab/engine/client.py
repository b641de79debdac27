"""A frontend's side of the protocol: start an engine or connect to one, and call its methods.

Nothing in here needs Linux before an engine is started, so that a walk saved as a file can be opened elsewhere.
"""

from __future__ import annotations

import base64
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from netlab.engine import process as processes
from netlab.engine.process import EngineProcess
from netlab.model import jsonrpc
from netlab.model.changes import Changes
from netlab.model.errors import UNEXPECTED, BadInput, LabFailed, NetlabError
from netlab.model.text import Message, Text
from netlab.model.walk import Walk

ENDED = Message(
    "client.engine-ended",
    en="The engine has ended{details}.",
    zh="引擎已退出{details}。",
)
LOG_AT = Message("client.log-at", en="; its last words are in {path}", zh="；最后的输出在 {path} 中")
LOG_IS_IN = Message("client.log-is-in", en=" The log is in {path}.", zh="日志在 {path} 中。")
NO_DETAILS = Message("client.no-details", en="", zh="")
NOT_TEXT = Message(
    "client.not-text",
    en="the words given for {names} are not UTF-8 text",
    zh="{names} 的内容不是 UTF-8 文本",
)
SILENT = Message(
    "client.silent",
    en="the lab does not answer: its engine has been stopped or is stuck",
    zh="实验没有应答：引擎被暂停或卡住",
)


class Loaded(msgspec.Struct, frozen=True):
    """What an engine has read: the lab's name, what is worth telling, and which of the modes that the lab's proxies are
    in the engine's kernel cannot do."""

    name: str
    notes: list[Text]
    lacking: list[str]


class EngineClient:
    """A connection to an engine. Calls block until they are answered; one caller at a time."""

    def __init__(self, connection: socket.socket, process: EngineProcess | None = None) -> None:
        self.connection = connection
        self.process = process
        self.told_of_end = False
        self._lines = jsonrpc.LineBuffer()
        self._waiting: list[jsonrpc.Message] = []
        self._number = 0

    def __enter__(self) -> EngineClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, method: str, **params: Any) -> Any:
        """Call a method and return its result. Raises the :class:`NetlabError` that the engine answers with."""
        self._number += 1
        number = self._number
        try:
            self.connection.sendall(jsonrpc.request(number, method, params))
        except UnicodeEncodeError as error:
            names = [name for name, value in params.items() if isinstance(value, str) and not _is_text(value)]
            raise BadInput(NOT_TEXT(names=", ".join(names))) from error
        except OSError as error:
            raise self._silent_or_ended(error) from error
        while True:
            message = self._next()
            if message.id == number:
                if message.error is not None:
                    raise self._failure(message.error)
                return message.result

    def wait_notification(self, method: str) -> Any:
        """The parameters of the next notification of that name. Raises what an engine that fails says."""
        while True:
            message = self._next()
            if message.method == method:
                return message.params

    def wait_closed(self) -> None:
        """Until the engine closes the connection. Raises :class:`LabFailed` where it has not said that it ends."""
        try:
            while True:
                self._next()
        except LabFailed:
            if not self.told_of_end:
                raise

    def _next(self) -> jsonrpc.Message:
        """The next message. Raises what an engine that fails says, and :class:`LabFailed` at the end of them all."""
        while not self._waiting:
            try:
                data = self.connection.recv(1024 * 1024)
            except OSError as error:
                raise self._silent_or_ended(error) from error
            if not data:
                raise self._ended()
            self._waiting += [jsonrpc.decode(line) for line in self._lines.feed(data)]
        message = self._waiting.pop(0)
        if message.method == "engine.failed":
            raise jsonrpc.exception_from(msgspec.convert(message.params, jsonrpc.Error))
        self.told_of_end |= message.method == "engine.ending"
        return message

    def _silent_or_ended(self, error: OSError) -> NetlabError:
        """What an error of the connection means: if the engine said why it failed before it went, that."""
        if isinstance(error, TimeoutError):
            return LabFailed(SILENT())
        if isinstance(error, BrokenPipeError):
            try:
                while True:
                    self._next()
            except NetlabError as reason:
                return reason
        return self._ended()

    def _ended(self) -> LabFailed:
        # One that has said that it ends has nothing to explain.
        process = None if self.told_of_end else self.process
        words = process.last_words() if process is not None else b""
        return LabFailed(ENDED(details=_log_text(words, LOG_AT)))

    def _failure(self, error: jsonrpc.Error) -> NetlabError:
        """An error that the engine answered with; one that it did not foresee, with the engine's log."""
        exception = jsonrpc.exception_from(error)
        if exception.text.id != UNEXPECTED.id:
            return exception
        words = b""
        with suppress(NetlabError):
            words = base64.b64decode(self.call("engine.log"))
        log = _log_text(words, LOG_IS_IN)
        return LabFailed(Text(exception.text.id, exception.text.en + log.en, exception.text.zh + log.zh))

    # What frontends do

    def load(self, sources: Sequence[tuple[str, bytes]], mode: str | None) -> Loaded:
        """Have files read: (name, contents) each."""
        return msgspec.convert(self.call("lab.load", sources=_encoded(sources), mode=mode), Loaded)

    def start(self) -> dict[str, Any]:
        """Have the lab built; returns its description."""
        result: dict[str, Any] = self.call("lab.start")
        return result

    def apply(self, sources: Sequence[tuple[str, bytes]]) -> Changes:
        """Create or change the objects in files, (name, contents) each; returns when every node has its rules."""
        return msgspec.convert(self.call("lab.apply", sources=_encoded(sources)), Changes)

    def delete(self, kind: str, name: str, namespace: str) -> Changes:
        """Take an object away; returns when every node has its rules."""
        return msgspec.convert(self.call("lab.delete", kind=kind, name=name, namespace=namespace), Changes)

    def walk(
        self,
        sender: str,
        destination: str | None,
        protocol: str | None = None,
        packet: str | None = None,
        timeout: float = 2.0,
        *,
        capture: bool = False,
        language: str = "en",
    ) -> tuple[Walk, bytes]:
        """A walk, and the capture file of it if ``capture``."""
        result = self.call(
            "lab.walk",
            **{"from": sender},
            to=destination,
            protocol=protocol,
            packet=packet,
            timeout=timeout,
            capture=capture,
            language=language,
        )
        pieces: list[bytes] = []
        size = 0
        while size < result["capture_bytes"]:
            pieces.append(base64.b64decode(self.call("capture.read", offset=size)))
            size += len(pieces[-1])
        return msgspec.convert(result["walk"], Walk), b"".join(pieces)

    def execute(self, place: str, command: Sequence[str], stdin: bytes = b"") -> tuple[int, bytes, bytes]:
        """Run a command in a place's network namespace: its exit status and what it wrote to both outputs."""
        encoded = base64.b64encode(stdin).decode()
        result = self.call("lab.exec", place=place, command=list(command), stdin=encoded)
        return result["status"], base64.b64decode(result["stdout"]), base64.b64decode(result["stderr"])

    def detach(self) -> None:
        """Have the engine go on when its frontends have gone."""
        self.call("engine.detach")
        if self.process is not None:
            self.process.detached = True

    def stop(self) -> None:
        """End the engine, whoever started it, and return when it has ended; one that does not answer is killed."""
        lab = processes.lab_at(self.connection)
        patience = processes.STOP_S
        self.connection.settimeout(patience)
        try:
            self.call("engine.stop")
            self.wait_closed()
        except LabFailed:
            if lab is None:
                raise
            patience = 0
        finally:
            if lab is not None:
                processes.wait_or_kill(lab, patience)
                os.close(lab)

    def close(self) -> None:
        """Close the connection; an engine that this client started, and that is not detached, is waited for."""
        self.connection.close()
        if self.process is not None:
            self.process.finish()

    def abandon(self) -> None:
        """Close in the middle of starting the engine, which may or may not have come so far as to tell its pid."""
        if self.process is not None and not self.process.pid:
            self.connection.setblocking(False)
            with suppress(NetlabError):
                self.process.pid = self.wait_notification("engine.started")["pid"]
        self.close()


def _encoded(sources: Sequence[tuple[str, bytes]]) -> list[dict[str, str]]:
    return [{"name": _shown(name), "data": base64.b64encode(data).decode()} for name, data in sources]


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(name: str) -> str:
    """A file's name as text; names are bytes, and need not be any."""
    return os.fsencode(name).decode(errors="replace")


def _log_text(words: bytes, message: Message) -> Text:
    """Where the words have been put for the user to read; nothing where there are none."""
    path = processes.save_log(words) if words else None
    return message(path=path) if path is not None else NO_DETAILS()


def start_engine(
    listener: socket.socket | None = None, folder: Path | None = None, process: EngineProcess | None = None
) -> EngineClient:
    """Start an engine and be its first frontend.

    ``listener`` and ``folder`` (where its socket has its name) let other frontends find it. ``process`` is what is to
    be started, if not an ordinary engine. Raises :class:`MachineCannot` where the machine lacks what a sandbox needs.
    """
    try:
        ours, theirs = socket.socketpair()
    except OSError as error:
        raise processes.cannot_start(error) from error
    process = process or EngineProcess()
    client = EngineClient(ours, process)
    try:
        with process.launched(theirs, listener, folder) as first:
            if not processes.has_word(ours, first):
                raise client._ended()
            process.pid = client.wait_notification("engine.started")["pid"]
    except BaseException:
        client.abandon()
        raise
    return client


def connect_to(path: Path) -> EngineClient:
    """Be a further frontend of a running engine. Raises :class:`BadInput` where there is none any more."""
    from netlab.engine import rendezvous

    try:
        return EngineClient(rendezvous.connect(path))
    except OSError as error:
        raise rendezvous.not_running(path.name.removesuffix(rendezvous.SUFFIX)) from error
