"""Text in terminal cells: padding and wrapping that count Chinese characters as two."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len

_CLOSING = "，。；：、！？）》」”’…"
_OPENING = "（《「“‘"


def pad(text: str, width: int) -> str:
    """The text, filled up with spaces to ``width`` cells."""
    return text + " " * max(0, width - cell_len(text))


def wrap(text: str, width: int) -> list[str]:
    """Lines of at most ``width`` cells, cut at spaces and between Chinese characters; longer words stay whole."""
    lines: list[str] = []
    line = ""
    for piece in _pieces(text):
        if line and cell_len(line + piece.rstrip()) > width:
            lines.append(line.rstrip())
            line = piece.lstrip()
        else:
            line += piece
    if line.strip() or not lines:
        lines.append(line.rstrip())
    return lines


def _pieces(text: str) -> Iterator[str]:
    """What may not be cut: words and single wide characters, with the spaces and closing punctuation behind them."""
    piece = ""
    for character in text:
        if piece and _may_part(piece[-1], character):
            yield piece
            piece = ""
        piece += character
    if piece:
        yield piece


def _may_part(one: str, other: str) -> bool:
    """Whether a line may end between two characters."""
    if other == " " or other in _CLOSING or one in _OPENING:
        return False
    return one == " " or cell_len(one) == 2 or cell_len(other) == 2
