"""YAML text to plain values, as Kubernetes reads it, with the line of every field for whoever has to name one.

Kubernetes turns YAML into JSON first (sigs.k8s.io/yaml): no dates, no sexagesimal numbers, no infinity, no tags of
one's own, no duplicate keys. The values are built straight from the parser's events, so that size, depth and unfolded
aliases are bounded while reading, and every mapping and sequence knows the lines of its parts.
"""

from __future__ import annotations

import gc
import json
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
NO_MERGE = "map merge requires map or sequence of maps as the value"
NO_KEY = "a key can be a word or a number, and nothing larger"
NO_JSON = "json: unsupported value: {value}"

_PATH_PART = re.compile(r"\[(\d+)\]|\[([^\]]*)\]|([^.\[\]]+)")
_INTEGER = re.compile(r"[-+]?(?:0[bB][01]+|0[oO]?[0-7]+|0[xX][0-9a-fA-F]+|0|[1-9][0-9]*)\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_WORDS: dict[str, bool | float | None] = {"": None, "~": None, "null": None, "Null": None, "NULL": None}
_WORDS |= {word: True for name in ("y", "yes", "true", "on") for word in (name, name.title(), name.upper())}
_WORDS |= {word: False for name in ("n", "no", "false", "off") for word in (name, name.title(), name.upper())}
_BASES = {"0x": 16, "0b": 2, "0o": 8}
_MOST_DIGITS = 66
_ENDLESS = (float("inf"), float("-inf"))
_NUMBER_START = frozenset("0123456789+-.")
_NOT_FINITE = {f".{word}": "NaN" for word in ("nan", "NaN", "NAN")}
_NOT_FINITE |= {f"{sign}.{word}": f"{sign or '+'}Inf" for sign in ("", "+", "-") for word in ("inf", "Inf", "INF")}
_SURROGATES = re.compile(r"(?<!\\)((?:\\\\)*)(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})")
_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True)
class Source:
    """A named text: a file's path as the user gave it ("-" is standard input), and its contents."""

    name: str
    data: bytes


class Mapping(dict[str, object]):
    """A mapping that knows the lines of its keys."""

    __slots__ = ("depth", "line", "lines", "size")

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}
        self.size = 1
        self.depth: int | None = None


class Sequence(list[object]):
    """A sequence that knows the lines of its items."""

    __slots__ = ("depth", "line", "lines", "size")

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: list[int] = []
        self.size = 1
        self.depth: int | None = None


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
            elif isinstance(value, Mapping) and name.endswith("s") and name[:-1] in value:
                # "clusterIPs" is what "clusterIP" stands for where it is given alone.
                line, value = value.lines[name[:-1]], None
            else:
                break
        return line


def documents(source: Source) -> Iterator[Document]:
    """The documents of a YAML or JSON stream that hold something, in order.

    Raises :class:`BadInput` for text that is no YAML, for a duplicate key, and for input beyond the limits.
    """
    if len(source.data) > LIMIT_BYTES:
        raise BadInput(TOO_LARGE(file=source.name, size=len(source.data), limit=LIMIT_BYTES))
    text = _text(source)
    parser = CParser(text)
    try:
        while (document := _next_document(source.name, text, parser)) is not None:
            if document.value is not None:
                yield document
    finally:
        parser.dispose()


def _text(source: Source) -> str:
    try:
        text = source.data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise BadInput(NOT_TEXT(file=source.name, offset=error.start)) from error
    # JSON escapes characters beyond 16 bits in two halves, which YAML does not know.
    return _SURROGATES.sub(_joined, text) if text.lstrip()[:1] in ("{", "[") else text


def _joined(match: re.Match[str]) -> str:
    character: str = json.loads(f'"{match[2]}"')
    return match[1] + character


