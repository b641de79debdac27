"""Hundreds of random changes (thousands: ``./test tests/kernel/test_churn.py --changes 10000``), brought in a few at a
time: then the kernel holds what a proxy that starts now would make of the same objects, and the proxy has not grown."""

from __future__ import annotations

import gc
import time
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from netlab.kernel import iptables, netns, nft, rtnetlink
from netlab.kernel.netlink import NETLINK_ROUTE, NetlinkSocket
from netlab.model.keys import ObjectKey
from netlab.objects.ip import parse_ip
from netlab.objects.proxyconfig import KubeProxyConfiguration
from netlab.objects.service import Service
from netlab.objects.service_defaults import default_service
from netlab.proxy.changes import ServiceTracker
from netlab.proxy.family import Family
from netlab.proxy.modes import NodeFacts, make_proxiers
from netlab.proxy.nftables.listing import parse_listing
from netlab.proxy.nftables.names import TABLE
from netlab.proxy.topology import NodeTopology
from tests.conftest import run_in_sandbox
from tests.unit.proxy.build import NAMESPACE, endpoint_slice

pytestmark = pytest.mark.kernel
NAMES = [f"s{number}" for number in range(24)]
AT_ONCE = 5
"""Changes that are brought in together, at most."""
PATIENCE_S = 60.0
STALE_S = 1.1
"""mode nftables keeps empty chains for a second, in which packets may still be on their way through them."""
MOST_GROWTH_KIB = 8 * 1024
NODE_IP = parse_ip("192.168.50.11")
FACTS = NodeFacts("n1", [NODE_IP] if NODE_IP is not None else [], ["10.244.1.0/24"], ["10.96.0.0/16"])


class Cluster:
    """Objects that change at random, known to a tracker."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.tracker = ServiceTracker(Family.IPV4, NodeTopology("n1", "za"))
        self.services: dict[str, Service] = {}
        self.slices: dict[str, Any] = {}

    def change(self) -> None:
        name = self.random.choice(NAMES)
        there = name in self.services
        what = self.random.choice(["service", "endpoints", "endpoints", "gone"] if there else ["service"])
        if what == "service":
            self.services[name] = self._service(name)
            self.tracker.set_service(self.services[name])
        elif what == "endpoints":
            self.slices[name] = self._slice(name)
            self.tracker.set_slice(self.slices[name])
        else:
            del self.services[name]
            self.tracker.delete_service(ObjectKey("Service", NAMESPACE, name))
            if self.slices.pop(name, None) is not None and self.random.random() < 0.9:
                self.tracker.delete_slice(ObjectKey("EndpointSlice", NAMESPACE, name))

    def _service(self, name: str) -> Service:
        number, pick = NAMES.index(name), self.random.choice
        kind = pick(["ClusterIP", "NodePort", "LoadBalancer"])
        node_ports = kind != "ClusterIP"
        ports = [
            {
                "name": f"p{each}",
                "port": 80 + each,
                "protocol": pick(["TCP", "UDP", "SCTP"]),
                **({"nodePort": 30000 + 10 * number + each} if node_ports else {}),
            }
            for each in range(pick([1, 1, 2]))
        ]
        spec = {
            "type": kind,
            "clusterIP": f"10.96.0.{number + 1}",
            "ports": ports,
            "externalTrafficPolicy": pick(["Cluster", "Local"]) if node_ports else "",
            "internalTrafficPolicy": pick(["Cluster", "Cluster", "Local"]),
            "sessionAffinity": pick(["None", "None", "ClientIP"]),
            "externalIPs": pick([[], [], [f"203.0.113.{number + 1}"]]),
            "loadBalancerSourceRanges": pick([[], ["198.51.100.0/24"]]) if kind == "LoadBalancer" else [],
        }
        status = {"loadBalancer": {"ingress": pick([[], [{"ip": f"203.0.113.{100 + number}"}]])}}
        value = {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec, "status": status}
        default_service(value)
        return msgspec.convert(value, Service)

    def _slice(self, name: str) -> Any:
        endpoints = []
        for host in self.random.sample(range(2, 12), self.random.choice([0, 1, 1, 2, 4])):
            local = self.random.random() < 0.5
            ready = self.random.random() < 0.8
            conditions = {"ready": ready, "serving": ready or self.random.random() < 0.5, "terminating": not ready}
            address = f"10.244.{1 if local else 2}.{host}"
            endpoints.append({"addresses": [address], "nodeName": "n1" if local else "n2", "conditions": conditions})
        ports = [{"name": f"p{each}", "port": 8080, "protocol": p} for each in range(2) for p in ("TCP", "UDP", "SCTP")]
        return endpoint_slice(name, name, endpoints, ports)


def kernel_rules(mode: str) -> Any:
    """What the namespace holds, without the order of what has none."""
    if mode == "nftables":
        text = nft.list_table(Family.IPV4.nftables, TABLE, "n1")
        assert text is not None
        return parse_listing(text, Family.IPV4.nftables).table
    lines = [line for line in iptables.save(4, "n1").splitlines() if not line.startswith((":", "#"))]
    chains: dict[str, list[str]] = {}
    table = ""
    for line in lines:
        if line.startswith("*"):
            table = line
        elif line.startswith("-A"):
            chains.setdefault(f"{table} {line.split()[1]}", []).append(line)
    # Services have no order among each other.
    return {
        chain: sorted(rules) if "SERVICES" in chain or "NODEPORTS" in chain else rules
        for chain, rules in chains.items()
    }


def resident_kib() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4


def new_node(name: str) -> netns.NetNamespace:
    namespace = netns.create([name])[0]
    with namespace.entered(), NetlinkSocket(NETLINK_ROUTE) as links:
        links.run([rtnetlink.up(1, "lo")])
    return namespace


@pytest.mark.parametrize("mode", ["iptables", "nftables"])
def test_changes_end_where_a_fresh_start_does(mode: str, pytestconfig: pytest.Config) -> None:
    wanted = int(pytestconfig.getoption("changes"))
    config = KubeProxyConfiguration(mode=mode, cluster_cidr="10.244.0.0/16")

    def run() -> tuple[Any, Any, int]:
        cluster = Cluster(seed=wanted)
        with new_node("old").entered():
            proxier = make_proxiers(config, FACTS)[Family.IPV4]
            begin = done = 0
            while done < wanted:
                for _ in range(cluster.random.randint(1, AT_ONCE)):
                    cluster.change()
                    done += 1
                proxier.sync(cluster.tracker.take_changes(), cluster.tracker.ports)
                # By then there has been something of each kind.
                if not begin and done >= wanted // 3:
                    begin = resident_kib()
            grown = resident_kib() - begin
            time.sleep(STALE_S)
            cluster.change()
            proxier.sync(cluster.tracker.take_changes(), cluster.tracker.ports)
            time.sleep(STALE_S)
            proxier.sync({}, cluster.tracker.ports)
            left = kernel_rules(mode)
        fresh = ServiceTracker(Family.IPV4, NodeTopology("n1", "za"))
        for each in cluster.services.values():
            fresh.set_service(each)
        for each in cluster.slices.values():
            fresh.set_slice(each)
        with new_node("new").entered():
            other = make_proxiers(config, FACTS)[Family.IPV4]
            other.sync(fresh.take_changes(), fresh.ports)
            return left, kernel_rules(mode), grown

    left, fresh, grown = run_in_sandbox(run, PATIENCE_S + wanted / 10)
    assert left == fresh
    assert grown < MOST_GROWTH_KIB
