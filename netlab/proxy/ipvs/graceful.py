"""How real servers leave: one that still has connections stays at weight 0 until they are over.

Source: kubernetes/pkg/proxy/ipvs/graceful_termination.go. What is leaving is seen in the kernel (a weight of 0), so a
proxy that starts anew goes on where the old one ended.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from typing import NamedTuple

from netlab.kernel.ipvs import MASQUERADING, RealServer, ServerAddress, Target
from netlab.proxy.ipvs.operations import DeleteReal, NewReal, SetReal
from netlab.proxy.ipvs.values import WEIGHT

CHECK_S = 60.0
"""How often kube-proxy looks whether the connections of leaving real servers are over."""

Reals = Mapping[Target, RealServer]
Leaving = Mapping[ServerAddress, Set[Target]]


class RealChanges(NamedTuple):
    """Steps that bring real servers into service, steps that take some out, and those that are leaving then."""

    joining: list[NewReal | SetReal]
    going: list[SetReal | DeleteReal]
    leaving: frozenset[Target]


def is_graceful(address: ServerAddress) -> bool:
    """Whether connections may finish. Those of UDP and SCTP go elsewhere with the next packet (expire_nodest_conn)."""
    return address.protocol == "tcp"


def real_changes(address: ServerAddress, wanted: Set[Target], actual: Reals, leaving: Set[Target]) -> RealChanges:
    """What makes the real servers of one virtual server the wanted ones.

    ``leaving``: those that this proxy knows to be leaving; it is for :func:`finished` to delete them. One that is
    wanted again gets its weight back and keeps its connections.
    """
    joining: list[NewReal | SetReal] = []
    going: list[SetReal | DeleteReal] = []
    staying: set[Target] = set()
    for target in wanted:
        real = actual.get(target)
        if real is None:
            joining.append(NewReal(address, target))
        elif real.weight != WEIGHT or real.method != MASQUERADING:
            joining.append(SetReal(address, target, WEIGHT))
    for target, real in actual.items():
        if target in wanted:
            continue
        if target not in leaving and not (is_graceful(address) and real.connections):
            going.append(DeleteReal(address, target))
            continue
        staying.add(target)
        if real.weight:
            going.append(SetReal(address, target, 0))
    return RealChanges(joining, going, frozenset(staying))


def finished(address: ServerAddress, leaving: Set[Target], actual: Reals) -> tuple[list[DeleteReal], frozenset[Target]]:
    """The leaving real servers of one virtual server that have no connection left, and those that still have some."""
    there = [target for target in leaving if target in actual]
    over = [target for target in there if not actual[target].connections]
    return [DeleteReal(address, target) for target in over], frozenset(there) - frozenset(over)


def next_check(started: float, now: float) -> float:
    """When kube-proxy, started then, looks next: once a minute from its start on, whatever happens in between."""
    return started + (math.floor((now - started) / CHECK_S) + 1) * CHECK_S
