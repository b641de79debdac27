"""What is drawn of the lab itself. Solid is what exists; dashed is what only rules know of: a Service's address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QFont, QFontMetricsF, QPainter, QPainterPath, QPen
from PySide6.QtWidgets import QGraphicsItem, QStyle, QStyleOptionGraphicsItem, QWidget

from gui.look.fonts import mono_font, text_font
from gui.look.theme import Theme
from gui.topology.layout import NodePlan, Point, Rect, Way
from gui.values.picture import Machine, NodeView, PodView, ServiceView

LEGIBLE = 0.35
"""Below this scale text is left out."""


@dataclass(frozen=True)
class Pens:
    """What all items draw with."""

    theme: Theme
    title: QFont
    text: QFont
    mono: QFont
    small: QFont

    @staticmethod
    def of(theme: Theme) -> Pens:
        return Pens(theme, text_font(13, bold=True), text_font(12), mono_font(11), text_font(10, bold=True))


def rect_of(rect: Rect) -> QRectF:
    return QRectF(rect.x, rect.y, rect.w, rect.h)


def point_of(point: Point) -> QPointF:
    return QPointF(point.x, point.y)


def cosmetic(colour: str, width: float = 1.0, style: Qt.PenStyle = Qt.PenStyle.SolidLine) -> QPen:
    pen = QPen(QColor(colour), width, style)
    pen.setCapStyle(Qt.PenCapStyle.RoundCap)
    pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
    return pen


def rounded_path(points: Sequence[Point], radius: float = 8.0) -> QPainterPath:
    """A line along the points with round corners."""
    path = QPainterPath(point_of(points[0]))
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        path.lineTo(_towards(corner, before, radius))
        path.quadTo(point_of(corner), _towards(corner, after, radius))
    path.lineTo(point_of(points[-1]))
    return path


def _towards(corner: Point, other: Point, radius: float) -> QPointF:
    dx, dy = other.x - corner.x, other.y - corner.y
    length = max((dx * dx + dy * dy) ** 0.5, 0.001)
    part = min(radius, length / 2) / length
    return QPointF(corner.x + dx * part, corner.y + dy * part)


class Item(QGraphicsItem):
    """A thing that can be pointed at; ``name`` is the place's or the Service's."""

    def __init__(self, name: str, rect: QRectF, pens: Pens) -> None:
        super().__init__()
        self.name = name
        self.rect = rect
        self.pens = pens
        self.setFlag(QGraphicsItem.GraphicsItemFlag.ItemIsSelectable)
        self.setAcceptHoverEvents(True)

    def boundingRect(self) -> QRectF:  # noqa: N802
        return self.rect.adjusted(-3, -3, 3, 3)

    def paint(self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self.draw(painter, legible=option.levelOfDetailFromTransform(painter.worldTransform()) >= LEGIBLE)
        if option.state & QStyle.StateFlag.State_Selected:
            painter.setPen(cosmetic(self.pens.theme.accent, 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(self.rect.adjusted(-2, -2, 2, 2), 10, 10)

    def draw(self, painter: QPainter, *, legible: bool) -> None:
        raise NotImplementedError


class MachineItem(Item):
    """A client or the router."""

    def __init__(self, machine: Machine, rect: Rect, pens: Pens) -> None:
        super().__init__(machine.name, rect_of(rect), pens)
        self.machine = machine
        self.setZValue(1)
        self.setToolTip("\n".join((machine.name, *machine.addresses)))

    def draw(self, painter: QPainter, *, legible: bool) -> None:
        theme = self.pens.theme
        painter.setPen(cosmetic(theme.border, 1.2))
        painter.setBrush(QColor(theme.node))
        painter.drawRoundedRect(self.rect, 8, 8)
        if legible:
            middle = self.rect.center().y()
            _centred(painter, self.pens.title, theme.text, self.rect, middle - 24, self.machine.name)
            for number, address in enumerate(self.machine.addresses[:2]):
                _centred(painter, self.pens.mono, theme.muted, self.rect, middle + 4 + 15 * number, address)


class NodeItem(Item):
    """A node's room, the bar that its Pods hang on, and the wires to them; from afar, all of it in outline."""

    def __init__(self, node: NodeView, plan: NodePlan, pods: Sequence[Rect], wires: Sequence[Way], pens: Pens) -> None:
        super().__init__(node.name, rect_of(plan.room), pens)
        self.node, self.plan = node, plan
        self._chips = [rect_of(each) for each in pods]
        self._ways = wires

    def draw(self, painter: QPainter, *, legible: bool) -> None:
        theme, room = self.pens.theme, self.rect
        painter.setPen(cosmetic(theme.border, 1.4))
        painter.setBrush(QColor(theme.node))
        painter.drawRoundedRect(room, 10, 10)
        if not legible:
            self._draw_outline(painter)
            return
        self._draw_header(painter)
        self._draw_flow(painter)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(cosmetic(theme.faint, 1.6))
        painter.drawPath(self._wires)
        self._draw_wiring(painter)

    @cached_property
    def _wires(self) -> QPainterPath:
        """Made when it is near enough to be drawn."""
        path = QPainterPath()
        for way in self._ways:
            path.addPath(rounded_path(way))
        return path

    def _draw_outline(self, painter: QPainter) -> None:
        """Its name as large as the room has space for, and a dot for each Pod."""
        theme, room = self.pens.theme, self.rect
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(theme.faint))
        painter.drawRects([chip.adjusted(4, 3, -4, -3) for chip in self._chips])
        font = QFont(self.pens.title)
        font.setPixelSize(44)
        area = QRectF(room.x() + 16, room.y(), self.plan.bar_x - room.x() - 24, room.height())
        _text(painter, font, theme.text, area, self.node.name)

    def _draw_header(self, painter: QPainter) -> None:
        theme, room = self.pens.theme, self.rect
        line = QRectF(room.x() + 14, room.y() + 6, room.width() - 28, 22)
        _text(painter, self.pens.title, theme.text, line, self.node.name)
        indent = QFontMetricsF(self.pens.title).horizontalAdvance(self.node.name) + 10
        _text(painter, self.pens.mono, theme.muted, line.adjusted(indent, 1, 0, 0), "  ".join(self.node.addresses[:2]))
        if self.node.mode:
            text = f"kube-proxy · {self.node.mode}"
            _text(painter, self.pens.text, theme.faint, line, text, Qt.AlignmentFlag.AlignRight)

    def _draw_flow(self, painter: QPainter) -> None:
        """The ways between the hooks: PREROUTING, a routing decision, INPUT or FORWARD, POSTROUTING."""
        hooks = {name: rect_of(rect) for name, rect in self.plan.hooks.items()}
        painter.setPen(cosmetic(self.pens.theme.border, 1.2))
        for above, below in (("INPUT", "PREROUTING"), ("FORWARD", "PREROUTING")):
            x = hooks[above].center().x()
            _arrow(painter, QPointF(x, hooks[below].bottom()), QPointF(x, hooks[above].top()))
        for above in ("FORWARD", "OUTPUT"):
            x = hooks[above].center().x()
            _arrow(painter, QPointF(x, hooks[above].bottom()), QPointF(x, hooks["POSTROUTING"].top()))

    def _draw_wiring(self, painter: QPainter) -> None:
        theme, plan = self.pens.theme, self.plan
        painter.setPen(cosmetic(theme.faint, 1.2))
        painter.setBrush(QColor(theme.surface))
        painter.drawEllipse(point_of(plan.port), 4.5, 4.5)
        _text(painter, self.pens.mono, theme.muted, QRectF(plan.port.x + 9, plan.port.y - 20, 60, 16), "eth0")
        if not self.node.pods:
            return
        bar = QRectF(plan.bar_x - 2.5, plan.bar_top, 5, plan.bar_bottom - plan.bar_top)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(theme.faint if self.node.bridge else theme.border))
        painter.drawRoundedRect(bar, 2.5, 2.5)
        if self.node.bridge:
            painter.save()
            painter.translate(plan.bar_x - 8, bar.center().y())
            painter.rotate(-90)
            _text(
                painter,
                self.pens.mono,
                theme.muted,
                QRectF(-40, -14, 80, 14),
                self.node.bridge,
                Qt.AlignmentFlag.AlignHCenter,
            )
            painter.restore()


