"""Where running labs are found: a folder of Unix sockets, one a lab, for the user alone.

``$XDG_RUNTIME_DIR/kube-netlab/``, else ``/tmp/kube-netlab-UID/``. A socket that nobody answers at belongs to a lab that
was killed; it is removed by whoever comes across it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

from netlab.model.errors import BadInput, MachineCannot
from netlab.model.text import Message

SUFFIX = ".sock"
BACKLOG = 16
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

BAD_NAME = Message(
    "rendezvous.bad-name",
    en='"{name}" cannot be a lab\'s name: lower case letters, digits and "-", at most 63 characters',
    zh='"{name}" 不能作为实验名称：只能用小写字母、数字和 "-"，最多 63 个字符',
)
BUSY = Message(
    "rendezvous.busy",
    en='a lab named "{name}" is running: choose another name with --name, or end it with "kube-netlab down {name}"',
    zh='名为 "{name}" 的实验正在运行：请用 --name 另选名称，或用 "kube-netlab down {name}" 结束它',
)
NOT_YOURS = Message(
    "rendezvous.not-yours",
    en="{directory} is not a folder of your own with mode 0700: remove it, or set XDG_RUNTIME_DIR",
    zh="{directory} 不是您自己的、权限为 0700 的文件夹：请删除它，或设置 XDG_RUNTIME_DIR",
)
NO_ROOM = Message(
    "rendezvous.no-room",
    en="a socket cannot be made in {directory}: {error}. Set XDG_RUNTIME_DIR to a folder with room",
    zh="无法在 {directory} 中创建套接字：{error}。请将 XDG_RUNTIME_DIR 设为有空间的文件夹",
)
NOT_RUNNING = Message(
    "rendezvous.not-running",
    en='no lab named "{name}" is running{known}',
    zh='没有名为 "{name}" 的实验在运行{known}',
)
RUNNING_ARE = Message("rendezvous.running-are", en="; running: {names}", zh="；正在运行：{names}")
NONE_RUNNING = Message("rendezvous.none-running", en="; none is running", zh="；没有任何实验在运行")


def directory() -> Path:
    """The folder of sockets, made if need be; it goes with the last of them. Raises :class:`MachineCannot`."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    path = Path(runtime) / "kube-netlab" if runtime else Path("/tmp") / f"kube-netlab-{os.getuid()}"
    _make(path)
    return path


def _make(path: Path) -> None:
    status = None
    try:
        while status is None:
            with suppress(FileExistsError):
                path.mkdir(mode=0o700)
            # Whoever has taken the last socket away may be removing it.
            with suppress(FileNotFoundError):
                status = path.lstat()
    except OSError as error:
        raise MachineCannot(NO_ROOM(directory=path, error=error.strerror)) from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise MachineCannot(NOT_YOURS(directory=path))


def check_name(name: str) -> None:
    """Raises :class:`BadInput` for what cannot be a lab's name."""
    if not _NAME.fullmatch(name):
        raise BadInput(BAD_NAME(name=name))


class Listener:
    """A listening socket that has no name yet; :meth:`publish` gives it one. Within ``with`` it is there.

    The name is taken away at the end of the ``with`` block, unless :meth:`keep` was called and somebody else goes on
    listening.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._path = folder / f".{os.getpid()}-{secrets.token_hex(4)}{SUFFIX}"
        self._inode: int | None = None
        self._kept = False

    def __enter__(self) -> Listener:
        try:
            with _locked(self.folder) as descriptor:
                # Others who come by must not find it before it listens: they would take it for a dead one.
                old = os.umask(0o177)
                try:
                    self.socket.bind(_address(descriptor, self._path))
                finally:
                    os.umask(old)
                self._inode = self._path.stat().st_ino
                self.socket.listen(BACKLOG)
        except BaseException as error:
            self._end()
            if isinstance(error, OSError):
                raise MachineCannot(NO_ROOM(directory=self.folder, error=error.strerror)) from error
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def publish(self, name: str) -> None:
        """Let others find the lab by its name. Raises :class:`BadInput` where a running lab has it."""
        check_name(name)
        path = self.folder / f"{name}{SUFFIX}"
        with _locked(self.folder):
            if os.path.lexists(path) and is_alive(path):
                raise BadInput(BUSY(name=name))
            try:
                os.rename(self._path, path)
            except OSError as error:
                raise MachineCannot(NO_ROOM(directory=self.folder, error=error.strerror)) from error
            self._path = path

    def keep(self) -> None:
        """Leave the name where it is, for whoever has inherited the socket."""
        self._kept = True

    def _end(self) -> None:
        self.socket.close()
        if self._kept and is_alive(self._path):
            return
        with suppress(FileNotFoundError, MachineCannot), _locked(self.folder):
            # Another lab may have the name by now.
            if self._inode in (None, self._path.stat().st_ino):
                self._path.unlink()


@contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """Alone in the folder: two who want one name come one after the other. Yields the folder's descriptor.

    A folder that is empty at the end is removed, so one that is locked may have been removed in the meantime.
    """
    while True:
        descriptor = _opened(folder)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _is_at(descriptor, folder):
            break
        os.close(descriptor)
        _make(folder)
    try:
        yield descriptor
    finally:
        with suppress(OSError):
            folder.rmdir()
        os.close(descriptor)


def _opened(folder: Path) -> int:
    while True:
        try:
            return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            _make(folder)
        except OSError as error:
            raise MachineCannot(NO_ROOM(directory=folder, error=error.strerror)) from error


def _is_at(descriptor: int, folder: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), folder.lstat())
    return False


def _address(folder: int, path: Path) -> str:
    """A socket's address by way of its folder's descriptor: at most 107 bytes, however long the path is."""
    return f"/proc/self/fd/{folder}/{path.name}"


def is_alive(path: Path) -> bool:
    """Whether somebody listens at the socket; also where nobody accepts at the moment."""
    try:
        connect(path, blocking=False).close()
    except OSError as error:
        return error.errno not in (errno.ECONNREFUSED, errno.ENOENT)
    return True


def connect(path: Path, *, blocking: bool = True) -> socket.socket:
    """A connection to the lab behind a socket. Raises OSError."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        connection.setblocking(blocking)
        connection.connect(_address(folder, path))
    except OSError:
        connection.close()
        raise
    finally:
        os.close(folder)
    return connection


def running(folder: Path) -> dict[str, Path]:
    """The sockets of running labs by name; those of dead ones are removed."""
    found: dict[str, Path] = {}
    with _locked(folder):
        for path in sorted(folder.glob(f"*{SUFFIX}")):
            if is_alive(path):
                if not path.name.startswith("."):
                    found[path.name.removesuffix(SUFFIX)] = path
            else:
                with suppress(OSError):
                    path.unlink()
    return found


def find(name: str) -> Path:
    """The socket of a running lab. Raises :class:`BadInput`, naming those that run."""
    labs = running(directory())
    if name not in labs:
        raise not_running(name)
    return labs[name]


def not_running(name: str) -> BadInput:
    """The error that names those that run."""
    labs = running(directory())
    known = RUNNING_ARE(names=", ".join(labs)) if labs else NONE_RUNNING()
    return BadInput(NOT_RUNNING(name=name, known=known))
