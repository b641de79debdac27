"""A walk as a table for people: 80 columns, understandable without colour, in the reader's language.

Not every step is a row: arrivals, changes, and refusals are, with what led to them. ``verbose`` shows all steps and the
records behind them. The numbers are those of the steps in ``-o json``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text as Styled

from netlab.cli.cells import pad, wrap
from netlab.model.summaries import advice, round_trip_us, summary
from netlab.model.text import Message, Text
from netlab.model.walk import Step, Walk

WIDTH = 80
WHERE_WIDTH = 29
INDENT = "      "

HEAD = Message("table.head", en="#", zh="#")
WHERE = Message("table.where", en="where", zh="位置")
SOURCE = Message("table.source", en="source", zh="源地址")
DESTINATION = Message("table.destination", en="destination", zh="目标地址")
REPLY = Message("table.reply", en="reply", zh="应答")
NO_REPLY_SEEN = Message("table.no-reply", en="no reply was seen", zh="没有看到应答")
ANSWERED = Message("table.answered", en="answered by {who}", zh="由 {who} 应答")
ON_NODE = Message("table.on-node", en="{pod} on {node}", zh="{node} 上的 {pod}")
REFUSED = Message("table.refused", en="refused by {who}", zh="被 {who} 拒绝连接 (refused)")
REJECTED = Message("table.rejected", en="rejected by a rule on {who}", zh="被 {who} 上的规则拒绝 (rejected)")
DROPPED = Message("table.dropped", en="dropped on {who}", zh="在 {who} 被丢弃 (dropped)")
NO_REPLY = Message("table.no-reply-verdict", en="no reply", zh="没有应答 (no-reply)")
UNREACHABLE = Message("table.unreachable", en="unreachable, says {who}", zh="{who} 称不可达 (unreachable)")
UNREACHABLE_LOCAL = Message("table.unreachable-local", en="unreachable", zh="不可达 (unreachable)")
AFTER = Message("table.after", en="{verdict}, {time}", zh="{verdict}，{time}")
RULES_PASSED = Message("table.because", en="because of {origin}", zh="原因：{origin}")
CONNTRACK = Message(
    "table.conntrack", en="conntrack on {node}: {protocol} {status}", zh="{node} 上的连接跟踪：{protocol} {status}"
)
ORIGINAL = Message("table.original", en="original", zh="原始方向")
REPLY_TUPLE = Message("table.reply-tuple", en="reply", zh="应答方向")
_ACTIONS = {
    "SNAT undone": Message("table.snat-undone", en="SNAT undone", zh="撤销 SNAT"),
    "DNAT undone": Message("table.dnat-undone", en="DNAT undone", zh="撤销 DNAT"),
    "changed": Message("table.changed", en="changed", zh="已改变"),
    "drop": Message("table.drop", en="DROP", zh="丢弃 (DROP)"),
    "reject": Message("table.reject", en="REJECT", zh="拒绝 (REJECT)"),
}
NO_SNAT = Message("table.no-snat", en="no SNAT", zh="无 SNAT")
NOT_OBSERVED = Message("table.not-observed", en="not observed", zh="未观察到")
TO_TRY = Message("table.to-try", en="→ {advice}", zh="→ {advice}")
EVIDENCE = Message("table.evidence", en="evidence: {records}", zh="证据：{records}")

_VERDICT_STYLES = {
    "answered": "bold #009e73",
    "refused": "bold #d55e00",
    "rejected": "bold #d55e00",
    "dropped": "bold #cc79a7",
    "no-reply": "bold",
    "unreachable": "bold #d55e00",
}
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
    "walk.sent-to-balanced",
    "walk.in-vxlan",
    "walk.accepts",
    "walk.nobody-there",
    "walk.resets",
    "walk.resets-stray",
    "walk.resets-by-rule",
    "walk.answers-with-error",
    "walk.hops-used-up",
    "walk.nobody-speaks-it",
}
_IPTABLES_TABLES = ("raw", "mangle", "nat", "filter", "security")
_CHANGED_STYLE = "bold #e69f00"
_QUIET = "dim"
_MARKS = {"answered": "✓", "refused": "✗", "rejected": "✗", "dropped": "✗", "no-reply": "?", "unreachable": "✗"}


@dataclass
class Row:
    """One row: the step that it stands for, where, and the lines below it."""

    step: Step
    where: str
    action: str = ""
    path: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


def print_walk(walk: Walk, console: Console, language: str, *, verbose: bool = False) -> None:
    """Print the walk's answer, its rows, and what to remember."""
    _Printer(walk, console, language, verbose).print()


