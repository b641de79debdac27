"""Run a person's command in the network namespace of a place, and bring back what it printed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Sequence

import msgspec

from netlab.kernel.netns import NetNamespace
from netlab.model.errors import BadInput
from netlab.model.text import Message

CANNOT_RUN = Message(
    "execution.cannot-run",
    en="{program} cannot be run: {error}",
    zh="无法运行 {program}：{error}",
)
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Executed(msgspec.Struct, frozen=True):
    """``status``: the command's exit status, or 128 and the signal that ended it. The outputs are bytes."""

    status: int
    stdout: bytes
    stderr: bytes


async def execute(namespace: NetNamespace, command: Sequence[str], stdin: bytes = b"") -> Executed:
    """Run the command to its end; if the caller is cancelled, it is killed with all that it started.

    Raises :class:`BadInput` where there is no such program.
    """
    try:
        with namespace.entered():
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                env={"PATH": _PATH, "LC_ALL": "C.UTF-8", "HOME": "/", "TERM": "dumb"},
            )
    except (OSError, ValueError) as error:
        words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise BadInput(CANNOT_RUN(program=command[0], error=words)) from error
    try:
        stdout, stderr = await asyncio.to_thread(process.communicate, stdin)
    except asyncio.CancelledError:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return Executed(process.returncode if process.returncode >= 0 else 128 - process.returncode, stdout, stderr)
