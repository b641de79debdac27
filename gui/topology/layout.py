"""Where everything is on the drawing: computed from the picture alone, the same for the same lab.

Clients on the left, the router, nodes in columns, Services on the right. A node shows its five netfilter hooks in the
order in which a packet meets them, from top to bottom, whichever side it comes from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from gui.values.picture import NodeView, Picture
from gui.values.timeline import PROGRAM, Spot

MACHINE_W, MACHINE_H = 132.0, 60.0
ROUTER_W, ROUTER_H = 116.0, 84.0
GAP = 48.0
HEADER = 34.0
PROGRAM_W = 176.0
"""From a room's right edge to where its kube-proxy is named."""
PORT_W = 62.0
HOOK_W, HOOK_H, HOOK_GAP, HOOK_ROW = 70.0, 24.0, 6.0, 14.0
HOOKS_W = 3 * HOOK_W + 2 * HOOK_GAP
HOOKS_H = 3 * HOOK_H + 2 * HOOK_ROW
BAR_GAP, POD_GAP = 40.0, 22.0
CHIP_W, CHIP_H, CHIP_SPACE = 124.0, 36.0, 8.0
SMALL_W, SMALL_H = 84.0, 20.0
MANY_PODS = 12
SERVICE_W, SERVICE_H = 148.0, 62.0
ROW_GAP = 24.0
HOOKS = ("PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING")


@dataclass(frozen=True)
class Point:
    x: float
    y: float


@dataclass(frozen=True)
class Rect:
    x: float
    y: float
    w: float
    h: float

    @property
    def middle(self) -> Point:
        return Point(self.x + self.w / 2, self.y + self.h / 2)

    @property
    def left(self) -> Point:
        return Point(self.x, self.y + self.h / 2)

    @property
    def right(self) -> Point:
        return Point(self.x + self.w, self.y + self.h / 2)


Way = tuple[Point, ...]


@dataclass(frozen=True)
class NodePlan:
    """A node's room: its hooks, the bar that its Pods hang on, and where its link comes in."""

    room: Rect
    hooks: Mapping[str, Rect]
    port: Point
    bar_x: float
    bar_top: float
    bar_bottom: float
    small: bool


@dataclass
class Layout:
    """All positions. Rooms by name, Pods by "namespace/name", Services by "namespace/name"."""

    picture: Picture
    machines: dict[str, Rect] = field(default_factory=dict)
    nodes: dict[str, NodePlan] = field(default_factory=dict)
    pods: dict[str, Rect] = field(default_factory=dict)
    services: dict[str, Rect] = field(default_factory=dict)
    links: dict[frozenset[str], Way] = field(default_factory=dict)

    def point(self, spot: Spot) -> Point:
        """Where on the drawing a step of a walk is."""
        if spot.place in self.nodes:
            return self._in_node(self.nodes[spot.place], spot)
        if spot.place in self.pods:
            chip = self.pods[spot.place]
            return Point(chip.x + 10, chip.y + chip.h / 2)
        if spot.place in self.machines:
            return self._in_machine(self.machines[spot.place], spot)
        return Point(0.0, 0.0)

    def way(self, one: Spot, other: Spot) -> Way:
        """How the packet gets from one spot to another."""
        begin, end = self.point(one), self.point(other)
        link = self.links.get(frozenset((one.place, other.place))) if one.place != other.place else None
        if link is None:
            return (begin, end)
        if _distance(link[0], begin) > _distance(link[-1], begin):
            link = tuple(reversed(link))
        return (begin, *link, end)

    def bounds(self) -> Rect:
        rooms = [*self.machines.values(), *(each.room for each in self.nodes.values()), *self.services.values()]
        if not rooms:
            return Rect(0, 0, 400, 240)
        left, top = min(each.x for each in rooms), min(each.y for each in rooms)
        right, bottom = max(each.x + each.w for each in rooms), max(each.y + each.h for each in rooms)
        return Rect(left, top, right - left, bottom - top)

    def _in_node(self, plan: NodePlan, spot: Spot) -> Point:
        if spot.hook == PROGRAM:
            return Point(plan.room.x + plan.room.w - PROGRAM_W, plan.room.y + HEADER / 2)
        if spot.hook is not None:
            name = spot.hook.upper()
            hook = next((each for each in HOOKS if each == name), None)
            return plan.hooks[hook].middle if hook is not None else plan.hooks["FORWARD"].middle
        other = self.picture.attached.get((spot.place, spot.interface or ""))
        if other in self.pods:
            return Point(plan.bar_x, self.pods[other].middle.y)
        if other is not None:
            return plan.port
        node = next((each for each in self.picture.nodes if each.name == spot.place), None)
        if node is not None and spot.interface == node.bridge:
            return Point(plan.bar_x, plan.hooks["POSTROUTING"].middle.y)
        return Point(plan.port.x + 14, plan.port.y)

    def _in_machine(self, room: Rect, spot: Spot) -> Point:
        router = self.picture.router
        if router is None or spot.place != router.name:
            return room.right
        other = self.picture.attached.get((spot.place, spot.interface or ""))
        clients = {each.name for each in self.picture.clients}
        if other is not None:
            return Point(room.x + 8 if other in clients else room.x + room.w - 8, room.middle.y)
        towards_clients = (spot.interface or "").startswith("client")
        return Point(room.x + room.w * (0.3 if towards_clients else 0.7), room.middle.y)


