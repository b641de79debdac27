"""What views show, as values: pictures of labs and walks, targets, times, ladders, moments."""

from __future__ import annotations

import pytest

from gui.topology.layout import Measured, Point, lay_out
from gui.values.ladder import ladder
from gui.values.moment import entry_at, frame_at, frames
from gui.values.picture import picture_of_walk
from gui.values.sources import lines_around
from gui.values.targets import resolve, senders, targets
from gui.values.timeline import LOOK_S, Timeline, spot
from netlab.model.walk import Walk
from tests.gui.recorded import picture, walk

WALKS = ("far", "near", "pod", "refused")


def test_the_picture_of_a_lab_has_all_of_it() -> None:
    shown = picture()
    assert [each.name for each in shown.clients] == ["client"]
    assert shown.router is not None
    assert [node.name for node in shown.nodes] == ["node-a", "node-b"]
    assert [pod.name for pod in shown.nodes[0].pods] == ["web-1", "web-2", "curl"]
    assert shown.nodes[0].addresses == ("192.168.60.123",)
    (service,) = shown.services
    assert service.endpoints == ("default/web-1", "default/web-2", "default/web-3")
    assert service.ports[0].node_port == 30080
    assert shown.attached["router", "p-client"] == "client"


def test_a_walk_alone_tells_where_it_came_by(far: Walk) -> None:
    shown = picture_of_walk(far)
    assert [each.name for each in shown.clients] == ["client"]
    assert shown.router is not None
    assert {node.name for node in shown.nodes} == {"node-a", "node-b"}
    pods = {pod.path: node.name for node in shown.nodes for pod in node.pods}
    assert pods == {far.endpoint.pod if far.endpoint else "": "node-b"}


def test_who_can_send_and_where_to() -> None:
    shown = picture()
    assert senders(shown) == ["client", "web-1", "web-2", "curl", "web-3", "node-a", "node-b"]
    known = targets(shown)
    assert known[0].address == "192.168.60.123:30080"
    by_name = resolve("web:80", known)
    assert by_name is not None
    assert by_name.address == "10.96.0.1:80"
    assert resolve("10.1.2.3:4", known) is None


@pytest.mark.parametrize("name", WALKS)
def test_every_step_has_its_time_and_its_place_on_the_drawing(name: str) -> None:
    shown = walk(name)
    timeline = Timeline(shown)
    assert len(timeline.beats) == len(shown.steps)
    ends = [0.0] + [beat.end for beat in timeline.beats]
    assert [beat.begin for beat in timeline.beats] == ends[:-1]
    for index, beat in enumerate(timeline.beats):
        assert timeline.step_at(beat.there) == index
        assert timeline.travelled(beat.there) == (index, 1.0)
        looked_at = bool(shown.steps[index].changed)
        assert (beat.end - beat.there > LOOK_S - 0.01) == looked_at
    for plan in (lay_out(picture()), lay_out(picture_of_walk(shown))):
        points = [plan.point(spot(step)) for step in shown.steps]
        assert all(point != Point(0.0, 0.0) for point in points)


def test_rooms_do_not_overlap() -> None:
    plan = lay_out(picture())
    rooms = [*plan.machines.values(), *(node.room for node in plan.nodes.values()), *plan.services.values()]
    for number, one in enumerate(rooms):
        for other in rooms[number + 1 :]:
            apart = one.x + one.w <= other.x or other.x + other.w <= one.x
            assert apart or one.y + one.h <= other.y or other.y + other.h <= one.y
    for path, chip in plan.pods.items():
        home = next(node.name for node in picture().nodes if path in {pod.path for pod in node.pods})
        room = plan.nodes[home].room
        assert room.x < chip.x
        assert chip.x + chip.w < room.x + room.w
        assert room.y < chip.y
        assert chip.y + chip.h < room.y + room.h


def test_a_way_is_walked_at_an_even_pace() -> None:
    way = Measured((Point(0, 0), Point(10, 0), Point(10, 30)))
    assert way.at(0) == Point(0, 0)
    assert way.at(0.25) == Point(10, 0)
    assert way.at(0.5) == Point(10, 10)
    assert way.at(1) == Point(10, 30)
    assert way.up_to(0.5) == [Point(0, 0), Point(10, 0), Point(10, 10)]
    assert Measured((Point(1, 1), Point(1, 1))).at(0.5) == Point(1, 1)


@pytest.mark.parametrize("name", WALKS)
def test_the_ladder_leaves_no_step_out(name: str) -> None:
    shown = walk(name)
    made = ladder(shown)
    for index in range(len(shown.steps)):
        rung = made.rungs[made.rung_of(index)]
        assert index <= rung.last
    acts = [rung.step.n for rung in made.rungs if rung.kind == "act"]
    assert acts == [step.n for step in shown.steps if step.changed or step.action in ("drop", "reject")]
    moves = sum(
        one.place != other.place and one.direction == other.direction
        for one, other in zip(shown.steps, shown.steps[1:], strict=False)
    )
    assert sum(rung.kind == "move" for rung in made.rungs) == moves


def test_what_is_known_at_a_moment(far: Walk) -> None:
    dnat = next(index for index, step in enumerate(far.steps) if step.action == "DNAT")
    seen = frame_at(far, dnat)
    assert seen is not None
    assert (seen.place, seen.interface, seen.here) == ("node-a", "eth0", False)
    assert entry_at(far, dnat) is None
    left = next(index for index, step in enumerate(far.steps) if step.n > dnat + 1 and step.hook is None)
    assert entry_at(far, left) is not None
    last = max(index for index, step in enumerate(far.steps) if step.place == "node-a")
    entry = entry_at(far, last)
    assert entry is not None
    assert {"SNAT", "DNAT"} <= set(entry.status)
    times = [each.time_ns for each in frames(far)]
    assert times == sorted(times)
    assert len(times) > 10


def test_the_lines_around_one() -> None:
    sources = [("a.yaml", b"one:\n  two:\n    three: 3\n    four: 4\n")]
    assert lines_around(sources, "a.yaml", 3) == [(1, "one:"), (2, "  two:"), (3, "    three: 3"), (4, "    four: 4")]
    assert lines_around(sources, "b.yaml", 1) == []
    two = [("a.yaml", b"a: 1\n---\nb: 2\n---\nc: 3\n")]
    assert lines_around(two, "a.yaml", 3) == [(3, "b: 2")]
    assert lines_around(sources, "a.yaml", 400) == []
