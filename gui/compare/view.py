"""Compare: the same probe in several modes, or a walk with the one before it."""

from __future__ import annotations

from html import escape

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtWidgets import QCheckBox, QFrame, QHBoxLayout, QLabel, QPushButton, QTextBrowser, QVBoxLayout, QWidget

from gui.compare.page import Column, Page
from gui.engine.comparing import Comparing
from gui.engine.session import Session, State
from gui.look.icons import icon
from gui.look.style import Look
from gui.window.probe_bar import ProbeBar
from gui.words.language import Language
from netlab.model.text import Message
from netlab.model.walk import Walk

MODES = ("iptables", "nftables", "ipvs", "userspace")
CHECKED = ("iptables", "nftables")
ABOUT = Message(
    "gui.compare.about",
    en="The probe above, sent in a fresh lab for each mode of kube-proxy.",
    zh="上面的探测包，在每种 kube-proxy 模式的全新实验中各发送一次。",
)
NAME = Message("gui.compare.name", en="Comparison of modes", zh="各模式的比较")
START = Message("gui.compare.start", en="Compare", zh="比较")
STOP = Message("gui.compare.stop", en="Stop", zh="停止")
WAITING = Message("gui.compare.waiting", en="waiting", zh="等待中")
BUILDING = Message("gui.compare.building", en="● building the lab…", zh="● 正在建立实验…")
BEFORE = Message("gui.compare.before", en="before · {mode}", zh="之前 · {mode}")
NOW = Message("gui.compare.now", en="now · {mode}", zh="现在 · {mode}")
EMPTY = Message(
    "gui.compare.empty",
    en="Choose modes and press Compare: verdict, endpoint, what the Pod sees and the rules passed, side by side.",
    zh="选择模式并点击“比较”：并排显示结果、端点、Pod 所见地址以及经过的规则。",
)


class CompareView(QWidget):
    """``walk_chosen`` with a walk that a person wants to see."""

    walk_chosen = Signal(object)

    def __init__(
        self, session: Session, comparing: Comparing, probe_bar: ProbeBar, look: Look, language: Language
    ) -> None:
        super().__init__()
        self.session, self.comparing, self.probe_bar = session, comparing, probe_bar
        self.look, self.language = look, language
        self._pair: tuple[Walk, Walk] | None = None
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 12, 14, 12)
        row = QHBoxLayout()
        row.setSpacing(14)
        about = QLabel()
        about.setObjectName("muted")
        about.setWordWrap(True)
        language.bind(about, about.setText, ABOUT)
        row.addWidget(about, 1)
        self.boxes: dict[str, QCheckBox] = {}
        for mode in MODES:
            box = self.boxes[mode] = QCheckBox(mode)
            box.setChecked(mode in CHECKED)
            box.toggled.connect(self._enable)
            row.addWidget(box)
        self.button = QPushButton()
        self.button.setObjectName("primary")
        self.button.clicked.connect(self.toggle)
        row.addWidget(self.button)
        column.addLayout(row)
        self.table = QTextBrowser()
        self.table.setOpenLinks(False)
        self.table.setFrameShape(QFrame.Shape.NoFrame)
        self.table.setTabChangesFocus(True)
        self.table.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextBrowserInteraction | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.table.anchorClicked.connect(self._show_walk)
        language.bind(self.table, self.table.setAccessibleName, NAME)
        column.addWidget(self.table, 1)
        comparing.changed.connect(self._show)
        session.state_changed.connect(self._enable)
        for signal in (look.changed, language.changed):
            signal.connect(self._show)
        self._show()

    def wanted(self) -> list[str]:
        return [mode for mode, box in self.boxes.items() if box.isChecked()]

    def toggle(self) -> None:
        """Start, or stop where it runs."""
        if self.comparing.running:
            self.comparing.stop()
        elif self.wanted() and self.session.sources:
            self._pair = None
            self.comparing.start(self.session.sources, self.probe_bar.words(), self.wanted())

    def _enable(self) -> None:
        ready = self.session.state is State.READY and bool(self.wanted())
        self.button.setEnabled(ready or self.comparing.running)

    def _show_walk(self, url: QUrl) -> None:
        number = url.toString().partition(":")[2]
        columns = self._columns()
        walk = columns[int(number)].walk if number.isdigit() and int(number) < len(columns) else None
        if walk is not None:
            self.walk_chosen.emit(walk)

    def show_pair(self, before: Walk, now: Walk) -> None:
        """Two walks: before and after a change."""
        if self.comparing.running:
            self.comparing.stop()
        self._pair = (before, now)
        self._show()

    def _columns(self) -> list[Column]:
        if self._pair is not None:
            titles = [
                self.language.say(text(mode=walk.mode)) for text, walk in zip((BEFORE, NOW), self._pair, strict=True)
            ]
            return [Column(title, walk) for title, walk in zip(titles, self._pair, strict=True)]
        comparing = self.comparing
        columns: list[Column] = []
        for mode in comparing.modes:
            error = comparing.errors.get(mode)
            word = error or (BUILDING if mode == comparing.current else WAITING)()
            columns.append(Column(mode, comparing.walks.get(mode), word, error is not None))
        return columns

    def _show(self) -> None:
        comparing, theme = self.comparing, self.look.theme
        self.button.setText(self.language.say(STOP if comparing.running else START))
        self.button.setIcon(icon("close" if comparing.running else "play", theme, theme.on_accent))
        self._enable()
        columns = self._columns()
        if not columns:
            self.table.setHtml(f'<p style="color:{theme.muted}">{escape(self.language.say(EMPTY))}</p>')
            return
        note = comparing.note if self._pair is None else None
        self.table.setHtml(Page(columns, theme, self.language).html(note))