def lay_out(picture: Picture) -> Layout:
    """Positions for everything in the picture."""
    layout = Layout(picture)
    sizes = [_node_size(node) for node in picture.nodes]
    rows = _rows(len(sizes))
    columns = [list(range(at, min(at + rows, len(sizes)))) for at in range(0, len(sizes), rows)]
    nodes_x = (MACHINE_W + GAP if picture.clients else 0.0) + (ROUTER_W + GAP + 8 if picture.router else 0.0)
    heights = [sum(sizes[at][1] for at in column) + ROW_GAP * (len(column) - 1) for column in columns]
    total = max([*heights, MACHINE_H])
    x = nodes_x
    for column in columns:
        y = 0.0
        for at in column:
            _place_node(layout, picture.nodes[at], x, y, sizes[at])
            y += sizes[at][1] + ROW_GAP
        x += max(sizes[at][0] for at in column) + GAP
    _place_machines(layout, total)
    _place_services(layout, x, total)
    _link(layout, nodes_x)
    return layout


def _rows(nodes: int) -> int:
    """Nodes in one column: they are about three times as wide as they are high."""
    return max(1, nodes) if nodes <= 3 else math.ceil(math.sqrt(nodes * 2.2))


def _node_size(node: NodeView) -> tuple[float, float]:
    columns, rows, width, height = _chips(len(node.pods))
    pods_w = columns * width + max(0, columns - 1) * CHIP_SPACE
    pods_h = rows * height + max(0, rows - 1) * CHIP_SPACE
    inside = BAR_GAP + POD_GAP + pods_w if node.pods else BAR_GAP
    return PORT_W + HOOKS_W + inside + 14, HEADER + max(HOOKS_H, pods_h) + 16


def _chips(pods: int) -> tuple[int, int, float, float]:
    """Columns, rows, and the size of one."""
    if pods > MANY_PODS:
        rows = max(5, math.ceil(math.sqrt(pods * 1.6)))
        return math.ceil(pods / rows), rows, SMALL_W, SMALL_H
    columns = max(1, math.ceil(pods / 4))
    return columns, math.ceil(pods / columns) if pods else 0, CHIP_W, CHIP_H


def _place_node(layout: Layout, node: NodeView, x: float, y: float, size: tuple[float, float]) -> None:
    room = Rect(x, y, *size)
    left, top = x + PORT_W, y + HEADER + (size[1] - HEADER - 16 - HOOKS_H) / 2 + 2
    step = HOOK_H + HOOK_ROW
    hooks = {
        "PREROUTING": Rect(left, top, HOOKS_W, HOOK_H),
        "INPUT": Rect(left, top + step, HOOK_W, HOOK_H),
        "FORWARD": Rect(left + HOOK_W + HOOK_GAP, top + step, HOOK_W, HOOK_H),
        "OUTPUT": Rect(left + 2 * (HOOK_W + HOOK_GAP), top + step, HOOK_W, HOOK_H),
        "POSTROUTING": Rect(left, top + 2 * step, HOOKS_W, HOOK_H),
    }
    columns, rows, width, height = _chips(len(node.pods))
    bar_x = left + HOOKS_W + BAR_GAP
    pods_h = rows * height + max(0, rows - 1) * CHIP_SPACE
    pods_top = y + HEADER + (size[1] - HEADER - 16 - pods_h) / 2 + 2
    layout.nodes[node.name] = NodePlan(
        room,
        hooks,
        Point(x, hooks["FORWARD"].middle.y),
        bar_x,
        min(hooks["PREROUTING"].y, pods_top),
        max(hooks["POSTROUTING"].y + HOOK_H, pods_top + pods_h),
        len(node.pods) > MANY_PODS,
    )
    for number, pod in enumerate(node.pods):
        column, row = number % columns, number // columns
        chip = Rect(
            bar_x + POD_GAP + column * (width + CHIP_SPACE), pods_top + row * (height + CHIP_SPACE), width, height
        )
        layout.pods[pod.path] = chip
        layout.links[frozenset((node.name, pod.path))] = _to_chip(bar_x, chip, column)


