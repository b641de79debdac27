"""The one clock of a walk: which step is shown, and whether it plays. All views of the walk follow it."""

from __future__ import annotations

from PySide6.QtCore import QElapsedTimer, QObject, Qt, QTimer, Signal

from gui.values.timeline import Timeline
from netlab.model.story import Row, story
from netlab.model.walk import Step, Walk

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0)
TICK_MS = 16
BEHIND_MS = 33
"""Between two ticks while the window is not the one in use."""


class Player(QObject):
    """A walk and a moment in it. ``advance`` is the clock's hand: tests and pictures move it themselves."""

    walk_changed = Signal()
    step_changed = Signal(int)
    moved = Signal()
    playing_changed = Signal(bool)
    speed_changed = Signal(float)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.walk: Walk | None = None
        self.rows: list[Row] = []
        self.timeline: Timeline | None = None
        self.moment = 0.0
        self.index = 0
        self.speed = 1.0
        self.calm = False
        self._since = QElapsedTimer()
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setInterval(TICK_MS)
        self._timer.timeout.connect(self._tick)

    @property
    def playing(self) -> bool:
        return self._timer.isActive()

    @property
    def step(self) -> Step | None:
        return self.walk.steps[self.index] if self.walk is not None and self.walk.steps else None

    @property
    def length(self) -> float:
        return self.timeline.length if self.timeline is not None else 0.0

    def show(self, walk: Walk | None) -> None:
        """Another walk, at its beginning."""
        self.pause()
        self.walk = walk
        self.rows = story(walk) if walk is not None else []
        self.timeline = Timeline(walk) if walk is not None else None
        self.moment, self.index = 0.0, 0
        self.walk_changed.emit()
        self.step_changed.emit(self.index)
        self.moved.emit()

    def play(self) -> None:
        if self.timeline is None or self.playing or not self.timeline.beats:
            return
        if self.moment >= self.length:
            self.seek(0.0)
        self._since.start()
        self._timer.start()
        self.playing_changed.emit(True)

    def pause(self) -> None:
        if self.playing:
            self._timer.stop()
            self.playing_changed.emit(False)

    def toggle(self) -> None:
        self.pause() if self.playing else self.play()

    def set_speed(self, speed: float) -> None:
        self.speed = speed
        self.speed_changed.emit(speed)

    def set_in_front(self, in_front: bool) -> None:
        """A window behind others need not be drawn as often."""
        self._timer.setInterval(TICK_MS if in_front else BEHIND_MS)

    def advance(self, seconds: float) -> None:
        """Let so much time pass."""
        self.seek(self.moment + seconds * self.speed)
        if self.moment >= self.length:
            self.pause()

    def seek(self, moment: float) -> None:
        if self.timeline is None:
            return
        self.moment = min(max(moment, 0.0), self.length)
        index = self.timeline.step_at(self.moment)
        if index != self.index:
            self.index = index
            self.step_changed.emit(index)
        self.moved.emit()

    def travelled(self) -> tuple[int, float]:
        """The step that is shown, and how much of the way to it is done: all of it where nothing is to travel."""
        if self.timeline is None:
            return 0, 1.0
        return (self.index, 1.0) if self.calm else self.timeline.travelled(self.moment)

    def go_to(self, index: int) -> None:
        """Stand at a step."""
        if self.timeline is None or not self.timeline.beats:
            return
        index = min(max(index, 0), len(self.timeline.beats) - 1)
        beat = self.timeline.beats[index]
        self.pause()
        self.moment = beat.there
        if index != self.index:
            self.index = index
            self.step_changed.emit(index)
        self.moved.emit()

    def go_to_number(self, number: int) -> None:
        """Stand at the step with a number of the walk's."""
        if self.walk is not None:
            self.go_to(next((at for at, step in enumerate(self.walk.steps) if step.n == number), 0))

    def forward(self) -> None:
        self.go_to(self.index + 1)

    def back(self) -> None:
        self.go_to(self.index - 1)

    def next_row(self) -> None:
        """On to the next step that matters."""
        number = self.step.n if self.step is not None else 0
        row = next((each for each in self.rows if each.step.n > number), None)
        if row is not None:
            self.go_to_number(row.step.n)

    def previous_row(self) -> None:
        number = self.step.n if self.step is not None else 0
        row = next((each for each in reversed(self.rows) if each.step.n < number), None)
        if row is not None:
            self.go_to_number(row.step.n)

    def row_index(self) -> int:
        """The row that matters and that the shown step belongs to: the last one up to it."""
        number = self.step.n if self.step is not None else 0
        return max((at for at, row in enumerate(self.rows) if row.step.n <= number), default=0)

    def _tick(self) -> None:
        self.advance(self._since.restart() / 1000)