class _Printer:
    def __init__(self, walk: Walk, console: Console, language: str, verbose: bool) -> None:
        self.walk = walk
        self.console = console
        self.language = language
        self.verbose = verbose
        self.short = _short_names(walk)
        longest = max((cell_len(each) for step in walk.steps for each in (step.source, step.destination)), default=0)
        self.column = max(longest + 1, 12)
        self.wide = 5 + WHERE_WIDTH + 2 + self.column + 2 + longest > WIDTH

    def say(self, text: Text) -> str:
        return text.in_language(self.language)

    def line(self, text: str | Styled = "") -> None:
        self.console.print(text, soft_wrap=True, highlight=False, markup=False)

    def print(self) -> None:
        self._headline()
        self.line()
        rows = self._rows()
        if rows:
            self._heading()
        direction = "request"
        for row in rows:
            if row.step.direction != direction:
                direction = row.step.direction
                self.line(Styled(f"  {self.say(REPLY())}", style=_QUIET))
            self._row(row)
        self.line()
        self._closing()

    # The first lines

    def _headline(self) -> None:
        walk = self.walk
        probe = f"{walk.probe.from_} → {walk.probe.to}  {walk.probe.protocol}  {walk.mode}"
        verdict = self.say(self._verdict())
        if (duration := round_trip_us(walk)) is not None:
            verdict = self.say(AFTER(verdict=verdict, time=_duration(duration)))
        shown = f"{_MARKS[walk.verdict]} {verdict}"
        style = _VERDICT_STYLES[walk.verdict]
        if cell_len(probe) + cell_len(shown) + 3 <= WIDTH:
            line = Styled(probe + "   ")
            line.append(shown, style=style)
            self.line(line)
            return
        self.line(probe)
        for part in wrap(shown, WIDTH):
            self.line(Styled(part, style=style))

    def _verdict(self) -> Text:
        walk = self.walk
        who = self._endpoint_words() or (self._place(walk.steps[-1].place) if walk.steps else "?")
        refusing = next((step for step in walk.steps if step.action in ("drop", "reject")), None)
        if refusing is not None:
            at = self._place(refusing.place)
        if walk.verdict == "answered":
            return ANSWERED(who=who)
        if walk.verdict == "refused":
            requests = [step for step in walk.steps if step.direction == "request"]
            return REFUSED(who=self._endpoint_words() or (self._place(requests[-1].place) if requests else "?"))
        if walk.verdict == "rejected":
            return REJECTED(who=at if refusing is not None else who)
        if walk.verdict == "dropped":
            return DROPPED(who=at if refusing is not None else who)
        if walk.verdict == "unreachable":
            saying = next((step for step in walk.steps if step.direction == "reply"), None)
            return UNREACHABLE(who=self._place(saying.place)) if saying is not None else UNREACHABLE_LOCAL()
        return NO_REPLY()

    def _endpoint_words(self) -> str | None:
        endpoint = self.walk.endpoint
        if endpoint is None:
            return None
        name = endpoint.pod or endpoint.ip
        if endpoint.node is None or endpoint.node == name:
            return name
        return self.say(ON_NODE(pod=name, node=endpoint.node))

    # Rows

    def _rows(self) -> list[Row]:
        if self.verbose:
            return [self._verbose_row(step) for step in self.walk.steps]
        rows: list[Row] = []
        for group in _groups(self.walk.steps):
            row = self._group_row(group, rows)
            if row is not None:
                rows.append(row)
        return rows

    def _group_row(self, group: Sequence[Step], before: Sequence[Row]) -> Row | None:
        """What a group of steps shows: frames where they arrive, hooks where something changed or ended."""
        first = group[0]
        if first.action == "sent" and first.hook is not None:
            reason = [self.say(first.reason)] if first.reason is not None else []
            return Row(first, self._hook_words(first), lines=reason)
        if first.hook is None:
            return self._frame_row(group, before)
        key = next((step for step in group if step.changed or step.action in ("drop", "reject")), None)
        kept = next((step for step in group if step.reason is not None and step.reason.id == "rule.not-marked"), None)
        if key is None:
            if kept is not None and self._translated_here(kept):
                reason = [self.say(kept.reason)] if kept.reason is not None else []
                return Row(kept, self._hook_words(kept), action=self.say(NO_SNAT()), lines=reason)
            return None
        action = self._action_words(key)
        row = Row(key, self._hook_words(key), action=action, path=_chain_path(group, key))
        row.lines = self._explanations(group, key)
        return row

    def _action_words(self, step: Step) -> str:
        known = _ACTIONS.get(step.action)
        return self.say(known()) if known is not None else step.action

    def _frame_row(self, group: Sequence[Step], before: Sequence[Row]) -> Row | None:
        question = next((step for step in group if step.action == "unanswered"), None)
        if question is not None:
            reason = [self.say(question.reason)] if question.reason is not None else []
            return Row(question, f"{self._place(question.place)} {question.interface}", lines=reason)
        arrivals = [step for step in group if step.action == "received"]
        last_of_walk = group[-1].n == self.walk.steps[-1].n
        if self._stays_in_place(group[0]) and not last_of_walk:
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
        row = Row(step, f"{self._place(step.place)} {step.interface}")
        if step.reason is not None and step.reason.id in _TOLD_OF_FRAMES:
            row.lines = [self.say(step.reason)]
        return row

    def _stays_in_place(self, step: Step) -> bool:
        """Whether the packet was in the same place before this step: then its arrival has been shown."""
        if step.n == 1:
            return False
        before = self.walk.steps[step.n - 2]
        same = before.place == step.place and before.direction == step.direction
        return same and before.hook is not None

    def _translated_here(self, step: Step) -> bool:
        """Whether the same place translated the packet before: only there is a kept source worth a row."""
        return any(
            each.place == step.place and each.changed and each.n < step.n and each.direction == step.direction
            for each in self.walk.steps
        )

    def _explanations(self, group: Sequence[Step], key: Step) -> list[str]:
        """The reasons that matter for a change: the choice that led to a DNAT, the mark that led to an SNAT."""
        lines: list[str] = []
        if key.action == "SNAT":
            for step in self.walk.steps:
                marks = step.reason is not None and step.reason.id.startswith("rule.masq-")
                if marks and step.place == key.place and step.n < key.n and step.direction == key.direction:
                    assert step.reason is not None
                    lines = [self.say(step.reason)]
        elif key.action == "DNAT":
            for step in group:
                if step.reason is not None and step.reason.id in _DECISIONS:
                    lines.append(self._with_origin(step))
        if key.reason is not None:
            if key.action in ("drop", "reject"):
                lines.append(self._with_origin(key))
            else:
                lines.append(self.say(key.reason))
        return lines

    def _with_origin(self, step: Step) -> str:
        assert step.reason is not None
        text = self.say(step.reason)
        if step.origin is None or step.origin.line is None:
            return text
        return f"{text} [{step.origin.field}, {step.origin.file}:{step.origin.line}]"

    def _verbose_row(self, step: Step) -> Row:
        where = f"{self._place(step.place)} {step.interface}" if step.hook is None else self._hook_words(step)
        row = Row(step, where, action=step.action if step.hook is not None else "")
        if step.rule is not None:
            iptables = step.table in _IPTABLES_TABLES
            row.path = [f"-A {step.chain} {step.rule}" if iptables else f"{step.chain}: {step.rule}"]
        if step.reason is not None:
            row.lines.append(self.say(step.reason))
        if step.origin is not None:
            row.lines.append(self.say(RULES_PASSED(origin=step.origin)))
        row.lines.append(self.say(EVIDENCE(records=", ".join(step.evidence))))
        return row

    # Drawing

    def _heading(self) -> None:
        where = pad(self.say(WHERE()), WHERE_WIDTH)
        if self.wide:
            self.line(Styled(f"  {self.say(HEAD())}  {where}", style=_QUIET))
            return
        source = pad(self.say(SOURCE()), self.column)
        line = f"  {self.say(HEAD())}  {where}  {source}  {self.say(DESTINATION())}"
        self.line(Styled(line, style=_QUIET))

    def _row(self, row: Row) -> None:
        step = row.step
        arrow = "→" if step.direction == "request" else "←"
        head = f"{step.n:>3} {arrow} {pad(row.where, WHERE_WIDTH - 1)}"
        addresses = self._addresses(step)
        if self.wide:
            self.line(head.rstrip())
            line = Styled(INDENT)
            line.append_text(addresses)
            self.line(line)
        else:
            line = Styled(head if cell_len(row.where) < WHERE_WIDTH else head + " ")
            line.append_text(addresses)
            line.rstrip()
            self.line(line)
        self._below(row)

    def _addresses(self, step: Step) -> Styled:
        source_changed, destination_changed = "source" in step.changed, "destination" in step.changed
        text = Styled("» " if source_changed else "  ", style=_CHANGED_STYLE if source_changed else "")
        text.append(pad(step.source, self.column), style=_CHANGED_STYLE if source_changed else "")
        text.append("» " if destination_changed else "  ", style=_CHANGED_STYLE if destination_changed else "")
        text.append(step.destination, style=_CHANGED_STYLE if destination_changed else "")
        return text

    def _below(self, row: Row) -> None:
        tag = f"{row.action}  " if row.action else ""
        first = True
        for part in _joined_path(row.path, WIDTH - len(INDENT) - cell_len(tag)):
            self._below_line(tag if first else " " * cell_len(tag), part, tagged=first)
            first = False
        for text in row.lines:
            for part in wrap(text, WIDTH - len(INDENT) - cell_len(tag)):
                self._below_line(tag if first else " " * cell_len(tag), part, tagged=first)
                first = False

    def _below_line(self, tag: str, text: str, *, tagged: bool) -> None:
        line = Styled(INDENT)
        line.append(tag, style="bold" if tagged else "")
        line.append(text, style=_QUIET)
        self.line(line)

    def _hook_words(self, step: Step) -> str:
        table = f"{step.table} " if step.table in _IPTABLES_TABLES else ""
        return f"{self._place(step.place)} {table}{step.hook}"

    def _place(self, name: str) -> str:
        return self.short.get(name, name)

    # The last lines

    def _closing(self) -> None:
        for part in wrap(self.say(summary(self.walk)), WIDTH):
            self.line(part)
        for entry in self.walk.conntrack:
            translated = [word for word in entry.status if word in ("SNAT", "DNAT")]
            if translated or self.verbose:
                status = " ".join(entry.status if self.verbose else translated)
                self.line(self.say(CONNTRACK(node=self._place(entry.node), protocol=entry.protocol, status=status)))
                width = max(cell_len(self.say(each())) for each in (ORIGINAL, REPLY_TUPLE))
                for name, pair in ((ORIGINAL, entry.original), (REPLY_TUPLE, entry.reply)):
                    self.line(f"  {pad(self.say(name()), width)}  {pair.source} → {pair.destination}")
        for gap in self.walk.gaps:
            for part in wrap(f"! {self.say(NOT_OBSERVED())}: {self.say(gap.reason)}", WIDTH):
                self.line(part)
        if (try_next := advice(self.walk)) is not None:
            for part in wrap(self.say(TO_TRY(advice=try_next)), WIDTH):
                self.line(part)


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


