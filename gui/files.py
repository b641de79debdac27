"""Files that the user names: read by a thread, with the user's own rights, and told apart by what is in them."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import msgspec
from PySide6.QtCore import QObject, Signal

from netlab.engine.files import STANDARD_INPUT, read_files
from netlab.model.errors import BadInput, NetlabError
from netlab.model.text import Message, Text
from netlab.model.walk import SCHEMA, Walk

BAD_WALK = Message(
    "gui.files.bad-walk",
    en="{file}: says that it is a walk ({schema}), but is damaged: {what}",
    zh="{file}：声明为数据包旅程 ({schema})，但内容已损坏：{what}",
)
EMPTY_WALK = Message("gui.files.empty-walk", en="{file}: the walk has no steps", zh="{file}：该旅程没有任何步骤")


class _Head(msgspec.Struct):
    schema: str = ""


@dataclass(frozen=True)
class Opened:
    """What a file held: a walk, or (where that is None) what may be a lab file."""

    path: str
    data: bytes
    walk: Walk | None = None


def understand(path: str, data: bytes) -> Opened:
    """Raises :class:`BadInput` for a damaged walk; whether a lab file is one, the engine finds out."""
    try:
        head = msgspec.json.decode(data, type=_Head)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Opened(path, data)
    if head.schema != SCHEMA:
        return Opened(path, data)
    try:
        walk = msgspec.json.decode(data, type=Walk)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(BAD_WALK(file=path, schema=SCHEMA, what=error)) from error
    if not walk.steps:
        raise BadInput(EMPTY_WALK(file=path))
    return Opened(path, data, walk)


class FileReader(QObject):
    """Reads without holding the window up, be it a slow disk or a pipe that nobody writes to.

    ``read`` with an :class:`Opened`, or ``failed`` with the reason: of the file that was asked for last.
    """

    read = Signal(object)
    failed = Signal(object)
    _done = Signal(int, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._asked = 0
        self._done.connect(self._tell)

    def ask(self, path: str) -> None:
        self._asked += 1
        number = self._asked
        threading.Thread(target=self._read, args=(number, path), name="file-reader", daemon=True).start()

    def _read(self, number: int, path: str) -> None:
        result: Opened | Text
        try:
            name = path if path != STANDARD_INPUT else "./-"
            result = understand(path, read_files([name])[0][1])
        except NetlabError as error:
            result = error.text
        self._done.emit(number, result)

    def _tell(self, number: int, result: Opened | Text) -> None:
        if number != self._asked:
            return
        if isinstance(result, Opened):
            self.read.emit(result)
        else:
            self.failed.emit(result)
