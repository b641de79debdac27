"""The app with a real engine: from the start page to the packet's change, and what happens when the engine goes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from gui.engine.link import EngineLink
from gui.engine.session import ProbeWords, Session, State
from gui.values.examples import EXAMPLES
from gui.walk.table import DESTINATION
from gui.window.window import MainWindow
from netlab.engine import rendezvous
from netlab.engine.client import EngineClient, start_engine
from netlab.model.errors import MachineCannot
from netlab.model.text import Text
from tests.gui.recorded import EXAMPLE

pytestmark = pytest.mark.kernel
UP_MS = 60_000


def gone(pid: int) -> bool:
    """Whether the process has ended (a dead child that is not waited for yet counts as one that has)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.fixture
def real_window(make_window: Callable[[Session], MainWindow]) -> MainWindow:
    return make_window(Session())


def first_walk(window: MainWindow, qtbot: QtBot) -> None:
    with qtbot.waitSignal(window.session.walk_made, timeout=UP_MS):
        qtbot.mouseClick(window.start_page.examples[0], Qt.MouseButton.LeftButton)
    window.player.pause()


def verdict_of(window: MainWindow) -> str:
    assert window.player.walk is not None
    return window.player.walk.verdict


def test_the_first_journey(real_window: MainWindow, qtbot: QtBot) -> None:
    """One click, then the next step that matters, until the destination changes."""
    window = real_window
    first_walk(window, qtbot)
    assert "Answered" in window.workspace.banner.answer.text()
    for _ in range(10):
        step = window.player.step
        assert step is not None
        if step.action == "DNAT":
            break
        window.commands["walk.next-row"].trigger()
    table = window.workspace.steps
    assert table.steps.index(table.currentIndex().row(), DESTINATION).data().startswith("10.200.")
    window.commands["walk.back"].trigger()
    assert "nodeport.yaml" in window.workspace.details.text.toPlainText() or window.player.index > 0
    packet = window.workspace.topology.packet.shown
    assert packet is not None
    pid = window.session.engine_pid
    assert not gone(pid)
    window.close()
    assert gone(pid)


def test_a_second_probe_from_a_pod(real_window: MainWindow, qtbot: QtBot) -> None:
    window = real_window
    first_walk(window, qtbot)
    window.workspace.probe_bar.ask("curl", "web:80")
    with qtbot.waitSignal(window.session.walk_made, timeout=UP_MS):
        window.commands["probe.send"].trigger()
    walk = window.player.walk
    assert walk is not None
    assert walk.verdict == "answered"
    assert walk.steps[0].place == "default/curl"


def test_an_engine_that_is_killed_can_be_restarted(real_window: MainWindow, qtbot: QtBot) -> None:
    window = real_window
    first_walk(window, qtbot)
    first = window.session.engine_pid
    os.kill(first, signal.SIGKILL)
    qtbot.waitUntil(lambda: window.session.state is State.ENDED, timeout=UP_MS)
    assert window.workspace.notice.isVisible()
    qtbot.mouseClick(window.workspace.notice.button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: window.session.state is State.READY, timeout=UP_MS)
    assert window.session.engine_pid not in (0, first)
    qtbot.waitUntil(lambda: gone(first), timeout=UP_MS)


def test_another_lab_ends_the_first(real_window: MainWindow, qtbot: QtBot) -> None:
    window = real_window
    first_walk(window, qtbot)
    first = window.session.engine_pid
    with qtbot.waitSignal(window.session.walk_made, timeout=UP_MS):
        window.open_example(EXAMPLES[0])
    qtbot.waitUntil(lambda: gone(first), timeout=UP_MS)


def test_a_window_that_closes_while_its_engine_starts(
    make_window: Callable[[Session], MainWindow], qtbot: QtBot
) -> None:
    window = make_window(Session())
    window.session.open([(str(EXAMPLE), EXAMPLE.read_bytes())])
    window.close()
    assert window.session.engine_pid == 0


