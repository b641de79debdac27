"""A machine that lacks something: programs, namespaces, room, rights, streams. One message, or it works."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from netlab.kernel.programs import find
from tests.cli.command import KUBE_NETLAB, Machine
from tests.cli.labfiles import GOOD
from tests.conftest import NODEPORT, ROOT

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("nothing_left")]

HAN = re.compile("[\u4e00-\u9fff]")
WALK = ("--from", "client", "--to", "192.168.60.123:30080", "-o", "json")
CHINESE = {"LANG": "zh_CN.UTF-8"}
AS_ROOT = os.getuid() == 0
ROOT_ALONE = pytest.mark.skipif(not AS_ROOT, reason="needs another user")
ORDINARY_USER = ("setpriv", "--reuid=1000", "--regid=1000", "--clear-groups")
MOUNT_NAMESPACE = ("unshare", "--mount") if AS_ROOT else ("unshare", "--map-root-user", "--mount")
USER_NAMESPACE = ("unshare", "--map-root-user")
TOOL = Path(find("iptables-nft-restore")).resolve()

SECCOMP = """
import ctypes, os, struct, sys
numbers = {"x86_64": {"unshare": 272, "mount": 165}, "aarch64": {"unshare": 97, "mount": 40}}[os.uname().machine]
number = numbers[sys.argv[1]]
program = b"".join(struct.pack("HBBI", *each) for each in (
    (0x20, 0, 0, 0),            # load the system call's number
    (0x15, 0, 1, number),       # this one ...
    (0x06, 0, 0, 0x00050001),   # ... fails with EPERM
    (0x06, 0, 0, 0x7FFF0000),   # all others are allowed
))
buffer = ctypes.create_string_buffer(program)
filter = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 4, ctypes.addressof(buffer)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, filter, 0, 0) == 0, ctypes.get_errno()
os.execv(sys.argv[2], sys.argv[2:])
"""


def after(*commands: str, wrapper: tuple[str, ...] = MOUNT_NAMESPACE) -> tuple[str, ...]:
    """A wrapper that runs shell commands in namespaces of its own before the command proper."""
    return (*wrapper, "sh", "-ec", "\n".join([*commands, 'exec "$@"']), "sh")


class TestMissingPrograms:
    def test_iptables_is_not_installed(self, machine: Machine) -> None:
        result = machine.run("walk", NODEPORT, *WALK, wrapper=after(f"mount --bind /dev/null {TOOL}"))
        result.said(3, "The program iptables-nft-restore is not installed: 'apt install iptables' brings it.")

    def test_iptables_is_not_installed_in_chinese(self, machine: Machine) -> None:
        hidden = after(f"mount --bind /dev/null {TOOL}")
        machine.run("up", NODEPORT, wrapper=hidden, environment=CHINESE).said(3, "没有安装程序 iptables-nft-restore")

    def test_iptables_is_no_program(self, machine: Machine) -> None:
        broken = machine.work / "broken"
        broken.write_text("no program at all")
        broken.chmod(0o755)
        result = machine.run("walk", NODEPORT, *WALK, wrapper=after(f"mount --bind {broken} {TOOL}"))
        result.said(3, "kube-proxy on node-", "cannot be run: Exec format error")

    def test_iptables_fails(self, machine: Machine) -> None:
        failing = machine.work / "failing"
        failing.write_text("#!/bin/sh\necho 'not today' >&2\nexit 4\n")
        failing.chmod(0o755)
        result = machine.run("walk", NODEPORT, *WALK, wrapper=after(f"mount --bind {failing} {TOOL}"))
        result.said(3, "kube-proxy on node-", "not today", "status 4")

    @pytest.mark.parametrize("path", ["", ":", "."])
    def test_programs_are_found_whatever_the_path_says(self, machine: Machine, path: str) -> None:
        for name in ("iptables-nft-restore", "ip6tables-nft-restore", "iptables-nft-save"):
            (machine.work / name).write_text("#!/bin/sh\necho somebody else's program >&2\nexit 9\n")
            (machine.work / name).chmod(0o755)
        machine.run("walk", NODEPORT, *WALK, environment={"PATH": path}, cwd=machine.work).done()

    def test_the_folder_that_one_is_in_is_not_searched_for_code(self, machine: Machine) -> None:
        for name in ("socket", "yaml", "netlab", "asyncio"):
            (machine.work / f"{name}.py").write_text("raise SystemExit('this is not the module you are looking for')")
        machine.run("walk", NODEPORT, *WALK, cwd=machine.work).done()


class TestNoNamespaces:
    @pytest.mark.parametrize("kind", ["user", "net", "pid", "mnt"])
    def test_no_namespaces_are_left(self, machine: Machine, kind: str) -> None:
        setting = f"max_{kind}_namespaces"
        none = after(f"echo 0 > /proc/sys/user/{setting}", wrapper=USER_NAMESPACE)
        result = machine.run("walk", NODEPORT, *WALK, wrapper=none)
        result.said(3, f"The limit user.{setting} is 0", f"'sysctl user.{setting}=15000'")

    def test_no_namespaces_are_left_in_chinese(self, machine: Machine) -> None:
        none = after("echo 0 > /proc/sys/user/max_user_namespaces", wrapper=USER_NAMESPACE)
        machine.run("up", NODEPORT, wrapper=none, environment=CHINESE).said(3, "上限 user.max_user_namespaces 为 0")

    @pytest.mark.parametrize(
        ("kind", "limit", "needed"),
        [("mnt", 1, 2), ("net", 1, 9), ("net", 4, 9), ("pid", 1, 5), ("pid", 4, 5), ("uts", 2, 5), ("ipc", 4, 5)],
    )
    def test_too_few_namespaces(self, machine: Machine, kind: str, limit: int, needed: int) -> None:
        setting = f"max_{kind}_namespaces"
        few = after(f"echo {limit} > /proc/sys/user/{setting}", wrapper=USER_NAMESPACE)
        result = machine.run("walk", NODEPORT, *WALK, wrapper=few)
        result.said(3, f"The limit user.{setting} is {limit}, and this lab needs {needed}", f"sysctl user.{setting}=")

    @pytest.mark.parametrize("kind", ["net", "pid", "uts"])
    def test_others_have_used_the_namespaces_up(self, machine: Machine, kind: str) -> None:
        """The limit is high enough, were it not for a lab that runs already."""
        words = shlex.join([str(KUBE_NETLAB), "walk", str(NODEPORT), *WALK])
        most = {"net": 14, "pid": 8, "uts": 8}[kind]
        script = "\n".join(
            [
                f"echo {most} > /proc/sys/user/max_{kind}_namespaces",
                f"{KUBE_NETLAB} up {NODEPORT} --detach > /dev/null",
                f"{words} || status=$?",
                f"{KUBE_NETLAB} down > /dev/null",
                "exit $status",
            ]
        )
        result = machine.run("-ec", script, wrapper=USER_NAMESPACE, program=("sh",))
        result.said(3, "run out of something", "No space left on device", f"user.max_{kind}_namespaces")

    @pytest.mark.parametrize(
        ("call", "said"), [("unshare", "create a user namespace"), ("mount", "The lab's sandbox cannot be set up")]
    )
    def test_a_container_forbids_it(self, machine: Machine, call: str, said: str) -> None:
        result = machine.run("walk", NODEPORT, *WALK, wrapper=(sys.executable, "-c", SECCOMP, call))
        result.said(3, said, "Operation not permitted", "--security-opt seccomp=unconfined")

    def test_inside_another_user_namespace(self, machine: Machine) -> None:
        machine.run("walk", NODEPORT, *WALK, wrapper=USER_NAMESPACE).done()

    @ROOT_ALONE
    def test_root_of_a_container_without_its_powers(self, machine: Machine) -> None:
        weak = ("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")
        machine.run("walk", NODEPORT, *WALK, wrapper=weak).done()

    def test_too_few_open_files(self, machine: Machine) -> None:
        result = machine.run("walk", NODEPORT, *WALK, wrapper=("prlimit", "--nofile=40:40"))
        result.said(3, "run out of something", "Too many open files", "40 open files here ('ulimit -n')")

    def test_a_low_soft_limit_of_open_files_is_raised(self, machine: Machine) -> None:
        machine.run("walk", NODEPORT, *WALK, wrapper=("prlimit", "--nofile=40:4096")).done()

    @ROOT_ALONE
    @pytest.mark.parametrize("most", [2, 4, 6, 8, 12, 16])
    def test_too_few_processes(self, machine: Machine, most: int) -> None:
        user = 1200 + most
        limited = (
            "setpriv",
            f"--reuid={user}",
            f"--regid={user}",
            "--clear-groups",
            "prlimit",
            f"--nproc={most}:{most}",
        )
        open_folders(machine)
        result = machine.run("walk", NODEPORT, *WALK, wrapper=limited)
        result.said(3, "Resource temporarily unavailable", f"{most} processes and threads here ('ulimit -u')")

    @pytest.mark.parametrize("size", [0, 1024])
    def test_files_may_not_be_large(self, machine: Machine, size: int) -> None:
        capture = machine.work / "walk.pcapng"
        limited = ("prlimit", f"--fsize={size}:{size}")
        result = machine.run("walk", NODEPORT, *WALK, "--pcap", capture, wrapper=limited)
        result.said(3, "File too large", f"at most {size} bytes here ('ulimit -f')")
        assert not capture.exists()


def open_folders(machine: Machine) -> None:
    """Let another user have the test's folders."""
    for folder in (machine.runtime, machine.temporary, machine.work):
        os.chown(folder, 1000, 1000)


