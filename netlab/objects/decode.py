"""From plain values to typed views, with the API server's complaints: unknown fields, and values of the wrong type.

Kubernetes decodes JSON into Go structs, and users see how: null is the same as nothing, field names are matched
exactly, what is unknown is left out (and reported), and a value of the wrong type is refused with the name of its Go
type. Reading happens by a plan that is made once per type, so that thousands of objects cost little.

Source: sigs.k8s.io/json (a fork of Go's encoding/json), sigs.k8s.io/yaml.
"""

from __future__ import annotations

import types
import typing
from abc import ABC, abstractmethod
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec

from netlab.objects.go_types import GO_TYPES, UNREAD_FIELDS
from netlab.objects.shapes import SHAPES

T = TypeVar("T", bound=msgspec.Struct)


@dataclass(frozen=True)
class _Root:
    """Where the outermost value stands; collects the paths of unknown fields."""

    unknown: list[str]


_Place = _Root | tuple[Any, str | int]
"""Where a value stands: the place of the value around it, and its key or index there."""

_INT_BITS = {"int32": 31, "int64": 63}


@dataclass(frozen=True)
class Decoded(Generic[T]):
    """What came of a plain value: the typed view, the same as a fresh plain value, and the paths of unknown fields.

    ``value`` has no nulls, no unknown fields and no float that is a whole number; it shares nothing with the input.
    """

    object: T
    value: dict[str, Any]
    unknown: list[str]


class WrongType(Exception):
    """A value whose type does not fit its field.

    ``path`` is the field ("spec.ports[0].port"), ``message`` the API server's sentence, ``found`` what stands there as
    JSON calls it ("string", "number", "number 8.5", "bool", "array", "object"), ``value`` the value itself, and
    ``allowed`` the Go type that the field takes ("int32", "string", "[]v1.ServicePort").
    """

    def __init__(self, path: str, message: str, *, found: str, value: object, allowed: str) -> None:
        super().__init__(message)
        self.path = path
        self.message = message
        self.found = found
        self.value = value
        self.allowed = allowed


def decode(value: object, type_: type[T]) -> Decoded[T]:
    """Read a plain value (of a JSON or YAML document) as a typed view. The input is left as it is.

    Raises :class:`WrongType` for the first value, in the order of the document, that its field cannot hold.
    """
    root = _Root([])
    plain = _struct_reader(type_, "", f"v1.{type_.__name__}").read(value, root)
    return Decoded(msgspec.convert(plain, type_), plain, root.unknown)


def typed(value: dict[str, Any], type_: type[T]) -> T:
    """The typed view of a value that :func:`decode` has been through before, defaulted or not."""
    return msgspec.convert(value, type_)


def closest(path: str, type_: type[msgspec.Struct]) -> str | None:
    """The name that was probably meant by the last name of an unknown field's path; None where none is near."""
    *parents, name = [part.partition("[")[0] for part in path.split(".")]
    reader: _Reader = _struct_reader(type_, "", "")
    for parent in parents:
        fields = reader.fields() if isinstance(reader, _Struct) else {}
        if parent not in fields:
            return None
        reader = fields[parent]
        while isinstance(reader, _List):
            reader = reader.item
    if not isinstance(reader, _Struct):
        return None
    by_lower = {known.lower(): known for known in reader.fields()}
    near = get_close_matches(name.lower(), by_lower, n=1)
    return by_lower[near[0]] if near else None


@dataclass(frozen=True)
class _Reader(ABC):
    """Reads one field's value. ``struct`` is the Go struct that has the field, ``allowed`` the field's Go type."""

    struct: str
    allowed: str

    @abstractmethod
    def read(self, value: Any, place: _Place) -> Any:
        """The value as the field holds it. Raises WrongType."""

    @abstractmethod
    def zero(self) -> Any:
        """What a null stands for inside a list or a map."""

    def refuse(self, value: object, place: _Place) -> WrongType:
        found = _json_kind(value, self.allowed)
        if isinstance(place, _Root):
            into = "value"
        else:
            names = [str(key) for key in _keys(place) if isinstance(key, str) and not key.startswith("[")]
            into = f"struct field {self.struct}.{'.'.join(names)}"
        message = f"json: cannot unmarshal {found} into Go {into} of type {self.allowed}"
        return WrongType(_path(place), message, found=found, value=value, allowed=self.allowed)


@dataclass(frozen=True)
class _Text(_Reader):
    def read(self, value: Any, place: _Place) -> str:
        if isinstance(value, str):
            return value
        raise self.refuse(value, place)

    def zero(self) -> str:
        return ""


@dataclass(frozen=True)
class _Flag(_Reader):
    def read(self, value: Any, place: _Place) -> bool:
        if isinstance(value, bool):
            return value
        raise self.refuse(value, place)

    def zero(self) -> bool:
        return False


@dataclass(frozen=True)
class _Number(_Reader):
    def read(self, value: Any, place: _Place) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            limit = 1 << _INT_BITS[self.allowed]
            if -limit <= value < limit:
                return value
        raise self.refuse(value, place)

    def zero(self) -> int:
        return 0


