"""What the microVM takes from the distribution: programs that are installed, and Debian's kernel for clouds.

The kernel is one that is installed, or its package's, which apt downloads (and checks the signature of) as an ordinary
user; it is only unpacked.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from netlab.kernel import programs
from netlab.microvm.cache import Cache
from netlab.model.errors import MachineCannot
from netlab.model.text import Message, Text

QEMU = "qemu-system-x86_64"
MACHINE = "x86_64"
KERNEL_PACKAGE = "linux-image-cloud-amd64"
"""It depends on the package of the current kernel."""

HOST_PROGRAMS = {QEMU: "qemu-system-x86", "mksquashfs": "squashfs-tools", "dpkg-deb": "dpkg", "ldd": "libc-bin"}
GUEST_PROGRAMS = {
    "busybox": "busybox",
    "iptables-nft": "iptables",
    "iptables-nft-restore": "iptables",
    "iptables-nft-save": "iptables",
    "ip6tables-nft": "iptables",
    "ip6tables-nft-restore": "iptables",
    "ip6tables-nft-save": "iptables",
}
"""The programs that the guest gets from the host, and the packages that bring them."""
IF_THERE = ("dash", "ip", "nft", "conntrack", "ipset", "ipvsadm", "tcpdump")
"""Programs that the guest gets where the host has them."""

Say = Callable[[Text], None]
"""Tells the user what takes so long."""

MISSING = Message(
    "microvm.missing",
    en="The microVM needs programs that are not installed ({programs}): 'apt install {packages}' brings them.",
    zh="microVM 需要的程序没有安装 ({programs})：用 'apt install {packages}' 安装。",
)
OTHER_MACHINE = Message(
    "microvm.other-machine",
    en="The microVM runs on {machine} only; this machine is {this}.",
    zh="microVM 只能在 {machine} 上运行；这台机器是 {this}。",
)
NO_KERNEL = Message(
    "microvm.no-kernel",
    en="The microVM needs Debian's kernel for clouds, and apt cannot get it ({words}). Either 'apt update' and then "
    "'apt install {package}' as root, or put a file linux-image-*-cloud-amd64_*.deb of Debian into {folder}.",
    zh="microVM 需要 Debian 的云内核，而 apt 无法获取 ({words})。请以 root 执行 'apt update' 和 "
    "'apt install {package}'，或将 Debian 的 linux-image-*-cloud-amd64_*.deb 文件放入 {folder}。",
)
DOWNLOADING = Message(
    "microvm.downloading",
    en="downloading the microVM's kernel once: {package}",
    zh="正在下载 microVM 的内核 (仅此一次)：{package}",
)
FAILED = Message(
    "microvm.program-failed",
    en="{program} failed while the microVM was being made (status {status}): {words}",
    zh="制作 microVM 时 {program} 失败 (状态 {status})：{words}",
)

_VERSIONED = re.compile(r"^\s*\|?Depends: (linux-image-\d\S*-cloud-amd64)$", re.MULTILINE)
_KIND = "kernel"


def check_machine() -> None:
    """Raises :class:`MachineCannot` where this is another kind of machine than those that there is a kernel for."""
    this = os.uname().machine
    if this != MACHINE:
        raise MachineCannot(OTHER_MACHINE(machine=MACHINE, this=this))


def find_all(wanted: Mapping[str, str]) -> dict[str, Path]:
    """The programs' paths. Raises :class:`MachineCannot`, naming all that are missing and what brings them."""
    found = {program: find(program) for program in wanted}
    missing = [program for program, path in found.items() if path is None]
    if missing:
        packages = dict.fromkeys(wanted[program] for program in missing)
        raise MachineCannot(MISSING(programs=", ".join(missing), packages=" ".join(packages)))
    return {program: path for program, path in found.items() if path is not None}


def find(program: str) -> Path | None:
    """A program's path, where it is there."""
    try:
        return Path(programs.find(program))
    except MachineCannot:
        return None


def kernel(cache: Cache, say: Say, root: Path = Path("/")) -> Path:
    """Where a kernel is: the root folder of an installed one, or a package (\\*.deb) that is to be unpacked.

    A package in the cache comes first, so that nothing changes and no network is needed after the first time.
    Raises :class:`MachineCannot`.
    """
    folder = cache.folder / _KIND
    if found := sorted(folder.glob("linux-image-*-cloud-amd64_*.deb")) + sorted(folder.glob("*/*.deb")):
        return found[-1]
    if installed_kernel(root) is not None:
        return root
    name = _current_package(folder)

    def download(part: Path) -> None:
        say(DOWNLOADING(package=name))
        try:
            run(["apt-get", "download", "--quiet", name], part)
        except MachineCannot as error:
            raise _no_kernel(str(error.text), folder) from error

    entry = cache.get(_KIND, name, download)
    try:
        return next(entry.path.glob("*.deb"))
    finally:
        entry.close()


def installed_kernel(root: Path) -> tuple[Path, Path] | None:
    """The newest kernel for clouds below a folder that has its modules: its image, and the folder of those."""
    for image in sorted(root.glob("boot/vmlinuz-*-cloud-amd64"), reverse=True):
        release = image.name.removeprefix("vmlinuz-")
        for modules in (root / "usr/lib/modules" / release, root / "lib/modules" / release):
            if (modules / "kernel").is_dir() and os.access(image, os.R_OK):
                return image, modules
    return None


def _current_package(folder: Path) -> str:
    try:
        names = _VERSIONED.findall(run(["apt-cache", "depends", "--important", KERNEL_PACKAGE], Path("/")))
    except MachineCannot as error:
        raise _no_kernel(str(error.text), folder) from error
    if not names:
        raise _no_kernel(f"{KERNEL_PACKAGE}?", folder)
    return str(names[0])


def _no_kernel(words: str, folder: Path) -> MachineCannot:
    return MachineCannot(NO_KERNEL(words=words.rstrip("."), package=KERNEL_PACKAGE, folder=folder))


def run(command: Sequence[str], folder: Path) -> str:
    """Run a program in a folder and return what it prints.

    Raises :class:`MachineCannot` with its own words where it fails, and where it is missing.
    """
    path = programs.find(command[0])
    done = subprocess.run(
        [path, *command[1:]],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        env={**os.environ, "LC_ALL": "C"},
        check=False,
    )
    if done.returncode:
        words = " ".join((done.stderr or done.stdout).split()) or "-"
        raise MachineCannot(FAILED(program=command[0], status=done.returncode, words=words))
    return done.stdout
