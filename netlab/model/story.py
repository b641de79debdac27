"""A walk as people tell it: what came of it in one line, and the few steps of the many that matter.

Arrivals, changes and refusals matter, with what led to them; hooks where nothing was decided do not. Shared by all
frontends, so that the same walk is told in the same words everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from netlab.model.keys import Origin
from netlab.model.rulebook import IPTABLES_TABLES
from netlab.model.text import Message, Text
from netlab.model.walk import Step, Verdict, Walk

ANSWERED = Message("story.answered", en="answered by {who}", zh="由 {who} 应答")
ON_NODE = Message("story.on-node", en="{pod} on {node}", zh="{node} 上的 {pod}")
REFUSED = Message("story.refused", en="refused by {who}", zh="被 {who} 拒绝连接 (refused)")
REJECTED = Message("story.rejected", en="rejected by a rule on {who}", zh="被 {who} 上的规则拒绝 (rejected)")
DROPPED = Message("story.dropped", en="dropped on {who}", zh="在 {who} 被丢弃 (dropped)")
NO_REPLY = Message("story.no-reply", en="no reply", zh="没有应答 (no-reply)")
UNREACHABLE = Message("story.unreachable", en="unreachable, says {who}", zh="{who} 称不可达 (unreachable)")
UNREACHABLE_LOCAL = Message("story.unreachable-local", en="unreachable", zh="不可达 (unreachable)")
NO_SNAT = Message("story.no-snat", en="no SNAT", zh="无 SNAT")
UNCHANGED_ACTION = Message("story.action", en="{action}", zh="{action}")
_ACTIONS = {
    "SNAT undone": Message("story.snat-undone", en="SNAT undone", zh="撤销 SNAT"),
    "relayed": Message("story.relayed", en="RELAY", zh="转交"),
    "closed": Message("story.closed", en="CLOSE", zh="关闭"),
    "DNAT undone": Message("story.dnat-undone", en="DNAT undone", zh="撤销 DNAT"),
    "changed": Message("story.changed", en="changed", zh="已改变"),
    "drop": Message("story.drop", en="DROP", zh="丢弃 (DROP)"),
    "reject": Message("story.reject", en="REJECT", zh="拒绝 (REJECT)"),
}
MARKS: dict[Verdict, str] = {
    "answered": "✓",
    "refused": "✗",
    "rejected": "✗",
    "dropped": "✗",
    "no-reply": "?",
    "unreachable": "✗",
}
"""A shape for each verdict, so that colour is not needed."""

_DECISIONS = {
    "rule.node-port",
    "rule.to-firewall",
    "rule.cluster-ip",
    "rule.external-ip",
    "rule.load-balancer-ip",
    "rule.picked",
    "rule.only-endpoint",
    "rule.sticky",
    "rule.short-circuit",
}
_TOLD_OF_FRAMES = {
    "walk.sent-to",
    "walk.in-vxlan",
    "walk.sent-to-balanced",
    "walk.accepts",
    "walk.nobody-there",
    "walk.resets",
    "walk.resets-stray",
    "walk.resets-by-rule",
    "walk.answers-with-error",
    "walk.hops-used-up",
    "walk.nobody-speaks-it",
}


_BY_PROGRAM = ("relayed", "closed")


class Told(msgspec.Struct, frozen=True):
    """A sentence, and what caused it where that is worth a word."""

    text: Text
    origin: Origin | None = None


class Row(msgspec.Struct, frozen=True):
    """One step that matters: what was done there, the chains that led to it, and why."""

    step: Step
    action: Text | None = None
    path: tuple[str, ...] = ()
    told: tuple[Told, ...] = ()


class Names:
    """Places by the names that people say: Pods by their bare names, where no other place of the walk has it."""

    def __init__(self, walk: Walk) -> None:
        names = {step.place for step in walk.steps}
        self._short: dict[str, str] = {}
        for name in names:
            bare = name.rpartition("/")[2]
            if sum(each.rpartition("/")[2] == bare for each in names) == 1:
                self._short[name] = bare

    def place(self, name: str) -> str:
        return self._short.get(name, name)

    def where(self, step: Step) -> str:
        """Place and hook, or place and interface, or place and program."""
        if step.action in _BY_PROGRAM:
            return f"{self.place(step.place)} kube-proxy"
        if step.hook is not None:
            table = f"{step.table} " if step.table in IPTABLES_TABLES else ""
            return f"{self.place(step.place)} {table}{step.hook}"
        return f"{self.place(step.place)} {step.interface}"


def verdict_text(walk: Walk, names: Names | None = None) -> Text:
    """What came of the probe, and who said so."""
    names = names or Names(walk)
    endpoint = _endpoint_words(walk)
    refusing = next((step for step in walk.steps if step.action in ("drop", "reject")), None)
    last = names.place(walk.steps[-1].place) if walk.steps else "?"
    at = names.place(refusing.place) if refusing is not None else endpoint or last
    if walk.verdict == "answered":
        return ANSWERED(who=endpoint or last)
    if walk.verdict == "refused":
        requests = [step for step in walk.steps if step.direction == "request"]
        return REFUSED(who=endpoint or (names.place(requests[-1].place) if requests else "?"))
    if walk.verdict == "rejected":
        return REJECTED(who=at)
    if walk.verdict == "dropped":
        return DROPPED(who=at)
    if walk.verdict == "unreachable":
        saying = next((step for step in walk.steps if step.direction == "reply"), None)
        return UNREACHABLE(who=names.place(saying.place)) if saying is not None else UNREACHABLE_LOCAL()
    return NO_REPLY()


def _endpoint_words(walk: Walk) -> Text | str | None:
    endpoint = walk.endpoint
    if endpoint is None:
        return None
    name = endpoint.pod or endpoint.ip
    if endpoint.node is None or endpoint.node == name:
        return name
    return ON_NODE(pod=name, node=endpoint.node)


def duration_text(microseconds: float) -> str:
    if microseconds >= 1_000_000:
        return f"{microseconds / 1_000_000:.1f} s"
    return f"{microseconds / 1000:.1f} ms"


def action_text(step: Step) -> Text:
    """What was done in a step, in words where it is no name of the field's own."""
    known = _ACTIONS.get(step.action)
    return known() if known is not None else UNCHANGED_ACTION(action=step.action)


