"""The engine as a process: started by a frontend, waited for, and killed where nothing else helps."""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from netlab.model.errors import MachineCannot
from netlab.model.text import Message

STOP_S = 5.0
"""How long an engine may take to end, seconds; then it is killed."""

_CREDENTIALS = struct.Struct("=iII")
_KILL_S = 5.0

CANNOT_START = Message(
    "process.cannot-start",
    en="the engine cannot be started: {error}{advice}",
    zh="无法启动引擎：{error}{advice}",
)


class EngineProcess:
    """An engine that this process has started, as its child (or, once detached, as nobody's).

    ``pid`` is the lab's PID 1; 0 until that has told. ``module`` is the Python module that the process runs: an
    engine, or what stands for one. It gets the numbers of ``descriptors`` and ``words`` after what every engine gets.
    """

    def __init__(
        self, module: str = "netlab.engine", descriptors: Sequence[int] = (), words: Sequence[str] = ()
    ) -> None:
        self.module = module
        self.descriptors = descriptors
        self.words = words
        self.pid = 0
        self.detached = False
        self._log: int | None = None

    @contextmanager
    def launched(
        self, connection: socket.socket, listener: socket.socket | None, folder: Path | None
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Start it; ``connection`` is its end of the first frontend's connection, and closed here.

        The first process, which the block gets, ends as soon as the sandbox stands; the lab's PID 1 becomes our child
        then. The block is for hearing of that.
        """
        from netlab.kernel import libc

        libc.prctl(libc.PR_SET_CHILD_SUBREAPER, 1)
        try:
            with connection:
                first = self._spawn(connection, listener, folder)
            try:
                yield first
            finally:
                first.wait()
        finally:
            libc.prctl(libc.PR_SET_CHILD_SUBREAPER, 0)

    def _spawn(
        self, connection: socket.socket, listener: socket.socket | None, folder: Path | None
    ) -> subprocess.Popen[bytes]:
        own = [connection.fileno()]
        directory = None
        try:
            self._log = os.memfd_create("kube-netlab-engine.log", os.MFD_CLOEXEC)
            if listener is not None and folder is not None:
                directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                own += [listener.fileno(), directory]
            numbers = [*own, *[0] * (3 - len(own)), *self.descriptors]
            return subprocess.Popen(
                # -P: the user's folder may hold a socket.py.
                [sys.executable, "-P", "-m", self.module, *map(str, numbers), *self.words],
                pass_fds=[*own, *self.descriptors],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                start_new_session=True,
                env=_environment(),
            )
        except OSError as error:
            raise cannot_start(error) from error
        finally:
            if directory is not None:
                os.close(directory)

    def finish(self) -> None:
        """Wait for the engine's end; kill it if it takes too long."""
        self.last_words()
        if not self.pid or self.detached:
            return
        with suppress(ProcessLookupError, ChildProcessError):
            lab = os.pidfd_open(self.pid)
            try:
                wait_or_kill(lab, STOP_S)
                os.waitpid(self.pid, 0)
            finally:
                os.close(lab)
        self.pid = 0

    def last_words(self) -> bytes:
        """What the engine wrote to its log; only once, as it is let go of."""
        if self._log is None:
            return b""
        words = os.pread(self._log, os.fstat(self._log).st_size, 0)
        os.close(self._log)
        self._log = None
        return words


def cannot_start(error: OSError) -> MachineCannot:
    from netlab.kernel import limits

    return MachineCannot(CANNOT_START(error=error.strerror, advice=limits.advice(error.errno)))


def _environment() -> dict[str, str]:
    """The engine reads the very code that its frontend was read from; as root it leaves no compiled files."""
    environment = dict(os.environ)
    # scapy would keep its cache in the user's home, where an engine that root started may not even look.
    environment["XDG_CACHE_HOME"] = os.devnull
    checkout = Path(__file__).parents[2]
    if checkout.name not in ("site-packages", "dist-packages"):
        paths = [str(checkout), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
    if os.geteuid() == 0:
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
    return environment


def has_word(connection: socket.socket, first: subprocess.Popen[bytes]) -> bool:
    """Wait for the engine's first word; False where its first process has ended without one (killed, say)."""
    ended = os.pidfd_open(first.pid)
    try:
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        poll.register(ended, select.POLLIN)
        ready = [descriptor for descriptor, _ in poll.poll()]
        return connection.fileno() in ready or first.wait() == 0
    finally:
        os.close(ended)


def lab_at(connection: socket.socket) -> int | None:
    """A pidfd of the lab's PID 1, by the connection to its engine; None where another process listens for it yet."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, _, _ = _CREDENTIALS.unpack(credentials)
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return None
    if _is_init(pid):
        return descriptor
    os.close(descriptor)
    return None


def _is_init(pid: int) -> bool:
    """Whether the process is PID 1 of a pid namespace below ours."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    numbers = next((line.split()[1:] for line in lines if line.startswith("NSpid:")), [])
    return len(numbers) > 1 and numbers[-1] == "1"


def wait_or_kill(process: int, patience: float) -> None:
    """Until the process behind a pidfd has ended; after ``patience`` seconds it is killed."""
    poll = select.poll()
    poll.register(process, select.POLLIN)
    if poll.poll(patience * 1000):
        return
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(process, signal.SIGKILL)
    poll.poll(_KILL_S * 1000)


def save_log(words: bytes) -> str | None:
    """Put an engine's log where the user can read it; None where there is no room."""
    try:
        with tempfile.NamedTemporaryFile("wb", prefix="kube-netlab-", suffix=".log", delete=False) as file:
            file.write(words)
    except OSError:
        return None
    return file.name
