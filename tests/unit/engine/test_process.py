"""The engine as a process, and what is made of its failures."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from netlab.engine import process
from netlab.engine.client import EngineClient, start_engine
from netlab.engine.faults import as_error
from netlab.kernel.netlink import NetlinkError
from netlab.model import jsonrpc
from netlab.model.errors import EXIT_MACHINE, BadInput, LabFailed, MachineCannot
from netlab.model.text import Text


class TestErrors:
    @pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOSPC, errno.ENOMEM, errno.EAGAIN])
    def test_what_has_run_out(self, code: int) -> None:
        error = as_error(OSError(code, os.strerror(code)), "lab.start")
        assert isinstance(error, MachineCannot)
        assert str(error).startswith("this machine has run out of something that the lab needs: ")
        assert ("'ulimit -n'" in str(error)) == (code == errno.EMFILE)

    def test_no_memory(self) -> None:
        assert "Cannot allocate memory" in str(as_error(MemoryError(), "lab.load"))

    def test_what_the_kernel_refuses(self) -> None:
        error = as_error(NetlinkError(errno.EOPNOTSUPP, "make node-a/vxlan1", "Unknown device type"), "lab.start")
        assert str(error) == "the kernel refused: make node-a/vxlan1: Operation not supported (Unknown device type)"
        assert error.exit_status == EXIT_MACHINE

    def test_an_error_that_has_a_text_stays(self) -> None:
        error = BadInput(Text("test", "en", "zh"))
        assert as_error(error, "lab.load") is error

    def test_a_fault_of_our_own(self, capfd: pytest.CaptureFixture[str]) -> None:
        try:
            raise KeyError("forgotten")
        except KeyError as exception:
            error = as_error(exception, "lab.walk")
        assert isinstance(error, LabFailed)
        assert str(error).startswith(
            "lab.walk: KeyError: 'forgotten'. This is a fault of kube-netlab, not of your input"
        )
        assert "Traceback" in capfd.readouterr().err


class TestWaiting:
    def test_for_one_that_ends(self) -> None:
        child = subprocess.Popen(["true"])
        descriptor = os.pidfd_open(child.pid)
        process.wait_or_kill(descriptor, 10)
        os.close(descriptor)
        assert child.wait() == 0

    def test_for_one_that_does_not(self) -> None:
        child = subprocess.Popen(["sleep", "60"])
        descriptor = os.pidfd_open(child.pid)
        began = time.monotonic()
        process.wait_or_kill(descriptor, 0.05)
        os.close(descriptor)
        assert child.wait() == -signal.SIGKILL
        assert time.monotonic() - began < 10

    def test_this_process_is_the_first_one_of_no_lab(self) -> None:
        one, other = socket.socketpair()
        with one, other:
            assert process.lab_at(one) is None


class TestLog:
    def test_it_is_put_where_the_user_can_read_it(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        path = process.save_log(b"last words")
        assert path is not None
        assert Path(path).read_bytes() == b"last words"
        assert Path(path).parent == tmp_path

    def test_there_is_no_room_for_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tempfile.tempdir", "/nowhere")
        assert process.save_log(b"last words") is None


@contextmanager
def client_of(answers: bytes) -> Iterator[tuple[EngineClient, socket.socket]]:
    """A client, and its peer that is no engine: it has sent something, and says no more."""
    ours, theirs = socket.socketpair()
    with theirs, EngineClient(ours) as client:
        theirs.sendall(answers)
        theirs.shutdown(socket.SHUT_WR)
        yield client, theirs


class TestClient:
    def test_the_engine_goes_before_it_answers(self) -> None:
        with client_of(b"") as (client, _), pytest.raises(LabFailed, match=r"^The engine has ended\.$"):
            client.call("lab.start")

    def test_the_engine_says_why_it_goes(self) -> None:
        error = jsonrpc.error_from(MachineCannot(Text("test", "no namespaces", "没有")))
        with client_of(jsonrpc.notification("engine.failed", error)) as (client, peer):
            peer.close()
            with pytest.raises(MachineCannot, match="no namespaces"):
                client.call("lab.start")

    def test_the_engine_does_not_answer(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs, EngineClient(ours) as client:
            ours.settimeout(0.05)
            with pytest.raises(LabFailed, match="does not answer"):
                client.call("lab.describe")

    def test_an_end_that_was_told_is_no_failure(self) -> None:
        with client_of(jsonrpc.notification("engine.ending", {})) as (client, _):
            client.wait_closed()
        with client_of(b"") as (client, _), pytest.raises(LabFailed):
            client.wait_closed()

    def test_words_that_are_no_text(self) -> None:
        words = "the words given for sender, to are not UTF-8"
        with client_of(b"") as (client, _), pytest.raises(BadInput, match=words):
            client.call("lab.walk", sender="\udcff", to="\udcfe", timeout=2.0)


@pytest.mark.kernel
class TestStart:
    def test_an_engine_comes_and_goes(self) -> None:
        with start_engine() as client:
            assert client.process is not None
            pid = client.process.pid
            assert process._is_init(pid)
        assert not Path(f"/proc/{pid}").exists()

    def test_an_interpreter_that_does_not_start(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "executable", "/nowhere/python")
        with pytest.raises(MachineCannot, match="the engine cannot be started: No such file or directory"):
            start_engine()

    def test_an_interpreter_that_ends_at_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        script = tmp_path / "python"
        script.write_text("#!/bin/sh\necho 'no modules today' >&2\nexit 1\n")
        script.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(script))
        with pytest.raises(LabFailed, match="The engine has ended; its last words are in"):
            start_engine()
        (log,) = tmp_path.glob("*.log")
        assert log.read_text() == "no modules today\n"

    def test_a_start_that_is_broken_off_leaves_no_process(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class BrokenOff(BaseException):
            pass

        def break_off(client: EngineClient, method: str) -> None:
            monkeypatch.undo()
            raise BrokenOff

        before = set(children())
        monkeypatch.setattr(EngineClient, "wait_notification", break_off)
        with pytest.raises(BrokenOff):
            start_engine()
        assert set(children()) == before


def children() -> list[str]:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
