"""Texts that a person reads, in every language of the product at once.

A :class:`Message` is a template with its English and its Chinese wording side by side, so that neither can be
missing; formatted with values it becomes a :class:`Text`, which travels over the wire and is shown in the reader's
language at the very end.
"""

from __future__ import annotations

import os
import string
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec


class Text(msgspec.Struct, frozen=True):
    """One finished sentence (or more) in all languages; ``id`` names the message it was made from."""

    id: str
    en: str
    zh: str

    def in_language(self, language: str) -> str:
        """The wording for ``language`` ("zh" or "en"; anything else is read as "en")."""
        return self.zh if language == "zh" else self.en

    def __str__(self) -> str:
        return self.en


@dataclass(frozen=True)
class Message:
    """A template: ``id`` is stable, the wordings hold the same ``{names}`` (a test checks every one)."""

    id: str
    en: str
    zh: str

    def __call__(self, **values: object) -> Text:
        """Fill in the names. Values that are themselves :class:`Text` are taken in the matching language."""
        english = {name: value.en if isinstance(value, Text) else value for name, value in values.items()}
        chinese = {name: value.zh if isinstance(value, Text) else value for name, value in values.items()}
        return Text(self.id, self.en.format(**english), self.zh.format(**chinese))

    def names(self) -> tuple[set[str], set[str]]:
        """The placeholders of the English and of the Chinese wording."""
        return placeholders(self.en), placeholders(self.zh)


def placeholders(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}


def user_language(environment: Mapping[str, str] | None = None) -> str:
    """ "zh" or "en", from KUBE_NETLAB_LANG, else from the locale variables in the order that gettext reads them."""
    environment = os.environ if environment is None else environment
    for name in ("KUBE_NETLAB_LANG", "LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
        value = environment.get(name, "")
        if value:
            return "zh" if value.lower().startswith("zh") else "en"
    return "en"
