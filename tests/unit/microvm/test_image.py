"""What a guest is made of: archives, modules and the list of files."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from netlab.microvm import contents, cpio, elf, modules
from netlab.microvm.contents import Contents
from netlab.microvm.modules import Module


def test_an_initramfs_unpacks(tmp_path: Path) -> None:
    archive = cpio.Archive()
    archive.folder("bin")
    archive.file("bin/tool", b"#!x", executable=True)
    archive.file("odd length", b"12345")
    archive.link("bin/link", "tool")
    busybox = shutil.which("busybox")
    assert busybox is not None
    subprocess.run([busybox, "cpio", "-i"], cwd=tmp_path, input=archive.data(), check=True, capture_output=True)
    assert (tmp_path / "odd length").read_bytes() == b"12345"
    assert os.readlink(tmp_path / "bin/link") == "tool"
    assert stat.S_IMODE((tmp_path / "bin/tool").stat().st_mode) == 0o755


class TestElf:
    def test_programs(self) -> None:
        program = contents.interpreter().read_bytes()
        assert elf.is_elf(program)
        assert elf.is_dynamic(program)
        assert elf.section(program, b".interp").startswith(b"/lib")

    def test_what_is_none(self) -> None:
        assert not elf.is_elf(b"#!/bin/sh\n")
        with pytest.raises(ValueError, match="no ELF"):
            elf.section(b"#!/bin/sh\n", b".modinfo")
        with pytest.raises(ValueError, match="no section"):
            elf.section(contents.interpreter().read_bytes(), b".nosuch")


def module(name: str, *needs: str) -> Module:
    return Module(name, f"kernel/{name}.ko", needs, (f"alias-{name}",))


MODULES = (module("c", "b", "a"), module("b", "a"), module("a", "built_in"), module("d"))
KNOWN = {each.name: each for each in MODULES}


class TestModules:
    def test_each_comes_after_what_it_needs(self) -> None:
        assert [each.name for each in modules.in_order(["c", "d", "a"], KNOWN)] == ["a", "b", "c", "d"]

    def test_the_index_for_modprobe(self) -> None:
        lines = modules.dependencies_index(KNOWN).splitlines()
        assert lines[2] == "kernel/c.ko: kernel/b.ko kernel/a.ko"
        assert "alias alias-c c" in modules.aliases_index(KNOWN).splitlines()

    def test_names(self) -> None:
        assert modules.name_of("kernel/net/nf-x.ko.xz") == "nf_x"


class TestContents:
    def test_a_key_changes_with_what_is_in_it(self, tmp_path: Path) -> None:
        file = tmp_path / "file"
        file.write_text("one")
        keys = []
        for text, links, words in [("one", {}, ""), ("three", {}, ""), ("three", {"/a": "b"}, ""), ("three", {}, "x")]:
            if file.read_text() != text:
                file.write_text(text)
            keys.append(Contents({"/file": file}, links).key(words))
        assert len(set(keys)) == 4
        assert Contents({"/file": file}, {}).key("x") == keys[-1]

    def test_links_stay_links(self, tmp_path: Path) -> None:
        (tmp_path / "real").write_text("x")
        (tmp_path / "link").symlink_to("real")
        found = Contents()
        found.add(tmp_path / "link")
        place = str(tmp_path.resolve())
        assert found.files == {f"{place}/real": tmp_path.resolve() / "real"}
        assert found.links == {f"{place}/link": f"{place}/real"}

    def test_an_engine_s(self) -> None:
        """The engine and what it imports, but nothing of the frontends."""
        places = contents.engine_contents().files
        assert "/site/netlab/engine/server.py" in places
        assert "/site/msgspec/__init__.py" in places
        assert "/site/scapy/all.py" in places
        assert not any(place.startswith(("/site/netlab/cli", "/site/rich", "/site/gui")) for place in places)
        assert not any("__pycache__" in place for place in places if place.startswith("/site/netlab/"))
