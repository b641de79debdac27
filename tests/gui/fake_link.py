"""An engine that is a recording: answers as a real one did, at once, and says what it is told to say."""

from __future__ import annotations

import json
from typing import Any

from PySide6.QtCore import QTimer

from gui.engine.link import Done, EngineLink, Failed
from netlab.model.errors import LabFailed, NetlabError
from netlab.model.text import Text
from tests.gui.recorded import lab, node_a, walk_file


class FakeLink(EngineLink):
    """``answers``: what each method answers; an exception is what it fails with."""

    def __init__(self) -> None:
        super().__init__()
        recorded = lab()
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.closed = False
        self.silent: set[str] = set()
        self.answers: dict[str, Any] = {
            "lab.load": {"name": "nodeport", "notes": []},
            "lab.start": recorded["describe"],
            "lab.topology": recorded["topology"],
            "objects.list": recorded["objects"],
            "objects.watch": {},
            "conntrack.delete": True,
            **node_a(),
            "lab.walk": {"walk": json.loads(walk_file("far").read_text()), "capture_bytes": 0},
        }

    def start(self) -> None:
        QTimer.singleShot(0, self, self.started.emit)

    def call(self, method: str, params: dict[str, Any], done: Done, failed: Failed) -> None:
        self.asked.append((method, params))
        if method in self.silent:
            return
        answer = self.answers.get(method, LabFailed(Text("test", f"no {method}", f"没有 {method}")))

        def say() -> None:
            if self.closed:
                return
            if isinstance(answer, NetlabError):
                failed(answer)
            else:
                done(answer)

        QTimer.singleShot(0, self, say)

    def close(self, *, wait: bool = False) -> None:
        self.closed = True

    # What tests have it do

    def die(self) -> None:
        self.closed = True
        self.ended.emit(LabFailed(Text("test.died", "The engine has ended.", "引擎已退出。")))

    def tell(self, kind: str, value: dict[str, Any]) -> None:
        """An object has changed."""
        self.notified.emit("objects.event", {"type": kind, "object": value, "revision": 1})
