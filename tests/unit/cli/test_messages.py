"""What becomes of messages on their way to the terminal, and of words on their way from it."""

from __future__ import annotations

import io
import os
import unicodedata
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netlab.cli.faults import as_error
from netlab.cli.output import LONGEST_LINE, Format, as_format, tidy
from netlab.cli.streams import _Stream
from netlab.cli.usage import bad_usage
from netlab.cli.walk import as_seconds
from netlab.engine.files import OutputFile
from netlab.model.errors import EXIT_MACHINE, BadInput, MachineCannot


class TestTidy:
    @given(st.text())
    def test_nothing_in_it_moves_the_cursor(self, text: str) -> None:
        shown = tidy(text)
        assert {character for character in shown if unicodedata.category(character) in ("Cc", "Cs", "Zl")} <= {"\n"}
        assert not set(shown) & {"\u202d", "\u202e", "\u2066"}

    def test_control_characters_are_spelled_out(self) -> None:
        assert tidy("a\x1b[2Jb\tc\udcff") == "a\\x1b[2Jb\\tc\\udcff"

    def test_lines_stay_lines(self) -> None:
        assert tidy("one\ntwo") == "one\ntwo"

    def test_a_long_line_is_cut_in_its_middle(self) -> None:
        shown = tidy("a" * 5000 + "b" * 5000)
        assert shown.startswith("aaa")
        assert shown.endswith("bbb")
        assert len(shown) == LONGEST_LINE + 3


class TestWords:
    @pytest.mark.parametrize("text", ["table", "json", "yaml"])
    def test_formats(self, text: str) -> None:
        assert as_format(text) is Format(text)

    @pytest.mark.parametrize("text", ["", "JSON", "xml", "table "])
    def test_other_formats(self, text: str) -> None:
        with pytest.raises(BadInput, match="is none of table, json, yaml"):
            as_format(text)

    @pytest.mark.parametrize(("text", "seconds"), [("1", 1.0), ("0.5", 0.5), ("3600", 3600.0), ("1e2", 100.0)])
    def test_seconds(self, text: str, seconds: float) -> None:
        assert as_seconds(text) == seconds

    @pytest.mark.parametrize("text", ["", "0", "-1", "nan", "inf", "3601", "soon", "1 s", "²", "1_000_000"])
    def test_no_seconds(self, text: str) -> None:
        with pytest.raises(BadInput, match="must be a number greater than 0"):
            as_seconds(text)

    def test_a_fault_that_nobody_foresaw_is_told_in_typer_s_words(self) -> None:
        error = SimpleNamespace(ctx=None, format_message=lambda: "Something else is wrong.")
        text = bad_usage(error).text
        assert text.en == "Something else is wrong.; see 'kube-netlab --help'"
        assert text.zh == "用法有误：Something else is wrong.；参见 'kube-netlab --help'"


class TestFaults:
    def test_the_traceback_is_in_a_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        try:
            raise RuntimeError("on purpose")
        except RuntimeError as error:
            fault = as_error(error)
        (log,) = tmp_path.iterdir()
        assert fault.exit_status == EXIT_MACHINE
        assert str(fault).startswith("RuntimeError: on purpose. This is a fault of kube-netlab")
        assert str(log) in str(fault)
        assert str(log) in fault.text.zh
        assert "Traceback" in log.read_text()

    def test_without_room_it_is_in_the_message(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tempfile.tempdir", "/nowhere")
        assert "RuntimeError: on purpose" in str(as_error(RuntimeError("on purpose")))


def stream(descriptor: int, encoding: str = "utf-8") -> _Stream:
    return _Stream(io.TextIOWrapper(open(descriptor, "wb", closefd=False), encoding), descriptor)


class TestStreams:
    def test_what_cannot_be_encoded(self, tmp_path: Path) -> None:
        with open(tmp_path / "out", "wb") as file:
            out = stream(file.fileno(), "ascii")
            out.write("1 → a  10.0.0.1  ✓\na → b ≠ 中\n")
            out.close()
        assert (tmp_path / "out").read_text() == "1 -> a 10.0.0.1  ok\na -> b != ?\n"

    def test_what_is_written_otherwise_is_only_what_cannot_be_encoded(self, tmp_path: Path) -> None:
        with open(tmp_path / "out", "wb") as file:
            out = stream(file.fileno(), "latin-1")
            out.write("» a → b")
            out.close()
        assert (tmp_path / "out").read_text(encoding="latin-1") == "» a -> b"

    def test_nobody_reads_any_more(self) -> None:
        read, write = os.pipe()
        os.close(read)
        out = stream(write)
        out.write("x" * 100_000)
        out.flush()
        out.write("and on")
        out.close()
        os.close(write)

    def test_there_is_no_room(self) -> None:
        with open("/dev/full", "wb") as full:
            kept = os.dup(1)
            os.dup2(full.fileno(), 1)
            try:
                out = stream(1)
                out.write("x")
                with pytest.raises(MachineCannot, match="No space left on device"):
                    out.flush()
                out.close()
            finally:
                os.dup2(kept, 1)
                os.close(kept)


def missing(path: Path) -> Path:
    return path / "nowhere" / "file"


def folder(path: Path) -> Path:
    return path


class TestOutputFile:
    @pytest.mark.parametrize("place", [missing, folder])
    def test_a_wrong_path_is_told_at_once(self, tmp_path: Path, place: Callable[[Path], Path]) -> None:
        with pytest.raises(BadInput, match="cannot be written"):
            OutputFile(str(place(tmp_path)))

    def test_it_is_made_when_it_is_written(self, tmp_path: Path) -> None:
        path = tmp_path / "new"
        file = OutputFile(str(path))
        assert not path.exists()
        file.write(b"data")
        file.close()
        assert path.read_bytes() == b"data"
        file.close()

    def test_it_is_replaced_when_it_is_written(self, tmp_path: Path) -> None:
        path = tmp_path / "old"
        path.write_bytes(b"what was there before")
        file = OutputFile(str(path))
        assert path.read_bytes() == b"what was there before"
        file.write(b"data")
        file.close()
        assert path.read_bytes() == b"data"

    def test_the_folder_goes_away(self, tmp_path: Path) -> None:
        inside = tmp_path / "folder"
        inside.mkdir()
        file = OutputFile(str(inside / "new"))
        inside.rmdir()
        with pytest.raises(BadInput, match="No such file or directory"):
            file.write(b"data")
        file.close()
