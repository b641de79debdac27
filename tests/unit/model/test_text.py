"""Every text of the product, in every language."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator

import pytest

import netlab
from netlab.model.text import Message, Text, user_language

HAN = re.compile("[\u4e00-\u9fff]")


def messages() -> Iterator[tuple[str, Message]]:
    """All messages in all modules, by module and name."""
    for module in pkgutil.walk_packages(netlab.__path__, "netlab."):
        if module.name.endswith("__main__"):
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, Message):
                yield f"{module.name}.{name}", value


MESSAGES = dict(messages())


class TestMessages:
    def test_there_are_many(self) -> None:
        assert len(MESSAGES) > 100

    @pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
    def test_both_wordings_hold_the_same(self, message: Message) -> None:
        english, chinese = message.names()
        assert english == chinese
        assert bool(message.en) == bool(message.zh)

    def test_ids_are_given_once(self) -> None:
        seen: dict[str, Message] = {}
        for message in MESSAGES.values():
            assert seen.setdefault(message.id, message) is message, message.id

    def test_a_text_within_a_text_keeps_its_language(self) -> None:
        outer = Message("outer", "because {why}", "因为{why}")
        assert outer(why=Text("inner", "it rains", "下雨")) == Text("outer", "because it rains", "因为下雨")


class TestLanguage:
    @pytest.mark.parametrize(
        ("environment", "language"),
        [
            ({}, "en"),
            ({"LANG": "zh_CN.UTF-8"}, "zh"),
            ({"LANG": "C.UTF-8"}, "en"),
            ({"LANG": "de_DE.UTF-8"}, "en"),
            ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
            ({"LANG": "C", "LC_MESSAGES": "zh_TW"}, "zh"),
            ({"LANG": "zh_CN", "KUBE_NETLAB_LANG": "en"}, "en"),
            ({"LANG": "en_US", "LANGUAGE": "zh"}, "zh"),
            ({"LANG": "en_US", "LANGUAGE": ""}, "en"),
        ],
    )
    def test_it_is_taken_from_the_environment(self, environment: dict[str, str], language: str) -> None:
        assert user_language(environment) == language
