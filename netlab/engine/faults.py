"""Exceptions as errors that a user can do something with: what the kernel refused, what has run out, our own faults."""

from __future__ import annotations

import errno
import os
import traceback
from contextlib import suppress

from netlab.kernel import limits
from netlab.kernel.netlink import NetlinkError
from netlab.model.errors import UNEXPECTED, LabFailed, MachineCannot, NetlabError
from netlab.model.text import Message

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
LOG = Message("faults.log", en="the engine's log", zh="引擎日志")

_NO_THREAD = "can't start new thread"
"""What Python says where pthread_create(3) fails with EAGAIN."""
_SCARCE = {
    errno.EAGAIN,
    errno.EDQUOT,
    errno.EFBIG,
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
        return MachineCannot(RAN_OUT(what=os.strerror(errno.ENOMEM), advice=limits.NOTHING()))
    if isinstance(exception, OSError) and exception.errno in _SCARCE:
        return MachineCannot(RAN_OUT(what=str(exception), advice=limits.advice(exception.errno)))
    if isinstance(exception, RuntimeError) and str(exception) == _NO_THREAD:
        return MachineCannot(RAN_OUT(what=os.strerror(errno.EAGAIN), advice=limits.advice(errno.EAGAIN)))
    if isinstance(exception, NetlinkError):
        return MachineCannot(REFUSED(what=exception.strerror))
    _log(exception)
    return LabFailed(UNEXPECTED(what=f"{doing}: {type(exception).__name__}: {exception}", details=LOG()))


def _log(exception: Exception) -> None:
    """The log has no room where files may not have any size."""
    with suppress(OSError):
        traceback.print_exception(exception)
