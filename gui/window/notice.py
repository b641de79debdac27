"""A bar that says in place what went wrong, and offers what can be done about it."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QSizePolicy, QWidget

from gui.look.icons import icon, pixmap
from gui.look.style import Look
from gui.words.language import Language
from netlab.model.text import Message, Text

CLOSE = Message("gui.notice.close", en="Close this message", zh="关闭此消息")


class Notice(QWidget):
    """Hidden until there is something to say. ``acted`` when its button is pressed."""

    acted = Signal()

    def __init__(self, look: Look, language: Language) -> None:
        super().__init__()
        self.look, self.language = look, language
        self._text: Text | None = None
        self._button: Message | None = None
        row = QHBoxLayout(self)
        row.setContentsMargins(14, 6, 6, 6)
        row.setSpacing(10)
        self.icon = QLabel()
        self.words = QLabel()
        self.words.setWordWrap(True)
        self.words.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.words.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.button = QPushButton()
        self.button.clicked.connect(self.acted)
        self.shut = QPushButton()
        self.shut.setObjectName("link")
        self.shut.setFixedWidth(28)
        self.shut.clicked.connect(self.clear)
        language.bind(self.shut, self.shut.setAccessibleName, CLOSE)
        language.bind(self.shut, self.shut.setToolTip, CLOSE)
        row.addWidget(self.icon)
        row.addWidget(self.words, 1)
        row.addWidget(self.button)
        row.addWidget(self.shut)
        for signal in (look.changed, language.changed):
            signal.connect(self._dress)
        self.clear()

    def tell(self, text: Text, button: Message | None = None) -> None:
        self._text, self._button = text, button
        self._dress()
        self.show()

    def clear(self) -> None:
        self._text = self._button = None
        self.hide()

    def _dress(self) -> None:
        theme = self.look.theme
        self.icon.setPixmap(pixmap("warning", theme.refused, 18))
        self.shut.setIcon(icon("close", theme))
        text = self.language.say(self._text) if self._text is not None else ""
        self.words.setText(text[:1].upper() + text[1:])
        self.words.setTextFormat(Qt.TextFormat.PlainText)
        self.button.setVisible(self._button is not None)
        if self._button is not None:
            self.button.setText(self.language.say(self._button))

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        colour = QColor(self.look.theme.refused)
        tint = QColor(colour)
        tint.setAlpha(30)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(tint)
        painter.drawRoundedRect(self.rect(), 8, 8)
        painter.setBrush(colour)
        painter.drawRoundedRect(0, 0, 4, self.height(), 2, 2)
