"""Which endpoint goes into which slice: as few slices as possible change, and endpoints do not move between them.

Source: k8s.io/endpointslice (reconciler.go: reconcileByPortMapping), 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Json = dict[str, Any]
_Identity = tuple[tuple[str, ...], str, str, str]

MAX_ENDPOINTS = 100


def pack(slices: Sequence[Sequence[Json]], wanted: Iterable[Json]) -> list[list[Json]]:
    """The endpoints of each slice after a change, and of new slices behind them. Old slices may come out empty.

    Endpoints stay where they are. New ones fill up the slices that change anyhow, the fullest first; then the fullest
    slice that has room for all the rest; then new slices.
    """
    waiting = {_identity(each): each for each in wanted}
    packed = [[waiting.pop(_identity(each)) for each in old if _identity(each) in waiting] for old in slices]
    unchanged = [new for old, new in zip(slices, packed, strict=True) if new == list(old)]
    changed = [new for old, new in zip(slices, packed, strict=True) if new and new != list(old)]
    for each in sorted(changed, key=len, reverse=True):
        _fill(each, waiting)
    while waiting:
        count = len(waiting)
        roomy = [each for each in unchanged if len(each) + count <= MAX_ENDPOINTS]
        if not roomy:
            packed.append([])
        _fill(max(roomy, key=len) if roomy else packed[-1], waiting)
    return packed


def _fill(endpoints: list[Json], waiting: dict[_Identity, Json]) -> None:
    for identity in list(waiting)[: MAX_ENDPOINTS - len(endpoints)]:
        endpoints.append(waiting.pop(identity))


def _identity(endpoint: Json) -> _Identity:
    """What makes two entries the same endpoint, whatever their conditions."""
    target = endpoint.get("targetRef") or {}
    return (
        tuple(sorted(endpoint["addresses"])),
        endpoint.get("hostname") or "",
        target.get("namespace", ""),
        target.get("name", ""),
    )
