"""One frame: its fields as a tree, its bytes beside it, and what belongs together marked in both."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtGui import QColor, QStandardItem, QStandardItemModel, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import (
    QAbstractItemView,
    QPlainTextEdit,
    QSplitter,
    QTextEdit,
    QTreeView,
    QVBoxLayout,
    QWidget,
)

from gui.look.fonts import mono_font
from gui.look.style import Look
from gui.values.dissect import Field, dissect
from gui.words.language import Language
from netlab.model.text import Message

PER_LINE = 8
RANGE_ROLE = Qt.ItemDataRole.UserRole + 1
ROLE_ROLE = Qt.ItemDataRole.UserRole + 2
FIELDS = Message("gui.frame.fields", en="Fields of the frame", zh="帧的字段")
BYTES = Message("gui.frame.bytes", en="Bytes of the frame", zh="帧的字节")


class HexView(QPlainTextEdit):
    """Offsets, bytes and characters, with a range marked."""

    def __init__(self, look: Look, per_line: int = PER_LINE) -> None:
        super().__init__()
        self.look, self.per_line = look, per_line
        self._data = b""
        self._addresses: list[tuple[int, int, str]] = []
        self._marked = (0, 0)
        self.setReadOnly(True)
        self.setFont(mono_font(11))
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.setTabChangesFocus(True)
        look.changed.connect(self._colour)

    def show_bytes(self, data: bytes, addresses: list[tuple[int, int, str]]) -> None:
        """``addresses``: begin, end and role of what is coloured throughout."""
        self._data, self._addresses, self._marked = data, addresses, (0, 0)
        self.setPlainText("\n".join(self._line(at) for at in range(0, len(data), self.per_line)))
        self._colour()

    def mark(self, begin: int, end: int) -> None:
        self._marked = (begin, end)
        self._colour()

    def _line(self, at: int) -> str:
        piece = self._data[at : at + self.per_line]
        shown = " ".join(f"{byte:02x}" for byte in piece).ljust(3 * self.per_line - 1)
        letters = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in piece)
        return f"{at:04x}  {shown}  {letters}"

    def _colour(self) -> None:
        theme = self.look.theme
        selections: list[QTextEdit.ExtraSelection] = []
        for begin, end, role in self._addresses:
            ink = theme.source if role == "source" else theme.destination
            selections += self._selections(begin, end, ink=ink)
        selections += self._selections(*self._marked, back=theme.changed_back)
        self.setExtraSelections(selections)

    def _selections(
        self, begin: int, end: int, *, ink: str | None = None, back: str | None = None
    ) -> list[QTextEdit.ExtraSelection]:
        """One for each line that the range touches."""
        made: list[QTextEdit.ExtraSelection] = []
        style = QTextCharFormat()
        if ink is not None:
            style.setForeground(QColor(ink))
            style.setFontWeight(700)
        if back is not None:
            style.setBackground(QColor(back))
        end = min(end, len(self._data))
        at = begin
        while at < end:
            line, column = divmod(at, self.per_line)
            last = min(end, (line + 1) * self.per_line)
            block = self.document().findBlockByNumber(line)
            cursor = QTextCursor(block)
            cursor.setPosition(block.position() + 6 + 3 * column)
            width = 3 * (last - at) - 1
            cursor.setPosition(cursor.position() + width, QTextCursor.MoveMode.KeepAnchor)
            selection = QTextEdit.ExtraSelection()
            selection.cursor = cursor
            selection.format = style
            made.append(selection)
            at = last
        return made


class FrameView(QWidget):
    """Tree and bytes of one frame; ``beside`` puts them next to each other instead of one below the other."""

    def __init__(self, look: Look, language: Language, *, beside: bool = False) -> None:
        super().__init__()
        self.look = look
        self._data: bytes | None = None
        self.tree = QTreeView()
        self.fields = QStandardItemModel(self)
        self.tree.setModel(self.fields)
        self.tree.setHeaderHidden(True)
        self.tree.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.tree.setUniformRowHeights(True)
        self.tree.setIndentation(14)
        self.bytes = HexView(look)
        language.bind(self.tree, self.tree.setAccessibleName, FIELDS)
        language.bind(self.bytes, self.bytes.setAccessibleName, BYTES)
        split = QSplitter(Qt.Orientation.Horizontal if beside else Qt.Orientation.Vertical)
        split.addWidget(self.tree)
        split.addWidget(self.bytes)
        split.setChildrenCollapsible(False)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(split)
        self.tree.selectionModel().currentChanged.connect(self._mark)
        look.changed.connect(self._again)

    def show_frame(self, data: bytes | None) -> None:
        if data == self._data:
            return
        self._data = data
        self._fill()

    def _again(self) -> None:
        self._fill()

    def _fill(self) -> None:
        self.fields.clear()
        if self._data is None:
            self.bytes.show_bytes(b"", [])
            return
        layers = dissect(self._data)
        for layer in layers:
            self.fields.appendRow(self._row(layer))
        for row in range(self.fields.rowCount()):
            name = self.fields.item(row).data(Qt.ItemDataRole.UserRole)
            self.tree.setExpanded(self.fields.index(row, 0), name in ("IPv4", "IPv6", "TCP", "UDP", "SCTP", "ICMP"))
        coloured = [(each.begin, each.end, each.role) for layer in layers for each in layer.fields if each.role]
        self.bytes.show_bytes(self._data, coloured)

    def _row(self, field: Field) -> QStandardItem:
        text = f"{field.name}: {field.value}" if field.value else field.name
        item = QStandardItem(text)
        item.setData(field.name, Qt.ItemDataRole.UserRole)
        item.setData((field.begin, field.end), RANGE_ROLE)
        item.setFont(mono_font(11, bold=bool(field.fields)))
        if field.role:
            theme = self.look.theme
            item.setForeground(QColor(theme.source if field.role == "source" else theme.destination))
        for inner in field.fields:
            item.appendRow(self._row(inner))
        return item

    def _mark(self, current: QModelIndex) -> None:
        span = current.data(RANGE_ROLE)
        if span is not None:
            self.bytes.mark(*span)
