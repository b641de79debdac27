"""The process on the host that stands for the engine in the guest: to frontends, it is the engine.

Started by a frontend (:mod:`netlab.microvm.start`), never by hand: ``python -m netlab.microvm FRONTEND LISTENER
DIRECTORY`` as an engine, then ``KERNEL INITRAMFS ROOT STATE`` (descriptors of the guest's files) and ``ACCELERATOR``
(or "make", to make the state).

It is PID 1 of a sandbox like an engine's: when it ends, for whatever reason, the kernel ends QEMU with it; and QEMU
has no way into the host's network.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

from netlab.engine import rendezvous
from netlab.engine.faults import as_error
from netlab.kernel import sandbox
from netlab.microvm import ports, qemu
from netlab.microvm.machine import EngineEnded, Machine
from netlab.microvm.streams import Line, Stream
from netlab.model import jsonrpc
from netlab.model.errors import EXIT_MACHINE, LabFailed, MachineCannot, NetlabError
from netlab.model.text import Message

MODULE = "netlab.microvm"
MAKE = "make"
"""In place of an accelerator: find out which one works, and save the state of a guest that waits for a frontend."""
SAVED = "microvm.saved"
"""The notification that says that it is done, and with which accelerator."""

AWAKE = "microvm.awake"
"""The notification that the guest has gone on from its state: the engine in it is there."""

BOOT_S = {qemu.TCG: 120.0, qemu.KVM: 15.0}
"""How long a guest may take from its start to where its engine is ready, seconds. KVM that takes longer does not work:
nested in some clouds' machines, it is offered and hangs."""
WAKE_S = 30.0
"""How long a guest may take to go on from its state, seconds."""
FAREWELL_S = 2.0
"""How long the last words to frontends may take to go out, seconds."""
LINGER_S = 0.3
"""How long a connection stays that the engine has closed, seconds: it may have died, and its frontends are to hear why.
"""
STOP_S = 4.0
"""How long the engine may take to end when it is asked to, seconds; then the guest is ended."""

NOT_SAVED = Message(
    "microvm.not-saved",
    en="The microVM's state cannot be saved: {error}",
    zh="无法保存 microVM 的状态：{error}",
)
ENGINE_ENDED = Message(
    "microvm.engine-ended",
    en="The engine in the microVM has ended while it was being started: {words}",
    zh="microVM 中的引擎在启动时退出：{words}",
)
ENGINE_KILLED = Message(
    "microvm.engine-killed",
    en="The engine in the microVM, which has {memory} MiB of memory, was ended by signal {number}{words}",
    zh="microVM (内存 {memory} MiB) 中的引擎被信号 {number} 终止{words}",
)

_STANDARD_ERROR = 2


def main(arguments: list[str]) -> int:
    frontend, listener, directory, *files = (int(each) for each in arguments[:7])
    *parts, state = files
    image, accelerator = qemu.Image(*parts), arguments[7]
    first = socket.socket(fileno=frontend)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    code = [Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[2]]
    try:
        sandbox.enter(lambda pid: _tell(first, "engine.started", {"pid": pid}), code)
        if accelerator == MAKE:
            asyncio.run(_while_wanted(first, _make(first, image, state)))
        else:
            others = socket.socket(fileno=listener) if listener else None
            supervisor = Supervisor(first, others, directory or None)
            asyncio.run(supervisor.run(image, accelerator, state))
    except Exception as error:
        _tell(first, "engine.failed", jsonrpc.error_from(as_error(error, "microVM")))
        return EXIT_MACHINE
    return 0


def _tell(first: socket.socket, method: str, parameters: object) -> None:
    """The frontend may have gone."""
    with suppress(OSError):
        first.sendall(jsonrpc.notification(method, parameters))


