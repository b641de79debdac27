"""How results are printed: as a table, as JSON, or as YAML; and how errors are."""

from __future__ import annotations

import sys
from enum import Enum
from typing import Any

import msgspec
from rich.console import Console

from netlab.model.errors import NetlabError
from netlab.model.text import Message, Text, user_language

ERROR = Message("output.error", en="error: {text}", zh="错误：{text}")
NOTE = Message("output.note", en="note: {text}", zh="提示：{text}")


class Format(str, Enum):  # noqa: UP042
    """What -o takes."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def console() -> Console:
    """For tables: colour on a terminal only."""
    return Console(soft_wrap=True, highlight=False)


def print_value(value: Any, output: Format) -> None:
    """A value as JSON or YAML on standard output."""
    plain = msgspec.to_builtins(value)
    if output is Format.YAML:
        import yaml

        yaml.safe_dump(plain, sys.stdout, sort_keys=False, allow_unicode=True, default_flow_style=False)
        return
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(plain), indent=2).decode() + "\n")


def print_note(text: Text) -> None:
    print(NOTE(text=text).in_language(user_language()), file=sys.stderr)


def print_error(error: NetlabError) -> None:
    print(ERROR(text=error.text).in_language(user_language()), file=sys.stderr)