class HookItem(QGraphicsItem):
    """A netfilter hook of a node: where the packet is, has been, or has been changed."""

    def __init__(self, name: str, rect: Rect, pens: Pens) -> None:
        super().__init__()
        self.name, self.rect, self.pens = name, rect_of(rect), pens
        self._here = self._changed = self._passed = False
        self.setZValue(1)
        self.setAcceptedMouseButtons(Qt.MouseButton.NoButton)

    def light(self, *, here: bool, changed: bool, passed: bool) -> None:
        if (here, changed, passed) != (self._here, self._changed, self._passed):
            self._here, self._changed, self._passed = here, changed, passed
            self.update()

    def boundingRect(self) -> QRectF:  # noqa: N802
        return self.rect.adjusted(-2, -2, 2, 2)

    def paint(self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        theme = self.pens.theme
        edge, fill, ink = theme.border, theme.hook, theme.muted
        if self._here:
            edge, fill = (theme.changed, theme.changed_back) if self._changed else (theme.accent, theme.selection)
            ink = theme.text
        elif self._passed:
            edge, ink = theme.accent, theme.text
        painter.setPen(cosmetic(edge, 2.0 if self._here else 1.0))
        painter.setBrush(QColor(fill))
        painter.drawRoundedRect(self.rect, 5, 5)
        if option.levelOfDetailFromTransform(painter.worldTransform()) >= LEGIBLE:
            painter.setFont(self.pens.small)
            painter.setPen(QColor(ink))
            painter.drawText(self.rect, Qt.AlignmentFlag.AlignCenter, self.name)


class PodItem(Item):
    """A Pod: its name, its address, and its state where it is not simply running."""

    def __init__(self, pod: PodView, rect: Rect, pens: Pens, *, small: bool) -> None:
        super().__init__(pod.path, rect_of(rect), pens)
        self.pod, self.small = pod, small
        self.setZValue(1)
        self.lit = False
        self.setToolTip("\n".join(filter(None, (pod.path, *pod.addresses, pod.state))))

    def light(self, *, lit: bool) -> None:
        if lit != self.lit:
            self.lit = lit
            self.update()

    def draw(self, painter: QPainter, *, legible: bool) -> None:
        theme = self.pens.theme
        edge = theme.accent if self.lit else theme.refused if self.pod.state else theme.border
        painter.setPen(cosmetic(edge, 2.0 if self.lit else 1.2))
        painter.setBrush(QColor(theme.pod))
        painter.drawRoundedRect(self.rect, 6, 6)
        if not legible:
            return
        inner = self.rect.adjusted(18 if not self.small else 6, 3, -6, -3)
        if self.small:
            _text(painter, self.pens.small, theme.text, inner, self.pod.name)
            return
        name = f"{self.pod.name} · {self.pod.state}" if self.pod.state else self.pod.name
        half = inner.height() / 2
        _text(painter, self.pens.text, theme.text, QRectF(inner.x(), inner.y(), inner.width(), half), name)
        address = self.pod.addresses[0] if self.pod.addresses else ""
        lower = QRectF(inner.x(), inner.y() + half, inner.width(), half)
        _text(painter, self.pens.mono, theme.muted, lower, address)


class ServiceItem(Item):
    """A Service: dashed, as its addresses are on no wire."""

    def __init__(self, service: ServiceView, rect: Rect, pens: Pens) -> None:
        super().__init__(service.path, rect_of(rect), pens)
        self.service = service
        self.lit = False

    def light(self, *, lit: bool) -> None:
        if lit != self.lit:
            self.lit = lit
            self.update()

    def draw(self, painter: QPainter, *, legible: bool) -> None:
        theme, service = self.pens.theme, self.service
        painter.setPen(
            cosmetic(theme.accent if self.lit else theme.virtual, 1.8 if self.lit else 1.4, Qt.PenStyle.DashLine)
        )
        painter.setBrush(QBrush(QColor(theme.surface)))
        painter.drawRoundedRect(self.rect, 8, 8)
        if not legible:
            return
        line = self.rect.adjusted(10, 5, -10, 0)
        line.setHeight(17)
        _text(painter, self.pens.title, theme.text, line, service.name)
        _text(painter, self.pens.text, theme.muted, line, service.type, Qt.AlignmentFlag.AlignRight)
        port = service.ports[0] if service.ports else None
        address = service.addresses[0] if service.addresses else ""
        texts = [f"{address}:{port.port}" if port is not None and address not in ("", "None") else address]
        if port is not None and port.node_port:
            texts.append(f"NODE:{port.node_port}")
        for number, text in enumerate(texts):
            _text(painter, self.pens.mono, theme.muted, line.translated(0, 19 + 16 * number), text)


class LinkItem(QGraphicsItem):
    """A wire, or (dashed) which endpoints a Service has."""

    def __init__(self, path: QPainterPath, pens: Pens, *, virtual: bool = False) -> None:
        super().__init__()
        self.path, self.pens, self.virtual = path, pens, virtual
        self.setZValue(-1)

    def boundingRect(self) -> QRectF:  # noqa: N802
        return self.path.boundingRect().adjusted(-2, -2, 2, 2)

    def paint(self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None = None) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        theme = self.pens.theme
        if self.virtual:
            painter.setPen(cosmetic(theme.border, 1.2, Qt.PenStyle.DashLine))
        else:
            painter.setPen(cosmetic(theme.faint, 1.6))
        painter.drawPath(self.path)


def _text(
    painter: QPainter,
    font: QFont,
    colour: str,
    rect: QRectF,
    text: str = "",
    align: Qt.AlignmentFlag = Qt.AlignmentFlag.AlignLeft,
) -> None:
    if not text:
        return
    painter.setFont(font)
    painter.setPen(QColor(colour))
    shown = QFontMetricsF(font).elidedText(text, Qt.TextElideMode.ElideRight, rect.width())
    painter.drawText(rect, align | Qt.AlignmentFlag.AlignVCenter, shown)


def _centred(painter: QPainter, font: QFont, colour: str, within: QRectF, top: float, text: str) -> None:
    rect = QRectF(within.x() + 6, top, within.width() - 12, 18)
    _text(painter, font, colour, rect, text, Qt.AlignmentFlag.AlignHCenter)


def _arrow(painter: QPainter, begin: QPointF, end: QPointF) -> None:
    painter.drawLine(begin, end)
    painter.drawLine(end, end + QPointF(-3, -4))
    painter.drawLine(end, end + QPointF(3, -4))
