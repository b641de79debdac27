"""Exceptions as errors that a user can do something with: what the kernel refused, what has run out, our own faults."""

from __future__ import annotations

import errno
import os
import resource
import traceback

from netlab.kernel.netlink import NetlinkError
from netlab.model.errors import UNEXPECTED, LabFailed, MachineCannot, NetlabError
from netlab.model.text import Message, Text

REFUSED = Message(
    "faults.refused",
    en="the kernel refused: {what}",
    zh="内核拒绝了请求：{what}",
)
RAN_OUT = Message(
    "faults.ran-out",
    en="this machine has run out of something that the lab needs: {what}{advice}",
    zh="这台机器缺少实验所需的资源：{what}{advice}",
)
OPEN_FILES = Message(
    "faults.open-files",
    en=". A process may have {limit} open files here ('ulimit -n'); a lab needs about 10 for each Pod, node and client",
    zh="。此处一个进程最多可打开 {limit} 个文件 ('ulimit -n')；实验中每个 Pod、节点和客户端约需 10 个",
)
NOTHING = Message("faults.nothing", en="", zh="")
LOG = Message("faults.log", en="the engine's log", zh="引擎日志")

_SCARCE = {
    errno.EAGAIN,
    errno.EDQUOT,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOBUFS,
    errno.ENOMEM,
    errno.ENOSPC,
    errno.ETOOMANYREFS,
}


def as_error(exception: Exception, doing: str) -> NetlabError:
    """The error to show; ``doing`` is what was being done, for a fault of our own, which also goes into the log."""
    if isinstance(exception, NetlabError):
        return exception
    if isinstance(exception, MemoryError):
        return MachineCannot(RAN_OUT(what=os.strerror(errno.ENOMEM), advice=NOTHING()))
    if isinstance(exception, OSError) and exception.errno in _SCARCE:
        return MachineCannot(RAN_OUT(what=str(exception), advice=_advice(exception.errno)))
    if isinstance(exception, NetlinkError):
        return MachineCannot(REFUSED(what=exception.strerror))
    traceback.print_exception(exception)
    return LabFailed(UNEXPECTED(what=f"{doing}: {type(exception).__name__}: {exception}", details=LOG()))


def _advice(code: int | None) -> Text:
    if code in (errno.EMFILE, errno.ETOOMANYREFS):
        return OPEN_FILES(limit=resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    return NOTHING()
