"""The table of a walk's steps, bound to the step that is shown."""

from __future__ import annotations

from PySide6.QtCore import (
    QAbstractTableModel,
    QItemSelectionModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QRectF,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from gui.look.fonts import mono_font
from gui.look.style import Look
from gui.walk.player import Player
from gui.words.language import Language
from netlab.model.story import Names, Row, action_text
from netlab.model.text import Message, Text
from netlab.model.walk import Step

COLUMNS = (
    Message("gui.steps.number", en="#", zh="#"),
    Message("gui.steps.where", en="Where", zh="位置"),
    Message("gui.steps.source", en="Source", zh="源地址"),
    Message("gui.steps.destination", en="Destination", zh="目标地址"),
    Message("gui.steps.what", en="What happened", zh="发生了什么"),
)
NUMBER, WHERE, SOURCE, DESTINATION, WHAT = range(5)
WIDTHS = {NUMBER: 52, WHERE: 150, SOURCE: 150, DESTINATION: 150}
WIDEST_WHERE = 230
NAME = Message("gui.steps.name", en="Steps of the walk", zh="旅程的步骤")
SENT = Message("gui.steps.sent", en="leaves", zh="离开")
RECEIVED = Message("gui.steps.received", en="arrives", zh="到达")
CHANGED_ROLE = Qt.ItemDataRole.UserRole + 1
ROW_HEIGHT = 24

Index = QModelIndex | QPersistentModelIndex


class StepModel(QAbstractTableModel):
    """Rows of a walk: the steps that matter, or all of them."""

    def __init__(self, language: Language, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.language = language
        self.rows: list[Row] = []
        self._names: Names | None = None
        language.changed.connect(self._reword)

    def show(self, rows: list[Row], names: Names | None) -> None:
        self.beginResetModel()
        self.rows, self._names = rows, names
        self.endResetModel()

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
        row = self.rows[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return self._words(row, index.column())
        if role == Qt.ItemDataRole.ToolTipRole and index.column() == WHAT:
            return "\n".join(self.language.say(told.text) for told in row.told) or self._words(row, WHAT)
        if role == CHANGED_ROLE:
            return (index.column() == SOURCE and "source" in row.step.changed) or (
                index.column() == DESTINATION and "destination" in row.step.changed
            )
        return None

    def _words(self, row: Row, column: int) -> str:
        step = row.step
        if column == NUMBER:
            return f"{step.n} {'→' if step.direction == 'request' else '←'}"
        if column == WHERE:
            return self._names.where(step) if self._names is not None else step.place
        if column == SOURCE:
            return step.source
        if column == DESTINATION:
            return step.destination
        return what_happened(row, self.language)

    def _reword(self) -> None:
        if self.rows:
            last = self.index(len(self.rows) - 1, len(COLUMNS) - 1)
            self.dataChanged.emit(self.index(0, 0), last)
        self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, len(COLUMNS) - 1)


def what_happened(row: Row, language: Language) -> str:
    """The action and the sentence that says most about it."""
    action = row.action if row.action is not None else _action(row.step)
    told = row.told[-1].text if row.told else row.step.reason
    words = [language.say(action)] if action is not None else []
    if told is not None:
        words.append(language.say(told))
    return " · ".join(words)


def _action(step: Step) -> Text | None:
    if step.hook is not None and step.action not in ("sent", "received"):
        return action_text(step)
    return None


class StepDelegate(QStyledItemDelegate):
    """Addresses in their colours; those that this step changed are marked by a bar and a sign too."""

    def __init__(self, look: Look, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.look = look
        self._mono = mono_font()

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:  # noqa: N802
        super().initStyleOption(option, index)
        if index.column() in (NUMBER, SOURCE, DESTINATION):
            option.font = self._mono
        option.state &= ~QStyle.StateFlag.State_HasFocus

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        theme = self.look.theme
        column = index.column()
        if column not in (SOURCE, DESTINATION):
            super().paint(painter, option, index)
            return
        rect = QRectF(option.rect)
        selected = option.state & QStyle.StateFlag.State_Selected
        if selected:
            painter.fillRect(rect, QColor(theme.selection))
        changed = bool(index.data(CHANGED_ROLE))
        font = QFont(self._mono)
        if changed:
            font.setBold(True)
            painter.fillRect(rect.adjusted(2, 2, -2, -2), QColor(theme.changed_back))
            painter.fillRect(QRectF(rect.left() + 2, rect.top() + 2, 3, rect.height() - 4), QColor(theme.changed))
        painter.setFont(font)
        painter.setPen(QColor(theme.source if column == SOURCE else theme.destination))
        text = ("» " if changed else "") + str(index.data())
        painter.drawText(rect.adjusted(10 if changed else 6, 0, -4, 0), Qt.AlignmentFlag.AlignVCenter, text)


class StepTable(QTableView):
    """Selecting a row shows its step everywhere; the step that is shown is the selected row."""

    chosen = Signal(int)

    def __init__(self, player: Player, look: Look, language: Language, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.player = player
        self.all_steps = False
        self._following = False
        self.steps = StepModel(language, self)
        self.setModel(self.steps)
        self.setItemDelegate(StepDelegate(look, self))
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.verticalHeader().hide()
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.verticalHeader().setDefaultSectionSize(ROW_HEIGHT)
        self.horizontalHeader().setStretchLastSection(True)
        self.horizontalHeader().setHighlightSections(False)
        for column, width in WIDTHS.items():
            self.setColumnWidth(column, width)
        self.setTabKeyNavigation(False)
        language.bind(self, self.setAccessibleName, NAME)
        player.walk_changed.connect(self._show_walk)
        player.step_changed.connect(self._follow)
        look.changed.connect(self.viewport().update)
        self.selectionModel().currentRowChanged.connect(self._selected)
        self._show_walk()

    def show_all(self, every: bool) -> None:
        """All steps, or those that matter."""
        if every != self.all_steps:
            self.all_steps = every
            self._show_walk()

    def text(self) -> str:
        """The whole table, to be pasted somewhere."""
        rows = range(self.steps.rowCount())
        columns = range(self.steps.columnCount())
        lines = [[str(self.steps.headerData(each, Qt.Orientation.Horizontal)) for each in columns]]
        lines += [[str(self.steps.index(row, column).data()) for column in columns] for row in rows]
        return "\n".join("\t".join(line) for line in lines)

    def _show_walk(self) -> None:
        walk = self.player.walk
        rows = [] if walk is None else [Row(step) for step in walk.steps] if self.all_steps else self.player.rows
        self._following = True
        self.steps.show(rows, Names(walk) if walk is not None else None)
        self._following = False
        self._fit_columns()
        self._follow()

    def _fit_columns(self) -> None:
        """Addresses line up and are never cut, however long they are."""
        if self.player.walk is None:
            return
        metrics = QFontMetrics(mono_font(bold=True))
        for column in (SOURCE, DESTINATION):
            texts = [str(self.steps.index(row, column).data()) for row in range(self.steps.rowCount())]
            widest = max((metrics.horizontalAdvance(f"» {text}") for text in texts), default=0)
            self.setColumnWidth(column, max(WIDTHS[column], widest + 20))
        metrics = self.fontMetrics()
        texts = [str(self.steps.index(row, WHERE).data()) for row in range(self.steps.rowCount())]
        widest = max((metrics.horizontalAdvance(text) for text in texts), default=0)
        self.setColumnWidth(WHERE, min(max(WIDTHS[WHERE], widest + 22), WIDEST_WHERE))

    def _follow(self) -> None:
        step = self.player.step
        if step is None or not self.steps.rows:
            return
        at = max((number for number, row in enumerate(self.steps.rows) if row.step.n <= step.n), default=0)
        index = self.steps.index(at, 0)
        if index.row() != self.currentIndex().row():
            self._following = True
            flags = QItemSelectionModel.SelectionFlag.ClearAndSelect | QItemSelectionModel.SelectionFlag.Rows
            self.selectionModel().setCurrentIndex(index, flags)
            self.scrollTo(index)
            self._following = False

    def _selected(self, current: QModelIndex) -> None:
        if not self._following and current.isValid():
            self.player.go_to_number(self.steps.rows[current.row()].step.n)
