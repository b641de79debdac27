"""kill -9, Ctrl-C and their like, at any moment, to any process of a lab. Nothing stays; whoever is left says so."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.command import Machine, Result, until
from tests.cli.processes import catches, holds_back, kill, processes, roles, the_process
from tests.conftest import NODEPORT

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("nothing_left")]

UP = ("up", NODEPORT)
TO_POD = ("--from", "client", "--to", "192.168.60.123:30080", "-o", "json")
INTO_THE_VOID = ("--from", "curl", "--to", "10.200.2.99:80", "--timeout", "60")
"""An address of node-b's Pods that no Pod has: for some seconds, nothing comes back."""
SYN_SENT = "02"
MOMENTS = 6
NOTHING = "no lab is running\n"
ENDED = "The engine has ended"


def moments(machine: Machine, *words: str | Path) -> Iterator[tuple[subprocess.Popen[bytes], float]]:
    """A command started again and again, and how many seconds to let it run, from none to all that it takes."""
    began = time.monotonic()
    whole = machine.start(*words)
    machine.result(whole)
    takes = time.monotonic() - began
    if "--detach" in words:
        machine.run("down").done()
    for number in range(MOMENTS):
        yield machine.start(*words), takes * number / MOMENTS


def let_run(command: subprocess.Popen[bytes], seconds: float) -> None:
    with suppress(subprocess.TimeoutExpired):
        command.wait(seconds)


def end(command: subprocess.Popen[bytes]) -> None:
    """kill -9."""
    command.kill()
    command.communicate()


def gone(machine: Machine) -> None:
    """Return when all of a lab has gone."""
    until(lambda: not roles(machine), "no process of the lab is left")
    assert machine.run("ls").out == NOTHING


def is_walking(machine: Machine) -> bool:
    """Whether the Pod curl is waiting for an answer to its first packet."""
    for pid in processes(machine, "pod curl"):
        with suppress(OSError):
            lines = Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
            if any(line.split()[3] == SYN_SENT for line in lines):
                return True
    return False


@pytest.fixture
def lab(machine: Machine) -> Iterator[subprocess.Popen[bytes]]:
    """A lab that is up, with its frontend."""
    command = machine.start(*UP)
    assert command.stdout is not None
    assert b"is up" in command.stdout.readline()
    yield command
    if command.poll() is None:
        command.terminate()
        assert machine.result(command).status == 0


class TestFrontendIsKilled:
    def test_during_up(self, machine: Machine) -> None:
        takes = timed(lambda: machine.run(*UP, "--detach").done())
        machine.run("down").done()
        for number in range(MOMENTS):
            command = machine.start(*UP)
            let_run(command, takes * number / MOMENTS)
            end(command)
            until(lambda: not roles(machine), "no process of the lab is left")
        gone(machine)

    def test_when_it_lets_go_of_the_lab(self, machine: Machine) -> None:
        for command, seconds in moments(machine, *UP, "--detach"):
            until(lambda: (machine.rendezvous / "nodeport.sock").exists(), "the lab has its name")
            let_run(command, seconds / 2)
            end(command)
            until(lambda: not roles(machine) or "iptables" in machine.run("ls").out, "it has gone, or it is up")
            if roles(machine):
                machine.run("down").done()
        gone(machine)

    def test_during_walk(self, machine: Machine) -> None:
        capture = machine.work / "walk.pcapng"
        for command, seconds in moments(machine, "walk", NODEPORT, *TO_POD, "--pcap", capture):
            capture.unlink(missing_ok=True)
            let_run(command, seconds)
            end(command)
            assert not capture.exists() or capture.stat().st_size > 0
        gone(machine)

    @pytest.mark.parametrize("role", ["engine", "pods", "proxies", "pod curl", "kube-proxy"])
    def test_when_a_process_appears(self, machine: Machine, role: str) -> None:
        command = machine.start(*UP)
        the_process(machine, role)
        end(command)
        gone(machine)

    @pytest.mark.parametrize("pattern", [".*.sock", "nodeport.sock"])
    def test_when_its_socket_appears(self, machine: Machine, pattern: str) -> None:
        command = machine.start(*UP)
        until(lambda: bool(list(machine.rendezvous.glob(pattern))), f"a socket {pattern}")
        end(command)
        gone(machine)

    def test_when_the_lab_is_up(self, machine: Machine, lab: subprocess.Popen[bytes]) -> None:
        end(lab)
        gone(machine)

    def test_the_lab_ends_with_its_last_frontend(self, machine: Machine, lab: subprocess.Popen[bytes]) -> None:
        walk = machine.start("walk", "nodeport", *INTO_THE_VOID[:-1], "3")
        until(lambda: is_walking(machine), "it is walking")
        end(lab)
        assert roles(machine)
        assert machine.result(walk).status == 1
        gone(machine)

    def test_in_the_middle_of_walks(self, machine: Machine, lab: subprocess.Popen[bytes]) -> None:
        walk = machine.start("walk", "nodeport", *INTO_THE_VOID)
        until(lambda: is_walking(machine), "it is walking")
        end(walk)
        machine.run("walk", "nodeport", *TO_POD).done()
        for command, seconds in moments(machine, "walk", "nodeport", *TO_POD):
            let_run(command, seconds)
            end(command)
        machine.run("walk", "nodeport", *TO_POD).done()


