"""The walk of one probe through the lab: the value that table, app, recording and tests share.

Its JSON form is the contract ``netlab.walk/v1``; ``netlab/model/walk.schema.json`` describes it, and a test holds
these types and that file together. Fields that do not apply are null. Addresses are ``A:P``, ``[A6]:P``, or ``A`` where
there is no port.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from netlab.model.keys import Origin
from netlab.model.text import Text

SCHEMA = "netlab.walk/v1"

Verdict = Literal["answered", "refused", "rejected", "dropped", "no-reply", "unreachable"]
Direction = Literal["request", "reply"]
Changed = Literal["source", "destination"]


class Probe(msgspec.Struct, frozen=True, rename={"from_": "from"}):
    """What was asked for: who sent it, where to, and how."""

    from_: str
    to: str
    protocol: str


class Endpoint(msgspec.Struct, frozen=True):
    """The endpoint that the request reached; ``pod`` is null where no Pod of the lab has the address."""

    pod: str | None
    ip: str
    port: int | None
    node: str | None


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One observed step. ``source`` and ``destination`` are the packet's addresses after it.

    ``t_us`` counts from the first record of the walk, in microseconds. The kernel times frames, not rules: a step in a
    hook carries the time of the last frame before it. ``changed`` names what this very step changed.
    """

    n: int
    t_us: float
    direction: Direction
    place: str
    interface: str | None
    hook: str | None
    table: str | None
    chain: str | None
    rule: str | None
    action: str
    source: str
    destination: str
    changed: tuple[Changed, ...]
    reason: Text | None
    origin: Origin | None
    evidence: tuple[str, ...]


class Gap(msgspec.Struct, frozen=True):
    """Something that could not be observed, after the step numbered ``after`` (0: before the first)."""

    after: int
    reason: Text


class Pair(msgspec.Struct, frozen=True):
    """Source and destination of one direction of a conntrack entry."""

    source: str
    destination: str


class ConntrackEntry(msgspec.Struct, frozen=True):
    """The conntrack entry that the walk's packets belonged to on ``node``."""

    node: str
    protocol: str
    original: Pair
    reply: Pair
    status: tuple[str, ...]


class Walk(msgspec.Struct, frozen=True, kw_only=True):
    """The whole walk. ``records`` holds every record that a step names in its evidence, by id."""

    schema: str = SCHEMA
    mode: str
    probe: Probe
    verdict: Verdict
    endpoint: Endpoint | None
    seen_by_pod: str | None
    steps: tuple[Step, ...]
    gaps: tuple[Gap, ...]
    conntrack: tuple[ConntrackEntry, ...]
    records: dict[str, dict[str, object]]


def endpoint_text(address: str, port: int | None) -> str:
    """``A:P``, ``[A6]:P`` or ``A``."""
    if port is None:
        return address
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def host_of(address: str) -> str:
    """The address of ``A:P``, ``[A6]:P`` or ``A``."""
    if address.startswith("["):
        return address[1:].partition("]")[0]
    return address.rpartition(":")[0] if address.count(":") == 1 else address
