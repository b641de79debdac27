"""A walk in a few words: what is remembered of it, and what is advised; never more than was observed."""

from __future__ import annotations

import random
from dataclasses import replace

import msgspec
import pytest

from netlab.model.records import TraceRecord
from netlab.model.summaries import advice, round_trip_us, summary
from netlab.model.text import Text
from netlab.model.walk import Gap, Walk
from netlab.packets.correlate import NO_REQUEST, correlate
from netlab.packets.observation import Observation
from tests.unit.packets.checks import is_filled
from tests.unit.packets.observing import observation, records
from tests.unit.packets.probing import simulate
from tests.unit.packets.scenarios import CASES, SCENARIOS
from tests.unit.packets.simulated_lab import NODE_A, NODE_B, Setup


def seen(name: str, setup: Setup | None = None) -> Observation:
    scenario = next(each for each in SCENARIOS if each.name == name)
    probe = simulate(scenario, setup or Setup())
    return observation(probe, records(probe.sim.recorder.events, random.Random(1)))


def walk(name: str, setup: Setup | None = None) -> Walk:
    return correlate(seen(name, setup))


def advised(name: str, setup: Setup | None = None) -> str:
    text = advice(walk(name, setup))
    return text.id if text is not None else ""


def test_all_texts_are_filled() -> None:
    for setup, scenario in CASES[:: len(CASES) // 60]:
        probe = simulate(scenario, setup)
        found = correlate(observation(probe, records(probe.sim.recorder.events, random.Random(1))))
        for text in (summary(found), advice(found)):
            if text is not None:
                is_filled(text)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("client to nodePort, endpoint elsewhere", "The Pod saw 192.168.60.123:"),
        ("client to nodePort of the endpoint's node", "The Pod saw its client's own address, 192.168.1.100:"),
        ("client to nodePort without endpoints", "The request did not reach an endpoint."),
        ("ping to a node", "The other end saw 192.168.1.100 as its client."),
    ],
)
def test_what_the_endpoint_saw(name: str, words: str) -> None:
    assert summary(walk(name)).en.startswith(words)


def test_how_often_addresses_were_rewritten() -> None:
    assert summary(walk("client to nodePort, endpoint elsewhere")).en.endswith("1 DNAT, 1 SNAT.")
    assert summary(walk("Pod to clusterIP, endpoint elsewhere")).en.endswith("1 DNAT, 0 SNAT.")
    assert summary(walk("Pod to the other node's nodePort and back")).en.endswith("1 DNAT, 1 SNAT.")


def test_what_was_not_observed_is_not_counted_as_nothing() -> None:
    """The node that translates was not observed at all: none of its work is in the walk."""
    whole = seen("client to nodePort, endpoint elsewhere")
    blind = correlate(
        replace(
            whole,
            frames=[frame for frame in whole.frames if frame.place != NODE_A],
            traces=[trace for trace in whole.traces if trace.place != NODE_A],
            conntrack=[record for record in whole.conntrack if record.place != NODE_A],
        )
    )
    assert summary(blind).en.endswith("At least 0 DNAT and 0 SNAT: not all was observed.")


def test_sender_that_was_not_seen_is_not_compared_with() -> None:
    """The first source in the walk may be a translated one."""
    found = walk("client to nodePort of the endpoint's node")
    unsure = msgspec.structs.replace(found, gaps=(Gap(0, NO_REQUEST(place="client")),))
    assert summary(unsure).en.startswith("The Pod saw 192.168.1.100:")
    assert "own address" not in summary(unsure).en


def test_endpoint_whose_view_was_not_observed() -> None:
    whole = seen("client to a Pod on its node's network")
    traces = [trace for trace in whole.traces if not is_last_of_input(trace)]
    found = correlate(replace(whole, traces=traces))
    assert (found.endpoint is not None, found.seen_by_pod) == (True, None)
    assert summary(found).en.startswith("What the endpoint saw as its client was not observed.")


def is_last_of_input(trace: TraceRecord) -> bool:
    return (trace.place, trace.table, trace.chain) == (NODE_B, "netlab-trace", "input")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("client to nodePort, endpoint there", ""),
        ("client to nodePort without endpoints", "advice.no-endpoints"),
        ("client to nodePort without local endpoint", "advice.local-policy"),
        ("dropped by a rule in FORWARD", "rule.dropped"),
        ("client to a closed port of a Pod", "advice.refused"),
        ("client to a closed port of a node", "advice.refused-by-node"),
        ("client to no route", "advice.no-route"),
        ("hops used up on the way", "walk.hops-used-up"),
        ("SCTP to nodePort", "walk.nobody-speaks-it"),
        ("client to nobody", "summary.join"),
    ],
)
def test_advice(name: str, expected: str) -> None:
    assert advised(name) == expected


def test_answer_that_comes_from_somebody_else() -> None:
    unfiltered = Setup(bridge_netfilter=False)
    assert advised("answer past conntrack", unfiltered) == "advice.reply-astray"
    whole = seen("answer past conntrack", unfiltered)
    cut = correlate(replace(whole, frames=[f for f in whole.frames if (f.place, f.direction) != (whole.origin, "in")]))
    text = advice(cut)
    assert text is not None
    assert text.id == "advice.last-seen"


def test_who_refused_is_told_only_where_it_was_seen() -> None:
    whole = seen("client to a closed port of a Pod")
    blind = correlate(
        replace(
            whole,
            frames=[frame for frame in whole.frames if not frame.place.startswith("default/")],
            traces=[trace for trace in whole.traces if not trace.place.startswith("default/")],
        )
    )
    assert (blind.verdict, advice(blind)) == ("refused", None)


def test_refused_where_no_service_led() -> None:
    """A user's rule led there, or nobody: then it is no Service that is wrong."""
    assert advised("redirected by a user's rule") == "advice.nothing-listens"
    text = advice(correlate(seen("client to a closed port of a Pod")))
    assert text is not None
    assert "targetPort" in text.en


def test_port_without_hairpin() -> None:
    found = walk("Pod to itself, port without hairpin", Setup(hairpin=False))
    assert [gap.reason.id for gap in found.gaps] == ["gap.hairpin-off"]
    assert "veth-web-1, the port of the bridge that it came in by" in found.gaps[0].reason.en
    assert advised("Pod to itself, port without hairpin", Setup(hairpin=False)) == "advice.hairpin"


def told_first(told: str, name: str = "client to no route") -> Walk:
    """A walk whose first step says something else about where the packet goes."""
    found = walk(name)
    reason = Text(told, f"{told} en.", f"{told} zh。")
    return msgspec.structs.replace(
        found, steps=(msgspec.structs.replace(found.steps[0], reason=reason), *found.steps[1:])
    )


def test_port_that_the_service_does_not_have() -> None:
    text = advice(told_first("walk.sent-to-no-port"))
    assert text is not None
    assert text.en == "walk.sent-to-no-port en. Rules take care of a Service's own ports alone."
    assert advice(told_first("walk.sent-to-no-port", "client to nodePort, endpoint there")) is None


def test_address_that_nothing_routes_to_a_node() -> None:
    text = advice(told_first("walk.sent-to-balanced"))
    assert text is not None
    assert "router found no way to 172.16.0.1: nothing in the lab routes this address to a node" in text.en


def test_stray_segment() -> None:
    assert advised("segment of no connection") == "walk.resets-stray"


def test_round_trip() -> None:
    found = walk("client to nodePort, endpoint there")
    assert round_trip_us(found) == found.steps[-1].t_us
    assert round_trip_us(walk("client to nobody")) is None
