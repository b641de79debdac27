"""What is made once and used often: the kernel's package and guests, in the user's cache folder.

An entry is a folder of files. It appears under its name when it is whole: whoever is killed in between leaves a part,
which the next one removes. One process makes at a time and others wait, as they mostly want the same. Of guests only
those that were used last are kept; one that is in use is held by a lock.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from netlab.model.errors import MachineCannot
from netlab.model.text import Message

KEPT = 2
"""How many entries of a kind are kept, besides those that somebody used just now; a guest takes about 400 MB."""
JUST_NOW_S = 3600.0
"""Who works on several checkouts at once has a guest for each."""

CANNOT_CACHE = Message(
    "microvm.cannot-cache",
    en="{folder} cannot be used: {error}. The microVM keeps its kernel and its guests there, which take about 1 GB: "
    "make room, or set XDG_CACHE_HOME to a folder that has it.",
    zh="无法使用 {folder}：{error}。microVM 在其中保存内核和虚拟机，约需 1 GB：请腾出空间，"
    "或将 XDG_CACHE_HOME 设为有空间的文件夹。",
)

_PART = ".part"
_LOCK = ".lock"


def default_folder() -> Path:
    """``$XDG_CACHE_HOME/kube-netlab/microvm``, else in ``~/.cache``."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(given) if os.path.isabs(given) else Path(os.path.expanduser("~"), ".cache")
    return base / "kube-netlab" / "microvm"


class Entry:
    """An entry in use: it is not removed before :meth:`close`."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def close(self) -> None:
        os.close(self._descriptor)


class Cache:
    """The folder. All methods raise :class:`MachineCannot` where there is no room or no permission."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, kind: str, key: str) -> Entry | None:
        """An entry that is there."""
        path = self.folder / kind / key
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._cannot(error) from error
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        # Between opening and locking, it may have been removed.
        if not _is_at(path, descriptor):
            os.close(descriptor)
            return None
        with suppress(OSError):
            os.utime(descriptor)
        return Entry(path, descriptor)

    def get(self, kind: str, key: str, make: Callable[[Path], None]) -> Entry:
        """An entry; where there is none, ``make`` fills its folder. Raises what ``make`` raises."""
        while (entry := self.find(kind, key)) is None:
            with self._locked():
                if not (self.folder / kind / key).exists():
                    self._make(kind, key, make)
                    self._prune(kind)
        return entry

    def remove(self, kind: str, key: str) -> None:
        """Remove an entry that is of no use."""
        with self._locked(), suppress(FileNotFoundError):
            _remove(self.folder / kind / key)

    def _make(self, kind: str, key: str, make: Callable[[Path], None]) -> None:
        part = self.folder / kind / f"{key}{_PART}"
        try:
            # We hold the lock: whoever made parts that are there is gone.
            for left in (self.folder / kind).glob(f"*{_PART}"):
                shutil.rmtree(left)
            part.mkdir(parents=True)
            make(part)
            os.rename(part, self.folder / kind / key)
        except OSError as error:
            raise self._cannot(error) from error
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def _prune(self, kind: str) -> None:
        found = [each for each in (self.folder / kind).iterdir() if each.suffix != _PART]
        used = {path: path.stat().st_mtime for path in found}
        for path in sorted(found, key=used.__getitem__)[:-KEPT]:
            if time.time() - used[path] < JUST_NOW_S:
                continue
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(path)
            except BlockingIOError:
                continue
            finally:
                os.close(descriptor)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone in the folder; waits for whoever else is."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._cannot(error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _cannot(self, error: OSError) -> MachineCannot:
        return MachineCannot(CANNOT_CACHE(folder=self.folder, error=error.strerror))


def _is_at(path: Path, descriptor: int) -> bool:
    with suppress(OSError):
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    return False


def _remove(path: Path) -> None:
    """Take the name away first: nobody finds half an entry."""
    part = path.with_name(f"{path.name}{_PART}")
    os.rename(path, part)
    shutil.rmtree(part)
