"""``kube-netlab exec``: a command in the network namespace of a node, a Pod or a client."""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence

from netlab.engine import rendezvous
from netlab.engine.client import connect_to
from netlab.engine.files import CANNOT_READ, STANDARD_INPUT
from netlab.model.errors import BadInput
from netlab.model.text import Message

NEED_PLACE = Message(
    "exec.need-place",
    en='"{text}": a running lab and a place are needed, as in LAB/node-a or LAB/[namespace/]pod',
    zh='"{text}"：需要正在运行的实验和其中的位置，例如 LAB/node-a 或 LAB/[命名空间/]pod',
)
NEED_COMMAND = Message(
    "exec.need-command",
    en="a command is needed: exec LAB/node-a -- ip route",
    zh="需要一个命令：exec LAB/node-a -- ip route",
)


def exec_command(where: str, command: Sequence[str]) -> int:
    """Run the command and print what it prints; the exit status is the command's own. It has no terminal."""
    lab, _, place = where.partition("/")
    if not lab or not place:
        raise BadInput(NEED_PLACE(text=where))
    if not command:
        raise BadInput(NEED_COMMAND())
    stdin = _standard_input()
    with connect_to(rendezvous.find(lab)) as client:
        status, stdout, stderr = client.execute(place, command, stdin)
    sys.stdout.buffer.write(stdout)
    sys.stdout.flush()
    sys.stderr.buffer.write(stderr)
    return status


def _standard_input() -> bytes:
    """What the command gets; nothing from a terminal, nor where standard input is closed."""
    if sys.stdin.isatty():
        return b""
    try:
        return sys.stdin.buffer.read()
    except OSError as error:
        if error.errno == errno.EBADF:
            return b""
        raise BadInput(CANNOT_READ(file=STANDARD_INPUT, error=error.strerror)) from error
