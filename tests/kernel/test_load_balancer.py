"""The lab's load balancer on a real link: who answers for an address, and what a box passes on."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_interface
from typing import Any

import pytest

from netlab.kernel import iptables, netns, rtnetlink, sysctl
from netlab.kernel.netlink import NETLINK_ROUTE, NetlinkSocket
from netlab.model import jsonrpc
from netlab.model.balancer import Frontend
from netlab.model.records import ProxyConnection
from netlab.model.text import Text
from netlab.node import zygote
from netlab.node.balancer_box import BalancerBox
from netlab.node.balancing import HANDLERS, SPEAKER
from netlab.node.eventloop import READ, EventLoop
from netlab.node.http_server import HttpServer, Response
from netlab.node.l2_announcer import L2Announcer
from tests.kernel.pump import received, until

pytestmark = pytest.mark.kernel
Sandbox = Callable[[Callable[[], Any]], Any]

VIP, VIP6 = "192.168.60.240", "fd00:60::f0"
MACS = {"n1": "02:00:00:00:00:01", "n2": "02:00:00:00:00:02", "box": "02:00:00:00:00:03"}


class Link:
    """Hosts on one bridge, which is in the namespace "router" (192.168.60.254); host number n has 192.168.60.n."""

    def __init__(self) -> None:
        made = netns.create(["router", *MACS])
        self.namespaces = {each.name: each for each in made}
        with self.inside("router"), NetlinkSocket(NETLINK_ROUTE) as netlink:
            sysctl.write("net/ipv6/conf/default/accept_dad", 0)
            netlink.run([rtnetlink.up(1, "lo"), rtnetlink.bridge("br0", 2, "02:00:00:00:00:fe")])
        with NetlinkSocket(NETLINK_ROUTE) as netlink:
            for number, (name, mac) in enumerate(MACS.items(), 1):
                netlink.run(
                    [
                        rtnetlink.veth(
                            f"to{number}",
                            10 + number,
                            f"02:00:00:00:01:{number:02x}",
                            self.namespaces["router"].descriptor,
                            "eth0",
                            2,
                            mac,
                            self.namespaces[name].descriptor,
                        )
                    ]
                )
        with self.inside("router"), NetlinkSocket(NETLINK_ROUTE) as netlink:
            for number in range(1, len(MACS) + 1):
                netlink.run([rtnetlink.enslave(10 + number, 2, "port"), rtnetlink.up(10 + number, "port")])
            self._up(netlink, "192.168.60.254/24", "fd00:60::fe/64")
        for number, name in enumerate(MACS, 1):
            with self.inside(name), NetlinkSocket(NETLINK_ROUTE) as netlink:
                sysctl.write("net/ipv6/conf/all/accept_dad", 0)
                sysctl.write("net/ipv6/conf/eth0/accept_dad", 0)
                self._up(netlink, f"192.168.60.{number}/24", f"fd00:60::{number}/64")

    @staticmethod
    def _up(netlink: NetlinkSocket, *own: str) -> None:
        netlink.run([rtnetlink.up(1, "lo"), rtnetlink.up(2, "link")])
        netlink.run([rtnetlink.address(2, ip_interface(text), "link") for text in own])

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        with self.namespaces[name].entered():
            yield

    def serve(self, loop: EventLoop, name: str) -> None:
        """Take connections to the addresses at port 80 on a node, and say the node's name."""
        with self.inside(name):
            for family, text, prefix in ((4, VIP, 32), (6, VIP6, 128)):
                rule = f"-A PREROUTING -d {text}/{prefix} -p tcp -m tcp --dport 80 -j REDIRECT --to-ports 8080"
                iptables.restore(family, name, f"*nat\n{rule}\nCOMMIT\n")  # type: ignore[arg-type]
            listener = socket.create_server(("::", 8080), family=socket.AF_INET6, dualstack_ipv6=True)

        def accept(_: int) -> None:
            connection, client = listener.accept()
            connection.sendall(f"{name} {client[0].removeprefix('::ffff:')}".encode())
            connection.close()

        loop.watch(listener, READ, accept)

    def ask(self, loop: EventLoop, ip: str, port: int = 80) -> str:
        """What a server says to the router."""
        with self.inside("router"):
            client = socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET, socket.SOCK_STREAM)
        with client:
            client.setblocking(False)
            client.connect_ex((ip, port))
            poll = select.poll()
            poll.register(client, select.POLLOUT)
            until(loop, lambda: bool(poll.poll(0)))
            return received(loop, client, lambda _: False).decode()

    def announcer(self, loop: EventLoop, name: str) -> L2Announcer:
        with self.inside(name):
            return L2Announcer(loop, "eth0", MACS[name])


