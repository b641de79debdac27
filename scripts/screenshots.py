"""Make the app's pictures in docs/pictures from the real program: ``python scripts/screenshots.py [FOLDER]``.

A real lab, a real walk, the real window, drawn without a screen.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QEventLoop, QTimer
from PySide6.QtWidgets import QApplication

from gui.main import make_window
from gui.settings import Settings
from gui.window.window import MainWindow
from netlab.model.walk import Walk

CHECKOUT = Path(__file__).parents[1]
WIDTH, HEIGHT = 1280, 800
ANOTHER_NODE = "node-b"
TRIES = 50
PATIENCE_MS = 60_000


@dataclass(frozen=True)
class Shot:
    """A picture: which commands lead to it, and at which step of the walk."""

    name: str
    commands: Sequence[str]
    action: str = "DNAT"
    until: Callable[[MainWindow], bool] = lambda _: True


SHOTS = (
    Shot("app.png", ("view.language-en", "view.theme-light", "view.topology", "view.steps")),
    Shot("app-ladder.png", ("view.language-en", "view.theme-light", "view.ladder", "view.steps"), "SNAT"),
    Shot(
        "app-rules.png",
        ("view.language-en", "view.theme-dark", "view.rules", "view.packets"),
        until=lambda window: window.workspace.rules.rules.rowCount() > 0,
    ),
    Shot("app-zh.png", ("view.language-zh", "view.theme-light", "view.topology", "view.steps")),
    Shot("app-zh-dark.png", ("view.language-zh", "view.theme-dark", "view.topology", "view.steps"), "SNAT"),
)


def wait(window: MainWindow, ready: Callable[[], bool]) -> None:
    """Until it is so; raises TimeoutError where it does not come about."""
    loop = QEventLoop()
    poll, end = QTimer(), QTimer()
    poll.timeout.connect(lambda: loop.quit() if ready() else None)
    end.setSingleShot(True)
    end.timeout.connect(loop.quit)
    poll.start(10)
    end.start(PATIENCE_MS)
    loop.exec()
    poll.stop()
    if not ready():
        raise TimeoutError(f"the window stays {window.session.state.value}: {window.session.error}")


def longer_walk(window: MainWindow) -> Walk:
    """The endpoint is the kernel's choice; the pictures are to show the way over both nodes."""
    window.open_file("nodeport")
    wait(window, lambda: window.player.walk is not None)
    for _ in range(TRIES):
        walk = window.player.walk
        assert walk is not None
        if walk.endpoint is not None and walk.endpoint.node == ANOTHER_NODE:
            break
        window.commands["probe.send"].trigger()
        wait(window, lambda before=walk: window.player.walk is not before)  # type: ignore[misc]
    window.player.pause()
    assert window.player.walk is not None
    return window.player.walk


def take(window: MainWindow, walk: Walk, shot: Shot, folder: Path) -> None:
    for command in shot.commands:
        action = window.commands[command]
        action.setChecked(True) if action.isCheckable() else action.trigger()
    window.player.go_to(0)
    window.player.go_to(next(index for index, step in enumerate(walk.steps) if step.action == shot.action))
    wait(window, lambda: shot.until(window))
    window.player.forward()
    window.player.back()
    focus = window.focusWidget()
    if focus is not None:
        focus.clearFocus()
    QApplication.processEvents()
    # Qt's quality of a PNG is how little it is compressed.
    window.grab().save(str(folder / shot.name), "PNG", 0)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    app = QApplication(["kube-netlab"])
    with tempfile.TemporaryDirectory() as settings:
        window = make_window(app, Settings(Path(settings) / "app.ini"))
        window.resize(WIDTH, HEIGHT)
        window.show()
        try:
            walk = longer_walk(window)
            for shot in SHOTS:
                take(window, walk, shot, folder)
        finally:
            window.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else CHECKOUT / "docs" / "pictures")
