"""The proxy's own servers, asked over real sockets."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from netlab.kernel import netns, rtnetlink
from netlab.kernel.netlink import NETLINK_ROUTE, NetlinkSocket
from netlab.model.keys import ObjectKey
from netlab.model.text import Text
from netlab.node.eventloop import EventLoop
from netlab.node.proxy_servers import ProxyServers
from netlab.objects.node import Node
from netlab.objects.proxyconfig import KubeProxyConfiguration
from netlab.proxy.family import Family
from netlab.proxy.health import ProxyHealth, ServiceCheck
from netlab.proxy.metrics import ProxyMetrics
from tests.kernel.pump import get, received

pytestmark = pytest.mark.kernel
Sandbox = Callable[[Callable[[], Any]], Any]

WEB = ObjectKey("Service", "lab", "web")


class Setting:
    """A namespace with loopback alone, and servers in it."""

    def __init__(self, **more: Any) -> None:
        self.namespace = netns.create(["node"])[0]
        self.inside = self.namespace.entered()
        self.inside.__enter__()
        with NetlinkSocket(NETLINK_ROUTE) as netlink:
            netlink.run([rtnetlink.up(1, "lo")])
        self.loop = EventLoop()
        self.health = ProxyHealth(60.0)
        self.health.see_node(Node())
        self.metrics = ProxyMetrics("nftables")
        self.complaints: list[Text] = []
        self.servers = ProxyServers(
            self.loop, "n1", "nftables", self.health, self.metrics, complain=self.complaints.append, **more
        )


def test_healthz_metrics_and_mode(sandbox: Sandbox) -> None:
    def run() -> dict[str, Any]:
        it = Setting()
        it.servers.start(KubeProxyConfiguration())
        it.health.synced(Family.IPV4, time.time_ns())
        return {
            "healthz": get(it.loop, "127.0.0.1", 10256, "/healthz"),
            "livez": get(it.loop, "::1", 10256, "/livez"),
            "head": get(it.loop, "127.0.0.1", 10256, "/healthz", "HEAD"),
            "mode": get(it.loop, "127.0.0.1", 10249, "/proxyMode"),
            "missing": get(it.loop, "127.0.0.1", 10249, "/nothing"),
            "metrics": get(it.loop, "127.0.0.1", 10249, "/metrics"),
            "complaints": it.complaints,
        }

    answers = sandbox(run)
    status, headers, body = answers["healthz"]
    assert (status, headers["content-type"], headers["x-content-type-options"]) == (200, "application/json", "nosniff")
    assert json.loads(body)["nodeEligible"] is True
    assert "nodeEligible" not in json.loads(answers["livez"][2])
    assert answers["head"][2] == ""
    assert int(answers["head"][1]["content-length"]) > 50
    assert answers["mode"][::2] == (200, "nftables")
    assert answers["missing"][0] == 404
    assert 'kubeproxy_proxy_healthz_total{code="200"} 2' in answers["metrics"][2].splitlines()
    assert answers["metrics"][1]["content-type"].startswith("text/plain; version=0.0.4")
    assert answers["complaints"] == []


def test_health_checks_come_change_and_go(sandbox: Sandbox) -> None:
    def run() -> dict[str, Any]:
        it = Setting()
        it.servers.set_checks({WEB: ServiceCheck(31900, 2)})
        found: dict[str, Any] = {"two": get(it.loop, "127.0.0.1", 31900, "/any/path?x")}
        it.servers.set_checks({WEB: ServiceCheck(31900, 0)})
        found["none"] = get(it.loop, "::1", 31900)
        it.servers.set_checks({WEB: ServiceCheck(31901, 1)})
        with socket.socket() as client:
            found["old"] = client.connect_ex(("127.0.0.1", 31900))
        found["moved"] = get(it.loop, "127.0.0.1", 31901)
        it.servers.set_checks({})
        with socket.socket() as client:
            found["gone"] = client.connect_ex(("127.0.0.1", 31901))
        return found

    found = sandbox(run)
    assert found["two"][0] == 200
    assert found["two"][1]["x-load-balancing-endpoint-weight"] == "2"
    assert json.loads(found["two"][2])["localEndpoints"] == 2
    assert found["none"][0] == 503
    assert found["none"][1]["x-load-balancing-endpoint-weight"] == "0"
    assert found["moved"][0] == 200
    assert found["old"] != 0
    assert found["gone"] != 0


def test_checks_listen_on_the_node_port_addresses_alone(sandbox: Sandbox) -> None:
    def run() -> tuple[int, int]:
        it = Setting(check_addresses=["127.0.0.2"])
        it.servers.set_checks({WEB: ServiceCheck(31900, 1)})
        with socket.socket() as client:
            elsewhere = client.connect_ex(("127.0.0.1", 31900))
        return get(it.loop, "127.0.0.2", 31900)[0], elsewhere

    status, elsewhere = sandbox(run)
    assert status == 200
    assert elsewhere != 0


def test_a_taken_port_is_told_and_tried_again(sandbox: Sandbox) -> None:
    def run() -> tuple[list[str], int]:
        it = Setting()
        with socket.socket() as other:
            other.bind(("127.0.0.1", 10249))
            other.listen()
            it.servers.start(KubeProxyConfiguration())
        due = it.loop.due()
        assert due is not None
        it.loop.clock = lambda: due
        it.loop.turn()
        return [str(each) for each in it.complaints], get(it.loop, "127.0.0.1", 10249, "/proxyMode")[0]

    complaints, status = sandbox(run)
    assert complaints == ["kube-proxy cannot serve metrics on 127.0.0.1:10249: Address already in use"]
    assert status == 200


def test_bad_and_many_clients_do_not_keep_others_out(sandbox: Sandbox) -> None:
    def run() -> tuple[bytes, bytes, bytes, int]:
        it = Setting()
        it.servers.start(KubeProxyConfiguration())
        idle = []
        for _ in range(300):
            idle.append(socket.create_connection(("127.0.0.1", 10249)))
            it.loop.turn()
        nonsense = socket.create_connection(("127.0.0.1", 10249))
        nonsense.sendall(b"\x16\x03\x01 nonsense\r\n\r\n")
        bad = received(it.loop, nonsense, lambda _: False)
        endless = socket.create_connection(("127.0.0.1", 10249))
        endless.sendall(b"x" * 70_000)
        too_long = received(it.loop, endless, lambda _: False)
        twice = socket.create_connection(("127.0.0.1", 10249))
        twice.sendall(b"GET /proxyMode HTTP/1.1\r\nHost: x\r\n\r\n" * 2)
        both = received(it.loop, twice, lambda data: data.count(b"nftables") == 2)
        return bad, too_long, both, get(it.loop, "127.0.0.1", 10249, "/proxyMode")[0]

    bad, too_long, both, status = sandbox(run)
    assert bad.startswith(b"HTTP/1.1 400 ")
    assert too_long.startswith(b"HTTP/1.1 431 ")
    assert both.count(b"HTTP/1.1 200 OK") == 2
    assert status == 200
