"""Play, pause, step, speed and scrub: the controls of the player."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QSlider, QWidget

from gui.look.fonts import mono_font
from gui.look.style import Look
from gui.walk.player import SPEEDS, Player
from gui.window.commands import Commands, command_button
from gui.words.language import Language
from netlab.model.story import duration_text
from netlab.model.text import Message

SCRUB = Message("gui.transport.scrub", en="Moment of the walk", zh="旅程中的时刻")
SPEED = Message("gui.transport.speed", en="Speed", zh="速度")
TIME = Message(
    "gui.transport.time",
    en="{now} of {all} in the kernel's own time",
    zh="内核时间 {now}，共 {all}",
)


class Scrubber(QSlider):
    """A slider over the walk's length, with a mark for each step that changed or ended something."""

    def __init__(self, player: Player, look: Look) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self.player, self.look = player, look
        self.setMinimumHeight(24)
        self.setMinimumWidth(120)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSingleStep(100)
        self.setPageStep(1000)
        player.walk_changed.connect(self._measure)
        player.moved.connect(self._follow)
        self.valueChanged.connect(self._seek)
        self._measure()

    def _measure(self) -> None:
        self.blockSignals(True)
        self.setRange(0, max(1, int(self.player.length * 1000)))
        self.blockSignals(False)
        self._follow()

    def _follow(self) -> None:
        self.blockSignals(True)
        self.setValue(int(self.player.moment * 1000))
        self.blockSignals(False)
        self.update()

    def _seek(self, value: int) -> None:
        self.player.seek(value / 1000)

    def _span(self) -> tuple[float, float]:
        return 9.0, self.width() - 9.0

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        theme = self.look.theme
        left, right = self._span()
        middle = self.height() / 2
        share = self.value() / max(1, self.maximum())
        at = left + (right - left) * share
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(theme.border))
        painter.drawRoundedRect(QRectF(left, middle - 2, right - left, 4), 2, 2)
        painter.setBrush(QColor(theme.accent))
        painter.drawRoundedRect(QRectF(left, middle - 2, at - left, 4), 2, 2)
        self._draw_marks(painter, left, right, middle)
        painter.setBrush(QColor(theme.accent))
        painter.setPen(QColor(theme.surface))
        painter.drawEllipse(QPointF(at, middle), 7, 7)
        if self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QColor(theme.accent))
            painter.drawEllipse(QPointF(at, middle), 10, 10)

    def _draw_marks(self, painter: QPainter, left: float, right: float, middle: float) -> None:
        walk, timeline = self.player.walk, self.player.timeline
        if walk is None or timeline is None or not timeline.length:
            return
        theme = self.look.theme
        for step, beat in zip(walk.steps, timeline.beats, strict=True):
            x = left + (right - left) * beat.there / timeline.length
            ended = step.action in ("drop", "reject", "unanswered")
            if step.changed or ended:
                painter.setBrush(QColor(theme.refused if ended else theme.changed))
                mark = QRectF(x - 2.5, middle - 8, 5, 16)
                painter.drawRoundedRect(mark, 2, 2)

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Jump to where is pressed, and go on from there."""
        left, right = self._span()
        share = (event.position().x() - left) / max(1.0, right - left)
        self.setValue(int(min(max(share, 0.0), 1.0) * self.maximum()))
        event.accept()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        if event.buttons() & Qt.MouseButton.LeftButton:
            self.mousePressEvent(event)


class TransportBar(QWidget):
    """All of it in one row; the commands are those of the registry."""

    def __init__(self, player: Player, look: Look, language: Language, commands: Commands) -> None:
        super().__init__()
        self.player, self.language = player, language
        row = QHBoxLayout(self)
        row.setContentsMargins(10, 6, 10, 6)
        row.setSpacing(2)
        for name in ("walk.start", "walk.previous-row", "walk.back", "walk.play", "walk.forward", "walk.next-row"):
            row.addWidget(command_button(commands[name]))
        row.addSpacing(6)
        self.scrubber = Scrubber(player, look)
        language.bind(self.scrubber, self.scrubber.setAccessibleName, SCRUB)
        row.addWidget(self.scrubber, 1)
        row.addSpacing(6)
        self.time = QLabel()
        self.time.setObjectName("muted")
        self.time.setFont(mono_font())
        row.addWidget(self.time)
        row.addSpacing(8)
        self.speed = QComboBox()
        for speed in SPEEDS:
            self.speed.addItem(f"×{speed:g}", speed)
        self.speed.setCurrentIndex(SPEEDS.index(1.0))
        self.speed.activated.connect(lambda at: player.set_speed(SPEEDS[at]))
        player.speed_changed.connect(lambda speed: self.speed.setCurrentIndex(SPEEDS.index(speed)))
        language.bind(self.speed, self.speed.setAccessibleName, SPEED)
        language.bind(self.speed, self.speed.setToolTip, SPEED)
        row.addWidget(self.speed)
        player.step_changed.connect(self._show_time)
        player.walk_changed.connect(self._show_time)
        language.changed.connect(self._show_time)
        self._show_time()

    def _show_time(self) -> None:
        walk, step = self.player.walk, self.player.step
        self.setEnabled(step is not None)
        if walk is None or step is None:
            self.time.setText("")
            return
        self.time.setText(f"{step.n}/{len(walk.steps)}  {step.t_us / 1000:.3f} ms")
        last = duration_text(walk.steps[-1].t_us)
        self.time.setToolTip(self.language.say(TIME(now=duration_text(step.t_us), all=last)))