def test_bad_yaml_is_told_with_its_line(real_window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  ports:\n  - port: 99999\n")
    real_window.open_file(str(path))
    qtbot.waitUntil(lambda: real_window.session.state is State.FAILED, timeout=UP_MS)
    assert "bad.yaml:6" in real_window.workspace.notice.words.text()


def test_words_that_name_nothing(real_window: MainWindow, qtbot: QtBot) -> None:
    first_walk(real_window, qtbot)
    with qtbot.waitSignal(real_window.session.probe_failed, timeout=UP_MS):
        real_window.session.probe(ProbeWords("nobody", "10.96.0.1:80", "tcp"))
    assert "nobody" in real_window.workspace.notice.words.text()


def test_a_machine_that_cannot(qtbot: QtBot) -> None:
    def launch(say: Callable[[Text], None]) -> EngineClient:
        raise MachineCannot(Text("test", "no user namespaces", "没有用户命名空间"))

    def make_link(*, in_microvm: bool = False) -> EngineLink:
        return EngineLink(launch=launch)

    session = Session(make_link=make_link)
    session.open([("a.yaml", b"")])
    qtbot.waitUntil(lambda: session.state is State.FAILED)
    assert session.error is not None
    assert session.error.en == "no user namespaces"


def test_rules_connections_and_capture_of_a_real_lab(real_window: MainWindow, qtbot: QtBot, tmp_path: Path) -> None:
    window = real_window
    first_walk(window, qtbot)
    window.commands["view.rules"].trigger()
    rules = window.workspace.rules
    qtbot.waitUntil(lambda: rules.rules.rowCount() > 0, timeout=UP_MS)
    walk = window.player.walk
    assert walk is not None
    window.player.go_to(next(index for index, step in enumerate(walk.steps) if step.action == "DNAT"))
    assert str(rules.tree.currentIndex().data()).startswith("● ")
    window.commands["view.conntrack"].trigger()
    table = window.workspace.connections
    qtbot.waitUntil(lambda: table.entries.rowCount() > 0, timeout=UP_MS)
    assert str(table.entries.index(0, 0).data()) == "● tcp"
    table.table.selectRow(0)
    qtbot.mouseClick(table.delete, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: "● tcp" not in [str(table.entries.index(0, 0).data())], timeout=UP_MS)
    path = tmp_path / "walk.pcapng"
    window.export_capture(str(path))
    qtbot.waitUntil(lambda: path.exists() and path.stat().st_size > 1000, timeout=UP_MS)
    assert path.read_bytes()[:4] == b"\x0a\x0d\x0d\x0a"


def test_a_policy_is_changed_and_the_packet_goes_another_way(real_window: MainWindow, qtbot: QtBot) -> None:
    """The lost packet: one word of YAML, Apply, and it is answered."""
    window = real_window
    with qtbot.waitSignal(window.session.walk_made, timeout=UP_MS):
        window.open_file("local-policy")
    assert verdict_of(window) == "dropped"
    assert "none on this node" in window.workspace.banner.more.text()
    window.commands["view.yaml"].trigger()
    editor = window.workspace.yaml.editor
    editor.setPlainText(
        editor.toPlainText().replace("externalTrafficPolicy: Local\n", "externalTrafficPolicy: Cluster\n")
    )
    with qtbot.waitSignal(window.session.walk_made, timeout=UP_MS):
        window.workspace.yaml.apply.click()
    assert verdict_of(window) == "answered"
    window.commands["walk.compare-before"].trigger()
    text = window.workspace.compare.table.toPlainText()
    assert "before · iptables" in text
    assert "✗ dropped" in text
    assert "✓ answered" in text


def test_modes_of_a_real_lab_are_compared(real_window: MainWindow, qtbot: QtBot) -> None:
    window = real_window
    first_walk(window, qtbot)
    window.commands["view.compare"].trigger()
    qtbot.mouseClick(window.workspace.compare.button, Qt.MouseButton.LeftButton)
    comparing = window.workspace.comparing
    qtbot.waitUntil(lambda: not comparing.running and len(comparing.walks) == 2, timeout=UP_MS)
    assert {mode: walk.mode for mode, walk in comparing.walks.items()} == {m: m for m in ("iptables", "nftables")}


def test_a_running_lab_is_joined_and_goes_on(
    make_window: Callable[[Session], MainWindow], qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    folder = rendezvous.directory()
    with rendezvous.Listener(folder) as listener, start_engine(listener.socket, folder) as other:
        listener.socket.close()
        other.load([(str(EXAMPLE), EXAMPLE.read_bytes())], None)
        listener.publish("mine")
        other.call("engine.named", name=f"mine{rendezvous.SUFFIX}")
        other.start()
        window = make_window(Session())
        window.start_page.show_running(["mine"])
        window.open_file("mine")
        qtbot.waitUntil(lambda: window.session.state is State.READY, timeout=UP_MS)
        with qtbot.waitSignal(window.session.walk_made, timeout=UP_MS):
            window.commands["probe.send"].trigger()
        window.close()
        assert other.call("lab.describe")["name"] == "nodeport"


@pytest.mark.skipif(shutil.which("Xvfb") is None, reason="there is no Xvfb")
def test_the_first_journey_on_a_display(tmp_path: Path) -> None:
    """What offscreen lacks: a window manager's absence, activation, a real clipboard."""
    ours, theirs = os.pipe()
    with subprocess.Popen(
        ["Xvfb", "-displayfd", str(theirs), "-screen", "0", "1280x800x24", "-nolisten", "tcp"],
        pass_fds=[theirs],
        stderr=subprocess.DEVNULL,
    ) as server:
        try:
            os.close(theirs)
            display = os.read(ours, 16).decode().strip()
            environment = {**os.environ, "DISPLAY": f":{display}", "QT_QPA_PLATFORM": "xcb"}
            test = f"{__file__}::test_the_first_journey"
            ran = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 't'}", test],
                env=environment,
                capture_output=True,
                text=True,
                timeout=120,
            )
            assert ran.returncode == 0, ran.stdout + ran.stderr
        finally:
            os.close(ours)
            server.terminate()
