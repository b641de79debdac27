"""The walk of a probe against the truth: every row, in every simulated lab, alone and among other traffic."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netlab.model.records import Loss
from netlab.model.walk import Endpoint, Walk
from netlab.packets.correlate import correlate
from netlab.packets.observation import Mark, Observation
from tests.unit.packets.checks import PROFILE, row_values, step_values, told_rows, well_formed
from tests.unit.packets.observing import Records, merged, observation, records
from tests.unit.packets.probing import Simulated, set_user_rules, simulate
from tests.unit.packets.scenarios import ACK_ONLY, BARE, CASES, SCENARIOS, Scenario, services
from tests.unit.packets.simulated_lab import CLIENT, NODE_A, NODE_B, OTHER_CLIENT, WEB_3, Setup
from tests.unit.packets.simulated_records import Event
from tests.unit.packets.simulator import Simulator
from tests.unit.packets.wire import ACK, PSH, UDP, init_chunk

by_setup = [(setup, [scenario for _, scenario in cases]) for setup, cases in groupby(CASES, key=lambda case: case[0])]


def scenario(name: str) -> Scenario:
    return next(each for each in SCENARIOS if each.name == name)


def setup_name(setup: Setup) -> str:
    words = [f"IPv{setup.family}", setup.wiring, setup.between_nodes]
    words += [] if setup.bridge_netfilter else ["unfiltered"]
    words += [] if setup.hairpin else ["no hairpin"]
    words += [] if setup.neighbours_known else ["first time"]
    return "-".join(words)


def complete(probe: Simulated) -> tuple[Walk, Records]:
    """The walk from all that was recorded."""
    recorded = records(probe.sim.recorder.events, random.Random(1))
    return correlate(observation(probe, recorded)), recorded


def true_endpoint(probe: Simulated) -> tuple[Endpoint | None, str | None]:
    """The endpoint that the scenario names, and the source that it saw."""
    place = probe.scenario.endpoint
    if place is None:
        return None, None
    last = [row for row in probe.rows if row.role == "request"][-1]
    host = probe.sim.hosts[place]
    packet = next(packet for name, packet in probe.sim.received if name == place)
    port = packet.destination_port if packet.has_ports else None
    pod = "default/on-host" if host.kind == "node" else place
    return Endpoint(pod, packet.destination, port, host.node), last.source


# Complete records


@pytest.mark.parametrize(("setup", "scenarios"), by_setup, ids=[setup_name(setup) for setup, _ in by_setup])
def test_every_row_is_true_and_no_true_row_is_missing(setup: Setup, scenarios: list[Scenario]) -> None:
    for each in scenarios:
        probe = simulate(each, setup)
        walk, recorded = complete(probe)
        known = [row for row in probe.rows if row.event is None or id(row.event) in recorded.ids]
        expected = [row_values(row) for row in known if not row.optional]
        assert [step_values(step) for step in walk.steps] == expected, each.name
        told_rows(walk, known, recorded)
        is_all = len(known) == len(probe.rows)
        lost = "gap.hairpin-off" if "without hairpin" in each.name else "gap.not-seen-ending"
        assert [gap.reason.id for gap in walk.gaps if is_all] == [lost] * each.is_lost, each.name
        assert is_all or walk.gaps
        assert walk.verdict == each.verdict, each.name
        endpoint, source = true_endpoint(probe)
        if endpoint is not None:
            assert (walk.endpoint, walk.seen_by_pod) == (endpoint, source), each.name


@pytest.mark.parametrize("setup", [Setup(), Setup(family=6, between_nodes="vxlan")], ids=setup_name)
def test_every_walk_is_well_formed(setup: Setup) -> None:
    for each in SCENARIOS:
        if each.setups(setup):
            well_formed(complete(simulate(each, setup))[0])


def test_conntrack_entries_are_those_of_the_probe() -> None:
    probe = simulate(scenario("client to nodePort, endpoint elsewhere"), Setup())
    walk, _ = complete(probe)
    masqueraded = next(step for step in walk.steps if step.action == "SNAT").source
    assert [(entry.node, entry.original.source, entry.reply.destination) for entry in walk.conntrack] == [
        (NODE_A, probe.packet.source_text, masqueraded),
        (NODE_B, masqueraded, masqueraded),
    ]
    assert set(walk.conntrack[0].status) >= {"SNAT", "DNAT", "SEEN_REPLY"}


# Other traffic


def view(walk: Walk) -> object:
    """A walk without times and running numbers."""
    steps = [(step_values(step), step.action, step.reason, step.origin) for step in walk.steps]
    entries = [(entry.node, entry.protocol, entry.original, entry.reply) for entry in walk.conntrack]
    return steps, walk.verdict, walk.endpoint, walk.seen_by_pod, walk.gaps, entries


def other_events(probe: Simulated, setup: Setup, kind: str, seed: int) -> list[Event]:
    """Events of somebody else's packet: the same probe again from another socket, one with the same source port from
    another client, or any other probe."""
    asked = probe.scenario
    if kind == "same port" and asked.origin == CLIENT:
        chance = random.Random(seed)
        sim = Simulator(setup, tuple(services(setup.family).values()), bool, chance.randrange, seed)
        set_user_rules(asked, sim)
        payload = init_chunk(99) if asked.protocol == "sctp" else b"somebody else's" * bool(probe.packet.payload)
        packet = probe.packet.changed(
            source=sim.hosts[OTHER_CLIENT].address_on("eth0", setup.family),
            sequence=(probe.packet.sequence + 99) & 0xFFFFFFFF,
            acknowledgement=(probe.packet.acknowledgement + 99) & 0xFFFFFFFF,
            identification=(probe.packet.identification + 1) & 0xFFFF,
            payload=payload,
        )
        sim.send(OTHER_CLIENT, packet, "noise")
        return sim.recorder.events
    others = [each for each in SCENARIOS if each.setups(setup)]
    other = asked if kind == "same probe" else others[seed % len(others)]
    events = simulate(other, setup, seed).sim.recorder.events
    for event in events:
        event.role = "noise"
    return events


def server_speaks(probe: Simulated) -> None:
    """A server that speaks first: what it sends acknowledges the number that its SYN-ACK did."""
    host, packet = next((name, each) for name, each in probe.sim.received if each.sequence == probe.packet.sequence)
    data = packet.changed(
        source=packet.destination,
        destination=packet.source,
        source_port=packet.destination_port,
        destination_port=packet.source_port,
        flags=PSH | ACK,
        sequence=5,
        acknowledgement=packet.sequence + 1 & 0xFFFFFFFF,
        payload=b"220 ready",
        hops=64,
        identification=9,
    )
    probe.sim.send(host, data, "noise")


@settings(PROFILE, max_examples=150)
@given(
    case=st.sampled_from(CASES),
    others=st.lists(st.sampled_from(("same probe", "same port", "any")), max_size=2),
    sent_again=st.sampled_from(("", "next", "same", "next same", "same next")),
    reuse_numbers=st.booleans(),
    seed=st.integers(0, 1 << 16),
)
def test_other_traffic_changes_nothing(
    case: tuple[Setup, Scenario], others: list[str], sent_again: str, reuse_numbers: bool, seed: int
) -> None:
    setup, asked = case
    probe = simulate(asked, setup, seed)
    alone = view(complete(probe)[0])
    chance = random.Random(seed)
    for number, how in enumerate(sent_again.split(), 1):
        # A datagram without a mark of its own cannot be told from itself sent again, or from what follows it.
        if how == "next" or asked.protocol != BARE:
            probe.send_again((probe.packet.identification + number) & 0xFFFF if how == "next" else None)
    if asked.protocol == "tcp" and probe.result == "answered":
        server_speaks(probe)
    streams = [probe.sim.recorder.events]
    streams += [other_events(probe, setup, kind, seed + number) for number, kind in enumerate(others, 1)]
    recorded = records(merged(streams, chance), chance, reuse_numbers=reuse_numbers)
    assert view(correlate(observation(probe, recorded))) == alone


def test_two_packets_interleaved_in_one_namespace() -> None:
    """Records of two connections to one Service, one by one in turns, as two processors write them."""
    probe, other = (simulate(scenario("client to nodePort, endpoint there"), Setup(), seed) for seed in (1, 2))
    alone = view(complete(probe)[0])
    mine, theirs = list(probe.sim.recorder.events), list(other.sim.recorder.events)
    turns = [event for pair in zip(mine, theirs, strict=False) for event in pair]
    turns += mine[len(theirs) :] + theirs[len(mine) :]
    assert view(correlate(observation(probe, records(turns, random.Random(1))))) == alone


# What is not observed


def seen_in(probe: Simulated) -> Observation:
    return observation(probe, records(probe.sim.recorder.events, random.Random(1)))


def test_nothing_recorded_at_all() -> None:
    seen = seen_in(simulate(scenario("client to nodePort, endpoint there"), Setup()))
    walk = correlate(replace(seen, frames=(), traces=(), conntrack=()))
    well_formed(walk)
    assert walk.steps == ()
    assert [gap.reason.id for gap in walk.gaps] == ["gap.no-request", "gap.no-answer-seen"]
    assert (walk.verdict, walk.endpoint) == ("answered", None)


def test_losses_are_told_wherever_they_were() -> None:
    seen = seen_in(simulate(scenario("client to nodePort, endpoint there"), Setup()))
    walk = correlate(replace(seen, losses=[Loss(NODE_B, "frame", 3), Loss("router", "trace", None)]))
    assert [gap.reason.id for gap in walk.gaps] == ["gap.lost-frames", "gap.lost-records"]
    assert (
        walk.gaps[0].reason.en
        == "3 frames in node-b were lost before they could be read: sightings may be missing there."
    )


def test_request_that_was_not_seen_as_it_was_sent_is_followed_from_where_it_was() -> None:
    seen = seen_in(simulate(scenario("UDP to nodePort, endpoint elsewhere"), Setup()))
    walk = correlate(
        replace(
            seen,
            frames=[frame for frame in seen.frames if frame.place != CLIENT],
            traces=[trace for trace in seen.traces if trace.place != CLIENT],
        )
    )
    assert walk.gaps[0].reason.id == "gap.no-request"
    assert next((step.direction, step.place) for step in walk.steps) == ("request", "router")
    assert walk.seen_by_pod is not None


def test_reject_of_which_no_error_was_sent_is_a_drop() -> None:
    """The kernel limits how many errors it sends: then the rule has dropped the packet, and nothing came."""
    probe = simulate(scenario("UDP to a clusterIP without endpoints"), Setup())
    seen = seen_in(probe)
    request = [row.event for row in probe.rows if row.role == "request"]
    kept = [event for event in probe.sim.recorder.events if event.role == "request" or event in request]
    recorded = records(kept, random.Random(1))
    probe.result = "timeout"
    walk = correlate(observation(probe, recorded))
    assert walk.verdict == "dropped"
    assert [gap.reason.id for gap in walk.gaps] == ["gap.no-error-seen"]
    assert correlate(seen).verdict == "rejected"


def test_answer_to_a_datagram_without_payload_is_known_by_its_ports() -> None:
    """Wherever it was seen: on its way back, if not at its end."""
    probe = simulate(scenario("datagram without payload"), Setup())
    seen = seen_in(probe)
    whole = correlate(seen)
    assert (whole.verdict, whole.gaps) == ("answered", ())
    lost = replace(
        seen,
        frames=[frame for frame in seen.frames if (frame.place, frame.direction) != (CLIENT, "in")],
        traces=[trace for trace in seen.traces if trace.place != CLIENT],
        conntrack=(),
    )
    walk = correlate(lost)
    assert walk.verdict == "no-reply"
    assert [step.place for step in walk.steps if step.direction == "reply"][-1] == "router"
    assert [gap.reason.id for gap in walk.gaps][-1] == "gap.not-seen-arriving"


def test_ping_without_payload_is_not_taken_for_another_with_its_number() -> None:
    probe = simulate(scenario("ping without payload to a Pod"), Setup())
    alone = view(complete(probe)[0])
    other = simulate(scenario("ping without payload"), Setup(), 7)
    number = probe.packet.changed(source=other.packet.source, destination=other.packet.destination, identification=9)
    other.sim.send(CLIENT, number, "noise")
    for event in other.sim.recorder.events:
        event.role = "noise"
    stream = merged([other.sim.recorder.events, probe.sim.recorder.events], random.Random(1))
    walk = correlate(observation(probe, records(stream, random.Random(1))))
    assert view(walk) == alone


def test_answer_that_is_the_same_packet_to_the_last_bit_is_not_told_as_one() -> None:
    """Without ports of its own and with every number zero, an echoed datagram cannot be told from the request."""
    probe = simulate(scenario("datagram without payload"), Setup())
    events = [event for event in probe.sim.recorder.events if event.role == "request" or event.kind == "frame"]
    echoed = [replace_identification(event, probe) for event in events]
    walk = correlate(observation(probe, records(echoed, random.Random(1))))
    assert all(step.direction == "request" for step in walk.steps)
    assert {gap.reason.id for gap in walk.gaps} >= {"gap.reappeared"}


def replace_identification(event: Event, probe: Simulated) -> Event:
    """The reply's frames with the request's identification and no payload."""
    data = event.values.get("data")
    if not isinstance(data, bytes) or event.role != "reply":
        return event
    changed = bytearray(data[: 14 + 20 + 8])
    changed[16:18] = (28).to_bytes(2)
    changed[18:20] = probe.packet.identification.to_bytes(2)
    changed[38:40] = (8).to_bytes(2)
    return Event("frame", event.place, {**event.values, "data": bytes(changed)}, role=event.role)


def test_bare_mark_is_not_answered_by_an_error_about_somebody_else() -> None:
    """Sixteen bits come by chance: the error has to quote the request as it was seen."""
    probe = simulate(scenario("client to nobody"), Setup())
    other = simulate(scenario("datagram without payload to a closed port"), Setup(), seed=5)
    mark = Mark(UDP, identification=other.packet.identification)
    seen = seen_in(other)
    outcome = replace(seen.outcome, source="192.168.1.100:1", destination=probe.packet.destination_text)
    assert correlate(replace(seen, mark=mark, outcome=outcome)).verdict == "no-reply"


def test_segment_of_no_connection_is_refused() -> None:
    """The reset acknowledges nothing; it is known by its own number."""
    asked = scenario("segment of no connection")
    assert asked.protocol == ACK_ONLY
    walk, _ = complete(simulate(asked, Setup()))
    back = next(step for step in walk.steps if step.direction == "reply")
    assert (walk.verdict, back.place) == ("refused", WEB_3)
    assert back.reason is not None
    assert back.reason.id == "walk.resets-stray"


def test_reset_of_a_rule_says_nothing_about_who_listens() -> None:
    walk, _ = complete(simulate(scenario("reset by a rule"), Setup()))
    told = [step.reason.id for step in walk.steps if step.direction == "reply" and step.reason is not None]
    assert told[0] == "walk.resets-by-rule"
    assert "walk.resets" not in told
