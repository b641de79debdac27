"""The frames of a walk in three panes: list, fields, bytes. One clock for all interfaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt
from PySide6.QtGui import QColor
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QHeaderView,
    QLineEdit,
    QSplitter,
    QTableView,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from gui.look.fonts import mono_font
from gui.look.style import Look
from gui.values.dissect import addresses, summary
from gui.values.moment import FrameSeen, frames
from gui.walk.frame import FrameView
from gui.walk.player import Player
from gui.words.language import Language
from netlab.model.text import Message

COLUMNS = (
    Message("gui.frames.number", en="#", zh="#"),
    Message("gui.frames.time", en="Time", zh="时间"),
    Message("gui.frames.interface", en="Interface", zh="接口"),
    Message("gui.frames.way", en="Direction", zh="方向"),
    Message("gui.frames.source", en="Source", zh="源地址"),
    Message("gui.frames.destination", en="Destination", zh="目标地址"),
    Message("gui.frames.info", en="Info", zh="信息"),
)
NUMBER, TIME, INTERFACE, WAY, SOURCE, DESTINATION, INFO = range(7)
IN = Message("gui.frames.in", en="in", zh="入")
OUT = Message("gui.frames.out", en="out", zh="出")
NAME = Message("gui.frames.name", en="Frames of the walk", zh="旅程中的帧")
FILTER = Message(
    "gui.frames.filter",
    en="Show only: words of any column, for example node-a out syn",
    zh="筛选：任意列中的词，例如 node-a 出 syn",
)
ROW_HEIGHT = 22
WIDTHS = {NUMBER: 36, TIME: 80, INTERFACE: 136, WAY: 62, SOURCE: 112, DESTINATION: 112}

Index = QModelIndex | QPersistentModelIndex


@dataclass
class FrameRow:
    """A frame; its bytes are read when the row comes into sight, or when a filter asks."""

    number: int
    seen: FrameSeen
    time_us: float

    @cached_property
    def _addresses(self) -> tuple[str, str, str]:
        return addresses(self.seen.data)

    @property
    def source(self) -> str:
        return self._addresses[0]

    @property
    def destination(self) -> str:
        return self._addresses[1]

    @cached_property
    def info(self) -> str:
        return summary(self.seen.data)

    def matches(self, words: list[str]) -> bool:
        seen = self.seen
        ways = "in 入" if seen.direction == "in" else "out 出"
        text = f"{seen.place}/{seen.interface} {ways} {self.source} {self.destination} {self.info}".casefold()
        return all(word in text for word in words)


def rows_of(seen: Sequence[FrameSeen]) -> list[FrameRow]:
    """Rows for frames that are in the order of their times."""
    begin = seen[0].time_ns if seen else 0
    return [FrameRow(number, each, (each.time_ns - begin) / 1000) for number, each in enumerate(seen, 1)]


class FrameModel(QAbstractTableModel):
    """A window on a list: which rows are shown is a list of their numbers."""

    def __init__(self, look: Look, language: Language, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.look, self.language = look, language
        self._all: list[FrameRow] = []
        self.rows: list[FrameRow] = []
        self._mono = mono_font(11)

    def show(self, rows: list[FrameRow], wanted: str) -> None:
        self.beginResetModel()
        self._all = rows
        words = wanted.casefold().split()
        self.rows = [row for row in rows if row.matches(words)] if words else rows
        self.endResetModel()

    def filter(self, wanted: str) -> None:
        self.show(self._all, wanted)

    def rowCount(self, parent: Index | None = None) -> int:  # noqa: N802
        return 0 if parent is not None and parent.isValid() else len(self.rows)

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
        column, row = index.column(), self.rows[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return self._words(row, column)
        if role == Qt.ItemDataRole.FontRole:
            return self._mono
        if role == Qt.ItemDataRole.ForegroundRole and column in (SOURCE, DESTINATION):
            theme = self.look.theme
            return QColor(theme.source if column == SOURCE else theme.destination)
        return None

    def _words(self, row: FrameRow, column: int) -> str:
        seen = row.seen
        if column == WAY:
            return f"→ {self.language.say(IN)}" if seen.direction == "in" else f"← {self.language.say(OUT)}"
        texts = {
            NUMBER: str(row.number),
            TIME: f"{row.time_us / 1000:.3f} ms",
            INTERFACE: f"{seen.place.rpartition('/')[2]}/{seen.interface}",
            SOURCE: row.source,
            DESTINATION: row.destination,
            INFO: row.info,
        }
        return texts[column]


class FramesView(QWidget):
    """Follows the walk; the frame of the step that is shown is the selected one."""

    def __init__(self, player: Player, look: Look, language: Language, export: QToolButton) -> None:
        super().__init__()
        self.player = player
        self._following = False
        self.frames = FrameModel(look, language, self)
        self.table = QTableView()
        self.table.setModel(self.frames)
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
        self.filter = QLineEdit()
        self.filter.setClearButtonEnabled(True)
        self.filter.textChanged.connect(self._filter)
        self.frame = FrameView(look, language, beside=True)
        language.bind(self.table, self.table.setAccessibleName, NAME)
        language.bind(self.filter, self.filter.setPlaceholderText, FILTER)
        language.bind(self.filter, self.filter.setAccessibleName, FILTER)
        row = QHBoxLayout()
        row.setContentsMargins(6, 6, 6, 0)
        row.addWidget(self.filter, 1)
        row.addWidget(export)
        left = QWidget()
        column = QVBoxLayout(left)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        column.addLayout(row)
        column.addWidget(self.table, 1)
        split = QSplitter()
        split.addWidget(left)
        split.addWidget(self.frame)
        split.setSizes([600, 300])
        split.setChildrenCollapsible(False)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(split)
        self.table.selectionModel().currentRowChanged.connect(self._selected)
        player.walk_changed.connect(self._show_walk)
        player.step_changed.connect(self._follow)
        look.changed.connect(self.table.viewport().update)
        language.changed.connect(self.table.viewport().update)

    def _show_walk(self) -> None:
        walk = self.player.walk
        self.frames.show(rows_of(frames(walk)) if walk is not None else [], self.filter.text())
        self.frame.show_frame(None)
        self._follow()

    def _filter(self, text: str) -> None:
        self.frames.filter(text)
        self._follow()

    def _follow(self) -> None:
        step = self.player.step
        wanted = next((name for name in step.evidence if name.startswith("frame:")), None) if step is not None else None
        at = next((number for number, row in enumerate(self.frames.rows) if row.seen.id == wanted), None)
        if at is not None:
            self._following = True
            self.table.selectRow(at)
            self._following = False

    def _selected(self, current: QModelIndex) -> None:
        if not current.isValid():
            return
        seen = self.frames.rows[current.row()].seen
        self.frame.show_frame(seen.data)
        walk = self.player.walk
        if not self._following and walk is not None:
            index = next((at for at, step in enumerate(walk.steps) if seen.id in step.evidence), None)
            if index is not None:
                self.player.go_to(index)