def _next_document(file: str, text: str, parser: CParser) -> Document | None:
    """The next document of the stream, which may hold nothing (None); None at the end of the stream."""
    with _no_garbage_collection():
        return _Builder(file, text, parser).build()


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

    def __init__(self, file: str, text: str, parser: CParser) -> None:
        self.file = file
        self.text = text
        self.parser = parser
        self.anchors: dict[str, object] = {}
        self.open_anchors: set[str] = set()
        self.count = 0

    def build(self) -> Document | None:
        """The next document; None where there is no further one."""
        try:
            while not isinstance(event := self.parser.get_event(), yaml.StreamEndEvent):
                if isinstance(event, yaml.NodeEvent):
                    return Document(self.file, self._line(event), self._value(event, 0))
            return None
        except yaml.MarkedYAMLError as error:
            raise self._syntax_error(error) from error
        except yaml.YAMLError as error:
            line = self.text.count("\n", 0, getattr(error, "position", 0)) + 1
            raise BadInput(SYNTAX(file=self.file, line=line, what=str(error).splitlines()[0])) from error

    def _value(self, event: yaml.Event | None, depth: int) -> object:
        assert isinstance(event, yaml.NodeEvent)
        self.count += 1
        if self.count > LIMIT_VALUES:
            raise self._too_many(event)
        if isinstance(event, yaml.ScalarEvent):
            value = self._scalar(event)
            if event.anchor is not None:
                self.anchors[event.anchor] = value
            return value
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, depth)
        assert isinstance(event, yaml.CollectionStartEvent)
        if depth >= LIMIT_DEPTH:
            raise self._too_deep(event)
        if event.tag not in (None, "!", _TAG + "map", _TAG + "seq"):
            raise self._error(event, UNKNOWN_TAG.format(tag=event.tag))
        if event.anchor is not None:
            self.open_anchors.add(event.anchor)
        before = self.count
        collection: Mapping | Sequence
        if isinstance(event, yaml.MappingStartEvent):
            collection = self._mapping(event, depth)
        else:
            collection = self._sequence(event, depth)
        collection.size = 1 + self.count - before
        if event.anchor is not None:
            self.open_anchors.discard(event.anchor)
            self.anchors[event.anchor] = collection
        return collection

    def _mapping(self, start: yaml.Event, depth: int) -> Mapping:
        mapping = Mapping(self._line(start))
        merged: list[Mapping] = []
        next_event = self.parser.get_event
        while not isinstance(event := next_event(), yaml.MappingEndEvent):
            line = self._line(event)
            key = self._value(event, depth + 1)
            if not isinstance(key, str):
                key = self._key(event, key)
            if key in mapping:
                raise BadInput(DUPLICATE(file=self.file, line=line, key=key, first=mapping.lines[key]))
            value = self._value(next_event(), depth + 1)
            if key == "<<" and isinstance(event, yaml.ScalarEvent) and event.implicit[0]:
                others = value if isinstance(value, Sequence) else [value]
                if not all(isinstance(each, Mapping) for each in others):
                    raise self._error(event, NO_MERGE)
                merged.extend(each for each in others if isinstance(each, Mapping))
                continue
            mapping[key] = value
            mapping.lines[key] = line
        for other in merged:
            for key in other:
                if key not in mapping:
                    mapping[key] = other[key]
                    mapping.lines[key] = other.lines[key]
        return mapping

    def _key(self, event: yaml.Event | None, key: object) -> str:
        """A key that is no text as JSON has it."""
        if isinstance(key, Mapping | Sequence):
            assert event is not None
            raise self._error(event, NO_KEY)
        if isinstance(key, bool):
            return "true" if key else "false"
        return "null" if key is None else str(key)

    def _sequence(self, start: yaml.Event, depth: int) -> Sequence:
        sequence = Sequence(self._line(start))
        while not isinstance(event := self.parser.get_event(), yaml.SequenceEndEvent):
            sequence.lines.append(self._line(event))
            sequence.append(self._value(event, depth + 1))
        return sequence

    def _scalar(self, event: yaml.ScalarEvent) -> object:
        text: str = event.value
        tag = event.tag
        if tag == _TAG + "str" or (tag in (None, "!") and not event.implicit[0]):
            return text
        if text in _NOT_FINITE:
            raise self._error(event, NO_JSON.format(value=_NOT_FINITE[text]))
        value = plain_scalar(text)
        if tag in (None, "!"):
            return value
        if tag in (_TAG + "int", _TAG + "float", _TAG + "bool", _TAG + "null") and not isinstance(value, str):
            return value
        raise self._error(event, UNKNOWN_TAG.format(tag=tag))

    def _alias(self, event: yaml.AliasEvent, depth: int) -> object:
        name = event.anchor
        if name in self.open_anchors:
            raise self._error(event, SELF_ALIAS)
        if name not in self.anchors:
            raise self._error(event, f"{UNKNOWN_ALIAS} {name}")
        value = self.anchors[name]
        if isinstance(value, Mapping | Sequence):
            self.count += value.size
            if self.count > LIMIT_VALUES:
                raise self._too_many(event)
            if depth + _depth(value) > LIMIT_DEPTH:
                raise self._too_deep(event)
        return value

    def _too_many(self, event: yaml.Event) -> BadInput:
        return BadInput(TOO_MANY(file=self.file, line=self._line(event), limit=LIMIT_VALUES))

    def _too_deep(self, event: yaml.Event) -> BadInput:
        return BadInput(TOO_DEEP(file=self.file, line=self._line(event), limit=LIMIT_DEPTH))

    def _line(self, event: yaml.Event | None) -> int:
        assert event is not None
        assert event.start_mark is not None
        return 1 + event.start_mark.line

    def _error(self, event: yaml.Event, what: str) -> BadInput:
        return BadInput(SYNTAX(file=self.file, line=self._line(event), what=what))

    def _syntax_error(self, error: yaml.MarkedYAMLError) -> BadInput:
        mark = error.problem_mark or error.context_mark
        line = 1 + (mark.line if mark is not None else 0)
        problem = error.problem or ""
        if "a tab character" in problem or ("cannot start any token" in problem and self._is_tab(mark)):
            return BadInput(TAB(file=self.file, line=line))
        words = " ".join(part for part in (problem, error.context) if part)
        return BadInput(SYNTAX(file=self.file, line=line, what=words))

    def _is_tab(self, mark: yaml.Mark | None) -> bool:
        lines = self.text.splitlines()
        return mark is not None and mark.line < len(lines) and lines[mark.line][mark.column : mark.column + 1] == "\t"


