"""The comparison as a table: a column for each mode, a row for each thing that may differ, and why."""

from __future__ import annotations

from html import escape

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtWidgets import QCheckBox, QFrame, QHBoxLayout, QLabel, QPushButton, QTextBrowser, QVBoxLayout, QWidget

from gui.engine.comparing import Comparing
from gui.engine.session import Session, State
from gui.look.fonts import mono_font
from gui.look.icons import icon
from gui.look.style import Look
from gui.window.probe_bar import ProbeBar
from gui.words.language import Language
from netlab.model.comparison import Comparison, ModeResult, compare
from netlab.model.story import MARKS
from netlab.model.text import Message, Text

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
SHOW = Message("gui.compare.show", en="show this walk", zh="查看此旅程")
EMPTY = Message(
    "gui.compare.empty",
    en="Choose modes and press Compare: verdict, endpoint, what the Pod sees and the rules passed, side by side.",
    zh="选择模式并点击“比较”：并排显示结果、端点、Pod 所见地址以及经过的规则。",
)
ROWS = {
    "verdict": Message("gui.compare.verdict", en="Verdict", zh="结果"),
    "endpoint": Message("gui.compare.endpoint", en="Endpoint", zh="端点"),
    "seen_by_pod": Message("gui.compare.seen", en="The Pod saw", zh="Pod 看到的地址"),
    "rules": Message("gui.compare.rules", en="Rules passed", zh="经过的规则"),
    "nat": Message("gui.compare.nat", en="Rewritten by", zh="改写"),
    "first_packet_us": Message("gui.compare.first-packet", en="First packet", zh="首包用时"),
}


class CompareView(QWidget):
    """``walk_chosen`` with a walk that a person wants to see."""

    walk_chosen = Signal(object)

    def __init__(
        self, session: Session, comparing: Comparing, probe_bar: ProbeBar, look: Look, language: Language
    ) -> None:
        super().__init__()
        self.session, self.comparing, self.probe_bar = session, comparing, probe_bar
        self.look, self.language = look, language
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
            self.comparing.start(self.session.sources, self.probe_bar.words(), self.wanted())

    def _enable(self) -> None:
        ready = self.session.state is State.READY and bool(self.wanted())
        self.button.setEnabled(ready or self.comparing.running)

    def _show_walk(self, url: QUrl) -> None:
        walk = self.comparing.walks.get(url.toString().partition(":")[2])
        if walk is not None:
            self.walk_chosen.emit(walk)

    def say(self, text: Text | Message) -> str:
        return escape(self.language.say(text))

    def _show(self) -> None:
        comparing, theme = self.comparing, self.look.theme
        self.button.setText(self.language.say(STOP if comparing.running else START))
        self.button.setIcon(icon("close" if comparing.running else "play", theme, theme.on_accent))
        self._enable()
        if not comparing.modes:
            self.table.setHtml(f'<p style="color:{theme.muted}">{self.say(EMPTY)}</p>')
            return
        walks = [comparing.walks[mode] for mode in comparing.modes if mode in comparing.walks]
        result = compare(walks) if walks else None
        self.table.setHtml(self._html(result))

    def _html(self, result: Comparison | None) -> str:
        theme = self.look.theme
        done = dict(zip(self._done(), result.modes if result else (), strict=True))
        pad = "padding:7px 18px 7px 0"
        line = f"border-bottom:1px solid {theme.border}"
        heads = "".join(f'<td style="{pad}; {line}"><b>{escape(mode)}</b></td>' for mode in self.comparing.modes)
        rows = [f'<tr><td style="{pad}; {line}"></td>{heads}</tr>']
        for name, title in ROWS.items():
            label = f'<td style="{pad}; color:{theme.muted}; white-space:nowrap">{self.say(title)}</td>'
            cells = "".join(
                f'<td style="{pad}">{self._cell(mode, name, done.get(mode))}</td>' for mode in self.comparing.modes
            )
            rows.append(f"<tr>{label}{cells}</tr>")
        links = "".join(
            f'<td style="{pad}"><a style="color:{theme.accent}" href="walk:{mode}">{self.say(SHOW)}</a></td>'
            if mode in done
            else "<td></td>"
            for mode in self.comparing.modes
        )
        rows.append(f"<tr><td></td>{links}</tr>")
        reasons = "".join(f"<p>≠ {self.say(each)}</p>" for each in (result.reasons if result else ()))
        note = self.comparing.note
        news = f'<p style="color:{theme.muted}">{self.say(note)}</p>' if note is not None else ""
        return f'<table cellspacing="0">{"".join(rows)}</table>{news}{reasons}'

    def _done(self) -> list[str]:
        return [mode for mode in self.comparing.modes if mode in self.comparing.walks]

    def _cell(self, mode: str, name: str, result: ModeResult | None) -> str:
        theme = self.look.theme
        if result is None:
            if name != "verdict":
                return ""
            error = self.comparing.errors.get(mode)
            if error is not None:
                return f'<span style="color:{theme.refused}">✗ {self.say(error)}</span>'
            word = BUILDING if mode == self.comparing.current else WAITING
            return f'<span style="color:{theme.muted}">{self.say(word)}</span>'
        text = self._value(result, name)
        if name in result.differs:
            style = f"background-color:{theme.changed_back}"
            return f'<span style="{style}">≠&nbsp;{text}</span>'
        return text

    def _value(self, result: ModeResult, name: str) -> str:
        theme = self.look.theme
        faces = escape(", ".join(f"'{family}'" for family in mono_font().families()))
        mono = f"font-family:{faces}; font-size:12px"
        if name == "verdict":
            colour = theme.verdict(result.verdict)
            return f'<b style="color:{colour}">{MARKS[result.verdict]} {escape(result.verdict)}</b>'
        if name == "nat":
            return "<br>".join(escape(each) for each in result.nat) or "–"
        if name == "first_packet_us":
            return f"{result.first_packet_us / 1000:.2f} ms" if result.first_packet_us is not None else "–"
        value = getattr(result, name)
        if name == "seen_by_pod":
            return f'<span style="{mono}; color:{theme.source}">{escape(str(value))}</span>' if value else "–"
        return escape(str(value)) if value is not None else "–"
