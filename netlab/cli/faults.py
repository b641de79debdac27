"""Exceptions that nobody foresaw, as errors that a user can do something with."""

from __future__ import annotations

import tempfile
import traceback

from netlab.model.errors import UNEXPECTED, LabFailed, NetlabError
from netlab.model.text import Message

DETAILS = Message("faults.details", en="what is in {path}", zh="{path} 中的内容")


def as_error(exception: Exception) -> NetlabError:
    """A fault of the program's own: the traceback goes into a file, its last line into the message."""
    what = f"{type(exception).__name__}: {exception}"
    words = "".join(traceback.format_exception(exception))
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="kube-netlab-", suffix=".log", delete=False, encoding="utf-8", errors="replace"
        ) as file:
            file.write(words)
    except OSError:
        return LabFailed(UNEXPECTED(what=what, details=words))
    return LabFailed(UNEXPECTED(what=what, details=DETAILS(path=file.name)))
