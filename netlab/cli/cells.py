"""Text in terminal cells: padding and wrapping that count Chinese characters as two."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len


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
    """What may not be cut: words with the space behind them, single wide characters with punctuation behind them."""
    piece = ""
    for character in text:
        if character in "，。；：、）》" or (character == " " and piece):
            yield piece + character
            piece = ""
        elif cell_len(character) == 2:
            if piece and not (len(piece) == 1 and cell_len(piece) == 2):
                yield piece
                piece = ""
            elif piece:
                yield piece
            piece = character
        else:
            if piece and cell_len(piece[-1]) == 2:
                yield piece
                piece = ""
            piece += character
    if piece:
        yield piece
