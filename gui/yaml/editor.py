"""A plain editor for YAML: line numbers, colours, and lines that are marked."""

from __future__ import annotations

import re

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import (
    QColor,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QSyntaxHighlighter,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
)
from PySide6.QtWidgets import QPlainTextEdit, QTextEdit, QWidget

from gui.look.fonts import mono_font
from gui.look.style import Look

_KEY = re.compile(r"^\s*(?:- )?\s*([\w./-]+)(?=:(?:\s|$))|[{,]\s*([\w./-]+)(?=:\s)")
_COMMENT = re.compile(r"(?:^|\s)#.*$")
_VALUE = re.compile(r"(?<=[:\s\[{,])(?:\d[\w./:-]*|true|false|null)(?=[\s,\]}]|$)")
_DIVIDER = re.compile(r"^---.*$")
INDENT = 2
COLOURED = 60_000
"""Characters of a text that is still coloured."""


class YamlColours(QSyntaxHighlighter):
    def __init__(self, document: QTextDocument, look: Look) -> None:
        super().__init__(document)
        self.look = look
        look.changed.connect(self.rehighlight)

    def highlightBlock(self, text: str) -> None:  # noqa: N802
        theme = self.look.theme
        for match in _VALUE.finditer(text):
            self._colour(match.start(), match.end(), theme.destination)
        for match in _KEY.finditer(text):
            group = 1 if match.group(1) is not None else 2
            self._colour(match.start(group), match.end(group), theme.source)
        for pattern in (_COMMENT, _DIVIDER):
            for match in pattern.finditer(text):
                self._colour(match.start(), match.end(), theme.faint)

    def _colour(self, begin: int, end: int, colour: str) -> None:
        style = QTextCharFormat()
        style.setForeground(QColor(colour))
        self.setFormat(begin, end - begin, style)


class YamlEditor(QPlainTextEdit):
    """Undo and redo are the editor's own. ``mark`` lines: where a rule comes from, and where errors are."""

    def __init__(self, look: Look) -> None:
        super().__init__()
        self.look = look
        self._origin: int | None = None
        self._errors: list[int] = []
        self.setFont(mono_font())
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.margin = _Margin(self)
        self.colours = YamlColours(self.document(), look)
        self.blockCountChanged.connect(self._make_room)
        self.updateRequest.connect(self._update_margin)
        look.changed.connect(self._show_marks)
        self._make_room()

    def show_text(self, text: str) -> None:
        """Long texts without colours: these are worked out line by line, and the window would wait."""
        self.colours.setDocument(self.document() if len(text) <= COLOURED else None)
        self.setPlainText(text)

    def mark(self, *, origin: int | None = None, errors: list[int] | None = None) -> None:
        self._origin = origin
        self._errors = errors or []
        self._show_marks()

    def go_to_line(self, line: int) -> None:
        block = self.document().findBlockByNumber(max(0, line - 1))
        if block.isValid():
            self.setTextCursor(QTextCursor(block))
            self.centerCursor()

    def _show_marks(self) -> None:
        theme = self.look.theme
        lines = [(line, theme.changed_back) for line in ([self._origin] if self._origin is not None else [])]
        back = QColor(theme.refused)
        back.setAlpha(50)
        made = [self._line(line, QColor(colour)) for line, colour in lines]
        made += [self._line(line, back) for line in self._errors]
        self.setExtraSelections(made)
        self.margin.update()

    def _line(self, line: int, back: QColor) -> QTextEdit.ExtraSelection:
        selection = QTextEdit.ExtraSelection()
        selection.format.setBackground(back)
        selection.format.setProperty(QTextFormat.Property.FullWidthSelection, True)
        selection.cursor = QTextCursor(self.document().findBlockByNumber(line - 1))
        return selection

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Tab indents, and a new line begins where the one before did."""
        if event.key() == Qt.Key.Key_Tab and event.modifiers() == Qt.KeyboardModifier.NoModifier:
            self.insertPlainText(" " * INDENT)
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and not event.modifiers():
            text = self.textCursor().block().text()
            indent = len(text) - len(text.lstrip(" "))
            self.insertPlainText("\n" + " " * min(indent, self.textCursor().positionInBlock()))
        else:
            super().keyPressEvent(event)

    # Line numbers

    def margin_width(self) -> int:
        digits = max(3, len(str(self.blockCount())))
        return self.fontMetrics().horizontalAdvance("9") * digits + 22

    def _make_room(self) -> None:
        self.setViewportMargins(self.margin_width(), 0, 0, 0)

    def _update_margin(self, rect: QRect, moved: int) -> None:
        if moved:
            self.margin.scroll(0, moved)
        else:
            self.margin.update(0, rect.y(), self.margin.width(), rect.height())

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        area = self.contentsRect()
        self.margin.setGeometry(QRect(area.left(), area.top(), self.margin_width(), area.height()))

    def paint_margin(self, event: QPaintEvent) -> None:
        theme = self.look.theme
        painter = QPainter(self.margin)
        painter.fillRect(event.rect(), QColor(theme.surface))
        painter.setFont(self.font())
        block = self.firstVisibleBlock()
        top = self.blockBoundingGeometry(block).translated(self.contentOffset()).top()
        while block.isValid() and top <= event.rect().bottom():
            height = self.blockBoundingRect(block).height()
            line = block.blockNumber() + 1
            wrong = line in self._errors
            painter.setPen(QColor(theme.refused if wrong else theme.text if line == self._origin else theme.faint))
            text = f"✗ {line}" if wrong else str(line)
            rect = QRect(0, int(top), self.margin.width() - 10, int(height))
            painter.drawText(rect, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, text)
            top += height
            block = block.next()


class _Margin(QWidget):
    def __init__(self, editor: YamlEditor) -> None:
        super().__init__(editor)
        self.editor = editor

    def sizeHint(self) -> QSize:  # noqa: N802
        return QSize(self.editor.margin_width(), 0)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        self.editor.paint_margin(event)
