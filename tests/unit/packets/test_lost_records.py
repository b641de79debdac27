"""Whatever part of the records is lost: a walk tells nothing untrue, and says that something is missing.

Losses are applied without the kernel's own report of them (:class:`Loss`), which would be told in any case.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from netlab.model.records import ConntrackRecord, Frame, TraceRecord
from netlab.model.walk import Verdict, Walk
from netlab.packets.correlate import correlate
from netlab.packets.observation import Observation
from tests.unit.packets.checks import PROFILE, missing_rows, well_formed
from tests.unit.packets.observing import Records, observation, records
from tests.unit.packets.probing import Simulated, simulate
from tests.unit.packets.scenarios import CASES, SCENARIOS, Scenario
from tests.unit.packets.simulated_lab import CLIENT, CURL, NODE_A, NODE_B, Setup
from tests.unit.packets.simulated_records import Row

Record = Frame | TraceRecord | ConntrackRecord

WEAKER: dict[Verdict, set[Verdict]] = {
    "answered": {"answered", "no-reply"},
    "refused": {"refused", "no-reply"},
    "rejected": {"rejected", "refused", "unreachable", "dropped", "no-reply"},
    "dropped": {"dropped", "no-reply"},
    "unreachable": {"unreachable", "no-reply"},
    "no-reply": {"no-reply"},
}
"""What a verdict may become where its evidence is lost."""


def kind_of(record: Record) -> str:
    return record.id.partition(":")[0]


def one(records: list[Record], chance: random.Random) -> set[str]:
    return {chance.choice(records).id}


def few(records: list[Record], chance: random.Random) -> set[str]:
    return {record.id for record in chance.sample(records, min(len(records), chance.randrange(2, 6)))}


def many(records: list[Record], chance: random.Random) -> set[str]:
    share = chance.random()
    return {record.id for record in records if chance.random() < share}


def burst(records: list[Record], chance: random.Random) -> set[str]:
    """Some that one instrument recorded one after the other."""
    some = chance.choice(records)
    same = [each.id for each in records if each.place == some.place and kind_of(each) == kind_of(some)]
    begin = chance.randrange(len(same))
    return set(same[begin : begin + chance.randrange(1, 30)])


def instrument(records: list[Record], chance: random.Random) -> set[str]:
    some = chance.choice(records)
    return {each.id for each in records if each.place == some.place and kind_of(each) == kind_of(some)}


def place(records: list[Record], chance: random.Random) -> set[str]:
    name = chance.choice(records).place
    return {each.id for each in records if each.place == name}


def kind(records: list[Record], chance: random.Random) -> set[str]:
    name = kind_of(chance.choice(records))
    return {each.id for each in records if kind_of(each) == name}


def all_but_few(records: list[Record], chance: random.Random) -> set[str]:
    kept = {record.id for record in chance.sample(records, min(len(records), chance.randrange(1, 5)))}
    return {record.id for record in records} - kept


HOW = (one, few, many, burst, instrument, place, kind, all_but_few)

How = Callable[[list[Record], random.Random], set[str]]


def without(seen: Observation, lost: set[str]) -> Observation:
    return replace(
        seen,
        frames=[frame for frame in seen.frames if frame.id not in lost],
        traces=[trace for trace in seen.traces if trace.id not in lost],
        conntrack=[record for record in seen.conntrack if record.id not in lost],
    )


def is_noticed(row: Row, setup: Setup) -> bool:
    """Whether a row can be missed at all. Two kinds cannot, but for the kernel's own report of the loss: a rule with
    conditions, of which all records are lost and all of the chain that it jumps to, is like one that did not match; and
    a packet that goes on in the same bridge may go by way of the bridge device, or not."""
    if row.rule is not None:
        return row.rule.startswith(("-j ", "policy"))
    return not (row.interface == "cni0" and row.hook is None and setup.bridge_netfilter and not setup.neighbours_known)


def check_true_and_honest(probe: Simulated, recorded: Records, truth: list[Row], walk: Walk, whole: Walk) -> None:
    missing = missing_rows(walk, truth, recorded)
    assert walk.gaps or not any(is_noticed(row, probe.sim.setup) for row in missing), f"missing and not said: {missing}"
    assert walk.verdict in WEAKER[whole.verdict]
    assert walk.verdict == whole.verdict or walk.gaps
    assert walk.endpoint in (None, whole.endpoint)
    assert walk.seen_by_pod in (None, whole.seen_by_pod)
    known = {(entry.node, entry.original, entry.reply) for entry in whole.conntrack}
    assert {(entry.node, entry.original, entry.reply) for entry in walk.conntrack} <= known


@settings(PROFILE, max_examples=350)
@given(case=st.sampled_from(CASES), how=st.sampled_from(HOW), reuse_numbers=st.booleans(), seed=st.integers(0, 1 << 16))
def test_nothing_untrue_is_told(case: tuple[Setup, Scenario], how: How, reuse_numbers: bool, seed: int) -> None:
    setup, asked = case
    chance = random.Random(seed)
    probe = simulate(asked, setup, seed)
    recorded = records(probe.sim.recorder.events, chance, reuse_numbers=reuse_numbers)
    seen = observation(probe, recorded)
    lost = how([*seen.frames, *seen.traces, *seen.conntrack], chance)
    walk, whole = correlate(without(seen, lost)), correlate(seen)
    check_true_and_honest(probe, recorded, probe.rows, walk, whole)
    if seed % 16 == 0:
        well_formed(walk)


@settings(PROFILE, max_examples=150)
@given(case=st.sampled_from(CASES), how=st.sampled_from(HOW), seed=st.integers(0, 1 << 16))
def test_nothing_untrue_is_told_of_what_was_sent_twice(case: tuple[Setup, Scenario], how: How, seed: int) -> None:
    """Where the first sending is lost, the second may be told, but no step is one of neither. (Both answers can be the
    same packet to the last bit.)"""
    setup, asked = case
    chance = random.Random(seed)
    probe = simulate(asked, setup, seed)
    probe.send_again((probe.packet.identification + 1) & 0xFFFF)
    recorded = records(probe.sim.recorder.events, chance, reuse_numbers=True)
    seen = observation(probe, recorded)
    lost = how([*seen.frames, *seen.traces, *seen.conntrack], chance)
    walk = correlate(without(seen, lost))
    failures = []
    for request, reply in ((0, 0), (0, 1), (1, 1), (1, 0)):
        try:
            missing = missing_rows(walk, probe.truth(request, reply), recorded, exactly=False)
        except AssertionError as failure:
            failures.append(str(failure))
            continue
        assert walk.gaps or not any(is_noticed(row, probe.sim.setup) for row in missing)
        return
    raise AssertionError(failures)


# Single losses, one after the other


def scenario(name: str) -> Scenario:
    return next(each for each in SCENARIOS if each.name == name)


def test_every_single_loss() -> None:
    """Each record of a walk in turn: a row that is missing is said to be, at the place where it is missing."""
    probe = simulate(scenario("Pod to the other node's nodePort and back"), Setup())
    recorded = records(probe.sim.recorder.events, random.Random(1))
    seen = observation(probe, recorded)
    whole = correlate(seen)
    assert not whole.gaps
    every: list[Record] = [*seen.frames, *seen.traces, *seen.conntrack]
    for record in every:
        walk = correlate(without(seen, {record.id}))
        check_true_and_honest(probe, recorded, probe.rows, walk, whole)
        missing = missing_rows(walk, probe.rows, recorded)
        if missing:
            texts = " ".join(gap.reason.en for gap in walk.gaps)
            assert record.place in texts, record.id


def lose(name: str, setup: Setup, wanted: Callable[[Record], bool]) -> Walk:
    seen = observation(probe := simulate(scenario(name), setup), records(probe.sim.recorder.events, random.Random(1)))
    every: list[Record] = [*seen.frames, *seen.traces, *seen.conntrack]
    lost = {each.id for each in every if wanted(each)}
    assert lost
    return correlate(without(seen, lost))


def gaps_of(walk: Walk) -> set[str]:
    return {gap.reason.id for gap in walk.gaps}


def test_node_that_was_not_observed_at_all_gets_no_row() -> None:
    """Its translation is seen from both sides, and told of neither neighbour."""
    walk = lose("client to nodePort, endpoint elsewhere", Setup(), lambda each: each.place == NODE_A)
    assert all(step.place != NODE_A for step in walk.steps)
    assert not any(step.changed for step in walk.steps)
    assert gaps_of(walk) >= {"gap.changed-unseen", "gap.not-seen-arriving"}


def test_rule_that_translates_unseen_has_the_conntrack_entry_for_a_witness() -> None:
    walk = lose(
        "client to nodePort, endpoint elsewhere",
        Setup(),
        lambda each: isinstance(each, TraceRecord) and each.place == NODE_A and each.table != "nat",
    )
    translated = next(step for step in walk.steps if step.action == "DNAT")
    assert translated.changed == ("destination",)
    assert any(identifier.startswith("conntrack:") for identifier in translated.evidence)


def test_conntrack_work_without_its_event_is_told_as_unexplained() -> None:
    walk = lose("Pod to clusterIP, endpoint elsewhere", Setup(), lambda each: isinstance(each, ConntrackRecord))
    undone = next(step for step in walk.steps if step.direction == "reply" and step.changed)
    assert undone.action == "DNAT undone"
    # The rule that was seen to translate the request explains what is taken back.
    assert any(identifier.startswith("trace:") for identifier in undone.evidence)

    walk = lose(
        "Pod to clusterIP, endpoint elsewhere",
        Setup(),
        lambda each: isinstance(each, ConntrackRecord) or (isinstance(each, TraceRecord) and each.table == "nat"),
    )
    undone = next(step for step in walk.steps if step.direction == "reply" and step.changed)
    assert undone.action == "changed"
    assert "gap.unexplained-change" in gaps_of(walk)


def test_lost_beginning_of_a_chain_takes_its_rules_with_it() -> None:
    """Later records of the packet have no headers: whose they are is not known any more."""
    walk = lose(
        "client to nodePort, endpoint there",
        Setup(),
        lambda each: isinstance(each, TraceRecord) and (each.table, each.chain) == ("nat", "PREROUTING"),
    )
    assert not any(step.table == "nat" and step.hook == "PREROUTING" for step in walk.steps)
    assert gaps_of(walk) == {"gap.nat-not-asked", "gap.rule-unseen"}
    told = next(step for step in walk.steps if step.changed == ("destination",) and step.direction == "request")
    assert (told.action, told.rule, told.hook) == ("DNAT", None, "PREROUTING")


def test_lost_middle_of_a_chain() -> None:
    walk = lose(
        "client to nodePort, endpoint there",
        Setup(),
        lambda each: isinstance(each, TraceRecord) and each.chain == "KUBE-NODEPORTS" and each.table == "nat",
    )
    chains = [step.chain for step in walk.steps if step.hook == "PREROUTING" and step.direction == "request"]
    assert chains == ["PREROUTING", "KUBE-SERVICES", None]
    assert gaps_of(walk) == {"gap.chain-cut", "gap.rule-unseen"}


def test_lost_record_of_a_rule_that_matches_everything() -> None:
    """The records around it fit together; but a rule without conditions cannot have been passed over."""
    walk = lose(
        "client to nodePort, endpoint there",
        Setup(),
        lambda each: isinstance(each, TraceRecord) and each.chain == "KUBE-POSTROUTING" and each.verdict == "continue",
    )
    assert "gap.chain-cut" in gaps_of(walk)


def test_answer_that_is_told_from_the_middle_has_no_sender() -> None:
    walk = lose(
        "Pod to Pod elsewhere",
        Setup(),
        lambda each: each.place == "default/web-3",
    )
    reply = [step for step in walk.steps if step.direction == "reply"]
    assert reply[0].place == NODE_B
    assert reply[0].reason is not None
    assert reply[0].reason.id == "walk.arrived"
    assert "gap.not-seen-coming" in gaps_of(walk)


def test_answer_that_was_last_seen_on_its_way_is_not_back() -> None:
    walk = lose(
        "Pod to Pod elsewhere", Setup(), lambda each: each.place == CURL and getattr(each, "direction", "") != "out"
    )
    assert walk.steps[-1].place == NODE_A
    assert "walk.arrived-back" not in {step.reason.id for step in walk.steps if step.reason is not None}
    assert "gap.not-seen-arriving" in gaps_of(walk)


def test_endpoint_is_not_claimed_where_delivery_was_not_seen() -> None:
    walk = lose(
        "client to a Pod on its node's network",
        Setup(),
        lambda each: isinstance(each, TraceRecord) and each.place == NODE_B,
    )
    assert (walk.verdict, walk.endpoint, walk.seen_by_pod) == ("answered", None, None)
    assert walk.gaps


def test_retransmission_is_told_as_such_only_where_the_first_is_lost() -> None:
    probe = simulate(scenario("client to a closed port of a node"), Setup())
    first = probe.packet.identification
    probe.send_again(first + 1)
    recorded = records(probe.sim.recorder.events, random.Random(1))
    seen = observation(probe, recorded)
    walk = correlate(seen)
    assert walk.records["frame:client/eth0#1"]["bytes"] == next(f for f in seen.frames if f.place == CLIENT).data.hex()
    assert walk.steps[0].evidence == ("frame:client/eth0#1",)
    later = correlate(without(seen, {"frame:client/eth0#1", "trace:client#1"}))
    assert later.steps[0].evidence[0] in ("frame:client/eth0#3", "trace:client#11")
