"""Every text of the product, in every language: complete, and with the same placeholders."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import pytest

import netlab
from netlab.model.text import Message


def modules() -> list[ModuleType]:
    found = [netlab]
    for info in pkgutil.walk_packages(netlab.__path__, "netlab."):
        if not info.name.endswith("__main__"):
            found.append(importlib.import_module(info.name))
    return found


def messages() -> dict[str, list[tuple[str, Message]]]:
    """All messages by id, each with the names that it has in the modules that make it."""
    found: dict[str, dict[int, tuple[str, Message]]] = {}
    for module in modules():
        for name, value in vars(module).items():
            values = list(value.values()) if isinstance(value, dict) else [value]
            for message in values:
                if isinstance(message, Message):
                    found.setdefault(message.id, {}).setdefault(id(message), (f"{module.__name__}.{name}", message))
    return {identifier: list(each.values()) for identifier, each in found.items()}


MESSAGES = messages()


def test_there_are_messages() -> None:
    assert len(MESSAGES) > 100


def test_ids_are_unique() -> None:
    twice = {identifier: [name for name, _ in each] for identifier, each in MESSAGES.items() if len(each) > 1}
    assert twice == {}


@pytest.mark.parametrize("identifier", sorted(MESSAGES))
def test_both_wordings_are_there_and_say_the_same(identifier: str) -> None:
    _, message = MESSAGES[identifier][0]
    english, chinese = message.names()
    assert english == chinese
    assert all(name.isidentifier() for name in english)
    assert bool(message.zh) == bool(message.en)
    assert message.en == message.en.rstrip("\n")
