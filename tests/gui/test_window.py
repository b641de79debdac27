"""The whole window, with an engine that is a recording."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QAbstractButton, QAbstractItemView, QAbstractSlider, QComboBox, QLineEdit, QWidget
from pytestqt.qtbot import QtBot

from gui.engine.session import Session, State
from gui.look.style import Look
from gui.settings import Settings
from gui.values.examples import EXAMPLES
from gui.window.window import MainWindow
from gui.words.language import Language
from netlab.model.errors import BadInput
from netlab.model.text import Text
from tests.gui.fake_link import FakeLink
from tests.gui.recorded import EXAMPLE, walk_file


def up(window: MainWindow, qtbot: QtBot) -> None:
    """The example's lab, and its first walk."""
    with qtbot.waitSignal(window.session.walk_made):
        window.open_example(EXAMPLES[0])
    window.player.pause()


def test_from_start_page_to_the_change_in_one_click(window: MainWindow, qtbot: QtBot, links: list[FakeLink]) -> None:
    assert window.pages.currentWidget() is window.start_page
    with qtbot.waitSignal(window.session.walk_made):
        qtbot.mouseClick(window.start_page.examples[0], Qt.MouseButton.LeftButton)
    assert window.player.playing
    assert window.pages.currentWidget() is window.workspace
    asked = dict(links[0].asked)["lab.walk"]
    assert (asked["from"], asked["to"], asked["protocol"]) == ("client", "192.168.60.123:30080", "tcp")
    assert "Answered" in window.workspace.banner.answer.text()


def test_the_probe_bar_sends_what_it_says(window: MainWindow, qtbot: QtBot, links: list[FakeLink]) -> None:
    up(window, qtbot)
    bar = window.workspace.probe_bar
    bar.ask("curl", "web:80")
    edit = bar.to.lineEdit()
    assert edit is not None
    with qtbot.waitSignal(window.session.walk_made):
        qtbot.keyClick(edit, Qt.Key.Key_Return)
    method, asked = links[0].asked[-1]
    assert method == "lab.walk"
    assert (asked["from"], asked["to"]) == ("curl", "10.96.0.1:80")


def test_a_probe_that_fails_says_so_in_place(window: MainWindow, qtbot: QtBot, links: list[FakeLink]) -> None:
    up(window, qtbot)
    links[0].answers["lab.walk"] = BadInput(Text("test", "nobody is called x", "没有名为 x 的发送者"))
    with qtbot.waitSignal(window.session.probe_failed):
        window.commands["probe.send"].trigger()
    assert window.workspace.notice.isVisible()
    assert window.workspace.notice.words.text() == "Nobody is called x"
    assert window.commands["probe.send"].isEnabled()


def test_the_engines_death_is_a_bar_with_a_way_out(window: MainWindow, qtbot: QtBot, links: list[FakeLink]) -> None:
    up(window, qtbot)
    links[0].die()
    assert window.session.state is State.ENDED
    assert window.workspace.notice.isVisible()
    assert window.player.walk is not None
    with qtbot.waitSignal(window.session.state_changed, check_params_cb=None):
        qtbot.mouseClick(window.workspace.notice.button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: window.session.state is State.READY)
    assert len(links) == 2
    assert not window.workspace.notice.isVisible()


def test_an_engine_that_dies_during_a_walk(window: MainWindow, qtbot: QtBot, links: list[FakeLink]) -> None:
    up(window, qtbot)
    links[0].silent.add("lab.walk")
    window.commands["probe.send"].trigger()
    assert window.session.probing
    links[0].die()
    assert not window.session.probing


def test_a_lab_that_cannot_be_built(window: MainWindow, qtbot: QtBot, links: list[FakeLink]) -> None:
    up(window, qtbot)
    window.session._make_link = _failing
    window.commands["lab.restart"].trigger()
    qtbot.waitUntil(lambda: window.session.state is State.FAILED)
    assert window.workspace.notice.words.text() == "Line 3: not a lab"


def _failing(*, in_microvm: bool = False) -> FakeLink:
    link = FakeLink()
    link.answers["lab.load"] = BadInput(Text("test", "line 3: not a lab", "第 3 行：不是实验"))
    return link


