"""The store: all objects of the cluster, each under its key, with the API server's revision numbers and a watch.

Objects are whole JSON values. The store owns what it is given and gives out what it holds: nobody changes a stored
object in place, a change is a new object.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

from netlab.model.keys import ObjectKey

Json = dict[str, Any]


HISTORY = 10_000
"""Changes that are remembered for watches that start from an earlier revision."""


class Event(NamedTuple):
    """One change, as a watch tells it: the object after it (its last state, for DELETED), and the revision."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    object: Json
    revision: int


class RevisionGone(Exception):
    """A watch asked for changes since a revision that is no longer remembered: list again."""


def key_of(value: Json) -> ObjectKey:
    """The key of an object from its kind and metadata."""
    metadata = value["metadata"]
    return ObjectKey(value["kind"], metadata.get("namespace", ""), metadata["name"])


class Store:
    """Objects by kind; every change raises ``revision`` by one and is told to the watchers in order."""

    def __init__(self) -> None:
        self.revision = 0
        self._objects: dict[str, dict[ObjectKey, Json]] = {}
        self._watchers: list[Callable[[Event], None]] = []
        self._history: deque[Event] = deque(maxlen=HISTORY)

    def get(self, key: ObjectKey) -> Json | None:
        return self._objects.get(key.kind, {}).get(key)

    def list(self, kind: str) -> Iterable[Json]:
        """All objects of a kind, in the order of their keys."""
        objects = self._objects.get(kind, {})
        return [objects[key] for key in sorted(objects)]

    def put(self, value: Json) -> Json:
        """Create or replace; returns the stored object. Nothing happens where it equals the one that is there."""
        key = key_of(value)
        objects = self._objects.setdefault(key.kind, {})
        old = objects.get(key)
        if old is not None and _same(old, value):
            return old
        self.revision += 1
        stored = {**value, "metadata": {**value["metadata"], "resourceVersion": str(self.revision)}}
        objects[key] = stored
        self._tell(Event("ADDED" if old is None else "MODIFIED", stored, self.revision))
        return stored

    def delete(self, key: ObjectKey) -> Json | None:
        """Take an object away; returns it, or None where there was none."""
        old = self._objects.get(key.kind, {}).pop(key, None)
        if old is not None:
            self.revision += 1
            gone = {**old, "metadata": {**old["metadata"], "resourceVersion": str(self.revision)}}
            self._tell(Event("DELETED", gone, self.revision))
        return old

    def watch(self, watcher: Callable[[Event], None], since: int | None = None) -> Callable[[], None]:
        """Call ``watcher`` with every change after the revision ``since`` (default: from now on).

        Returns what ends the watch. Raises :class:`RevisionGone`.
        """
        if since is not None and since < self.revision:
            if not self._history or self._history[0].revision > since + 1:
                raise RevisionGone
            for event in list(self._history):
                if event.revision > since:
                    watcher(event)
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def _tell(self, event: Event) -> None:
        self._history.append(event)
        for watcher in list(self._watchers):
            watcher(event)


def _same(old: Json, new: Json) -> bool:
    """Equal apart from the revision that the store itself writes."""
    if old.keys() != new.keys():
        return False
    if any(old[key] != new[key] for key in old if key != "metadata"):
        return False
    ignored = ("resourceVersion",)
    left = {key: value for key, value in old["metadata"].items() if key not in ignored}
    right = {key: value for key, value in new["metadata"].items() if key not in ignored}
    return bool(left == right)
