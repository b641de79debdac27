"""The processes of a lab, told apart from outside."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from tests.cli.command import Machine, until
from tests.cli.leftovers import marked

_SERVERS = {"netlab-pods": "pods", "netlab-proxies": "proxies", "kube-proxy": "kube-proxy"}


def roles(machine: Machine) -> dict[int, str]:
    """The processes of a test's labs: "starter" (the engine's first), "engine" (PID 1 of a lab), "pods", "proxies",
    "kube-proxy", or "pod NAME"."""
    found: dict[int, str] = {}
    for pid in marked(machine.token):
        with suppress(OSError):
            numbers, name = _status(pid)
            if len(numbers) == 3 and numbers[-1] == "1":
                found[pid] = f"pod {name}"
            elif len(numbers) == 2:
                found[pid] = "engine" if numbers[-1] == "1" else _SERVERS.get(name, name)
            elif b"netlab.engine" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found[pid] = "starter"
    return found


def processes(machine: Machine, role: str) -> list[int]:
    return [pid for pid, each in roles(machine).items() if each == role]


def the_process(machine: Machine, role: str) -> int:
    """The pid of one that has a role, as soon as there is one."""
    found: list[int] = []

    def is_there() -> bool:
        found[:] = processes(machine, role)
        return bool(found)

    until(is_there, f"a process that is {role}")
    return found[0]


def kill(machine: Machine, role: str) -> None:
    """End all that have a role, as soon as there is one."""
    the_process(machine, role)
    for pid in processes(machine, role):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for a signal."""
    return _has(pid, "SigCgt", number)


def holds_back(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a signal wait."""
    return _has(pid, "SigBlk", number)


def _has(pid: int, field: str, number: signal.Signals) -> bool:
    with suppress(OSError):
        return bool(int(_field(pid, field)[0], 16) >> (number - 1) & 1)
    return False


def _status(pid: int) -> tuple[list[str], str]:
    return _field(pid, "NSpid"), " ".join(_field(pid, "Name"))


def _field(pid: int, name: str) -> list[str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split()[1:] for line in lines if line.startswith(f"{name}:"))