def test_changes_of_objects_are_shown(window: MainWindow, qtbot: QtBot, links: list[FakeLink]) -> None:
    up(window, qtbot)
    pod = next(each for each in window.session.objects.values() if each["metadata"]["name"] == "web-1")
    changed = json.loads(json.dumps(pod)) | {"status": {"phase": "Failed"}}
    with qtbot.waitSignal(window.session.picture_changed):
        links[0].tell("MODIFIED", changed)
    states = {pod.path: pod.state for node in window.session.picture.nodes for pod in node.pods}
    assert states["default/web-1"] == "Failed"


def test_a_saved_walk_opens_without_an_engine(window: MainWindow, qtbot: QtBot, links: list[FakeLink]) -> None:
    with qtbot.waitSignal(window.session.walk_made):
        window.open_file(str(walk_file("far")))
    assert links == []
    assert window.player.walk is not None
    assert not window.workspace.probe_bar.isVisible()
    assert window.settings.recent == [str(walk_file("far"))]


def test_a_walk_that_is_saved_is_the_same_when_opened(window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    up(window, qtbot)
    walk = window.player.walk
    assert walk is not None
    window.save_walk(walk, str(tmp_path / "walk.json"))
    with qtbot.waitSignal(window.session.walk_made):
        window.open_file(str(tmp_path / "walk.json"))
    assert window.player.walk == walk


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("damaged.json", b'{"schema": "netlab.walk/v1", "mode": 3}', "damaged"),
        ("empty.json", b'{"schema": "netlab.walk/v1", "mode": "iptables", "steps": []}', "damaged"),
        ("deep.json", b"[" * 100_000, ""),
        ("huge.yaml", b"#" * (17 * 1024 * 1024), "larger than"),
        ("missing.yaml", None, "cannot be read"),
    ],
)
def test_bad_files_are_told_in_place(
    window: MainWindow, qtbot: QtBot, tmp_path: Path, name: str, data: bytes | None, words: str
) -> None:
    path = tmp_path / name
    if data is not None:
        path.write_bytes(data)
    if not words:
        # It is no walk; whether it is a lab, the engine says.
        with qtbot.waitSignal(window.reader.read):
            window.open_file(str(path))
        return
    with qtbot.waitSignal(window.reader.failed):
        window.open_file(str(path))
    assert words in window.workspace.notice.words.text()
    assert window.workspace.notice.isVisible()


def test_a_file_can_be_dropped(window: MainWindow, qtbot: QtBot) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(EXAMPLE))])
    event = QDropEvent(
        QPointF(5, 5), Qt.DropAction.CopyAction, data, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    )
    with qtbot.waitSignal(window.reader.read):
        window.dropEvent(event)
    qtbot.waitUntil(lambda: window.session.state is State.READY)


def test_the_palette_finds_and_runs_commands(window: MainWindow, qtbot: QtBot) -> None:
    up(window, qtbot)
    qtbot.keyClick(window, Qt.Key.Key_P, Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier)
    assert window.palette_box.isVisible()
    qtbot.keyClicks(window.palette_box.edit, "ladder")
    assert len(window.palette_box.shown_titles()) == 1
    qtbot.keyClick(window.palette_box.edit, Qt.Key.Key_Return)
    assert not window.palette_box.isVisible()
    assert window.workspace.centre.currentWidget() is window.workspace.ladder


def test_no_two_commands_share_a_key(window: MainWindow) -> None:
    keys = [key.toString() for _, action in window.commands for key in action.shortcuts()]
    assert len(keys) == len(set(keys))


def test_all_that_takes_input_has_a_name(window: MainWindow, qtbot: QtBot) -> None:
    up(window, qtbot)
    kinds = (QLineEdit, QComboBox, QAbstractItemView, QAbstractSlider, QAbstractButton)
    nameless = [
        f"{type(each).__name__} in {type(each.parent()).__name__}"
        for kind in kinds
        for each in window.findChildren(kind)
        if isinstance(each, QWidget)
        and each.isVisible()
        and each.focusPolicy() != Qt.FocusPolicy.NoFocus
        and not (each.accessibleName() or getattr(each, "text", str)() or isinstance(each.parent(), QComboBox))
    ]
    assert nameless == []


