"""Labs in a microVM by the command: like any other; and when the guest dies or hangs, one message and nothing left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from netlab.kernel import ipvs
from netlab.microvm.start import NO_IPVS
from tests.cli.command import Machine, until
from tests.cli.leftovers import marked
from tests.cli.processes import the_process
from tests.conftest import NODEPORT, run_in_sandbox

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("nothing_left"), pytest.mark.xdist_group("microvm")]

TO_POD = ("--from", "client", "--to", "192.168.60.123:30080")
INTO_THE_VOID = ("--from", "curl", "--to", "10.200.2.99:80", "--timeout", "60")
NOTICED_S = 15.0


def qemu_of(machine: Machine) -> int:
    """The pid of the QEMU of a test's lab, as soon as there is one."""
    found: list[int] = []

    def is_there() -> bool:
        found[:] = [pid for pid in marked(machine.token) if name_of(pid).startswith("qemu")]
        return bool(found)

    until(is_there, "a process of QEMU")
    return found[0]


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""


def gone(machine: Machine) -> None:
    until(lambda: not list(marked(machine.token)), "no process of the lab is left")


@pytest.fixture
def lab(machine: Machine) -> Iterator[subprocess.Popen[bytes]]:
    """A lab in a microVM that is up, with its frontend."""
    command = machine.start("up", NODEPORT, "--vm")
    assert command.stdout is not None
    assert b"is up" in command.stdout.readline()
    yield command
    if command.poll() is None:
        command.terminate()
        assert machine.result(command).status == 0


class TestWalk:
    def test_it_is_a_walk_like_any_other(self, machine: Machine) -> None:
        capture = machine.work / "walk.pcapng"
        result = machine.run("walk", NODEPORT, *TO_POD, "--vm", "-o", "json", "--pcap", capture)
        result.done()
        walk = json.loads(result.out)
        here = json.loads(machine.run("walk", NODEPORT, *TO_POD, "-o", "json").out)
        assert walk["verdict"] == here["verdict"] == "answered"
        assert walk["gaps"] == []
        assert {step["hook"] for step in walk["steps"]} == {step["hook"] for step in here["steps"]}
        assert capture.stat().st_size > 1000

    def test_bad_input_is_told_as_ever(self, machine: Machine) -> None:
        machine.run("walk", machine.lab("kind: Nonsense\n"), *TO_POD, "--vm").said(2, "lab.yaml:1")

    def test_udp_and_crafted_packets(self, machine: Machine) -> None:
        """What the engine loads only when it is asked to."""
        packet = 'IP(dst="192.168.60.123")/TCP(dport=30080, flags="S")'
        result = machine.run("walk", NODEPORT, "--from", "client", "--packet", packet, "--vm", "-o", "json")
        assert json.loads(result.out)["steps"], result

    def test_a_running_lab_stays_where_it_is(self, machine: Machine, lab: subprocess.Popen[bytes]) -> None:
        machine.run("walk", "nodeport", *TO_POD, "--vm").said(2, "--vm", "nodeport")


class TestAutomatic:
    LAB = "".join(
        f"""apiVersion: v1
kind: Pod
metadata: {{name: web-{number}, labels: {{app: web}}}}
spec: {{containers: [{{name: web, image: nginx, ports: [{{containerPort: 80}}]}}]}}
---
"""
        for number in range(20)
    )
    SERVICE = """apiVersion: v1
kind: Service
metadata: {name: web}
spec: {clusterIP: 10.96.0.80, selector: {app: web}, ports: [{port: 80}]}
"""

    def test_where_the_kernel_has_no_ipvs(self, machine: Machine) -> None:
        """And it says so. The lab has more links than there are before kube-proxy makes its own."""
        lab = machine.lab(self.LAB + self.SERVICE)
        result = machine.run("walk", lab, "--from", "web-0", "--to", "10.96.0.80:80", "--mode", "ipvs", "-o", "json")
        result.done()
        walk = json.loads(result.out)
        assert (walk["mode"], walk["verdict"]) == ("ipvs", "answered")
        assert (NO_IPVS().en in result.err) == (not run_in_sandbox(ipvs.works))

    def test_where_a_lab_file_asks_for_it(self, machine: Machine) -> None:
        config = "---\napiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: ipvs\n"
        lab = machine.lab(self.SERVICE + config)
        result = machine.run("up", lab, "--detach", environment={"LANG": "zh_CN.UTF-8"})
        assert result.status == 0
        assert (NO_IPVS().zh in result.err) == (not run_in_sandbox(ipvs.works))
        assert json.loads(machine.run("ls", "-o", "json").out)[0]["mode"] == "ipvs"
        machine.run("down").done()


