"""QEMU as a process: what a guest is given, and how it is started.

It gets sockets and files as open descriptors, so that it needs no path of the user's. It has no network, no disk but
the image, and may start no other program.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from netlab.kernel import libc, programs
from netlab.microvm import packages, ports
from netlab.model.errors import MachineCannot
from netlab.model.text import Message

TCG, KVM = "tcg", "kvm"
MEMORY_MIB = 2048
"""As much as the guest may have; what it does not use, QEMU does not take."""

CANNOT_START = Message(
    "microvm.cannot-start",
    en="QEMU cannot be started: {error}",
    zh="无法启动 QEMU：{error}",
)

_PROCESSORS = {TCG: ("tcg,thread=multi,tb-size=256", "Nehalem"), KVM: ("kvm", "host")}
"""How QEMU runs a guest, and as which processor: emulating what few programs use takes time."""
_KERNEL_OPTIONS = "console=ttyS0 quiet panic=-1 oops=panic mitigations=off"
"""A kernel that is in trouble ends, and QEMU with it, instead of going on or starting again."""
FIXED = (
    *("-M", "pc", "-m", str(MEMORY_MIB), "-smp", "1", "-nodefaults", "-no-user-config", "-no-reboot"),
    *("-display", "none", "-append", _KERNEL_OPTIONS, "-device", "virtio-serial-pci"),
    *("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"),
)


class Image(NamedTuple):
    """Descriptors of a guest's files, open for reading."""

    kernel: int
    initramfs: int
    root: int


@dataclass(frozen=True)
class Process:
    """A QEMU that runs, and our ends of its guest's ports and its monitor. ``console`` carries what the guest's kernel
    and QEMU itself have to say."""

    popen: subprocess.Popen[bytes]
    streams: socket.socket
    notes: socket.socket
    console: socket.socket
    monitor: socket.socket

    def close(self) -> None:
        """Kill it, if it still runs, and wait for its end."""
        self.popen.kill()
        self.popen.wait()
        for each in (self.streams, self.notes, self.console, self.monitor):
            each.close()


def start(image: Image, accelerator: str, incoming: int | None = None) -> Process:
    """Start a guest; ``incoming`` is the descriptor of a saved state to go on from. Raises :class:`MachineCannot`."""
    pairs = [socket.socketpair() for _ in range(4)]
    theirs = [each.fileno() for _, each in pairs]
    state = [] if incoming is None else ["-incoming", f"fd:{incoming}"]
    program = programs.find(packages.QEMU)
    try:
        popen = subprocess.Popen(
            [program, *FIXED, *_accelerator(accelerator), *_devices(image, *theirs), *state],
            stdin=subprocess.DEVNULL,
            stdout=theirs[2],
            stderr=theirs[2],
            pass_fds=[*theirs, *image, *([] if incoming is None else [incoming])],
            cwd="/",
            env={**os.environ, "LC_ALL": "C"},
            preexec_fn=lambda: libc.prctl(libc.PR_SET_NO_NEW_PRIVS, 1),
        )
    except OSError as error:
        for ours, _ in pairs:
            ours.close()
        raise MachineCannot(CANNOT_START(error=error.strerror)) from error
    finally:
        for _, each in pairs:
            each.close()
    return Process(popen, *(ours for ours, _ in pairs))


def _accelerator(name: str) -> list[str]:
    accelerator, processor = _PROCESSORS[name]
    return ["-accel", accelerator, "-cpu", processor]


def _devices(image: Image, streams: int, notes: int, console: int, monitor: int) -> Sequence[str]:
    return [
        *("-kernel", f"/proc/self/fd/{image.kernel}", "-initrd", f"/proc/self/fd/{image.initramfs}"),
        *("-drive", f"file=/proc/self/fd/{image.root},if=virtio,format=raw,readonly=on,file.locking=off"),
        *("-chardev", f"socket,id=streams,fd={streams}"),
        *("-device", f"virtserialport,chardev=streams,name={ports.STREAMS}"),
        *("-chardev", f"socket,id=notes,fd={notes}", "-device", f"virtserialport,chardev=notes,name={ports.NOTES}"),
        *("-chardev", f"socket,id=console,fd={console}", "-serial", "chardev:console"),
        *("-chardev", f"socket,id=monitor,fd={monitor}", "-mon", "chardev=monitor,mode=control"),
    ]


def may_use_kvm() -> bool:
    """Whether this process could open /dev/kvm. Whether that then works is another question."""
    return os.access("/dev/kvm", os.R_OK | os.W_OK)


class MonitorError(Exception):
    """QEMU refused a command, or has ended; the message is its own."""


def save(monitor: socket.socket, state: int) -> None:
    """Write the guest's whole state to a file (QMP); the guest stands still afterwards.

    Raises :class:`MonitorError`.
    """
    with monitor.makefile("rb") as lines:

        def next_with(*keys: str) -> dict[str, Any]:
            for line in lines:
                message: dict[str, Any] = json.loads(line)
                if "error" in message:
                    raise MonitorError(message["error"]["desc"])
                if any(key in message for key in keys):
                    return message
            raise MonitorError("QEMU has ended")

        def execute(command: str, arguments: Mapping[str, Any], given: Sequence[int] = ()) -> None:
            line = json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n"
            socket.send_fds(monitor, [line], given)
            next_with("return")

        monitor.setblocking(True)
        next_with("QMP")
        execute("qmp_capabilities", {})
        execute("migrate-set-capabilities", {"capabilities": [{"capability": "events", "state": True}]})
        execute("migrate-set-parameters", {"max-bandwidth": 1 << 40})
        execute("getfd", {"fdname": "state"}, [state])
        execute("migrate", {"uri": "fd:state"})
        while (status := next_with("event").get("data", {}).get("status")) != "completed":
            if status in ("failed", "cancelled"):
                raise MonitorError(f"migration: {status}")
