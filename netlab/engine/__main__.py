"""The engine's process: into the sandbox, then fork servers, then the event loop.

Started by a frontend (:mod:`netlab.engine.client`), never by hand: ``python -m netlab.engine FRONTEND [LISTENER
[DIRECTORY]]`` with the numbers of inherited descriptors (0 for none): the first frontend's connection, a listening
socket for others, the folder of sockets.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from netlab.kernel import sandbox
from netlab.model import jsonrpc
from netlab.model.errors import EXIT_MACHINE, NetlabError


def main(arguments: list[str], *, own_users: bool = True, before_serving: Callable[[], None] = lambda: None) -> int:
    """Be the engine, until it ends.

    ``own_users``: see :func:`netlab.kernel.sandbox.enter`. ``before_serving`` is called once the fork servers are
    there.
    """
    frontend, listener, directory = (int(each) for each in [*arguments, "0", "0"][:3])
    first = socket.socket(fileno=frontend)
    try:
        _run(first, listener, directory, own_users, before_serving)
    except NetlabError as error:
        _tell_failure(first, error)
        return EXIT_MACHINE
    except Exception as error:
        from netlab.engine.faults import as_error

        _tell_failure(first, as_error(error, "engine"))
        return EXIT_MACHINE
    return 0


def _run(
    first: socket.socket, listener: int, directory: int, own_users: bool, before_serving: Callable[[], None]
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    was_root = os.geteuid() == 0
    code = [Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[2]]
    limits = sandbox.enter(lambda pid: _tell_started(first, pid), code, own_users=own_users, preload=_preload)
    try:
        # Pods come from a process that has loaded next to nothing: each of them costs what it touches.
        from netlab.node import pods

        pods_zygote = pods.start_zygote()
        from netlab.node import kube_proxy

        proxies_zygote = kube_proxy.start_zygote()
        import asyncio

        from netlab.engine.server import Engine
        from netlab.lab.lab import Zygotes

        before_serving()
    except (ImportError, PermissionError):
        if was_root:
            sandbox.check_readable(code)
        raise

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        engine = Engine(Zygotes(pods_zygote, proxies_zygote), limits, directory or None)
        loop.add_signal_handler(signal.SIGTERM, engine.end)
        await engine.run(first, socket.socket(fileno=listener) if listener else None)

    asyncio.run(serve())


def _preload() -> None:
    from netlab.engine.preload import import_all

    import_all()


def _tell_started(first: socket.socket, pid: int) -> None:
    """The frontend may have gone; the lab's PID 1 notices by itself."""
    with suppress(OSError):
        first.sendall(jsonrpc.notification("engine.started", {"pid": pid}))


def _tell_failure(first: socket.socket, error: NetlabError) -> None:
    """Where the frontend has gone, there is nobody to tell."""
    with suppress(OSError):
        first.sendall(jsonrpc.notification("engine.failed", jsonrpc.error_from(error)))


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))
