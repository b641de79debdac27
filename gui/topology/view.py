"""The drawing in its window: follows the session's picture and the player's moment; zooms and is pointed at."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import (
    QBrush,
    QColor,
    QContextMenuEvent,
    QFontMetricsF,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPainterPath,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QFrame, QGraphicsScene, QGraphicsView

from gui.look.fonts import text_font
from gui.look.style import Look
from gui.topology.items import (
    LEGIBLE,
    HookItem,
    Item,
    LinkItem,
    MachineItem,
    NodeItem,
    Pens,
    PodItem,
    ServiceItem,
    cosmetic,
    point_of,
    rect_of,
    rounded_path,
)
from gui.topology.layout import Layout, Measured, lay_out
from gui.topology.packet import PacketItem, Shown, TrailItem
from gui.values.picture import Picture
from gui.values.timeline import spot
from gui.walk.player import Player
from gui.words.language import Language
from netlab.model.story import action_text
from netlab.model.text import Message
from netlab.model.walk import Step, host_of

FIRST_STEP = Message(
    "gui.topology.first-step",
    en="The lab is up. Press Send to see a packet go.",
    zh="实验已就绪。点击“发送”，观察数据包的旅程。",
)
BUILDING = Message("gui.topology.building", en="Building the lab…", zh="正在建立实验…")
HOOKS = {
    "PREROUTING": Message(
        "gui.topology.prerouting",
        en="Every packet that comes in by an interface, before routing decides where it goes. "
        "Here a Service's address becomes an endpoint's (DNAT).",
        zh="从接口进入的每个数据包，在路由决策之前经过这里。Service 的地址在这里改写为端点的地址 (DNAT)。",
    ),
    "INPUT": Message(
        "gui.topology.input",
        en="Packets for the node itself: after routing, before a program of the node gets them.",
        zh="发往节点自身的数据包：在路由之后、交给节点上的程序之前经过这里。",
    ),
    "FORWARD": Message(
        "gui.topology.forward",
        en="Packets that only pass through the node, to a Pod or to another node.",
        zh="只是经过该节点、发往 Pod 或其他节点的数据包。",
    ),
    "OUTPUT": Message(
        "gui.topology.output",
        en="Packets that a program of the node itself sends; for them the DNAT is here.",
        zh="由节点自身的程序发出的数据包；它们的 DNAT 在这里进行。",
    ),
    "POSTROUTING": Message(
        "gui.topology.postrouting",
        en="Every packet that leaves, when it is known by which interface. "
        "Here the source may become the node's own address (SNAT).",
        zh="每个离开的数据包，在确定出口接口之后经过这里。源地址可能在这里改写为节点自己的地址 (SNAT)。",
    ),
}
MARGIN = 16.0
ABOVE = 16.0
"""Room for the packet's label over the uppermost hook."""
CLOSEST, FARTHEST = 3.0, 0.08
BIGGEST_FIT = 1.35
MANY_SERVICES = 8

NAME = Message(
    "gui.topology.name",
    en="Topology: the lab's places and the packet's way; the steps are in the table of the walk",
    zh="拓扑：实验中的各个位置与数据包的路径；各步骤见旅程表",
)