def _chain_path(group: Sequence[Step], key: Step) -> list[str]:
    """The chains that led to the key step, in the order in which they were entered."""
    path: list[str] = []
    for step in group:
        if step.table == key.table and step.n <= key.n and step.chain is not None and step.chain not in path:
            path.append(step.chain)
        if step.n == key.n:
            break
    return path[1:] if len(path) > 1 else path


def _joined_path(path: Sequence[str], width: int) -> list[str]:
    """Chain names joined by arrows, cut between names."""
    lines: list[str] = []
    for name in path:
        if lines and cell_len(f"{lines[-1]} › {name}") <= width:
            lines[-1] += f" › {name}"
        else:
            lines.append(f"› {name}" if lines else name)
    return lines


def _short_names(walk: Walk) -> dict[str, str]:
    """Pods by their bare names, where no other place has it."""
    names = {step.place for step in walk.steps}
    short: dict[str, str] = {}
    for name in names:
        bare = name.rpartition("/")[2]
        if sum(each.rpartition("/")[2] == bare for each in names) == 1:
            short[name] = bare
    return short


def _duration(microseconds: float) -> str:
    if microseconds >= 1_000_000:
        return f"{microseconds / 1_000_000:.1f} s"
    return f"{microseconds / 1000:.1f} ms"
