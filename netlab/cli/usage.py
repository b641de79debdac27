"""Faults in the command line, in our own words and both languages: typer has them in English alone."""

from __future__ import annotations

import re
from typing import Any

from netlab.model.errors import BadInput
from netlab.model.text import Message, Text

NO_OPTION = Message("usage.no-option", en="there is no option {option}{hint}", zh="没有选项 {option}{hint}")
POSSIBLE = Message("usage.possible", en=" (there is {options})", zh=" (有 {options})")
NO_COMMAND = Message("usage.no-command", en='there is no command "{command}"', zh='没有命令 "{command}"')
MISSING = Message("usage.missing", en="{what} is missing", zh="缺少 {what}")
NEEDS_VALUE = Message("usage.needs-value", en="{option} needs a value", zh="{option} 需要一个值")
TAKES_NO_VALUE = Message("usage.takes-no-value", en="{option} takes no value", zh="{option} 不接受值")
TOO_MANY = Message("usage.too-many", en="too many words: {words}", zh="多余的参数：{words}")
OTHER = Message("usage.other", en="{words}", zh="用法有误：{words}")
SEE_HELP = Message("usage.see-help", en="{text}; see '{command} --help'", zh="{text}；参见 '{command} --help'")
NOTHING = Message("usage.nothing", en="", zh="")

_NO_COMMAND = re.compile(r"No such command '(.*?)'\.", re.DOTALL)
_TOO_MANY = re.compile(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)", re.DOTALL)


def bad_usage(error: Any) -> BadInput:
    """``error``: a usage error as typer raises it (of a class that typer does not show in public)."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "kube-netlab"
    return BadInput(SEE_HELP(text=_text(error), command=command))


def _text(error: Any) -> Text:
    kind = type(error).__name__
    words = error.format_message()
    if kind == "NoSuchOption":
        options = ", ".join(sorted(error.possibilities or ()))
        return NO_OPTION(option=error.option_name, hint=POSSIBLE(options=options) if options else NOTHING())
    if kind == "MissingParameter":
        return MISSING(what=_name(error.param))
    if kind == "BadOptionUsage":
        return (TAKES_NO_VALUE if "not take a value" in words else NEEDS_VALUE)(option=error.option_name)
    if found := _NO_COMMAND.match(words):
        return NO_COMMAND(command=found.group(1))
    if found := _TOO_MANY.match(words):
        return TOO_MANY(words=found.group(1))
    return OTHER(words=words)


def _name(parameter: Any) -> str:
    """An option as it is written ("--from"), or an argument as the help calls it."""
    written = max(parameter.opts, key=len)
    return written if written.startswith("-") else str(parameter.metavar or written)