class TestFolderOfSockets:
    def test_it_is_full(self, machine: Machine) -> None:
        for room in (1, 2):
            full = after(f"mount -t tmpfs -o nr_inodes={room},mode=700 none {machine.runtime}")
            result = machine.run("up", NODEPORT, "--detach", wrapper=full)
            result.said(3, str(machine.rendezvous), "No space left on device", "XDG_RUNTIME_DIR")

    def test_it_is_full_of_data(self, machine: Machine) -> None:
        """A socket takes no room."""
        full = after(
            f"mount -t tmpfs -o size=4k,mode=700 none {machine.runtime}",
            f"yes | head -c 4096 > {machine.runtime}/data || true",
        )
        commands = f"{KUBE_NETLAB} up {NODEPORT} --detach && {KUBE_NETLAB} ls && {KUBE_NETLAB} down"
        result = machine.run("-c", commands, wrapper=full, program=("bash",))
        result.done()
        assert "has ended" in result.out

    def test_a_walk_does_not_need_it(self, machine: Machine) -> None:
        nowhere = {"XDG_RUNTIME_DIR": "/nowhere", "TMPDIR": "/nowhere"}
        machine.run("walk", NODEPORT, *WALK, environment=nowhere).done()

    def test_no_folder_for_temporary_files_can_be_written(self, machine: Machine) -> None:
        """The checkout may be in one of them: nothing is mounted over them that would hide it."""
        closed = after(
            *(f"mount --rbind {path} {path}; mount -o remount,ro,bind {path}" for path in ("/tmp", "/var/tmp", "/run"))
        )
        lab = Path("/dev/shm") / f"kube-netlab-{machine.token}.yaml"
        lab.write_text(GOOD)
        try:
            machine.run("walk", lab, *WALK, wrapper=closed, cwd=Path("/")).done()
        finally:
            lab.unlink()

    def test_it_cannot_be_written(self, machine: Machine) -> None:
        closed = after(f"mount -t tmpfs -o ro none {machine.runtime}")
        machine.run("up", NODEPORT, wrapper=closed).said(3, "Read-only file system")

    def test_there_is_none(self, machine: Machine) -> None:
        for words in (("up", NODEPORT), ("ls",), ("down",)):
            result = machine.run(*words, environment={"XDG_RUNTIME_DIR": "/nowhere/at/all"})
            result.said(3, "/nowhere/at/all/kube-netlab", "No such file or directory")

    def test_its_path_is_long(self, machine: Machine) -> None:
        long = machine.runtime / ("x" * 100) / ("y" * 100)
        long.mkdir(parents=True)
        environment = {"XDG_RUNTIME_DIR": str(long)}
        machine.run("up", NODEPORT, "--detach", environment=environment).done()
        assert "nodeport" in machine.run("ls", environment=environment).out
        machine.run("down", environment=environment).done()

    @pytest.mark.parametrize("kind", ["open", "link", "file", pytest.param("foreign", marks=ROOT_ALONE)])
    def test_it_is_not_one_s_own(self, machine: Machine, kind: str) -> None:
        folder = machine.rendezvous
        if kind == "link":
            folder.symlink_to(machine.work)
        elif kind == "file":
            folder.touch(0o600)
        else:
            folder.mkdir(mode=0o755 if kind == "open" else 0o700)
        if kind == "foreign":
            os.chown(folder, 1000, 1000)
        for words in (("up", NODEPORT), ("ls",), ("walk", "x", *WALK)):
            machine.run(*words).said(3, f"{folder} is not a folder of your own with mode 0700")

    def test_other_things_are_in_it(self, machine: Machine) -> None:
        machine.rendezvous.mkdir(mode=0o700)
        (machine.rendezvous / "folder.sock").mkdir()
        (machine.rendezvous / "nodeport.sock").write_text("an old file")
        machine.run("up", NODEPORT, "--detach").done()
        machine.run("down", "nodeport").done()
        machine.run("up", NODEPORT, "--name", "folder").said(3, "folder", "directory")
        (machine.rendezvous / "folder.sock").rmdir()


