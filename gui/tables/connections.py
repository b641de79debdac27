"""The conntrack table of a node: what it holds now, the walk's own entry marked, and entries to delete."""

from __future__ import annotations

from typing import Any

import msgspec
from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt
from PySide6.QtGui import QColor, QShowEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QComboBox,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QPushButton,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from gui.engine.session import Session, State
from gui.look.fonts import mono_font
from gui.look.icons import icon
from gui.look.style import Look
from gui.walk.player import Player
from gui.words.language import Language
from netlab.model.records import ConntrackRecord, Tuple
from netlab.model.text import Message, Text
from netlab.model.walk import endpoint_text

COLUMNS = (
    Message("gui.connections.protocol", en="Protocol", zh="协议"),
    Message("gui.connections.source", en="Original source", zh="原始源地址"),
    Message("gui.connections.destination", en="Original destination", zh="原始目标地址"),
    Message("gui.connections.reply-source", en="Reply source", zh="应答源地址"),
    Message("gui.connections.reply-destination", en="Reply destination", zh="应答目标地址"),
    Message("gui.connections.status", en="Status", zh="状态"),
)
PROTOCOL, SOURCE, DESTINATION, REPLY_SOURCE, REPLY_DESTINATION, STATUS = range(6)
NODE = Message("gui.connections.node", en="Node", zh="节点")
NAME = Message("gui.connections.name", en="Connection tracking table", zh="连接跟踪表")
DELETE = Message("gui.connections.delete", en="Delete the entry", zh="删除条目")
RELOAD = Message("gui.connections.reload", en="Read again", zh="重新读取")
ABOUT = Message(
    "gui.connections.about",
    en="● the walk's connection. Its entry is what undoes the rewriting of the answers; delete it and see.",
    zh="● 旅程所属的连接。应答的地址正是依据该条目还原的；可以删除它看看。",
)
NUMBERS = {1: "icmp", 2: "igmp", 6: "tcp", 17: "udp", 58: "icmpv6", 132: "sctp"}
ROW_HEIGHT = 22
WIDTHS = {PROTOCOL: 80, SOURCE: 160, DESTINATION: 160, REPLY_SOURCE: 160, REPLY_DESTINATION: 170}

Index = QModelIndex | QPersistentModelIndex