async def _while_wanted(first: socket.socket, work: Coroutine[Any, Any, None]) -> None:
    """Do something for as long as the first frontend is there. Raises what it raises."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    loop.add_signal_handler(signal.SIGTERM, task.cancel)
    with select.epoll() as hangup:
        # Not by reading: what the frontend has sent is for the engine.
        hangup.register(first, select.EPOLLRDHUP)
        loop.add_reader(hangup.fileno(), task.cancel)
        with suppress(asyncio.CancelledError):
            await task
        loop.remove_reader(hangup.fileno())


async def _make(first: socket.socket, image: qemu.Image, state: int) -> None:
    """KVM is tried where this user may use it."""
    if qemu.may_use_kvm():
        with suppress(NetlabError):
            await _save(image, qemu.KVM, state)
            _tell(first, SAVED, {"accelerator": qemu.KVM})
            return
        os.ftruncate(state, 0)
        os.lseek(state, 0, os.SEEK_SET)
    await _save(image, qemu.TCG, state)
    _tell(first, SAVED, {"accelerator": qemu.TCG})


async def _save(image: qemu.Image, accelerator: str, state: int) -> None:
    """Raises :class:`NetlabError` where the guest does not come so far."""
    async with Machine(qemu.start(image, accelerator)) as machine:
        try:
            await machine.until(ports.READY, BOOT_S[accelerator])
            await asyncio.to_thread(qemu.save, machine.process.monitor, state)
        except EngineEnded as error:
            words = " ".join(error.log.decode(errors="replace").split()[-30:])
            raise LabFailed(ENGINE_ENDED(words=words or error.status)) from error
        except (qemu.MonitorError, OSError) as error:
            raise MachineCannot(NOT_SAVED(error=error)) from error


class Supervisor:
    """``first`` is the first frontend's connection; ``listener`` a socket for others, which has its name in
    ``directory``. :meth:`run` returns when the engine has ended, or nobody wants it any more.
    """

    def __init__(self, first: socket.socket, listener: socket.socket | None, directory: int | None) -> None:
        self.first = first
        self.listener = listener
        self.directory = directory
        self._frontends: set[_Frontend] = set()
        self._all_gone = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, image: qemu.Image, accelerator: str, state: int) -> None:
        """Raises :class:`NetlabError` where there is no guest to be had."""
        async with Machine(qemu.start(image, accelerator, state)) as machine:
            machine.wake()
            await machine.until(ports.PONG, WAKE_S)
            _tell(self.first, AWAKE, {})
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._stop, machine)
            await self._carry(machine)

    async def _carry(self, machine: Machine) -> None:
        """Connect frontends with the engine until that has ended, or the guest is lost."""
        loop = asyncio.get_running_loop()
        first = self._open(machine, ports.FIRST)
        await loop.connect_accepted_socket(lambda: first, self.first)
        server = None
        if self.listener is not None:
            server = await loop.create_unix_server(lambda: self._open(machine, ports.FURTHER), sock=self.listener)
        reason = await machine.gone
        if server is not None:
            server.close()
            self._forget_name()
        line = b""
        if isinstance(reason, EngineEnded):
            os.write(_STANDARD_ERROR, reason.log)
            if reason.status < 0:
                words = machine.last_words()
                text = ENGINE_KILLED(memory=qemu.MEMORY_MIB, number=-reason.status, words=words)
                line = jsonrpc.notification("engine.failed", jsonrpc.error_from(LabFailed(text)))
        else:
            line = jsonrpc.notification("engine.failed", jsonrpc.error_from(as_error(reason, "microVM")))
        for frontend in list(self._frontends):
            frontend.end(line)
        if self._frontends:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_gone.wait(), FAREWELL_S)

    def _open(self, machine: Machine, purpose: str) -> _Frontend:
        """A frontend's connection into the guest, whose socket is still to come."""
        frontend = _Frontend(machine.line, self._closed)
        self._frontends.add(frontend)
        machine.line.begin(frontend, purpose)
        return frontend

    def _closed(self, frontend: _Frontend) -> None:
        self._frontends.discard(frontend)
        if not self._frontends:
            self._all_gone.set()

    def _forget_name(self) -> None:
        """Take our socket's name away, as nobody listens any more. Where root made it, whoever comes by does that."""
        if self.directory is not None:
            with suppress(NetlabError, OSError):
                rendezvous.running(Path(f"/proc/self/fd/{self.directory}"))

    def _stop(self, machine: Machine) -> None:
        """End as an engine does that is asked to: it says farewell to its frontends."""
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        ours.sendall(jsonrpc.request(1, "engine.stop", {}))
        stream = Stream(machine.line)
        machine.line.begin(stream, ports.FURTHER)
        self._tasks.add(task := loop.create_task(loop.connect_accepted_socket(lambda: stream, theirs)))
        task.add_done_callback(self._tasks.discard)
        loop.call_later(STOP_S, ours.close)
        loop.call_later(STOP_S, machine.lose, EngineEnded(0, b""))


class _Frontend(Stream):
    """A frontend's connection. It gets whole lines only, so that the last of them can be ours."""

    def __init__(self, line: Line, closed: Callable[[_Frontend], None]) -> None:
        super().__init__(line)
        self._tell_closed = closed
        self._lines = jsonrpc.LineBuffer()

    def deliver(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            super().deliver(line + b"\n")

    def close(self) -> None:
        asyncio.get_running_loop().call_later(LINGER_S, super().close)

    def end(self, line: bytes) -> None:
        """Say a last line, and close."""
        if line:
            super().deliver(line)
        super().close()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._tell_closed(self)


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))