def test_a_node_answers_and_another_takes_over(sandbox: Sandbox) -> None:
    def run() -> list[str]:
        link, loop = Link(), EventLoop()
        for name in ("n1", "n2"):
            link.serve(loop, name)
        one, other = link.announcer(loop, "n1"), link.announcer(loop, "n2")
        heard = []
        one.set_addresses([VIP, VIP6])
        heard += [link.ask(loop, VIP), link.ask(loop, VIP6)]
        one.set_addresses([])
        other.set_addresses([VIP, VIP6])
        heard += [link.ask(loop, VIP), link.ask(loop, VIP6)]
        other.close()
        one.close()
        return heard

    assert sandbox(run) == ["n1 192.168.60.254", "n1 fd00:60::fe", "n2 192.168.60.254", "n2 fd00:60::fe"]


def test_nobody_answers_for_what_is_not_announced(sandbox: Sandbox) -> None:
    def run() -> tuple[int, list[bytes]]:
        link, loop = Link(), EventLoop()
        announcer = link.announcer(loop, "n1")
        announcer.set_addresses([VIP])
        with link.inside("router"):
            ears = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0806))
            ears.bind(("br0", 0x0806))
        ears.setblocking(False)
        router = bytes.fromhex("0200000000fe")
        for target in ("192.168.60.240", "192.168.60.241"):
            ask = b"\xff" * 6 + router + bytes.fromhex("08060001080006040001") + router
            ears.send(ask + socket.inet_aton("192.168.60.254") + bytes(6) + socket.inet_aton(target))
        frames: list[bytes] = []

        def hear() -> bool:
            while True:
                try:
                    frames.append(ears.recv(2048))
                except BlockingIOError:
                    return len(frames) > 0 and any(frame[:6] == router for frame in frames)

        until(loop, hear)
        return len(frames), [frame for frame in frames if frame[:6] == router]

    _, answers = sandbox(run)
    assert len(answers) == 1
    assert answers[0][20:22] == b"\0\2"
    assert answers[0][22:28] == bytes.fromhex("020000000001")
    assert answers[0][28:32] == socket.inet_aton(VIP)


def test_a_speaker_process_does_what_it_is_told(sandbox: Sandbox) -> None:
    def run() -> str:
        speakers = zygote.start("test-speakers", HANDLERS, lambda: None)
        link, loop = Link(), EventLoop()
        link.serve(loop, "n2")
        ours, theirs = socket.socketpair()
        given = {"interface": "eth0", "mac": MACS["n2"]}
        speakers.spawn(SPEAKER, given, [link.namespaces["n2"].descriptor, theirs.fileno()])
        theirs.close()
        ours.sendall(jsonrpc.request(1, "announce", {"addresses": [VIP]}))
        assert ours.recv(4096)
        said = link.ask(loop, VIP)
        ours.close()
        return said

    assert sandbox(run) == "n2 192.168.60.254"


def frontend(port: int = 80, protocol: str = "TCP") -> Frontend:
    backends = (("192.168.60.1", 8080), ("192.168.60.2", 8080))
    return Frontend("lab", "web", "http", protocol, VIP, port, backends, 31000, "/")


def test_a_box_spreads_over_nodes_that_are_healthy(sandbox: Sandbox) -> None:
    def run() -> dict[str, Any]:
        link, loop = Link(), EventLoop()
        status = {"n1": 200, "n2": 503}
        for name in status:
            link.serve(loop, name)
            with link.inside(name):
                HttpServer(loop, {"": lambda name=name: Response(status[name], "")}).listen("0.0.0.0", 31000)  # type: ignore[misc]
        records: list[ProxyConnection] = []
        complaints: list[Text] = []
        with link.inside("box"):
            with NetlinkSocket(NETLINK_ROUTE) as netlink:
                netlink.run([rtnetlink.address(2, ip_interface(f"{VIP}/24"), "eth0")])
            box = BalancerBox(loop, "lb", report=records.append, complain=complaints.append, check_s=0.05)
            box.set_frontends([frontend()])
            until(loop, lambda: len(box.healthy) == 1)
            found: dict[str, Any] = {"one": [link.ask(loop, VIP) for _ in range(3)]}
            status["n2"] = 200
            until(loop, lambda: len(box.healthy) == 2)
            found["two"] = sorted(link.ask(loop, VIP) for _ in range(4))
            status["n1"] = 503
            until(loop, lambda: len(box.healthy) == 1)
            found["other"] = link.ask(loop, VIP)
            status["n2"] = 503
            until(loop, lambda: not box.healthy)
            found["none"] = link.ask(loop, VIP)
            box.close()
        found["records"] = [(each.id, each.service_port, each.event) for each in records[:1]]
        found["failed"] = sum(each.event == "failed" for each in records)
        found["complaints"] = complaints
        found["open"] = len(os.listdir("/proc/self/fd"))
        return found

    found = sandbox(run)
    assert found["one"] == ["n1 192.168.60.3"] * 3
    assert found["two"] == ["n1 192.168.60.3"] * 2 + ["n2 192.168.60.3"] * 2
    assert found["other"] == "n2 192.168.60.3"
    assert found["none"] == ""
    assert found["failed"] == 1
    assert found["records"] == [("proxy:lb#1", "lab/web:http", "joined")]
    assert found["complaints"] == []