class TestStreams:
    def test_nobody_reads_to_the_end(self, machine: Machine) -> None:
        command = shlex.join([str(KUBE_NETLAB), "walk", str(NODEPORT), *WALK[:4], "-v"])
        result = machine.run("-c", f"set -o pipefail; {command} | head -1", program=("bash",))
        result.done()
        assert len(result.out.splitlines()) == 1

    def test_nobody_reads_at_all(self, machine: Machine) -> None:
        command = shlex.join([str(KUBE_NETLAB), "walk", str(NODEPORT), *WALK])
        machine.run("-c", f"set -o pipefail; {command} | true", program=("bash",)).done()

    def test_standard_output_is_full(self, machine: Machine) -> None:
        with open("/dev/full", "wb") as full:
            for words in (("walk", NODEPORT, *WALK), ("walk", NODEPORT, *WALK[:4]), ("--help",)):
                command = machine.start(*words, stdout=full.fileno())
                machine.result(command).said(3, "standard output cannot be written: No space left on device")

    @pytest.mark.parametrize("closed", [(1,), (2,), (0, 1, 2)])
    def test_streams_are_closed(self, machine: Machine, closed: tuple[int, ...]) -> None:
        def close() -> None:
            for descriptor in closed:
                os.close(descriptor)

        for status, to in ((0, "192.168.60.123:30080"), (2, "nowhere")):
            result = machine.run("walk", NODEPORT, "--from", "client", "--to", to, before=close)
            assert result.status == status
            assert bool(result.out) == (status == 0 and 1 not in closed)
            assert bool(result.err) == (status == 2 and 2 not in closed)

    def test_standard_error_is_full(self, machine: Machine) -> None:
        with open("/dev/full", "wb") as full:
            command = machine.start("walk", "nowhere.yaml", *WALK, stderr=full.fileno())
            assert machine.result(command).status == 2

    def test_a_terminal_of_few_letters(self, machine: Machine) -> None:
        environment = {"PYTHONIOENCODING": "ascii", "KUBE_NETLAB_LANG": "zh"}
        machine.run("walk", NODEPORT, *WALK[:4], environment=environment).done()
        assert machine.run("walk", "nowhere.yaml", *WALK[:4], environment=environment).status == 2

    def test_a_terminal_without_arrows(self, machine: Machine) -> None:
        """Signs have names in ASCII, and columns stay columns; values are whole."""
        ascii_alone = {"PYTHONIOENCODING": "ascii"}
        table = machine.run("walk", NODEPORT, *WALK[:4], environment=ascii_alone)
        table.done()
        assert table.out.isascii()
        lines = table.out.splitlines()
        assert lines[0].startswith("client -> 192.168.60.123:30080")
        assert lines[1].startswith("ok answered by")
        column = next(line.index("source") for line in lines if line.startswith("  #"))
        rows = [line for line in lines if line[4:7] in ("-> ", "<- ")]
        assert len(rows) > 8
        assert all(line[column - 1] == " " and line[column].isdigit() for line in rows)
        value = machine.run("walk", NODEPORT, *WALK, environment={**ascii_alone, "KUBE_NETLAB_LANG": "zh"})
        assert value.out.isascii()
        assert any(HAN.search(step["reason"]["zh"]) for step in json.loads(value.out)["steps"] if step["reason"])

    def test_exec_without_standard_input(self, machine: Machine) -> None:
        machine.run("up", NODEPORT, "--detach").done()
        words = ("exec", "nodeport/node-a", "--", "cat")
        assert machine.run(*words, before=lambda: os.close(0)).status == 0
        machine.run("down").done()


