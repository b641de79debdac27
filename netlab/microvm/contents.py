"""What the guest's root holds: this machine's Python and tools, the packages that the engine imports, and the engine.

The key of a guest is made of all that: a guest never runs other code than its host.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from netlab.microvm import packages

SITE = "/site"
"""The folder of Python packages in the guest."""
PRODUCT = "kube-netlab"

PACKAGE = Path(__file__).parents[1]
_NOT_IN_GUEST = {"cli", "scenarios", "api.py"}
_FRONTENDS_OWN = {"rich", "typer"}
"""What the product needs on the host only."""
_NOT_NEEDED = {
    *("__pycache__", "dist-packages", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "site-packages", "test"),
    *("tests", "tkinter", "turtledemo"),
}
"""Folders of the standard library that no engine imports anything from."""
_CONFIGURATION = ("/etc/protocols", "/etc/services", "/etc/ld.so.cache", "/etc/iproute2/rt_protos")
_PLUGINS = ("usr/lib/*/xtables", "usr/lib/xtables", "usr/lib64/xtables")
_REQUIREMENT = re.compile(r"[A-Za-z0-9._-]+")


@dataclass
class Contents:
    """Files of this machine by their place in the guest, and links."""

    files: dict[str, Path] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)

    def add(self, path: Path) -> None:
        """A file in its own place; what is a link here becomes one there."""
        place, real = unmerged(path), path.resolve()
        self.files[unmerged(real)] = real
        if unmerged(real) != place:
            self.links[place] = unmerged(real)

    def add_package(self, folder: Path, without: Iterable[str] = ()) -> None:
        """A Python package (or another folder of a checkout), all of its files, below :data:`SITE`."""
        for path in sorted(folder.rglob("*")):
            inside = path.relative_to(folder)
            if path.is_file() and inside.parts[0] not in without and "__pycache__" not in inside.parts:
                self.files[f"{SITE}/{folder.name}/{inside}"] = path

    def add_distribution(self, each: Distribution) -> None:
        """A Python package as it is installed, below :data:`SITE`."""
        for name in each.files or []:
            path = Path(str(name.locate()))
            wanted = path.suffix in (".py", ".pyc", ".so") or name.parts[0].endswith(".dist-info")
            if ".." not in name.parts and wanted and path.is_file():
                self.files[f"{SITE}/{name}"] = path

    def key(self, *words: str) -> str:
        """Changes with any file's place, size or time, any link, and the words."""
        digest = hashlib.sha256(repr(words).encode())
        for place, path in sorted(self.files.items()):
            status = path.stat()
            digest.update(f"{place} {path} {status.st_size} {status.st_mtime_ns}\n".encode())
        for place, target in sorted(self.links.items()):
            digest.update(f"{place} {target}\n".encode())
        return digest.hexdigest()[:20]


def unmerged(path: Path) -> str:
    """The path with its folder resolved: /bin/sh is /usr/bin/sh."""
    return str(path.parent.resolve() / path.name)


def interpreter() -> Path:
    """The program that runs this, out of any virtual environment."""
    return Path(getattr(sys, "_base_executable", sys.executable)).resolve()


def engine_contents() -> Contents:
    """All that an engine needs but libraries and the kernel. Raises :class:`MachineCannot`, naming what is missing."""
    found = Contents()
    found.add(interpreter())
    for path in _standard_library(Path(sysconfig.get_path("stdlib"))):
        found.files[str(path)] = path
    for each in requirements([PRODUCT], _FRONTENDS_OWN):
        if each.name != PRODUCT:
            found.add_distribution(each)
    found.add_package(PACKAGE, _NOT_IN_GUEST)
    there = filter(None, map(packages.find, packages.IF_THERE))
    for path in [*packages.find_all(packages.GUEST_PROGRAMS).values(), *there]:
        found.add(path)
    if (dash := packages.find("dash")) is not None:
        found.links["/usr/bin/sh"] = unmerged(dash)
    for pattern in _PLUGINS:
        for path in sorted(Path("/").glob(f"{pattern}/*.so")):
            found.add(path)
    for text in _CONFIGURATION:
        if os.path.exists(text):
            found.files[text] = Path(text)
    return found


def _standard_library(folder: Path) -> Iterator[Path]:
    """Sources, extensions, and the compiled files that are there."""
    tag = f".{sys.implementation.cache_tag}.pyc"
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(set(folders) - _NOT_NEEDED)
        for name in sorted(files):
            path = Path(parent, name)
            if path.suffix in (".py", ".so"):
                yield path
            compiled = path.parent / "__pycache__" / f"{path.stem}{tag}"
            if path.suffix == ".py" and compiled.is_file():
                yield compiled


def requirements(names: Iterable[str], without: Iterable[str] = ()) -> list[Distribution]:
    """Installed packages, and those that they require, but ``without`` some."""
    found: dict[str, Distribution] = {}
    left_out = {each.lower() for each in without}

    def add(text: str) -> None:
        name = _REQUIREMENT.match(text)
        if name is None or name.group().lower() in left_out | found.keys():
            return
        try:
            each = distribution(name.group())
        except PackageNotFoundError:
            # Needed on other systems, or by other versions of Python.
            return
        found[name.group().lower()] = each
        for required in each.requires or []:
            if "extra ==" not in required:
                add(required)

    for name in names:
        add(name)
    return list(found.values())
