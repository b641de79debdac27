"""Run the system's tools (iptables, nft, …) in the calling thread's network namespace, and say plainly what fails."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from netlab.kernel.limits import advice
from netlab.model.errors import LabFailed, MachineCannot
from netlab.model.text import Message

MISSING = Message(
    "programs.missing",
    en="The program {program} is not installed: 'apt install {package}' brings it.",
    zh="没有安装程序 {program}：用 'apt install {package}' 安装。",
)
CANNOT_RUN = Message(
    "programs.cannot-run",
    en="The program {program} cannot be run: {error}{advice}",
    zh="无法运行程序 {program}：{error}{advice}",
)
FAILED = Message(
    "programs.failed",
    en="{program} failed in {place} (status {status}): {words}",
    zh="{program} 在 {place} 中失败 (状态 {status})：{words}",
)

PACKAGES = {
    "iptables-nft-restore": "iptables",
    "iptables-nft-save": "iptables",
    "ip6tables-nft-restore": "iptables",
    "ip6tables-nft-save": "iptables",
    "nft": "nftables",
    "conntrack": "conntrack",
    "ip": "iproute2",
}

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def find(program: str) -> str:
    """The program's path; an ordinary user's PATH often lacks the sbin folders. Raises :class:`MachineCannot`."""
    folders = [*os.environ.get("PATH", "").split(os.pathsep), *_PATH.split(os.pathsep)]
    path = shutil.which(program, path=os.pathsep.join(each for each in folders if os.path.isabs(each)))
    if path is None:
        raise MachineCannot(MISSING(program=program, package=PACKAGES.get(program, program)))
    return path


class ProgramFailed(LabFailed):
    """A tool ended with another status than 0."""

    def __init__(self, program: str, place: str, status: int, words: str) -> None:
        super().__init__(FAILED(program=program, place=place, status=status, words=words.strip() or "-"))
        self.words = words


def run(command: list[str], place: str, text: str = "") -> str:
    """Run a tool and return what it prints.

    Raises :class:`ProgramFailed` with its own words, and :class:`MachineCannot` where it cannot be run at all.
    """
    path = find(command[0])
    with _letter(text) as stdin, _letter() as stdout, _letter() as stderr:
        try:
            # Files in memory instead of pipes: the tool is waited for once, however much it reads and writes.
            process = subprocess.Popen(
                [path, *command[1:]],
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                env={"PATH": _PATH, "LC_ALL": "C"},
            )
        except OSError as error:
            raise MachineCannot(CANNOT_RUN(program=path, error=error.strerror, advice=advice(error.errno))) from error
        status = process.wait()
        if status != 0:
            raise ProgramFailed(command[0], place, status, _contents(stderr))
        return _contents(stdout)


@contextmanager
def _letter(text: str = "") -> Iterator[BinaryIO]:
    """A file in memory, to be read from its beginning."""
    with os.fdopen(os.memfd_create("netlab-tool", os.MFD_CLOEXEC), "r+b", buffering=0) as file:
        data = memoryview(text.encode())
        while data:
            data = data[file.write(data) :]
        file.seek(0)
        yield file


def _contents(file: BinaryIO) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")
