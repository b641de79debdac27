"""What all tests share: the checkout's paths, and functions run inside a sandbox of their own."""

from __future__ import annotations

import os
import pickle
import select
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import pytest

ROOT = Path(__file__).parents[1]
SCENARIOS = ROOT / "netlab" / "scenarios"
NODEPORT = SCENARIOS / "nodeport.yaml"
SANDBOX_S = 60.0
OWN_MACHINE = "KUBE_NETLAB_OWN_MACHINE"
"""Set in the environment where the whole machine is the tests': a sandbox keeps real root there."""

pytest_plugins = ["tests.microvm.plugin"]

T = TypeVar("T")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--changes", default=300, type=int, help="how many random changes a proxy is put through")


class SandboxFailure(AssertionError):
    """The function in the sandbox raised; the message is its traceback."""


def run_in_sandbox(function: Callable[[], T], patience_s: float = SANDBOX_S) -> T:
    """Run a function as PID 1 of a new sandbox, and return what it returns (it has to be picklable).

    Nothing of what it makes outlives it: the sandbox ends with it.
    """
    read, write = os.pipe()
    pid_read, pid_write = os.pipe()
    child = os.fork()
    if child == 0:
        _become_sandbox(function, pid_write, write)
    os.close(write)
    os.close(pid_write)
    try:
        os.waitpid(child, 0)
        init = int.from_bytes(os.read(pid_read, 4))
        data = _read_all(read, init, patience_s)
    finally:
        os.close(read)
        os.close(pid_read)
    assert data, "the sandbox ended without a word"
    kind, value = pickle.loads(data)
    if kind == "error":
        raise SandboxFailure(value)
    result: T = value
    return result


def _become_sandbox(function: Callable[[], object], pid_write: int, write: int) -> NoReturn:
    status = 1
    try:
        from netlab.kernel import sandbox

        def report(pid: int) -> None:
            os.write(pid_write, pid.to_bytes(4))

        code = [ROOT, Path(sys.prefix), Path(sys.base_prefix)]
        sandbox.enter(report, code, own_users=OWN_MACHINE not in os.environ)
        try:
            outcome: tuple[str, Any] = ("value", function())
        except BaseException:
            outcome = ("error", traceback.format_exc())
        with os.fdopen(write, "wb") as pipe:
            pipe.write(pickle.dumps(outcome))
        status = 0
    finally:
        os._exit(status)


def _read_all(descriptor: int, init: int, patience_s: float) -> bytes:
    """What the sandbox has to say; where it says nothing for long, its first process is ended."""
    data = b""
    while True:
        readable, _, _ = select.select([descriptor], [], [], patience_s)
        if not readable:
            if init:
                with suppress(ProcessLookupError):
                    os.kill(init, signal.SIGKILL)
            raise TimeoutError(f"the sandbox did not answer within {patience_s} s")
        piece = os.read(descriptor, 65536)
        if not piece:
            return data
        data += piece


@pytest.fixture
def sandbox() -> Callable[[Callable[[], T]], T]:
    """Runs a function in a sandbox of its own."""
    return run_in_sandbox
