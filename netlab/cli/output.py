"""How results are printed: as a table, as JSON, or as YAML; and how errors are."""

from __future__ import annotations

import json
import re
import sys
from enum import Enum
from typing import Any

import msgspec
from rich.console import Console

from netlab.cli.streams import takes_all
from netlab.model.errors import BadInput, NetlabError
from netlab.model.text import Message, Text, user_language

LONGEST_LINE = 1000
"""Most characters of one line of a message; a lab file may hold longer values than anybody can read."""

ERROR = Message("output.error", en="error: {text}", zh="错误：{text}")
NOTE = Message("output.note", en="note: {text}", zh="提示：{text}")
INTERRUPTED = Message("output.interrupted", en="interrupted", zh="已中断")
BAD_FORMAT = Message(
    "output.bad-format",
    en='-o: "{text}" is none of {allowed}',
    zh='-o："{text}" 不是 {allowed} 之一',
)

_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Format(str, Enum):  # noqa: UP042
    """What -o takes."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def as_format(text: str) -> Format:
    """Raises :class:`BadInput`."""
    allowed = [each.value for each in Format]
    if text not in allowed:
        raise BadInput(BAD_FORMAT(text=text, allowed=", ".join(allowed)))
    return Format(text)


def console(*, beside: bool = False) -> Console:
    """For tables: colour on a terminal only. ``beside``: on standard error."""
    return Console(soft_wrap=True, highlight=False, stderr=beside)


def print_value(value: Any, output: Format) -> None:
    """A value as JSON or YAML on standard output."""
    plain = msgspec.to_builtins(value)
    wide = takes_all(sys.stdout)
    if output is Format.YAML:
        import yaml

        yaml.safe_dump(plain, sys.stdout, sort_keys=False, allow_unicode=wide, default_flow_style=False)
        return
    if not wide:
        sys.stdout.write(json.dumps(plain, indent=2) + "\n")
        return
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(plain), indent=2).decode() + "\n")


def print_note(text: Text) -> None:
    _say(NOTE(text=text))


def print_error(error: NetlabError) -> None:
    _say(ERROR(text=error.text))


def print_interrupted() -> None:
    _say(INTERRUPTED())


def _say(text: Text) -> None:
    print(tidy(text.in_language(user_language())), file=sys.stderr)


def tidy(text: str) -> str:
    """A message fit for a terminal: values out of a file may be endless, or move the cursor."""
    return "\n".join(_tidy_line(line) for line in text.split("\n"))


def _tidy_line(line: str) -> str:
    if len(line) > LONGEST_LINE:
        half = LONGEST_LINE // 2
        line = f"{line[:half]} … {line[-half:]}"
    return _CONTROL.sub(lambda match: match.group().encode("unicode_escape", "surrogatepass").decode(), line)
