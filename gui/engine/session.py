"""What the app knows of the lab in use: its state, its objects, and the walks made in it.

Fed by an :class:`~gui.engine.link.EngineLink` (or by hand, with recorded values); views only ever look at this.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

import msgspec
from PySide6.QtCore import QObject, QTimer, Signal

from gui.engine.link import EngineLink, attach_link, make_link
from gui.values.picture import Picture, picture_of_lab, picture_of_walk
from netlab.model.errors import NetlabError
from netlab.model.text import Message, Text
from netlab.model.topology import Topology
from netlab.model.walk import Walk

KINDS = ["Node", "Pod", "Service", "EndpointSlice"]
GATHER_MS = 50
"""Changes of objects that come within this time are shown together."""


NEEDS_MICROVM = Message(
    "gui.session.needs-microvm",
    en="This machine's kernel cannot do mode {modes}: the lab runs in a microVM with a kernel that can.",
    zh="本机内核不支持 {modes} 模式：实验将在具备该功能的内核的 microVM 中运行。",
)


class MakeLink(Protocol):
    def __call__(self, *, in_microvm: bool = False) -> EngineLink: ...


class State(Enum):
    """A lab's life, as the window shows it."""

    EMPTY = "empty"
    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"
    ENDED = "ended"


@dataclass(frozen=True)
class ProbeWords:
    """A probe as it was asked for. ``packet`` is a scapy expression instead of a connection."""

    sender: str
    to: str
    protocol: str
    packet: str | None = None


