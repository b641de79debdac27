"""What a lab can see and touch of its host, and a Pod of its lab: next to nothing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import Machine
from tests.cli.processes import processes, roles, the_process
from tests.conftest import NODEPORT

pytestmark = [pytest.mark.kernel, pytest.mark.xdist_group("isolation")]

SETTINGS = (
    "kernel/panic",
    "kernel/printk",
    "kernel/core_pattern",
    "vm/swappiness",
    "vm/overcommit_memory",
    "fs/file-max",
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine with a lab on it."""
    machine = Machine(tmp_path_factory.mktemp("machine"))
    machine.run("up", NODEPORT, "--detach").done()
    yield machine
    machine.run("down").done()
    machine.close()


def inside(pid: int, script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script where a process is, as root of the lab."""
    command = [
        "nsenter",
        f"--target={pid}",
        "--user",
        "--mount",
        "--pid",
        "--net",
        "--ipc",
        "--uts",
        "sh",
        "-c",
        script,
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def links(pid: int) -> dict[str, str]:
    """What the descriptors of a process stand for."""
    folder = Path(f"/proc/{pid}/fd")
    return {name: os.readlink(folder / name) for name in os.listdir(folder)}


class TestLab:
    @pytest.mark.parametrize("setting", SETTINGS)
    def test_the_host_s_settings_are_out_of_reach(self, lab: Machine, setting: str) -> None:
        path = Path("/proc/sys") / setting
        before = path.read_text()
        result = inside(the_process(lab, "engine"), f"id -u; cat {path} > /dev/null; echo '{before.strip()}' > {path}")
        assert result.stdout.splitlines()[0] == "0"
        assert "Permission denied" in result.stderr or "Read-only" in result.stderr
        assert path.read_text() == before

    def test_nobody_in_it_is_root_of_the_host(self, lab: Machine) -> None:
        for pid in roles(lab):
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            owner = next(line.split()[1:] for line in lines if line.startswith("Uid:"))
            assert owner == [str(65534 if os.getuid() == 0 else os.getuid())] * 4

    def test_it_has_namespaces_of_its_own(self, lab: Machine) -> None:
        engine = the_process(lab, "engine")
        for kind in ("user", "mnt", "pid", "net", "ipc", "uts"):
            assert os.readlink(f"/proc/{engine}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}")

    def test_it_sees_its_own_processes_alone(self, lab: Machine) -> None:
        seen = inside(the_process(lab, "engine"), "ls /proc").stdout.split()
        assert 0 < sum(name.isdigit() for name in seen) < 30

    def test_its_links_are_not_the_host_s(self, lab: Machine) -> None:
        seen = inside(the_process(lab, "engine"), "cat /proc/net/dev").stdout
        assert "lo:" in seen
        assert len(seen.splitlines()) == 3


class TestPod:
    def test_its_file_system_is_empty_and_read_only(self, lab: Machine) -> None:
        pod = the_process(lab, "pod web-1")
        root = Path(f"/proc/{pod}/root")
        assert list(root.iterdir()) == []
        assert os.statvfs(root).f_flag & os.ST_RDONLY
        assert len(Path(f"/proc/{pod}/mountinfo").read_text().splitlines()) == 1
        assert os.readlink(f"/proc/{pod}/cwd") == "/"

    def test_it_is_the_first_process_of_its_own(self, lab: Machine) -> None:
        pods = [pid for pid, role in roles(lab).items() if role.startswith("pod ")]
        assert len(pods) == 4
        for kind in ("pid", "net", "ipc", "uts"):
            assert len({os.readlink(f"/proc/{pid}/ns/{kind}") for pid in pods}) == 4

    def test_it_holds_no_file_and_no_folder(self, lab: Machine) -> None:
        for pid, role in roles(lab).items():
            if role.startswith("pod "):
                held = [target for name, target in links(pid).items() if int(name) > 2]
                assert all(target.startswith(("socket:", "anon_inode:")) for target in held), held

    def test_it_gains_no_privileges(self, lab: Machine) -> None:
        assert "NoNewPrivs:\t1" in Path(f"/proc/{the_process(lab, 'pod web-1')}/status").read_text()


class TestOtherProcesses:
    def test_the_folder_of_sockets_is_the_engine_s_alone(self, lab: Machine) -> None:
        holders = {role for pid, role in roles(lab).items() if str(lab.rendezvous) in links(pid).values()}
        assert holders == {"engine"}

    def test_frontends_are_the_engine_s_alone(self, lab: Machine) -> None:
        held = links(the_process(lab, "engine"))
        for role in ("pods", "proxies"):
            others = {target for target in links(the_process(lab, role)).values() if target.startswith("socket:")}
            assert len(others) == 1
            assert not others & set(held.values())

    def test_every_node_has_a_kube_proxy_in_its_network(self, lab: Machine) -> None:
        found = processes(lab, "kube-proxy")
        assert len({os.readlink(f"/proc/{pid}/ns/net") for pid in found}) == 2
