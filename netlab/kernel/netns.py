"""Network namespaces by file descriptor: nothing on disk; a closed descriptor frees its namespace."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from netlab.kernel import libc


class NetNamespace:
    """One network namespace, held by an open descriptor."""

    def __init__(self, name: str, descriptor: int) -> None:
        self.name = name
        self.descriptor = descriptor

    def close(self) -> None:
        os.close(self.descriptor)

    def __repr__(self) -> str:
        return f"NetNamespace({self.name!r})"

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Be in this namespace within the block (this thread only; sockets and processes made there stay in it)."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            libc.setns(self.descriptor, libc.CLONE_NEWNET)
            try:
                yield
            finally:
                libc.setns(home, libc.CLONE_NEWNET)
        finally:
            os.close(home)


def create(names: list[str]) -> list[NetNamespace]:
    """New, empty network namespaces (only a loopback link, down)."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    made: list[NetNamespace] = []
    try:
        for name in names:
            libc.unshare(libc.CLONE_NEWNET)
            made.append(NetNamespace(name, os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)))
    except BaseException:
        for namespace in made:
            namespace.close()
        raise
    finally:
        libc.setns(home, libc.CLONE_NEWNET)
        os.close(home)
    return made
