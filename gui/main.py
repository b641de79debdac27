"""The app's way in: one application, one window, one file to open."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from typing import cast

from PySide6 import __version__ as pyside_version
from PySide6.QtWidgets import QApplication

from gui.engine.session import Session
from gui.look.fonts import has_chinese
from gui.look.icons import icon
from gui.look.style import Choice, Look
from gui.look.theme import LIGHT
from gui.settings import Settings
from gui.signals import end_on_signals
from gui.window.window import MainWindow
from gui.words.language import Language
from netlab.model.errors import EXIT_DONE, MachineCannot
from netlab.model.text import Message, user_language

BAD_PAIR = Message(
    "gui.main.bad-pair",
    en="PySide6 {pyside} aborts with Python {python}: install another version, for example with "
    "pip install 'PySide6-Essentials!=6.12.0'",
    zh="PySide6 {pyside} 会在 Python {python} 下异常终止：请安装其他版本，"
    "例如 pip install 'PySide6-Essentials!=6.12.0'",
)
NO_CHINESE = Message(
    "gui.main.no-chinese",
    en="No installed font has Chinese characters: they will be boxes. On Debian: apt install fonts-wqy-microhei",
    zh="没有安装带中文字符的字体，中文将显示为方框 (Chinese text will be boxes)：请执行 apt install fonts-wqy-microhei",
)


def check_versions(pyside: str, python: tuple[int, int]) -> None:
    """Refuse the pair that loses references to None until the process aborts. Raises :class:`MachineCannot`."""
    if pyside == "6.12.0" and python < (3, 12):
        raise MachineCannot(BAD_PAIR(pyside=pyside, python=".".join(str(each) for each in python)))


def keep_collections_short() -> None:
    """What is loaded by now stays: looking through it for garbage, again and again, holds the window up."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)


def make_window(app: QApplication, settings: Settings) -> MainWindow:
    choice = settings.theme
    look = Look(app, cast("Choice", choice if choice in ("light", "dark") else "system"))
    language = Language(settings.language or user_language())
    window = MainWindow(Session(), look, language, settings)
    if not has_chinese():
        window.tell(NO_CHINESE())
    return window


def run_app(file: str | None = None, arguments: Sequence[str] = ()) -> int:
    """Show the window until it is closed. Raises :class:`MachineCannot`."""
    check_versions(pyside_version, sys.version_info[:2])
    keep_collections_short()
    app = QApplication(["kube-netlab", *arguments])
    app.setApplicationName("kube-netlab")
    app.setDesktopFileName("kube-netlab")
    app.setWindowIcon(icon("walk", LIGHT, LIGHT.accent))
    window = make_window(app, Settings())
    end_on_signals(window)
    window.show()
    if file is not None:
        window.open_file(file)
    app.exec()
    return EXIT_DONE
