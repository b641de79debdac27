"""The lab's load balancer over time: who is told what when objects change."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from types import SimpleNamespace
from typing import Any, cast

import pytest

from netlab.cluster.store import Store
from netlab.lab.fabric import Fabric
from netlab.lab.load_balancing import BOX_PLACE, LoadBalancing, plan_load_balancer
from netlab.lab.plan import NodePlan, Wiring, plan_fabric
from netlab.model import jsonrpc
from netlab.model.keys import ObjectKey
from netlab.node.balancing import BOX, SPEAKER
from netlab.node.zygote import Zygote
from netlab.objects.labspec import LabLoadBalancer

POOL = "192.168.60.240/29"


class FakeZygote:
    """Remembers what was to be started, with the other end of each control connection."""

    def __init__(self) -> None:
        self.started: list[tuple[str, Mapping[str, Any], socket.socket]] = []

    def spawn(self, kind: str, given: Mapping[str, Any], descriptors: list[int]) -> int:
        self.started.append((kind, given, socket.socket(fileno=os.dup(descriptors[1]))))
        return len(self.started)


class FakeFabric:
    def __init__(self) -> None:
        self.namespaces = {
            name: SimpleNamespace(descriptor=0, name=name) for name in ("node-a", "node-b", BOX_PLACE, "router")
        }
        self.purposes: list[str] = []

    def run(self, place: str, requests: Any) -> None:
        self.purposes += [each.purpose for each in requests]


def service(name: str, **spec: Any) -> dict[str, Any]:
    base = {"type": "LoadBalancer", "clusterIP": "10.96.0.9", "ports": [{"port": 80, "nodePort": 30080}]}
    return {"kind": "Service", "metadata": {"namespace": "d", "name": name}, "spec": {**base, **spec}}


def endpoint_slice(name: str, *nodes: str) -> dict[str, Any]:
    endpoints = [{"addresses": ["10.244.1.5"], "nodeName": node, "conditions": {"ready": True}} for node in nodes]
    return {
        "kind": "EndpointSlice",
        "metadata": {"namespace": "d", "name": f"{name}-1", "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [{"port": 8080}],
    }


class World:
    def __init__(self, mode: str) -> None:
        self.store = Store()
        for number, name in enumerate(("node-a", "node-b"), 11):
            status = {"addresses": [{"type": "InternalIP", "address": f"192.168.60.{number}"}]}
            self.store.put({"kind": "Node", "metadata": {"name": name}, "status": status})
        plan = plan_load_balancer(LabLoadBalancer(mode=mode, pool=POOL), [])
        assert plan is not None
        nodes = [NodePlan(f"node-{x}", (ip_address(f"192.168.60.{n}"),), ()) for x, n in (("a", 11), ("b", 12))]
        declared = {"client": [ip_network("192.168.1.0/24")], "node": [ip_network("192.168.60.0/24")]}
        fabric = plan_fabric(nodes, (), cast("Any", declared), Wiring(), plan.box)
        self.zygote, self.fabric = FakeZygote(), FakeFabric()
        self.balancing = LoadBalancing(self.store, plan, cast("Zygote", self.zygote))
        self.store.watch(self.balancing.note)
        self.balancing.start(cast("Fabric", self.fabric), fabric.topology())

    def ingress(self, name: str) -> list[dict[str, str]]:
        value = self.store.get(ObjectKey("Service", "d", name))
        assert value is not None
        found: list[dict[str, str]] = value.get("status", {}).get("loadBalancer", {}).get("ingress", [])
        return found

    def __enter__(self) -> World:
        return self

    def __exit__(self, *exception: object) -> None:
        self.balancing.close()
        for _, _, connection in self.zygote.started:
            connection.close()

    def told(self) -> list[Any]:
        """What each process has been told since the last call."""
        found: list[Any] = []
        for _, _, connection in self.zygote.started:
            try:
                data = connection.recv(65536, socket.MSG_DONTWAIT)
            except BlockingIOError:
                found.append(None)
                continue
            found.append(jsonrpc.decode(data.splitlines()[-1]).params)
        return found


def test_a_service_that_comes_moves_and_goes() -> None:
    with World("l2") as world:
        assert world.zygote.started == []
        world.store.put(service("web", externalTrafficPolicy="Local"))
        world.store.put(endpoint_slice("web", "node-b"))
        world.balancing.reconcile()
        assert world.ingress("web") == [{"ip": "192.168.60.240", "ipMode": "VIP"}]
        kind, given, _ = world.zygote.started[0]
        assert (kind, given["interface"]) == (SPEAKER, "eth0")
        assert given["mac"].startswith("0a:58:c0:a8:3c:0c")
        assert world.told() == [{"addresses": ["192.168.60.240"]}]
        world.balancing.reconcile()
        assert world.told() == [None]
        world.store.put(endpoint_slice("web", "node-a"))
        world.balancing.reconcile()
        assert world.told() == [{"addresses": []}, {"addresses": ["192.168.60.240"]}]
        world.store.delete(ObjectKey("Service", "d", "web"))
        world.balancing.reconcile()
        assert world.told() == [None, {"addresses": []}]


def test_an_address_that_is_given_up_is_given_to_the_next() -> None:
    with World("l2") as world:
        world.store.put(service("a"))
        world.balancing.reconcile()
        world.store.put({**(world.store.get(ObjectKey("Service", "d", "a")) or {}), "spec": {"type": "ClusterIP"}})
        world.store.put(service("b"))
        world.balancing.reconcile()
        assert world.ingress("a") == []
        assert world.ingress("b") == [{"ip": "192.168.60.240", "ipMode": "VIP"}]


def test_a_box_gets_addresses_once_and_is_told_of_changes() -> None:
    with World("proxy") as world:
        world.store.put(service("web"))
        world.balancing.reconcile()
        assert world.zygote.started[0][0] == BOX
        assert world.fabric.purposes == [f"give {BOX_PLACE}/eth0 the address 192.168.60.240/32"]
        (told,) = [each for each in world.told() if each is not None]
        assert [(each["ip"], each["port"], each["check_port"]) for each in told["frontends"]] == [
            ("192.168.60.240", 80, 10256)
        ]
        assert told["frontends"][0]["backends"] == [["192.168.60.11", 30080], ["192.168.60.12", 30080]]
        world.store.delete(ObjectKey("Node", "", "node-b"))
        world.balancing.reconcile()
        assert world.told()[0]["frontends"][0]["backends"] == [["192.168.60.11", 30080]]
        assert len(world.fabric.purposes) == 1
        assert world.ingress("web") == [{"ip": "192.168.60.240", "ipMode": "Proxy"}]


@pytest.mark.parametrize(
    ("taken", "own"), [([], "192.168.60.247"), (["192.168.60.247", "192.168.60.246"], "192.168.60.245")]
)
def test_the_box_has_the_last_free_address_of_the_pool(taken: list[str], own: str) -> None:
    plan = plan_load_balancer(LabLoadBalancer(mode="proxy", pool=POOL), map(ip_address, taken))
    assert plan is not None
    assert plan.box is not None
    assert [str(each) for each in plan.box.addresses] == [own]


def test_mode_none() -> None:
    assert plan_load_balancer(LabLoadBalancer(pool=POOL), []) is None
