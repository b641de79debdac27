"""Which endpoints a node uses (kubernetes/pkg/proxy/topology.go; KEP-1669, KEP-2086, KEP-4444)."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netlab.model.keys import Origin
from netlab.proxy.endpoints import Endpoint
from netlab.proxy.family import Family
from netlab.proxy.service_ports import ServicePort, service_ports
from netlab.proxy.topology import NodeTopology, UsableEndpoints, usable_endpoints
from tests.unit.proxy.build import service

NODE = NodeTopology("node-a", "east")


def port(text: str = "") -> ServicePort:
    (made,) = service_ports(
        service(f"{{metadata: web, spec: {{clusterIP: 10.96.0.5, ports: [{{port: 80, nodePort: 30080}}], {text}}}}}"),
        Family.IPV4,
    )
    return made


PLAIN = port("type: NodePort")
INTERNAL_LOCAL = port("type: NodePort, internalTrafficPolicy: Local")
EXTERNAL_LOCAL = port("type: NodePort, externalTrafficPolicy: Local")
BOTH_LOCAL = port("type: NodePort, externalTrafficPolicy: Local, internalTrafficPolicy: Local")
(INTERNAL_ONLY,) = service_ports(
    service("{metadata: web, spec: {clusterIP: 10.96.0.5, ports: [{port: 80}], internalTrafficPolicy: Local}}"),
    Family.IPV4,
)

STATES = {
    "ready": (True, True, False),
    "notready": (False, False, False),
    "draining": (False, True, True),
    "dead": (False, False, True),
    "published": (True, True, True),
}


def endpoint(number: int, state: str = "ready", *, local: bool = False, zones: str = "", nodes: str = "") -> Endpoint:
    ready, serving, terminating = STATES[state]
    return Endpoint(
        ip=f"10.244.1.{number}",
        port=8080,
        local=local,
        ready=ready,
        serving=serving,
        terminating=terminating,
        zone_hints=frozenset(zones.split()),
        node_hints=frozenset(nodes.split()),
        origin=Origin("EndpointSlice lab/s", ""),
    )


def numbers(endpoints: tuple[Endpoint, ...]) -> list[int]:
    return [int(each.ip.rpartition(".")[2]) for each in endpoints]


def used(*endpoints: Endpoint, at: NodeTopology = NODE, by: ServicePort = PLAIN) -> UsableEndpoints:
    return usable_endpoints(endpoints, by, at)


@pytest.mark.parametrize(
    ("hints", "node", "expected"),
    [
        ([("east", ""), ("west", "")], NODE, [0]),
        ([("east", ""), ("west", "")], NodeTopology("node-z", "west"), [1]),
        ([("east west", ""), ("west", "")], NODE, [0]),
        ([("east", ""), ("", "")], NODE, [0, 1]),
        ([("west", ""), ("west", "")], NODE, [0, 1]),
        ([("east", ""), ("west", "")], NodeTopology("node-a", ""), [0, 1]),
        ([("east", "node-b"), ("east", "node-a")], NODE, [1]),
        ([("east", "node-b"), ("west", "node-c")], NODE, [0]),
        ([("west", "node-b"), ("west", "node-c")], NODE, [0, 1]),
        ([("east", ""), ("west", "node-a")], NODE, [0]),
        ([("", "node-a"), ("", "node-b")], NODE, [0]),
        ([("", "node-b"), ("", "node-c")], NODE, [0, 1]),
    ],
)
def test_hints_bind_only_where_all_ready_endpoints_have_one_and_one_is_for_here(
    hints: list[tuple[str, str]], node: NodeTopology, expected: list[int]
) -> None:
    endpoints = [endpoint(n, zones=zones, nodes=nodes) for n, (zones, nodes) in enumerate(hints)]
    assert numbers(used(*endpoints, at=node).cluster) == expected


@pytest.mark.parametrize("state", ["notready", "draining", "dead"])
def test_hints_of_endpoints_that_are_not_ready_do_not_count(state: str) -> None:
    assert numbers(used(endpoint(0, zones="west"), endpoint(1, state, zones="east")).cluster) == [0]
    assert numbers(used(endpoint(0, zones="east"), endpoint(1, state)).cluster) == [0]


def test_terminating_endpoints_serve_only_where_no_other_is_ready() -> None:
    assert numbers(used(endpoint(0, "draining"), endpoint(1)).cluster) == [1]
    assert numbers(used(endpoint(0, "draining"), endpoint(1, "dead"), endpoint(2, "notready")).cluster) == [0]
    nobody = used(endpoint(0, "dead"), endpoint(1, "notready"))
    assert nobody == UsableEndpoints((), (), (), False)


def test_a_terminating_endpoint_that_is_published_is_ready() -> None:
    assert numbers(used(endpoint(0, "published"), endpoint(1, "draining")).cluster) == [0]


def test_policy_local_looks_at_this_node_alone_but_knows_of_others() -> None:
    found = used(endpoint(0), endpoint(1, local=True), by=EXTERNAL_LOCAL)
    assert (numbers(found.cluster), numbers(found.local)) == ([0, 1], [1])
    elsewhere = used(endpoint(0), by=INTERNAL_ONLY)
    assert elsewhere == UsableEndpoints((), (), (), True)
    draining = used(endpoint(0, "draining"), by=INTERNAL_ONLY)
    assert draining.anywhere


def test_policy_local_takes_draining_ones_here_before_ready_ones_elsewhere() -> None:
    found = used(endpoint(0), endpoint(1, "draining", local=True), by=BOTH_LOCAL)
    assert (numbers(found.cluster), numbers(found.local), numbers(found.reachable)) == ([0], [1], [0, 1])


def test_hints_do_not_bind_policy_local() -> None:
    found = used(endpoint(0, zones="east"), endpoint(1, local=True, zones="west"), by=EXTERNAL_LOCAL)
    assert (numbers(found.cluster), numbers(found.local), numbers(found.reachable)) == ([0], [1], [0, 1])


def test_a_service_port_that_only_uses_local_endpoints_does_not_reach_others() -> None:
    found = used(endpoint(0), endpoint(1, local=True), by=INTERNAL_ONLY)
    assert (found.cluster, numbers(found.local), numbers(found.reachable)) == ((), [1], [1])


@pytest.mark.parametrize(
    ("by", "cluster", "local"),
    [
        (PLAIN, True, False),
        (INTERNAL_LOCAL, True, True),
        (EXTERNAL_LOCAL, True, True),
        (BOTH_LOCAL, True, True),
        (INTERNAL_ONLY, False, True),
    ],
)
def test_policies_decide_which_endpoints_are_worked_out(by: ServicePort, cluster: bool, local: bool) -> None:
    found = used(endpoint(1, local=True), by=by)
    assert (bool(found.cluster), bool(found.local)) == (cluster, local)


endpoints = st.lists(
    st.builds(
        endpoint,
        st.integers(0, 250),
        st.sampled_from(list(STATES)),
        local=st.booleans(),
        zones=st.sampled_from(["", "east", "west", "east west"]),
        nodes=st.sampled_from(["", "node-a", "node-b"]),
    ),
    max_size=6,
    unique_by=lambda each: each.ip,
)
ports = st.sampled_from([PLAIN, INTERNAL_LOCAL, EXTERNAL_LOCAL, BOTH_LOCAL, INTERNAL_ONLY])
places = st.sampled_from([NodeTopology(name, zone) for name, zone in product(("node-a", "node-b"), ("east", ""))])


@given(all_of=endpoints, by=ports, at=places)
def test_a_ready_endpoint_is_never_left_out_for_one_that_is_not(
    all_of: list[Endpoint], by: ServicePort, at: NodeTopology
) -> None:
    found = usable_endpoints(all_of, by, at)
    ready = [each for each in all_of if each.ready]
    draining = [each for each in all_of if each.serving and each.terminating]
    if by.uses_cluster_endpoints:
        assert set(found.cluster) <= set(ready or draining)
        assert bool(found.cluster) == bool(ready or draining)
    if by.uses_local_endpoints:
        here = [each for each in ready if each.local] or [each for each in draining if each.local]
        assert list(found.local) == here
    assert found.anywhere == bool(ready or draining)
    assert {each.text for each in found.reachable} == {each.text for each in (*found.cluster, *found.local)}
    assert [each.text for each in found.reachable] == sorted(each.text for each in found.reachable)


@given(all_of=endpoints, at=places)
def test_taking_an_endpoint_away_that_is_not_used_changes_nothing_where_hints_do_not_bind(
    all_of: list[Endpoint], at: NodeTopology
) -> None:
    found = usable_endpoints(all_of, BOTH_LOCAL, at)
    silent = [each for each in all_of if not each.ready and not each.terminating]
    rest = [each for each in all_of if each not in silent]
    assert usable_endpoints(rest, BOTH_LOCAL, at) == found
