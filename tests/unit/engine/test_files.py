"""Reading what the user names: bounded, and with the reason where it fails."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from netlab.engine import files
from netlab.engine.files import read_files
from netlab.model.errors import BadInput


class TestReadFiles:
    def test_names_and_contents_in_order(self, tmp_path: Path) -> None:
        for name in ("b", "a"):
            (tmp_path / name).write_text(name)
        paths = [str(tmp_path / name) for name in ("b", "a")]
        assert read_files(paths) == [(paths[0], b"b"), (paths[1], b"a")]

    @pytest.mark.parametrize("name", ["/nowhere/at/all", "/", ""])
    def test_what_cannot_be_read(self, name: str) -> None:
        with pytest.raises(BadInput, match=f"^{name}: cannot be read: "):
            read_files([name])

    def test_the_limit_is_for_all_together(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(files, "LIMIT_BYTES", 10)
        path = tmp_path / "file"
        path.write_bytes(b"12345")
        assert len(read_files([str(path)] * 2)) == 2
        with pytest.raises(BadInput, match="larger than 10 bytes"):
            read_files([str(path)] * 3)

    def test_no_more_is_read_than_may_be(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(files, "LIMIT_BYTES", 10)
        with pytest.raises(BadInput, match="/dev/zero: the input is larger than 10 bytes"):
            read_files(["/dev/zero"])

    def test_a_name_that_is_no_text(self, tmp_path: Path) -> None:
        path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
        Path(path).write_text("x")
        assert read_files([path]) == [(path, b"x")]
