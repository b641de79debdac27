"""A fork server: a small, warm process that makes the lab's other processes by forking itself.

It is forked from the engine before that has an event loop or a thread, and has imported all that its children need:
a new kube-proxy or stand-in Pod costs a fork, and starts with no file of the host open.

A request is the word "spawn" with descriptors: a file with the parameters (they may be longer than any datagram), then
those that the child is to have. The server never waits for the engine, so that the engine may wait for the server.
"""

from __future__ import annotations

import array
import gc
import os
import select
import signal
import socket
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from netlab.kernel import libc
from netlab.model.errors import LabFailed
from netlab.model.text import Message

ENDED = Message(
    "zygote.ended",
    en="The lab's fork server {name} has ended; the lab cannot go on.",
    zh="实验中的 fork 服务进程 {name} 已退出；实验无法继续。",
)

Handler = Callable[[Mapping[str, Any], list[int]], None]
"""What a child does: gets its parameters and its descriptors; its process ends when it returns."""

_SPAWN = b"spawn"
_REFUSED = 100
"""A child's exit status above this one is an errno and this."""
_LIMIT = 4096
_MOST_DESCRIPTORS = 16


@dataclass(frozen=True)
class Spawned:
    """A child has been forked."""

    number: int
    pid: int


@dataclass(frozen=True)
class Exited:
    """A child has ended: exit status, or minus the signal that ended it. ``pid`` is 0 where it could not be forked.

    ``errno``: what the kernel refused it, where that is what it ended of, or could not be forked for; else 0.
    """

    number: int
    pid: int
    status: int
    errno: int = 0


