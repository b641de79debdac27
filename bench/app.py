"""The desktop app without a screen: start, frames of the animation, rows of frames, memory."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.figures import Figure, median

CHECKOUT = Path(__file__).parents[1]
ROWS = 100_000
MOVING = 50
SIZES = ((200, 1000 / 60), (2000, 1000 / 30))
"""Items of the drawing, and how long a frame may take, ms."""


def run(*, smoke: bool) -> Iterator[Figure]:
    """Each part in a process of its own: Qt is loaded once in each, as in the app."""
    rounds = 1 if smoke else 5
    starts = [_part("start") for _ in range(rounds + 1)][1:]
    yield Figure("app: first picture after start", median(starts), "ms", 1000, "offscreen, warm")
    for items, limit in SIZES:
        empty = _part("frames", "0")
        cost = _part("frames", str(items))
        yield Figure(f"app: frame, {items} items, {MOVING} packets", cost, "ms", limit, f"packets alone {empty:.2f} ms")
    yield Figure(f"app: {ROWS} rows of frames shown", _part("rows", str(2000 if smoke else ROWS)), "ms", 1000)
    yield Figure("app: memory with the NodePort lab", _part("memory"), "MiB", 250)


def _part(name: str, *arguments: str) -> float:
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "PYTHONPATH": str(CHECKOUT)}
    command = [sys.executable, "-m", "bench.app", name, *arguments]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(ran.stdout.split()[-1])


def start() -> float:
    began = time.perf_counter()
    from PySide6.QtWidgets import QApplication

    from gui.main import make_window
    from gui.settings import Settings

    app = QApplication(["kube-netlab"])
    with tempfile.TemporaryDirectory() as folder:
        window = make_window(app, Settings(Path(folder) / "app.ini"))
        window.show()
        app.processEvents()
        window.grab()
        took = (time.perf_counter() - began) * 1000
        window.close()
    return took


def frames(items: int) -> float:
    """Median time that the processor needs to move all packets and paint, ms."""
    from PySide6.QtCore import QPointF
    from PySide6.QtWidgets import QApplication

    from gui.look.style import Look
    from gui.topology.packet import PacketItem, Shown
    from gui.topology.view import TopologyView
    from gui.values.picture import Machine, NodeView, Picture, PodView
    from gui.walk.player import Player
    from gui.words.language import Language
    from netlab.model.walk import Step

    app = QApplication(["kube-netlab"])
    view = TopologyView(Player(), Look(app, "light"), Language())
    view.resize(1280, 800)
    view.show()
    pods = 20
    # A node is a room, five hooks and a link; a Pod a chip and a link.
    nodes = items // (7 + 2 * pods)
    picture = Picture(
        (Machine("client"),),
        Machine("router"),
        tuple(
            NodeView(f"node-{n}", pods=tuple(PodView(f"default/pod-{n}-{p}", ("10.0.0.1",)) for p in range(pods)))
            for n in range(nodes)
        ),
    )
    view.show_picture(picture if items else Picture())
    step = Step(
        n=1,
        t_us=0.0,
        direction="request",
        place="client",
        interface="eth0",
        hook=None,
        table=None,
        chain=None,
        rule=None,
        action="sent",
        source="192.168.1.100:40000",
        destination="10.96.0.1:80",
        changed=(),
        reason=None,
        origin=None,
        evidence=(),
    )
    area = view.sceneRect()
    packets = [PacketItem(view.pens) for _ in range(MOVING)]
    for packet in packets:
        packet.limits = area
        view.scene().addItem(packet)
    times: list[float] = []
    for frame in range(120):
        began = time.thread_time()
        for number, packet in enumerate(packets):
            x = area.left() + (number * 37 + frame * 3) % area.width()
            y = area.top() + (number * 53 + frame) % area.height()
            packet.show_packet(Shown(QPointF(x, y), step, None, "", False))
        app.processEvents()
        times.append((time.thread_time() - began) * 1000)
    return median(times)


def rows(count: int) -> float:
    """From frames that have arrived until they are seen in the table, ms."""
    from PySide6.QtWidgets import QApplication, QToolButton

    from gui.look.style import Look
    from gui.tables.frames import FramesView, rows_of
    from gui.values.moment import FrameSeen
    from gui.walk.player import Player
    from gui.words.language import Language

    app = QApplication(["kube-netlab"])
    view = FramesView(Player(), Look(app, "light"), Language(), QToolButton())
    view.resize(1000, 400)
    view.show()
    app.processEvents()
    data = bytes(12) + b"\x08\0" + b"\x45\0\0\x28" + bytes(4) + b"\x40\x06\0\0" + bytes(8) + bytes(20)
    seen = [FrameSeen(f"frame:a/eth0#{n}", "a", "eth0", "in", n * 1000, data, len(data)) for n in range(count)]
    began = time.perf_counter()
    view.frames.show(rows_of(seen), "")
    view.table.scrollToBottom()
    app.processEvents()
    view.table.grab()
    return (time.perf_counter() - began) * 1000


def memory() -> float:
    """Resident memory with a lab up and its walk played, MiB."""
    from PySide6.QtWidgets import QApplication

    from gui.main import make_window
    from gui.settings import Settings

    app = QApplication(["kube-netlab"])
    with tempfile.TemporaryDirectory() as folder:
        window = make_window(app, Settings(Path(folder) / "app.ini"))
        window.show()
        window.session.walk_made.connect(lambda _: window.player.set_speed(4.0))
        window.player.playing_changed.connect(lambda playing: None if playing else app.quit())
        window.open_file("nodeport")
        app.exec()
        lines = Path("/proc/self/status").read_text().splitlines()
        window.close()
    return int(next(line.split()[1] for line in lines if line.startswith("VmRSS:"))) / 1024


if __name__ == "__main__":
    parts = {"start": start, "memory": memory}
    sized = {"frames": frames, "rows": rows}
    name = sys.argv[1]
    print(parts[name]() if name in parts else sized[name](int(sys.argv[2])))
