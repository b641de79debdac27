"""The command palette: every command by a few letters of its name."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QAction, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QFrame, QLineEdit, QListWidget, QListWidgetItem, QVBoxLayout, QWidget

from gui.window.commands import Commands
from gui.words.language import Language
from netlab.model.text import Message

HINT = Message("gui.palette.hint", en="Type a command", zh="输入命令")
NAME = Message("gui.palette.name", en="Commands", zh="命令")
WIDTH, HEIGHT = 520, 340


class CommandPalette(QFrame):
    """Over the window, until a command is chosen or Escape is pressed."""

    def __init__(self, commands: Commands, language: Language, window: QWidget) -> None:
        super().__init__(window)
        self.commands, self.language = commands, language
        self.setObjectName("card")
        self.edit = QLineEdit()
        self.list = QListWidget()
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.list.setUniformItemSizes(True)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 8, 8, 8)
        layout.addWidget(self.edit)
        layout.addWidget(self.list)
        language.bind(self.edit, self.edit.setPlaceholderText, HINT)
        language.bind(self.edit, self.edit.setAccessibleName, HINT)
        language.bind(self.list, self.list.setAccessibleName, NAME)
        self.edit.textChanged.connect(self._filter)
        self.edit.returnPressed.connect(self._run)
        self.list.itemClicked.connect(self._run)
        self.edit.installEventFilter(self)
        self.hide()

    def open(self) -> None:
        parent = self.parentWidget()
        assert parent is not None
        width, height = min(WIDTH, parent.width() - 40), min(HEIGHT, parent.height() - 80)
        self.setGeometry((parent.width() - width) // 2, 60, width, height)
        self.edit.clear()
        self._filter("")
        self.show()
        self.raise_()
        self.edit.setFocus()

    def shown_titles(self) -> list[str]:
        return [self.list.item(row).text() for row in range(self.list.count())]

    def _filter(self, text: str) -> None:
        self.list.clear()
        wanted = text.casefold().split()
        for command, action in self.commands:
            title = action.text()
            searched = f"{title} {command.title.en}".casefold()
            if action.isEnabled() and all(word in searched for word in wanted):
                keys = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
                item = QListWidgetItem(action.icon(), f"{title}    {keys}" if keys else title)
                item.setData(Qt.ItemDataRole.UserRole, action)
                self.list.addItem(item)
        self.list.setCurrentRow(0)

    def _run(self, *_: object) -> None:
        item = self.list.currentItem()
        self.hide()
        action = item.data(Qt.ItemDataRole.UserRole) if item is not None else None
        if isinstance(action, QAction):
            action.trigger()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        if event.type() == QEvent.Type.FocusOut:
            self.hide()
        if event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            if event.key() == Qt.Key.Key_Escape:
                self.hide()
                return True
            moves = {Qt.Key.Key_Down: 1, Qt.Key.Key_Up: -1, Qt.Key.Key_PageDown: 8, Qt.Key.Key_PageUp: -8}
            move = moves.get(Qt.Key(event.key()))
            if move is not None and self.list.count():
                row = min(max(self.list.currentRow() + move, 0), self.list.count() - 1)
                self.list.setCurrentRow(row)
                return True
        return super().eventFilter(watched, event)
