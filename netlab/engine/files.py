"""Files that the user names: read and written here, with the user's own rights, never by the engine."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress

from netlab.model.errors import BadInput
from netlab.model.text import Message, Text

CANNOT_READ = Message("files.cannot-read", en="{file}: cannot be read: {error}", zh="{file}：无法读取：{error}")
CANNOT_WRITE = Message("files.cannot-write", en="{file}: cannot be written: {error}", zh="{file}：无法写入：{error}")
TOO_LARGE = Message(
    "files.too-large",
    en="{file}: the input is larger than {limit} bytes (all files together), which is the most that is read",
    zh="{file}：输入 (所有文件合计) 超过 {limit} 字节，这是读取的上限",
)
SYSTEM_SAYS = Message("files.system-says", en="{error}{advice}", zh="{error}{advice}")
IS_INPUT = Message(
    "files.is-input",
    en="{file}: is {input}, which the lab is read from: writing there would destroy it",
    zh="{file}：它就是实验的输入 {input}：写入会毁掉其内容",
)
NO_STANDARD_INPUT = Message(
    "files.no-standard-input",
    en="standard input is closed; - reads the lab from there",
    zh="标准输入已关闭；- 表示从标准输入读取实验",
)
STANDARD_INPUT = "-"
LIMIT_BYTES = 16 * 1024 * 1024
"""Most bytes that are read, all files together; what the engine takes, too."""


def read_files(names: Sequence[str]) -> list[tuple[str, bytes]]:
    """Name and contents of each file; "-" is standard input. Raises :class:`BadInput`."""
    contents: list[tuple[str, bytes]] = []
    left = LIMIT_BYTES
    for name in names:
        try:
            data = _read(name, left + 1)
        except OSError as error:
            if name == STANDARD_INPUT and error.errno == errno.EBADF:
                raise BadInput(NO_STANDARD_INPUT()) from error
            raise BadInput(CANNOT_READ(file=name, error=error.strerror)) from error
        if len(data) > left:
            raise BadInput(TOO_LARGE(file=name, limit=LIMIT_BYTES))
        left -= len(data)
        contents.append((name, data))
    return contents


def _read(name: str, limit: int) -> bytes:
    """At most ``limit`` bytes: there are files without an end (/dev/zero)."""
    if name == STANDARD_INPUT:
        return sys.stdin.buffer.read(limit)
    with open(name, "rb") as file:
        return file.read(limit)


class OutputFile:
    """A file to be written at the end, looked at in the beginning: so that a wrong path is told before any work.

    Until there is something to write, an existing file is left as it is, and one that does not exist is not made:
    whatever ends the program in between leaves nothing behind.

    ``inputs``: the files that have been read, and that this must not be, under whatever name.
    """

    def __init__(self, name: str, inputs: Sequence[str] = ()) -> None:
        self.name = name
        for each in inputs:
            if _are_one(name, each):
                raise BadInput(IS_INPUT(file=name, input=each))
        self._descriptor: int | None = None
        self._new_path: str | None = None
        try:
            if os.path.exists(name):
                self._descriptor = os.open(name, os.O_WRONLY | os.O_CLOEXEC)
            else:
                self._new_path = _new_path(name)
        except OSError as error:
            raise BadInput(CANNOT_WRITE(file=name, error=error.strerror)) from error

    def write(self, data: bytes) -> None:
        """Replace the contents; on disk when this returns. Raises :class:`BadInput`."""
        try:
            if self._descriptor is None:
                assert self._new_path is not None
                self._descriptor = os.open(self._new_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
            _replace(self._descriptor, data)
        except BaseException as error:
            if self._new_path is not None and self._descriptor is not None:
                with suppress(OSError):
                    os.unlink(self._new_path)
            if isinstance(error, OSError):
                raise BadInput(CANNOT_WRITE(file=self.name, error=_words(error))) from error
            raise

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _are_one(name: str, given: str) -> bool:
    """Whether a file is the very file that was given as input, by that name or by another."""
    with suppress(OSError):
        status = os.fstat(0) if given == STANDARD_INPUT else os.stat(given)
        return stat.S_ISREG(status.st_mode) and os.path.samestat(status, os.stat(name))
    return False


def _new_path(name: str) -> str:
    """Where the new file will be (a link may point there). Raises OSError where it could not be made."""
    with suppress(FileNotFoundError):
        os.stat(name)
    if name.endswith("/"):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    path = os.path.realpath(name)
    folder = os.path.dirname(path)
    os.stat(folder)
    if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return path


def _replace(descriptor: int, data: bytes) -> None:
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.ftruncate(descriptor, 0)
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    with suppress(OSError):
        os.fsync(descriptor)


def _words(error: OSError) -> Text:
    """What the system says and, where the user's limit on the size of files has been met, that limit."""
    from netlab.kernel import limits

    return SYSTEM_SAYS(error=error.strerror, advice=limits.advice(error.errno if error.errno == errno.EFBIG else None))
