"""What becomes of packets to Services of every kind, in every mode: real ones, through real kernels."""

from __future__ import annotations

from typing import Any

import pytest

from netlab.model.walk import Walk
from tests.behaviour.cases import CASES, in_mode
from tests.behaviour.running import Answer, Running, Target, verdicts

QUICK_S = 0.3
"""How long to wait for an answer that is not to come, seconds."""


@pytest.mark.parametrize("case", CASES, ids=[each["id"] for each in CASES])
def test_case(lab: Running, case: dict[str, Any]) -> None:
    wanted = in_mode(case, lab.mode)
    assert wanted is not None
    sender, to, protocol = wanted["from"], wanted["to"], wanted.get("protocol", "tcp")
    verdict = wanted.get("verdict", "answered")
    if lab.mode != "ipvs" or verdict != "answered" or "look" in wanted:
        look_at(lab.walk(sender, to, protocol, 2.0 if verdict in ("answered", "any") else QUICK_S), wanted, lab.mode)
    if "pods" in wanted:
        answers = answers_of(lab, wanted)
        assert {each.error or each.pod for each in answers} == set(wanted["pods"])
        if "port" in wanted:
            assert {each.port for each in answers} == {wanted["port"]}
        if "seen" in wanted:
            seen = wanted["seen"]
            for each in answers:
                expected = seen[each.pod] if isinstance(seen, dict) else seen
                assert each.seen == (each.own if expected == "own" else expected), each


def look_at(walk: Walk, wanted: dict[str, Any], mode: str) -> None:
    """Compare a walk with what a case says."""
    verdict = wanted.get("verdict", "answered")
    if verdict != "any":
        assert walk.verdict in ([verdict] if isinstance(verdict, str) else verdict), verdicts(walk)
    if wanted.get("service"):
        assert is_named(walk, f"Service default/{wanted['service']}"), verdicts(walk)
    if "translated" in wanted:
        assert wanted["translated"] in {step.destination for step in walk.steps if "destination" in step.changed}
    if "pods" in wanted:
        assert has_evidence(walk, mode), verdicts(walk)


def target_of(case: dict[str, Any], mode: str) -> Target:
    """Where endpoints take turns, each of them comes soon."""
    several = len(case["pods"])
    count = 2 * several if mode in ("ipvs", "userspace") else 40 if several > 1 else 3
    return case["to"], count, case.get("protocol", "tcp"), 0


def answers_of(lab: Running, case: dict[str, Any]) -> list[Answer]:
    """Who answers a case's connections; asked for along with all others of its sender."""
    sender = case["from"]
    if (sender, target_of(case, lab.mode)) not in lab.answers:
        every = [each for one in CASES if one["from"] == sender and (each := in_mode(one, lab.mode)) is not None]
        targets = [target_of(each, lab.mode) for each in every if "pods" in each]
        for target, answers in zip(targets, lab.talk_all(sender, targets), strict=True):
            lab.answers[sender, target] = answers
    return lab.answers[sender, target_of(case, lab.mode)]


def is_named(walk: Walk, name: str) -> bool:
    """Whether a step has the object as its origin, or its reason names it."""
    origins = {step.origin.object for step in walk.steps if step.origin is not None}
    reasons = [step.reason.en for step in walk.steps if step.reason is not None]
    return name in origins or any(name in each for each in reasons)


def has_evidence(walk: Walk, mode: str) -> bool:
    """Whether what picked the endpoint was observed: a chain, an element, a virtual server, the proxy's own word."""
    assert walk.endpoint is not None
    target = (
        f"{walk.endpoint.ip}:{walk.endpoint.port}"
        if ":" not in walk.endpoint.ip
        else (f"[{walk.endpoint.ip}]:{walk.endpoint.port}")
    )
    steps = [step for step in walk.steps if step.direction == "request" and step.destination == target]
    first = next(step for step in steps if "destination" in step.changed)
    if mode == "iptables":
        return first.action == "DNAT" and (first.chain or "").startswith("KUBE-SEP-")
    if mode == "nftables":
        return first.action == "DNAT" and (first.chain or "").startswith(("service-", "local-", "endpoint-"))
    if mode == "ipvs":
        records = [walk.records[each] for each in first.evidence if each.startswith("ipvs:")]
        return first.action == "IPVS" and [each["real"] for each in records] == [target]
    return first.action == "relayed" and any(each.startswith("proxy:") for each in first.evidence)
