"""The same probe in several modes: a lab for each, one after the other, beside the lab in use."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject, Signal

from gui.engine.session import ProbeWords, Session, State
from netlab.model.text import Text
from netlab.model.walk import Walk


class Comparing(QObject):
    """``changed`` with each step of the way; ``walks`` and ``errors`` by mode, as far as it has come."""

    changed = Signal()

    def __init__(self, parent: QObject | None = None, make_session: Callable[[], Session] = Session) -> None:
        super().__init__(parent)
        self._make_session = make_session
        self._session: Session | None = None
        self._waiting: list[str] = []
        self._sources: list[tuple[str, bytes]] = []
        self._words: ProbeWords | None = None
        self.modes: list[str] = []
        self.current: str | None = None
        self.note: Text | None = None
        self.walks: dict[str, Walk] = {}
        self.errors: dict[str, Text] = {}

    @property
    def running(self) -> bool:
        return self.current is not None

    def start(self, sources: Sequence[tuple[str, bytes]], words: ProbeWords, modes: Sequence[str]) -> None:
        self.stop()
        self._sources, self._words = list(sources), words
        self.modes, self._waiting = list(modes), list(modes)
        self.walks, self.errors = {}, {}
        self._next()

    def stop(self, *, wait: bool = False) -> None:
        """Go no further; what is known stays."""
        self._waiting.clear()
        self.current = None
        self._end_session(wait=wait)
        self.changed.emit()

    def _next(self) -> None:
        self._end_session()
        self.note = None
        self.current = self._waiting.pop(0) if self._waiting else None
        self.changed.emit()
        if self.current is None:
            return
        session = self._session = self._make_session()
        session.state_changed.connect(self._state_changed)
        session.notes_changed.connect(self._noted)
        session.walk_made.connect(self._walked)
        session.probe_failed.connect(self._failed)
        session.open(self._sources, self.current)

    def _state_changed(self) -> None:
        session = self._session
        if session is None or self._words is None:
            return
        if session.state is State.READY:
            session.probe(self._words)
        elif session.state in (State.FAILED, State.ENDED) and session.error is not None:
            self._failed(session.error)

    def _noted(self) -> None:
        if self._session is not None and self._session.notes:
            self.note = self._session.notes[-1]
            self.changed.emit()

    def _walked(self, walk: Walk) -> None:
        if self.current is not None:
            self.walks[self.current] = walk
            self._next()

    def _failed(self, error: Text) -> None:
        if self.current is not None:
            self.errors[self.current] = error
            self._next()

    def _end_session(self, *, wait: bool = False) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            session.blockSignals(True)
            session.close() if wait else session.stop()
            session.deleteLater()
