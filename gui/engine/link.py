"""The connection to an engine without ever waiting for it: calls answered by callbacks, notifications as signals.

The engine is started by a thread, as that takes the time of a process's start; from then on everything runs in the
app's event loop.
"""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable
from time import perf_counter
from typing import Any

import msgspec
from PySide6.QtCore import QObject, QSocketNotifier, QTimer, Signal

from netlab.engine.client import EngineClient, connect_to, start_engine
from netlab.model import jsonrpc
from netlab.model.errors import LabFailed, MachineCannot, NetlabError
from netlab.model.text import Message, Text

TURN_S = 0.006
"""How long messages may be worked on before the window gets its turn."""
PIECE = 256 * 1024

NEEDS_LINUX = Message(
    "gui.link.needs-linux",
    en="Labs run on Linux. On this system, walks that were saved as JSON can be opened.",
    zh="实验需要在 Linux 上运行。在此系统上可以打开保存为 JSON 的数据包旅程。",
)
ENGINE_GONE = Message(
    "gui.link.engine-gone",
    en="The engine has ended, and the lab with it.",
    zh="引擎已退出，实验随之结束。",
)
BROKEN_WORDS = Message(
    "gui.link.broken-words",
    en="The engine said something that is not understood: {what}",
    zh="无法理解引擎发来的内容：{what}",
)

Done = Callable[[Any], None]
Failed = Callable[[NetlabError], None]
Launch = Callable[[Callable[[Text], None]], EngineClient]
"""Starts an engine, in a thread; told what to call with news for the user."""


