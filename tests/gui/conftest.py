"""Qt without a screen, settings of each test's own, and windows that are gone when a test ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import pytest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot
from shiboken6 import isValid

from gui.engine.session import Session
from gui.look.style import Look
from gui.settings import Settings
from gui.walk.player import Player
from gui.window.window import MainWindow
from gui.words.language import Language
from netlab.model.walk import Walk
from tests.gui.fake_link import FakeLink
from tests.gui.recorded import walk


@pytest.fixture(scope="session")
def qapp_args() -> list[str]:
    return ["kube-netlab"]


@pytest.fixture
def look(qapp: QApplication) -> Look:
    return Look(qapp, "light")


@pytest.fixture
def language(qapp: QApplication) -> Iterator[Language]:
    language = Language("en")
    yield language
    language.choose("en")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(tmp_path / "app.ini")


@pytest.fixture
def player(qapp: QApplication) -> Iterator[Player]:
    player = Player()
    yield player
    player.pause()


@pytest.fixture
def far() -> Walk:
    """From the client by way of node-a to a Pod on node-b, and back."""
    return walk("far")


@pytest.fixture
def links() -> list[FakeLink]:
    """The links that a window with a fake engine has made, in their order."""
    return []


@pytest.fixture
def make_window(
    qtbot: QtBot, look: Look, language: Language, settings: Settings
) -> Iterator[Callable[[Session], MainWindow]]:
    """Makes main windows that are closed, with their engines, at the end."""
    made: list[MainWindow] = []

    def make(session: Session) -> MainWindow:
        window = MainWindow(session, look, language, settings)
        qtbot.addWidget(window)
        window.resize(1280, 800)
        window.show()
        made.append(window)
        return window

    yield make
    for window in made:
        if isValid(window):
            window.close()


@pytest.fixture
def window(make_window: Callable[[Session], MainWindow], links: list[FakeLink]) -> MainWindow:
    """A window whose engine is a recording."""

    def make_link(*, in_microvm: bool = False) -> FakeLink:
        links.append(FakeLink())
        return links[-1]

    return make_window(Session(make_link=make_link))


def shown(widget: QWidget, qtbot: QtBot, width: int, height: int) -> None:
    """Show a single view in a size of its own."""
    qtbot.addWidget(widget)
    widget.resize(width, height)
    widget.show()
    qtbot.waitExposed(widget)