class TestEngineIsKilled:
    def test_before_its_sandbox_stands(self, machine: Machine) -> None:
        for number in range(MOMENTS):
            command = machine.start(*UP, "--detach")
            starter = the_process(machine, "starter")
            let_run(command, number * 0.01)
            with suppress(ProcessLookupError):
                os.kill(starter, signal.SIGKILL)
            result = machine.result(command)
            if result.status == 0:
                machine.run("down").done()
            else:
                said_the_end(result)

    def test_during_up(self, machine: Machine) -> None:
        takes = timed(lambda: machine.run(*UP, "--detach").done())
        machine.run("down").done()
        for number in range(MOMENTS // 2):
            command = machine.start(*UP)
            the_process(machine, "engine")
            let_run(command, takes * number / MOMENTS)
            kill(machine, "engine")
            said_the_end(machine.result(command))
        assert machine.run("ls").out == NOTHING

    def test_when_the_lab_is_up(self, machine: Machine, lab: subprocess.Popen[bytes]) -> None:
        kill(machine, "engine")
        said_the_end(machine.result(lab))
        assert machine.run("ls").out == NOTHING

    def test_when_the_lab_is_detached(self, machine: Machine) -> None:
        machine.run(*UP, "--detach").done()
        kill(machine, "engine")
        machine.run("walk", "nodeport", *TO_POD).said(2, 'no lab named "nodeport" is running')
        machine.run(*UP, "--detach").done()
        machine.run("down").done()

    def test_during_a_walk(self, machine: Machine, lab: subprocess.Popen[bytes]) -> None:
        walk = machine.start("walk", "nodeport", *INTO_THE_VOID)
        until(lambda: is_walking(machine), "it is walking")
        kill(machine, "engine")
        for command in (walk, lab):
            said_the_end(machine.result(command))

    def test_it_is_stopped_and_does_not_answer(self, machine: Machine, lab: subprocess.Popen[bytes]) -> None:
        os.kill(the_process(machine, "engine"), signal.SIGSTOP)
        assert "nodeport                 ?" in machine.run("ls").out
        machine.run(*UP, "--detach").said(2, 'a lab named "nodeport" is running')
        machine.run("down", "nodeport").done()
        said_the_end(machine.result(lab))


def timed(action: Callable[[], None]) -> float:
    began = time.monotonic()
    action()
    return time.monotonic() - began


def said_the_end(result: Result) -> None:
    assert result.status == 3, result
    assert ENDED in result.err
    assert len(result.err.splitlines()) == 1
    assert "Traceback" not in result.err


class TestPartOfTheLabIsKilled:
    @pytest.mark.parametrize("role", ["pods", "proxies", "kube-proxy", "pod web-1", "pod curl"])
    def test_during_up(self, machine: Machine, role: str) -> None:
        command = machine.start(*UP, "--detach")
        kill(machine, role)
        result = machine.result(command, 90)
        assert result.status in (0, 3), result
        assert "Traceback" not in result.err
        assert "fault of kube-netlab" not in result.err
        if result.status == 0:
            machine.run("down").done()
        else:
            assert len(result.err.splitlines()) == 1
        assert machine.run("ls").out == NOTHING

    @pytest.mark.parametrize(("role", "later"), [("proxies", "pod curl"), ("pods", "kube-proxy")])
    def test_a_fork_server_that_has_not_done_what_it_was_asked(self, machine: Machine, role: str, later: str) -> None:
        command = machine.start(*UP)
        server = the_process(machine, role)
        os.kill(server, signal.SIGSTOP)
        the_process(machine, later)
        os.kill(server, signal.SIGKILL)
        machine.result(command, 20).said(3, "fork server", "has ended; the lab cannot go on")

    @pytest.mark.parametrize(("role", "what"), [("pods", "Pods"), ("proxies", "kube-proxy")])
    def test_a_fork_server(self, machine: Machine, lab: subprocess.Popen[bytes], role: str, what: str) -> None:
        kill(machine, role)
        until(lambda: machine.run("walk", "nodeport", *TO_POD).status == 3, "the lab has noticed")
        machine.run("walk", "nodeport", *TO_POD).said(3, "fork server", what)

    def test_a_kube_proxy(self, machine: Machine, lab: subprocess.Popen[bytes]) -> None:
        kill(machine, "kube-proxy")
        until(lambda: not processes(machine, "kube-proxy"), "kube-proxy has gone, and is no zombie")
        machine.run("walk", "nodeport", *TO_POD).done()

    def test_a_pod(self, machine: Machine, lab: subprocess.Popen[bytes]) -> None:
        kill(machine, "pod web-1")
        until(lambda: not processes(machine, "pod web-1"), "the Pod has gone, and is no zombie")
        result = machine.run("walk", "nodeport", "--from", "client", "--to", "10.200.1.2:80", "-o", "json")
        assert result.status == 1
        assert json.loads(result.out)["verdict"] == "refused"


class TestSignals:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    def test_end_a_lab(self, machine: Machine, number: signal.Signals) -> None:
        command = machine.start(*UP)
        assert command.stdout is not None
        assert b"is up" in command.stdout.readline()
        command.send_signal(number)
        machine.result(command).done()
        assert not list(machine.rendezvous.glob("*"))
        assert not roles(machine)

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_at_any_moment_of_up(self, machine: Machine, number: signal.Signals) -> None:
        for command, seconds in moments(machine, *UP, "--detach"):
            ready(command)
            let_run(command, seconds)
            command.send_signal(number)
            result = machine.result(command)
            assert (result.status, result.err) in ((0, ""), (-number, ""), (128 + number, "interrupted\n")), result
            if result.status != 128 + number:
                assert "is up" in result.out
                machine.run("down").done()
            assert not list(machine.rendezvous.glob("*"))
            assert not roles(machine)

    def test_at_any_moment_of_walk(self, machine: Machine) -> None:
        capture = machine.work / "walk.pcapng"
        for command, seconds in moments(machine, "walk", NODEPORT, *TO_POD, "--pcap", capture):
            capture.unlink(missing_ok=True)
            ready(command)
            let_run(command, seconds)
            command.send_signal(signal.SIGTERM)
            result = machine.result(command)
            assert (result.status, result.err) in ((0, ""), (-signal.SIGTERM, ""), (143, "interrupted\n")), result
            assert capture.stat().st_size > 1000 if capture.exists() else result.status == 143

    @pytest.mark.parametrize("words", [("ls",), ("walk", NODEPORT, *TO_POD), ("rules", NODEPORT, "--node", "node-a")])
    def test_in_its_first_moments(self, machine: Machine, words: tuple[str | Path, ...]) -> None:
        """While it imports what it is made of; most of all then."""
        ended = set()
        for number in range(25):
            command = machine.start(*words)
            begun(command)
            let_run(command, number * 0.0025)
            command.send_signal(signal.SIGINT)
            result = machine.result(command)
            assert (result.status, result.err) in ((0, ""), (130, "interrupted\n")), result
            ended.add(result.status)
        assert 130 in ended
        assert not roles(machine)

    def test_more_than_one(self, machine: Machine) -> None:
        command = machine.start("walk", NODEPORT, *INTO_THE_VOID)
        the_process(machine, "pod curl")
        for _ in range(5):
            command.send_signal(signal.SIGINT)
            command.send_signal(signal.SIGTERM)
        result = machine.result(command)
        assert (result.status, result.err) == (130, "interrupted\n")

    def test_one_that_is_ignored(self, machine: Machine) -> None:
        command = machine.start(*UP, wrapper=("nohup",), stdin=subprocess.PIPE)
        until(lambda: (machine.rendezvous / "nodeport.sock").exists(), "the lab has its name")
        command.send_signal(signal.SIGHUP)
        until(lambda: "iptables" in machine.run("ls").out, "the lab is up")
        command.send_signal(signal.SIGTERM)
        assert machine.result(command).status == 0

    def test_interrupted_in_chinese(self, machine: Machine) -> None:
        command = machine.start("walk", NODEPORT, *INTO_THE_VOID, environment={"LANG": "zh_CN.UTF-8"})
        the_process(machine, "pod curl")
        command.send_signal(signal.SIGHUP)
        result = machine.result(command)
        assert (result.status, result.err) == (129, "已中断\n")


def begun(command: subprocess.Popen[bytes]) -> None:
    """Return when a command has come to its first statement."""
    until(lambda: holds_back(command.pid, signal.SIGINT) or command.poll() is not None, "its first statement")


def ready(command: subprocess.Popen[bytes]) -> None:
    """Return when a command has come so far that signals have it clean up."""
    until(lambda: catches(command.pid, signal.SIGTERM) or command.poll() is not None, "ready for signals")


class TestOneName:
    def test_two_at_the_same_time(self, machine: Machine) -> None:
        commands = [machine.start(*UP, "--detach") for _ in range(3)]
        results = [machine.result(command) for command in commands]
        assert sorted(result.status for result in results) == [0, 2, 2]
        for result in results:
            if result.status == 2:
                result.said(2, 'a lab named "nodeport" is running: choose another name with --name')
        machine.run("down").done()

    def test_different_names_at_the_same_time(self, machine: Machine) -> None:
        names = ["one", "two", "three"]
        commands = [machine.start(*UP, "--detach", "--name", name) for name in names]
        for command in commands:
            machine.result(command).done()
        ended = [machine.start("down", name) for name in names]
        for command in ended:
            machine.result(command).done()
        assert machine.run("ls").out == NOTHING

    def test_the_name_of_one_that_was_killed(self, machine: Machine) -> None:
        machine.run(*UP, "--detach").done()
        kill(machine, "engine")
        assert (machine.rendezvous / "nodeport.sock").exists()
        machine.run(*UP, "--detach").done()
        machine.run("down").done()
        assert not list(machine.rendezvous.glob("*"))

    def test_two_end_it_at_the_same_time(self, machine: Machine) -> None:
        machine.run(*UP, "--detach").done()
        commands = [machine.start("down", "nodeport") for _ in range(3)]
        results = [machine.result(command) for command in commands]
        assert 0 in [result.status for result in results]
        for result in results:
            assert result.status in (0, 2), result
            assert "Traceback" not in result.err

    def test_it_is_listed_while_it_comes_up(self, machine: Machine) -> None:
        command = machine.start(*UP, "--detach")
        until(lambda: (machine.rendezvous / "nodeport.sock").exists(), "the lab has its name")
        assert "nodeport" in machine.run("ls").out
        machine.result(command).done()
        machine.run("down").done()

    def test_it_is_ended_while_it_comes_up(self, machine: Machine) -> None:
        command = machine.start(*UP)
        until(lambda: (machine.rendezvous / "nodeport.sock").exists(), "the lab has its name")
        machine.run("down", "nodeport").done()
        assert machine.result(command).status in (0, 3)
        assert machine.run("ls").out == NOTHING
