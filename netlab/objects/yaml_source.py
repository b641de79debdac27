"""YAML text to plain values, as Kubernetes reads it, with the line of every field for whoever has to name one.

Kubernetes turns YAML into JSON first (sigs.k8s.io/yaml): no dates, no sexagesimal numbers, no tags of one's own, no
duplicate keys. The values are built straight from the parser's events, so that size, depth and unfolded aliases are
bounded while reading, and every mapping and sequence knows the lines of its parts.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import yaml
from yaml._yaml import CParser

from netlab.model.errors import BadInput
from netlab.model.text import Message

LIMIT_BYTES = 16 * 1024 * 1024
"""Largest input in bytes, all files together: about what 5,000 Pods of a real cluster take."""

LIMIT_VALUES = 2_000_000
"""Most values in one document, counted as aliases unfold them."""

LIMIT_DEPTH = 100

SYNTAX = Message(
    "yaml.syntax",
    en="{file}:{line}: not readable as YAML: {what}",
    zh="{file}:{line}：不是有效的 YAML：{what}",
)
TAB = Message(
    "yaml.tab",
    en="{file}:{line}: a tab where YAML allows only spaces",
    zh="{file}:{line}：此处有制表符 (Tab)，YAML 只允许空格",
)
DUPLICATE = Message(
    "yaml.duplicate-key",
    en='{file}:{line}: duplicate field "{key}" (first in line {first})',
    zh='{file}:{line}：字段 "{key}" 重复 (第一次出现在第 {first} 行)',
)
TOO_LARGE = Message(
    "yaml.too-large",
    en="{file}: the input is {size} bytes; at most {limit} bytes are read",
    zh="{file}：输入为 {size} 字节；最多读取 {limit} 字节",
)
TOO_MANY = Message(
    "yaml.too-many",
    en="{file}:{line}: the document has more than {limit} values, aliases unfolded",
    zh="{file}:{line}：该文档的值 (展开别名后) 超过 {limit} 个",
)
TOO_DEEP = Message(
    "yaml.too-deep",
    en="{file}:{line}: nested deeper than {limit} levels",
    zh="{file}:{line}：嵌套超过 {limit} 层",
)
NOT_TEXT = Message(
    "yaml.not-text",
    en="{file}: not UTF-8 text (byte {offset})",
    zh="{file}：不是 UTF-8 文本 (第 {offset} 字节)",
)
UNKNOWN_ALIAS = "found undefined alias"
SELF_ALIAS = "an alias inside the value that it stands for"
UNKNOWN_TAG = "the tag {tag} has no meaning in Kubernetes"

_MARKER = re.compile(rb"^(---|\.\.\.)(?=[ \t\r\n]|$)", re.MULTILINE)
_PATH_PART = re.compile(r"\[(\d+)\]|\[([^\]]*)\]|([^.\[\]]+)")
_INTEGER = re.compile(r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_WORDS: dict[str, bool | float | None] = {"": None, "~": None, "null": None, "Null": None, "NULL": None}
_WORDS |= {word: True for name in ("yes", "true", "on") for word in (name, name.title(), name.upper())}
_WORDS |= {word: False for name in ("no", "false", "off") for word in (name, name.title(), name.upper())}
_NUMBER_START = frozenset("0123456789+-.")
_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True)
class Source:
    """A named text: a file's path as the user gave it ("-" is standard input), and its contents."""

    name: str
    data: bytes


class Mapping(dict[str, object]):
    """A mapping that knows the lines of its keys."""

    __slots__ = ("line", "lines", "size")

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}
        self.size = 1


class Sequence(list[object]):
    """A sequence that knows the lines of its items."""

    __slots__ = ("line", "lines", "size")

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: list[int] = []
        self.size = 1


