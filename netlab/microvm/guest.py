"""The guest's first process: prepares the machine, starts the engine, and carries the frontends' connections to it.

The engine is forked from here, where little has been imported: the lab's Pods are its grandchildren and share what it
has in memory. It runs as the guest's real root, as the kernel has no IPVS for users of a user namespace.
"""

from __future__ import annotations

import asyncio
import base64
import fcntl
import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable
from typing import Any, NoReturn

import msgspec

from netlab.kernel import libc
from netlab.microvm import ports
from netlab.microvm.streams import Line, Stream
from netlab.model import jsonrpc

ENGINE_SOCKET = "\0netlab-engine"
"""Where the engine listens for further frontends: a name in the guest's first network namespace, not a file."""

_OPEN_FILES = 1024 * 1024
_TOOLS = ("ip", "iptables-nft-restore", "ip6tables-nft-restore", "nft")
"""Run once before the snapshot: what they read from the image is in memory then."""
_LOG_BYTES = 64 * 1024
_CLOCK_TOLERANCE_NS = 50_000_000
_ADD_ENTROPY, _RESEED = 0x40085203, 0x5207
"""ioctl(2) requests to /dev/random, see random(4)."""
_READY = 0
"""Number of the agent's one request to the engine; frontends number theirs from 1."""


Become = Callable[[socket.socket, socket.socket, int], NoReturn]
"""What the guest's second process turns into, with the first frontend's connection, a listener, and a log to write."""


def main(become: Become | None = None) -> None:
    """As PID 1. ``become``: what is to be in the engine's place; it tells of itself like an engine."""
    prepare()
    log = os.memfd_create("engine.log")
    first, engines_end = socket.socketpair()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(ENGINE_SOCKET)
    listener.listen()
    if os.fork() == 0:
        first.close()
        (become or _become_engine)(engines_end, listener, log)
    engines_end.close()
    listener.close()
    for tool in filter(shutil.which, _TOOLS):
        subprocess.run([tool, "-V"], stdout=subprocess.DEVNULL, check=False)
    asyncio.run(Agent(first, log).serve())


def prepare() -> None:
    """What the initramfs has left to do."""
    os.makedirs("/dev/pts", exist_ok=True)
    libc.mount("devpts", "/dev/pts", "devpts", 0, "mode=620,ptmxmode=666")
    resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN_FILES, _OPEN_FILES))
    os.chdir("/")


def detach(log: int) -> None:
    """Leave the console, and write to the log."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor, wanted in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(descriptor, wanted)


def _become_engine(first: socket.socket, listener: socket.socket, log: int) -> NoReturn:
    status = 1
    try:
        detach(log)
        from netlab.engine import __main__ as engine
        from netlab.engine.preload import import_all

        arguments = [str(first.fileno()), str(listener.fileno())]
        status = engine.main(arguments, own_users=False, before_serving=import_all)
    finally:
        os._exit(status)


class Agent:
    """``first``: the near end of the connection that the engine takes for its first frontend's. ``log``: the file that
    the engine writes to."""

    def __init__(self, first: socket.socket, log: int) -> None:
        self.first = first
        self.log = log
        self.line = Line(self._opened)
        self.notes: asyncio.WriteTransport | None = None
        self._engine = 0
        self._ended: dict[int, int] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    async def serve(self) -> None:
        """Until the host closes the line, and that is the end of the guest."""
        loop = asyncio.get_running_loop()
        # Whether the guest lives is not to depend on how busy it is.
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
        loop.add_signal_handler(signal.SIGCHLD, self._reap)
        self.notes = await connect(ports.NOTES, _Notes(self))
        await connect(ports.STREAMS, self.line)
        await self._engine_ready()
        self._reap()
        await self.line.lost.wait()

    def tell(self, note: str, parameters: object = None) -> None:
        assert self.notes is not None
        self.notes.write(jsonrpc.notification(note, parameters))

    def _opened(self, stream: Stream, purpose: str) -> None:
        connection = self.first
        if purpose == ports.FURTHER:
            connection = socket.socket(socket.AF_UNIX)
            connection.setblocking(False)
            try:
                connection.connect(ENGINE_SOCKET)
            except (BlockingIOError, ConnectionRefusedError):
                # The engine has ended, or has more connections waiting than it takes.
                connection.close()
                self.line.forget(stream)
                return
        task = asyncio.create_task(asyncio.get_running_loop().connect_accepted_socket(lambda: stream, connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _reap(self) -> None:
        """Whatever has no parent any more is PID 1's child, and stays a zombie until PID 1 asks for it."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if self._engine in (0, pid):
                # As long as it is 0, it may be the engine, whose pid is still to be told.
                self._ended[pid] = os.waitstatus_to_exitcode(status)
        if self._engine in self._ended:
            self._tell_end(self._ended.pop(self._engine))

    def _tell_end(self, status: int) -> None:
        end = os.fstat(self.log).st_size
        words = os.pread(self.log, _LOG_BYTES, max(0, end - _LOG_BYTES))
        self.tell(ports.ENDED, {"status": status, "log": base64.b64encode(words).decode()})

    async def _engine_ready(self) -> None:
        """Until the engine waits for its first frontend, or has failed."""
        loop = asyncio.get_running_loop()
        self.first.setblocking(False)
        await loop.sock_sendall(self.first, jsonrpc.request(_READY, "engine.log", {}))
        lines = jsonrpc.LineBuffer()
        while True:
            data = await loop.sock_recv(self.first, 65536)
            if not data:
                self._tell_end(1)
                return
            for message in map(jsonrpc.decode, lines.feed(data)):
                if message.method == "engine.started":
                    self._engine = message.params["pid"]
                elif message.method == "engine.failed":
                    self.tell(ports.FAILED, msgspec.convert(message.params, jsonrpc.Error))
                    return
                elif message.id == _READY:
                    self.tell(ports.READY)
                    return


async def connect(port: str, protocol: Line | _Notes) -> asyncio.WriteTransport:
    """Have a protocol read from a port, and write to it."""
    loop = asyncio.get_running_loop()
    descriptor = ports.open_port(port)
    writing = open(os.dup(descriptor), "wb", buffering=0)  # noqa: SIM115
    writer, _ = await loop.connect_write_pipe(lambda: protocol, writing)
    await loop.connect_read_pipe(lambda: protocol, open(descriptor, "rb", buffering=0))  # noqa: SIM115
    return writer


class _Notes(asyncio.Protocol):
    """The reading side of the port for notes."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self._lines = jsonrpc.LineBuffer()

    def data_received(self, data: bytes) -> None:
        for message in map(jsonrpc.decode, self._lines.feed(data)):
            if message.method == ports.PING:
                answer_ping(message.params)
                self.agent.tell(ports.PONG)


def answer_ping(parameters: dict[str, object]) -> None:
    """A guest's clock stands still while nothing runs it, and guests of one snapshot would draw the same numbers."""
    now = int(str(parameters["time_ns"]))
    if abs(now - time.time_ns()) > _CLOCK_TOLERANCE_NS:
        time.clock_settime_ns(time.CLOCK_REALTIME, now)
    if parameters.get("entropy"):
        entropy = base64.b64decode(str(parameters["entropy"]))
        with open("/dev/random", "wb", buffering=0) as random:
            fcntl.ioctl(random, _ADD_ENTROPY, struct.pack("ii", len(entropy) * 8, len(entropy)) + entropy)
            fcntl.ioctl(random, _RESEED)


if __name__ == "__main__":
    main()
