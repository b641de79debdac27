"""In the guest: runs tests that the host chooses, and tells of each as it ends. PID 1 there, in the engine's place."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from typing import NoReturn

import pytest

from netlab.microvm import guest
from netlab.microvm.contents import SITE
from netlab.model import jsonrpc
from tests.conftest import OWN_MACHINE

RUN, CRASH, DIE, REPORT = "tests.run", "tests.crash", "tests.die", "tests.report"
"""To the guest: run tests; have the kernel crash; end yourself.

From the guest: a test's report, or, with no test, what pytest came to in the end."""
LOG_BYTES = 16384


def _become_runner(first: socket.socket, listener: socket.socket, log: int) -> NoReturn:
    status = 1
    try:
        guest.detach(log)
        os.environ[OWN_MACHINE] = "1"
        os.chdir(SITE)
        first.sendall(jsonrpc.notification("engine.started", {"pid": os.getpid()}))
        serve(first, log)
        status = 0
    finally:
        os._exit(status)


def serve(connection: socket.socket, log: int) -> None:
    """Answer until the host has gone."""
    lines = jsonrpc.LineBuffer()
    while data := connection.recv(65536):
        for message in map(jsonrpc.decode, lines.feed(data)):
            assert message.id is not None
            if message.method == RUN:
                # No cache: the tests are on a read-only disk.
                # No strict configuration: it has options of plugins that are for desktops alone.
                options = ("-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts=-ra --strict-markers")
                words = [*message.params["tests"], *options, "-W", "ignore::pytest.PytestConfigWarning"]
                status = pytest.main(words, plugins=[_Reporter(connection)])
                said = os.pread(log, LOG_BYTES, max(0, os.fstat(log).st_size - LOG_BYTES)).decode(errors="replace")
                end = {"test": None, "report": f"pytest ended with status {int(status)} and said: {said}"}
                connection.sendall(jsonrpc.notification(REPORT, end))
            elif message.method == CRASH:
                Path("/proc/sysrq-trigger").write_text("c")
            elif message.method == DIE:
                os.kill(os.getpid(), signal.SIGKILL)
            connection.sendall(jsonrpc.answer(message.id, None))


class _Reporter:
    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.config: pytest.Config | None = None

    def pytest_configure(self, config: pytest.Config) -> None:
        self.config = config
        config.addinivalue_line("markers", "xdist_group: of the host's own run")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        assert self.config is not None
        data = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        self.connection.sendall(jsonrpc.notification(REPORT, {"test": report.nodeid, "report": data}))


if __name__ == "__main__":
    guest.main(_become_runner)
