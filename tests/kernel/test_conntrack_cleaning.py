"""Stale entries go from the kernel's table, and nothing else does; settings are made where a namespace may."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from netlab.kernel import conntrack, iptables, nfnetlink, sysctl
from netlab.model.records import ConntrackRecord
from netlab.objects.proxyconfig import Conntrack
from netlab.proxy import conntrack_settings
from netlab.proxy.conntrack import ConntrackCleaner
from netlab.proxy.family import Family
from netlab.proxy.topology import NodeTopology
from tests.kernel.wires import NODE_IP, Wires
from tests.unit.proxy.build import READY, endpoint_slice, service, tracker

pytestmark = pytest.mark.kernel
Sandbox = Callable[[Callable[[], Any]], Any]

RULES = """*nat
-A PREROUTING -d 10.96.0.57/32 -p udp -m udp --dport 5353 -j DNAT --to-destination 10.244.2.5:8080
-A PREROUTING -p udp -m udp --dport 30253 -j DNAT --to-destination 10.244.2.5:8080
-A PREROUTING -d 10.96.0.57/32 -p tcp -m tcp --dport 5353 -j DNAT --to-destination 10.244.2.5:8080
COMMIT
"""
SERVICES = [
    "{metadata: u, spec: {clusterIP: 10.96.0.57, ports: [{protocol: UDP, port: 5353, nodePort: 30253}]}}",
    "{metadata: v, spec: {clusterIP: 10.96.0.58, ports: [{protocol: UDP, port: 5353}]}}",
]


def entries(protocol: int | None = None) -> list[ConntrackRecord]:
    with nfnetlink.netfilter_socket() as netlink:
        return conntrack.list_entries(netlink, "n1", 4, protocol=protocol)


def test_only_what_is_stale_goes(sandbox: Sandbox) -> None:
    def run() -> tuple[list[str], list[str], int, set[int]]:
        wires = Wires(["client", "a", "b"])
        with wires.inside("node"):
            iptables.restore(4, "n1", RULES)
            client = wires.socket("client", socket.SOCK_DGRAM)
            for address, port in (
                ("10.96.0.57", 5353),
                (NODE_IP, 30253),
                ("10.96.0.58", 5353),
                ("192.168.50.1", 30253),
                ("10.244.3.5", 8080),
            ):
                client.sendto(b"x", (address, port))
            server = wires.socket("a", socket.SOCK_STREAM)
            server.bind(("", 8080))
            server.listen()
            stream = wires.socket("client", socket.SOCK_STREAM)
            stream.setblocking(False)
            stream.connect_ex(("10.96.0.57", 5353))
            endpoints = [{"addresses": ["10.244.3.5"], "conditions": READY}]
            slices = [endpoint_slice("u-1", "u", endpoints, [{"port": 8080, "protocol": "UDP"}])]
            known = tracker([service(text) for text in SERVICES], slices, NodeTopology("n1"))
            cleaner = ConntrackCleaner(Family.IPV4, "n1")
            assert cleaner.required(known.take_changes())
            of_udp = {each.protocol for each in entries(17)}
            everything = len(entries())
            gone = cleaner.clean(known.ports)
            text = "{0.destination}:{0.destination_port}".format
            return (
                sorted(text(each.original) for each in gone),
                sorted(f"{each.protocol} {text(each.original)}" for each in entries()),
                everything,
                of_udp,
            )

    gone, left, everything, of_udp = sandbox(run)
    # The neighbour's own port 30253 has the number of the nodePort: the rules catch it, and the real one's cleaner too.
    assert gone == ["10.96.0.57:5353", "192.168.50.11:30253", "192.168.50.1:30253"]
    assert left == ["17 10.244.3.5:8080", "17 10.96.0.58:5353", "6 10.96.0.57:5353"]
    assert everything == 6
    assert of_udp == {17}


def test_settings_in_a_namespace(sandbox: Sandbox) -> None:
    def run() -> tuple[list[str], dict[str, str]]:
        wires = Wires([])
        with wires.inside("node"):
            iptables.restore(4, "n1", RULES)
            config = msgspec.convert({"tcpBeLiberal": True, "udpTimeout": "7s", "maxPerCore": 777}, Conntrack)
            refused = conntrack_settings.apply(conntrack_settings.settings_of(config, 1000), "n1")
            names = ("tcp_be_liberal", "udp_timeout", "tcp_timeout_established", "tcp_timeout_close_wait")
            return [each.en for each in refused], {
                name: sysctl.read(f"net/netfilter/nf_conntrack_{name}") for name in names
            }

    refused, values = sandbox(run)
    assert len(refused) == 1
    assert refused[0].startswith("conntrack.maxPerCore: net.netfilter.nf_conntrack_max stays ")
    assert values == {
        "tcp_be_liberal": "1",
        "udp_timeout": "7",
        "tcp_timeout_established": "86400",
        "tcp_timeout_close_wait": "3600",
    }
