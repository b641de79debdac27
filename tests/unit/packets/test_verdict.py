"""The verdicts, each as the contract of the walk defines it."""

from __future__ import annotations

import random
from dataclasses import replace

import msgspec
import pytest

from netlab.model.records import TraceRecord
from netlab.model.walk import Verdict, Walk
from netlab.packets.correlate import correlate
from netlab.packets.observation import Observation, SocketResult
from tests.unit.packets.observing import observation, records
from tests.unit.packets.probing import Simulated, simulate
from tests.unit.packets.scenarios import SCENARIOS
from tests.unit.packets.simulated_lab import NODE_A, NODE_B, WEB_3, Setup


def probed(name: str, setup: Setup | None = None) -> tuple[Simulated, Observation]:
    scenario = next(each for each in SCENARIOS if each.name == name)
    probe = simulate(scenario, setup or Setup())
    return probe, observation(probe, records(probe.sim.recorder.events, random.Random(1)))


def with_result(seen: Observation, result: SocketResult) -> Walk:
    return correlate(replace(seen, outcome=replace(seen.outcome, result=result)))


def without_replies(probe: Simulated) -> Observation:
    events = [event for event in probe.sim.recorder.events if event.role == "request"]
    return observation(probe, records(events, random.Random(1)))


@pytest.mark.parametrize(
    ("name", "result", "verdict"),
    [
        ("client to nodePort, endpoint there", "answered", "answered"),
        ("client to nodePort, endpoint there", "sent", "answered"),
        # RST or port unreachable from the endpoint or a socket of the node.
        ("client to a closed port of a Pod", "refused", "refused"),
        ("client to a closed port of a node", "refused", "refused"),
        ("UDP to a closed port", "refused", "refused"),
        ("UDP to a closed port", "sent", "refused"),
        # ICMP or RST made by a rule, seen in the trace.
        ("client to nodePort without endpoints", "refused", "rejected"),
        ("client to nodePort without endpoints", "unreachable", "rejected"),
        ("client to nodePort without endpoints", "timeout", "rejected"),
        ("node to clusterIP without endpoints", "refused", "rejected"),
        ("reset by a rule", "refused", "rejected"),
        ("reset by a rule", "sent", "rejected"),
        ("reset where it was translated", "refused", "rejected"),
        # A drop was observed: rule or policy.
        ("client to nodePort without local endpoint", "timeout", "dropped"),
        ("dropped by the policy of FORWARD", "timeout", "dropped"),
        ("dropped before conntrack", "sent", "dropped"),
        # Nothing came and no drop was observed.
        ("client to nobody", "timeout", "no-reply"),
        ("Pod to itself, port without hairpin", "timeout", "no-reply"),
        # ICMP net or host unreachable, no route.
        ("client to no route", "unreachable", "unreachable"),
        ("client to no route", "timeout", "unreachable"),
        ("client to no route", "sent", "unreachable"),
        ("hops used up on the way", "sent", "unreachable"),
        ("SCTP to nodePort", "sent", "unreachable"),
    ],
)
def test_verdict(name: str, result: SocketResult, verdict: Verdict) -> None:
    setup = Setup(hairpin=False) if "without hairpin" in name else Setup()
    _, seen = probed(name, setup)
    assert with_result(seen, result).verdict == verdict


def test_local_host_that_has_no_route_sends_nothing() -> None:
    _, seen = probed("client to no route")
    walk = with_result(replace(seen, frames=(), traces=()), "unreachable")
    assert (walk.verdict, walk.steps) == ("unreachable", ())
    assert [gap.reason.id for gap in walk.gaps] == ["gap.no-request"]


def test_answer_from_somebody_else_is_none() -> None:
    probe, seen = probed("answer past conntrack", Setup(bridge_netfilter=False))
    walk = correlate(seen)
    assert walk.verdict == "no-reply"
    assert walk.endpoint is not None
    last = walk.steps[-1]
    assert (last.direction, last.place) == ("reply", probe.scenario.origin)
    assert last.source != probe.packet.destination_text
    assert with_result(seen, "sent").verdict == "no-reply"


def test_answer_that_is_dropped_on_its_way() -> None:
    """The request reached its endpoint; it is the answer that a rule ended."""
    _, seen = probed("Pod to Pod elsewhere")
    walk = correlate(seen)
    at = next(step for step in walk.steps if step.direction == "reply" and step.place == NODE_A and step.hook)
    (identifier,) = at.evidence
    index = next(i for i, trace in enumerate(seen.traces) if trace.id == identifier)
    trace = seen.traces[index]
    gone = {each.id for each in seen.traces if each.place == NODE_A and each.order > trace.order}
    gone |= {each.id for each in seen.traces if each.place == seen.origin and each.order > 5}
    traces = [replace_verdict(each) if each is trace else each for each in seen.traces if each.id not in gone]
    late = {step.evidence[0] for step in walk.steps if step.n > at.n}
    frames = [frame for frame in seen.frames if frame.id not in late]
    cut = with_result(replace(seen, traces=traces, frames=frames), "timeout")
    assert cut.steps[-1].action == "drop"
    assert cut.verdict == "dropped"
    assert cut.endpoint is not None
    assert not cut.gaps


def replace_verdict(trace: TraceRecord) -> TraceRecord:
    return msgspec.structs.replace(trace, verdict="drop", target=None)


def test_rule_whose_text_is_gone_has_still_rejected() -> None:
    """A packet that was dropped is answered from the same place: only a rule that rejects does that."""
    _, seen = probed("client to nodePort without endpoints")
    book = seen.rulebooks[NODE_A]
    rules = {key: rule for key, rule in book.rules.items() if "REJECT" not in rule.text}
    gone = replace(seen, rulebooks={**seen.rulebooks, NODE_A: type(book)(book.base_chains, rules)})
    walk = correlate(gone)
    assert walk.verdict == "rejected"
    assert [gap.reason.id for gap in walk.gaps] == ["gap.no-rule-text"]
    refusing = next(step for step in walk.steps if step.action == "drop")
    assert refusing.rule is None


def test_refused_with_nothing_seen_of_the_answer() -> None:
    probe, _ = probed("reset by a rule")
    walk = with_result(without_replies(probe), "refused")
    assert walk.verdict == "rejected"
    assert "gap.no-answer-seen" in {gap.reason.id for gap in walk.gaps}


def test_endpoints() -> None:
    walks = {name: correlate(probed(name)[1]) for name in ("Pod to host network", "ping to a node", "ping to a Pod")}
    hosted = walks["Pod to host network"].endpoint
    assert hosted is not None
    assert (hosted.pod, hosted.port, hosted.node) == ("default/on-host", 8080, NODE_B)
    node = walks["ping to a node"].endpoint
    assert node is not None
    assert (node.pod, node.port, node.node) == (None, None, NODE_A)
    assert walks["ping to a node"].seen_by_pod is None
    pod = walks["ping to a Pod"].endpoint
    assert pod is not None
    assert (pod.pod, pod.node) == (WEB_3, NODE_B)
