"""The ``kube-netlab`` command as processes of their own, in folders of their own, as a user or a script starts it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import ROOT

KUBE_NETLAB = Path(sys.executable).with_name("kube-netlab")
MARK = "KUBE_NETLAB_TEST"
"""The environment variable that all processes of one test inherit, and can be told by."""
TIMEOUT_S = 60.0

_PASSED_ON = ("PATH", "HOME", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = ROOT / ".venv" / "bin" / "kube-netlab"
    return subprocess.run(
        [command, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", **environment},
    )


def until(condition: Callable[[], bool], what: str, seconds: float = 15.0) -> None:
    """Return when something has become true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.005)


@dataclass(frozen=True)
class Result:
    """What a command came to."""

    status: int
    out: str
    err: str

    def said(self, status: int, *parts: str) -> None:
        """One message with all the parts, nothing on standard output, and no traceback."""
        assert self.status == status, self
        assert self.out == ""
        assert sum(line.startswith(("error: ", "错误：")) for line in self.err.splitlines()) == 1, self.err
        assert "Traceback" not in self.err
        assert "fault of kube-netlab" not in self.err
        missing = [part for part in parts if part not in self.err]
        assert not missing, f"{missing} not in {self.err}"

    def done(self, status: int = 0) -> None:
        """As expected, and without a word on standard error but notes."""
        assert self.status == status, self
        assert all(line.startswith("note: ") for line in self.err.splitlines()), self.err


class Machine:
    """Folders and an environment for one test's commands."""

    def __init__(self, folder: Path) -> None:
        self.token = uuid.uuid4().hex
        self.runtime, self.temporary, self.work = folder / "run", folder / "tmp", folder / "work"
        for each in (self.runtime, self.temporary, self.work):
            each.mkdir(mode=0o700)
        self.commands: list[subprocess.Popen[bytes]] = []

    @property
    def rendezvous(self) -> Path:
        return self.runtime / "kube-netlab"

    def environment(self, changes: Mapping[str, str] | None = None) -> dict[str, str]:
        passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        own = {"XDG_RUNTIME_DIR": str(self.runtime), "TMPDIR": str(self.temporary), "LANG": "C.UTF-8"}
        return {**passed_on, **own, MARK: self.token, **(changes or {})}

    def start(
        self,
        *words: str | Path | bytes,
        wrapper: Sequence[str | Path] = (),
        environment: Mapping[str, str] | None = None,
        program: Sequence[str | Path] = (KUBE_NETLAB,),
        stdin: int = subprocess.DEVNULL,
        stdout: int | None = subprocess.PIPE,
        stderr: int | None = subprocess.PIPE,
        cwd: Path = ROOT,
        before: Callable[[], None] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a command; ``wrapper`` are the words of a program that starts it in turn."""
        process = subprocess.Popen(
            [*wrapper, *program, *words],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            env=self.environment(environment),
            preexec_fn=before,
        )
        self.commands.append(process)
        return process

    def run(
        self,
        *words: str | Path | bytes,
        input: bytes | None = None,  # noqa: A002
        timeout: float = TIMEOUT_S,
        wrapper: Sequence[str | Path] = (),
        environment: Mapping[str, str] | None = None,
        program: Sequence[str | Path] = (KUBE_NETLAB,),
        cwd: Path = ROOT,
        before: Callable[[], None] | None = None,
    ) -> Result:
        """Run a command to its end."""
        process = self.start(
            *words,
            wrapper=wrapper,
            environment=environment,
            program=program,
            stdin=subprocess.DEVNULL if input is None else subprocess.PIPE,
            cwd=cwd,
            before=before,
        )
        return self.result(process, timeout, input)

    def result(self, process: subprocess.Popen[bytes], timeout: float = TIMEOUT_S, data: bytes | None = None) -> Result:
        """Wait for a command's end."""
        try:
            out, err = process.communicate(data, timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"not done within {timeout} s; said {out!r} and {err!r}") from None
        return Result(process.returncode, (out or b"").decode(), (err or b"").decode())

    def close(self) -> None:
        """End what is still running, by its pid."""
        for process in self.commands:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.communicate()

    def lab(self, text: str, name: str = "lab.yaml") -> Path:
        """A lab file in the test's own folder."""
        path = self.work / name
        path.write_text(text)
        return path
