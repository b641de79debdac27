"""Walks side by side as a page of rich text: a column for each, a row for each thing that may differ, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import msgspec

from gui.look.fonts import mono_font
from gui.look.theme import Theme
from gui.words.language import Language
from netlab.model.comparison import Comparison, ModeResult, compare
from netlab.model.story import MARKS
from netlab.model.text import Message, Text
from netlab.model.walk import Walk

SHOW = Message("gui.compare.show", en="show this walk", zh="查看此旅程")
ROWS = {
    "verdict": Message("gui.compare.verdict", en="Verdict", zh="结果"),
    "endpoint": Message("gui.compare.endpoint", en="Endpoint", zh="端点"),
    "seen_by_pod": Message("gui.compare.seen", en="The Pod saw", zh="Pod 看到的地址"),
    "rules": Message("gui.compare.rules", en="Rules passed", zh="经过的规则"),
    "nat": Message("gui.compare.nat", en="Rewritten by", zh="改写"),
    "first_packet_us": Message("gui.compare.first-packet", en="First packet", zh="首包用时"),
}
PAD = "padding:7px 18px 7px 0"


@dataclass(frozen=True)
class Column:
    """One walk under its title; or, while there is none, the word for why."""

    title: str
    walk: Walk | None = None
    word: Text | None = None
    failed: bool = False


class Page:
    """Links are "walk:" and the number of the column."""

    def __init__(self, columns: Sequence[Column], theme: Theme, language: Language) -> None:
        self.columns, self.theme, self.language = columns, theme, language
        # The reasons speak of walks by their modes: here, by their titles.
        walks = [msgspec.structs.replace(each.walk, mode=each.title) for each in columns if each.walk is not None]
        self.result: Comparison | None = compare(walks) if walks else None

    def html(self, note: Text | None = None) -> str:
        theme = self.theme
        results = iter(self.result.modes if self.result is not None else ())
        done = [next(results) if each.walk is not None else None for each in self.columns]
        line = f"border-bottom:1px solid {theme.border}"
        heads = "".join(f'<td style="{PAD}; {line}"><b>{escape(each.title)}</b></td>' for each in self.columns)
        rows = [f'<tr><td style="{PAD}; {line}"></td>{heads}</tr>']
        for name, title in ROWS.items():
            label = f'<td style="{PAD}; color:{theme.muted}; white-space:nowrap">{self._say(title)}</td>'
            cells = "".join(
                f'<td style="{PAD}">{self._cell(column, name, result)}</td>'
                for column, result in zip(self.columns, done, strict=True)
            )
            rows.append(f"<tr>{label}{cells}</tr>")
        links = "".join(
            f'<td style="{PAD}"><a style="color:{theme.accent}" href="walk:{at}">{self._say(SHOW)}</a></td>'
            if column.walk is not None
            else "<td></td>"
            for at, column in enumerate(self.columns)
        )
        rows.append(f"<tr><td></td>{links}</tr>")
        reasons = "".join(f"<p>≠ {self._say(each)}</p>" for each in (self.result.reasons if self.result else ()))
        news = f'<p style="color:{theme.muted}">{self._say(note)}</p>' if note is not None else ""
        return f'<table cellspacing="0">{"".join(rows)}</table>{news}{reasons}'

    def _say(self, text: Text | Message) -> str:
        return escape(self.language.say(text))

    def _cell(self, column: Column, name: str, result: ModeResult | None) -> str:
        theme = self.theme
        if result is None:
            if name != "verdict" or column.word is None:
                return ""
            colour, mark = (theme.refused, "✗ ") if column.failed else (theme.muted, "")
            return f'<span style="color:{colour}">{mark}{self._say(column.word)}</span>'
        text = self._value(result, name)
        if name in result.differs:
            return f'<span style="background-color:{theme.changed_back}">≠&nbsp;{text}</span>'
        return text

    def _value(self, result: ModeResult, name: str) -> str:
        theme = self.theme
        faces = escape(", ".join(f"'{family}'" for family in mono_font().families()))
        mono = f"font-family:{faces}; font-size:12px"
        if name == "verdict":
            colour = theme.verdict(result.verdict)
            return f'<b style="color:{colour}">{MARKS[result.verdict]} {escape(result.verdict)}</b>'
        if name == "nat":
            return "<br>".join(escape(each) for each in result.nat) or "–"
        if name == "first_packet_us":
            return f"{result.first_packet_us / 1000:.2f} ms" if result.first_packet_us is not None else "–"
        value = getattr(result, name)
        if name == "seen_by_pod":
            return f'<span style="{mono}; color:{theme.source}">{escape(str(value))}</span>' if value else "–"
        return escape(str(value)) if value is not None else "–"
