"""Where the kernel comes from, and what is said where something is missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from netlab.microvm import packages
from netlab.microvm.cache import Cache
from netlab.model.errors import MachineCannot
from netlab.model.text import Text


def silent(text: Text) -> None:
    raise AssertionError(text)


def installed(root: Path, release: str) -> None:
    (root / "boot").mkdir(exist_ok=True)
    (root / "boot" / f"vmlinuz-{release}").write_bytes(b"kernel")
    (root / "usr/lib/modules" / release / "kernel").mkdir(parents=True)


def test_all_missing_programs_are_named_at_once() -> None:
    with pytest.raises(MachineCannot) as raised:
        packages.find_all({"no-such-a": "package-a", "sh": "dash", "no-such-b": "package-b"})
    assert "no-such-a, no-such-b" in str(raised.value)
    assert "'apt install package-a package-b'" in str(raised.value)


def test_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    system = os.uname()
    other = os.uname_result((*system[:4], "aarch64"))
    monkeypatch.setattr(os, "uname", lambda: other)
    with pytest.raises(MachineCannot, match="aarch64"):
        packages.check_machine()


class TestKernel:
    def test_an_installed_one(self, tmp_path: Path) -> None:
        root = tmp_path / "root"
        root.mkdir()
        installed(root, "6.1.0-1-cloud-amd64")
        installed(root, "6.1.0-2-amd64")
        assert packages.kernel(Cache(tmp_path / "cache"), silent, root) == root
        found = packages.installed_kernel(root)
        assert found is not None
        assert found[0].name == "vmlinuz-6.1.0-1-cloud-amd64"

    def test_one_without_modules(self, tmp_path: Path) -> None:
        installed(tmp_path, "6.1.0-1-cloud-amd64")
        (tmp_path / "usr/lib/modules/6.1.0-1-cloud-amd64/kernel").rmdir()
        assert packages.installed_kernel(tmp_path) is None

    def test_a_package_that_the_user_put_there_comes_first(self, tmp_path: Path) -> None:
        cache = Cache(tmp_path / "cache")
        installed(tmp_path, "6.1.0-1-cloud-amd64")
        package = cache.folder / "kernel" / "linux-image-6.1.0-1-cloud-amd64_6.1_amd64.deb"
        package.parent.mkdir(parents=True)
        package.touch()
        assert packages.kernel(cache, silent, tmp_path) == package

    def test_apt_downloads_it(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        commands: list[list[str]] = []
        said: list[str] = []

        def run(command: list[str], folder: Path) -> str:
            commands.append(command)
            if command[0] == "apt-get":
                (folder / f"{command[-1]}_6.1_amd64.deb").touch()
            return "linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-9-cloud-amd64\n"

        monkeypatch.setattr(packages, "run", run)
        for _ in range(2):
            found = packages.kernel(Cache(tmp_path / "cache"), lambda text: said.append(text.en), tmp_path)
            assert found.name == "linux-image-6.1.0-9-cloud-amd64_6.1_amd64.deb"
        assert [command[:2] for command in commands] == [["apt-cache", "depends"], ["apt-get", "download"]]
        assert said == ["downloading the microVM's kernel once: linux-image-6.1.0-9-cloud-amd64"]

    def test_apt_cannot(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def run(command: list[str], folder: Path) -> str:
            raise MachineCannot(packages.FAILED(program=command[0], status=100, words="no network"))

        monkeypatch.setattr(packages, "run", run)
        with pytest.raises(MachineCannot) as raised:
            packages.kernel(Cache(tmp_path / "cache"), silent, tmp_path)
        assert "no network" in str(raised.value)
        assert str(tmp_path / "cache" / "kernel") in str(raised.value)
