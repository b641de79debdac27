"""What came of the probe, in words: the answer first, what to remember, and what to try where it failed."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from gui.look.icons import pixmap
from gui.look.style import Look
from gui.walk.player import Player
from gui.words.language import Language
from netlab.model.story import duration_text, verdict_text
from netlab.model.summaries import advice, round_trip_us, summary
from netlab.model.text import Message, Text
from netlab.model.walk import Walk

PROBE = Message("gui.banner.probe", en="{sender} → {to}, {protocol}", zh="{sender} → {to}，{protocol}")
AFTER = Message("gui.banner.after", en="{verdict} in {time}", zh="{verdict}，用时 {time}")
TRY = Message("gui.banner.try", en="What to look at: {advice}", zh="建议检查：{advice}")
GAP = Message("gui.banner.gap", en="Not observed: {what}", zh="未观察到：{what}")
ICONS = {"answered": "done", "no-reply": "unknown"}


class VerdictBanner(QWidget):
    """A band in the verdict's colour, with its shape and its words."""

    def __init__(self, player: Player, look: Look, language: Language) -> None:
        super().__init__()
        self.player, self.look, self.language = player, look, language
        self._colour: str | None = None
        row = QHBoxLayout(self)
        row.setContentsMargins(14, 8, 12, 8)
        row.setSpacing(10)
        self.icon = QLabel()
        self.icon.setFixedSize(20, 20)
        row.addWidget(self.icon, 0, Qt.AlignmentFlag.AlignTop)
        words = QVBoxLayout()
        words.setSpacing(2)
        self.answer = QLabel()
        self.more = QLabel()
        for label in (self.answer, self.more):
            label.setWordWrap(True)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            label.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
            words.addWidget(label)
        row.addLayout(words, 1)
        for signal in (player.walk_changed, look.changed, language.changed):
            signal.connect(self._show)
        self._show()

    def _show(self) -> None:
        walk, theme = self.player.walk, self.look.theme
        self.setVisible(walk is not None)
        if walk is None:
            return
        self._colour = theme.verdict(walk.verdict)
        self.icon.setPixmap(pixmap(ICONS.get(walk.verdict, "failed"), self._colour, 20))
        probe = self.language.say(
            PROBE(sender=walk.probe.from_, to=walk.probe.to, protocol=walk.probe.protocol.upper())
        )
        answer = sentence(self.language.say(answer_text(walk)))
        self.answer.setText(
            f'<span style="color:{self._colour}; font-weight:600; font-size:15px">{answer}</span>'
            f'<span style="color:{theme.muted}">&nbsp;&nbsp;&nbsp;{probe}</span>'
        )
        lines = [self.language.say(summary(walk))]
        tip = advice(walk)
        cause = next((step.reason for step in walk.steps if step.action in ("drop", "reject")), None)
        if cause is not None and cause != tip:
            lines = [self.language.say(cause)]
        if tip is not None:
            lines.append(f"<b>{self.language.say(TRY(advice=tip))}</b>")
        lines += [f"⚠ {self.language.say(GAP(what=gap.reason))}" for gap in walk.gaps]
        self.more.setText("<br>".join(lines))
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        colour = QColor(self._colour or self.look.theme.border)
        tint = QColor(colour)
        tint.setAlpha(26)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(tint)
        painter.drawRoundedRect(self.rect(), 8, 8)
        painter.setBrush(colour)
        painter.drawRoundedRect(0, 0, 4, self.height(), 2, 2)


def answer_text(walk: Walk) -> Text:
    """The verdict, and how long it took."""
    verdict = verdict_text(walk)
    time = round_trip_us(walk)
    return AFTER(verdict=verdict, time=duration_text(time)) if time is not None else verdict


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
