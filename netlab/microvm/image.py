"""What a guest starts from: a kernel, an initramfs, and a read-only root as a squashfs."""

from __future__ import annotations

import importlib.util
import io
import lzma
import marshal
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from netlab.kernel import programs
from netlab.microvm import cpio, elf, modules, packages
from netlab.microvm.contents import SITE, Contents, interpreter, unmerged
from netlab.model.errors import MachineCannot
from netlab.model.text import Message

KERNEL, INITRAMFS, ROOT = "vmlinuz", "initramfs", "root.squashfs"

KERNEL_LACKS = Message(
    "microvm.kernel-lacks",
    en="The kernel in {place} lacks what the microVM needs: {what}",
    zh="{place} 中的内核缺少 microVM 所需的：{what}",
)

_MERGED = ("bin", "lib", "lib64", "sbin")
"""Folders that are links into /usr."""
_FOLDERS = ("dev", "proc", "root", "run", "sys", "tmp", "var/lib", "usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "etc")
_PASSWD = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
_GROUP = "root:x:0:\nnogroup:x:65534:\n"
_RESOLVER = "nameserver 127.0.0.1\n"
"""There is none, but there are libraries that complain where nothing is said."""
_LIBRARY = re.compile(r"(?:=> |^\s+)(/\S+) \(0x", re.MULTILINE)

# The root's modules are loaded here rather than one by one when somebody needs them, and waits for a slow processor.
_INIT = """#!/bin/busybox sh
mount -t devtmpfs dev /dev && mount -t proc proc /proc && mount -t sysfs sys /sys || exit 1
for module in /modules/*; do insmod "$module" || exit 1; done
mount -t squashfs -o ro /dev/vda /new || exit 1
for module in {modules}; do insmod "/new{folder}/$module" || exit 1; done
mount -t tmpfs -o mode=1777 tmp /new/tmp && mount -t tmpfs -o mode=755 run /new/run || exit 1
for each in dev proc sys; do mount -o move "/$each" "/new/$each" || exit 1; done
export PYTHONPATH={site} PYTHONDONTWRITEBYTECODE=1 PATH=/usr/sbin:/usr/bin LC_ALL=C.UTF-8
exec /bin/switch_root /new {python} -S -s -m {entry}
"""


def make(folder: Path, contents: Contents, kernel: Path, entry: str) -> None:
    """Put :data:`KERNEL`, :data:`INITRAMFS` and :data:`ROOT` into a folder.

    ``kernel``: a package, or the root folder that a kernel is installed in. ``entry``: the Python module that is the
    guest's PID 1. Raises :class:`MachineCannot`.
    """
    unpacked = kernel
    if kernel.suffix == ".deb":
        unpacked = folder / "unpacked"
        packages.run(["dpkg-deb", "-x", str(kernel), str(unpacked)], folder)
    found = packages.installed_kernel(unpacked)
    if found is None:
        raise MachineCannot(KERNEL_LACKS(place=kernel, what="/boot/vmlinuz-*, /lib/modules/*"))
    image, modules_folder = found
    shutil.copyfile(image, folder / KERNEL)
    known = _Modules.read(modules_folder, kernel)
    (busybox,) = packages.find_all({"busybox": "busybox"}).values()
    applets = packages.run(["busybox", "--list"], folder).split()
    libraries = _libraries(contents.files.values(), folder)
    (folder / INITRAMFS).write_bytes(_initramfs(known, busybox, _libraries([busybox], folder), entry))
    _make_root(folder / ROOT, contents, libraries, applets, known)
    if unpacked != kernel:
        shutil.rmtree(unpacked)
    for name in (KERNEL, INITRAMFS, ROOT):
        # Where root starts the guest, QEMU runs as another user.
        (folder / name).chmod(0o644)


@dataclass(frozen=True)
class _Modules:
    """The modules that the guest gets: what each says of itself, and its file's contents, by name."""

    release: str
    known: Mapping[str, modules.Module]
    data: Mapping[str, bytes]
    built_in: str

    @property
    def folder(self) -> str:
        return f"/usr/lib/modules/{self.release}"

    @classmethod
    def read(cls, folder: Path, place: Path) -> _Modules:
        """Raises :class:`MachineCannot` where the kernel lacks something that the guest needs."""
        paths = {modules.name_of(path.name): path for path in folder.glob("kernel/**/*.ko*")}
        built_in = (folder / "modules.builtin").read_text()
        needed = [*modules.BOOT, *modules.LOADED]
        available = {*paths, *(modules.name_of(line) for line in built_in.splitlines())}
        if lacking := sorted(set(needed) - available):
            raise MachineCannot(KERNEL_LACKS(place=place, what=", ".join(lacking)))
        in_folders = [
            name
            for name, path in paths.items()
            if any(path.is_relative_to(folder / "kernel" / each) for each in modules.FOLDERS)
        ]
        known: dict[str, modules.Module] = {}
        data: dict[str, bytes] = {}
        waiting = [*needed, *in_folders]
        while waiting:
            path = paths.get(waiting.pop())
            if path is None or modules.name_of(path.name) in known:
                continue
            contents = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
            module = modules.read_module(str(path.relative_to(folder)).removesuffix(".xz"), contents)
            known[module.name], data[module.name] = module, contents
            waiting += module.needs
        return cls(folder.name, known, data, built_in)


def _libraries(files: Iterable[Path], folder: Path) -> list[Path]:
    """The libraries that the dynamic loader would load for programs and extensions."""
    binaries = [str(each) for each in files if _is_dynamic(each)]
    if not binaries:
        return []
    printed = packages.run(["ldd", *binaries], folder)
    return [Path(text) for text in sorted(set(_LIBRARY.findall(printed)))]


def _is_dynamic(path: Path) -> bool:
    if path.suffix in (".py", ".pyc"):
        return False
    contents = path.read_bytes()
    return elf.is_elf(contents) and elf.is_dynamic(contents)


def _initramfs(found: _Modules, busybox: Path, libraries: Iterable[Path], entry: str) -> bytes:
    archive = cpio.Archive()
    folders = {str(parent) for each in libraries for parent in each.parents} | {"/bin", "/modules", "/new"}
    for each in sorted({*folders, "/dev", "/proc", "/sys"} - {"/"}):
        archive.folder(each[1:])
    archive.file("bin/busybox", busybox.read_bytes(), executable=True)
    for name in ("insmod", "mount", "switch_root"):
        archive.link(f"bin/{name}", "busybox")
    for library in libraries:
        archive.file(str(library)[1:], library.read_bytes(), executable=True)
    at_once = modules.in_order(modules.BOOT, found.known)
    for number, module in enumerate(at_once):
        archive.file(f"modules/{number:02}-{module.name}.ko", found.data[module.name])
    later = [each.path for each in modules.in_order(modules.LOADED, found.known) if each not in at_once]
    script = _INIT.format(python=interpreter(), site=SITE, entry=entry, modules=" ".join(later), folder=found.folder)
    archive.file("init", script.encode(), executable=True)
    return archive.data()


def _make_root(
    path: Path, contents: Contents, libraries: Iterable[Path], applets: Iterable[str], found: _Modules
) -> None:
    """As a stream of a tar archive: no file of the host is copied twice."""
    command = [programs.find("mksquashfs"), "-", str(path), "-tar", "-all-root", "-no-progress", "-quiet"]
    command += ["-noI", "-noD", "-noF", "-noX"]
    words = b""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as squash:
        assert squash.stdin is not None
        assert squash.stdout is not None
        # Where it ends early, its own words say why.
        with (
            suppress(BrokenPipeError),
            squash.stdin,
            tarfile.open(fileobj=squash.stdin, mode="w|", format=tarfile.GNU_FORMAT) as tar,
        ):
            for member, data in _members(contents, libraries, applets, found):
                tar.addfile(member, io.BytesIO(data) if data is not None else None)
        words = squash.stdout.read()
    if squash.returncode:
        text = " ".join(words.decode(errors="replace").split()) or "-"
        raise MachineCannot(packages.FAILED(program="mksquashfs", status=squash.returncode, words=text))


def _members(
    contents: Contents, libraries: Iterable[Path], applets: Iterable[str], found: _Modules
) -> Iterator[tuple[tarfile.TarInfo, bytes | None]]:
    links = {f"/{name}": f"usr/{name}" for name in _MERGED}
    links |= {f"/usr/bin/{name}": "busybox" for name in applets}
    links |= {"/usr/sbin/modprobe": "../bin/busybox", "/usr/sbin/sysctl": "../bin/busybox", "/var/run": "/run"}
    files = contents.files | {unmerged(each): each.resolve() for each in libraries}
    texts = {
        "/etc/passwd": _PASSWD,
        "/etc/group": _GROUP,
        "/etc/resolv.conf": _RESOLVER,
        f"{found.folder}/modules.dep": modules.dependencies_index(found.known),
        f"{found.folder}/modules.alias": modules.aliases_index(found.known),
        f"{found.folder}/modules.builtin": found.built_in,
    }
    made = {name: text.encode() for name, text in texts.items()}
    made |= {f"{found.folder}/{module.path}": found.data[name] for name, module in found.known.items()}
    links = {name: target for name, target in (links | contents.links).items() if name not in files}
    places = [*files, *made, *links, *(f"/{each}/any" for each in _FOLDERS)]
    folders = {parent for place in places for parent in Path(place).parents} - {Path("/"), *map(Path, links)}
    for folder in sorted(folders):
        yield _member(str(folder), tarfile.DIRTYPE, 0o755), None
    for place, path in sorted(files.items()):
        data = path.read_bytes()
        status = path.stat()
        member = _member(place, tarfile.REGTYPE, 0o755 if status.st_mode & 0o111 else 0o644)
        # Python compares the time with what a compiled file says.
        member.size, member.mtime = len(data), int(status.st_mtime)
        yield member, data
        if place.endswith(".py") and place.startswith(f"{SITE}/"):
            compiled = importlib.util.cache_from_source(place)
            if compiled not in files and (code := _compiled(place, data)) is not None:
                made[compiled] = code
    for place, data in sorted(made.items()):
        member = _member(place, tarfile.REGTYPE, 0o644)
        member.size = len(data)
        yield member, data
    for place, target in sorted(links.items()):
        member = _member(place, tarfile.SYMTYPE, 0o777)
        member.linkname = target
        yield member, None


def _compiled(place: str, source: bytes) -> bytes | None:
    """The compiled form, for Python to take without a look at the source (PEP 552): compiling is slow in a guest."""
    unchecked = (1).to_bytes(4, "little")
    try:
        code = marshal.dumps(compile(source, place, "exec", dont_inherit=True))
    except (SyntaxError, ValueError):
        # Some packages carry files for other versions of Python.
        return None
    return importlib.util.MAGIC_NUMBER + unchecked + importlib.util.source_hash(source) + code


def _member(place: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(place[1:])
    member.type, member.mode = kind, mode
    return member
