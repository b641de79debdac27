"""Names of objects and of the place in a file that something came from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class ObjectKey(msgspec.Struct, frozen=True, order=True):
    """An object of the cluster; ``namespace`` is empty for Nodes and other cluster-wide kinds."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.path}"

    @property
    def path(self) -> str:
        """ "namespace/name", or the bare name of a cluster-wide object."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def key_of(value: Mapping[str, Any]) -> ObjectKey:
    """The key of an object from its kind and metadata."""
    metadata = value["metadata"]
    return ObjectKey(value["kind"], metadata.get("namespace", ""), metadata["name"])


class Origin(msgspec.Struct, frozen=True):
    """What caused something: an object, the field of it, and where that is written (null for allocated values)."""

    object: str
    field: str
    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        place = f" ({self.file}:{self.line})" if self.file is not None and self.line is not None else ""
        return f"{self.object} {self.field}{place}"
