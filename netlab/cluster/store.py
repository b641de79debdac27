"""The store: all objects of the cluster, each under its key, with the API server's revision numbers and a watch.

Objects are whole JSON values. The store owns what it is given and gives out what it holds: nobody changes a stored
object in place, a change is a new object.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from netlab.model.keys import ObjectKey, key_of

Json = dict[str, Any]


HISTORY = 10_000
"""Changes that are remembered for watches that start from an earlier revision."""


class Event(NamedTuple):
    """One change, as a watch tells it: the object after it (its last state, for DELETED), and the revision."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    object: Json
    revision: int


class RevisionGone(Exception):
    """A watch asked for changes since a revision that is no longer remembered, or not there yet: list again."""


@dataclass
class _Watch:
    """Who is told of changes, and up to which revision that has been done."""

    watcher: Callable[[Event], None]
    told: int
    ended: bool = False


class Store:
    """Objects by kind; every change raises ``revision`` by one and is told to the watchers in order.

    A watcher may change objects itself: everybody is told of the change before first, and of that one then.
    """

    def __init__(self) -> None:
        self.revision = 0
        self._objects: dict[str, dict[ObjectKey, Json]] = {}
        self._watches: list[_Watch] = []
        self._history: deque[Event] = deque(maxlen=HISTORY)
        self._telling = False

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
        if old is not None and same(old, value):
            return old
        self.revision += 1
        stored = {**value, "metadata": {**value["metadata"], "resourceVersion": str(self.revision)}}
        objects[key] = stored
        self._happened(Event("ADDED" if old is None else "MODIFIED", stored, self.revision))
        return stored

    def delete(self, key: ObjectKey) -> Json | None:
        """Take an object away; returns it, or None where there was none."""
        old = self._objects.get(key.kind, {}).pop(key, None)
        if old is not None:
            self.revision += 1
            gone = {**old, "metadata": {**old["metadata"], "resourceVersion": str(self.revision)}}
            self._happened(Event("DELETED", gone, self.revision))
        return old

    def watch(self, watcher: Callable[[Event], None], since: int | None = None) -> Callable[[], None]:
        """Call ``watcher`` with every change after the revision ``since`` (default: from now on).

        Returns what ends the watch. Raises :class:`RevisionGone`.
        """
        if since is None:
            since = self.revision
        oldest = self._history[0].revision if self._history else self.revision + 1
        if not oldest - 1 <= since <= self.revision:
            raise RevisionGone
        watch = _Watch(watcher, since)
        self._watches.append(watch)
        self._tell()

        def end() -> None:
            watch.ended = True
            self._watches = [each for each in self._watches if each is not watch]

        return end

    def _happened(self, event: Event) -> None:
        self._history.append(event)
        self._tell()

    def _tell(self) -> None:
        """Tell every watcher what it does not know yet, one change at a time."""
        if self._telling:
            return
        self._telling = True
        try:
            while behind := [watch for watch in self._watches if watch.told < self.revision]:
                for watch in behind:
                    if not watch.ended:
                        event = self._history[watch.told - self.revision]
                        watch.told = event.revision
                        watch.watcher(event)
        finally:
            self._telling = False


def same(old: Json, new: Json) -> bool:
    """Equal apart from the revision that the store itself writes."""
    if old.keys() != new.keys():
        return False
    if any(old[key] != new[key] for key in old if key != "metadata"):
        return False
    ignored = ("resourceVersion",)
    left = {key: value for key, value in old["metadata"].items() if key not in ignored}
    right = {key: value for key, value in new["metadata"].items() if key not in ignored}
    return bool(left == right)
