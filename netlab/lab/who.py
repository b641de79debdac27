"""Who sends a probe: a client's name, a node's name, or "[namespace/]pod", looked up in this order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from netlab.model.errors import BadInput
from netlab.model.keys import ObjectKey
from netlab.model.text import Message
from netlab.model.topology import Topology

UNKNOWN = Message(
    "who.unknown",
    en='--from: "{who}" is no client, node or Pod of the lab; there are {known}',
    zh='--from："{who}" 不是实验中的客户端、节点或 Pod；可用的有 {known}',
)
AMBIGUOUS = Message(
    "who.ambiguous",
    en='--from: "{who}" is ambiguous: it may be {candidates}; say which, as in {example}',
    zh='--from："{who}" 有歧义：可能是 {candidates}；请写明，例如 {example}',
)
SHOWN = 20


@dataclass(frozen=True)
class Sender:
    """``place`` is the network namespace that packets come from: a Pod on its node's network sends from the node."""

    name: str
    place: str


def find_sender(who: str, topology: Topology, host_network: Mapping[ObjectKey, str]) -> Sender:
    """Raises :class:`BadInput` for a name that is unknown or ambiguous."""
    places = topology.places
    for kind in ("client", "node"):
        place = places.get(who)
        if place is not None and place.kind == kind:
            return Sender(who, who)
    pods = {place.name: place.name for place in places.values() if place.kind == "pod"}
    pods |= {key.path: node for key, node in host_network.items()}
    if who in pods:
        return Sender(who, pods[who])
    candidates = sorted(path for path in pods if path.rpartition("/")[2] == who)
    if len(candidates) == 1:
        return Sender(candidates[0], pods[candidates[0]])
    if candidates:
        raise BadInput(AMBIGUOUS(who=who, candidates=", ".join(candidates), example=candidates[0]))
    hosts = [place.name for place in places.values() if place.kind in ("client", "node")]
    known = [*hosts, *sorted(pods)]
    listed = ", ".join(known[:SHOWN]) + (" …" if len(known) > SHOWN else "")
    raise BadInput(UNKNOWN(who=who, known=listed))
