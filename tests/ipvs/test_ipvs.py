"""IPVS over netlink against a real kernel: what was asked for is there, and it balances."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from netlab.kernel import ipvs, netns, rtnetlink
from netlab.kernel.ipvs import RealServer, ServerAddress, Target, Timeouts, VirtualServer
from netlab.kernel.netlink import NETLINK_ROUTE, NetlinkError, NetlinkSocket
from netlab.model.errors import MachineCannot

pytestmark = [pytest.mark.kernel, pytest.mark.ipvs, pytest.mark.xdist_group("microvm")]

Sandbox = Callable[[Callable[[], Any]], Any]
SCHEDULERS = ("rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "mh", "sed", "nq")


def server(ip: str = "10.96.0.10", scheduler: str = "rr", protocol: str = "tcp") -> VirtualServer:
    return VirtualServer(ServerAddress(protocol, ip, 80), scheduler, 0, 0, 128 if ":" in ip else 32)


def test_the_kernel_has_it(sandbox: Sandbox) -> None:
    def use() -> str:
        assert ipvs.works()
        with ipvs.Ipvs() as kernel:
            return kernel.info().version

    assert sandbox(use) == "1.2.1"


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_schedulers(sandbox: Sandbox, scheduler: str) -> None:
    def use() -> list[str]:
        ipvs.check_usable(scheduler)
        with ipvs.Ipvs() as kernel:
            kernel.run([ipvs.new_server(server(scheduler=scheduler))])
            return [each.scheduler for each in kernel.servers()]

    assert sandbox(use) == [scheduler]


def test_an_unknown_scheduler(sandbox: Sandbox) -> None:
    def use() -> str:
        with pytest.raises(MachineCannot) as raised:
            ipvs.check_usable("nosuch")
        return raised.value.text.id

    assert sandbox(use) == ipvs.NO_SCHEDULER.id


@pytest.mark.parametrize("ip", ["10.96.0.10", "fd00:96::a"])
@pytest.mark.parametrize("protocol", ["tcp", "udp", "sctp"])
def test_a_server_and_its_real_servers(sandbox: Sandbox, ip: str, protocol: str) -> None:
    wanted = server(ip, protocol=protocol)
    targets = [Target("fd00:200::1" if ":" in ip else f"10.200.1.{number}", 8080 + number) for number in (1, 2)]

    def use() -> tuple[list[VirtualServer], dict[Target, RealServer], Any]:
        _loopback_up()
        with ipvs.Ipvs() as kernel:
            kernel.run([ipvs.new_server(wanted), *(ipvs.new_real(wanted.address, each, 3) for each in targets)])
            return kernel.servers(), kernel.reals(wanted.address), kernel.all_reals([wanted.address])

    servers, reals, table = sandbox(use)
    assert [each._replace(flags=0) for each in servers] == [wanted]
    assert reals == dict.fromkeys(targets, RealServer(3))
    assert table == {wanted.address: reals}


def test_a_long_table_beside_those_of_other_namespaces(sandbox: Sandbox) -> None:
    """The kernel's own table of them leaves some out then."""
    addresses = [ServerAddress("tcp", f"10.96.{number // 200}.{number % 200 + 1}", 80) for number in range(300)]
    target = Target("10.200.1.1", 8080)
    made = [server()._replace(address=each) for each in addresses]

    def fill(kernel: ipvs.Ipvs) -> None:
        _loopback_up()
        kernel.run(command for each in made for command in _with_real(each, target))

    def use() -> tuple[list[ServerAddress], int]:
        with ipvs.Ipvs() as kernel:
            fill(kernel)
            for namespace in netns.create(["one", "other"]):
                with namespace.entered(), ipvs.Ipvs() as elsewhere:
                    fill(elsewhere)
            found = kernel.all_reals(addresses)
            shown = len(ipvs.parse_table(Path("/proc/net/ip_vs").read_text()))
        return [each for each in addresses if target not in found[each]], shown

    missing, shown = sandbox(use)
    assert missing == []
    assert shown <= len(addresses)


