"""A frontend's side: an engine in a microVM, got like any other; and whether a lab needs one."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from netlab.engine.client import EngineClient, Loaded, start_engine
from netlab.engine.process import EngineProcess
from netlab.microvm import __main__ as supervisor
from netlab.microvm import image, packages
from netlab.microvm.cache import Cache, Entry, default_folder
from netlab.microvm.contents import Contents, engine_contents
from netlab.model.errors import NetlabError
from netlab.model.text import Message

NO_IPVS = Message(
    "microvm.no-ipvs",
    en="this machine's kernel has no IPVS for labs: the lab runs in a microVM with Debian's kernel",
    zh="这台机器的内核不为实验提供 IPVS：实验在使用 Debian 内核的 microVM 中运行",
)
MAKING = Message(
    "microvm.making",
    en="making the microVM once, about 20 s; it is kept in {folder}",
    zh="正在制作 microVM (仅此一次，约 20 秒)；它保存在 {folder} 中",
)


@dataclass(frozen=True)
class Program:
    """What a guest holds, and the Python module that is its first process."""

    contents: Contents
    entry: str = "netlab.microvm.guest"


STATE, ACCELERATOR = "state", "accelerator"
_KIND = "guest"


@contextmanager
def loaded_engine(
    sources: Sequence[tuple[str, bytes]],
    mode: str | None,
    say: packages.Say,
    *,
    vm: bool = False,
    listener: socket.socket | None = None,
    folder: Path | None = None,
) -> Iterator[tuple[EngineClient, Loaded]]:
    """An engine that has read files and can build what is in them: here, or in a microVM where this kernel cannot do
    what they ask for, or where ``vm`` wants that anyway. Ends with the block, unless it is detached.

    The other arguments are those of :meth:`EngineClient.load` and :func:`start_engine`; ``say`` tells the user what is
    worth knowing. Raises :class:`NetlabError`.
    """
    if not vm:
        with start_engine(listener, folder) as client:
            loaded = client.load(sources, mode)
            if not loaded.lacking:
                yield client, loaded
                return
        say(NO_IPVS())
    with start_engine_in_microvm(listener, folder, say) as client:
        yield client, client.load(sources, mode)


def start_engine_in_microvm(
    listener: socket.socket | None = None,
    folder: Path | None = None,
    say: packages.Say = lambda _: None,
    program: Program | None = None,
) -> EngineClient:
    """Start an engine in a microVM, and be its first frontend; as :func:`start_engine`.

    ``program`` is what the guest is to run instead, and speaks as an engine does.

    Raises :class:`MachineCannot` where the machine lacks what a microVM needs.
    """
    packages.check_machine()
    packages.find_all({**packages.HOST_PROGRAMS, **packages.GUEST_PROGRAMS})
    cache = Cache(default_folder())
    program = program or Program(engine_contents())
    try:
        return _start(_guest(cache, program, say), listener, folder)
    except _NotAwake as failure:
        # A guest that does not go on from its state (the disk was full, the machine's power went) is made anew, once.
        cache.remove(_KIND, failure.key)
    try:
        return _start(_guest(cache, program, say), listener, folder)
    except _NotAwake as failure:
        raise failure.reason from None


class _NotAwake(Exception):
    """A guest did not go on from its state."""

    def __init__(self, key: str, reason: NetlabError) -> None:
        super().__init__(key)
        self.key = key
        self.reason = reason


def _start(guest: Entry, listener: socket.socket | None, folder: Path | None) -> EngineClient:
    with ExitStack() as stack:
        stack.callback(guest.close)
        names = (image.KERNEL, image.INITRAMFS, image.ROOT, STATE)
        files = [stack.enter_context(open(guest.path / name, "rb")) for name in names]
        accelerator = (guest.path / ACCELERATOR).read_text()
        process = EngineProcess(supervisor.MODULE, [each.fileno() for each in files], [accelerator])
        client = start_engine(listener, folder, process)
        try:
            client.wait_notification(supervisor.AWAKE)
        except BaseException as error:
            client.abandon()
            if isinstance(error, NetlabError):
                raise _NotAwake(guest.path.name, error) from error
            raise
        return client


def _guest(cache: Cache, program: Program, say: packages.Say) -> Entry:
    """The folder of a guest whose engine waits for its first frontend; made where there is none."""
    kernel = packages.kernel(cache, say)
    qemu_path = packages.find_all(packages.HOST_PROGRAMS)[packages.QEMU]
    key = program.contents.key(program.entry, *_identity(qemu_path), *_identity(kernel), *_processor())

    def make(folder: Path) -> None:
        say(MAKING(folder=cache.folder))
        image.make(folder, program.contents, kernel, program.entry)
        with ExitStack() as stack:
            names = (image.KERNEL, image.INITRAMFS, image.ROOT)
            files = [stack.enter_context(open(folder / name, "rb")) for name in names]
            state = stack.enter_context(open(folder / STATE, "wb"))
            numbers = [each.fileno() for each in (*files, state)]
            client = start_engine(process=EngineProcess(supervisor.MODULE, numbers, [supervisor.MAKE]))
            with client:
                accelerator = client.wait_notification(supervisor.SAVED)["accelerator"]
        (folder / STATE).chmod(0o644)
        (folder / ACCELERATOR).write_text(accelerator)

    return cache.get(_KIND, key, make)


def _identity(path: Path) -> tuple[str, ...]:
    status = path.stat()
    return str(path), str(status.st_size), str(status.st_mtime_ns)


def _processor() -> list[str]:
    """With KVM, a guest's state fits this kind of processor and this kernel only."""
    if not os.path.exists("/dev/kvm"):
        return []
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return [platform.release(), *(line for line in lines if line.startswith("model name"))][:2]
