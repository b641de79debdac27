"""The lab's file with its objects beside it: change it, and build the lab anew with the change."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from gui.engine.session import Session, State
from gui.look.style import Look
from gui.values.outline import lines_named, outline
from gui.values.sources import text_of
from gui.words.language import Language
from gui.yaml.editor import YamlEditor
from netlab.model.text import Message

OBJECTS = Message("gui.yaml.objects", en="Objects", zh="对象")
EDITOR = Message("gui.yaml.editor", en="Lab file", zh="实验文件")
APPLY = Message("gui.yaml.apply", en="Apply and send again", zh="应用并重新发送")
REVERT = Message("gui.yaml.revert", en="Revert", zh="还原")
CHANGED = Message(
    "gui.yaml.changed",
    en="● changed here, not in the file: Apply builds the lab anew with it",
    zh="● 仅在此处更改，未写入文件：点击“应用”将以新内容重新建立实验",
)
FILE = Message("gui.yaml.file", en="{file}", zh="{file}")
NO_FILE = Message(
    "gui.yaml.no-file", en="The file of a running lab is shown here.", zh="这里显示正在运行的实验的文件。"
)
TOO_LONG = Message(
    "gui.yaml.too-long",
    en="{file} is too long to be edited here; the lab is made of it all the same.",
    zh="{file} 过长，无法在此编辑；实验仍会据此建立。",
)
LONGEST = 600_000
LINE_ROLE = Qt.ItemDataRole.UserRole + 1
QUIET_MS = 250


class YamlView(QWidget):
    """``applied`` with name and contents of the changed file."""

    applied = Signal(str, bytes)

    def __init__(self, session: Session, look: Look, language: Language) -> None:
        super().__init__()
        self.session, self.language = session, language
        self._file: str | None = None
        self._original = ""
        self._too_long = False
        self.editor = YamlEditor(look)
        self.objects = QListWidget()
        self.state = QLabel()
        self.state.setObjectName("muted")
        self.apply = QPushButton()
        self.apply.setObjectName("primary")
        self.revert = QPushButton()
        row = QHBoxLayout()
        row.addWidget(self.state, 1)
        row.addWidget(self.revert)
        row.addWidget(self.apply)
        split = QSplitter()
        split.addWidget(self.objects)
        split.addWidget(self.editor)
        split.setSizes([180, 700])
        split.setChildrenCollapsible(False)
        column = QVBoxLayout(self)
        column.setContentsMargins(10, 10, 10, 6)
        column.addLayout(row)
        column.addWidget(split, 1)
        language.bind(self.objects, self.objects.setAccessibleName, OBJECTS)
        language.bind(self.editor, self.editor.setAccessibleName, EDITOR)
        language.bind(self.apply, self.apply.setText, APPLY)
        language.bind(self.revert, self.revert.setText, REVERT)
        # Outlining parses the whole file: when typing rests.
        self._rest = QTimer(self)
        self._rest.setSingleShot(True)
        self._rest.setInterval(QUIET_MS)
        self._rest.timeout.connect(self._outline)
        self.editor.textChanged.connect(self._text_changed)
        self.objects.itemActivated.connect(self._go_to)
        self.objects.itemClicked.connect(self._go_to)
        self.apply.clicked.connect(self._apply)
        self.revert.clicked.connect(self._revert)
        session.state_changed.connect(self._follow)
        language.changed.connect(self._dress)
        self._follow()

    @property
    def changed(self) -> bool:
        return self._file is not None and not self._too_long and self.editor.toPlainText() != self._original

    def show_line(self, file: str, line: int) -> bool:
        """Where a rule comes from; false where the file is not at hand."""
        if file != self._file:
            return False
        self.editor.mark(origin=line)
        self.editor.go_to_line(line)
        return True

    def _follow(self) -> None:
        sources = self.session.sources
        file = sources[0][0] if sources else None
        text = (text_of(sources, file) or "") if file is not None else ""
        new = file != self._file or text != self._original
        if file != self._file or (new and text != self.editor.toPlainText()):
            self._file, self._original = file, text
            self._too_long = len(text) > LONGEST
            self.editor.show_text("" if self._too_long else text)
            self.editor.mark()
            self._outline()
        else:
            self._original = text
        self._mark_errors()
        self._dress()

    def _mark_errors(self) -> None:
        error = self.session.error
        if self.session.state is State.FAILED and error is not None and self._file is not None:
            lines = lines_named(error.en, self._file)
            self.editor.mark(errors=lines)
            if lines:
                self.editor.go_to_line(lines[0])

    def _text_changed(self) -> None:
        self._rest.start()
        self._dress()

    def _outline(self) -> None:
        self.objects.clear()
        for entry in outline(self.editor.toPlainText()):
            item = QListWidgetItem(f"{entry.kind} {entry.name}".strip())
            item.setData(LINE_ROLE, entry.line)
            self.objects.addItem(item)

    def _go_to(self, item: QListWidgetItem) -> None:
        self.editor.go_to_line(int(item.data(LINE_ROLE)))

    def _apply(self) -> None:
        if self._file is not None:
            self.editor.mark()
            self.applied.emit(self._file, self.editor.toPlainText().encode())

    def _revert(self) -> None:
        cursor = self.editor.textCursor()
        cursor.select(cursor.SelectionType.Document)
        cursor.insertText(self._original)

    def _dress(self) -> None:
        self.editor.setReadOnly(self._file is None or self._too_long)
        self.apply.setEnabled(
            self._file is not None and not self._too_long and self.session.state is not State.STARTING
        )
        self.revert.setEnabled(self.changed)
        if self._file is None:
            self.state.setText(self.language.say(NO_FILE))
        elif self._too_long:
            self.state.setText(self.language.say(TOO_LONG(file=self._file)))
        else:
            self.state.setText(self.language.say(CHANGED if self.changed else FILE(file=self._file)))
