"""A walk's story as comments on its frames."""

from __future__ import annotations

import random

from netlab.model.walk import Walk
from netlab.packets.comments import frame_comments
from netlab.packets.correlate import correlate
from tests.unit.packets.observing import observation, records
from tests.unit.packets.probing import simulate
from tests.unit.packets.scenarios import CASES, SCENARIOS
from tests.unit.packets.simulated_lab import Setup


def walk(name: str, setup: Setup | None = None) -> Walk:
    scenario = next(each for each in SCENARIOS if each.name == name)
    probe = simulate(scenario, setup or Setup())
    return correlate(observation(probe, records(probe.sim.recorder.events, random.Random(1))))


def test_every_frame_of_the_walk_is_commented_in_both_languages() -> None:
    for setup, scenario in CASES[:: len(CASES) // 40]:
        probe = simulate(scenario, setup)
        found = correlate(observation(probe, records(probe.sim.recorder.events, random.Random(1))))
        frames = {step.evidence[0] for step in found.steps if step.hook is None}
        for language in ("en", "zh"):
            comments = frame_comments(found, language)
            assert comments.keys() == frames
            lines = [line for each in comments.values() for line in each]
            assert all(line and "{" not in line for line in lines)


def test_what_changed_is_told_at_the_next_frame() -> None:
    found = walk("client to nodePort, endpoint elsewhere")
    comments = frame_comments(found, "en")
    left = next(step for step in found.steps if step.place == "node-a" and step.action == "sent")
    first, *rest = comments[left.evidence[0]]
    assert first == f"step {left.n} of {len(found.steps)}, request: sent at node-a/eth0"
    assert [line for line in rest if line.startswith(("DNAT in node-a PREROUTING", "SNAT in node-a POSTROUTING"))]
    assert not any("NAT in" in line for line in comments[found.steps[0].evidence[0]])


def test_drop_is_told_at_the_last_frame_of_the_packet() -> None:
    found = walk("client to nodePort without local endpoint")
    comments = frame_comments(found, "en")
    last = [step for step in found.steps if step.hook is None][-1]
    assert any(line.startswith("drop in node-a INPUT") for line in comments[last.evidence[0]])


def test_what_happened_to_the_request_is_not_told_of_the_answer() -> None:
    """The rejected request's last frame, and not the error that goes back."""
    found = walk("client to nodePort without endpoints")
    comments = frame_comments(found, "en")
    request = [step for step in found.steps if step.hook is None and step.direction == "request"]
    reply = [step for step in found.steps if step.hook is None and step.direction == "reply"]
    assert any(line.startswith("reject in node-a") for line in comments[request[-1].evidence[0]])
    assert not any("reject" in line.split(",")[0] for line in comments[reply[0].evidence[0]])


def test_unanswered_question_is_told_as_one() -> None:
    found = walk("client to nobody")
    comments = frame_comments(found, "en")
    assert comments[found.steps[-1].evidence[0]] == ["router asks who has 192.168.60.99, and nobody answers."]


def test_walk_without_frames() -> None:
    found = walk("client to nodePort, endpoint there")
    hooks = tuple(step for step in found.steps if step.hook is not None)
    assert (
        frame_comments(Walk(**{**{n: getattr(found, n) for n in found.__struct_fields__}, "steps": hooks}), "en") == {}
    )
