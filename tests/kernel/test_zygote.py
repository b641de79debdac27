"""The fork server: children with what they are given and nothing else; their ends are told; it never blocks."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from netlab.model.errors import LabFailed
from netlab.node import zygote
from netlab.node.zygote import Exited, Spawned, Zygote

pytestmark = pytest.mark.kernel

Sandbox = Callable[[Callable[[], Any]], Any]
WAIT_MS = 20_000


def tell(given: Mapping[str, Any], descriptors: list[int]) -> None:
    """Write into the first descriptor what the child knows of itself."""
    facts = {
        "given": len(given.get("text", "")),
        "pid": os.getpid(),
        "descriptors": sorted(int(name) for name in os.listdir("/proc/self/fd"))[:-1],
        "name": Path("/proc/self/comm").read_text().strip(),
    }
    os.write(descriptors[0], repr(facts).encode())


def wait_for_end(given: Mapping[str, Any], descriptors: list[int]) -> None:
    """Live until the other end of the first descriptor closes."""
    os.write(descriptors[0], b"here")
    os.read(descriptors[0], 1)


def fail(given: Mapping[str, Any], descriptors: list[int]) -> None:
    raise RuntimeError("a fault on purpose")


def end_at_once(given: Mapping[str, Any], descriptors: list[int]) -> None:
    """Do nothing."""


def leave_an_orphan(given: Mapping[str, Any], descriptors: list[int]) -> None:
    """End, and leave a child behind that ends a little later."""
    if os.fork() == 0:
        select.select([], [], [], 0.05)
        os._exit(0)


HANDLERS = {"end": end_at_once, "tell": tell, "wait": wait_for_end, "fail": fail, "orphan": leave_an_orphan}


def started(*, pid_namespaces: bool = False) -> Zygote:
    return zygote.start("test-zygote", HANDLERS, lambda: None, pid_namespaces=pid_namespaces)


def events(server: Zygote, count: int) -> list[Spawned | Exited]:
    """The next so many events."""
    found: list[Spawned | Exited] = []
    poll = select.poll()
    poll.register(server, select.POLLIN)
    while len(found) < count:
        assert poll.poll(WAIT_MS), f"{found} and no more"
        found += server.read()
    return found


def told(server: Zygote, kind: str, parameters: Mapping[str, Any]) -> bytes:
    """What a child writes, and let it end."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        server.spawn(kind, parameters, [theirs.fileno()])
        theirs.close()
        return ours.recv(65536)


class TestChildren:
    def test_it_is_told_when_they_come_and_go(self, sandbox: Sandbox) -> None:
        def use() -> list[tuple[str, int, int | None]]:
            server = started()
            numbers = [server.spawn(kind, {}, [1]) for kind in ("orphan", "fail", "nothing-of-the-kind")]
            assert numbers == [1, 2, 3]
            seen = events(server, 6)
            return sorted((type(each).__name__, each.number, getattr(each, "status", None)) for each in seen)

        assert sandbox(use) == [
            ("Exited", 1, 0),
            ("Exited", 2, 1),
            ("Exited", 3, 1),
            ("Spawned", 1, None),
            ("Spawned", 2, None),
            ("Spawned", 3, None),
        ]

    def test_a_child_that_is_killed(self, sandbox: Sandbox) -> None:
        def use() -> int:
            server = started()
            ours, theirs = socket.socketpair()
            server.spawn("wait", {}, [theirs.fileno()])
            assert ours.recv(4) == b"here"
            (spawned,) = events(server, 1)
            os.kill(spawned.pid, signal.SIGKILL)
            (exited,) = events(server, 1)
            assert isinstance(exited, Exited)
            return exited.status

        assert sandbox(use) == -signal.SIGKILL

    def test_they_have_their_own_descriptors_alone(self, sandbox: Sandbox) -> None:
        def use() -> bytes:
            os.open("/", os.O_RDONLY)
            inheritable = socket.socketpair()
            for each in inheritable:
                each.set_inheritable(True)
            return told(started(), "tell", {})

        facts = eval(sandbox(use))
        assert len(facts["descriptors"]) == 4
        assert facts["descriptors"][:3] == [0, 1, 2]
        assert facts["name"] == "test-zygote"

    def test_with_pid_namespaces_each_is_the_first_of_its_own(self, sandbox: Sandbox) -> None:
        def use() -> list[int]:
            server = started(pid_namespaces=True)
            children = []
            for _ in range(3):
                ours, theirs = socket.socketpair()
                server.spawn("wait", {}, [theirs.fileno()])
                assert ours.recv(4) == b"here"
                children.append(ours)
            return [int(_last_number(each.pid)) for each in events(server, 3)]

        assert sandbox(use) == [1, 1, 1]

    def test_parameters_may_be_long(self, sandbox: Sandbox) -> None:
        length = 3_000_000
        assert eval(sandbox(lambda: told(started(), "tell", {"text": "x" * length})))["given"] == length

    def test_orphans_are_reaped(self, sandbox: Sandbox) -> None:
        def use() -> list[str]:
            server = started()
            server.spawn("orphan", {}, [1])
            events(server, 2)
            deadline = time.monotonic() + 10
            while len(_processes()) > 2 and time.monotonic() < deadline:
                select.select([], [], [], 0.005)
            return _processes()

        assert len(sandbox(use)) == 2


def _processes() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdigit()]


def _last_number(pid: int) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split()[-1] for line in lines if line.startswith("NSpid:"))


class TestServer:
    def test_hundreds_at_once_are_no_deadlock(self, sandbox: Sandbox) -> None:
        def use() -> int:
            server = started()
            for _ in range(500):
                server.spawn("end", {"text": "x" * 1000}, [1])
            return len(events(server, 1000))

        assert sandbox(use) == 1000

    def test_it_ends_with_the_engine(self, sandbox: Sandbox) -> None:
        def use() -> int:
            server = started()
            server.close()
            return os.waitpid(server.pid, 0)[1]

        assert sandbox(use) == 0

    def test_its_death_is_noticed(self, sandbox: Sandbox) -> None:
        def use() -> list[str]:
            server = started()
            os.kill(server.pid, signal.SIGKILL)
            os.waitpid(server.pid, 0)
            found = []
            for action in (server.read, lambda: server.spawn("tell", {}, [1])):
                try:
                    action()
                except (ConnectionError, LabFailed) as error:
                    found.append(str(error))
            return found

        first, second = sandbox(use)
        assert first == "the fork server has ended"
        assert second == "The lab's fork server test-zygote has ended; the lab cannot go on."

    def test_a_child_that_cannot_be_forked(self, sandbox: Sandbox) -> None:
        def use() -> tuple[str, int, int]:
            server = zygote.start("test-zygote", HANDLERS, _forbid_forks)
            server.spawn("tell", {}, [1])
            (event,) = events(server, 1)
            assert isinstance(event, Exited)
            return type(event).__name__, event.pid, event.status

        assert sandbox(use) == ("Exited", 0, 1)


def _forbid_forks() -> None:
    """No namespace and no process can be made any more."""
    os.fork = _refuse


def _refuse() -> int:
    raise BlockingIOError(11, "Resource temporarily unavailable")
