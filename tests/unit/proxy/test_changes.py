"""Change tracking: whatever comes in which order, the tracker knows what a fresh one would, and tells just the rest."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from netlab.model.keys import ObjectKey
from netlab.proxy.changes import PortState, ServiceTracker
from netlab.proxy.family import Family
from netlab.proxy.service_ports import ServicePortName
from netlab.proxy.topology import NodeTopology
from tests.unit.proxy.build import endpoint_slice, service, tracker
from tests.unit.proxy.worlds import NODE, Change, World, histories, make

HTTP = {"name": "", "port": 8080}
WEB = ServicePortName("lab", "web", "", "TCP")
SERVICE = service("{metadata: web, spec: {clusterIP: 10.96.0.5, ports: [{port: 80}]}}")
SLICE = endpoint_slice("web-1", "web", [{"addresses": ["10.244.1.5"], "nodeName": "node-a"}], [HTTP])


def known() -> ServiceTracker:
    made = tracker([SERVICE], [SLICE], NODE)
    made.take_changes()
    return made


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=histories)
def test_changes_add_up_to_what_a_fresh_tracker_knows(history: list[list[Change]]) -> None:
    world, tracked = World(), tracker((), (), NODE)
    told: dict[ServicePortName, PortState] = {}
    for batch in history:
        for change in batch:
            make(change, world, tracked)
        before = dict(told)
        for name, state in tracked.take_changes().items():
            assert before.get(name) != state
            if state is None:
                del told[name]
            else:
                told[name] = state
        fresh = tracker(world.services.values(), world.slices.values(), world.node)
        fresh.take_changes()
        assert told == tracked.ports == fresh.ports
        assert not tracked.pending
        assert tracked.take_changes() == {}


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=histories)
def test_nothing_is_kept_of_what_has_been_deleted(history: list[list[Change]]) -> None:
    world, tracked = World(), tracker((), (), NODE)
    for batch in history:
        for change in batch:
            make(change, world, tracked)
        tracked.take_changes()
    for name in list(world.slices):
        make(("delete slice", name), world, tracked)
    for name in list(world.services):
        make(("delete service", name), world, tracked)
    tracked.take_changes()
    left = (tracked.ports, tracked._services, tracked._slices, tracked._slices_of, tracked._ports_of)
    assert [each for each in left if each] == []


def test_the_order_of_service_and_slice_does_not_matter() -> None:
    first, second = tracker([SERVICE], [], NODE), tracker([], [SLICE], NODE)
    first.set_slice(SLICE)
    second.set_service(SERVICE)
    assert first.take_changes() == second.take_changes()
    assert [each.text for each in first.ports[WEB].endpoints.cluster] == ["10.244.1.5:8080"]


def test_a_slice_without_its_service_waits() -> None:
    waiting = tracker([], [SLICE], NODE)
    assert waiting.take_changes() == {}
    waiting.set_service(SERVICE)
    assert list(waiting.take_changes()) == [WEB]


def test_a_slice_that_changes_its_service_leaves_the_old_one() -> None:
    both = known()
    both.set_service(service("{metadata: other, spec: {clusterIP: 10.96.0.6, ports: [{port: 80}]}}"))
    both.take_changes()
    both.set_slice(endpoint_slice("web-1", "other", [{"addresses": ["10.244.1.5"]}], [HTTP]))
    changed = both.take_changes()
    assert {name.name: bool(state and state.all_endpoints) for name, state in changed.items()} == {
        "web": False,
        "other": True,
    }


def test_an_update_without_consequence_is_no_change() -> None:
    tracked = known()
    tracked.set_service(SERVICE)
    tracked.set_slice(SLICE)
    assert tracked.pending
    assert tracked.take_changes() == {}


def test_deleting_what_is_not_there_is_no_change() -> None:
    tracked = known()
    tracked.delete_service(ObjectKey("Service", "lab", "other"))
    tracked.delete_slice(ObjectKey("EndpointSlice", "lab", "other"))
    assert not tracked.pending


def test_a_service_that_becomes_headless_loses_its_ports() -> None:
    tracked = known()
    tracked.set_service(service("{metadata: web, spec: {clusterIP: None, ports: [{port: 80}]}}"))
    assert tracked.take_changes() == {WEB: None}


def test_the_same_name_in_another_namespace_is_another_service() -> None:
    tracked = known()
    spec = "{clusterIP: 10.96.0.6, ports: [{port: 80}]}"
    tracked.set_service(service(f"{{metadata: {{name: web, namespace: prod}}, spec: {spec}}}"))
    changed = tracked.take_changes()
    assert list(changed) == [ServicePortName("prod", "web", "", "TCP")]
    tracked.delete_service(ObjectKey("Service", "prod", "web"))
    assert tracked.take_changes() == {ServicePortName("prod", "web", "", "TCP"): None}


def test_another_zone_chooses_again_and_the_same_one_does_not() -> None:
    tracked = known()
    hints = {"forZones": [{"name": "west"}]}
    other = {"forZones": [{"name": "east"}]}
    endpoints = [{"addresses": ["10.244.1.5"], "hints": hints}, {"addresses": ["10.244.1.6"], "hints": other}]
    tracked.set_slice(endpoint_slice("web-1", "web", endpoints, [HTTP]))
    tracked.take_changes()
    tracked.set_node(NODE)
    assert not tracked.pending
    tracked.set_node(NodeTopology("node-a", "west"))
    (state,) = tracked.take_changes().values()
    assert state is not None
    assert [each.ip for each in state.endpoints.cluster] == ["10.244.1.5"]


def test_endpoints_are_counted_once_a_port() -> None:
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
    spec = "{clusterIP: 10.96.0.5, ports: [{name: a, port: 80}, {name: b, port: 81}]}"
    endpoints = [{"addresses": [f"10.244.1.{number}"]} for number in range(1, 4)]
    slices = [endpoint_slice(f"s{n}", "web", endpoints, ports) for n in (1, 2)]
    tracked = tracker([service(f"{{metadata: web, spec: {spec}}}")], slices, NODE)
    tracked.take_changes()
    assert tracked.endpoint_count() == 6


def test_each_family_tracks_its_own() -> None:
    six = tracker([SERVICE], [SLICE], NODE, Family.IPV6)
    assert six.take_changes() == {}
