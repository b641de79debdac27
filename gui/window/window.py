"""The main window: which page is shown, what the commands do, and what is remembered."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import msgspec
from PySide6.QtCore import QEvent, Qt, QTimer
from PySide6.QtGui import QActionGroup, QCloseEvent, QDragEnterEvent, QDropEvent, QGuiApplication, QResizeEvent
from PySide6.QtWidgets import QFileDialog, QLabel, QMainWindow, QMenu, QStackedWidget

from gui.engine.link import running_labs
from gui.engine.session import ProbeWords, Session, State
from gui.files import FileReader, Opened
from gui.look.style import Choice, Look
from gui.settings import Settings
from gui.values.examples import Example, example
from gui.walk.banner import answer_text
from gui.walk.player import SPEEDS, Player
from gui.window.catalogue import CATALOGUE, LANGUAGE_COMMANDS, MENUS, PAUSE, PLAY
from gui.window.commands import Commands
from gui.window.palette import CommandPalette
from gui.window.start_page import StartPage
from gui.window.workspace import Workspace
from gui.words.language import Language
from netlab.engine.files import OutputFile
from netlab.model.errors import NetlabError
from netlab.model.story import MARKS
from netlab.model.text import Message, Text
from netlab.model.walk import Walk

TITLE = "kube-netlab"
TITLE_OF = Message("gui.window.title", en="{lab} — kube-netlab", zh="{lab} — kube-netlab")
OPEN = Message("gui.window.open", en="Open a lab file or a walk", zh="打开实验文件或旅程")
EXPORT = Message("gui.window.export", en="Export the capture", zh="导出抓包文件")
SAVE = Message("gui.window.save", en="Save the walk", zh="保存旅程")
RECENT = Message("gui.window.recent", en="Recent files", zh="最近打开的文件")
HISTORY = Message("gui.window.history", en="Earlier walks", zh="之前的旅程")
RESTART = Message("gui.window.restart", en="Build it anew", zh="重新建立")
MOST_HISTORY = 20
STATES = {
    State.EMPTY: Message("gui.window.state-empty", en="no lab", zh="没有实验"),
    State.STARTING: Message("gui.window.state-starting", en="● building the lab…", zh="● 正在建立实验…"),
    State.READY: Message("gui.window.state-ready", en="✓ lab ready", zh="✓ 实验就绪"),
    State.FAILED: Message("gui.window.state-failed", en="✗ the lab could not be built", zh="✗ 无法建立实验"),
    State.ENDED: Message("gui.window.state-ended", en="✗ the engine has ended", zh="✗ 引擎已退出"),
}
COUNTS = Message(
    "gui.window.counts",
    en="nodes {nodes} · Pods {pods} · Services {services} · kube-proxy in mode {mode}",
    zh="节点 {nodes} · Pod {pods} · Service {services} · kube-proxy 模式 {mode}",
)
SAVED_WALK = Message(
    "gui.window.saved-walk", en="a saved walk, made in mode {mode}", zh="已保存的旅程，以 {mode} 模式得到"
)


class MainWindow(QMainWindow):
    """Wiring only; every view is fed by the session and the player."""

    def __init__(self, session: Session, look: Look, language: Language, settings: Settings) -> None:
        super().__init__()
        self.session, self.look, self.language, self.settings = session, look, language, settings
        self.setStyleSheet(look.sheet())
        # In a turn of its own: icons and texts in other colours take long enough.
        self._dress = QTimer(self)
        self._dress.setSingleShot(True)
        self._dress.setInterval(0)
        self._dress.timeout.connect(lambda: self.setStyleSheet(look.sheet()))
        look.changed.connect(self._dress.start)
        self.player = Player(self)
        self.player.calm = settings.calm
        self.reader = FileReader(self)
        self.commands = Commands(look, language, self)
        self._next_probe: Example | None = None
        self._again: ProbeWords | None = None
        self._add_commands()
        self.workspace = Workspace(session, self.player, look, language, self.commands)
        self.start_page = StartPage(look, language, settings, self.commands)
        self.palette_box = CommandPalette(self.commands, language, self)
        self.pages = QStackedWidget()
        self.pages.addWidget(self.start_page)
        self.pages.addWidget(self.workspace)
        self.setCentralWidget(self.pages)
        self.state_label, self.counts = QLabel(), QLabel()
        self.statusBar().setSizeGripEnabled(False)
        self.statusBar().setContentsMargins(10, 0, 10, 0)
        self.statusBar().addWidget(self.state_label)
        self.statusBar().addWidget(self.counts)
        self.recent_menu = QMenu(self)
        self.history_menu = QMenu(self)
        self._history: list[Walk] = []
        self._add_menus()
        self.setAcceptDrops(True)
        self.setMinimumSize(760, 520)
        self.resize(1280, 800)
        self._connect()
        self._restore()
        self._show_state()

    def tell(self, text: Text) -> None:
        """Something that is worth a word, whichever page is shown next."""
        self.workspace.notice.tell(text)

    # Opening

    def open_example(self, chosen: Example) -> None:
        """Build one of the product's labs, and send the probe that it is about."""
        self._next_probe = chosen
        self.reader.ask(str(chosen.path))

    def open_file(self, path: str) -> None:
        """A lab file, or a walk saved as JSON; one of the product's labs by its name."""
        known = example(path)
        if known is not None:
            self.open_example(known)
            return
        self._next_probe = None
        if "/" not in path and not os.path.lexists(path) and path in running_labs():
            self.attach(path)
            return
        self.reader.ask(path)

    def attach(self, name: str) -> None:
        """Be a further frontend of a lab that runs already; it goes on when the window closes."""
        self.workspace.notice.clear()
        self._next_probe = self._again = None
        self.player.show(None)
        self.pages.setCurrentWidget(self.workspace)
        self.session.attach(name)

    def _open_again(self, path: str, *_: object) -> None:
        self.open_file(path)

    def _opened(self, opened: Opened) -> None:
        self.workspace.notice.clear()
        if self._next_probe is None:
            self.settings.opened(opened.path)
        self._fill_recent()
        self.player.show(None)
        self.pages.setCurrentWidget(self.workspace)
        if opened.walk is not None:
            self.session.show_walk(opened.walk, opened.path.rpartition("/")[2])
        else:
            self._again = None
            self.session.open([(opened.path, opened.data)])

    def _not_opened(self, reason: Text) -> None:
        self._next_probe = None
        self.pages.setCurrentWidget(self.workspace)
        self.workspace.notice.tell(reason)

    def _ask_for_file(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, self.language.say(OPEN))
        if path:
            self.open_file(path)

    def _save_walk(self) -> None:
        walk = self.player.walk
        if walk is None:
            return
        path, _ = QFileDialog.getSaveFileName(self, self.language.say(SAVE), "walk.json", "JSON (*.json)")
        if path:
            self.save_walk(walk, path)

    def save_walk(self, walk: Walk, path: str) -> None:
        self._write(path, msgspec.json.format(msgspec.json.encode(walk), indent=2) + b"\n")

    def _write(self, path: str, data: bytes) -> None:
        try:
            file = OutputFile(path)
            try:
                file.write(data)
            finally:
                file.close()
        except NetlabError as error:
            self.workspace.notice.tell(error.text)

    # The lab

    def _show_state(self) -> None:
        session = self.session
        self.state_label.setText(self.language.say(STATES[session.state]))
        picture = session.picture
        if session.state is State.READY:
            counts = COUNTS(
                nodes=len(picture.nodes),
                pods=sum(len(node.pods) for node in picture.nodes),
                services=len(picture.services),
                mode=session.mode,
            )
            self.counts.setText(self.language.say(counts))
        elif session.state is State.EMPTY and session.name:
            self.state_label.clear()
            self.counts.setText(self.language.say(SAVED_WALK(mode=session.mode)))
        else:
            news = session.notes[-1:] if session.state is State.STARTING else []
            self.counts.setText("".join(self.language.say(each) for each in news))
        title = self.language.say(TITLE_OF(lab=session.name)) if session.name else TITLE
        self.setWindowTitle(title)
        self.commands["lab.restart"].setEnabled(bool(session.sources) and session.state is not State.STARTING)
        self.commands["lab.stop"].setEnabled(session.state in (State.STARTING, State.READY))

    def _state_changed(self) -> None:
        session = self.session
        self._show_state()
        if session.state in (State.FAILED, State.ENDED) and session.error is not None:
            self.workspace.notice.tell(session.error, RESTART)
        elif session.state is State.READY:
            self.workspace.notice.clear()
            chosen, self._next_probe = self._next_probe, None
            again, self._again = self._again, None
            if again is not None:
                self.session.probe(again)
            elif chosen is not None:
                self.workspace.probe_bar.ask(chosen.sender, chosen.to, chosen.protocol)
                self._send()
            else:
                self.workspace.probe_bar.send.setFocus()

    def _send(self) -> None:
        self.workspace.notice.clear()
        self.session.language = self.language.code
        self.session.probe(self.workspace.probe_bar.words())

    def _walk_made(self, walk: Walk) -> None:
        self._remember(walk)
        self.player.show(walk)
        self.player.play()

    def _remember(self, walk: Walk) -> None:
        """The walks that were made lately, to be seen again."""
        self._history = [walk, *self._history][:MOST_HISTORY]
        self.history_menu.clear()
        for each in self._history:
            answer = self.language.say(answer_text(each))
            title = f"{MARKS[each.verdict]} {each.probe.from_} → {each.probe.to}  {each.mode}  {answer}"
            self.history_menu.addAction(title).triggered.connect(partial(self._see_again, each))
        self.history_menu.setEnabled(True)

    def _compare_before(self) -> None:
        """The walk that is shown, and the one that was made before it."""
        now = self.player.walk
        at = next((number for number, each in enumerate(self._history) if each is now), -1)
        if now is not None and 0 <= at < len(self._history) - 1:
            self.workspace.compare.show_pair(self._history[at + 1], now)
            self.workspace.show_tab(self.workspace.compare)

    def _see_again(self, walk: Walk, *_: object) -> None:
        self.player.show(walk)
        self.player.play()

    def _restart(self) -> None:
        self.workspace.notice.clear()
        if self.session.sources:
            self.session.restart()

    def _apply(self, file: str, data: bytes) -> None:
        """Build the lab anew with a changed file, and send the same probe again."""
        self._again = self.workspace.probe_bar.words() if self.player.walk is not None else None
        self.workspace.notice.clear()
        self.session.open([(file, data)], self.session.wanted_mode)

    def _search_rules(self) -> None:
        self.workspace.show_tab(self.workspace.rules)
        self.workspace.rules.search.setFocus()

    def _export_capture(self) -> None:
        path, _ = QFileDialog.getSaveFileName(self, self.language.say(EXPORT), "walk.pcapng", "pcapng (*.pcapng)")
        if path:
            self.export_capture(path)

    def export_capture(self, path: str) -> None:
        """Write the capture of the walk that was made last."""
        self.session.read_capture(lambda data: self._write(path, data), self.workspace.notice.tell)

    def _stop(self) -> None:
        self.session.stop()
        self.player.show(None)
        self.pages.setCurrentWidget(self.start_page)

    # Commands

    def _add_commands(self) -> None:
        player = self.player
        run: dict[str, Callable[..., object]] = {
            "file.open": self._ask_for_file,
            "file.start-page": self._show_start_page,
            "file.save-walk": self._save_walk,
            "file.export-capture": self._export_capture,
            "file.quit": self.close,
            "lab.restart": self._restart,
            "lab.stop": self._stop,
            "lab.apply": lambda: self.workspace.yaml.apply.click(),
            "probe.send": self._send,
            "probe.sender": lambda: self.workspace.probe_bar.who.setFocus(),
            "probe.destination": lambda: self.workspace.probe_bar.to.setFocus(),
            "walk.start": lambda: player.go_to(0),
            "walk.previous-row": player.previous_row,
            "walk.back": player.back,
            "walk.play": player.toggle,
            "walk.forward": player.forward,
            "walk.next-row": player.next_row,
            "walk.faster": lambda: self._change_speed(1),
            "walk.slower": lambda: self._change_speed(-1),
            "walk.all-steps": lambda on: self.workspace.every.setChecked(on),
            "walk.compare-before": self._compare_before,
            "walk.copy": lambda: QGuiApplication.clipboard().setText(self.workspace.steps.text()),
            "view.topology": lambda: self.workspace.show_tab(self.workspace.topology),
            "view.ladder": lambda: self.workspace.show_tab(self.workspace.ladder),
            "view.compare": lambda: self.workspace.show_tab(self.workspace.compare),
            "view.rules": lambda: self.workspace.show_tab(self.workspace.rules),
            "view.yaml": lambda: self.workspace.show_tab(self.workspace.yaml),
            "view.steps": lambda: self.workspace.show_tab(self.workspace.steps),
            "view.packets": lambda: self.workspace.show_tab(self.workspace.frames),
            "view.conntrack": lambda: self.workspace.show_tab(self.workspace.connections),
            "view.search-rules": self._search_rules,
            "view.details": lambda on: self.workspace.side.setVisible(on),
            "view.table": lambda on: self.workspace.bottom.setVisible(on),
            "view.fit": lambda: self.workspace.topology.fit(),
            "view.zoom-in": lambda: self.workspace.topology.zoom(1.2),
            "view.zoom-out": lambda: self.workspace.topology.zoom(1 / 1.2),
            "view.calm": self._set_calm,
            "view.theme-system": lambda on: self._set_theme("system") if on else None,
            "view.theme-light": lambda on: self._set_theme("light") if on else None,
            "view.theme-dark": lambda on: self._set_theme("dark") if on else None,
            "help.palette": lambda: self.palette_box.open(),
        }
        for name, command in CATALOGUE.items():
            self.commands.add(command, run[name])
        for code, command in LANGUAGE_COMMANDS.items():
            self.commands.add(command, partial(self._set_language, code))
        self._one_of([f"view.theme-{each}" for each in ("system", "light", "dark")])
        self._one_of([command.id for command in LANGUAGE_COMMANDS.values()])
        self.addActions([action for _, action in self.commands])

    def _one_of(self, names: list[str]) -> None:
        group = QActionGroup(self)
        for name in names:
            group.addAction(self.commands[name])

    def _add_menus(self) -> None:
        for name, title in MENUS.items():
            menu = self.menuBar().addMenu("")
            self.language.bind(menu, menu.setTitle, title)
            for action in self.commands.of_menu(name):
                if action is self.commands["file.quit"]:
                    menu.addMenu(self.recent_menu)
                    menu.addSeparator()
                menu.addAction(action)
            if name == "probe":
                menu.addMenu(self.history_menu)
        self.history_menu.setEnabled(False)
        self.language.bind(self.history_menu, self.history_menu.setTitle, HISTORY)
        self.language.bind(self.recent_menu, self.recent_menu.setTitle, RECENT)
        self._fill_recent()

    def _fill_recent(self) -> None:
        self.recent_menu.clear()
        for path in self.settings.recent:
            self.recent_menu.addAction(path).triggered.connect(partial(self._open_again, path))
        self.recent_menu.setEnabled(bool(self.settings.recent))
        self.start_page.show_recent()

    def _connect(self) -> None:
        session, player = self.session, self.player
        self.reader.read.connect(self._opened)
        self.reader.failed.connect(self._not_opened)
        self.start_page.example_chosen.connect(self.open_example)
        self.start_page.file_chosen.connect(self.open_file)
        self.start_page.lab_chosen.connect(self.attach)
        self.workspace.notice.acted.connect(self._restart)
        self.workspace.yaml.applied.connect(self._apply)
        self.workspace.every.toggled.connect(self.commands["walk.all-steps"].setChecked)
        session.state_changed.connect(self._state_changed)
        session.picture_changed.connect(self._show_state)
        session.notes_changed.connect(self._show_state)
        session.walk_made.connect(self._walk_made)
        session.probe_failed.connect(lambda text: self.workspace.notice.tell(text))
        self.language.changed.connect(self._show_state)
        player.playing_changed.connect(self._show_playing)
        player.walk_changed.connect(self._enable_walk)
        self._enable_walk()

    def _enable_walk(self) -> None:
        there = self.player.walk is not None
        for action in self.commands.of_menu("walk"):
            action.setEnabled(there)
        self.commands["walk.compare-before"].setEnabled(there and len(self._history) > 1)
        self.commands["file.save-walk"].setEnabled(there)
        self.commands["file.export-capture"].setEnabled(there and self.session.has_capture(self.player.walk))

    def _show_playing(self, playing: bool) -> None:
        self.commands.set_icon("walk.play", "pause" if playing else "play")
        self.commands.reword("walk.play", PAUSE if playing else PLAY)

    def _change_speed(self, by: int) -> None:
        at = min(max(SPEEDS.index(self.player.speed) + by, 0), len(SPEEDS) - 1)
        self.player.set_speed(SPEEDS[at])

    def _set_calm(self, calm: bool) -> None:
        self.player.calm = self.settings.calm = calm

    def _set_theme(self, choice: Choice) -> None:
        self.settings.theme = choice
        self.look.choose(choice)

    def _set_language(self, code: str, on: bool) -> None:
        if not on:
            return
        self.settings.language = code
        self.language.choose(code)

    def _show_start_page(self) -> None:
        here = self.pages.currentWidget() is self.start_page
        self.pages.setCurrentWidget(self.workspace if here and self.session.name else self.start_page)

    # Life

    def _restore(self) -> None:
        self.commands[f"view.theme-{self.look.choice}"].setChecked(True)
        self.commands[f"view.language-{self.language.code}"].setChecked(True)
        self.commands["view.calm"].setChecked(self.player.calm)
        self.commands["view.details"].setChecked(True)
        self.commands["view.table"].setChecked(True)
        geometry = self.settings.state("window")
        if not geometry.isEmpty():
            self.restoreGeometry(geometry)
        self.workspace.restore_state(self.settings)

    def closeEvent(self, event: QCloseEvent) -> None:  # noqa: N802
        self.settings.set_state("window", self.saveGeometry())
        self.workspace.save_state(self.settings)
        self.settings.save()
        self.player.pause()
        self.hide()
        self.workspace.comparing.stop(wait=True)
        self.session.close()
        event.accept()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        super().changeEvent(event)
        if event.type() == QEvent.Type.ActivationChange:
            self.player.set_in_front(self.isActiveWindow())

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        self.palette_box.hide()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:  # noqa: N802
        if any(url.isLocalFile() for url in event.mimeData().urls()):
            event.setDropAction(Qt.DropAction.CopyAction)
            event.accept()

    def dropEvent(self, event: QDropEvent) -> None:  # noqa: N802
        path = next((url.toLocalFile() for url in event.mimeData().urls() if url.isLocalFile()), None)
        if path is not None:
            event.accept()
            self.open_file(path)
