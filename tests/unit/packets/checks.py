"""What has to hold between a walk and the truth."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import jsonschema
import msgspec
from hypothesis import HealthCheck, settings

import netlab.model.walk
from netlab.model.text import Text
from netlab.model.walk import Step, Walk
from tests.unit.packets.observing import Records
from tests.unit.packets.simulated_records import Row

PROFILE = settings(derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
"""Property tests try the same examples every time."""

SCHEMA = json.loads((Path(netlab.model.walk.__file__).parent / "walk.schema.json").read_text())
_VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def step_values(step: Step) -> tuple[object, ...]:
    """A step as far as the truth tells it."""
    return (
        step.direction,
        step.place,
        step.interface,
        step.hook,
        step.table,
        step.chain,
        step.rule,
        step.source,
        step.destination,
        step.changed,
    )


def row_values(row: Row) -> tuple[object, ...]:
    return tuple(row[:10])


def well_formed(walk: Walk) -> None:
    """What holds for every walk, whatever was recorded."""
    plain = json.loads(msgspec.json.encode(walk))
    _VALIDATOR.validate(plain)
    assert [step.n for step in walk.steps] == list(range(1, len(walk.steps) + 1))
    times = [step.t_us for step in walk.steps]
    assert times == sorted(times)
    assert all(0 <= gap.after <= len(walk.steps) for gap in walk.gaps)
    for step in walk.steps:
        assert step.evidence
        assert set(step.evidence) <= walk.records.keys()
    texts = [step.reason for step in walk.steps] + [gap.reason for gap in walk.gaps]
    for text in texts:
        if text is not None:
            is_filled(text)


def is_filled(text: Text) -> None:
    for wording in (text.en, text.zh):
        assert wording
        assert "{" not in wording
        assert "}" not in wording
        assert "None" not in wording


def told_rows(walk: Walk, truth: Sequence[Row], recorded: Records, *, exactly: bool = True) -> list[int]:
    """The index of the true row that each step tells. Fails for a step that tells none, or one out of order.

    ``exactly``: the step has to name what recorded the row, and not what recorded the same of the same packet that was
    sent again.
    """
    found: list[int] = []
    position = -1
    for step in walk.steps:
        later = range(position + 1, len(truth))
        position = next((index for index in later if tells(step, truth[index], recorded, exactly=exactly)), len(truth))
        assert position < len(truth), f"untrue or out of order: {step}"
        found.append(position)
    return found


def tells(step: Step, row: Row, recorded: Records, *, exactly: bool = True) -> bool:
    """Whether a step tells a true row, and names what recorded it."""
    if (step.direction, step.place, step.hook) != (row.role, row.place, row.hook):
        return False
    if step.reason is not None and step.reason.id == "rule.translates":
        # What the rule changed was not observed: the address is the one before.
        same = step.source == row.source if "destination" in row.changed else step.destination == row.destination
        return same and (step.table, step.chain, step.rule) == (row.table, row.chain, row.rule) and not step.changed
    if (step.source, step.destination, step.changed) != (row.source, row.destination, row.changed):
        return False
    if step.table is None and row.table is not None:
        # conntrack's work, as an entry tells it; in truth a rule had it done.
        return bool(step.changed)
    if (step.table, step.chain, step.rule) != (row.table, row.chain, row.rule):
        return False
    if step.hook is None or step.table is not None:
        # Records of a flooded copy say the same.
        witness = recorded.events[step.evidence[0]]
        named = row.event is not None and witness.values == row.event.values
        return step.interface == row.interface and witness.place == row.place and (named or not exactly)
    return True


def missing_rows(walk: Walk, truth: Sequence[Row], recorded: Records, *, exactly: bool = True) -> list[Row]:
    """True rows that the walk does not tell."""
    told = set(told_rows(walk, truth, recorded, exactly=exactly))
    return [row for index, row in enumerate(truth) if index not in told and not row.optional]
