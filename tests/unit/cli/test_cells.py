"""Text in terminal cells, where a Chinese character takes two."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from netlab.cli.cells import pad, wrap

CLOSING = "，。；：、）》"
texts = st.text(st.sampled_from("ab cd地址改写，。；：、）》()[]:/.-0 "), max_size=60)


class TestPad:
    @pytest.mark.parametrize(
        ("text", "width", "padded"),
        [
            ("", 3, "   "),
            ("abc", 5, "abc  "),
            ("abc", 3, "abc"),
            ("abcd", 3, "abcd"),
            ("节点", 6, "节点  "),
            ("节点", 4, "节点"),
            ("节点a", 4, "节点a"),
        ],
    )
    def test_examples(self, text: str, width: int, padded: str) -> None:
        assert pad(text, width) == padded

    @given(texts, st.integers(0, 80))
    def test_it_fills_up_and_never_cuts(self, text: str, width: int) -> None:
        padded = pad(text, width)
        assert padded.startswith(text)
        assert cell_len(padded) == max(width, cell_len(text))


class TestWrap:
    @pytest.mark.parametrize(
        ("text", "width", "lines"),
        [
            ("", 10, [""]),
            ("one two three", 20, ["one two three"]),
            ("one two three", 8, ["one two", "three"]),
            ("one two three", 7, ["one two", "three"]),
            ("one two three", 6, ["one", "two", "three"]),
            ("incomprehensibilities are long", 10, ["incomprehensibilities", "are long"]),
            ("地址在这里改写", 6, ["地址在", "这里改", "写"]),
            ("地址在这里改写", 7, ["地址在", "这里改", "写"]),
            ("地址，改写。", 6, ["地址，", "改写。"]),
            ("地址，改写。", 5, ["地", "址，", "改", "写。"]),
            ("地址（节点）。", 6, ["地址", "（节", "点）。"]),
            ("从 10.0.0.1:80 改为 10.0.0.2:80", 16, ["从 10.0.0.1:80", "改为 10.0.0.2:80"]),
            ("在node-a上改写", 8, ["在node-a", "上改写"]),
            ("ends with spaces   ", 20, ["ends with spaces"]),
        ],
    )
    def test_examples(self, text: str, width: int, lines: list[str]) -> None:
        assert wrap(text, width) == lines

    @given(texts, st.integers(2, 40))
    def test_nothing_is_lost(self, text: str, width: int) -> None:
        assert "".join(wrap(text, width)).replace(" ", "") == text.replace(" ", "")

    @given(texts, st.integers(2, 40))
    def test_no_line_begins_or_ends_with_a_space(self, text: str, width: int) -> None:
        for line in wrap(text, width)[1:]:
            assert line == line.strip()

    @given(st.text(st.sampled_from("ab地址改写 "), max_size=60), st.integers(2, 40))
    def test_lines_are_no_wider_than_they_may_be_but_for_long_words(self, text: str, width: int) -> None:
        for line in wrap(text, width):
            assert cell_len(line) <= width or " " not in line.strip()

    @given(st.text(st.sampled_from("地址改写ab，。；（"), max_size=40), st.integers(2, 40))
    def test_punctuation_stands_on_the_right_side(self, text: str, width: int) -> None:
        lines = wrap(text, width)
        assert not [line for line in lines[1:] if line[:1] in set(CLOSING)]
        assert not [line for line in lines[:-1] if line.endswith("（")]
