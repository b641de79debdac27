"""Faults in what the user gave: collected with their places, and told all at once."""

from __future__ import annotations

from collections.abc import Iterable

from netlab.model.errors import BadInput
from netlab.model.text import Message, Text
from netlab.objects.field import FieldError
from netlab.objects.yaml_source import Document

MOST_FAULTS = 20
"""How many faults are shown."""
ENOUGH_FAULTS = 200
"""With so many faults, nothing is read any further."""

FAULT = Message(
    "input.fault",
    en="{file}:{line}: {object} is invalid: {fault}",
    zh="{file}:{line}：{object} 无效：{fault}",
)
FAULT_OF_OURS = Message(
    "input.fault-of-ours",
    en="{object} is invalid: {fault} (this is the lab's own choice; a Lab document can make another)",
    zh="{object} 无效：{fault} (这是实验的默认选择；可在 Lab 文档中另行指定)",
)
MORE_FAULTS = Message("input.more-faults", en="… and {count} more", zh="…… 还有 {count} 处")
MANY_FAULTS = Message(
    "input.many-faults",
    en="… and at least {count} more: nothing was read any further",
    zh="…… 至少还有 {count} 处：不再继续读取",
)


class Faults:
    """Collects faults with their places, and raises them together: at the end, or when there are more than enough."""

    def __init__(self) -> None:
        self.texts: list[Text] = []

    def add(self, text: Text) -> None:
        self.texts.append(text)
        if len(self.texts) >= ENOUGH_FAULTS:
            self.raise_any()

    def add_field(self, document: Document | None, name: str, fault: FieldError) -> None:
        if document is None:
            self.add(FAULT_OF_OURS(object=name, fault=fault))
        else:
            self.add(FAULT(file=document.source, line=document.locate(fault.path), object=name, fault=fault))

    def raise_any(self) -> None:
        """Raises :class:`BadInput` if there are any."""
        if not self.texts:
            return
        shown = self.texts[:MOST_FAULTS]
        more = len(self.texts) - MOST_FAULTS
        if more > 0:
            shown.append((MANY_FAULTS if len(self.texts) >= ENOUGH_FAULTS else MORE_FAULTS)(count=more))
        raise BadInput(joined(shown))


def joined(texts: Iterable[Text]) -> Text:
    """Several texts, a line each."""
    kept = list(texts)
    return Text(kept[0].id, "\n".join(each.en for each in kept), "\n".join(each.zh for each in kept))
