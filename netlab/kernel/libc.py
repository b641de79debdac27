"""The few system calls that Python's standard library has no name for (unshare and setns only since 3.12).

Every function raises OSError with the kernel's errno. Calls through ``ctypes`` release the interpreter's lock, which
:func:`setsockopt` is here for: the one in ``socket`` keeps it, and some options wait 10 ms for a grace period.
"""

from __future__ import annotations

import ctypes
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MNT_DETACH = 0x2

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41}

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def unshare(flags: int) -> None:
    """unshare(2): leave the namespaces named by ``flags`` for new ones (of this thread, for CLONE_NEWNET)."""
    _check(_libc.unshare(flags), "unshare")


def setns(descriptor: int, kind: int) -> None:
    """setns(2): move this thread into the namespace behind ``descriptor``."""
    _check(_libc.setns(descriptor, kind), "setns")


def mount(source: str, target: str, filesystem: str | None, flags: int = 0, data: str | None = None) -> None:
    """mount(2)."""
    kind = filesystem.encode() if filesystem is not None else None
    text = data.encode() if data is not None else None
    _check(
        _libc.mount(os.fsencode(source), os.fsencode(target), kind, ctypes.c_ulong(flags), text),
        f"mount {filesystem or source} on {target}",
    )


def unmount(target: str, flags: int = 0) -> None:
    """umount2(2)."""
    _check(_libc.umount2(os.fsencode(target), flags), f"umount {target}")


def pivot_root(new_root: str, put_old: str) -> None:
    """pivot_root(2); there is no libc wrapper."""
    number = _SYS_PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise OSError(38, f"pivot_root: unknown machine {os.uname().machine}")
    _check(_libc.syscall(ctypes.c_long(number), os.fsencode(new_root), os.fsencode(put_old)), "pivot_root")


def prctl(option: int, argument: int | bytes) -> None:
    """prctl(2) with one argument."""
    if isinstance(argument, int):
        _check(_libc.prctl(option, ctypes.c_ulong(argument), 0, 0, 0), "prctl")
    else:
        _check(_libc.prctl(option, ctypes.c_char_p(argument), 0, 0, 0), "prctl")


def sethostname(name: str) -> None:
    """sethostname(2) in this thread's UTS namespace."""
    _check(_libc.sethostname(name.encode(), len(name.encode())), "sethostname")


def setsockopt(descriptor: int, level: int, option: int, value: bytes) -> None:
    """setsockopt(2), releasing the interpreter's lock while the kernel waits."""
    _check(_libc.setsockopt(descriptor, level, option, value, len(value)), "setsockopt")


def bind_raw(descriptor: int, address: bytes) -> None:
    """bind(2) with a raw socket address, for families whose addresses ``socket`` cannot express in full."""
    _check(_libc.bind(descriptor, address, len(address)), "bind")
