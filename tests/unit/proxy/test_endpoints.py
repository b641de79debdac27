"""What a proxy makes of EndpointSlices (kubernetes/pkg/proxy/endpointslicecache.go)."""

from __future__ import annotations

from typing import Any

import pytest

from netlab.model.keys import ObjectKey
from netlab.proxy.endpoints import Endpoint, endpoints_of, service_of
from netlab.proxy.family import Family, join_host_port
from netlab.proxy.service_ports import ServicePortName
from tests.unit.proxy.build import DEAD, DRAINING, NOT_READY, READY, endpoint_slice

HTTP = {"name": "http", "protocol": "TCP", "port": 8080}
NAME = ServicePortName("lab", "web", "http", "TCP")


def found(*slices: Any, family: Family = Family.IPV4) -> tuple[Endpoint, ...]:
    return endpoints_of(slices, family, "node-a").get(NAME, ())


def one(**fields: Any) -> Endpoint:
    (endpoint,) = found(endpoint_slice("s", "web", [{"addresses": ["10.244.1.5"], **fields}], [HTTP]))
    return endpoint


@pytest.mark.parametrize(
    ("conditions", "ready", "serving", "terminating"),
    [
        ({}, True, True, False),
        ({"ready": True}, True, True, False),
        ({"ready": False}, False, True, False),
        ({"ready": False, "terminating": True}, False, True, True),
        ({"ready": None, "serving": None, "terminating": None}, True, True, False),
        (READY, True, True, False),
        (NOT_READY, False, False, False),
        (DRAINING, False, True, True),
        (DEAD, False, False, True),
    ],
)
def test_missing_conditions_count_as_ready_and_serving(
    conditions: dict[str, Any], ready: bool, serving: bool, terminating: bool
) -> None:
    endpoint = one(conditions=conditions)
    assert (endpoint.ready, endpoint.serving, endpoint.terminating) == (ready, serving, terminating)


@pytest.mark.parametrize(("node", "local"), [("node-a", True), ("node-b", False), (None, False), ("", False)])
def test_local_is_what_is_on_the_proxys_node(node: str | None, local: bool) -> None:
    assert one(nodeName=node).local is local


def test_hints_for_zones_and_nodes_are_sets_of_names() -> None:
    hints = {"forZones": [{"name": "east"}, {"name": "west"}], "forNodes": [{"name": "node-b"}]}
    endpoint = one(hints=hints)
    assert endpoint.zone_hints == {"east", "west"}
    assert endpoint.node_hints == {"node-b"}
    assert one(hints={}).zone_hints == one(hints=None).node_hints == frozenset()


def test_endpoints_stand_in_the_order_of_their_texts() -> None:
    addresses = ["10.244.1.9", "10.244.1.10", "10.244.1.1"]
    slices = [endpoint_slice(f"s{n}", "web", [{"addresses": [each]}], [HTTP]) for n, each in enumerate(addresses)]
    assert [each.text for each in found(*slices)] == ["10.244.1.10:8080", "10.244.1.1:8080", "10.244.1.9:8080"]


def test_only_the_first_address_of_an_endpoint_counts() -> None:
    value = endpoint_slice("s", "web", [{"addresses": ["10.244.1.5", "10.244.1.6"]}, {"addresses": []}], [HTTP])
    assert [each.ip for each in found(value)] == ["10.244.1.5"]


@pytest.mark.parametrize("port", [None, 0])
def test_a_port_without_a_number_is_passed_over(port: int | None) -> None:
    assert found(endpoint_slice("s", "web", [{"addresses": ["10.244.1.5"]}], [{**HTTP, "port": port}])) == ()


def test_port_name_and_protocol_default_to_nothing_and_tcp() -> None:
    value = endpoint_slice("s", "web", [{"addresses": ["10.244.1.5"]}], [{"port": 80}])
    assert list(endpoints_of([value], Family.IPV4, "node-a")) == [ServicePortName("lab", "web", "", "TCP")]


def test_each_family_sees_its_own_slices_only() -> None:
    four = endpoint_slice("s4", "web", [{"addresses": ["10.244.1.5"]}], [HTTP])
    six = endpoint_slice("s6", "web", [{"addresses": ["FD00::0005"]}], [HTTP], address_type="IPv6")
    names = endpoint_slice("s0", "web", [{"addresses": ["a.example"]}], [HTTP], address_type="FQDN")
    assert [each.text for each in found(four, six, names)] == ["10.244.1.5:8080"]
    assert [each.text for each in found(four, six, names, family=Family.IPV6)] == ["[fd00::5]:8080"]


def test_an_address_in_two_slices_counts_once_and_ready() -> None:
    entries = [{"addresses": ["10.244.1.5"], "conditions": each} for each in (NOT_READY, READY)]
    for order in (entries, entries[::-1]):
        slices = [endpoint_slice(f"s{n}", "web", [each], [HTTP]) for n, each in enumerate(order)]
        (endpoint,) = found(*slices)
        assert endpoint.ready


def test_of_two_entries_for_an_address_the_one_on_this_node_wins() -> None:
    here = {"addresses": ["10.244.1.5"], "nodeName": "node-a", "conditions": NOT_READY}
    there = {"addresses": ["10.244.1.5"], "nodeName": "node-b", "conditions": READY}
    for order in ((here, there), (there, here)):
        slices = [endpoint_slice(f"s{n}", "web", [each], [HTTP]) for n, each in enumerate(order)]
        (endpoint,) = found(*slices)
        assert endpoint.local


def test_one_address_with_two_ports_is_two_endpoints() -> None:
    slices = [
        endpoint_slice(f"s{port}", "web", [{"addresses": ["10.244.1.5"]}], [{**HTTP, "port": port}])
        for port in (8080, 9090)
    ]
    assert [each.port for each in found(*slices)] == [8080, 9090]


def test_the_cause_of_an_endpoint_is_its_place_in_its_slice() -> None:
    value = endpoint_slice("s", "web", [{"addresses": ["10.244.1.5"]}, {"addresses": ["10.244.1.6"]}], [HTTP])
    assert [(each.origin.object, each.origin.field) for each in found(value)] == [
        ("EndpointSlice lab/s", "endpoints[0].addresses[0]"),
        ("EndpointSlice lab/s", "endpoints[1].addresses[0]"),
    ]


@pytest.mark.parametrize(
    ("labels", "owner"),
    [
        ({}, ObjectKey("Service", "lab", "web")),
        ({"kubernetes.io/service-name": ""}, None),
        ({"service.kubernetes.io/headless": ""}, None),
        ({"service.kubernetes.io/service-proxy-name": "other"}, None),
    ],
)
def test_slices_of_nobody_of_headless_services_and_of_other_proxies_are_passed_over(
    labels: dict[str, str], owner: ObjectKey | None
) -> None:
    value = endpoint_slice("s", "web", [{"addresses": ["10.244.1.5"]}], [HTTP], labels=labels)
    assert service_of(value) == owner
    assert len(found(value)) == (owner is not None)


def test_host_and_port_join_as_go_joins_them() -> None:
    assert join_host_port("10.0.0.1", 80) == "10.0.0.1:80"
    assert join_host_port("fd00::1", 80) == "[fd00::1]:80"