@dataclass(frozen=True)
class Document:
    """One object of a stream: its value, the file that it stands in, and the line where it begins (from 1)."""

    source: str
    line: int
    value: object

    def locate(self, path: str) -> int:
        """The line of the field at ``path`` ("spec.ports[0].port"), or of the nearest field above it that is there."""
        value, line = self.value, self.line
        for index, bracketed, name in _PATH_PART.findall(path):
            if isinstance(value, Sequence) and index and int(index) < len(value):
                line, value = value.lines[int(index)], value[int(index)]
            elif isinstance(value, Mapping) and (key := name or bracketed or index) in value:
                line, value = value.lines[key], value[key]
            else:
                break
        return line


def documents(source: Source) -> Iterator[Document]:
    """The documents of a YAML or JSON stream that hold something, in order.

    Raises :class:`BadInput` for text that is no YAML, for a duplicate key, and for input beyond the limits.
    """
    if len(source.data) > LIMIT_BYTES:
        raise BadInput(TOO_LARGE(file=source.name, size=len(source.data), limit=LIMIT_BYTES))
    for line, text in _split(source):
        with _no_garbage_collection():
            value = _Builder(source.name, line).build(text)
        if value is not None:
            yield Document(source.name, value.line if isinstance(value, Mapping | Sequence) else line, value)