class TestUp:
    def test_detached(self, machine: Machine) -> None:
        machine.run("up", NODEPORT, "--vm", "--detach", "--name", "inside").done()
        listed = json.loads(machine.run("ls", "-o", "json").out)
        assert [each["name"] for each in listed] == ["inside"]
        results = [machine.start("walk", "inside", *TO_POD, "-o", "json") for _ in range(2)]
        assert [json.loads(machine.result(each).out)["verdict"] for each in results] == ["answered"] * 2
        machine.run("down", "inside").done()
        gone(machine)
        assert not machine.rendezvous.exists()

    def test_it_ends_with_its_frontend(self, machine: Machine, lab: subprocess.Popen[bytes]) -> None:
        lab.send_signal(signal.SIGINT)
        assert machine.result(lab).status == 0
        gone(machine)

    def test_two_labs(self, machine: Machine) -> None:
        """Guests of one snapshot draw numbers of their own: both links have other names."""
        for name in ("one", "two"):
            machine.run("up", NODEPORT, "--vm", "--detach", "--name", name).done()
        walks = [json.loads(machine.run("walk", each, *TO_POD, "-o", "json").out) for each in ("one", "two")]
        sources = [walk["steps"][0]["source"] for walk in walks]
        assert sources[0] != sources[1]
        for name in ("one", "two"):
            machine.run("down", name).done()


class TestEnds:
    def test_qemu_is_killed(self, machine: Machine, lab: subprocess.Popen[bytes]) -> None:
        began = time.monotonic()
        os.kill(qemu_of(machine), signal.SIGKILL)
        machine.result(lab).said(3, "The microVM has ended unexpectedly")
        assert time.monotonic() - began < 3
        gone(machine)

    def test_qemu_is_killed_during_a_walk(self, machine: Machine, lab: subprocess.Popen[bytes]) -> None:
        """Every frontend is told."""
        walk = machine.start("walk", "nodeport", *INTO_THE_VOID)
        with pytest.raises(subprocess.TimeoutExpired):
            walk.wait(1)
        os.kill(qemu_of(machine), signal.SIGKILL)
        machine.result(walk).said(3, "The microVM has ended unexpectedly")
        machine.result(lab).said(3, "The microVM has ended unexpectedly")

    def test_the_guest_hangs(self, machine: Machine, lab: subprocess.Popen[bytes]) -> None:
        began = time.monotonic()
        os.kill(qemu_of(machine), signal.SIGSTOP)
        machine.result(lab).said(3, "The microVM has not answered for")
        assert time.monotonic() - began < NOTICED_S
        gone(machine)

    def test_the_guest_hangs_when_the_lab_is_to_end(self, machine: Machine) -> None:
        machine.run("up", NODEPORT, "--vm", "--detach").done()
        os.kill(qemu_of(machine), signal.SIGSTOP)
        assert machine.run("down").status == 0
        gone(machine)

    def test_the_supervisor_is_killed(self, machine: Machine, lab: subprocess.Popen[bytes]) -> None:
        os.kill(the_process(machine, "engine"), signal.SIGKILL)
        machine.result(lab).said(3, "The engine has ended")
        gone(machine)

    def test_the_supervisor_is_asked_to_end(self, machine: Machine, lab: subprocess.Popen[bytes]) -> None:
        os.kill(the_process(machine, "engine"), signal.SIGTERM)
        assert machine.result(lab).status == 0
        gone(machine)

    def test_the_frontend_is_killed(self, machine: Machine, lab: subprocess.Popen[bytes]) -> None:
        lab.kill()
        lab.communicate()
        gone(machine)
        assert machine.run("ls").out == "no lab is running\n"

    @pytest.mark.parametrize("moment", [0.3, 0.6, 1.0])
    def test_the_frontend_is_killed_on_the_way_up(self, machine: Machine, moment: float) -> None:
        command = machine.start("walk", NODEPORT, *TO_POD, "--vm")
        try:
            command.wait(moment)
        except subprocess.TimeoutExpired:
            command.kill()
        command.communicate()
        gone(machine)

    def test_ctrl_c_as_soon_as_there_is_a_guest(self, machine: Machine) -> None:
        command = machine.start("walk", NODEPORT, *INTO_THE_VOID, "--vm")
        qemu_of(machine)
        command.send_signal(signal.SIGINT)
        result = machine.result(command)
        assert (result.status, result.err) == (130, "interrupted\n")
        gone(machine)


