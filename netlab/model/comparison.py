"""The same probe in several modes, side by side: what is equal, what differs, and why."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from netlab.model.summaries import advice
from netlab.model.text import Message, Text
from netlab.model.walk import Verdict, Walk, host_of

CHANCE = Message(
    "comparison.chance",
    en="The endpoint is picked by chance or in turn, in each mode anew: it may differ from probe to probe.",
    zh="端点按概率或轮流选取，每种模式各自进行：每次探测都可能不同。",
)
SOURCE = Message(
    "comparison.source",
    en="{mode}: the Pod saw {seen}. {reason}",
    zh="{mode}：Pod 看到的是 {seen}。{reason}",
)
KEPT = Message(
    "comparison.kept",
    en="No rule rewrote the source.",
    zh="没有规则改写源地址。",
)
VERDICT = Message("comparison.verdict", en="{mode}: {reason}", zh="{mode}：{reason}")
RULES = Message(
    "comparison.rules",
    en="Rules passed: iptables mode asks Service after Service, rule by rule; nftables mode looks the Service up in "
    "one map; ipvs mode in a hash table of the kernel, with a few rules around it; in userspace mode a rule leads to a "
    "program.",
    zh="经过的规则：iptables 模式逐个 Service、逐条规则比对；nftables 模式在一个映射中查找；ipvs 模式在内核的哈希表中"
    "查找，周围只有少数规则；userspace 模式由规则把流量交给一个程序。",
)


class ModeResult(msgspec.Struct, frozen=True):
    """One mode's walk in short. ``rules``: how many rules matched the request; ``nat``: its translations, in order
    ("DNAT node-a"); ``first_packet_us``: from the sending until the last place where the request was seen, in µs."""

    mode: str
    verdict: Verdict
    endpoint: str | None
    seen_by_pod: str | None
    rules: int
    nat: tuple[str, ...]
    first_packet_us: float | None
    differs: tuple[str, ...] = ()


class Comparison(msgspec.Struct, frozen=True, rename={"from_": "from"}):
    """The modes in the order asked for; ``reasons``: why they differ."""

    schema: str
    from_: str
    to: str
    modes: tuple[ModeResult, ...] = ()
    reasons: tuple[Text, ...] = ()


def compare(walks: Sequence[Walk]) -> Comparison:
    """What the walks of one probe have in common with the first of them. ``walks`` is not empty."""
    results = [_result(walk) for walk in walks]
    marked = tuple(msgspec.structs.replace(each, differs=_differences(results[0], each)) for each in results)
    probe = walks[0].probe
    return Comparison("netlab.comparison/v1", probe.from_, probe.to, marked, tuple(_reasons(walks, marked)))


def _result(walk: Walk) -> ModeResult:
    request = [step for step in walk.steps if step.direction == "request"]
    endpoint = walk.endpoint
    return ModeResult(
        mode=walk.mode,
        verdict=walk.verdict,
        endpoint=(endpoint.pod or f"{endpoint.ip}:{endpoint.port}") if endpoint is not None else None,
        seen_by_pod=walk.seen_by_pod,
        rules=sum(step.rule is not None for step in request),
        nat=tuple(f"{step.action} {step.place}" for step in request if step.changed),
        first_packet_us=request[-1].t_us if request else None,
    )


def _differences(first: ModeResult, other: ModeResult) -> tuple[str, ...]:
    """The fields in which a result is another than the first one. A masquerading port is always another."""
    pairs = {
        "verdict": (first.verdict, other.verdict),
        "endpoint": (first.endpoint, other.endpoint),
        "seen_by_pod": (_host(first.seen_by_pod), _host(other.seen_by_pod)),
        "rules": (first.rules, other.rules),
        "nat": (first.nat, other.nat),
    }
    return tuple(name for name, (one, two) in pairs.items() if one != two)


def _host(address: str | None) -> str | None:
    return host_of(address) if address is not None else None


def _reasons(walks: Sequence[Walk], results: Sequence[ModeResult]) -> list[Text]:
    differing = {name for each in results for name in each.differs}
    reasons: list[Text] = []
    if "verdict" in differing:
        for walk in walks:
            reason = advice(walk)
            if reason is not None:
                reasons.append(VERDICT(mode=walk.mode, reason=reason))
    if "endpoint" in differing and len({each.verdict for each in results}) == 1:
        reasons.append(CHANCE())
    if "seen_by_pod" in differing:
        for walk in walks:
            if walk.seen_by_pod is not None:
                reasons.append(SOURCE(mode=walk.mode, seen=host_of(walk.seen_by_pod), reason=_source_reason(walk)))
    if "rules" in differing:
        reasons.append(RULES())
    return reasons


def _source_reason(walk: Walk) -> Text:
    """Why the Pod saw this source."""
    request = [step for step in walk.steps if step.direction == "request"]
    rewriting = [step for step in request if "source" in step.changed]
    if not rewriting:
        return KEPT()
    return rewriting[-1].reason or KEPT()