def _with_real(each: VirtualServer, target: Target) -> list[ipvs.Command]:
    return [ipvs.new_server(each), ipvs.new_real(each.address, target, 1)]


def test_changes(sandbox: Sandbox) -> None:
    wanted, target = server(), Target("10.200.1.1", 8080)

    def use() -> list[Any]:
        _loopback_up()
        found: list[Any] = []
        with ipvs.Ipvs() as kernel:
            kernel.run([ipvs.new_server(wanted), ipvs.new_real(wanted.address, target, 1)])
            kernel.run([ipvs.set_server(wanted._replace(scheduler="sh", flags=ipvs.PERSISTENT, timeout=60))])
            kernel.run([ipvs.set_real(wanted.address, target, 0)])
            (changed,) = kernel.servers()
            found += [changed.scheduler, changed.flags & ipvs.PERSISTENT, changed.timeout]
            found.append(kernel.reals(wanted.address)[target].weight)
            kernel.run([ipvs.delete_real(wanted.address, target)])
            found.append(kernel.reals(wanted.address))
            kernel.run([ipvs.delete_server(wanted.address)])
            found.append(kernel.servers())
        return found

    assert sandbox(use) == ["sh", ipvs.PERSISTENT, 60, 0, {}, []]


def test_what_the_kernel_refuses(sandbox: Sandbox) -> None:
    def use() -> list[int]:
        codes = []
        with ipvs.Ipvs() as kernel:
            for commands in (
                [ipvs.new_server(server()), ipvs.new_server(server())],
                [ipvs.delete_server(server("10.96.0.99").address)],
                [ipvs.delete_real(server().address, Target("10.200.1.1", 1))],
            ):
                with pytest.raises(NetlinkError) as raised:
                    kernel.run(commands)
                codes.append(raised.value.errno or 0)
        return codes

    assert sandbox(use) == [errno.EEXIST, errno.ESRCH, errno.ENOENT]


def test_timeouts_and_namespaces(sandbox: Sandbox) -> None:
    """Each network namespace has its own table."""

    def use() -> Any:
        (other,) = netns.create(["other"])
        with ipvs.Ipvs() as kernel:
            kernel.run([ipvs.set_timeouts(Timeouts(901, 0, 301)), ipvs.new_server(server())])
            with other.entered(), ipvs.Ipvs() as elsewhere:
                return kernel.timeouts()[::2], len(kernel.servers()), elsewhere.servers()

    assert sandbox(use) == ((901, 301), 1, [])


def test_it_balances(sandbox: Sandbox) -> None:
    """Two listeners on the loopback link, reached in turn through a third address."""

    def use() -> list[str]:
        _loopback_up()
        address = ServerAddress("tcp", "127.0.0.99", 80)
        targets = [Target("127.0.0.2", 8080), Target("127.0.0.3", 8080)]
        listeners = [socket.create_server(each) for each in targets]
        for each in listeners:
            threading.Thread(target=_answer, args=(each,), daemon=True).start()
        with ipvs.Ipvs() as kernel:
            kernel.run([ipvs.new_server(VirtualServer(address, "rr", 0, 0, 32))])
            kernel.run(ipvs.new_real(address, each, 1) for each in targets)
        answers = []
        for _ in range(4):
            with socket.create_connection((address.ip, address.port), timeout=5) as connection:
                answers.append(connection.recv(100).decode())
        return answers

    answers = sandbox(use)
    assert sorted(answers[:2]) == ["127.0.0.2", "127.0.0.3"]
    assert answers[2:] == answers[:2]


def _answer(listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(str(connection.getsockname()[0]).encode())


def _loopback_up() -> None:
    """Without it, the kernel finds no way to any real server, and refuses them."""
    with NetlinkSocket(NETLINK_ROUTE) as links:
        links.run([rtnetlink.up(1, "set lo up")])