@ROOT_ALONE
class TestUsers:
    def test_an_ordinary_user(self, machine: Machine) -> None:
        open_folders(machine)
        for words in (("walk", NODEPORT, *WALK), ("up", NODEPORT, "--detach"), ("down",)):
            machine.run(*words, wrapper=ORDINARY_USER).done()
        assert not list(machine.rendezvous.glob("*"))

    def test_root_reads_what_root_alone_can(self, machine: Machine) -> None:
        lab = machine.lab(GOOD)
        lab.chmod(0o600)
        capture = machine.work / "walk.pcapng"
        machine.run("walk", lab, *WALK, "--pcap", capture).done()
        assert capture.stat().st_uid == 0
        assert capture.stat().st_size > 1000

    def test_an_ordinary_user_does_not(self, machine: Machine) -> None:
        open_folders(machine)
        lab = machine.lab(GOOD)
        lab.chmod(0o600)
        machine.run("walk", lab, *WALK, wrapper=ORDINARY_USER).said(2, "cannot be read: Permission denied")
        words = ("walk", NODEPORT, *WALK, "--pcap", "/root/walk.pcapng")
        machine.run(*words, wrapper=ORDINARY_USER).said(2, "/root/walk.pcapng: cannot be written: Permission denied")

    def closed_checkout(self, machine: Machine) -> tuple[tuple[str, ...], Path, dict[str, str]]:
        """The checkout and its Python in a folder of root's alone: wrapper, Python, environment."""
        closed = machine.work / "closed"
        closed.mkdir(mode=0o700)
        python, checkout = closed / "venv", closed / "checkout"
        moved = after(
            f"mount -t tmpfs -o mode=700 none {closed}",
            f"mkdir {python} {checkout}",
            f"mount --bind {sys.prefix} {python}",
            f"mount --bind {ROOT} {checkout}",
            f"mount -t tmpfs none {sys.prefix}",
            f"mount -t tmpfs none {ROOT}",
        )
        return moved, python / "bin" / "python", {"PYTHONPATH": str(checkout)}

    def test_root_with_the_program_in_a_closed_folder(self, machine: Machine) -> None:
        wrapper, python, environment = self.closed_checkout(machine)
        lab = machine.lab(GOOD)
        program = (python, "-P", "-c", "from netlab.cli.main import main; main()")
        words = ("walk", lab, *WALK)
        machine.run(*words, wrapper=wrapper, program=program, environment=environment, cwd=machine.work).done()

    @pytest.mark.parametrize("closed", ["the checkout", "all of it", "one file"])
    def test_root_with_a_program_that_root_alone_can_read(self, machine: Machine, closed: str) -> None:
        """As after 'chmod 700', and as after 'umask 077; git clone'."""
        folder = machine.work / "checkout"
        shutil.copytree(ROOT / "netlab", folder / "netlab", ignore=shutil.ignore_patterns("__pycache__"))
        if closed == "one file":
            (folder / "netlab" / "lab" / "lab.py").chmod(0o600)
        else:
            folder.chmod(0o700)
        for path in folder.rglob("*") if closed == "all of it" else ():
            path.chmod(0o700 if path.is_dir() else 0o600)
        lab = machine.lab(GOOD)
        program = (sys.executable, "-P", "-c", "from netlab.cli.main import main; main()")
        environment = {"PYTHONPATH": str(folder)}
        sctp = ("--from", "client", "--packet", 'IP(dst="192.168.60.123")/SCTP(dport=80)/SCTPChunkInit()', "-o", "json")
        machine.run("walk", lab, *WALK, program=program, environment=environment, cwd=machine.work).done()
        machine.run("walk", lab, *sctp, program=program, environment=environment, cwd=machine.work).done(1)
        assert not list(machine.temporary.iterdir())
