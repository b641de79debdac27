"""Faults in the fields of an object, in the API server's words (apimachinery's validation/field package)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Kind = Literal["Required", "Invalid", "Unsupported", "Duplicate", "Forbidden", "TooMany", "TooLong", "NotFound"]

_HEADS: dict[Kind, str] = {
    "Required": "Required value",
    "Invalid": "Invalid value",
    "Unsupported": "Unsupported value",
    "Duplicate": "Duplicate value",
    "Forbidden": "Forbidden",
    "TooMany": "Too many",
    "TooLong": "Too long",
    "NotFound": "Not found",
}
_REASONS: dict[Kind, str] = {
    "Required": "FieldValueRequired",
    "Invalid": "FieldValueInvalid",
    "Unsupported": "FieldValueNotSupported",
    "Duplicate": "FieldValueDuplicate",
    "Forbidden": "FieldValueForbidden",
    "TooMany": "FieldValueTooMany",
    "TooLong": "FieldValueTooLong",
    "NotFound": "FieldValueNotFound",
}


@dataclass(frozen=True)
class FieldError:
    """One fault: its kind, the field's path ("spec.ports[0].port"), what was found there, and what is allowed."""

    kind: Kind
    path: str
    value: object = None
    detail: str = ""

    @property
    def reason(self) -> str:
        """The machine-readable reason, as in a Status' causes."""
        return _REASONS[self.kind]

    @property
    def message(self) -> str:
        """The text without the path."""
        head = _HEADS[self.kind]
        if self.kind not in ("Required", "Forbidden", "TooLong"):
            head = f"{head}: {json.dumps(self.value, ensure_ascii=False, separators=(',', ':'))}"
        return f"{head}: {self.detail}" if self.detail else head

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def required(path: str, detail: str = "") -> FieldError:
    return FieldError("Required", path, None, detail)


def invalid(path: str, value: object, detail: str) -> FieldError:
    return FieldError("Invalid", path, value, detail)


def duplicate(path: str, value: object) -> FieldError:
    return FieldError("Duplicate", path, value)


def forbidden(path: str, detail: str) -> FieldError:
    return FieldError("Forbidden", path, None, detail)


def unsupported(path: str, value: object, allowed: Iterable[str]) -> FieldError:
    """A value outside a fixed list; the list is shown in the given order."""
    return FieldError("Unsupported", path, value, "supported values: " + ", ".join(f'"{each}"' for each in allowed))