class Session(QObject):
    """The lab in use. ``make_link(in_microvm=…)`` makes the link to a new engine."""

    state_changed = Signal()
    picture_changed = Signal()
    objects_changed = Signal()
    notes_changed = Signal()
    walk_made = Signal(object)
    probing_changed = Signal(bool)
    probe_failed = Signal(object)

    def __init__(self, parent: QObject | None = None, make_link: MakeLink = make_link) -> None:
        super().__init__(parent)
        self._make_link = make_link
        self._link: EngineLink | None = None
        self.state = State.EMPTY
        self.error: Text | None = None
        self.name = ""
        self.mode = ""
        self.wanted_mode: str | None = None
        self.in_microvm = False
        self.sources: list[tuple[str, bytes]] = []
        self.notes: list[Text] = []
        self.topology = Topology({})
        self.objects: dict[tuple[str, str, str], Mapping[str, Any]] = {}
        self.picture = Picture()
        self.probing = False
        self.language = "en"
        self._captured: Walk | None = None
        self._capture_bytes = 0
        self._gather = QTimer(self)
        self._gather.setSingleShot(True)
        self._gather.setInterval(GATHER_MS)
        self._gather.timeout.connect(self._show_objects)

    @property
    def engine_pid(self) -> int:
        return self._link.pid if self._link is not None else 0

    # Coming up

    def open(self, sources: Sequence[tuple[str, bytes]], mode: str | None = None) -> None:
        """Build the lab that the files (name and contents each) describe, in place of the one in use."""
        self._let_go()
        self.sources, self.wanted_mode = list(sources), mode
        self._clear()
        self._start(in_microvm=False)

    def _start(self, *, in_microvm: bool) -> None:
        self.in_microvm = in_microvm
        self._enter(State.STARTING)
        self._use(self._make_link(in_microvm=in_microvm), self._load)

    def attach(self, name: str) -> None:
        """Use a lab that runs already, by its name; it goes on when it is let go of."""
        self._let_go()
        self._clear()
        self.sources, self.name, self.in_microvm = [], name, False
        self._enter(State.STARTING)
        self._use(attach_link(name), lambda: self._call("lab.describe", {}, self._built))

    def _use(self, link: EngineLink, started: Callable[[], None]) -> None:
        self._link = link
        link.said.connect(self._told)
        link.started.connect(started)
        link.failed.connect(self._failed)
        link.ended.connect(self._ended)
        link.notified.connect(self._notified)
        link.start()

    def change_mode(self, mode: str | None) -> None:
        """The same lab with another mode of kube-proxy on every node; None: as its file says."""
        if self.sources and mode != self.wanted_mode:
            self.open(self.sources, mode)

    def restart(self) -> None:
        """The same lab once more, with a new engine."""
        self.open(self.sources, self.wanted_mode)

    def show_walk(self, walk: Walk, name: str) -> None:
        """A walk by itself, from a file: there is no lab behind it."""
        self._let_go()
        self._clear()
        self.sources, self.name, self.mode = [], name, walk.mode
        self.picture = picture_of_walk(walk)
        self._enter(State.EMPTY)
        self.picture_changed.emit()
        self.walk_made.emit(walk)

    def stop(self) -> None:
        """End the lab; there is none then."""
        self._let_go()
        self._clear()
        self.sources = []
        self._enter(State.EMPTY)
        self.picture_changed.emit()

    def close(self) -> None:
        """End the engine, and return when it has ended."""
        if self._link is not None:
            self._link.close(wait=True)
            self._link = None

    def _let_go(self) -> None:
        if self._link is not None:
            self._link.blockSignals(True)
            self._link.close()
            self._link = None

    def _clear(self) -> None:
        self.error = None
        self.name = self.mode = ""
        self.notes, self.objects, self.topology = [], {}, Topology({})
        self.picture = Picture()
        self._set_probing(False)

    def _load(self) -> None:
        encoded = [{"name": name, "data": base64.b64encode(data).decode()} for name, data in self.sources]
        self._call("lab.load", {"sources": encoded, "mode": self.wanted_mode}, self._loaded)

    def _told(self, news: Text) -> None:
        self.notes = [*self.notes, news]
        self.notes_changed.emit()

    def _loaded(self, result: Any) -> None:
        self.name = result["name"]
        self.notes = msgspec.convert(result["notes"], list[Text])
        if result.get("lacking") and not self.in_microvm:
            self._told(NEEDS_MICROVM(modes=", ".join(result["lacking"])))
            self._let_go()
            self._start(in_microvm=True)
            return
        self.notes_changed.emit()
        self._call("lab.start", {}, self._built)

    def _built(self, result: Any) -> None:
        self.mode = result["mode"]
        self.notes = msgspec.convert(result["notes"], list[Text])
        self.notes_changed.emit()
        self._call("lab.topology", {}, self._have_topology)

    def _have_topology(self, result: Any) -> None:
        self.topology = msgspec.convert(result, Topology)
        self._call("objects.list", {"kinds": KINDS}, self._have_objects)

    def _have_objects(self, result: Any) -> None:
        self.objects = {_key(each): each for each in result["objects"]}
        self._call("objects.watch", {"kinds": KINDS, "revision": result["revision"]}, lambda _: None)
        self._show_objects()
        self._enter(State.READY)

    # Hearing

    def _notified(self, method: str, params: Any) -> None:
        if method == "objects.event":
            key = _key(params["object"])
            if params["type"] == "DELETED":
                self.objects.pop(key, None)
            else:
                self.objects[key] = params["object"]
            if not self._gather.isActive():
                self._gather.start()

    def _show_objects(self) -> None:
        self.objects_changed.emit()
        picture = picture_of_lab(self.topology, self.objects.values(), self.mode)
        if picture != self.picture:
            self.picture = picture
            self.picture_changed.emit()

    # Asking

    def probe(self, words: ProbeWords, timeout: float = 2.0) -> None:
        """Send a probe; ``walk_made`` or ``probe_failed`` follows."""
        self._set_probing(True)
        params = {
            "from": words.sender,
            "to": words.to or None,
            "protocol": words.protocol,
            "packet": words.packet,
            "timeout": timeout,
            "capture": True,
            "language": self.language,
        }
        self._call("lab.walk", params, self._walked, self._probe_failed)

    def ask(
        self, method: str, params: dict[str, Any], done: Callable[[Any], None], failed: Callable[[Text], None]
    ) -> None:
        """Any other question; the answer goes to whoever asks."""
        self._call(method, params, done, lambda error: failed(error.text))

    def has_capture(self, walk: Walk | None) -> bool:
        """Whether the engine keeps the walk's capture: of the last one that it made."""
        return walk is not None and walk is self._captured and self.state is State.READY

    def read_capture(self, done: Callable[[bytes], None], failed: Callable[[Text], None]) -> None:
        """The last walk's capture file, piece by piece."""
        pieces: list[bytes] = []

        def have(piece: str) -> None:
            pieces.append(base64.b64decode(piece))
            following()

        def following() -> None:
            size = sum(len(each) for each in pieces)
            if size < self._capture_bytes:
                self.ask("capture.read", {"offset": size}, have, failed)
            else:
                done(b"".join(pieces))

        following()

    def _walked(self, result: Any) -> None:
        self._set_probing(False)
        walk = msgspec.convert(result["walk"], Walk)
        self._captured, self._capture_bytes = walk, int(result["capture_bytes"])
        self.walk_made.emit(walk)

    def _probe_failed(self, error: NetlabError) -> None:
        self._set_probing(False)
        self.probe_failed.emit(error.text)

    def _set_probing(self, probing: bool) -> None:
        if probing != self.probing:
            self.probing = probing
            self.probing_changed.emit(probing)

    def _call(
        self,
        method: str,
        params: dict[str, Any],
        done: Callable[[Any], None],
        failed: Callable[[NetlabError], None] | None = None,
    ) -> None:
        link = self._link
        if link is None:
            return

        def if_still_in_use(answer: Any) -> None:
            if link is self._link:
                done(answer)

        def if_still_asked(error: NetlabError) -> None:
            if link is self._link:
                (failed or self._failed)(error)

        link.call(method, params, if_still_in_use, if_still_asked)

    # Failing

    def _failed(self, error: NetlabError) -> None:
        if self._link is not None:
            self._let_go()
        self._set_probing(False)
        self.error = error.text
        self._enter(State.FAILED)

    def _ended(self, error: NetlabError) -> None:
        if self.state is not State.FAILED:
            self._link = None
            self._set_probing(False)
            self.error = error.text
            self._enter(State.ENDED)

    def _enter(self, state: State) -> None:
        self.state = state
        self.state_changed.emit()


def _key(value: Mapping[str, Any]) -> tuple[str, str, str]:
    metadata = value["metadata"]
    return value["kind"], metadata.get("namespace") or "", metadata["name"]