class TestMaking:
    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
    def test_it_is_interrupted(self, machine: Machine, number: signal.Signals) -> None:
        """What is left in the cache is removed by the next one; all processes have gone at once."""
        cache = machine.work / "cache"
        shared = kernel_packages()
        (cache / "kube-netlab" / "microvm").mkdir(parents=True)
        if shared is not None:
            (cache / "kube-netlab" / "microvm" / "kernel").symlink_to(shared)
        command = machine.start("walk", NODEPORT, *TO_POD, "--vm", environment={"XDG_CACHE_HOME": str(cache)})
        qemu_of(machine)
        command.send_signal(number)
        result = machine.result(command)
        assert "Traceback" not in result.err
        gone(machine)
        left = [path.name for path in (cache / "kube-netlab" / "microvm" / "guest").iterdir()]
        assert all(name.endswith(".part") for name in left)
        assert (number == signal.SIGKILL) == bool(left)

    def test_there_is_no_qemu(self, machine: Machine) -> None:
        result = machine.run("walk", NODEPORT, *TO_POD, "--vm", wrapper=without("qemu-system-x86_64"))
        result.said(3, "'apt install qemu-system-x86'")

    def test_there_is_no_kernel(self, machine: Machine) -> None:
        cache = machine.work / "cache"
        environment = {"XDG_CACHE_HOME": str(cache)}
        wrapper = without("apt-cache")
        result = machine.run("walk", NODEPORT, *TO_POD, "--vm", wrapper=wrapper, environment=environment)
        result.said(3, "Debian's kernel for clouds", "'apt install linux-image-cloud-amd64'", str(cache))

    def test_in_chinese(self, machine: Machine) -> None:
        environment = {"LANG": "zh_CN.UTF-8"}
        wrapper = without("qemu-system-x86_64")
        result = machine.run("walk", NODEPORT, *TO_POD, "--vm", wrapper=wrapper, environment=environment)
        result.said(3, "microVM 需要的程序没有安装", "'apt install qemu-system-x86'")

    def test_there_is_no_room(self, machine: Machine) -> None:
        environment = {"XDG_CACHE_HOME": "/proc/nowhere"}
        result = machine.run("walk", NODEPORT, *TO_POD, "--vm", environment=environment)
        result.said(3, "/proc/nowhere", "XDG_CACHE_HOME")


def kernel_packages() -> Path | None:
    from netlab.microvm.cache import default_folder

    folder = default_folder() / "kernel"
    return folder if folder.exists() else None


def without(program: str) -> list[str]:
    """The words that start a command where a program is not there: nothing is, in its place."""
    hide = f'for each in /usr/bin/{program} /usr/local/bin/{program}; do [ -e "$each" ] && '
    hide += 'mount --bind /dev/null "$each"; done; exec "$@"'
    return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", hide, "sh"]
