"""What a machine limits, in the words of whoever can change that: namespaces, processes, open files, sizes of files."""

from __future__ import annotations

import errno
import resource
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from netlab.model.errors import MachineCannot
from netlab.model.text import Message, Text

NAMESPACES = ("user", "mnt", "pid", "net", "ipc", "uts")

TOO_LOW = Message(
    "limits.too-low",
    en="The limit {setting} is {limit}, and this lab needs {needed}: an administrator can raise it with "
    "'sysctl {setting}=15000'.",
    zh="上限 {setting} 为 {limit}，而该实验需要 {needed}：管理员可以用 'sysctl {setting}=15000' 提高它。",
)
NO_MORE_NAMESPACES = Message(
    "limits.no-more-namespaces",
    en=". There are as many namespaces as {settings} allow: end other labs, or let an administrator raise these limits",
    zh="。命名空间数量已达到 {settings} 的上限：请结束其他实验，或由管理员提高这些上限",
)
PROCESSES = Message(
    "limits.processes",
    en=". A user may have {limit} processes and threads here ('ulimit -u'); a lab needs about 30, and more for each "
    "Pod and node",
    zh="。此处一个用户最多可有 {limit} 个进程和线程 ('ulimit -u')；一个实验约需 30 个，每个 Pod 和节点还需更多",
)
OPEN_FILES = Message(
    "limits.open-files",
    en=". A process may have {limit} open files here ('ulimit -n'); a lab needs about 10 for each Pod, node and client",
    zh="。此处一个进程最多可打开 {limit} 个文件 ('ulimit -n')；实验中每个 Pod、节点和客户端约需 10 个",
)
FILE_SIZE = Message(
    "limits.file-size",
    en=". A process may write files of at most {limit} bytes here ('ulimit -f')",
    zh="。此处一个进程写入的文件最大为 {limit} 字节 ('ulimit -f')",
)
NOTHING = Message("limits.nothing", en="", zh="")

_RESOURCES = {
    errno.EAGAIN: (PROCESSES, resource.RLIMIT_NPROC),
    errno.EMFILE: (OPEN_FILES, resource.RLIMIT_NOFILE),
    errno.ETOOMANYREFS: (OPEN_FILES, resource.RLIMIT_NOFILE),
    errno.EFBIG: (FILE_SIZE, resource.RLIMIT_FSIZE),
}


def setting(kind: str) -> str:
    """The sysctl that limits how many namespaces of a kind there may be."""
    return f"user.max_{kind}_namespaces"


def namespaces() -> dict[str, int]:
    """How many namespaces of each kind there may be, by the setting's name. Inside a new user namespace they differ."""
    found: dict[str, int] = {}
    for kind in NAMESPACES:
        with suppress(OSError, ValueError):
            found[setting(kind)] = int(Path("/proc/sys", setting(kind).replace(".", "/")).read_text())
    return found


def check_namespaces(limits: Mapping[str, int], needed: Mapping[str, int]) -> None:
    """Raises :class:`MachineCannot` where there may be fewer namespaces of a kind than are needed, naming the limit."""
    for kind, count in needed.items():
        limit = limits.get(setting(kind), count)
        if limit < count:
            raise MachineCannot(TOO_LOW(setting=setting(kind), limit=limit, needed=count))


def advice(code: int | None) -> Text:
    """Which limit has been met, to go behind an error's own words; nothing for an error that is not of a limit."""
    if code == errno.ENOSPC:
        return NO_MORE_NAMESPACES(settings=", ".join(setting(kind) for kind in ("net", "pid", "uts", "ipc")))
    if code not in _RESOURCES:
        return NOTHING()
    message, kind = _RESOURCES[code]
    limit = resource.getrlimit(kind)[0]
    return message(limit=limit) if limit != resource.RLIM_INFINITY else NOTHING()
