"""Frames, trace records and conntrack events of a small network, read as the lab reads them."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable
from ipaddress import ip_address, ip_interface, ip_network
from typing import Any, TypeVar

import pytest

from netlab.kernel import conntrack, iptables, netns, nfnetlink, nftables, rtnetlink
from netlab.kernel.capture import CaptureRing, frames
from netlab.kernel.conntrack import ConntrackSocket
from netlab.kernel.netlink import NETLINK_ROUTE, NetlinkError, NetlinkSocket
from netlab.kernel.netns import NetNamespace
from netlab.kernel.nftables import PacketMatch
from netlab.kernel.trace import TraceSocket

pytestmark = pytest.mark.kernel
T = TypeVar("T")
Sandbox = Callable[[Callable[[], T]], T]

TRANSLATE = """*nat
:LAB - [0:0]
-A OUTPUT -d 10.9.9.9 -p tcp -j LAB
-A LAB -p tcp -j DNAT --to-destination 10.0.0.2:81
-A POSTROUTING -j MASQUERADE --random-fully
COMMIT
"""


def pair() -> tuple[NetNamespace, NetNamespace]:
    """Two namespaces on one wire: 10.0.0.1 and 10.0.0.2."""
    left, right = netns.create(["left", "right"])
    with NetlinkSocket(NETLINK_ROUTE) as netlink:
        netlink.run(
            [
                rtnetlink.veth(
                    "eth0",
                    2,
                    "0a:58:0a:00:00:01",
                    left.descriptor,
                    "eth0",
                    2,
                    "0a:58:0a:00:00:02",
                    right.descriptor,
                )
            ]
        )
    for namespace, own in ((left, "10.0.0.1/24"), (right, "10.0.0.2/24")):
        with namespace.entered(), NetlinkSocket(NETLINK_ROUTE) as netlink, rtnetlink.generic_socket() as generic:
            netlink.run(
                [
                    rtnetlink.address(2, ip_interface(own), "eth0"),
                    rtnetlink.up(1, "lo"),
                    rtnetlink.up(2, "eth0"),
                    rtnetlink.route(
                        ip_network("0.0.0.0/0"), via=ip_address("10.0.0.2" if own[7] == "1" else "10.0.0.1")
                    ),
                ]
            )
            generic.run([rtnetlink.without_offloads(rtnetlink.ethtool_family(generic), 2, "eth0")])
    return left, right


def test_the_kernels_own_words_reach_an_error(sandbox: Sandbox[str]) -> None:
    def run() -> str:
        left, _ = pair()
        with left.entered(), NetlinkSocket(NETLINK_ROUTE) as netlink:
            try:
                netlink.run([rtnetlink.address(2, ip_interface("10.0.0.1/24"), "left/eth0")])
            except NetlinkError as error:
                return str(error)
        return "no error"

    words = sandbox(run)
    assert "give left/eth0 the address 10.0.0.1/24" in words
    assert "File exists" in words


def test_a_traced_packet_shows_its_rules_and_both_translations(sandbox: Sandbox[Any]) -> None:
    def run() -> Any:
        left, right = pair()
        with right.entered():
            listener = socket.create_server(("10.0.0.2", 81))
        with left.entered():
            control = nfnetlink.netfilter_socket()
            nftables.make_trace_table(control)
            traces, events = TraceSocket("left", str), ConntrackSocket("left")
            iptables.restore(4, "left", TRANSLATE)
            client = socket.socket()
            for option, value in ((19, 1), (20, 2), (21, 0x1234), (19, 0)):
                client.setsockopt(socket.IPPROTO_TCP, option, value)
        nftables.commit(control, nftables.tracing([PacketMatch(4, 6, 4, struct.pack("!I", 0x1234))]))
        client.connect(("10.9.9.9", 80))
        accepted, peer = listener.accept()
        accepted.close()
        rules = nftables.read_rule_set(control)
        return traces.read(), events.read(), peer, rules, client.getsockname()

    (records, trace_loss), (events, event_loss), peer, rules, own = sandbox(run)
    assert trace_loss is None
    assert event_loss is None
    handles = {(record.chain, record.handle) for record in records if record.table == "nat" and record.handle}
    assert handles == {
        (chain, handle)
        for (family, table, chain), numbers in rules.rules.items()
        for handle in numbers
        if (family, table) == ("ip", "nat")
    }
    headers = {record.chain: record.network[16:20] + record.transport[2:4] for record in records if record.network}
    assert headers["OUTPUT"] == socket.inet_aton("10.9.9.9") + struct.pack("!H", 80)
    assert headers["postrouting"] == socket.inet_aton("10.0.0.2") + struct.pack("!H", 81)
    new = events[0]
    assert new.event == "new"
    assert (new.original.source, new.original.source_port) == own
    assert (new.original.destination, new.original.destination_port) == ("10.9.9.9", 80)
    assert (new.reply.source, new.reply.source_port) == ("10.0.0.2", 81)
    assert (new.reply.destination, new.reply.destination_port) == peer
    assert {"SNAT", "DNAT"} <= set(new.status)


def test_only_the_marked_packet_is_traced(sandbox: Sandbox[int]) -> None:
    def run() -> int:
        left, right = pair()
        with right.entered():
            receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            receiver.bind(("10.0.0.2", 9))
        with left.entered():
            control = nfnetlink.netfilter_socket()
            nftables.make_trace_table(control)
            traces = TraceSocket("left", str)
            sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        nftables.commit(control, nftables.tracing([PacketMatch(4, 17, 8, b"marked")]))
        for payload in (b"other", b"marked", b"markedtoo", b"mark"):
            sender.sendto(payload, ("10.0.0.2", 9))
        marked = {record.packet for record in traces.read()[0]}
        nftables.commit(control, nftables.tracing([]))
        sender.sendto(b"marked", ("10.0.0.2", 9))
        assert traces.read()[0] == []
        return len(marked)

    assert sandbox(run) == 2


def test_conntrack_entries_are_listed_and_deleted(sandbox: Sandbox[Any]) -> None:
    def run() -> Any:
        left, right = pair()
        with right.entered():
            receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            receiver.bind(("10.0.0.2", 9))
        with left.entered():
            iptables.restore(4, "left", TRANSLATE)
            control = nfnetlink.netfilter_socket()
            sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sender.sendto(b"x", ("10.0.0.2", 9))
            entries = conntrack.list_entries(control, "left", 4)
            deleted = [conntrack.delete_entry(control, entry) for entry in entries]
            again = [conntrack.delete_entry(control, entry) for entry in entries]
            return entries, deleted, again, conntrack.list_entries(control, "left", 4)

    entries, deleted, again, left = sandbox(run)
    assert [(entry.protocol, entry.original.destination_port) for entry in entries] == [(17, 9)]
    assert deleted == [True]
    assert again == [False]
    assert left == []


def test_a_ring_holds_every_frame_of_a_burst_in_order(sandbox: Sandbox[Any]) -> None:
    count = 5000

    def run() -> Any:
        left, right = pair()
        rings = []
        for namespace in (left, right):
            with namespace.entered():
                rings.append(CaptureRing(64 * 1024, 32))
        for ring in rings:
            ring.open()
            ring.resume()
        with right.entered():
            receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            receiver.bind(("10.0.0.2", 9))
        with left.entered():
            sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for number in range(count):
            sender.sendto(struct.pack("!I", number), ("10.0.0.2", 9))
        result = []
        for ring in rings:
            blocks: list[bytes] = []
            deadline = time.monotonic() + 10
            while ring.outstanding() and time.monotonic() < deadline:
                select.select([ring.fileno()], [], [], 1)
                blocks += ring.take()
            seen = [raw for block in blocks for raw in frames(block) if raw.data[12:14] == b"\x08\x00"]
            numbers = [struct.unpack("!I", raw.data[42:46])[0] for raw in seen if raw.data[23] == 17]
            result.append((numbers, ring.dropped(), [raw.outgoing for raw in seen if raw.data[23] == 17], seen[0][2:]))
        return result

    (left_numbers, left_dropped, left_out, _), (right_numbers, right_dropped, right_out, first) = sandbox(run)
    assert left_dropped == right_dropped == 0
    assert left_numbers == right_numbers == list(range(count))
    assert all(left_out)
    assert not any(right_out)
    overheard, time_ns, length, data, complete = first
    assert not overheard
    assert abs(time_ns - time.time_ns()) < 60e9
    assert length == len(data)
    assert complete


def test_a_paused_ring_costs_and_holds_nothing(sandbox: Sandbox[Any]) -> None:
    def run() -> Any:
        left, _ = pair()
        with left.entered():
            ring = CaptureRing(64 * 1024, 4)
            ring.open()
            sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sender.sendto(b"before", ("10.0.0.2", 9))
            ring.resume()
            sender.sendto(b"within", ("10.0.0.2", 9))
            ring.pause()
            sender.sendto(b"after", ("10.0.0.2", 9))
        select.select([ring.fileno()], [], [], 5)
        return [raw.data[42:] for block in ring.take() for raw in frames(block) if raw.data[23:24] == b"\x11"]

    assert [data for data in sandbox(run) if data] == [b"within"]
