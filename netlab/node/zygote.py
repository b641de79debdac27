"""A fork server: a small, warm process that makes the lab's other processes by forking itself.

It is forked from the engine before that has an event loop or a thread, and has imported all that its children need:
a new kube-proxy or stand-in Pod costs a fork, and starts with no file of the host open.
"""

from __future__ import annotations

import array
import gc
import os
import select
import signal
import socket
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from netlab.kernel import libc

Handler = Callable[[Mapping[str, Any], list[int]], None]
"""What a child does: gets its parameters and its descriptors; its process ends when it returns."""

_LIMIT = 128 * 1024


@dataclass(frozen=True)
class Spawned:
    """A child has been forked."""

    number: int
    pid: int


@dataclass(frozen=True)
class Exited:
    """A child has ended: exit status, or minus the signal that ended it."""

    number: int
    pid: int
    status: int


class Zygote:
    """The engine's end of the fork server. Reads and writes without blocking; watch ``fileno`` for reading."""

    def __init__(self, connection: socket.socket, pid: int) -> None:
        self._socket = connection
        self.pid = pid
        self._number = 0

    def fileno(self) -> int:
        return self._socket.fileno()

    def spawn(self, kind: str, parameters: Mapping[str, Any], descriptors: list[int]) -> int:
        """Ask for a child; returns the number that its :class:`Spawned` and :class:`Exited` will carry."""
        self._number += 1
        body = msgspec.json.encode({"number": self._number, "kind": kind, "parameters": parameters})
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        self._socket.sendmsg([body], rights)
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
        ours.setblocking(False)
        return Zygote(ours, pid)
    ours.close()
    status = 1
    try:
        libc.prctl(libc.PR_SET_NAME, name.encode()[:15])
        home = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC) if pid_namespaces else None
        prepare()
        # What is there now stays: children share these pages as long as nothing writes to them, the collector neither.
        gc.collect()
        gc.freeze()
        _serve(theirs, handlers, home)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _serve(connection: socket.socket, handlers: Mapping[str, Handler], home: int | None) -> None:
    """Fork for each request, reap, report; ends when the engine's end closes.

    ``home`` is the server's own pid namespace, where children are to be in new ones: unshare(2) decides where the next
    child goes, and works again only after a way back.
    """
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    numbers: dict[int, int] = {}
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    poll.register(wake_read, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor == wake_read:
                with suppress(BlockingIOError):
                    os.read(wake_read, 4096)
                _reap(connection, numbers)
                continue
            data, ancillary, _, _ = connection.recvmsg(_LIMIT, socket.CMSG_SPACE(16 * 4))
            if not data:
                return
            request = msgspec.json.decode(data)
            descriptors = array.array("i")
            for level, kind, value in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    descriptors.frombytes(value[: len(value) - len(value) % descriptors.itemsize])
            if home is not None:
                libc.unshare(libc.CLONE_NEWPID)
            pid = os.fork()
            if pid and home is not None:
                libc.setns(home, libc.CLONE_NEWPID)
            if pid == 0:
                connection.close()
                os.close(wake_read)
                signal.set_wakeup_fd(-1)
                os.close(wake_write)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _become(handlers[request["kind"]], request["parameters"], list(descriptors))
            for each in descriptors:
                os.close(each)
            numbers[pid] = request["number"]
            connection.send(msgspec.json.encode({"event": "spawned", "number": request["number"], "pid": pid}))


def _become(handler: Handler, parameters: Mapping[str, Any], descriptors: list[int]) -> None:
    status = 1
    try:
        handler(parameters, descriptors)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _reap(connection: socket.socket, numbers: dict[int, int]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        number = numbers.pop(pid, None)
        if number is not None:
            event = {"event": "exited", "number": number, "pid": pid, "status": os.waitstatus_to_exitcode(status)}
            connection.send(msgspec.json.encode(event))