def rule_text(step: Step) -> str | None:
    """The rule as its tool writes it, with its chain; None for steps that are no rule's."""
    if step.rule is None:
        return None
    return f"-A {step.chain} {step.rule}" if step.table in IPTABLES_TABLES else f"{step.chain}: {step.rule}"


def story(walk: Walk) -> list[Row]:
    """The steps that matter, in their order."""
    rows: list[Row] = []
    for group in _groups(walk.steps):
        row = _group_row(walk, group, rows)
        if row is not None:
            rows.append(row)
    return rows


def _group_row(walk: Walk, group: Sequence[Step], before: Sequence[Row]) -> Row | None:
    """What a group of steps shows: frames where they arrive, hooks where something changed or ended."""
    first = group[0]
    if first.action in _BY_PROGRAM:
        return Row(first, action_text(first), told=_reason_of(first))
    if first.action == "sent" and first.hook is not None:
        return Row(first, told=_reason_of(first))
    if first.hook is None:
        return _frame_row(walk, group, before)
    key = next((step for step in group if step.changed or step.action in ("drop", "reject")), None)
    if key is not None:
        return Row(key, action_text(key), _chain_path(group, key), tuple(_explanations(walk, group, key)))
    kept = next((step for step in group if step.reason is not None and step.reason.id == "rule.not-marked"), None)
    if kept is not None and _translated_here(walk, kept):
        return Row(kept, NO_SNAT(), told=_reason_of(kept))
    return None


def _reason_of(step: Step) -> tuple[Told, ...]:
    return (Told(step.reason),) if step.reason is not None else ()


def _frame_row(walk: Walk, group: Sequence[Step], before: Sequence[Row]) -> Row | None:
    question = next((step for step in group if step.action == "unanswered"), None)
    if question is not None:
        return Row(question, told=_reason_of(question))
    arrivals = [step for step in group if step.action == "received"]
    last_of_walk = group[-1].n == walk.steps[-1].n
    if _stays_in_place(walk, group[0]) and not last_of_walk:
        return None
    if not arrivals:
        begins = not before or before[-1].step.direction != group[0].direction
        if not begins and not last_of_walk:
            return None
        step = group[0] if begins else group[-1]
    else:
        step = arrivals[-1] if last_of_walk else arrivals[0]
        if _only_switched(group) and not last_of_walk:
            return None
    return Row(step, told=_reason_of(step) if step.reason is not None and step.reason.id in _TOLD_OF_FRAMES else ())


def _stays_in_place(walk: Walk, step: Step) -> bool:
    """Whether the packet was in the same place before this step: then its arrival has been shown."""
    if step.n == 1:
        return False
    before = walk.steps[step.n - 2]
    same = before.place == step.place and before.direction == step.direction
    return same and before.hook is not None


def _translated_here(walk: Walk, step: Step) -> bool:
    """Whether the same place translated the packet before: only there is a kept source worth a row."""
    return any(
        each.place == step.place and each.changed and each.n < step.n and each.direction == step.direction
        for each in walk.steps
    )


def _explanations(walk: Walk, group: Sequence[Step], key: Step) -> list[Told]:
    """The reasons that matter for a change: the choice that led to a DNAT, the mark that led to an SNAT."""
    told: list[Told] = []
    if key.action == "SNAT":
        for step in walk.steps:
            marks = step.reason is not None and step.reason.id.startswith("rule.masq-")
            if marks and step.place == key.place and step.n < key.n and step.direction == key.direction:
                told = list(_reason_of(step))
    elif key.action == "DNAT":
        for step in group:
            if step.reason is not None and step.reason.id in _DECISIONS:
                told.append(Told(step.reason, step.origin))
    if key.reason is not None:
        told.append(Told(key.reason, key.origin if key.action in ("drop", "reject", "IPVS") else None))
    return told


def _groups(steps: Iterable[Step]) -> list[list[Step]]:
    """Steps that belong together: in one place, of one kind, in one hook and (for hooks) up to a change."""
    groups: list[list[Step]] = []
    for step in steps:
        last = groups[-1][-1] if groups else None
        same = (
            last is not None
            and last.place == step.place
            and last.direction == step.direction
            and last.hook == step.hook
            and (step.hook is not None or not (last.action == "sent" and step.action == "received"))
            and step.action != "unanswered"
            and step.action not in _BY_PROGRAM
            and last.action not in _BY_PROGRAM
            and not (last.hook is not None and (last.changed or last.action == "sent"))
        )
        if same:
            groups[-1].append(step)
        else:
            groups.append([step])
    return groups


def _only_switched(group: Sequence[Step]) -> bool:
    """Whether the packet only crossed a switch: in by one port, out by another, with nothing in between."""
    return len(group) == 2 and group[0].action == "received" and group[1].action == "sent"


def _chain_path(group: Sequence[Step], key: Step) -> tuple[str, ...]:
    """The chains that led to the key step, in the order in which they were entered."""
    path: list[str] = []
    for step in group:
        if step.table == key.table and step.n <= key.n and step.chain is not None and step.chain not in path:
            path.append(step.chain)
        if step.n == key.n:
            break
    return tuple(path[1:] if len(path) > 1 else path)
