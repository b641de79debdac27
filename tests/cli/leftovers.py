"""What a test may leave on a machine: processes, namespaces, links, mounts, files. Nothing of it should stay.

Tests run at the same time, so processes are told by the mark that their environment carries; a dead one that nobody
has reaped has none, and is told by its parent, which is the test.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path

import pytest

from tests.cli.command import MARK, until

PROC = Path("/proc")
NAMED_NAMESPACES = (Path("/run/netns"), Path("/var/run/netns"))
GONE_S = 10.0
"""The kernel takes namespaces back some time after their last process has ended."""


@dataclass(frozen=True)
class Traces:
    """What there is, each thing as a line of text."""

    processes: frozenset[str]
    zombies: frozenset[str]
    namespaces: frozenset[str]
    named_namespaces: frozenset[str]
    held_namespaces: frozenset[str]
    links: frozenset[str]
    mounts: frozenset[str]
    files: frozenset[str]

    def beyond(self, before: Traces) -> list[str]:
        """What is here and was not before."""
        found = []
        for each in fields(self):
            for line in sorted(getattr(self, each.name) - getattr(before, each.name)):
                found.append(f"{each.name}: {line}")
        return found


def traces(token: str, folders: Iterable[Path]) -> Traces:
    """What there is now: of this test's own processes, in the folders, and on the whole host."""
    own = list(marked(token))
    return Traces(
        processes=frozenset(_described(pid) for pid in own),
        zombies=frozenset(_described(pid) for pid in _children(os.getpid()) if _state(pid) == "Z"),
        namespaces=frozenset(text for pid in own if (text := _namespace(pid))) - {_namespace(os.getpid())},
        named_namespaces=frozenset(str(path) for folder in NAMED_NAMESPACES for path in _listed(folder)),
        held_namespaces=frozenset(_held(os.getpid())),
        links=frozenset(os.listdir("/sys/class/net")),
        mounts=frozenset(line.split(" - ")[0].split()[4] for line in _lines(PROC / "self" / "mountinfo")),
        files=frozenset(str(path) for folder in folders for path in _listed(folder)),
    )


@contextmanager
def none_left(token: str, folders: Iterable[Path]) -> Iterator[None]:
    """Fails where something is there after the block that was not there before."""
    folders = list(folders)
    before = traces(token, folders)
    yield
    remaining: list[str] = []

    def gone() -> bool:
        remaining[:] = traces(token, folders).beyond(before)
        return not remaining

    try:
        until(gone, "nothing left", GONE_S)
    except AssertionError:
        pytest.fail("left behind:\n" + "\n".join(remaining))


def marked(token: str) -> Iterator[int]:
    """The processes of a test, of which each has inherited its environment; this one is none of them."""
    wanted = f"{MARK}={token}".encode()
    for pid in _numbers(PROC):
        with suppress(OSError):
            if pid != os.getpid() and wanted in (PROC / str(pid) / "environ").read_bytes().split(b"\0"):
                yield pid


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(word) for word in (PROC / str(pid) / "task" / str(pid) / "children").read_text().split()]
    return []


def _described(pid: int) -> str:
    with suppress(OSError):
        words = (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        return f"{pid} {words.strip() or (PROC / str(pid) / 'comm').read_text().strip()}"
    return str(pid)


def _state(pid: int) -> str:
    with suppress(OSError):
        return (PROC / str(pid) / "stat").read_text().rpartition(") ")[2][:1]
    return ""


def _namespace(pid: int) -> str:
    with suppress(OSError):
        return os.readlink(PROC / str(pid) / "ns" / "net")
    return ""


def _held(pid: int) -> Iterator[str]:
    """Namespaces that a process holds by a descriptor."""
    folder = PROC / str(pid) / "fd"
    for number in _numbers(folder):
        with suppress(OSError):
            target = os.readlink(folder / str(number))
            if target.endswith("]") and target.split(":")[0] in ("net", "mnt", "pid", "user"):
                yield target


def _numbers(folder: Path) -> Iterator[int]:
    return (int(name) for name in os.listdir(folder) if name.isdigit())


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def _listed(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*")) if folder.is_dir() else []
