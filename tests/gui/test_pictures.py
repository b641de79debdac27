"""Topology, walk and ladder look as they did: small pictures compared with some tolerance, as fonts are not the same
everywhere. ``KUBE_NETLAB_PICTURES=write`` makes them anew; look at them before they are committed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from gui.look import fonts
from gui.look.style import Choice, Look
from gui.topology.view import TopologyView
from gui.walk.ladder import LadderView
from gui.walk.player import Player
from gui.walk.table import StepTable
from gui.words.language import Language
from netlab.model.walk import Walk
from tests.gui.conftest import shown
from tests.gui.recorded import picture

FOLDER = Path(__file__).parent / "pictures"
SHRINK = 4
DIFFERENT = 48
"""From here on a colour is another one, of 255."""
MOST_DIFFERENT = 0.02
"""Share of points that may be of another colour."""


@pytest.fixture(autouse=True)
def same_fonts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fonts, "_PREFERRED", ("DejaVu Sans",))
    monkeypatch.setattr(fonts, "_MONOSPACED", ("DejaVu Sans Mono",))


def small(image: QImage) -> QImage:
    size = image.size() / SHRINK
    smooth = image.scaled(size, Qt.AspectRatioMode.IgnoreAspectRatio, Qt.TransformationMode.SmoothTransformation)
    return smooth.convertToFormat(QImage.Format.Format_RGB888)


def share_of_other_points(one: QImage, other: QImage) -> float:
    count = 0
    for y in range(one.height()):
        for x in range(one.width()):
            a, b = one.pixelColor(x, y), other.pixelColor(x, y)
            far = max(abs(a.red() - b.red()), abs(a.green() - b.green()), abs(a.blue() - b.blue()))
            count += far >= DIFFERENT
    return count / (one.width() * one.height())


def looks_like(widget: QWidget, name: str) -> None:
    path = FOLDER / f"{name}.png"
    now = small(widget.grab().toImage())
    if os.environ.get("KUBE_NETLAB_PICTURES") == "write":
        now.save(str(path))
        return
    before = QImage(str(path)).convertToFormat(QImage.Format.Format_RGB888)
    assert before.size() == now.size()
    share = share_of_other_points(before, now)
    assert share <= MOST_DIFFERENT, f"{share:.1%} of {name} look different"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_topology(qtbot: QtBot, player: Player, look: Look, language: Language, far: Walk, theme: Choice) -> None:
    look.choose(theme)
    view = TopologyView(player, look, language)
    shown(view, qtbot, 960, 420)
    view.show_picture(picture())
    player.show(far)
    player.go_to(next(index for index, step in enumerate(far.steps) if step.action == "DNAT"))
    looks_like(view, f"topology-{theme}")


def test_ladder(qtbot: QtBot, player: Player, look: Look, language: Language, far: Walk) -> None:
    view = LadderView(player, look, language)
    shown(view, qtbot, 960, 420)
    player.show(far)
    player.go_to(next(index for index, step in enumerate(far.steps) if step.action == "SNAT"))
    looks_like(view, "ladder")


def test_walk(qtbot: QtBot, player: Player, look: Look, language: Language, far: Walk) -> None:
    table = StepTable(player, look, language)
    shown(table, qtbot, 960, 300)
    player.show(far)
    player.go_to(next(index for index, step in enumerate(far.steps) if step.action == "DNAT"))
    looks_like(table, "walk")


def test_a_difference_is_seen(qtbot: QtBot, player: Player, look: Look, language: Language, far: Walk) -> None:
    """The comparison is no rubber stamp: another step is another picture."""
    view = TopologyView(player, look, language)
    shown(view, qtbot, 960, 420)
    view.show_picture(picture())
    player.show(far)
    player.go_to(0)
    one = small(view.grab().toImage())
    look.choose("dark")
    assert share_of_other_points(one, small(view.grab().toImage())) > 0.5
    look.choose("light")
    player.go_to(len(far.steps) - 1)
    assert share_of_other_points(one, small(view.grab().toImage())) > 0.003
