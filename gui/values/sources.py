"""The user's files as text: the lines around the one that a rule comes from."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

AROUND = 2
LONGEST = 120


def text_of(sources: Sequence[tuple[str, bytes]], file: str) -> str | None:
    """A file's text, by the name that the engine knows it by; None where it is not at hand."""
    data = next((data for name, data in sources if name == file), None)
    return data.decode("utf-8", "replace") if data is not None else None


@lru_cache(maxsize=4)
def _lines(data: bytes) -> list[str]:
    """Asked for with every step of a walk; a dump of a cluster has some hundred thousand."""
    return data.decode("utf-8", "replace").splitlines()


def lines_around(sources: Sequence[tuple[str, bytes]], file: str, line: int) -> list[tuple[int, str]]:
    """A few lines of the same document with their numbers, indented as little as they need."""
    data = next((data for name, data in sources if name == file), None)
    if data is None:
        return []
    lines = _lines(data)
    first, last = max(1, line - AROUND), min(len(lines), line + AROUND)
    while first < line and any(each.startswith("---") for each in lines[first - 1 : line - 1]):
        first += 1
    last = next((at - 1 for at in range(line + 1, last + 1) if lines[at - 1].startswith("---")), last)
    found = [(number, lines[number - 1].rstrip()[:LONGEST]) for number in range(first, last + 1)]
    indent = min((len(each) - len(each.lstrip()) for _, each in found if each.strip()), default=0)
    return [(number, each[indent:]) for number, each in found]