@dataclass(frozen=True)
class _Real(_Reader):
    def read(self, value: Any, place: _Place) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        raise self.refuse(value, place)

    def zero(self) -> float:
        return 0.0


@dataclass(frozen=True)
class _TextOr(_Reader):
    """A field that takes text as well as something else, such as intstr.IntOrString."""

    other: _Reader

    def read(self, value: Any, place: _Place) -> Any:
        return value if isinstance(value, str) else self.other.read(value, place)

    def zero(self) -> Any:
        return self.other.zero()


@dataclass(frozen=True)
class _Raw(_Reader):
    """A value that the typed view leaves untyped; where ``kind`` is given, it has at least to be one of those."""

    kind: type | None = None

    def read(self, value: Any, place: _Place) -> Any:
        if self.kind is not None and not isinstance(value, self.kind):
            raise self.refuse(value, place)
        return _plain(value)

    def zero(self) -> Any:
        return None if self.kind is None else self.kind()


@dataclass(frozen=True)
class _List(_Reader):
    item: _Reader

    def read(self, value: Any, place: _Place) -> list[Any]:
        if not isinstance(value, list):
            raise self.refuse(value, place)
        item = self.item
        return [item.zero() if each is None else item.read(each, (place, index)) for index, each in enumerate(value)]

    def zero(self) -> list[Any]:
        return []


@dataclass(frozen=True)
class _Map(_Reader):
    """A map with keys of the user's, such as labels."""

    item: _Reader

    def read(self, value: Any, place: _Place) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.refuse(value, place)
        item = self.item
        return {
            key: item.zero() if each is None else item.read(each, (place, f"[{key}]")) for key, each in value.items()
        }

    def zero(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True)
class _Struct(_Reader):
    type_: type[msgspec.Struct]

    def fields(self) -> dict[str, _Reader]:
        return _field_readers(self.type_)

    def read(self, value: Any, place: _Place) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.refuse(value, place)
        fields = _field_readers(self.type_)
        plain = {}
        for key, each in value.items():
            reader = fields.get(key)
            if reader is None:
                _root(place).unknown.append(_path((place, key)))
            elif each is not None:
                plain[key] = reader.read(each, (place, key))
        return plain

    def zero(self) -> dict[str, Any]:
        return {}


@cache
def _field_readers(type_: type[msgspec.Struct]) -> dict[str, _Reader]:
    """The readers of a struct's fields, by their names on the wire."""
    hints = typing.get_type_hints(type_)
    struct = type_.__name__
    readers = {
        each.encode_name: _reader(hints[each.name], struct, f"{struct}.{each.encode_name}")
        for each in msgspec.structs.fields(type_)
    }
    for name in UNREAD_FIELDS.get(struct, ()):
        readers[name] = _Raw(struct, "")
    return readers


@cache
def _struct_reader(type_: type[msgspec.Struct], struct: str, allowed: str) -> _Struct:
    return _Struct(struct, allowed, type_)


def _reader(hint: Any, struct: str, name: str) -> _Reader:
    """The reader of a field of ``struct`` with the type ``hint``; its name is as in GO_TYPES and SHAPES."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        choices = [each for each in arguments if each is not types.NoneType]
        first = next((each for each in choices if each is not str), str)
        reader = _reader(first, struct, name)
        return _TextOr(struct, reader.allowed, reader) if str in choices and first is not str else reader
    if origin is list:
        item = _reader(arguments[0], struct, name)
        return _List(struct, f"[]{item.allowed}", item)
    if origin is dict and arguments[1] is not Any:
        item = _reader(arguments[1], struct, name)
        return _Map(struct, f"map[string]{item.allowed}", item)
    if origin is dict and name in SHAPES:
        hint = SHAPES[name]
    elif origin is dict:
        return _Raw(struct, GO_TYPES.get(name, "map[string]interface {}"), dict)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _Struct(struct, f"v1.{hint.__name__}", hint)
    leaves: dict[Any, tuple[type[_Reader], str]] = {str: (_Text, "string"), bool: (_Flag, "bool")}
    leaves |= {int: (_Number, "int32"), float: (_Real, "float64"), Any: (_Raw, "interface {}")}
    kind, go_type = leaves[hint]
    return kind(struct, GO_TYPES.get(name, go_type))


def _plain(value: Any) -> Any:
    """A copy made of plain dicts and lists, without nulls in dicts, whole floats as ints (as YAML becomes JSON)."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _json_kind(value: object, allowed: str) -> str:
    """What JSON calls a value; a number that a number field cannot hold is named too, as Go does."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return f"number {value}" if allowed in _INT_BITS else "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _keys(place: _Place) -> list[str | int]:
    keys: list[str | int] = []
    while not isinstance(place, _Root):
        place, key = place
        keys.append(key)
    return keys[::-1]


def _root(place: _Place) -> _Root:
    while not isinstance(place, _Root):
        place = place[0]
    return place


def _path(place: _Place) -> str:
    """ "spec.ports[0].port"; keys of maps stand in brackets."""
    path = ""
    for key in _keys(place):
        if isinstance(key, int):
            path += f"[{key}]"
        elif key.startswith("["):
            path += key
        else:
            path += f".{key}" if path else key
    return path
