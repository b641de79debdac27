from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netlab.objects.service_defaults import default_service


def defaulted(**spec: Any) -> dict[str, Any]:
    service: dict[str, Any] = {"metadata": {"name": "web"}, "spec": spec}
    default_service(service)
    result = service["spec"]
    assert isinstance(result, dict)
    return result


def test_the_least_service() -> None:
    assert defaulted(selector={"app": "x"}, ports=[{"port": 80}]) == {
        "type": "ClusterIP",
        "selector": {"app": "x"},
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        "sessionAffinity": "None",
        "internalTrafficPolicy": "Cluster",
    }


def test_empty_text_and_zero_are_the_same_as_nothing() -> None:
    spec = defaulted(type="", sessionAffinity="", ports=[{"port": 80, "protocol": "", "targetPort": 0}])
    assert spec == defaulted(ports=[{"port": 80}])
    assert defaulted(ports=[{"port": 80, "targetPort": ""}]) == spec


@pytest.mark.parametrize(
    ("spec", "policy"),
    [
        ({"type": "NodePort"}, "Cluster"),
        ({"type": "LoadBalancer"}, "Cluster"),
        ({"type": "ClusterIP", "externalIPs": ["203.0.113.1"]}, "Cluster"),
        ({"type": "NodePort", "externalTrafficPolicy": "Local"}, "Local"),
        ({"type": "ClusterIP"}, None),
        ({"type": "ExternalName", "externalIPs": ["203.0.113.1"]}, None),
    ],
)
def test_external_traffic_policy(spec: dict[str, Any], policy: str | None) -> None:
    assert defaulted(**spec).get("externalTrafficPolicy") == policy


def test_external_names_have_no_internal_traffic_policy() -> None:
    assert "internalTrafficPolicy" not in defaulted(type="ExternalName", externalName="a.test")


def test_load_balancers_get_node_ports_unless_told_otherwise() -> None:
    assert defaulted(type="LoadBalancer")["allocateLoadBalancerNodePorts"] is True
    assert defaulted(type="LoadBalancer", allocateLoadBalancerNodePorts=False)["allocateLoadBalancerNodePorts"] is False
    assert "allocateLoadBalancerNodePorts" not in defaulted(type="NodePort")


def test_affinity() -> None:
    three_hours = {"clientIP": {"timeoutSeconds": 10800}}
    assert defaulted(sessionAffinity="ClientIP")["sessionAffinityConfig"] == three_hours
    assert defaulted(sessionAffinity="ClientIP", sessionAffinityConfig={})["sessionAffinityConfig"] == three_hours
    own = {"clientIP": {"timeoutSeconds": 0}}
    assert defaulted(sessionAffinity="ClientIP", sessionAffinityConfig=own)["sessionAffinityConfig"] == own
    assert "sessionAffinityConfig" not in defaulted(sessionAffinity="None", sessionAffinityConfig=own)


def test_the_list_of_cluster_ips_follows_the_single_one() -> None:
    assert defaulted(clusterIP="10.96.0.7")["clusterIPs"] == ["10.96.0.7"]
    assert defaulted(clusterIP="10.96.0.7", clusterIPs=["10.96.0.8"])["clusterIPs"] == ["10.96.0.8"]
    assert "clusterIP" not in defaulted(clusterIPs=["10.96.0.7"])


def test_addresses_of_load_balancers_have_a_mode() -> None:
    ingress = [{"ip": "203.0.113.1"}, {"ip": "203.0.113.2", "ipMode": "Proxy"}, {"hostname": "lb.test"}]
    service: dict[str, Any] = {"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": ingress}}}
    default_service(service)
    assert [each.get("ipMode") for each in ingress] == ["VIP", "Proxy", None]


SPECS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["", "ClusterIP", "NodePort", "LoadBalancer", "ExternalName", "Odd"]),
        "clusterIP": st.sampled_from(["", "None", "10.96.0.7"]),
        "externalIPs": st.lists(st.just("203.0.113.1"), max_size=1),
        "sessionAffinity": st.sampled_from(["", "None", "ClientIP"]),
        "sessionAffinityConfig": st.sampled_from([{}, {"clientIP": {}}, {"clientIP": {"timeoutSeconds": 5}}]),
        "ports": st.lists(st.fixed_dictionaries({"port": st.integers(1, 9)}), max_size=2),
    },
)


@given(SPECS)
def test_defaulting_twice_changes_nothing(spec: dict[str, Any]) -> None:
    once = {"spec": copy.deepcopy(spec)}
    default_service(once)
    twice = copy.deepcopy(once)
    default_service(twice)
    assert twice == once