class EngineLink(QObject):
    """One engine, from its start to its end.

    ``started`` when it can be called; ``failed`` where it cannot be started; ``ended`` when it has gone without being
    told to; ``notified`` with method and parameters of each notification; ``said`` with news while it starts.
    """

    started = Signal()
    failed = Signal(object)
    ended = Signal(object)
    notified = Signal(str, object)
    said = Signal(object)
    _launched = Signal(object)

    def __init__(self, parent: QObject | None = None, launch: Launch | None = None) -> None:
        super().__init__(parent)
        self._launch = launch or launch_here
        self._client: EngineClient | None = None
        self._calls: dict[int, tuple[Done, Failed]] = {}
        self._number = 0
        self._lines = jsonrpc.LineBuffer()
        self._unsent = bytearray()
        self._messages: list[bytes] = []
        self._reading: QSocketNotifier | None = None
        self._writing: QSocketNotifier | None = None
        self._closed = False
        self._lock = threading.Lock()
        self._launched.connect(self._take)
        self._turn = QTimer(self)
        self._turn.setSingleShot(True)
        self._turn.setInterval(0)
        self._turn.timeout.connect(self._work)

    @property
    def pid(self) -> int:
        """The lab's PID 1; 0 where there is none (yet)."""
        process = self._client.process if self._client is not None else None
        return process.pid if process is not None else 0

    def start(self) -> None:
        threading.Thread(target=self._start, name="engine-start", daemon=True).start()

    def _start(self) -> None:
        result: EngineClient | NetlabError
        try:
            result = self._launch(self.said.emit)
        except NetlabError as error:
            result = error
        with self._lock:
            if not self._closed:
                self._launched.emit(result)
                return
        # The window has gone in the meantime.
        if isinstance(result, EngineClient):
            result.close()

    def _take(self, result: EngineClient | NetlabError) -> None:
        if self._closed:
            if isinstance(result, EngineClient):
                result.close()
            return
        if isinstance(result, NetlabError):
            self._closed = True
            self.failed.emit(result)
            return
        self._client = result
        connection = result.connection
        connection.setblocking(False)
        self._reading = QSocketNotifier(connection.fileno(), QSocketNotifier.Type.Read, self)
        self._reading.activated.connect(self._read)
        self._writing = QSocketNotifier(connection.fileno(), QSocketNotifier.Type.Write, self)
        self._writing.setEnabled(False)
        self._writing.activated.connect(self._write)
        self.started.emit()

    # Calling

    def call(self, method: str, params: dict[str, Any], done: Done, failed: Failed) -> None:
        """Call a method; exactly one of the two is called back, later, unless the link is closed before."""
        if self._client is None or self._closed:
            QTimer.singleShot(0, self, lambda: failed(LabFailed(ENGINE_GONE())))
            return
        self._number += 1
        self._calls[self._number] = (done, failed)
        self._unsent += jsonrpc.request(self._number, method, params)
        self._write()

    def _write(self) -> None:
        assert self._client is not None
        assert self._writing is not None
        try:
            while self._unsent:
                del self._unsent[: self._client.connection.send(memoryview(self._unsent)[:PIECE].tobytes())]
        except BlockingIOError:
            pass
        except OSError:
            self._lost()
            return
        self._writing.setEnabled(bool(self._unsent))

    # Hearing

    def _read(self) -> None:
        assert self._client is not None
        try:
            data = self._client.connection.recv(PIECE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._work(to_end=True)
            self._lost()
            return
        try:
            self._messages += self._lines.feed(data)
        except ValueError as error:
            self._broken(error)
            return
        self._work()

    def _work(self, *, to_end: bool = False) -> None:
        """Work on what has come, for one turn; the rest when the window has had its own."""
        until = perf_counter() + TURN_S
        done = 0
        for line in self._messages:
            try:
                self._dispatch(jsonrpc.decode(line))
            except msgspec.DecodeError as error:
                self._broken(error)
                return
            done += 1
            if not to_end and perf_counter() > until:
                break
        del self._messages[:done]
        if self._reading is not None:
            # What is not worked on yet need not be read either: the engine waits.
            self._reading.setEnabled(not self._messages)
        if self._messages:
            self._turn.start()

    def _dispatch(self, message: jsonrpc.Message) -> None:
        if message.id is not None:
            done, failed = self._calls.pop(message.id, (None, None))
            if message.error is not None and failed is not None:
                failed(jsonrpc.exception_from(message.error))
            elif done is not None:
                done(message.result)
        elif message.method is not None:
            self.notified.emit(message.method, message.params)

    # Ending

    def _broken(self, error: Exception) -> None:
        self._end(LabFailed(BROKEN_WORDS(what=str(error))))

    def _lost(self) -> None:
        self._end(LabFailed(ENGINE_GONE()))

    def _end(self, reason: NetlabError) -> None:
        if self._closed:
            return
        waiting = list(self._calls.values())
        self.close()
        for _, failed in waiting:
            failed(reason)
        self.ended.emit(reason)

    def close(self, *, wait: bool = False) -> None:
        """Let go of the engine; it ends, as its frontend has gone. ``wait``: return when it has ended."""
        with self._lock:
            already = self._closed
            self._closed = True
        self._calls.clear()
        self._turn.stop()
        for notifier in (self._reading, self._writing):
            if notifier is not None:
                notifier.setEnabled(False)
        client = self._client
        if client is None or already:
            return
        client.connection.shutdown(socket.SHUT_RDWR) if client.connection.fileno() >= 0 else None
        if wait:
            client.close()
        else:
            threading.Thread(target=client.close, name="engine-end", daemon=False).start()


def launch_here(_: Callable[[Text], None]) -> EngineClient:
    """An engine of this machine's own kernel. Raises :class:`MachineCannot`."""
    if not sys.platform.startswith("linux"):
        raise MachineCannot(NEEDS_LINUX())
    return start_engine()


def launch_in_microvm(say: Callable[[Text], None]) -> EngineClient:
    """An engine in a microVM, for what this machine's kernel cannot do. Raises :class:`MachineCannot`."""
    if not sys.platform.startswith("linux"):
        raise MachineCannot(NEEDS_LINUX())
    from netlab.microvm.start import start_engine_in_microvm

    return start_engine_in_microvm(say=say)


def attach_link(name: str) -> EngineLink:
    """A link to the engine of a lab that runs already, and that goes on afterwards."""

    def launch(_: Callable[[Text], None]) -> EngineClient:
        from netlab.engine import rendezvous

        return connect_to(rendezvous.find(name))

    return EngineLink(launch=launch)


def running_labs() -> list[str]:
    """The names of the user's labs that run already; none where that cannot be told."""
    try:
        from netlab.engine import rendezvous

        return list(rendezvous.running(rendezvous.directory()))
    except (ImportError, NetlabError):
        return []


def make_link(*, in_microvm: bool = False) -> EngineLink:
    return EngineLink(launch=launch_in_microvm if in_microvm else launch_here)
