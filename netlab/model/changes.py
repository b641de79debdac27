"""What a change of a running lab's objects came to."""

from __future__ import annotations

from typing import Literal

import msgspec

from netlab.model.text import Text

Action = Literal["created", "configured", "unchanged", "deleted"]


class Changed(msgspec.Struct, frozen=True):
    """One object ("Service default/web") and what became of it."""

    object: str
    action: Action


class Changes(msgspec.Struct, frozen=True):
    """All objects that were given, in their order, and what is worth telling."""

    changes: list[Changed]
    notes: list[Text]
