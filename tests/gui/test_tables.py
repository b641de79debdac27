"""YAML, frames, connections and comparison, on recordings."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtTest import QAbstractItemModelTester
from pytestqt.qtbot import QtBot

from gui.engine.comparing import Comparing
from gui.engine.session import ProbeWords, Session, State
from gui.tables.connections import DESTINATION
from gui.tables.frames import FrameModel, rows_of
from gui.values.moment import frames
from gui.values.outline import lines_named, outline
from gui.window.window import MainWindow
from netlab.model.errors import BadInput, MachineCannot
from netlab.model.text import Text
from netlab.model.walk import Walk
from tests.gui.fake_link import FakeLink
from tests.gui.recorded import EXAMPLE
from tests.gui.test_window import up


def test_the_outline_of_a_file() -> None:
    found = outline(EXAMPLE.read_text())
    assert [(each.kind, each.name) for each in found[:3]] == [
        ("Lab", "nodeport"),
        ("KubeProxyConfiguration", ""),
        ("Service", "web"),
    ]
    assert EXAMPLE.read_text().splitlines()[found[2].line - 1] == "apiVersion: v1"
    items = "kind: List\nitems:\n- kind: Pod\n  metadata: {name: a, namespace: b}\n"
    assert [(each.kind, each.name, each.line) for each in outline(items)] == [("Pod", "b/a", 3)]
    assert outline("a: [") == []
    assert outline("x" * 500_000) == []
    assert lines_named("/tmp/a.yaml:12: wrong; /tmp/b.yaml:3", "/tmp/a.yaml") == [12]


def test_a_changed_file_is_built_and_the_probe_sent_again(
    window: MainWindow, qtbot: QtBot, links: list[FakeLink]
) -> None:
    up(window, qtbot)
    view = window.workspace.yaml
    window.commands["view.yaml"].trigger()
    assert not view.changed
    qtbot.keyClicks(view.editor, "# mine")
    assert view.changed
    view.editor.undo()
    assert not view.changed
    view.editor.redo()
    with qtbot.waitSignal(window.session.walk_made):
        window.commands["lab.apply"].trigger()
    assert len(links) == 2
    assert window.session.sources[0][1].startswith(b"# mine")
    assert not view.changed


def test_errors_are_marked_at_their_line(window: MainWindow, qtbot: QtBot, links: list[FakeLink]) -> None:
    up(window, qtbot)
    view = window.workspace.yaml
    name = window.session.sources[0][0]

    def failing(*, in_microvm: bool = False) -> FakeLink:
        link = FakeLink()
        link.answers["lab.load"] = BadInput(Text("test", f"{name}:3: no such field", f"{name}:3：没有该字段"))
        return link

    window.session._make_link = failing
    view.editor.insertPlainText("oh: no\n")
    view.apply.click()
    qtbot.waitUntil(lambda: window.session.state is State.FAILED)
    assert view.editor.textCursor().blockNumber() == 2
    assert len(view.editor.extraSelections()) == 1
    assert view.editor.toPlainText().startswith("oh: no")
    view._revert()
    assert not view.editor.toPlainText().startswith("oh: no") or view._original.startswith("oh: no")


def test_frames_are_filtered_and_lead_to_their_step(window: MainWindow, qtbot: QtBot, far: Walk) -> None:
    up(window, qtbot)
    window.commands["view.packets"].trigger()
    view = window.workspace.frames
    every = view.frames.rowCount()
    assert every == len(rows_of(frames(far)))
    qtbot.keyClicks(view.filter, "node-b out syn ack")
    assert 0 < view.frames.rowCount() < every
    view.table.selectRow(0)
    step = window.player.step
    assert step is not None
    assert step.place == "node-b"
    assert view.frame.fields.rowCount() >= 3


def test_the_list_of_frames_is_sound(window: MainWindow, far: Walk) -> None:
    model = FrameModel(window.look, window.language)
    QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Fatal)
    model.show(rows_of(frames(far)), "")
    model.filter("router")
    assert model.rowCount() > 4


def test_connections_are_listed_and_deleted(window: MainWindow, qtbot: QtBot, links: list[FakeLink]) -> None:
    up(window, qtbot)
    window.commands["view.conntrack"].trigger()
    view = window.workspace.connections
    qtbot.waitUntil(lambda: view.entries.rowCount() > 0)
    assert str(view.entries.index(0, DESTINATION).data()) == "192.168.60.123:30080"
    view.table.selectRow(0)
    qtbot.mouseClick(view.delete, Qt.MouseButton.LeftButton)
    asked = [params for method, params in links[0].asked if method == "conntrack.delete"]
    assert asked == [{"node": "node-a", "entry": view.entries.entries[0].entry}]


def test_modes_are_compared_one_after_the_other(qtbot: QtBot) -> None:
    made: list[FakeLink] = []

    def make_link(*, in_microvm: bool = False) -> FakeLink:
        made.append(FakeLink())
        if len(made) == 2:
            made[-1].answers["lab.start"] = MachineCannot(Text("test", "not here", "此处不行"))
        return made[-1]

    comparing = Comparing(make_session=lambda: Session(make_link=make_link))
    comparing.start([("a.yaml", b"")], ProbeWords("client", "1.2.3.4:5", "tcp"), ["iptables", "ipvs", "nftables"])
    qtbot.waitUntil(lambda: not comparing.running)
    assert list(comparing.walks) == ["iptables", "nftables"]
    assert comparing.errors["ipvs"].en == "not here"
    assert [dict(link.asked)["lab.load"]["mode"] for link in made] == ["iptables", "ipvs", "nftables"]
    assert all(link.closed for link in made)


def test_a_comparison_is_shown_and_its_walks_can_be_seen(
    window: MainWindow, qtbot: QtBot, links: list[FakeLink]
) -> None:
    up(window, qtbot)

    def make_link(*, in_microvm: bool = False) -> FakeLink:
        return FakeLink()

    window.workspace.comparing._make_session = lambda: Session(make_link=make_link)
    window.commands["view.compare"].trigger()
    qtbot.mouseClick(window.workspace.compare.button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not window.workspace.comparing.running)
    text = window.workspace.compare.table.toPlainText()
    assert "answered" in text
    assert "default/web-3" in text
    before = window.player.walk
    window.workspace.compare.walk_chosen.emit(window.workspace.comparing.walks["nftables"])
    assert window.player.walk is not before
    assert window.workspace.centre.currentWidget() is window.workspace.topology


def test_another_mode_builds_the_lab_anew(window: MainWindow, qtbot: QtBot, links: list[FakeLink]) -> None:
    up(window, qtbot)
    window.workspace.mode.activated.emit(1)
    qtbot.waitUntil(lambda: window.session.state is State.READY)
    assert dict(links[1].asked)["lab.load"]["mode"] == "nftables"


def test_a_mode_that_this_kernel_lacks_runs_in_a_microvm(qtbot: QtBot) -> None:
    made: list[bool] = []

    def make_link(*, in_microvm: bool = False) -> FakeLink:
        made.append(in_microvm)
        link = FakeLink()
        if not in_microvm:
            link.answers["lab.load"] = {"name": "x", "notes": [], "lacking": ["ipvs"]}
        return link

    session = Session(make_link=make_link)
    session.open([("a.yaml", b"")], "ipvs")
    qtbot.waitUntil(lambda: session.state is State.READY)
    assert made == [False, True]


def test_long_files_do_not_hold_the_window_up(window: MainWindow, qtbot: QtBot) -> None:
    """Beyond some length without colours, and beyond another one without the text."""
    view = window.workspace.yaml
    document = "kind: Pod\nmetadata: {name: a}\n---\n"
    for size, shown, coloured in ((1_000, True, True), (200_000, True, False), (3_000_000, False, True)):
        text = document * (size // len(document))
        window.session.sources = [(f"{size}.yaml", text.encode())]
        window.session.state_changed.emit()
        assert (view.editor.toPlainText() == text) is shown
        assert (view.editor.colours.document() is not None) is coloured
        assert not view.changed
    assert "too long" in view.state.text()
    assert not view.apply.isEnabled()
