"""The initramfs format: a cpio archive of the "newc" kind.

Source: Documentation/driver-api/early-userspace/buffer-format.rst of the kernel.
"""

from __future__ import annotations

import stat

_TRAILER = "TRAILER!!!"


class Archive:
    """Collects files; :meth:`data` is the archive. Paths are relative to the root, without a leading slash."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._number = 0

    def folder(self, path: str) -> None:
        self._add(path, stat.S_IFDIR | 0o755, b"")

    def file(self, path: str, contents: bytes, *, executable: bool = False) -> None:
        self._add(path, stat.S_IFREG | (0o755 if executable else 0o644), contents)

    def link(self, path: str, target: str) -> None:
        self._add(path, stat.S_IFLNK | 0o777, target.encode())

    def data(self) -> bytes:
        self._add(_TRAILER, 0, b"")
        return b"".join(self._pieces)

    def _add(self, path: str, mode: int, contents: bytes) -> None:
        self._number += 1
        name = path.encode() + b"\0"
        # inode, mode, uid, gid, links, mtime, size, device (2), device of a special file (2), length of the name, check
        fields = (self._number, mode, 0, 0, 1, 0, len(contents), 0, 0, 0, 0, len(name), 0)
        header = b"070701" + b"".join(b"%08X" % each for each in fields)
        self._pieces += [_padded(header + name), _padded(contents)]


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
