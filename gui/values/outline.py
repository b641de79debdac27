"""The objects in a YAML file, with the lines that they begin at; and lines that errors name."""

from __future__ import annotations

import re
from dataclasses import dataclass

import yaml

LARGEST = 60_000
"""Characters of a file that is still outlined: the window must not wait."""


@dataclass(frozen=True)
class Entry:
    kind: str
    name: str
    line: int


def outline(text: str) -> list[Entry]:
    """Documents, and the items of a List; nothing for what is no YAML (yet) or too large."""
    if len(text) > LARGEST:
        return []
    try:
        documents = list(yaml.compose_all(text, Loader=yaml.CSafeLoader))
    except (yaml.YAMLError, RecursionError, ValueError):
        return []
    found: list[Entry] = []
    for document in documents:
        fields = _fields(document)
        items = fields.get("items")
        if _text(fields.get("kind")).endswith("List") and isinstance(items, yaml.SequenceNode):
            found += [_entry(item) for item in items.value]
        elif fields:
            found.append(_entry(document))
    return found


def _entry(node: yaml.Node) -> Entry:
    fields = _fields(node)
    metadata = _fields(fields.get("metadata"))
    name, namespace = _text(metadata.get("name")), _text(metadata.get("namespace"))
    shown = f"{namespace}/{name}" if namespace and namespace != "default" else name
    return Entry(_text(fields.get("kind")), shown, node.start_mark.line + 1)


def _fields(node: yaml.Node | None) -> dict[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        return {}
    return {_text(key): value for key, value in node.value}


def _text(node: yaml.Node | None) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def lines_named(message: str, file: str) -> list[int]:
    """The lines of a file that an error speaks of."""
    return [int(each) for each in re.findall(re.escape(file) + r":(\d+)", message)]
