"""A walk as a table for people: 80 columns, understandable without colour, in the reader's language.

Not every step is a row (see :mod:`netlab.model.story`); ``verbose`` shows all steps and the records behind them. The
numbers are those of the steps in ``-o json``.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text as Styled

from netlab.cli.cells import pad, wrap
from netlab.model.story import MARKS, Names, Row, Told, action_text, duration_text, rule_text, story, verdict_text
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
AFTER = Message("table.after", en="{verdict}, {time}", zh="{verdict}，{time}")
RULES_PASSED = Message("table.because", en="because of {origin}", zh="原因：{origin}")
CONNTRACK = Message(
    "table.conntrack", en="conntrack on {node}: {protocol} {status}", zh="{node} 上的连接跟踪：{protocol} {status}"
)
ORIGINAL = Message("table.original", en="original", zh="原始方向")
REPLY_TUPLE = Message("table.reply-tuple", en="reply", zh="应答方向")
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
_CHANGED_STYLE = "bold #e69f00"
_QUIET = "dim"


def print_walk(walk: Walk, console: Console, language: str, *, verbose: bool = False) -> None:
    """Print the walk's answer, its rows, and what to remember."""
    _Printer(walk, console, language, verbose).print()


class _Printer:
    def __init__(self, walk: Walk, console: Console, language: str, verbose: bool) -> None:
        self.walk = walk
        self.console = console
        self.language = language
        self.verbose = verbose
        self.names = Names(walk)
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
        verdict = self.say(verdict_text(walk, self.names))
        if (duration := round_trip_us(walk)) is not None:
            verdict = self.say(AFTER(verdict=verdict, time=duration_text(duration)))
        shown = f"{MARKS[walk.verdict]} {verdict}"
        style = _VERDICT_STYLES[walk.verdict]
        if cell_len(probe) + cell_len(shown) + 3 <= WIDTH:
            line = Styled(probe + "   ")
            line.append(shown, style=style)
            self.line(line)
            return
        self.line(probe)
        for part in wrap(shown, WIDTH):
            self.line(Styled(part, style=style))

    # Rows

    def _rows(self) -> list[Row]:
        return [Row(step) for step in self.walk.steps] if self.verbose else story(self.walk)

    def _told(self, told: Told) -> str:
        text, origin = self.say(told.text), told.origin
        return (
            text if origin is None or origin.line is None else f"{text} [{origin.field}, {origin.file}:{origin.line}]"
        )

    def _verbose_lines(self, step: Step) -> list[str]:
        lines = [self.say(step.reason)] if step.reason is not None else []
        if step.origin is not None:
            lines.append(self.say(RULES_PASSED(origin=step.origin)))
        return [*lines, self.say(EVIDENCE(records=", ".join(step.evidence)))]

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
        where = self.names.where(step)
        head = f"{step.n:>3} {arrow} {pad(where, WHERE_WIDTH - 1)}"
        addresses = self._addresses(step)
        if self.wide:
            self.line(head.rstrip())
            line = Styled(INDENT)
            line.append_text(addresses)
            self.line(line)
        else:
            line = Styled(head if cell_len(where) < WHERE_WIDTH else head + " ")
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
        if self.verbose:
            action = self.say(action_text(row.step)) if row.step.hook is not None else ""
            rule = rule_text(row.step)
            path = [rule] if rule is not None else []
            lines = self._verbose_lines(row.step)
        else:
            action = self.say(row.action) if row.action is not None else ""
            path, lines = list(row.path), [self._told(each) for each in row.told]
        tag = f"{action}  " if action else ""
        first = True
        for part in _joined_path(path, WIDTH - len(INDENT) - cell_len(tag)):
            self._below_line(tag if first else " " * cell_len(tag), part, tagged=first)
            first = False
        for text in lines:
            for part in wrap(text, WIDTH - len(INDENT) - cell_len(tag)):
                self._below_line(tag if first else " " * cell_len(tag), part, tagged=first)
                first = False

    def _below_line(self, tag: str, text: str, *, tagged: bool) -> None:
        line = Styled(INDENT)
        line.append(tag, style="bold" if tagged else "")
        line.append(text, style=_QUIET)
        self.line(line)

    # The last lines

    def _closing(self) -> None:
        for part in wrap(self.say(summary(self.walk)), WIDTH):
            self.line(part)
        for entry in self.walk.conntrack:
            translated = [word for word in entry.status if word in ("SNAT", "DNAT")]
            if translated or self.verbose:
                status = " ".join(entry.status if self.verbose else translated)
                self.line(
                    self.say(CONNTRACK(node=self.names.place(entry.node), protocol=entry.protocol, status=status))
                )
                width = max(cell_len(self.say(each())) for each in (ORIGINAL, REPLY_TUPLE))
                for name, pair in ((ORIGINAL, entry.original), (REPLY_TUPLE, entry.reply)):
                    self.line(f"  {pad(self.say(name()), width)}  {pair.source} → {pair.destination}")
        for gap in self.walk.gaps:
            for part in wrap(f"! {self.say(NOT_OBSERVED())}: {self.say(gap.reason)}", WIDTH):
                self.line(part)
        if (try_next := advice(self.walk)) is not None:
            for part in wrap(self.say(TO_TRY(advice=try_next)), WIDTH):
                self.line(part)


def _joined_path(path: Sequence[str], width: int) -> list[str]:
    """Chain names joined by arrows, cut between names."""
    lines: list[str] = []
    for name in path:
        if lines and cell_len(f"{lines[-1]} › {name}") <= width:
            lines[-1] += f" › {name}"
        else:
            lines.append(f"› {name}" if lines else name)
    return lines
