"""Every text of the app, in both languages: complete, and with the same placeholders."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path
from types import ModuleType
from typing import Any

import gui
from netlab.model.text import Message

FOLDER = Path(gui.__file__).parent


def modules() -> list[ModuleType]:
    names = [info.name for info in pkgutil.walk_packages(gui.__path__, "gui.")]
    return [importlib.import_module(name) for name in names if not name.endswith("__main__")]


def messages_in(value: Any, depth: int = 0) -> list[Message]:
    if isinstance(value, Message):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple) and depth < 3:
        return [message for each in value for message in messages_in(each, depth + 1)]
    fields = getattr(value, "__dataclass_fields__", {})
    if fields and not isinstance(value, type):
        return [message for name in fields for message in messages_in(getattr(value, name), depth + 1)]
    return []


def all_messages() -> dict[str, set[Message]]:
    found: dict[str, set[Message]] = {}
    for module in modules():
        for value in vars(module).values():
            for message in messages_in(value):
                if message.id.startswith("gui."):
                    found.setdefault(message.id, set()).add(message)
    return found


def test_texts_are_complete_in_both_languages() -> None:
    found = all_messages()
    assert len(found) > 90
    for identifier, same in found.items():
        assert len(same) == 1, f"{identifier} is the id of several texts"
        (message,) = same
        english, chinese = message.names()
        assert english == chinese, identifier
        assert message.en, identifier
        assert message.zh, identifier


def test_no_text_is_written_into_a_widget() -> None:
    """Words for people come from messages: a literal given to a widget would stay English."""
    setters = {
        "setText",
        "setToolTip",
        "setPlaceholderText",
        "setAccessibleName",
        "setWindowTitle",
        "setTitle",
        "addTab",
    }
    written: list[str] = []
    for path in sorted(FOLDER.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in setters:
                written += [
                    f"{path.name}:{node.lineno}"
                    for argument in node.args
                    if isinstance(argument, ast.Constant) and isinstance(argument.value, str) and argument.value
                ]
    assert written == []
