"""All that is known of the step that is shown: why, addresses before and after, the rule and its origin, conntrack."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtWidgets import QFrame, QLabel, QSplitter, QTextBrowser, QVBoxLayout, QWidget

from gui.look.fonts import mono_font
from gui.look.style import Look
from gui.look.theme import Theme
from gui.values.moment import EntrySeen, entry_at, frame_at
from gui.walk.frame import FrameView
from gui.walk.player import Player
from gui.words.language import Language
from netlab.model.keys import Origin
from netlab.model.story import Names, action_text, rule_text
from netlab.model.text import Message, Text
from netlab.model.walk import Walk

NAME = Message("gui.details.name", en="Details of the step", zh="步骤详情")
STEP_OF = Message("gui.details.step-of", en="Step {n} of {all}", zh="第 {n} 步，共 {all} 步")
REQUEST = Message("gui.details.request", en="request", zh="请求")
REPLY = Message("gui.details.reply", en="reply", zh="应答")
ADDRESSES = Message("gui.details.addresses", en="Addresses", zh="地址")
SOURCE = Message("gui.details.source", en="source", zh="源")
DESTINATION = Message("gui.details.destination", en="destination", zh="目标")
PROTOCOL = Message("gui.details.protocol", en="protocol", zh="协议")
RULE = Message("gui.details.rule", en="Rule", zh="规则")
CAUSE = Message("gui.details.cause", en="Where it comes from", zh="来源")
ALLOCATED = Message(
    "gui.details.allocated", en="not written in a file: a default or allocated", zh="未写在文件中：默认值或自动分配"
)
CONNTRACK = Message("gui.details.conntrack", en="conntrack entry", zh="连接跟踪条目")
AT_END = Message("gui.details.at-end", en="as the end of the walk found it", zh="旅程结束时的状态")
NO_ENTRY = Message(
    "gui.details.no-entry",
    en="None yet on {node}: it is made when the packet leaves the last hook.",
    zh="{node} 上还没有条目：数据包离开最后一个钩子时才会建立。",
)
ORIGINAL = Message("gui.details.original", en="original", zh="原始方向")
EXPECTED = Message("gui.details.expected", en="reply", zh="应答方向")
EVIDENCE = Message("gui.details.evidence", en="Observed", zh="观察到的记录")
FRAME = Message("gui.details.frame", en="Frame at {where}", zh="{where} 的帧")
FRAME_BEFORE = Message("gui.details.frame-before", en="Last frame before, at {where}", zh="此前最后一帧，位于 {where}")
NO_FRAME = Message("gui.details.no-frame", en="No frame was seen here.", zh="此处没有观察到帧。")
EMPTY = Message(
    "gui.details.empty",
    en="Send a probe: each step of its walk is explained here, with the rule that decided and the YAML behind it.",
    zh="发送一个探测包：这里会解释其旅程的每一步，以及起决定作用的规则和背后的那一行 YAML。",
)

QUOTED = 34
"""Characters of a line of YAML that are quoted."""
Lines = Callable[[str, int], list[tuple[int, str]]]
"""The lines of a file around one, with their numbers; empty where the file is not at hand."""


class StepDetails(QWidget):
    """``origin_chosen`` with file and line; ``rule_chosen`` with node, table and chain."""

    origin_chosen = Signal(str, int)
    rule_chosen = Signal(str, str, str)

    def __init__(self, player: Player, look: Look, language: Language, lines: Lines) -> None:
        super().__init__()
        self.player, self.look, self.language, self._lines = player, look, language, lines
        self.text = QTextBrowser()
        self.text.setOpenLinks(False)
        self.text.setFrameShape(QFrame.Shape.NoFrame)
        self.text.document().setDocumentMargin(12)
        self.text.anchorClicked.connect(self._follow_link)
        self.text.setTabChangesFocus(True)
        language.bind(self.text, self.text.setAccessibleName, NAME)
        self.frame = FrameView(look, language)
        self.frame_title = QLabel()
        self.frame_title.setObjectName("section")
        self.frame_title.setContentsMargins(12, 8, 12, 4)
        below = QWidget()
        inner = QVBoxLayout(below)
        inner.setContentsMargins(0, 0, 0, 0)
        inner.setSpacing(0)
        inner.addWidget(self.frame_title)
        inner.addWidget(self.frame)
        self.split = QSplitter(Qt.Orientation.Vertical)
        self.split.addWidget(self.text)
        self.split.addWidget(below)
        self.split.setSizes([500, 170])
        self.split.setChildrenCollapsible(True)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.split)
        for signal in (player.step_changed, player.walk_changed, language.changed, look.changed):
            signal.connect(self._show)
        self._show()

    def _show(self) -> None:
        walk, step = self.player.walk, self.player.step
        if walk is None or step is None:
            self.text.setHtml(f'<p style="color:{self.look.theme.muted}">{escape(self.language.say(EMPTY))}</p>')
            self.frame_title.setText("")
            self.frame.show_frame(None)
            return
        page = _Page(walk, self.player.index, self.look.theme, self.language, self._lines)
        self.text.setHtml(page.html())
        seen = frame_at(walk, self.player.index)
        if seen is None:
            self.frame_title.setText(self.language.say(NO_FRAME))
            self.frame.show_frame(None)
            return
        where = f"{Names(walk).place(seen.place)}/{seen.interface}"
        self.frame_title.setText(self.language.say((FRAME if seen.here else FRAME_BEFORE)(where=where)))
        self.frame.show_frame(seen.data)

    def _follow_link(self, url: QUrl) -> None:
        kind = url.toString().partition(":")[0]
        step = self.player.step
        if kind == "origin" and step is not None and step.origin is not None and step.origin.file is not None:
            self.origin_chosen.emit(step.origin.file, step.origin.line or 1)
        elif kind == "rule" and step is not None:
            self.rule_chosen.emit(step.place, step.table or "", step.chain or "")


class _Page:
    """The step as a page of rich text."""

    def __init__(self, walk: Walk, index: int, theme: Theme, language: Language, lines: Lines) -> None:
        self.walk, self.index, self.theme, self.language, self._lines = walk, index, theme, language, lines
        self.step = walk.steps[index]
        self.names = Names(walk)
        self.mono = escape(", ".join(f"'{family}'" for family in mono_font().families()))

    def say(self, text: Text | Message) -> str:
        return escape(self.language.say(text))

    def html(self) -> str:
        parts = [self._head(), self._addresses()]
        if self.step.rule is not None or self.step.chain is not None:
            parts.append(self._rule())
        if self.step.origin is not None:
            parts.append(self._origin(self.step.origin))
        if self._has_conntrack():
            parts.append(self._conntrack())
        parts.append(self._evidence())
        return f'<div style="font-size:13px">{"".join(parts)}</div>'

    def _section(self, title: Text | Message, body: str) -> str:
        head = f'<p style="margin:14px 0 4px 0; color:{self.theme.muted}; font-weight:600">{self.say(title)}</p>'
        return head + body

    def _code(self, text: str, colour: str | None = None) -> str:
        ink = f"color:{colour};" if colour else ""
        return f'<span style="font-family:{self.mono}; font-size:12px; {ink}">{text}</span>'

    def _head(self) -> str:
        step, theme = self.step, self.theme
        direction = self.say(REQUEST if step.direction == "request" else REPLY)
        count = self.say(STEP_OF(n=step.n, all=len(self.walk.steps)))
        lines = [
            f'<p style="margin:0; color:{theme.muted}">{count} · {direction} · {step.t_us / 1000:.3f} ms</p>',
            f'<p style="margin:2px 0 0 0; font-size:16px; font-weight:600">{escape(self.names.where(step))}</p>',
        ]
        if step.hook is not None:
            acted = bool(step.changed) or step.action in ("drop", "reject")
            colour = theme.changed if step.changed else theme.refused if acted else theme.muted
            weight = 700 if acted else 400
            action = self.say(action_text(step))
            lines.append(f'<p style="margin:4px 0 0 0; color:{colour}; font-weight:{weight}">{action}</p>')
        if step.reason is not None:
            lines.append(f'<p style="margin:8px 0 0 0; line-height:135%">{self.say(step.reason)}</p>')
        return "".join(lines)

    def _addresses(self) -> str:
        step, theme = self.step, self.theme
        before = self.walk.steps[self.index - 1] if self.index else None
        if before is not None and before.direction != step.direction:
            before = None
        rows = []
        for word, now, was, colour in (
            (SOURCE, step.source, before.source if before else None, theme.source),
            (DESTINATION, step.destination, before.destination if before else None, theme.destination),
        ):
            name = "source" if word is SOURCE else "destination"
            if name in step.changed:
                old = f"<s>{self._code(escape(was), theme.muted)}</s><br>" if was else ""
                new = f"<b>{self._code('» ' + escape(now), colour)}</b>"
                style = f"white-space:nowrap; background-color:{theme.changed_back}; padding:3px 8px"
                cell = f'<td style="{style}">{old}{new}</td>'
            else:
                cell = f'<td style="white-space:nowrap; padding:3px 8px">{self._code(escape(now), colour)}</td>'
            label = f'<td style="color:{theme.muted}; padding:3px 8px 3px 0; white-space:nowrap">{self.say(word)}</td>'
            rows.append(f"<tr>{label}{cell}</tr>")
        label = f'<td style="color:{theme.muted}; padding:3px 8px 3px 0">{self.say(PROTOCOL)}</td>'
        rows.append(f'<tr>{label}<td style="padding:3px 8px">{self._code(escape(self.walk.probe.protocol))}</td></tr>')
        return self._section(ADDRESSES, f'<table cellspacing="0">{"".join(rows)}</table>')

    def _rule(self) -> str:
        step, theme = self.step, self.theme
        rule = rule_text(step) or f"{step.chain}"
        table = f"{self._code(escape(f'{step.table} · {step.hook}'), theme.muted)}<br>" if step.table else ""
        body = f'<p style="margin:0; line-height:140%">{table}{self._code(escape(rule))}</p>'
        return self._section(RULE, body)

    def _origin(self, origin: Origin) -> str:
        theme = self.theme
        head = f"{escape(origin.object)}<br>{self._code(escape(origin.field))}"
        if origin.file is None or origin.line is None:
            note = f'<br><span style="color:{theme.muted}">{self.say(ALLOCATED)}</span>'
            return self._section(CAUSE, f'<p style="margin:0; line-height:135%">{head}{note}</p>')
        place = f"{origin.file.rpartition('/')[2]}:{origin.line}"
        link = f'<a href="origin:" style="color:{theme.accent}">{escape(place)}</a>'
        body = f'<p style="margin:0; line-height:135%">{head}<br>{link}</p>'
        quoted = self._lines(origin.file, origin.line)
        if quoted:
            rows = []
            for number, text in quoted:
                back = f"background-color:{theme.changed_back};" if number == origin.line else ""
                cut = text if len(text) <= QUOTED else f"{text[: QUOTED - 1]}…"
                shown = escape(cut).replace(" ", "&nbsp;")
                rows.append(
                    f'<tr><td style="padding:1px 8px; {back}">{self._code(str(number), theme.faint)}</td>'
                    f'<td style="padding:1px 8px; white-space:nowrap; {back}">{self._code(shown)}</td></tr>'
                )
            body += f'<table cellspacing="0" style="margin-top:6px">{"".join(rows)}</table>'
        return self._section(CAUSE, body)

    def _has_conntrack(self) -> bool:
        return any(entry.node == self.step.place for entry in self.walk.conntrack)

    def _conntrack(self) -> str:
        entry = entry_at(self.walk, self.index)
        if entry is None:
            text = self.say(NO_ENTRY(node=self.names.place(self.step.place)))
            return self._section(CONNTRACK, f'<p style="margin:0; color:{self.theme.muted}">{text}</p>')
        return self._section(CONNTRACK, self._entry(entry))

    def _entry(self, entry: EntrySeen) -> str:
        theme = self.theme
        rows = [
            f'<tr><td style="color:{theme.muted}; padding:1px 8px 1px 0; white-space:nowrap">{self.say(word)}</td><td>'
            f"{self._code(escape(pair.source), theme.source)} → "
            f"{self._code(escape(pair.destination), theme.destination)}</td></tr>"
            for word, pair in ((ORIGINAL, entry.original), (EXPECTED, entry.reply))
        ]
        status = escape(" ".join(entry.status))
        note = f' <span style="color:{theme.muted}">({self.say(AT_END)})</span>' if entry.final else ""
        head = f"{self._code(escape(entry.protocol))} {self._code(status, theme.muted)}{note}"
        return f'<p style="margin:0">{head}</p><table cellspacing="0">{"".join(rows)}</table>'

    def _evidence(self) -> str:
        shown = "<br>".join(self._code(escape(each), self.theme.muted) for each in self.step.evidence)
        return self._section(EVIDENCE, f'<p style="margin:0">{shown}</p>')