class ConnectionModel(QAbstractTableModel):
    """``own``: the original pairs of the walk's connections."""

    def __init__(self, look: Look, language: Language, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.look, self.language = look, language
        self.entries: list[ConntrackRecord] = []
        self.own: set[tuple[str, str]] = set()
        self._mono = mono_font(11)

    def show(self, entries: list[ConntrackRecord], own: set[tuple[str, str]]) -> None:
        self.beginResetModel()
        self.own = own
        self.entries = sorted(entries, key=lambda each: (_original(each) not in own, each.protocol, each.entry))
        self.endResetModel()

    def rowCount(self, parent: Index | None = None) -> int:  # noqa: N802
        return 0 if parent is not None and parent.isValid() else len(self.entries)

    def columnCount(self, parent: Index | None = None) -> int:  # noqa: N802
        return 0 if parent is not None and parent.isValid() else len(COLUMNS)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> object:  # noqa: N802
        if role == Qt.ItemDataRole.DisplayRole and orientation == Qt.Orientation.Horizontal:
            return self.language.say(COLUMNS[section])
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        if not index.isValid():
            return None
        entry, column = self.entries[index.row()], index.column()
        if role == Qt.ItemDataRole.DisplayRole:
            return self._words(entry, column)
        if role == Qt.ItemDataRole.FontRole:
            return self._mono
        if role == Qt.ItemDataRole.ForegroundRole:
            theme = self.look.theme
            if column in (SOURCE, REPLY_SOURCE):
                return QColor(theme.source)
            if column in (DESTINATION, REPLY_DESTINATION):
                return QColor(theme.destination)
        return None

    def _words(self, entry: ConntrackRecord, column: int) -> str:
        if column == PROTOCOL:
            mark = "● " if _original(entry) in self.own else "  "
            return mark + NUMBERS.get(entry.protocol, str(entry.protocol))
        if column == STATUS:
            return " ".join(entry.status)
        pair = entry.original if column in (SOURCE, DESTINATION) else entry.reply
        source, destination = _ends(pair)
        return source if column in (SOURCE, REPLY_SOURCE) else destination


def _ends(pair: Tuple) -> tuple[str, str]:
    return endpoint_text(pair.source, pair.source_port), endpoint_text(pair.destination, pair.destination_port)


def _original(entry: ConntrackRecord) -> tuple[str, str]:
    return _ends(entry.original)


class ConnectionsView(QWidget):
    """Read when it is shown, after each walk, and on demand."""

    def __init__(self, session: Session, player: Player, look: Look, language: Language) -> None:
        super().__init__()
        self.session, self.player, self.look, self.language = session, player, look, language
        self.entries = ConnectionModel(look, language, self)
        self.node = QComboBox()
        self.reload, self.delete = QPushButton(), QPushButton()
        self.about = QLabel()
        self.about.setObjectName("muted")
        self.about.setWordWrap(True)
        self.table = QTableView()
        self.table.setModel(self.entries)
        self.table.setShowGrid(False)
        self.table.setWordWrap(False)
        self.table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.table.setTabKeyNavigation(False)
        self.table.verticalHeader().hide()
        self.table.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.table.verticalHeader().setDefaultSectionSize(ROW_HEIGHT)
        self.table.horizontalHeader().setStretchLastSection(True)
        self.table.horizontalHeader().setHighlightSections(False)
        for number, width in WIDTHS.items():
            self.table.setColumnWidth(number, width)
        bind = language.bind
        bind(self.node, self.node.setAccessibleName, NODE)
        bind(self.table, self.table.setAccessibleName, NAME)
        bind(self.delete, self.delete.setText, DELETE)
        bind(self.reload, self.reload.setText, RELOAD)
        bind(self.about, self.about.setText, ABOUT)
        row = QHBoxLayout()
        row.setContentsMargins(6, 6, 6, 0)
        for widget in (self.node, self.reload, self.delete):
            row.addWidget(widget)
        row.addWidget(self.about, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        column.addLayout(row)
        column.addWidget(self.table, 1)
        self.node.activated.connect(self.refresh)
        self.reload.clicked.connect(self.refresh)
        self.delete.clicked.connect(self.delete_selected)
        self.table.selectionModel().currentRowChanged.connect(self._enable)
        session.picture_changed.connect(self._offer_nodes)
        session.state_changed.connect(self._offer_nodes)
        player.walk_changed.connect(self._other_walk)
        look.changed.connect(self._dress)
        self._dress()
        self._enable()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        super().showEvent(event)
        self.refresh()

    def refresh(self) -> None:
        node = self.node.currentText()
        if node and self.session.state is State.READY:
            self.session.ask("conntrack.list", {"node": node}, self._have, self._failed)

    def delete_selected(self) -> None:
        at = self.table.currentIndex().row()
        if 0 <= at < len(self.entries.entries):
            params = {"node": self.node.currentText(), "entry": self.entries.entries[at].entry}
            self.session.ask("conntrack.delete", params, lambda _: self.refresh(), self._failed)

    def _have(self, answer: Any) -> None:
        walk, node = self.player.walk, self.node.currentText()
        own = {
            (entry.original.source, entry.original.destination)
            for entry in (walk.conntrack if walk is not None else ())
            if entry.node == node
        }
        self.entries.show(msgspec.convert(answer, list[ConntrackRecord]), own)
        self._enable()

    def _failed(self, reason: Text) -> None:
        self.entries.show([], set())
        self.about.setText(self.language.say(reason))

    def _offer_nodes(self) -> None:
        names = [node.name for node in self.session.picture.nodes] if self.session.state is State.READY else []
        if names != [self.node.itemText(at) for at in range(self.node.count())]:
            self.node.clear()
            self.node.addItems(names)
            self.entries.show([], set())
        self._enable()

    def _other_walk(self) -> None:
        walk = self.player.walk
        translating = [entry.node for entry in walk.conntrack if "DNAT" in entry.status] if walk is not None else []
        if translating and self.node.findText(translating[0]) >= 0:
            self.node.setCurrentText(translating[0])
        if self.isVisible():
            self.refresh()

    def _enable(self) -> None:
        ready = self.session.state is State.READY
        self.node.setEnabled(ready)
        self.reload.setEnabled(ready)
        self.delete.setEnabled(ready and self.table.currentIndex().isValid())

    def _dress(self) -> None:
        self.delete.setIcon(icon("delete", self.look.theme))
        self.reload.setIcon(icon("restart", self.look.theme))
        self.table.viewport().update()