def _depth(value: object) -> int:
    """How many mappings and sequences are one in the other."""
    if not isinstance(value, Mapping | Sequence):
        return 0
    if value.depth is None:
        inside = value.values() if isinstance(value, Mapping) else value
        value.depth = 1 + max(map(_depth, inside), default=0)
    return value.depth


def plain_scalar(text: str) -> object:
    """What an unquoted scalar stands for: YAML 1.1 as Kubernetes reads it (y is true, 030 is 24, 30:80 is text)."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_START:
        return text
    plain = text.replace("_", "") if text[0] != "." else text
    if _INTEGER.match(plain) and (number := _integer(plain.lower())) is not None:
        return number
    if _FLOAT.match(plain) and (real := float(plain)) not in _ENDLESS:
        return real
    return text


def _integer(digits: str) -> int | None:
    """None for what does not fit into 64 bits: decimal digits become a float then, all others stay text."""
    sign = -1 if digits[0] == "-" else 1
    digits = digits.lstrip("+-")
    base = _BASES.get(digits[:2], 8 if digits[0] == "0" and len(digits) > 1 else 10)
    digits = digits[2:] if digits[:2] in _BASES else digits
    if not 0 < len(digits) <= _MOST_DIGITS:
        return None
    number = sign * int(digits, base)
    return number if -(2**63) <= number < 2**64 else None
