"""Files that the user names: read and written here, with the user's own rights, never by the engine."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from netlab.model.errors import BadInput
from netlab.model.text import Message

CANNOT_READ = Message("files.cannot-read", en="{file}: cannot be read: {error}", zh="{file}：无法读取：{error}")
CANNOT_WRITE = Message("files.cannot-write", en="{file}: cannot be written: {error}", zh="{file}：无法写入：{error}")
STANDARD_INPUT = "-"


def read_files(names: Sequence[str]) -> list[tuple[str, bytes]]:
    """Name and contents of each file; "-" is standard input. Raises :class:`BadInput`."""
    contents = []
    for name in names:
        try:
            data = sys.stdin.buffer.read() if name == STANDARD_INPUT else Path(name).read_bytes()
        except OSError as error:
            raise BadInput(CANNOT_READ(file=name, error=error.strerror)) from error
        contents.append((name, data))
    return contents


class OutputFile:
    """A file to be written at the end, opened at the beginning: so that a wrong path is told before any work, and an
    existing file is untouched until there is something to put into it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._is_new = not os.path.lexists(name)
        self._written = False
        try:
            self._file = open(name, "ab")  # noqa: SIM115
        except OSError as error:
            raise BadInput(CANNOT_WRITE(file=name, error=error.strerror)) from error

    def write(self, data: bytes) -> None:
        """Replace the contents; on disk when this returns. Raises :class:`BadInput`."""
        try:
            if self._file.seekable():
                self._file.truncate(0)
            self._file.write(data)
            self._file.flush()
            with suppress(OSError):
                os.fsync(self._file.fileno())
        except OSError as error:
            raise BadInput(CANNOT_WRITE(file=self.name, error=error.strerror)) from error
        self._written = True

    def close(self) -> None:
        """Close it; a file that was made and never written is taken away again."""
        self._file.close()
        if self._is_new and not self._written:
            with suppress(OSError):
                os.unlink(self.name)
