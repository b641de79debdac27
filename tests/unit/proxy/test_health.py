"""kube-proxy's answers about its health: when they are 503, and their very words."""

from __future__ import annotations

import json

import msgspec

from netlab.model.keys import ObjectKey
from netlab.objects.node import Node
from netlab.proxy.family import Family
from netlab.proxy.health import (
    ProxyHealth,
    ServiceCheck,
    go_time,
    node_eligible,
    service_answer,
    service_checks,
)
from netlab.proxy.topology import NodeTopology
from tests.unit.proxy.build import NOT_READY, READY, endpoint_slice, service, tracker

S = 1_000_000_000
T0 = 1_700_000_000 * S
V4, V6 = Family.IPV4, Family.IPV6


def health() -> ProxyHealth:
    made = ProxyHealth(timeout=60.0)
    made.see_node(Node())
    return made


def test_healthy_while_it_starts() -> None:
    made = health()
    made.queued(V4, T0)
    assert made.healthy(T0 + 1000 * S)
    status, body = made.healthz(T0)
    assert status == 200
    assert json.loads(body) == {
        "lastUpdated": "2023-11-14T22:13:20Z",
        "currentTime": "2023-11-14T22:13:20Z",
        "nodeEligible": True,
        "healthy": True,
    }


def test_unhealthy_from_the_timeout_of_the_oldest_change_on() -> None:
    made = health()
    made.synced(V4, T0)
    made.queued(V4, T0 + 10 * S)
    made.queued(V4, T0 + 50 * S)
    assert made.healthy(T0 + 70 * S - 1)
    assert not made.healthy(T0 + 70 * S)
    made.synced(V4, T0 + 71 * S)
    assert made.healthy(T0 + 500 * S)


def test_one_family_that_hangs_makes_the_whole_unhealthy() -> None:
    made = health()
    made.synced(V4, T0)
    made.synced(V6, T0 + 2 * S)
    made.queued(V4, T0 + 1 * S)
    status, body = made.livez(T0 + 100 * S)
    assert status == 503
    assert json.loads(body) == {
        "lastUpdated": go_time(T0 + 2 * S),
        "currentTime": go_time(T0 + 100 * S),
        "healthy": False,
        "status": {
            "IPv4": {"lastUpdated": go_time(T0), "healthy": False},
            "IPv6": {"lastUpdated": go_time(T0 + 2 * S), "healthy": True},
        },
    }


def test_order_of_the_fields_is_that_of_the_real_one() -> None:
    made = health()
    made.synced(V6, T0)
    made.synced(V4, T0 + 120_000_000)
    assert made.healthz(T0 + S)[1] == (
        '{"lastUpdated":"2023-11-14T22:13:21Z","currentTime":"2023-11-14T22:13:21Z","nodeEligible":true,'
        '"healthy":true,"status":{"IPv4":{"lastUpdated":"2023-11-14T22:13:20.12Z","healthy":true},'
        '"IPv6":{"lastUpdated":"2023-11-14T22:13:20Z","healthy":true}}}'
    )


def test_a_node_about_to_go_fails_healthz_and_not_livez() -> None:
    made = health()
    made.synced(V4, T0)
    taints = [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]
    made.see_node(msgspec.convert({"spec": {"taints": taints}}, Node))
    assert made.healthz(T0)[0] == 503
    assert json.loads(made.healthz(T0)[1])["lastUpdated"] == go_time(T0)
    assert made.livez(T0)[0] == 200
    made.see_node(None)
    assert made.healthz(T0)[0] == 503


def test_deleted_node_is_not_eligible() -> None:
    assert node_eligible(Node())
    assert not node_eligible(msgspec.convert({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}}, Node))
    assert node_eligible(msgspec.convert({"spec": {"taints": [{"key": "other"}]}}, Node))


def test_go_times() -> None:
    assert go_time(0) == "0001-01-01T00:00:00Z"
    assert go_time(1_700_000_000_123_456_000) == "2023-11-14T22:13:20.123456Z"


LOCAL_LB = """
metadata: hc
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.9
  externalTrafficPolicy: Local
  healthCheckNodePort: 31900
  ports: [{name: h, port: 80, nodePort: 30080}, {name: s, port: 443, nodePort: 30443}]
"""
PORTS = [{"name": "h", "port": 8080, "protocol": "TCP"}, {"name": "s", "port": 8443, "protocol": "TCP"}]


def checks_on(node: str) -> dict[ObjectKey, ServiceCheck]:
    endpoints = [
        {"addresses": ["10.244.1.5"], "nodeName": "n1", "conditions": READY},
        {"addresses": ["10.244.1.6"], "nodeName": "n1", "conditions": READY},
        {"addresses": ["10.244.1.7"], "nodeName": "n1", "conditions": NOT_READY},
        {"addresses": ["10.244.2.7"], "nodeName": "n2", "conditions": READY},
    ]
    slices = [endpoint_slice("hc-1", "hc", endpoints, PORTS)]
    known = tracker([service(LOCAL_LB)], slices, NodeTopology(node))
    known.take_changes()
    return service_checks([known.ports])


def test_addresses_on_the_node_count_once_for_all_ports() -> None:
    key = ObjectKey("Service", "lab", "hc")
    assert checks_on("n1") == {key: ServiceCheck(31900, 2)}
    assert checks_on("n2") == {key: ServiceCheck(31900, 1)}
    assert checks_on("n3") == {key: ServiceCheck(31900, 0)}


def test_only_local_load_balancers_are_checked() -> None:
    other = service("{metadata: a, spec: {type: NodePort, clusterIP: 10.96.0.8, ports: [{port: 80}]}}")
    known = tracker([other], [], NodeTopology("n1"))
    known.take_changes()
    assert service_checks([known.ports]) == {}


def test_answer_of_a_check() -> None:
    status, body, headers = service_answer(ObjectKey("Service", "lab", "hc"), ServiceCheck(31900, 2), True)
    assert status == 200
    assert body == (
        '{\n\t"service": {\n\t\t"namespace": "lab",\n\t\t"name": "hc"\n\t},\n'
        '\t"localEndpoints": 2,\n\t"serviceProxyHealthy": true\n}'
    )
    assert headers == {
        "Content-Type": "application/json",
        "X-Content-Type-Options": "nosniff",
        "X-Load-Balancing-Endpoint-Weight": "2",
    }


def test_no_endpoints_or_a_sick_proxy_is_503() -> None:
    key = ObjectKey("Service", "lab", "hc")
    assert service_answer(key, ServiceCheck(31900, 0), True)[0] == 503
    status, body, _ = service_answer(key, ServiceCheck(31900, 3), False)
    assert status == 503
    assert json.loads(body)["serviceProxyHealthy"] is False
