"""Where a cause is written: its own file and line, or those of the Pod behind an EndpointSlice that nobody wrote."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from netlab.lab.input import Locator
from netlab.model.keys import ObjectKey, Origin, key_of
from netlab.objects.pod import IPS_ANNOTATION

Find = Callable[[ObjectKey], dict[str, Any] | None]
"""Knows the cluster's objects."""

_ENDPOINT = re.compile(r"endpoints\[(\d+)\]")
_SLICE = "EndpointSlice "


class CauseLocator:
    """Finds files and lines for causes."""

    def __init__(self, locator: Locator | None, find: Find) -> None:
        self._locator = locator
        self._find = find

    def __call__(self, origin: Origin) -> Origin:
        """The cause with its place; without one where nothing in the files stands behind it."""
        if self._locator is None:
            return origin
        located = self._locator.locate(origin)
        if located.file is not None or not origin.object.startswith(_SLICE):
            return located
        behind = self._pod_behind(origin)
        return Origin(origin.object, origin.field, behind.file, behind.line) if behind is not None else origin

    def _pod_behind(self, origin: Origin) -> Origin | None:
        """A slice was made from a Service's selector: what one can change about an endpoint is its Pod."""
        namespace, _, name = origin.object.removeprefix(_SLICE).partition("/")
        value = self._find(ObjectKey("EndpointSlice", namespace, name))
        match = _ENDPOINT.match(origin.field)
        endpoints = (value or {}).get("endpoints") or []
        if self._locator is None or match is None or int(match[1]) >= len(endpoints):
            return None
        target = endpoints[int(match[1])].get("targetRef") or {}
        if target.get("kind") != "Pod":
            return None
        pod = ObjectKey("Pod", target.get("namespace", namespace), target["name"])
        return self._locator.locate(Origin(str(pod), f"metadata.annotations[{IPS_ANNOTATION}]"))


def in_objects(objects: list[dict[str, Any]]) -> Find:
    """Finds in a list of objects."""
    return {key_of(each): each for each in objects}.get
