"""A guest that runs, seen from the host: its ports, its console, its pulse, and how it may end."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from netlab.microvm import ports, qemu
from netlab.microvm.streams import Line, Stream
from netlab.model import jsonrpc
from netlab.model.errors import UNEXPECTED, LabFailed
from netlab.model.text import Message, Text

PULSE_S = 1.0
"""How often the guest is asked whether it is alive, seconds."""
PATIENCE_S = 8.0
"""How long it may take to say so, seconds; emulated on a busy machine, it is slow, but not that slow."""

DIED = Message(
    "microvm.died",
    en="The microVM has ended unexpectedly: QEMU's exit status is {status}{words}",
    zh="microVM 意外退出：QEMU 的退出状态为 {status}{words}",
)
CRASHED = Message(
    "microvm.crashed",
    en="The microVM's kernel has crashed: {words}",
    zh="microVM 的内核崩溃：{words}",
)
HUNG = Message(
    "microvm.hung",
    en="The microVM has not answered for {seconds} s, and has been ended{words}",
    zh="microVM 已有 {seconds} 秒没有应答，已将其结束{words}",
)
NOT_STARTED = Message(
    "microvm.not-started",
    en="The microVM has not started within {seconds} s{words}",
    zh="microVM 在 {seconds} 秒内没有启动{words}",
)
LAST_WORDS = Message("microvm.last-words", en="; its last words: {words}", zh="；最后的输出：{words}")
NO_WORDS = Message("microvm.no-words", en="", zh="")

_CONSOLE_BYTES = 16 * 1024
_PANIC = re.compile(r"Kernel panic[^\n]*")
_STAMP = re.compile(r"^\[ *[\d.]+\] ", re.MULTILINE)
_WORDS = 300


class EngineEnded(Exception):
    """The engine in the guest has ended: its exit status, and the end of its log."""

    def __init__(self, status: int, log: bytes) -> None:
        super().__init__(status)
        self.status = status
        self.log = log


class Machine:
    """``async with`` takes charge of a QEMU, and ends it. ``gone`` gets the reason where the guest ends otherwise."""

    def __init__(self, process: qemu.Process) -> None:
        self.process = process
        self.gone: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self.line = Line(self._opened)
        self._told: dict[str, asyncio.Event] = {ports.READY: asyncio.Event(), ports.PONG: asyncio.Event()}
        self.console = b""
        self._notes_heard = 0
        self._notes: asyncio.Transport | None = None
        self._pulse: asyncio.Task[None] | None = None
        self._pidfd = os.pidfd_open(process.popen.pid)

    async def __aenter__(self) -> Machine:
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(lambda: self.line, self.process.streams)
        self._notes, _ = await loop.connect_accepted_socket(lambda: _Notes(self), self.process.notes)
        await loop.connect_accepted_socket(lambda: _Console(self), self.process.console)
        return self

    async def __aexit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        if self._pulse is not None:
            self._pulse.cancel()
            with suppress(asyncio.CancelledError):
                await self._pulse
        self.process.close()
        os.close(self._pidfd)

    def tell(self, note: str, parameters: Mapping[str, Any] | None = None) -> None:
        assert self._notes is not None
        self._notes.write(jsonrpc.notification(note, parameters))

    async def until(self, note: str, seconds: float) -> None:
        """Until the guest says so. Raises why the guest is lost, or that it has not said so in time."""
        waiting: asyncio.Future[Any] = asyncio.ensure_future(self._told[note].wait())
        either: list[asyncio.Future[Any]] = [waiting, self.gone]
        await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            return
        waiting.cancel()
        if self.gone.done():
            raise self.gone.result()
        raise LabFailed(NOT_STARTED(seconds=round(seconds), words=self.last_words()))

    def wake(self) -> None:
        """Once it goes on from a snapshot: the time, and randomness of its own. From now on its pulse is felt."""
        self.tell(ports.PING, {"time_ns": time.time_ns(), "entropy": base64.b64encode(os.urandom(64)).decode()})
        self._pulse = asyncio.get_running_loop().create_task(self._feel_pulse())

    async def _feel_pulse(self) -> None:
        """Whatever the guest says is a sign of life."""
        heard = self._all_heard()
        silent = 0.0
        while silent < PATIENCE_S:
            await asyncio.sleep(PULSE_S)
            silent = 0.0 if self._all_heard() != heard else silent + PULSE_S
            heard = self._all_heard()
            self.tell(ports.PING, {"time_ns": time.time_ns()})
        self.lose(LabFailed(HUNG(seconds=round(silent), words=self.last_words())))

    def _all_heard(self) -> tuple[int, int]:
        return self.line.received, self._notes_heard

    def lose(self, reason: Exception) -> None:
        """Note why the guest is of no use any more; the first reason counts."""
        if not self.gone.done():
            self.gone.set_result(reason)

    def noted(self, message: jsonrpc.Message) -> None:
        """The guest has said something over its port for notes."""
        self._notes_heard += 1
        if message.method == ports.FAILED:
            self.lose(jsonrpc.exception_from(msgspec.convert(message.params, jsonrpc.Error)))
        elif message.method == ports.ENDED:
            self.lose(EngineEnded(message.params["status"], base64.b64decode(message.params["log"])))
        elif message.method in self._told:
            self._told[message.method].set()

    def fault(self, error: Exception) -> None:
        """What came out of the guest is not what our own code says there."""
        self.lose(LabFailed(UNEXPECTED(what=f"microVM: {error}", details=self.last_words())))

    def ending(self) -> None:
        """QEMU has closed the console, after its last word: it is about to end."""
        asyncio.get_running_loop().add_reader(self._pidfd, self._ended)

    def _ended(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        status = self.process.popen.wait()
        panic = _PANIC.search(self.console.decode(errors="replace"))
        if panic is not None:
            self.lose(LabFailed(CRASHED(words=panic.group().strip())))
        else:
            self.lose(LabFailed(DIED(status=status, words=self.last_words())))

    def last_words(self) -> Text:
        """The end of what the guest's kernel and QEMU have said, to be appended to a sentence."""
        words = " ".join(_STAMP.sub("", self.console.decode(errors="replace")).split())
        return LAST_WORDS(words=words[-_WORDS:]) if words else NO_WORDS()

    def _opened(self, stream: Stream, purpose: str) -> None:
        raise ValueError("the guest opens no streams")


class _Notes(asyncio.Protocol):
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._lines = jsonrpc.LineBuffer()

    def data_received(self, data: bytes) -> None:
        try:
            for line in self._lines.feed(data):
                self.machine.noted(jsonrpc.decode(line))
        except (ValueError, KeyError, TypeError, msgspec.MsgspecError) as error:
            self.machine.fault(error)


class _Console(asyncio.Protocol):
    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def data_received(self, data: bytes) -> None:
        self.machine.console = (self.machine.console + data)[-_CONSOLE_BYTES:]

    def connection_lost(self, exc: Exception | None) -> None:
        self.machine.ending()
