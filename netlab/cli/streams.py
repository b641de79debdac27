"""The standard streams, fit for use in whatever state the caller left them: closed, full, or of a narrow encoding."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import TextIO

from netlab.model.errors import BadInput, MachineCannot
from netlab.model.text import Message

CANNOT_PRINT = Message(
    "streams.cannot-print",
    en="standard output cannot be written: {error}",
    zh="无法写入标准输出：{error}",
)

IS_TERMINAL = Message(
    "streams.is-terminal",
    en="--pcap -: standard output is a terminal, which cannot show a capture: redirect it to a file or a program",
    zh="--pcap -：标准输出是终端，无法显示抓包内容：请重定向到文件或程序",
)

_PLAIN = {
    "→": "->",
    "←": "<-",
    "↔": "<->",
    "»": ">",
    "›": ">",
    "✓": "ok",
    "✗": "x",
    "≠": "!=",
    "≤": "<=",
    "≥": ">=",
    "×": "x",
    "…": "...",
    "–": "-",
    "—": "-",
    "·": "-",
    "“": '"',
    "”": '"',
    "‘": "'",
    "’": "'",
    "µ": "u",
}
"""What the product's own texts and tables use beyond ASCII, in ASCII."""


def prepare() -> None:
    """Before anything else: no stream is missing afterwards, and none raises anything but :class:`MachineCannot`.

    A closed descriptor would be given to the next file or socket that is made, and be taken for a stream by children.
    Reading from a closed standard input is an error still, as it is no empty one.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_WRONLY)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115
    sys.stdout = _Stream(sys.stdout, 1)
    sys.stderr = _Stream(sys.stderr, 2)


def takes_all(stream: TextIO) -> bool:
    """Whether a stream can carry the letters of all languages."""
    try:
        "→中".encode(stream.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


class StandardOutput:
    """Standard output as the file that a capture is written to. Raises :class:`BadInput` for a terminal."""

    def __init__(self) -> None:
        if sys.stdout.isatty():
            raise BadInput(IS_TERMINAL())

    def write(self, data: bytes) -> None:
        try:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            # Whoever read it has left.
            sys.stdout.flush()
        except OSError as error:
            raise MachineCannot(CANNOT_PRINT(error=error.strerror)) from error

    def close(self) -> None:
        """There is nothing to close."""


def in_plain_letters(text: str, encoding: str) -> str:
    """The text with what an encoding lacks written in ASCII, columns kept: where a sign becomes longer, the next gap
    between columns pays for it."""
    return "".join(_plain_line(line, encoding) for line in text.splitlines(keepends=True))


def _plain_line(line: str, encoding: str) -> str:
    done: list[str] = []
    owed = 0
    at = 0
    while at < len(line):
        sign = line[at]
        if owed and line.startswith("  ", at):
            owed -= 1
            at += 1
            continue
        plain = _PLAIN.get(sign, sign)
        if plain != sign and not _encodable(sign, encoding):
            owed += len(plain) - 1
            sign = plain
        done.append(sign)
        at += 1
    return "".join(done)


def _encodable(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


class _Stream(io.TextIOWrapper):
    """Standard output or error. What nobody reads any more is thrown away; what cannot be encoded is written in ASCII,
    or becomes "?"."""

    def __init__(self, old: TextIO | None, descriptor: int) -> None:
        given = old.detach() if isinstance(old, io.TextIOWrapper) else None
        buffer = given or open(descriptor, "wb", closefd=False)  # noqa: SIM115
        encoding = old.encoding if old is not None else "utf-8"
        super().__init__(buffer, encoding, "replace", line_buffering=descriptor == 2 or os.isatty(descriptor))
        self._descriptor = descriptor

    def write(self, text: str) -> int:
        if not _encodable(text, self.encoding):
            text = in_plain_letters(text, self.encoding)
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
