"""The language that the app speaks, and texts that follow it when it changes.

All texts are :class:`~netlab.model.text.Message`, as in the rest of the product: English and Chinese stand side by
side, so that neither can be missing and a switch needs no catalogue. Qt's own texts come from Qt's catalogue.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QLibraryInfo, QObject, QTranslator, Signal
from PySide6.QtWidgets import QApplication
from shiboken6 import isValid

from netlab.model.text import Message, Text

LANGUAGES = {"en": "English", "zh": "简体中文"}


class Language(QObject):
    """The reader's language. ``changed`` is emitted when another one is chosen."""

    changed = Signal()

    def __init__(self, code: str = "en") -> None:
        super().__init__()
        self.code = "en"
        self._bound: list[Callable[[], None]] = []
        self._qt_texts: QTranslator | None = None
        self.choose(code)

    def choose(self, code: str) -> None:
        """Speak another language from now on; what is shown already changes too."""
        if code == self.code or code not in LANGUAGES:
            return
        self.code = code
        self._load_qt_texts()
        for update in self._bound:
            update()
        self.changed.emit()

    def say(self, text: Text | Message) -> str:
        return (text() if isinstance(text, Message) else text).in_language(self.code)

    def bind(self, owner: QObject, setter: Callable[[str], object], text: Text | Message) -> None:
        """Have ``setter`` called with the text, now and whenever the language changes, as long as ``owner`` lives."""

        def update() -> None:
            if isValid(owner):
                setter(self.say(text))

        self._bound.append(update)
        update()

    def _load_qt_texts(self) -> None:
        app = QApplication.instance()
        if app is None:
            return
        if self._qt_texts is not None:
            app.removeTranslator(self._qt_texts)
            self._qt_texts = None
        if self.code == "zh":
            translator = QTranslator(self)
            if translator.load("qtbase_zh_CN", QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath)):
                app.installTranslator(translator)
                self._qt_texts = translator