class Zygote:
    """The engine's end of the fork server. Reads without blocking; watch ``fileno`` for reading."""

    def __init__(self, name: str, connection: socket.socket, pid: int) -> None:
        self.name = name
        self.pid = pid
        self._socket = connection
        self._number = 0

    def fileno(self) -> int:
        return self._socket.fileno()

    def spawn(self, kind: str, parameters: Mapping[str, Any], descriptors: list[int]) -> int:
        """Ask for a child; returns the number that its :class:`Spawned` and :class:`Exited` will carry.

        Raises :class:`LabFailed` where the fork server has died.
        """
        self._number += 1
        letter = os.memfd_create("request", os.MFD_CLOEXEC)
        try:
            _write(letter, msgspec.json.encode({"number": self._number, "kind": kind, "parameters": parameters}))
            rights = array.array("i", [letter, *descriptors])
            self._socket.sendmsg([_SPAWN], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        except ConnectionError as error:
            raise LabFailed(ENDED(name=self.name)) from error
        finally:
            os.close(letter)
        return self._number

    def read(self) -> list[Spawned | Exited]:
        """What has happened since the last call. Raises ConnectionError where the fork server has died."""
        events: list[Spawned | Exited] = []
        while True:
            try:
                data = self._socket.recv(_LIMIT, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return events
            if not data:
                raise ConnectionResetError("the fork server has ended")
            value = msgspec.json.decode(data)
            kind = Spawned if value["event"] == "spawned" else Exited
            del value["event"]
            events.append(kind(**value))

    def close(self) -> None:
        self._socket.close()


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def start(
    name: str, handlers: Mapping[str, Handler], prepare: Callable[[], None], *, pid_namespaces: bool = False
) -> Zygote:
    """Fork the server; ``prepare`` runs once in it before its first child.

    With ``pid_namespaces`` each child is PID 1 of a pid namespace of its own.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid:
        theirs.close()
        return Zygote(name, ours, pid)
    ours.close()
    status = 1
    try:
        libc.prctl(libc.PR_SET_NAME, name.encode()[:15])
        _close_all_but({0, 1, 2, theirs.fileno()})
        home = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC) if pid_namespaces else None
        prepare()
        # What is there now stays: children share these pages as long as nothing writes to them, the collector neither.
        gc.collect()
        gc.freeze()
        with suppress(ConnectionError):
            _Server(theirs, handlers, home).serve()
        status = 0
    except BaseException:
        _complain()
    finally:
        os._exit(status)


def _complain() -> None:
    """Write the exception that is being handled into the engine's log."""
    with suppress(OSError):
        os.write(2, traceback.format_exc().encode(errors="replace"))


def _close_all_but(kept: set[int]) -> None:
    """The engine's connections and its folder on the host are nobody else's."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            with suppress(OSError):
                os.close(int(name))


class _Server:
    """The fork server's own side.

    ``home`` is its pid namespace, where children are to be in new ones: unshare(2) decides where the next child goes,
    and works again only after a way back.
    """

    def __init__(self, connection: socket.socket, handlers: Mapping[str, Handler], home: int | None) -> None:
        self.connection = connection
        self.handlers = handlers
        self.home = home
        self.numbers: dict[int, int] = {}
        self.unsent: deque[bytes] = deque()
        self.wake_read, self.wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def serve(self) -> None:
        """Fork for each request, reap, report; ends when the engine's end closes, or raises ConnectionError then."""
        # What a killed child leaves behind (a tool that it ran) becomes ours, and is reaped.
        libc.prctl(libc.PR_SET_CHILD_SUBREAPER, 1)
        signal.set_wakeup_fd(self.wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.connection.setblocking(False)
        poll = select.poll()
        poll.register(self.wake_read, select.POLLIN)
        while True:
            poll.register(self.connection, select.POLLIN | (select.POLLOUT if self.unsent else 0))
            for descriptor, events in poll.poll():
                if descriptor == self.wake_read:
                    with suppress(BlockingIOError):
                        os.read(self.wake_read, 4096)
                    self._reap()
                elif events & ~select.POLLOUT and not self._take():
                    return
            self._send()

    def _take(self) -> bool:
        """One request; False at the end of them all."""
        data, ancillary, _, _ = self.connection.recvmsg(_LIMIT, socket.CMSG_SPACE(_MOST_DESCRIPTORS * 4))
        if not data:
            return False
        received = array.array("i")
        for level, kind, value in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                received.frombytes(value[: len(value) - len(value) % received.itemsize])
        letter, *descriptors = received
        request = msgspec.json.decode(os.pread(letter, os.fstat(letter).st_size, 0))
        os.close(letter)
        self._spawn(request, descriptors)
        for each in descriptors:
            os.close(each)
        return True

    def _spawn(self, request: Mapping[str, Any], descriptors: list[int]) -> None:
        number = request["number"]
        try:
            pid = self._fork()
        except OSError as error:
            _complain()
            self._tell({"event": "exited", "number": number, "pid": 0, "status": 1, "errno": error.errno})
            return
        if pid == 0:
            self._leave()
            _become(self.handlers[request["kind"]], request["parameters"], descriptors)
        self.numbers[pid] = number
        self._tell({"event": "spawned", "number": number, "pid": pid})

    def _fork(self) -> int:
        if self.home is None:
            return os.fork()
        libc.unshare(libc.CLONE_NEWPID)
        pid = -1
        try:
            pid = os.fork()
        finally:
            if pid:
                libc.setns(self.home, libc.CLONE_NEWPID)
        return pid

    def _leave(self) -> None:
        """As the child: let go of what is the server's."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.connection.close()
        for each in (self.wake_read, self.wake_write, *([self.home] if self.home is not None else [])):
            os.close(each)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            number = self.numbers.pop(pid, None)
            if number is not None:
                code = os.waitstatus_to_exitcode(status)
                refused = code - _REFUSED if code > _REFUSED else 0
                event = {"event": "exited", "number": number, "pid": pid, "status": 1 if refused else code}
                self._tell({**event, "errno": refused})

    def _tell(self, event: Mapping[str, Any]) -> None:
        self.unsent.append(msgspec.json.encode(event))

    def _send(self) -> None:
        with suppress(BlockingIOError):
            while self.unsent:
                self.connection.send(self.unsent[0])
                self.unsent.popleft()


def _become(handler: Handler, parameters: Mapping[str, Any], descriptors: Iterable[int]) -> None:
    status = 1
    try:
        handler(parameters, list(descriptors))
        status = 0
    except OSError as error:
        _complain()
        status = _REFUSED + (error.errno or 0) if (error.errno or 0) < _REFUSED else 1
    except BaseException:
        _complain()
    finally:
        os._exit(status)