def _to_chip(bar_x: float, chip: Rect, column: int) -> Way:
    """From the bar to a Pod: straight to those in front, through the space below to those behind."""
    if column == 0:
        return (Point(bar_x, chip.middle.y), chip.left)
    below = chip.y + chip.h + CHIP_SPACE / 2
    return (Point(bar_x, chip.middle.y), Point(bar_x, below), Point(chip.x + 10, below), Point(chip.x + 10, chip.y))


def _place_machines(layout: Layout, total: float) -> None:
    picture = layout.picture
    # At the height of the nodes' links, so that the wire to a single node is straight.
    ports = [plan.port.y for plan in layout.nodes.values()]
    middle = (min(ports) + max(ports)) / 2 if ports else total / 2
    clients = picture.clients
    height = len(clients) * MACHINE_H + max(0, len(clients) - 1) * ROW_GAP
    for number, client in enumerate(clients):
        top = middle - height / 2 + number * (MACHINE_H + ROW_GAP)
        layout.machines[client.name] = Rect(0, top, MACHINE_W, MACHINE_H)
    if picture.router is not None:
        x = MACHINE_W + GAP if clients else 0.0
        layout.machines[picture.router.name] = Rect(x, middle - ROUTER_H / 2, ROUTER_W, ROUTER_H)


def _place_services(layout: Layout, x: float, total: float) -> None:
    services = layout.picture.services
    rows = max(1, min(len(services), int((max(total, 360.0) + ROW_GAP) // (SERVICE_H + ROW_GAP))))
    height = rows * SERVICE_H + (rows - 1) * ROW_GAP
    for number, service in enumerate(services):
        column, row = divmod(number, rows)
        layout.services[service.path] = Rect(
            x + column * (SERVICE_W + ROW_GAP),
            total / 2 - height / 2 + row * (SERVICE_H + ROW_GAP),
            SERVICE_W,
            SERVICE_H,
        )


def _link(layout: Layout, nodes_x: float) -> None:
    picture = layout.picture
    if picture.router is None:
        _link_without_router(layout)
        return
    router = layout.machines[picture.router.name]
    for client in picture.clients:
        room = layout.machines[client.name]
        rail = (room.right.x + router.left.x) / 2
        layout.links[frozenset((client.name, picture.router.name))] = (
            room.right,
            Point(rail, room.right.y),
            Point(rail, router.left.y),
            router.left,
        )
    rail = nodes_x - GAP / 2
    for name, plan in layout.nodes.items():
        way = [router.right, Point(rail, router.right.y)]
        if plan.room.x > nodes_x:
            above = plan.room.y - ROW_GAP / 2
            beside = plan.room.x - GAP / 2
            way += [Point(rail, above), Point(beside, above), Point(beside, plan.port.y)]
        else:
            way.append(Point(rail, plan.port.y))
        layout.links[frozenset((picture.router.name, name))] = (*way, plan.port)


def _link_without_router(layout: Layout) -> None:
    """Everything on one network: nodes beside a rail, and clients too."""
    plans: Sequence[NodePlan] = list(layout.nodes.values())
    rail = min((plan.room.x for plan in plans), default=0.0) - GAP / 2
    ports = {name: plan.port for name, plan in layout.nodes.items()}
    ports |= {client.name: layout.machines[client.name].right for client in layout.picture.clients}
    for one, begin in ports.items():
        for other, end in ports.items():
            if one < other:
                layout.links[frozenset((one, other))] = (begin, Point(rail, begin.y), Point(rail, end.y), end)


def _distance(one: Point, other: Point) -> float:
    return math.hypot(one.x - other.x, one.y - other.y)


class Measured:
    """A way that can be walked along: points by the share of its length."""

    def __init__(self, way: Way) -> None:
        self.points = way
        self._ends = [0.0]
        for one, other in pairwise(way):
            self._ends.append(self._ends[-1] + _distance(one, other))

    def at(self, share: float) -> Point:
        return self._locate(share)[1]

    def up_to(self, share: float) -> list[Point]:
        """The part of the way that is done."""
        done, point = self._locate(share)
        return [*self.points[: done + 1], point]

    def _locate(self, share: float) -> tuple[int, Point]:
        wanted = share * self._ends[-1]
        for number in range(len(self.points) - 1):
            begin, end = self._ends[number], self._ends[number + 1]
            if wanted <= end and end > begin:
                part = (wanted - begin) / (end - begin)
                one, other = self.points[number], self.points[number + 1]
                return number, Point(one.x + (other.x - one.x) * part, one.y + (other.y - one.y) * part)
        return len(self.points) - 1, self.points[-1]
