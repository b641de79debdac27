"""The lab at work: probe bar, what came of it, and the views around the walk."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QFrame, QHBoxLayout, QLabel, QSplitter, QTabWidget, QVBoxLayout, QWidget

from gui.compare.view import CompareView
from gui.engine.comparing import Comparing
from gui.engine.session import Session, State
from gui.look.style import Look
from gui.rules.view import RulesView
from gui.settings import Settings
from gui.tables.connections import ConnectionsView
from gui.tables.frames import FramesView
from gui.topology.view import TopologyView
from gui.values.sources import lines_around
from gui.walk.banner import VerdictBanner
from gui.walk.details import StepDetails
from gui.walk.ladder import LadderView
from gui.walk.player import Player
from gui.walk.table import StepTable
from gui.walk.transport import TransportBar
from gui.window.commands import Commands, command_button
from gui.window.mode_box import ModeBox
from gui.window.notice import Notice
from gui.window.place_menu import PlaceMenu
from gui.window.probe_bar import ProbeBar
from gui.words.language import Language
from gui.yaml.view import YamlView
from netlab.model.text import Message
from netlab.model.walk import Walk

TOPOLOGY = Message("gui.workspace.topology", en="Topology", zh="拓扑")
COMPARE = Message("gui.workspace.compare", en="Compare", zh="比较")
LADDER = Message("gui.workspace.ladder", en="Ladder", zh="阶梯图")
RULES = Message("gui.workspace.rules", en="Rules", zh="规则")
YAML = Message("gui.workspace.yaml", en="YAML", zh="YAML")
PACKETS = Message("gui.workspace.packets", en="Packets", zh="数据包")
CONNTRACK = Message("gui.workspace.conntrack", en="Conntrack", zh="连接跟踪")
WALK = Message("gui.workspace.walk", en="Walk", zh="旅程")
ALL_STEPS = Message("gui.workspace.all-steps", en="All steps", zh="全部步骤")
SPLITS = ("across", "down", "details")


class Workspace(QWidget):
    """Wiring of the views; ``restart`` of the engine is the window's business."""

    def __init__(self, session: Session, player: Player, look: Look, language: Language, commands: Commands) -> None:
        super().__init__()
        self.session, self.player, self.look, self.language = session, player, look, language
        self.probe_bar = ProbeBar(session, look, language, commands["probe.send"])
        self.notice = Notice(look, language)
        self.banner = VerdictBanner(player, look, language)
        self.topology = TopologyView(player, look, language)
        self.ladder = LadderView(player, look, language)
        self.transport = TransportBar(player, look, language, commands)
        self.details = StepDetails(player, look, language, self._lines)
        self.steps = StepTable(player, look, language)
        self.comparing = Comparing(self)
        self.compare = CompareView(session, self.comparing, self.probe_bar, look, language)
        self.compare.walk_chosen.connect(self._show_other_walk)
        self.rules = RulesView(session, player, look, language)
        self.rules.origin_chosen.connect(self.show_origin)
        self.yaml = YamlView(session, look, language)
        self.details.origin_chosen.connect(self.show_origin)
        self.frames = FramesView(player, look, language, command_button(commands["file.export-capture"]))
        self.connections = ConnectionsView(session, player, look, language)
        self.mode = ModeBox(session, language)
        self.lab_name = QLabel()

        self.centre = QTabWidget()
        self.centre.setDocumentMode(False)
        self.tabs: list[tuple[QTabWidget, QWidget, Message]] = []
        self.add_tab(self.centre, self.topology, TOPOLOGY)
        self.add_tab(self.centre, self.ladder, LADDER)
        self.add_tab(self.centre, self.rules, RULES)
        self.add_tab(self.centre, self.compare, COMPARE)
        self.add_tab(self.centre, self.yaml, YAML)
        self.bottom = QTabWidget()
        self.add_tab(self.bottom, self.steps, WALK)
        self.add_tab(self.bottom, self.frames, PACKETS)
        self.add_tab(self.bottom, self.connections, CONNTRACK)
        self.every = QCheckBox()
        self.every.toggled.connect(self.steps.show_all)
        language.bind(self.every, self.every.setText, ALL_STEPS)
        corner = QWidget()
        inner = QHBoxLayout(corner)
        inner.setContentsMargins(0, 0, 10, 0)
        inner.addWidget(self.every)
        self.bottom.setCornerWidget(corner, Qt.Corner.TopRightCorner)

        self.side = _card(self.details)
        self.side.setMinimumWidth(290)
        self.down = _split(Qt.Orientation.Vertical, (self._with_transport(), self.bottom), (440, 230))
        self.across = _split(Qt.Orientation.Horizontal, (self.down, self.side), (930, 330))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 6, 10, 6)
        layout.setSpacing(8)
        layout.addLayout(self._top_row(commands))
        layout.addWidget(self.notice)
        layout.addWidget(self.banner)
        layout.addWidget(self.across, 1)

        self.place_menu = PlaceMenu(self, session, language, self.probe_bar.ask, self._show_rules_of, self.notice.tell)
        self.topology.asked_about.connect(lambda name, at: self.place_menu.show(name, self.probe_bar.targets(), at))
        session.picture_changed.connect(lambda: self.topology.show_picture(session.picture))
        session.state_changed.connect(self._show_lab)
        language.changed.connect(self._retitle)
        look.changed.connect(self._show_lab)
        self._show_lab()

    def add_tab(self, tabs: QTabWidget, view: QWidget, title: Message) -> None:
        self.tabs.append((tabs, view, title))
        tabs.addTab(view, self.language.say(title))

    def show_tab(self, view: QWidget) -> None:
        """Bring a view to the front, and give it the keyboard."""
        for tabs, each, _ in self.tabs:
            if each is view:
                tabs.setCurrentWidget(view)
                view.setFocus()

    def _show_rules_of(self, node: str) -> None:
        self.rules.show_node(node)
        self.show_tab(self.rules)

    def show_origin(self, file: str, line: int) -> None:
        """The line of YAML that a rule comes from."""
        if self.yaml.show_line(file, line):
            self.show_tab(self.yaml)

    def _show_other_walk(self, walk: Walk) -> None:
        self.player.show(walk)
        self.show_tab(self.topology)
        self.player.play()

    def save_state(self, settings: Settings) -> None:
        for name, split in zip(SPLITS, self._splits(), strict=True):
            settings.set_state(name, split.saveState())

    def restore_state(self, settings: Settings) -> None:
        for name, split in zip(SPLITS, self._splits(), strict=True):
            state = settings.state(name)
            if not state.isEmpty():
                split.restoreState(state)

    def _splits(self) -> tuple[QSplitter, QSplitter, QSplitter]:
        return self.across, self.down, self.details.split

    def _top_row(self, commands: Commands) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setSpacing(8)
        self.lab_name.setObjectName("title")
        row.addWidget(command_button(commands["file.start-page"]))
        row.addWidget(self.lab_name)
        row.addWidget(self.mode)
        row.addSpacing(4)
        row.addWidget(self.probe_bar, 1)
        row.addWidget(command_button(commands["help.palette"]))
        return row

    def _with_transport(self) -> QWidget:
        holder = QWidget()
        column = QVBoxLayout(holder)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        column.addWidget(self.centre, 1)
        column.addWidget(_card(self.transport))
        return holder

    def _lines(self, file: str, line: int) -> list[tuple[int, str]]:
        return lines_around(self.session.sources, file, line)

    def _retitle(self) -> None:
        for tabs, view, title in self.tabs:
            tabs.setTabText(tabs.indexOf(view), self.language.say(title))
        self._show_lab()

    def _show_lab(self) -> None:
        session = self.session
        self.lab_name.setText(session.name)
        self.lab_name.setVisible(bool(session.name))
        self.topology.show_busy(session.state is State.STARTING)
        self.probe_bar.setVisible(session.state is not State.EMPTY)


def _card(view: QWidget) -> QFrame:
    card = QFrame()
    card.setObjectName("card")
    layout = QVBoxLayout(card)
    layout.setContentsMargins(1, 1, 1, 1)
    layout.addWidget(view)
    return card


def _split(way: Qt.Orientation, views: tuple[QWidget, ...], sizes: tuple[int, ...]) -> QSplitter:
    split = QSplitter(way)
    split.setHandleWidth(8)
    for view in views:
        split.addWidget(view)
    split.setSizes(list(sizes))
    split.setStretchFactor(0, 3)
    split.setStretchFactor(1, 1)
    return split
