"""The packet on the drawing: the way it has come, the dot, and its two addresses beside it."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPainterPath
from PySide6.QtWidgets import QGraphicsItem, QStyleOptionGraphicsItem, QWidget

from gui.look.fonts import mono_font, text_font
from gui.topology.items import Pens, cosmetic
from netlab.model.walk import Step

PAD = 7.0
LINE = 16.0
DOT = 7.0


@dataclass(frozen=True)
class Shown:
    """What the packet shows: where it is, the step, and its addresses before it where the step changed them.

    ``lift``: how far above the dot its label is, to leave what is written there readable.
    """

    at: QPointF
    step: Step
    before: Step | None
    action: str
    arrived: bool
    lift: float = 0.0


class PacketItem(QGraphicsItem):
    """One item for dot, label and trail: one moves, and nothing else is drawn again."""

    def __init__(self, pens: Pens) -> None:
        super().__init__()
        self.pens = pens
        self.shown: Shown | None = None
        self.limits = QRectF()
        self._bounds = QRectF()
        self._mono = mono_font(12)
        self._bold = text_font(12, bold=True)
        self.setZValue(10)

    def show_packet(self, shown: Shown | None) -> None:
        self.prepareGeometryChange()
        self.shown = shown
        if shown is None:
            self._bounds = QRectF()
        else:
            dot = QRectF(shown.at.x() - 14, shown.at.y() - 14, 28, 28)
            self._bounds = dot.united(self._label(shown)).adjusted(-3, -3, 3, 3)
        self.update()

    def boundingRect(self) -> QRectF:  # noqa: N802
        return self._bounds

    def _lines(self, shown: Shown) -> list[tuple[str, str, str, bool]]:
        """Word, address, the address before, and whether it changed in this step."""
        step, before = shown.step, shown.before
        changed = step.changed if shown.arrived else ()
        source, destination = step.source, step.destination
        if not shown.arrived and before is not None and step.changed:
            source, destination = before.source, before.destination
        return [
            ("src", source, before.source if before is not None else "", "source" in changed),
            ("dst", destination, before.destination if before is not None else "", "destination" in changed),
        ]

    def _label(self, shown: Shown) -> QRectF:
        metrics = QFontMetricsF(self._mono)
        lines = self._lines(shown)
        width = max(metrics.horizontalAdvance(f"dst {address}") for _, address, _, _ in lines) + 2 * PAD + 10
        height = 2 * LINE + 2 * PAD - 4
        if self._has_action(shown):
            height += LINE + 4
            action = QFontMetricsF(self._bold).horizontalAdvance(shown.action) + 2 * PAD + 24
            width = max(width, action)
        rect = QRectF(shown.at.x() - width / 2, shown.at.y() - DOT - 12 - shown.lift - height, width, height)
        if rect.top() < self.limits.top():
            rect.moveTop(shown.at.y() + DOT + 12)
        rect.moveLeft(min(max(rect.left(), self.limits.left()), self.limits.right() - width))
        return rect

    def _has_action(self, shown: Shown) -> bool:
        step = shown.step
        return bool(shown.arrived and (step.changed or step.action in ("drop", "reject")))

    def paint(self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None) -> None:
        shown = self.shown
        if shown is None:
            return
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._draw_dot(painter, shown)
        self._draw_label(painter, shown)

    def _draw_dot(self, painter: QPainter, shown: Shown) -> None:
        theme, at = self.pens.theme, shown.at
        lost = shown.arrived and shown.step.action in ("drop", "reject", "unanswered")
        colour = QColor(theme.refused if lost else theme.changed if self._has_action(shown) else theme.accent)
        halo = QColor(colour)
        halo.setAlpha(60)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(halo)
        painter.drawEllipse(at, DOT + 5, DOT + 5)
        painter.setPen(cosmetic(theme.surface, 2))
        painter.setBrush(colour)
        painter.drawEllipse(at, DOT, DOT)
        painter.setPen(cosmetic(theme.surface, 1.8))
        if lost:
            painter.drawLine(at + QPointF(-3, -3), at + QPointF(3, 3))
            painter.drawLine(at + QPointF(-3, 3), at + QPointF(3, -3))

    def _draw_label(self, painter: QPainter, shown: Shown) -> None:
        theme = self.pens.theme
        rect = self._label(shown)
        acted = self._has_action(shown)
        painter.setPen(cosmetic(theme.changed if acted else theme.border, 1.4))
        painter.setBrush(QColor(theme.surface))
        painter.drawRoundedRect(rect, 7, 7)
        y = rect.top() + PAD - 2
        if acted:
            painter.setFont(self._bold)
            painter.setPen(QColor(theme.changed if shown.step.changed else theme.refused))
            painter.drawText(
                QRectF(rect.left() + PAD, y, rect.width(), LINE), Qt.AlignmentFlag.AlignVCenter, shown.action
            )
            y += LINE + 4
        painter.setFont(self._mono)
        metrics = QFontMetricsF(self._mono)
        for word, address, _, changed in self._lines(shown):
            line = QRectF(rect.left() + PAD, y, rect.width() - 2 * PAD, LINE)
            if changed:
                back = QRectF(line.left() + metrics.horizontalAdvance("src "), y, 0, LINE)
                back.setWidth(metrics.horizontalAdvance(address) + 4)
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(QColor(theme.changed_back))
                painter.drawRoundedRect(back.adjusted(-3, 0, 0, 0), 3, 3)
            painter.setPen(QColor(theme.faint))
            painter.drawText(line, Qt.AlignmentFlag.AlignVCenter, word)
            painter.setPen(QColor(theme.source if word == "src" else theme.destination))
            painter.drawText(
                line.adjusted(metrics.horizontalAdvance("src "), 0, 8, 0), Qt.AlignmentFlag.AlignVCenter, address
            )
            y += LINE


class TrailItem(QGraphicsItem):
    """The way that the packet has come: request solid, reply dotted beside it."""

    def __init__(self, pens: Pens) -> None:
        super().__init__()
        self.pens = pens
        self._request = QPainterPath()
        self._reply = QPainterPath()
        self.setZValue(0.5)

    def show_way(self, request: QPainterPath, reply: QPainterPath) -> None:
        self.prepareGeometryChange()
        self._request, self._reply = request, reply
        self.update()

    def boundingRect(self) -> QRectF:  # noqa: N802
        return self._request.boundingRect().united(self._reply.boundingRect()).adjusted(-6, -6, 6, 6)

    def paint(self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        colour = QColor(self.pens.theme.accent)
        colour.setAlpha(170)
        painter.setPen(cosmetic(colour.name(QColor.NameFormat.HexArgb), 2.4))
        painter.drawPath(self._request)
        colour = QColor(self.pens.theme.answered)
        colour.setAlpha(200)
        painter.setPen(cosmetic(colour.name(QColor.NameFormat.HexArgb), 2.4, Qt.PenStyle.DotLine))
        painter.drawPath(self._reply)
