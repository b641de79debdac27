"""A node with Pods behind it, each in a network namespace, routed over veth pairs: what proxies are tested with."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ipaddress import ip_interface, ip_network

from netlab.kernel import netns, rtnetlink, sysctl
from netlab.kernel.netlink import NETLINK_ROUTE, NetlinkSocket
from netlab.kernel.netns import NetNamespace

NODE_IP, NODE_IP6 = "192.168.50.11", "fd00:50::11"


class Wires:
    """Pod number n has 10.244.n.5 and fd00:10:244:n::5; the node's end of its wire has .1. The node has NODE_IP on the
    wire to a neighbour ("outside", 192.168.50.1), and sends Service addresses there."""

    def __init__(self, pods: Sequence[str]) -> None:
        self.pods = list(pods)
        made = netns.create(["node", "outside", *pods])
        self.namespaces: dict[str, NetNamespace] = {each.name: each for each in made}
        node = self.namespaces["node"].descriptor
        with NetlinkSocket(NETLINK_ROUTE) as netlink:
            for number, name in enumerate(["outside", *pods]):
                netlink.run(
                    [
                        rtnetlink.veth(
                            f"to{number}",
                            10 + number,
                            f"02:00:00:00:01:{number:02x}",
                            node,
                            "eth0",
                            2,
                            f"02:00:00:00:02:{number:02x}",
                            self.namespaces[name].descriptor,
                        )
                    ]
                )
        with self.inside("node"):
            sysctl.write("net/ipv4/ip_forward", 1)
            sysctl.write("net/ipv6/conf/all/forwarding", 1)
            wires = [("192.168.50.11/24", 10), (f"{NODE_IP6}/64", 10)]
            for number in range(1, len(pods) + 1):
                wires += [(f"10.244.{number}.1/24", 10 + number), (f"fd00:10:244:{number}::1/64", 10 + number)]
            self._configure(wires, "192.168.50.1", "fd00:50::1")
        with self.inside("outside"):
            self._configure([("192.168.50.1/24", 2), ("fd00:50::1/64", 2)], NODE_IP, NODE_IP6)
        for number, name in enumerate(pods, 1):
            with self.inside(name):
                own = [(f"10.244.{number}.5/24", 2), (f"fd00:10:244:{number}::5/64", 2)]
                self._configure(own, f"10.244.{number}.1", f"fd00:10:244:{number}::1")

    @staticmethod
    def _configure(addresses: Sequence[tuple[str, int]], gateway: str, gateway6: str) -> None:
        with NetlinkSocket(NETLINK_ROUTE) as netlink:
            netlink.run([rtnetlink.up(1, "lo")])
            netlink.run([rtnetlink.up(index, "link") for index in {index for _, index in addresses}])
            netlink.run([rtnetlink.address(index, ip_interface(text), "link") for text, index in addresses])
            netlink.run(
                [
                    rtnetlink.route(ip_network("0.0.0.0/0"), via=ip_interface(gateway).ip),
                    rtnetlink.route(ip_network("::/0"), via=ip_interface(gateway6).ip),
                ]
            )

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        with self.namespaces[name].entered():
            yield

    def ip(self, pod: str, version: int = 4) -> str:
        number = self.pods.index(pod) + 1
        return f"10.244.{number}.5" if version == 4 else f"fd00:10:244:{number}::5"

    def socket(self, place: str, kind: socket.SocketKind, version: int = 4) -> socket.socket:
        """A socket in a namespace; it stays there."""
        with self.inside(place):
            return socket.socket(socket.AF_INET if version == 4 else socket.AF_INET6, kind)