def _split(source: Source) -> Iterator[tuple[int, str]]:
    """Cut at the document markers: none can stand at the start of a line inside a scalar (YAML 1.2, 9.1.2)."""
    data = source.data.removeprefix(b"\xef\xbb\xbf")
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise BadInput(NOT_TEXT(file=source.name, offset=error.start)) from error
    begin, line = 0, 1
    for match in _MARKER.finditer(data):
        part = data[begin : match.start()]
        if part.strip():
            yield line, part.decode()
        line += part.count(b"\n")
        begin = match.end() if match.group(1) == b"..." else match.start()
    rest = data[begin:]
    if rest.strip():
        yield line, rest.decode()


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Building makes many containers and no garbage; the collector would only look through them again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Builder:
    """Builds the value of one document from the events of the parser."""

    def __init__(self, file: str, first_line: int) -> None:
        self.file = file
        self.first_line = first_line
        self.anchors: dict[str, object] = {}
        self.open_anchors: set[str] = set()
        self.count = 0
        self.text_lines: list[str] = []

    def build(self, text: str) -> object:
        self.text_lines = text.split("\n") if "\t" in text else []
        parser = CParser(text)
        try:
            value: object = None
            while True:
                event = parser.get_event()
                if isinstance(event, yaml.StreamEndEvent):
                    return value
                if not isinstance(event, yaml.StreamStartEvent | yaml.DocumentStartEvent | yaml.DocumentEndEvent):
                    value = self._value(parser, event, 0)
        except yaml.MarkedYAMLError as error:
            raise self._syntax_error(error) from error
        except yaml.YAMLError as error:
            raise BadInput(SYNTAX(file=self.file, line=self.first_line, what=str(error).splitlines()[0])) from error
        finally:
            parser.dispose()

    def _value(self, parser: CParser, event: yaml.Event | None, depth: int) -> object:
        assert isinstance(event, yaml.NodeEvent)
        self.count += 1
        if self.count > LIMIT_VALUES:
            raise BadInput(TOO_MANY(file=self.file, line=self._line(event), limit=LIMIT_VALUES))
        if isinstance(event, yaml.ScalarEvent):
            value = self._scalar(event)
            if event.anchor is not None:
                self.anchors[event.anchor] = value
            return value
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        assert isinstance(event, yaml.CollectionStartEvent)
        if depth >= LIMIT_DEPTH:
            raise BadInput(TOO_DEEP(file=self.file, line=self._line(event), limit=LIMIT_DEPTH))
        if event.tag not in (None, "!", _TAG + "map", _TAG + "seq"):
            raise self._error(event, UNKNOWN_TAG.format(tag=event.tag))
        if event.anchor is not None:
            self.open_anchors.add(event.anchor)
        before = self.count
        collection: Mapping | Sequence
        if isinstance(event, yaml.MappingStartEvent):
            collection = self._mapping(parser, event, depth)
        else:
            collection = self._sequence(parser, event, depth)
        collection.size = 1 + self.count - before
        if event.anchor is not None:
            self.open_anchors.discard(event.anchor)
            self.anchors[event.anchor] = collection
        return collection

    def _mapping(self, parser: CParser, start: yaml.Event, depth: int) -> Mapping:
        mapping = Mapping(self._line(start))
        merged: list[object] = []
        while not isinstance(event := parser.get_event(), yaml.MappingEndEvent):
            line = self._line(event)
            key = self._value(parser, event, depth + 1)
            if isinstance(key, bool):
                key = "true" if key else "false"
            elif not isinstance(key, str):
                key = "null" if key is None else str(key)
            if key in mapping:
                raise BadInput(DUPLICATE(file=self.file, line=line, key=key, first=mapping.lines[key]))
            value = self._value(parser, parser.get_event(), depth + 1)
            if key == "<<" and isinstance(event, yaml.ScalarEvent) and event.implicit[0]:
                merged.extend(value if isinstance(value, Sequence) else [value])
                continue
            mapping[key] = value
            mapping.lines[key] = line
        for other in merged:
            if isinstance(other, Mapping):
                for key in other.keys() - mapping.keys():
                    mapping[key] = other[key]
                    mapping.lines[key] = other.lines[key]
        return mapping

    def _sequence(self, parser: CParser, start: yaml.Event, depth: int) -> Sequence:
        sequence = Sequence(self._line(start))
        while not isinstance(event := parser.get_event(), yaml.SequenceEndEvent):
            sequence.lines.append(self._line(event))
            sequence.append(self._value(parser, event, depth + 1))
        return sequence

    def _scalar(self, event: yaml.ScalarEvent) -> object:
        text: str = event.value
        tag = event.tag
        if tag is None or tag == "!":
            return plain_scalar(text) if event.implicit[0] else text
        if tag == _TAG + "str":
            return text
        value = plain_scalar(text)
        if tag in (_TAG + "int", _TAG + "float", _TAG + "bool", _TAG + "null") and not isinstance(value, str):
            return value
        raise self._error(event, UNKNOWN_TAG.format(tag=tag))

    def _alias(self, event: yaml.AliasEvent) -> object:
        name = event.anchor
        if name in self.open_anchors:
            raise self._error(event, SELF_ALIAS)
        if name not in self.anchors:
            raise self._error(event, f"{UNKNOWN_ALIAS} {name}")
        value = self.anchors[name]
        if isinstance(value, Mapping | Sequence):
            self.count += value.size
        return value

    def _line(self, event: yaml.Event | None) -> int:
        assert event is not None
        assert event.start_mark is not None
        return self.first_line + event.start_mark.line

    def _error(self, event: yaml.Event, what: str) -> BadInput:
        return BadInput(SYNTAX(file=self.file, line=self._line(event), what=what))

    def _syntax_error(self, error: yaml.MarkedYAMLError) -> BadInput:
        mark = error.problem_mark or error.context_mark
        line = self.first_line + (mark.line if mark is not None else 0)
        problem = error.problem or ""
        if "cannot start any token" in problem and mark is not None and self._is_tab(mark):
            return BadInput(TAB(file=self.file, line=line))
        words = " ".join(part for part in (problem, error.context) if part)
        return BadInput(SYNTAX(file=self.file, line=line, what=words))

    def _is_tab(self, mark: yaml.Mark) -> bool:
        lines = self.text_lines
        return mark.line < len(lines) and lines[mark.line][mark.column : mark.column + 1] == "\t"


def plain_scalar(text: str) -> object:
    """What an unquoted scalar stands for: YAML 1.1 as Kubernetes reads it (yes is true, 30:80 is text)."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_START:
        return text
    if _INTEGER.match(text):
        digits = text.replace("_", "").lower()
        sign = -1 if digits[0] == "-" else 1
        digits = digits.lstrip("+-")
        if digits.startswith(("0x", "0b", "0o")):
            return sign * int(digits, 0)
        if len(digits) > 1 and digits[0] == "0":
            return sign * int(digits, 8)
        return sign * int(digits)
    if _FLOAT.match(text):
        return float(text.replace("_", ""))
    return text
