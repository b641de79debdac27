"""The sandbox: who one is in it, what one may do there, and that nothing of it outlives its first process."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from netlab.kernel import libc, netns, sandbox, sysctl
from netlab.model.errors import MachineCannot
from tests.cli.command import until
from tests.conftest import ROOT

pytestmark = pytest.mark.kernel

Sandbox = Callable[[Callable[[], Any]], Any]
AS_ROOT = os.getuid() == 0


class TestInside:
    def test_one_is_root_and_the_first_process(self, sandbox: Sandbox) -> None:
        assert sandbox(lambda: (os.getuid(), os.getgid(), os.getpid(), os.getgroups())) == (0, 0, 1, [])

    def test_the_map_is_of_an_ordinary_user(self, sandbox: Sandbox) -> None:
        outside = 65534 if AS_ROOT else os.getuid()
        assert sandbox(lambda: Path("/proc/self/uid_map").read_text().split()) == ["0", str(outside), "1"]

    def test_proc_is_that_of_the_sandbox(self, sandbox: Sandbox) -> None:
        assert sandbox(lambda: [name for name in os.listdir("/proc") if name.isdigit()]) == ["1"]

    def test_run_is_empty_and_writable(self, sandbox: Sandbox) -> None:
        def use() -> list[str]:
            before = os.listdir("/run")
            Path("/run/something").write_text("x")
            return before

        program = {each.parts[2] for each in (ROOT, Path(sys.prefix)) if each.is_relative_to("/run")}
        assert set(sandbox(use)) == program
        assert not Path("/run/something").exists()

    def test_networks_can_be_made_and_set(self, sandbox: Sandbox) -> None:
        def use() -> list[str]:
            (place,) = netns.create(["place"])
            with place.entered():
                sysctl.write("net/ipv4/ip_forward", 1)
                return [name for _, name in socket.if_nameindex()]

        before = Path("/proc/sys/net/ipv4/ip_forward").read_text()
        assert sandbox(use) == ["lo"]
        assert Path("/proc/sys/net/ipv4/ip_forward").read_text() == before

    @pytest.mark.parametrize(
        "path", ["/proc/sys/kernel/panic", "/proc/sys/vm/swappiness", "/proc/sys/kernel/core_pattern"]
    )
    def test_the_host_cannot_be_changed(self, sandbox: Sandbox, path: str) -> None:
        def write() -> str:
            try:
                with open(path, "w"):
                    return "opened"
            except OSError as error:
                return type(error).__name__

        assert sandbox(write) == "PermissionError"

    def test_mounts_stay_inside(self, sandbox: Sandbox, tmp_path: Path) -> None:
        def mount() -> list[str]:
            libc.mount("tmpfs", "/mnt", "tmpfs")
            Path("/mnt/inside").touch()
            return os.listdir("/mnt")

        assert sandbox(mount) == ["inside"]
        assert not Path("/mnt/inside").exists()

    def test_the_name_of_the_host_stays(self, sandbox: Sandbox) -> None:
        def rename() -> str:
            libc.sethostname("elsewhere")
            return os.uname().nodename

        before = os.uname().nodename
        assert sandbox(rename) == "elsewhere"
        assert os.uname().nodename == before


class TestEnd:
    def test_all_end_with_the_first_process(self) -> None:
        read, write = os.pipe()
        told_read, told_write = os.pipe()
        child = os.fork()
        if child == 0:
            with suppress(BaseException):
                sandbox.enter(lambda pid: [os.write(told_write, pid.to_bytes(4))].clear(), [ROOT, Path(sys.prefix)])
                if os.fork() == 0:
                    os.setsid()
                os.write(write, b"x")
                signal.pause()
            os._exit(0)
        os.close(write)
        os.close(told_write)
        os.waitpid(child, 0)
        init = int.from_bytes(os.read(told_read, 4))
        os.close(told_read)
        assert os.read(read, 1) == b"x"
        assert os.read(read, 1) == b"x"
        os.kill(init, signal.SIGKILL)
        assert os.read(read, 1) == b""
        os.close(read)
        until(lambda: not Path(f"/proc/{init}").exists(), "init has reaped it")


class TestWhatIsReadable:
    def test_folders_that_others_may_not_enter(self, tmp_path: Path) -> None:
        closed, inside = tmp_path / "closed", tmp_path / "closed" / "a" / "b"
        inside.mkdir(parents=True)
        closed.chmod(0o700)
        (tmp_path / "open").mkdir()
        found = sandbox._closed([inside, closed / "a", Path("/usr")], 4711)
        barrier = next(folder for folder in reversed(inside.parents) if not folder.stat().st_mode & 0o001)
        assert found == ({barrier: [closed / "a", inside]} if os.getuid() != 4711 else {})

    def test_a_program_that_others_cannot_read(self, tmp_path: Path) -> None:
        def check() -> str:
            try:
                sandbox.check_readable([tmp_path])
            except MachineCannot as error:
                return str(error)
            return "readable"

        (tmp_path / "netlab").mkdir()
        code = tmp_path / "netlab" / "code.py"
        code.touch()
        for folder in (tmp_path, *tmp_path.parents[:3]):
            if folder != Path("/tmp"):
                folder.chmod(0o755)
        assert as_user(4711, check) == "readable"
        code.chmod(0o600)
        assert f"cannot read {code}: " in as_user(4711, check)
        (tmp_path / "netlab").chmod(0o700)
        assert f"cannot read {tmp_path / 'netlab'}: " in as_user(4711, check)
        tmp_path.chmod(0o700)
        assert f"cannot read {tmp_path}: " in as_user(4711, check)
        tmp_path.parent.chmod(0o700)
        said = as_user(4711, check)
        assert f"cannot read {tmp_path.parent}: " in said
        assert f"'chmod o+x {tmp_path.parent}'" in said


def as_user(uid: int, function: Callable[[], str]) -> str:
    """What a function returns in a process of another user (root alone can do that)."""
    if not AS_ROOT:
        pytest.skip("needs another user")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            os.write(write, function().encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read().decode()
    os.waitpid(child, 0)
    return text


class TestAdvice:
    @pytest.mark.parametrize(
        ("limits", "setting"),
        [
            ({"user.max_user_namespaces": 0, "user.max_net_namespaces": 10}, "user.max_user_namespaces"),
            ({"user.max_user_namespaces": 10, "user.max_net_namespaces": 5}, "user.max_net_namespaces"),
        ],
    )
    def test_the_lowest_limit_is_named(self, limits: dict[str, int], setting: str) -> None:
        text = str(sandbox._advice(OSError(28, "No space left on device"), limits))
        assert f"The limit {setting} is {limits[setting]}" in text
        assert f"'sysctl {setting}=15000'" in text

    def test_what_is_mapped(self) -> None:
        assert sandbox._is_mapped(os.getuid())
