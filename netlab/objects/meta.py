"""What all objects have: apiVersion, kind, metadata."""

from __future__ import annotations

from typing import Any

import msgspec


class Object(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=True, repr_omit_defaults=True):
    """Base of all typed views on API objects: camelCase on the wire, defaults left out, unknown fields ignored.

    A typed view holds the fields that this program reads. Objects are stored whole, as plain mappings.
    """


class ObjectMeta(Object):
    """metadata."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    owner_references: list[dict[str, Any]] | None = None
    managed_fields: list[dict[str, Any]] | None = None
    self_link: str = ""

    def label(self, name: str) -> str | None:
        return self.labels.get(name) if self.labels else None

    def annotation(self, name: str) -> str | None:
        return self.annotations.get(name) if self.annotations else None
