"""Walks of a real lab: what the correlator makes of them, and that the simulator makes up the same records.

``record.py`` records them again. They were taken from Linux 6.18 with iptables 1.8.9 (nf_tables).
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from netlab.packets.correlate import correlate
from netlab.packets.observation import Observation
from tests.unit.packets.canonical import Canonical
from tests.unit.packets.checks import well_formed
from tests.unit.packets.observing import observation, records
from tests.unit.packets.probing import Simulated, simulate
from tests.unit.packets.record import RECORDED, load
from tests.unit.packets.scenarios import SCENARIOS, Scenario
from tests.unit.packets.simulated_lab import Setup

CASES = [(setup, name) for setup, names in RECORDED.items() for name in names]
scenarios = {scenario.name: scenario for scenario in SCENARIOS}


def likely(scenario: Scenario, setup: Setup, real: Observation) -> tuple[Simulated, Observation]:
    """The scenario simulated, with neighbours known or asked for, as it was in the real lab."""
    both = []
    for known in (True, False):
        probe = simulate(scenario, replace(setup, neighbours_known=known))
        seen = observation(probe, records(probe.sim.recorder.events, random.Random(1)))
        both.append((probe, seen))
    real_frames = Canonical(real).frames
    return next((each for each in both if Canonical(each[1]).frames == real_frames), both[0])


@pytest.mark.parametrize(("setup", "name"), CASES, ids=[f"IPv{setup.family} {name}" for setup, name in CASES])
def test_simulator_is_like_the_kernel(setup: Setup, name: str) -> None:
    """Frame for frame and trace record for trace record."""
    real = load(setup, name)
    _, seen = likely(scenarios[name], setup, real)
    assert Canonical(seen).frames == Canonical(real).frames
    assert Canonical(seen).traces == Canonical(real).traces


@pytest.mark.parametrize(("setup", "name"), CASES, ids=[f"IPv{setup.family} {name}" for setup, name in CASES])
def test_walk_of_a_recorded_probe(setup: Setup, name: str) -> None:
    real, scenario = load(setup, name), scenarios[name]
    walk = correlate(real)
    well_formed(walk)
    assert walk.verdict == scenario.verdict
    assert (walk.endpoint.pod if walk.endpoint is not None else None) == scenario.endpoint
    probe, _ = likely(scenario, setup, real)
    rows = [row for row in probe.rows if not row.optional]
    assert [where_and_what(step.direction, step.place, step.hook, step.table, step.changed) for step in walk.steps] == [
        where_and_what(row.role, row.place, row.hook, row.table, row.changed) for row in rows
    ]
    assert walk.gaps == ()


def where_and_what(*values: object) -> tuple[object, ...]:
    return values


def test_recorded_walk_in_full() -> None:
    """The example of the articles, as it is: one DNAT, one SNAT, both on the node that was asked, both undone there."""
    walk = correlate(load(Setup(), "client to nodePort, endpoint elsewhere"))
    assert [
        (step.direction, step.place, step.hook, step.action, step.changed) for step in walk.steps if step.changed
    ] == [
        ("request", "node-a", "PREROUTING", "DNAT", ("destination",)),
        ("request", "node-a", "POSTROUTING", "SNAT", ("source",)),
        ("reply", "node-a", "PREROUTING", "SNAT undone", ("destination",)),
        ("reply", "node-a", "POSTROUTING", "DNAT undone", ("source",)),
    ]
    places = list(dict.fromkeys(step.place for step in walk.steps if step.direction == "request"))
    assert places == ["client", "router", "node-a", "node-b", "default/web-3"]
    assert walk.seen_by_pod is not None
    assert walk.seen_by_pod.startswith("192.168.60.123:")
    assert [entry.node for entry in walk.conntrack] == ["node-a", "node-b"]
