"""Table, ladder, details, topology and scrubber: bound to one step, whoever moves it."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtTest import QAbstractItemModelTester
from pytestqt.qtbot import QtBot

from gui.look.style import Look
from gui.topology.view import TopologyView
from gui.values.sources import lines_around
from gui.walk.banner import VerdictBanner
from gui.walk.details import StepDetails
from gui.walk.ladder import LadderView
from gui.walk.player import Player
from gui.walk.table import DESTINATION, SOURCE, WHERE, StepTable
from gui.walk.transport import Scrubber
from gui.words.language import Language
from netlab.model.walk import Walk
from tests.gui.conftest import shown
from tests.gui.recorded import EXAMPLE, picture, walk


def index_of(walk: Walk, action: str) -> int:
    return next(index for index, step in enumerate(walk.steps) if step.action == action)


def test_the_table_and_the_player_follow_each_other(
    qtbot: QtBot, player: Player, look: Look, language: Language, far: Walk
) -> None:
    table = StepTable(player, look, language)
    QAbstractItemModelTester(table.steps, QAbstractItemModelTester.FailureReportingMode.Fatal)
    shown(table, qtbot, 900, 400)
    player.show(far)
    assert table.steps.rowCount() == len(player.rows) < len(far.steps)
    player.go_to(index_of(far, "DNAT"))
    row = table.currentIndex().row()
    assert table.steps.index(row, WHERE).data() == "node-a nat PREROUTING"
    qtbot.keyClick(table, Qt.Key.Key_Down)
    step = player.step
    assert step is not None
    assert step.action == "SNAT"
    table.show_all(True)
    assert table.steps.rowCount() == len(far.steps)
    assert table.currentIndex().row() == player.index


def test_addresses_are_never_cut(qtbot: QtBot, player: Player, look: Look, language: Language, far: Walk) -> None:
    table = StepTable(player, look, language)
    shown(table, qtbot, 900, 400)
    player.show(far)
    for column in (SOURCE, DESTINATION):
        for row in range(table.steps.rowCount()):
            assert table.columnWidth(column) > table.sizeHintForIndex(table.steps.index(row, column)).width() - 8


def test_the_table_as_text(qtbot: QtBot, player: Player, look: Look, language: Language, far: Walk) -> None:
    table = StepTable(player, look, language)
    qtbot.addWidget(table)
    player.show(far)
    lines = table.text().split("\n")
    assert lines[0].split("\t")[:2] == ["#", "Where"]
    assert len(lines) == 1 + len(player.rows)


def test_details_tell_rule_origin_and_both_addresses(
    qtbot: QtBot, player: Player, look: Look, language: Language, far: Walk
) -> None:
    file = next(step.origin.file for step in far.steps if step.origin is not None and step.origin.file)
    sources = [(file, EXAMPLE.read_bytes())]
    details = StepDetails(player, look, language, lambda name, line: lines_around(sources, name, line))
    shown(details, qtbot, 340, 700)
    player.show(far)
    at = index_of(far, "DNAT")
    player.go_to(at)
    text = details.text.toPlainText()
    assert f"-A {far.steps[at].chain} {far.steps[at].rule}" in text
    assert far.steps[at - 1].destination in text
    assert f"» {far.steps[at].destination}" in text
    at = next(index for index, step in enumerate(far.steps) if step.chain == "KUBE-NODEPORTS")
    player.go_to(at)
    text = details.text.toPlainText()
    assert "Service default/web" in text
    assert "nodePort: 30080" in text
    assert details.frame.fields.rowCount() >= 3


def test_the_frame_marks_bytes_of_a_field(
    qtbot: QtBot, player: Player, look: Look, language: Language, far: Walk
) -> None:
    details = StepDetails(player, look, language, lambda *_: [])
    shown(details, qtbot, 340, 700)
    player.show(far)
    tree = details.frame.tree
    before = len(details.frame.bytes.extraSelections())
    tree.setCurrentIndex(details.frame.fields.index(1, 0))
    assert len(details.frame.bytes.extraSelections()) > before


def test_the_ladder_moves_by_keys_and_clicks(
    qtbot: QtBot, player: Player, look: Look, language: Language, far: Walk
) -> None:
    view = LadderView(player, look, language)
    shown(view, qtbot, 800, 400)
    player.show(far)
    assert view.ladder.columns == ("client", "router", "node-a", "node-b", "default/web-3")
    qtbot.keyClick(view, Qt.Key.Key_Down)
    assert player.index > 0
    player.go_to(len(far.steps) - 1)
    assert view.verticalScrollBar().value() > 0
    view.grab()


def test_the_packet_is_where_its_step_is(
    qtbot: QtBot, player: Player, look: Look, language: Language, far: Walk
) -> None:
    view = TopologyView(player, look, language)
    shown(view, qtbot, 900, 500)
    view.show_picture(picture())
    player.show(far)
    at = index_of(far, "DNAT")
    player.go_to(at)
    packet = view.packet.shown
    assert packet is not None
    hook = view.plan.nodes["node-a"].hooks["PREROUTING"].middle
    assert (packet.at.x(), packet.at.y()) == (hook.x, hook.y)
    assert packet.action == "DNAT"
    timeline = player.timeline
    assert timeline is not None
    beat = timeline.beats[1]
    player.seek((beat.begin + beat.there) / 2)
    packet = view.packet.shown
    assert packet is not None
    assert not packet.arrived
    client, router = view.plan.machines["client"], view.plan.machines["router"]
    assert client.right.x < packet.at.x() < router.right.x


def test_calm_shows_steps_without_travel(
    qtbot: QtBot, player: Player, look: Look, language: Language, far: Walk
) -> None:
    view = TopologyView(player, look, language)
    shown(view, qtbot, 900, 500)
    view.show_picture(picture())
    player.calm = True
    player.show(far)
    timeline = player.timeline
    assert timeline is not None
    for beat in timeline.beats:
        player.seek((beat.begin + beat.there) / 2)
        packet = view.packet.shown
        assert packet is not None
        assert packet.arrived


def test_playing_ends_at_the_end(qtbot: QtBot, player: Player, far: Walk) -> None:
    player.show(far)
    player.play()
    assert player.playing
    player.advance(player.length)
    assert not player.playing
    assert player.index == len(far.steps) - 1
    player.play()
    assert player.index == 0


def test_the_scrubber_and_the_player_follow_each_other(qtbot: QtBot, player: Player, look: Look, far: Walk) -> None:
    scrubber = Scrubber(player, look)
    shown(scrubber, qtbot, 400, 24)
    player.show(far)
    qtbot.keyClick(scrubber, Qt.Key.Key_PageUp)
    assert abs(player.moment - 1.0) < 0.01
    player.go_to(len(far.steps) - 1)
    assert scrubber.value() > 0.9 * scrubber.maximum()


def test_the_banner_says_why_and_what_to_try(
    qtbot: QtBot, player: Player, look: Look, language: Language, far: Walk
) -> None:
    banner = VerdictBanner(player, look, language)
    qtbot.addWidget(banner)
    assert banner.isHidden()
    player.show(far)
    assert "answered by default/web-3 on node-b" in banner.answer.text().replace("Answered", "answered")
    player.show(walk("refused"))
    assert "refused" in banner.answer.text().casefold()
    assert "What to look at" in banner.more.text()
    language.choose("zh")
    assert "建议检查" in banner.more.text()