class TopologyView(QGraphicsView):
    """``pointed_at`` tells the place or Service that was clicked; ``asked_about`` where a context menu is wanted."""

    pointed_at = Signal(str)
    asked_about = Signal(str, object)

    def __init__(self, player: Player, look: Look, language: Language) -> None:
        super().__init__()
        self.player, self.look, self.language = player, look, language
        self.picture = Picture()
        self.plan: Layout = lay_out(self.picture)
        self.pens = Pens.of(look.theme)
        self._hooks: dict[tuple[str, str], HookItem] = {}
        self._pods: dict[str, PodItem] = {}
        self._services: dict[str, ServiceItem] = {}
        self._ways: list[Measured] = []
        self._fitted = True
        self._busy = False
        self._scene = QGraphicsScene(self)
        self.setScene(self._scene)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setRenderHints(QPainter.RenderHint.Antialiasing | QPainter.RenderHint.TextAntialiasing)
        self.setViewportUpdateMode(QGraphicsView.ViewportUpdateMode.SmartViewportUpdate)
        self.setTransformationAnchor(QGraphicsView.ViewportAnchor.AnchorUnderMouse)
        self.setDragMode(QGraphicsView.DragMode.ScrollHandDrag)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.viewport().setCursor(Qt.CursorShape.ArrowCursor)
        self._moves: dict[Qt.Key, Callable[[], None]] = {
            Qt.Key.Key_Space: player.toggle,
            Qt.Key.Key_Left: player.back,
            Qt.Key.Key_Right: player.forward,
        }
        language.bind(self, self.setAccessibleName, NAME)
        player.walk_changed.connect(self._prepare_walk)
        player.moved.connect(self._show_moment)
        look.changed.connect(self._redraw)
        language.changed.connect(self._redraw)
        self._redraw()

    def show_picture(self, picture: Picture) -> None:
        self.picture = picture
        self.plan = lay_out(picture)
        self._redraw()
        if self._fitted:
            self.fit()

    def show_busy(self, busy: bool) -> None:
        """Whether a lab is being built."""
        self._busy = busy
        self.viewport().update()

    # Drawing

    def _redraw(self) -> None:
        theme = self.look.theme
        self.pens = Pens.of(theme)
        scene, plan, picture = self._scene, self.plan, self.picture
        scene.clear()
        self._hooks, self._pods, self._services = {}, {}, {}
        scene.setBackgroundBrush(QBrush(QColor(theme.surface)))
        for ends, way in plan.links.items():
            if not ends & plan.pods.keys():
                scene.addItem(LinkItem(rounded_path(way), self.pens))
        machines = [*picture.clients, *([picture.router] if picture.router else [])]
        for machine in machines:
            scene.addItem(MachineItem(machine, plan.machines[machine.name], self.pens))
        for node in picture.nodes:
            chips = [plan.pods[pod.path] for pod in node.pods]
            wires = [plan.links[frozenset((node.name, pod.path))] for pod in node.pods]
            item = NodeItem(node, plan.nodes[node.name], chips, wires, self.pens)
            item.setZValue(-2)
            scene.addItem(item)
            for name, rect in plan.nodes[node.name].hooks.items():
                hook = self._hooks[node.name, name] = HookItem(name, rect, self.pens)
                hook.setToolTip(f"<b>{name}</b><br>{self.language.say(HOOKS[name])}")
                scene.addItem(hook)
            for pod in node.pods:
                chip = PodItem(pod, plan.pods[pod.path], self.pens, small=plan.nodes[node.name].small)
                self._pods[pod.path] = chip
                scene.addItem(chip)
        for service in picture.services:
            card = ServiceItem(service, plan.services[service.path], self.pens)
            self._services[service.path] = card
            scene.addItem(card)
            if len(picture.services) <= MANY_SERVICES:
                self._draw_endpoints(service.path, service.endpoints)
        self._trail = TrailItem(self.pens)
        self.packet = PacketItem(self.pens)
        scene.addItem(self._trail)
        scene.addItem(self.packet)
        bounds = rect_of(plan.bounds()).adjusted(-MARGIN, -MARGIN - ABOVE, MARGIN, MARGIN)
        self.packet.limits = bounds
        scene.setSceneRect(bounds)
        self._prepare_walk()
        self._show_detail()

    def _show_detail(self) -> None:
        """From afar a node draws its Pods and hooks in outline itself: thousands of items cost too much then."""
        near = self.transform().m11() >= LEGIBLE
        for item in (*self._pods.values(), *self._hooks.values()):
            item.setVisible(near)

    def _draw_endpoints(self, service: str, endpoints: tuple[str, ...]) -> None:
        begin = point_of(self.plan.services[service].left)
        for endpoint in endpoints:
            if endpoint in self.plan.pods:
                end = point_of(self.plan.pods[endpoint].right)
                path = QPainterPath(begin)
                middle = (begin.x() - end.x()) / 2
                path.cubicTo(begin - QPointF(middle, 0), end + QPointF(middle, 0), end)
                self._scene.addItem(LinkItem(path, self.pens, virtual=True))

    # The walk

    def _prepare_walk(self) -> None:
        walk = self.player.walk
        self._ways = []
        if walk is not None:
            spots = [spot(step) for step in walk.steps]
            before = spots[:1] + spots[:-1]
            self._ways = [Measured(self.plan.way(one, other)) for one, other in zip(before, spots, strict=True)]
        self._show_moment()

    def _show_moment(self) -> None:
        player = self.player
        walk, timeline = player.walk, player.timeline
        if walk is None or timeline is None or not walk.steps or len(self._ways) != len(walk.steps):
            self.packet.show_packet(None)
            self._trail.show_way(QPainterPath(), QPainterPath())
            self._light(None, ())
            return
        index, share = player.travelled()
        step = walk.steps[index]
        at = point_of(self._ways[index].at(share))
        before = walk.steps[index - 1] if index and walk.steps[index - 1].direction == step.direction else None
        action = self.language.say(action_text(step))
        came_from = walk.steps[index - 1] if index else step
        lift = self._lift(came_from) * (1 - share) + self._lift(step) * share
        self.packet.show_packet(Shown(at, step, before, action, share >= 1.0, lift))
        self._show_trail(walk.steps, index, share)
        self._light(step if share >= 1.0 else None, walk.steps[: index + 1])

    def _lift(self, step: Step) -> float:
        """Names stand in the upper half of clients and routers, where the packet comes by."""
        room = self.plan.machines.get(step.place)
        return room.h / 2 - 8 if room is not None else 0.0

    def _show_trail(self, steps: tuple[Step, ...], index: int, share: float) -> None:
        request, reply = QPainterPath(), QPainterPath()
        for number in range(index + 1):
            way = self._ways[number]
            points = way.up_to(share) if number == index else list(way.points)
            path = request if steps[number].direction == "request" else reply
            path.addPath(rounded_path(points)) if len(points) > 1 else None
        self._trail.show_way(request, reply)

    def _light(self, step: Step | None, so_far: tuple[Step, ...]) -> None:
        direction = so_far[-1].direction if so_far else "request"
        passed = {(each.place, each.hook.upper()) for each in so_far if each.hook and each.direction == direction}
        here = (step.place, step.hook.upper()) if step is not None and step.hook is not None else None
        for key, hook in self._hooks.items():
            hook.light(here=key == here, changed=step is not None and bool(step.changed), passed=key in passed)
        for name, pod in self._pods.items():
            pod.light(lit=step is not None and step.place == name)
        asked = self.player.walk.probe.to if self.player.walk is not None else ""
        for card in self._services.values():
            ports = {str(port.node_port) for port in card.service.ports if port.node_port}
            named = host_of(asked) in card.service.addresses or asked.rpartition(":")[2] in ports
            card.light(lit=bool(so_far) and named)

    # Looking

    def fit(self) -> None:
        """All of it in the window, but never blown up."""
        self._fitted = True
        self.fitInView(self._scene.sceneRect(), Qt.AspectRatioMode.KeepAspectRatio)
        scale = self.transform().m11()
        if scale > BIGGEST_FIT:
            self.scale(BIGGEST_FIT / scale, BIGGEST_FIT / scale)
        self._show_detail()

    def zoom(self, factor: float) -> None:
        scale = self.transform().m11() * factor
        if FARTHEST <= scale <= CLOSEST:
            self._fitted = False
            self.scale(factor, factor)
            self._show_detail()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        super().resizeEvent(event)
        if self._fitted:
            self.fit()

    def wheelEvent(self, event: QWheelEvent) -> None:  # noqa: N802
        self.zoom(1.0015 ** event.angleDelta().y())
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        keys = {Qt.Key.Key_Plus: 1.2, Qt.Key.Key_Equal: 1.2, Qt.Key.Key_Minus: 1 / 1.2}
        key = Qt.Key(event.key())
        if key in keys:
            self.zoom(keys[key])
        elif key == Qt.Key.Key_0:
            self.fit()
        elif key in self._moves:
            self._moves[key]()
        else:
            super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        super().mousePressEvent(event)
        item = self.itemAt(event.position().toPoint())
        if isinstance(item, Item) and event.button() == Qt.MouseButton.LeftButton:
            self._scene.clearSelection()
            item.setSelected(True)
            self.pointed_at.emit(item.name)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802
        item = self.itemAt(event.pos())
        if isinstance(item, Item):
            self.asked_about.emit(item.name, event.globalPos())

    def _draw_word(self, painter: QPainter) -> None:
        theme = self.look.theme
        if not self.picture.nodes and not self._busy:
            return
        text = self.language.say(BUILDING if self._busy else FIRST_STEP)
        painter.save()
        painter.resetTransform()
        font = text_font(14)
        painter.setFont(font)
        width = QFontMetricsF(font).horizontalAdvance(text) + 32
        area = QRectF(self.viewport().rect())
        top = area.height() - 50 if self.picture.nodes else area.height() / 2 - 16
        box = QRectF((area.width() - width) / 2, top, width, 34)
        painter.setPen(cosmetic(theme.border, 1))
        painter.setBrush(QColor(theme.surface))
        painter.drawRoundedRect(box, 8, 8)
        painter.setPen(QColor(theme.text))
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)
        painter.restore()

    def drawForeground(self, painter: QPainter, rect: object) -> None:  # noqa: N802
        """The frame of a view that has the keyboard; and a word where nothing goes yet."""
        if self.player.walk is None:
            self._draw_word(painter)
        if self.hasFocus():
            painter.save()
            painter.resetTransform()
            painter.setPen(cosmetic(self.look.theme.accent, 1))
            painter.drawRoundedRect(self.viewport().rect().adjusted(1, 1, -2, -2), 6, 6)
            painter.restore()
