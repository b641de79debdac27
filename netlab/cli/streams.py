"""The standard streams, fit for use in whatever state the caller left them: closed, full, or of a narrow encoding."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import TextIO

from netlab.model.errors import MachineCannot
from netlab.model.text import Message

CANNOT_PRINT = Message(
    "streams.cannot-print",
    en="standard output cannot be written: {error}",
    zh="无法写入标准输出：{error}",
)


def prepare() -> None:
    """Before anything else: no stream is missing afterwards, and none raises anything but :class:`MachineCannot`.

    A closed descriptor would be given to the next file or socket that is made, and be taken for a stream by children.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115
    sys.stdout = _Stream(sys.stdout, 1)
    sys.stderr = _Stream(sys.stderr, 2)


class _Stream(io.TextIOWrapper):
    """Standard output or error. What nobody reads any more is thrown away; what cannot be encoded becomes "?"."""

    def __init__(self, old: TextIO | None, descriptor: int) -> None:
        given = old.detach() if isinstance(old, io.TextIOWrapper) else None
        buffer = given or open(descriptor, "wb", closefd=False)  # noqa: SIM115
        encoding = old.encoding if old is not None else "utf-8"
        super().__init__(buffer, encoding, "replace", line_buffering=descriptor == 2 or os.isatty(descriptor))
        self._descriptor = descriptor

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            self._discard(error)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self._discard(error)

    def _discard(self, error: OSError) -> None:
        """Have all that is still to come, and what is buffered, go nowhere; say so once, unless a reader just left."""
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nowhere, self._descriptor)
        os.close(nowhere)
        if error.errno != errno.EPIPE and self._descriptor == 1:
            raise MachineCannot(CANNOT_PRINT(error=error.strerror)) from error
