"""The ladder diagram, bound to the step that is shown. Only the rows in sight are painted."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPolygonF, QResizeEvent
from PySide6.QtWidgets import QAbstractScrollArea, QFrame

from gui.look.fonts import mono_font, text_font
from gui.look.style import Look
from gui.topology.items import cosmetic
from gui.values.ladder import Ladder, Rung, ladder
from gui.walk.player import Player
from gui.words.language import Language
from netlab.model.story import Names, action_text
from netlab.model.text import Message

HEAD = 40
TIME_W = 78
ROW = {"move": 40, "act": 58, "pass": 26, "stand": 34}
COLUMN_MIN = 150
NAME = Message(
    "gui.ladder.name",
    en="Ladder: places across, time down; the same steps are in the table of the walk",
    zh="阶梯图：横向为位置，纵向为时间；相同的步骤见旅程表",
)
EMPTY = Message(
    "gui.ladder.empty",
    en="The walk of a probe is drawn here: places across, time down.",
    zh="探测包的旅程将画在这里：横向为位置，纵向为时间。",
)


class LadderView(QAbstractScrollArea):
    """Click or arrow keys choose a step."""

    def __init__(self, player: Player, look: Look, language: Language) -> None:
        super().__init__()
        self.player, self.look, self.language = player, look, language
        self.ladder = Ladder((), ())
        self._tops: list[int] = []
        self._names: Names | None = None
        self._mono, self._text, self._bold = mono_font(11), text_font(12), text_font(12, bold=True)
        self._small = text_font(10, bold=True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.verticalScrollBar().setSingleStep(24)
        language.bind(self, self.setAccessibleName, NAME)
        player.walk_changed.connect(self._show_walk)
        player.step_changed.connect(self._follow)
        for signal in (look.changed, language.changed):
            signal.connect(self.viewport().update)
        self._show_walk()

    def _show_walk(self) -> None:
        walk = self.player.walk
        self.ladder = ladder(walk) if walk is not None else Ladder((), ())
        self._names = Names(walk) if walk is not None else None
        self._tops, top = [], HEAD + 8
        for rung in self.ladder.rungs:
            self._tops.append(top)
            top += ROW[rung.kind]
        self._tops.append(top)
        self._scroll_range()
        self.verticalScrollBar().setValue(0)
        self.viewport().update()

    def _scroll_range(self) -> None:
        height = (self._tops[-1] if self._tops else 0) + 12
        self.verticalScrollBar().setRange(0, max(0, height - self.viewport().height()))
        self.verticalScrollBar().setPageStep(self.viewport().height())
        width = TIME_W + COLUMN_MIN * len(self.ladder.columns)
        self.horizontalScrollBar().setRange(0, max(0, width - self.viewport().width()))
        self.horizontalScrollBar().setPageStep(self.viewport().width())

    def _follow(self) -> None:
        if self.ladder.rungs:
            at = self.ladder.rung_of(self.player.index)
            scroll = self.verticalScrollBar()
            top, bottom = self._tops[at] - HEAD - 8, self._tops[at + 1]
            if top < scroll.value():
                scroll.setValue(top)
            elif bottom > scroll.value() + self.viewport().height():
                scroll.setValue(bottom - self.viewport().height() + 12)
        self.viewport().update()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        self._scroll_range()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        key = event.key()
        if key in (Qt.Key.Key_Down, Qt.Key.Key_Up) and self.ladder.rungs:
            at = self.ladder.rung_of(self.player.index) + (1 if key == Qt.Key.Key_Down else -1)
            if 0 <= at < len(self.ladder.rungs):
                self.player.go_to_number(self.ladder.rungs[at].step.n)
        elif key == Qt.Key.Key_Space:
            self.player.toggle()
        else:
            super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        y = event.position().y() + self.verticalScrollBar().value()
        for at, rung in enumerate(self.ladder.rungs):
            if self._tops[at] <= y < self._tops[at + 1]:
                self.player.go_to_number(rung.step.n)
                return

    # Painting

    def _x(self, column: int) -> float:
        width = max(COLUMN_MIN * len(self.ladder.columns), self.viewport().width() - TIME_W)
        share = width / max(1, len(self.ladder.columns))
        return TIME_W + share * (column + 0.5) - self.horizontalScrollBar().value()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        theme = self.look.theme
        area = QRectF(self.viewport().rect())
        painter.fillRect(area, QColor(theme.surface))
        if not self.ladder.rungs:
            painter.setPen(QColor(theme.muted))
            painter.setFont(text_font())
            painter.drawText(area, Qt.AlignmentFlag.AlignCenter, self.language.say(EMPTY))
            return
        offset = self.verticalScrollBar().value()
        self._draw_lifelines(painter, area)
        current = self.ladder.rung_of(self.player.index)
        for at, rung in enumerate(self.ladder.rungs):
            top, bottom = self._tops[at] - offset, self._tops[at + 1] - offset
            if bottom >= HEAD and top <= area.height():
                self._draw_rung(painter, rung, QRectF(0, top, area.width(), bottom - top), current=at == current)
        self._draw_head(painter, area)
        if self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(cosmetic(theme.accent))
            painter.drawRoundedRect(area.adjusted(1, 1, -1, -1), 6, 6)

    def _draw_lifelines(self, painter: QPainter, area: QRectF) -> None:
        painter.setPen(cosmetic(self.look.theme.border, 1.4))
        for column in range(len(self.ladder.columns)):
            x = self._x(column)
            painter.drawLine(QPointF(x, HEAD), QPointF(x, area.height()))

    def _draw_head(self, painter: QPainter, area: QRectF) -> None:
        theme = self.look.theme
        painter.fillRect(QRectF(0, 0, area.width(), HEAD), QColor(theme.surface))
        painter.setFont(self._bold)
        for column, place in enumerate(self.ladder.columns):
            name = self._names.place(place) if self._names is not None else place
            width = min(QFontMetricsF(self._bold).horizontalAdvance(name) + 24, COLUMN_MIN)
            box = QRectF(self._x(column) - width / 2, 7, width, HEAD - 12)
            painter.setPen(cosmetic(theme.border, 1.2))
            painter.setBrush(QColor(theme.pod if "/" in place else theme.node))
            painter.drawRoundedRect(box, 6, 6)
            painter.setPen(QColor(theme.text))
            painter.drawText(box, Qt.AlignmentFlag.AlignCenter, name)

    def _draw_rung(self, painter: QPainter, rung: Rung, row: QRectF, *, current: bool) -> None:
        theme = self.look.theme
        if current:
            painter.fillRect(row, QColor(theme.selection))
            painter.fillRect(QRectF(0, row.top(), 3, row.height()), QColor(theme.accent))
        painter.setFont(self._mono)
        painter.setPen(QColor(theme.muted if current else theme.faint))
        time = QRectF(10, row.top(), TIME_W, row.height())
        if rung.kind != "pass":
            painter.drawText(time, Qt.AlignmentFlag.AlignVCenter, f"{rung.step.t_us / 1000:.3f} ms")
        if rung.kind == "move":
            self._draw_move(painter, rung, row)
        elif rung.kind == "act":
            self._draw_act(painter, rung, row)
        elif rung.kind == "pass":
            self._draw_pass(painter, rung, row)
        else:
            self._draw_stand(painter, rung, row)

    def _draw_move(self, painter: QPainter, rung: Rung, row: QRectF) -> None:
        theme = self.look.theme
        colour = theme.accent if rung.step.direction == "request" else theme.answered
        begin, end = self._x(rung.column), self._x(rung.to_column)
        y = row.top() + 28
        ahead = 1 if end > begin else -1
        style = Qt.PenStyle.SolidLine if rung.step.direction == "request" else Qt.PenStyle.DashLine
        painter.setPen(cosmetic(colour, 1.8, style))
        painter.drawLine(QPointF(begin, y), QPointF(end - ahead * 6, y))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(colour))
        tip = QPointF(end, y)
        painter.drawPolygon(QPolygonF([tip, tip + QPointF(-ahead * 9, -4.5), tip + QPointF(-ahead * 9, 4.5)]))
        self._addresses(painter, rung, (begin + end) / 2, row.top() + 6)

    def _draw_act(self, painter: QPainter, rung: Rung, row: QRectF) -> None:
        theme, step = self.look.theme, rung.step
        lost = step.action in ("drop", "reject")
        edge = theme.refused if lost else theme.changed
        table = f"{step.table} " if step.table else ""
        title = f"{table}{step.hook}: {self.language.say(action_text(step))}"
        addresses = f"{step.source} → {step.destination}"
        width = max(
            QFontMetricsF(self._bold).horizontalAdvance(title), QFontMetricsF(self._mono).horizontalAdvance(addresses)
        )
        x = min(max(self._x(rung.column), TIME_W + width / 2 + 14), self.viewport().width() - width / 2 - 16)
        box = QRectF(x - width / 2 - 12, row.top() + 5, width + 24, row.height() - 10)
        painter.setPen(cosmetic(edge, 1.6))
        painter.setBrush(QColor(theme.changed_back if not lost else theme.surface))
        painter.drawRoundedRect(box, 7, 7)
        painter.setFont(self._bold)
        painter.setPen(QColor(theme.text if not lost else edge))
        half = box.height() / 2
        upper = QRectF(box.left(), box.top() + 3, box.width(), half - 2)
        painter.drawText(upper, Qt.AlignmentFlag.AlignCenter, title)
        self._addresses(painter, rung, box.center().x(), box.top() + half)

    def _draw_pass(self, painter: QPainter, rung: Rung, row: QRectF) -> None:
        theme = self.look.theme
        text = rung.step.hook or ""
        width = QFontMetricsF(self._small).horizontalAdvance(text) + 16
        box = QRectF(self._x(rung.column) - width / 2, row.top() + 4, width, row.height() - 8)
        painter.setPen(cosmetic(theme.border, 1))
        painter.setBrush(QColor(theme.hook))
        painter.drawRoundedRect(box, 4, 4)
        painter.setFont(self._small)
        painter.setPen(QColor(theme.muted))
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)

    def _draw_stand(self, painter: QPainter, rung: Rung, row: QRectF) -> None:
        theme, step = self.look.theme, rung.step
        x, y = self._x(rung.column), row.center().y()
        lost = step.action == "unanswered"
        painter.setPen(cosmetic(theme.surface, 2))
        painter.setBrush(QColor(theme.refused if lost else theme.accent))
        painter.drawEllipse(QPointF(x, y), 5.5, 5.5)
        if step.reason is None:
            return
        text = self.language.say(step.reason)
        painter.setFont(self._text)
        metrics = QFontMetricsF(self._text)
        right_room, left_room = self.viewport().width() - x - 24, x - TIME_W - 24
        room = max(right_room, left_room)
        shown = metrics.elidedText(text, Qt.TextElideMode.ElideRight, min(room, 420))
        width = metrics.horizontalAdvance(shown)
        left = x + 14 if right_room >= left_room else x - 14 - width
        back = QRectF(left - 3, y - 9, width + 6, 18)
        self._clear_behind(painter, back, rung)
        painter.setPen(QColor(theme.text))
        painter.drawText(back.adjusted(3, 0, 3, 0), Qt.AlignmentFlag.AlignVCenter, shown)

    def _addresses(self, painter: QPainter, rung: Rung, centre: float, top: float) -> None:
        theme, step = self.look.theme, rung.step
        metrics = QFontMetricsF(self._mono)
        arrow = " → "
        widths = [metrics.horizontalAdvance(each) for each in (step.source, arrow, step.destination)]
        left = min(max(centre - sum(widths) / 2, TIME_W + 4), self.viewport().width() - sum(widths) - 6)
        painter.setFont(self._mono)
        if rung.kind == "move":
            self._clear_behind(painter, QRectF(left - 3, top, sum(widths) + 6, 16), rung)
        colours = (theme.source, theme.faint, theme.destination)
        for text, width, colour in zip((step.source, arrow, step.destination), widths, colours, strict=True):
            painter.setPen(QColor(colour))
            painter.drawText(QRectF(left, top, width + 2, 16), Qt.AlignmentFlag.AlignVCenter, text)
            left += width

    def _clear_behind(self, painter: QPainter, area: QRectF, rung: Rung) -> None:
        """Lifelines do not run through words."""
        theme = self.look.theme
        current = self.ladder.rungs[self.ladder.rung_of(self.player.index)] is rung
        painter.fillRect(area, QColor(theme.selection if current else theme.surface))
