"""A frontend's side of the protocol: start an engine or connect to one, and call its methods.

Nothing in here needs Linux before an engine is started, so that a walk saved as a file can be opened elsewhere.
"""

from __future__ import annotations

import base64
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import msgspec

from netlab.model import jsonrpc
from netlab.model.errors import LabFailed
from netlab.model.text import Message, Text
from netlab.model.walk import Walk

ENDED = Message(
    "client.engine-ended",
    en="The engine has ended{details}.",
    zh="引擎已退出{details}。",
)
LOG_AT = Message("client.log-at", en="; its last words are in {path}", zh="；最后的输出在 {path} 中")
NO_DETAILS = Message("client.no-details", en="", zh="")

STOP_S = 5.0
"""How long an engine may take to end, seconds; then it is killed."""


class EngineClient:
    """A connection to an engine. Calls block until they are answered; one caller at a time."""

    def __init__(self, connection: socket.socket, process: EngineProcess | None = None) -> None:
        self.connection = connection
        self.process = process
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
        except OSError as error:
            self._raise_failure()
            raise self._ended() from error
        while True:
            message = self._next()
            if message.method == "engine.failed":
                raise jsonrpc.exception_from(msgspec.convert(message.params, jsonrpc.Error))
            if message.id == number:
                if message.error is not None:
                    raise jsonrpc.exception_from(message.error)
                return message.result

    def wait_notification(self, method: str) -> Any:
        """The parameters of the next notification of that name. Raises what an engine that fails says."""
        while True:
            message = self._next()
            if message.method == method:
                return message.params
            if message.method == "engine.failed":
                raise jsonrpc.exception_from(msgspec.convert(message.params, jsonrpc.Error))

    def wait_closed(self) -> None:
        """Until the engine closes the connection."""
        with suppress(OSError):
            while self.connection.recv(65536):
                pass

    def _next(self) -> jsonrpc.Message:
        while not self._waiting:
            try:
                data = self.connection.recv(1024 * 1024)
            except ConnectionError as error:
                raise self._ended() from error
            if not data:
                raise self._ended()
            self._waiting += [jsonrpc.decode(line) for line in self._lines.feed(data)]
        return self._waiting.pop(0)

    def _raise_failure(self) -> None:
        """If the engine said why it failed before it went, raise that."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        if readable:
            self.wait_notification("engine.failed")

    def _ended(self) -> LabFailed:
        details = self.process.last_words() if self.process is not None else NO_DETAILS()
        return LabFailed(ENDED(details=details))

    # What frontends do

    def load(self, sources: Sequence[tuple[str, bytes]], mode: str | None) -> tuple[str, list[Text]]:
        """Have files read: (name, contents) each. Returns the lab's name and what is worth telling."""
        encoded = [{"name": name, "data": base64.b64encode(data).decode()} for name, data in sources]
        result = self.call("lab.load", sources=encoded, mode=mode)
        return result["name"], msgspec.convert(result["notes"], list[Text])

    def start(self) -> dict[str, Any]:
        """Have the lab built; returns its description."""
        result: dict[str, Any] = self.call("lab.start")
        return result

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

    def close(self) -> None:
        """Close the connection; an engine that this client started, and that is not detached, is waited for."""
        self.connection.close()
        if self.process is not None:
            self.process.finish()


class EngineProcess:
    """An engine that this process has started, as its child (or, once detached, as nobody's)."""

    def __init__(self, pid: int, log: IO[bytes]) -> None:
        self.pid = pid
        self._log = log
        self.detached = False

    def finish(self) -> None:
        """Wait for the engine's end; kill it if it takes too long."""
        if self.detached:
            return
        deadline = time.monotonic() + STOP_S
        pidfd = os.pidfd_open(self.pid) if _is_child(self.pid) else None
        if pidfd is None:
            return
        try:
            readable, _, _ = select.select([pidfd], [], [], max(0.0, deadline - time.monotonic()))
            if not readable:
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(self.pid, 0)
        finally:
            os.close(pidfd)

    def last_words(self) -> Text:
        """What the engine wrote to its log, put where the user can read it."""
        self._log.seek(0)
        words = self._log.read()
        if not words:
            return NO_DETAILS()
        with tempfile.NamedTemporaryFile("wb", prefix="kube-netlab-", suffix=".log", delete=False) as file:
            file.write(words)
        return LOG_AT(path=file.name)


def _is_child(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None or True
    except ChildProcessError:
        return False


def start_engine(listener: socket.socket | None = None, folder: Path | None = None) -> EngineClient:
    """Start an engine and be its first frontend.

    ``listener`` and ``folder`` (where its socket has its name) let other frontends find it. Raises
    :class:`MachineCannot` where the machine lacks what a sandbox needs.
    """
    from netlab.kernel import libc

    ours, theirs = socket.socketpair()
    log = tempfile.TemporaryFile("w+b")  # noqa: SIM115
    inherited = [theirs.fileno()]
    arguments = [str(theirs.fileno())]
    directory = None
    if listener is not None and folder is not None:
        directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        inherited += [listener.fileno(), directory]
        arguments += [str(listener.fileno()), str(directory)]
    # The engine's first process ends as soon as the sandbox stands; the lab's PID 1 becomes our child then.
    libc.prctl(libc.PR_SET_CHILD_SUBREAPER, 1)
    try:
        first = subprocess.Popen(
            [sys.executable, "-m", "netlab.engine", *arguments],
            pass_fds=inherited,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"} if os.geteuid() == 0 else None,
        )
        theirs.close()
        if directory is not None:
            os.close(directory)
        client = EngineClient(ours)
        try:
            started = client.wait_notification("engine.started")
        except LabFailed as error:
            client.process = EngineProcess(first.pid, log)
            first.wait()
            raise client._ended() from error
        finally:
            first.wait()
        client.process = EngineProcess(started["pid"], log)
        return client
    finally:
        libc.prctl(libc.PR_SET_CHILD_SUBREAPER, 0)


def connect_to(path: Path) -> EngineClient:
    """Be a further frontend of a running engine. Raises OSError."""
    from netlab.engine import rendezvous

    return EngineClient(rendezvous.connect(path))