def test_every_text_follows_the_language(window: MainWindow, qtbot: QtBot, language: Language) -> None:
    up(window, qtbot)
    language.choose("zh")
    assert window.menuBar().actions()[0].text() == "文件(&F)"
    assert window.workspace.probe_bar.send.text() == "发送"
    assert window.workspace.bottom.tabText(0) == "旅程"
    assert "应答" in window.workspace.banner.answer.text()
    assert "步" in window.workspace.details.text.toPlainText()
    language.choose("en")
    assert window.menuBar().actions()[0].text() == "&File"


def test_both_themes_draw(window: MainWindow, qtbot: QtBot, look: Look) -> None:
    up(window, qtbot)

    def lightness() -> int:
        return window.grab().toImage().pixelColor(4, 700).lightness()

    assert lightness() > 200
    window.commands["view.theme-dark"].trigger()
    qtbot.waitUntil(lambda: lightness() < 60)
    assert window.settings.theme == "dark"


def test_what_was_chosen_is_remembered(
    window: MainWindow, qtbot: QtBot, settings: Settings, look: Look, language: Language
) -> None:
    window.resize(790, 600)
    window.commands["view.calm"].setChecked(True)
    window.commands["view.language-zh"].trigger()
    window.close()
    again = MainWindow(Session(), look, language, settings)
    qtbot.addWidget(again)
    assert again.player.calm
    assert settings.language == "zh"
    assert again.size().width() == 790


def test_an_unwritable_folder_for_settings_is_no_trouble(
    qtbot: QtBot, look: Look, language: Language, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    window = MainWindow(Session(), look, language, Settings(tmp_path / "file" / "app.ini"))
    qtbot.addWidget(window)
    window.show()
    window.close()


def test_it_fits_a_small_screen(window: MainWindow, qtbot: QtBot) -> None:
    up(window, qtbot)
    window.resize(1024, 768)
    assert window.minimumSizeHint().width() <= 1024
    assert window.minimumSizeHint().height() <= 740


def test_menus_of_places(window: MainWindow, qtbot: QtBot, links: list[FakeLink]) -> None:
    up(window, qtbot)
    workspace = window.workspace
    bar = workspace.probe_bar
    menu = workspace.place_menu.menu("default/curl", bar.targets())
    assert [action.text() for action in menu.actions()] == ["Probe from here", "Probe to curl"]
    menu.actions()[0].trigger()
    assert bar.words().sender == "default/curl"
    menu = workspace.place_menu.menu("default/web", bar.targets())
    menu.actions()[0].trigger()
    assert bar.words().to == "10.96.0.1:80"
    menu = workspace.place_menu.menu("node-b", bar.targets())
    texts = [action.text() for action in menu.actions()]
    assert "Kill kube-proxy on node-b (kill -9)" in texts
    links[0].answers["proxy.kill"] = None
    menu.actions()[texts.index("Kill kube-proxy on node-b (kill -9)")].trigger()
    assert links[0].asked[-1] == ("proxy.kill", {"node": "node-b"})
    menu.actions()[texts.index("Show the rules of node-b")].trigger()
    assert workspace.centre.currentWidget() is workspace.rules
    assert workspace.rules.node.currentText() == "node-b"


def test_a_packet_can_be_written_out(window: MainWindow, qtbot: QtBot, links: list[FakeLink]) -> None:
    up(window, qtbot)
    bar = window.workspace.probe_bar
    bar.protocol.setCurrentIndex(bar.protocol.count() - 1)
    assert bar.to.currentText() == ""
    edit = bar.to.lineEdit()
    assert edit is not None
    assert "scapy" in edit.placeholderText()
    bar.to.setCurrentText('IP(dst="10.96.0.1")/TCP(dport=80, flags="S")')
    with qtbot.waitSignal(window.session.walk_made):
        window.commands["probe.send"].trigger()
    asked = links[0].asked[-1][1]
    assert asked["to"] is None
    assert asked["packet"].startswith("IP(")
    bar.protocol.setCurrentIndex(0)
    assert bar.words().to == "192.168.60.123:30080"


def test_earlier_walks_can_be_seen_again(window: MainWindow, qtbot: QtBot, links: list[FakeLink]) -> None:
    up(window, qtbot)
    first = window.player.walk
    with qtbot.waitSignal(window.session.walk_made):
        window.commands["probe.send"].trigger()
    assert window.player.walk is not first
    actions = window.history_menu.actions()
    assert len(actions) == 2
    assert actions[1].text().startswith("✓ client → 192.168.60.123:30080")
    actions[1].trigger()
    assert window.player.walk is first
