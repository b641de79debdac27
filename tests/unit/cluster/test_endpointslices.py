"""What the EndpointSlice controller makes of Services, Pods and nodes, and what it leaves as it is."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netlab.cluster.endpointslices import selects, slices_for, target_port
from netlab.cluster.packing import MAX_ENDPOINTS, pack
from netlab.objects.endpointslice import EndpointSlice
from netlab.objects.endpointslice_validation import default_endpointslice, validate_endpointslice
from netlab.objects.node import Node
from netlab.objects.pod import Pod
from netlab.objects.service import Service, ServicePort
from tests.unit.cluster.control_plane import ControlPlane

Json = dict[str, Any]
READY = {"ready": True, "serving": True, "terminating": False}


def plane(**spec: Any) -> ControlPlane:
    made = ControlPlane()
    made.service(**spec)
    return made


# Which Pods


@pytest.mark.parametrize(
    ("selector", "labels", "chosen"),
    [
        ({"app": "web"}, {"app": "web", "tier": "front"}, True),
        ({"app": "web", "tier": "front"}, {"app": "web"}, False),
        ({"app": "web"}, {"app": "Web"}, False),
        ({"app": ""}, {}, False),
        ({"app": ""}, {"app": ""}, True),
        ({}, {"app": "web"}, False),
        (None, {"app": "web"}, False),
        ({"app": "web"}, None, False),
    ],
)
def test_a_selector_asks_for_all_its_labels(selector: Json | None, labels: Json | None, chosen: bool) -> None:
    service = msgspec.convert({"metadata": {"namespace": "ns"}, "spec": {"selector": selector}}, Service)
    pod = msgspec.convert({"metadata": {"namespace": "ns", "labels": labels}}, Pod)
    assert selects(service, pod) is chosen
    elsewhere = msgspec.convert({"metadata": {"namespace": "other", "labels": labels}}, Pod)
    assert not selects(service, elsewhere)


def test_ended_pods_and_pods_without_an_address_are_no_endpoints() -> None:
    made = plane()
    made.pod("p1", "10.244.1.1")
    made.pod("p2", "10.244.1.2", ready=False)
    made.pod("p3", status={"phase": "Pending"})
    made.pod("p4", "10.244.1.4", status={"phase": "Succeeded"})
    made.pod("p5", "10.244.1.5", status={"phase": "Failed"})
    made.pod("p6", "10.244.1.6", ready=False, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert made.addresses() == ["10.244.1.1", "10.244.1.2", "10.244.1.6"]
    assert made.endpoint("10.244.1.2")["conditions"] == {"ready": False, "serving": False, "terminating": False}
    assert made.endpoint("10.244.1.6")["conditions"] == {"ready": False, "serving": False, "terminating": True}


@pytest.mark.parametrize(("publish", "listed"), [(False, []), (True, ["10.244.1.1"])])
def test_a_pod_of_a_node_that_is_gone_is_listed_only_where_unready_ones_are_published(
    publish: bool, listed: list[str]
) -> None:
    made = plane(publishNotReadyAddresses=publish)
    made.pod("p1", "10.244.1.1", node="n-gone")
    assert made.addresses() == listed


def test_a_node_that_appears_or_changes_its_zone_is_seen() -> None:
    made = plane()
    made.pod("p1", "10.244.1.1", node="n-new")
    made.pod("p2", "10.244.1.2", node="n-west1")
    for zone in ("north", "south"):
        labels = {"topology.kubernetes.io/zone": zone}
        made.put({"kind": "Node", "metadata": {"name": "n-new", "labels": labels}})
        assert made.endpoint("10.244.1.1")["zone"] == zone
    made.put({"kind": "Node", "metadata": {"name": "n-west1"}})
    assert "zone" not in made.endpoint("10.244.1.2")


def test_pods_on_the_nodes_network_are_endpoints_like_others() -> None:
    made = plane()
    made.pod("p1", "172.30.0.20", spec={"hostNetwork": True})
    made.pod("p2", "172.30.0.20", spec={"hostNetwork": True})
    assert made.addresses() == ["172.30.0.20", "172.30.0.20"]


@pytest.mark.parametrize(
    ("publish", "conditions"),
    [
        (False, {"ready": False, "serving": True, "terminating": True}),
        (True, {"ready": True, "serving": True, "terminating": True}),
    ],
)
def test_a_ready_pod_that_is_being_deleted(publish: bool, conditions: Json) -> None:
    made = plane(publishNotReadyAddresses=publish)
    made.pod("p1", "10.244.1.1", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert made.endpoint("10.244.1.1")["conditions"] == conditions


def test_a_pod_without_conditions_is_not_ready() -> None:
    made = plane()
    made.pod("p1", "10.244.1.1", status={"conditions": []})
    assert made.endpoint("10.244.1.1")["conditions"] == {"ready": False, "serving": False, "terminating": False}


# Families


def test_a_dual_stack_service_has_a_slice_for_each_family() -> None:
    made = plane(ipFamilies=["IPv4", "IPv6"])
    made.pod("p1", "10.244.1.1", "fd00::1")
    made.pod("p2", "fd00::2")
    made.pod("p3", "10.244.1.3")
    found = {each["addressType"]: [one["addresses"] for one in each["endpoints"]] for each in made.slices()}
    assert found == {"IPv4": [["10.244.1.1"], ["10.244.1.3"]], "IPv6": [["fd00::1"], ["fd00::2"]]}


def test_a_family_that_is_added_or_taken_away_comes_and_goes_with_its_slice() -> None:
    made = plane(ipFamilies=["IPv4"])
    made.pod("p1", "10.244.1.1", "fd00::1")
    (first,) = made.slices()
    made.update("Service", "web", {"spec": {"ipFamilies": ["IPv4", "IPv6"]}})
    assert {each["addressType"] for each in made.slices()} == {"IPv4", "IPv6"}
    assert first in made.slices()
    made.update("Service", "web", {"spec": {"ipFamilies": ["IPv6"]}})
    assert made.addresses() == ["fd00::1"]


def test_a_service_without_pods_has_an_empty_slice_for_each_family() -> None:
    made = plane(ipFamilies=["IPv6", "IPv4"])
    assert [(each["endpoints"], each["ports"]) for each in made.slices()] == [([], []), ([], [])]
    names = {each["addressType"]: each["metadata"]["name"] for each in made.slices()}
    made.pod("p1", "10.244.1.1")
    assert {each["addressType"]: each["metadata"]["name"] for each in made.slices()} == names


def test_the_only_address_may_stand_in_pod_ip_alone() -> None:
    made = plane()
    made.pod("p1", status={"podIP": "10.244.1.1", "podIPs": []})
    assert made.addresses() == ["10.244.1.1"]


# Ports


def container(name: str = "c", restart: str | None = None, **ports: int) -> Json:
    listed = [{"name": port, "containerPort": number} for port, number in ports.items()]
    return {"name": name, "image": "i:1", "ports": listed, **({"restartPolicy": restart} if restart else {})}


def ports_of(made: ControlPlane) -> dict[tuple[str, ...], list[tuple[str, int]]]:
    """The Pods of each slice, and its ports."""
    return {
        tuple(one["targetRef"]["name"] for one in each["endpoints"]): [
            (port["name"], port["port"]) for port in each["ports"]
        ]
        for each in made.slices()
    }


def test_pods_with_other_numbers_behind_a_port_name_are_in_slices_of_their_own() -> None:
    made = plane(ports=[{"name": "web", "port": 80, "targetPort": "http"}])
    made.pod("v1", "10.244.1.1", spec={"containers": [container(http=8080)]})
    made.pod("v2", "10.244.1.2", spec={"containers": [container(http=9090)]})
    made.pod("v3", "10.244.1.3", spec={"containers": [container(http=8080)]})
    made.pod("v4", "10.244.1.4", spec={"containers": [container(other=8080)]})
    assert ports_of(made) == {("v1", "v3"): [("web", 8080)], ("v2",): [("web", 9090)], ("v4",): []}


def test_a_port_name_is_looked_up_together_with_the_protocol() -> None:
    made = plane(ports=[{"name": "dns", "port": 53, "protocol": "UDP", "targetPort": "dns"}])
    made.pod("p1", "10.244.1.1", spec={"containers": [container(dns=53)]})
    assert ports_of(made) == {("p1",): []}


def test_sidecars_are_searched_and_other_init_containers_are_not() -> None:
    ports = [{"name": "m", "port": 90, "targetPort": "metrics"}, {"name": "i", "port": 91, "targetPort": "once"}]
    made = plane(ports=ports)
    first = [container("proxy", "Always", metrics=9100), container("setup", once=9200)]
    made.pod("s1", "10.244.1.1", spec={"initContainers": first})
    assert ports_of(made) == {("s1",): [("m", 9100)]}


@pytest.mark.parametrize(
    ("target", "number"),
    [(None, 80), (0, 80), ("", 80), (8080, 8080), ("http", 8443), ("none", None)],
)
def test_the_number_behind_a_target_port(target: int | str | None, number: int | None) -> None:
    pod = msgspec.convert({"spec": {"containers": [container("a"), container("b", http=8443)]}}, Pod)
    assert target_port(ServicePort(port=80, target_port=target), pod) == number


def test_a_headless_service_without_ports_lists_its_pods() -> None:
    made = plane(clusterIP="None", ports=[])
    made.pod("p1", "10.244.1.1")
    assert ports_of(made) == {("p1",): []}


def test_a_port_carries_its_application_protocol() -> None:
    made = plane(ports=[{"port": 80, "appProtocol": "kubernetes.io/h2c"}])
    made.pod("p1", "10.244.1.1")
    (only,) = made.slices()
    assert only["ports"] == [{"name": "", "protocol": "TCP", "port": 80, "appProtocol": "kubernetes.io/h2c"}]


# Hints, names, labels


@pytest.mark.parametrize(
    ("wish", "hints"),
    [
        (None, None),
        ("PreferClose", {"forZones": [{"name": "east"}]}),
        ("PreferSameZone", {"forZones": [{"name": "east"}]}),
        ("PreferSameNode", {"forZones": [{"name": "east"}], "forNodes": [{"name": "n-east1"}]}),
    ],
)
def test_hints_are_written_for_ready_endpoints(wish: str | None, hints: Json | None) -> None:
    made = plane(trafficDistribution=wish)
    made.pod("p1", "10.244.1.1")
    made.pod("p2", "10.244.1.2", ready=False)
    assert made.endpoint("10.244.1.1").get("hints") == hints
    assert "hints" not in made.endpoint("10.244.1.2")
    made.put({"kind": "Node", "metadata": {"name": "n-east1"}})
    nodes = {"forNodes": [{"name": "n-east1"}]}
    assert made.endpoint("10.244.1.1").get("hints") == (nodes if wish == "PreferSameNode" else None)


def test_labels_are_those_of_the_service_but_for_the_controllers_own() -> None:
    made = ControlPlane()
    labels = {
        "tier": "front",
        "endpointslice.kubernetes.io/managed-by": "me",
        "endpointslice.kubernetes.io/skip-mirror": "x",
        "kubernetes.io/service-name": "other",
        "service.kubernetes.io/headless": "no",
    }
    made.service("web", labels)
    made.service("db", clusterIP="None")
    web, db = sorted(made.slices(), key=lambda each: str(each["metadata"]["name"]), reverse=True)
    assert web["metadata"]["name"].startswith("web-")
    assert web["metadata"]["labels"] == {
        "tier": "front",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        "endpointslice.kubernetes.io/skip-mirror": "x",
    }
    assert db["metadata"]["labels"]["service.kubernetes.io/headless"] == ""


def test_a_label_that_changes_changes_every_slice() -> None:
    made = plane()
    with made.at_once():
        made.pods(*range(120))
    made.update("Service", "web", {"metadata": {"labels": {"new": "label"}}})
    assert [each["metadata"]["labels"]["new"] for each in made.slices()] == ["label", "label"]
    assert made.sizes() == [100, 20]


def test_a_hostname_is_told_only_under_the_pods_own_subdomain() -> None:
    made = plane(name="quiet", clusterIP="None")
    made.pod("p1", "10.244.1.1", spec={"hostname": "bow", "subdomain": "quiet"})
    made.pod("p2", "10.244.1.2", spec={"hostname": "bow", "subdomain": "other"})
    made.pod("p3", "10.244.1.3", spec={"hostname": "bow"})
    found = [made.endpoint(f"10.244.1.{number}").get("hostname") for number in (1, 2, 3)]
    assert found == ["bow", None, None]


# Which Services


def test_a_service_without_selector_and_an_external_name_have_no_slices() -> None:
    made = ControlPlane()
    made.service("a", selector=None)
    made.service("b", type="ExternalName", externalName="x.example", clusterIP="")
    made.pod("p1", "10.244.1.1")
    assert made.slices() == []


def test_a_service_that_loses_its_selector_keeps_its_slices_as_they_are() -> None:
    made = plane()
    made.pod("p1", "10.244.1.1")
    made.update("Service", "web", {"spec": {"selector": None}})
    made.delete("Pod", "p1")
    assert made.addresses() == ["10.244.1.1"]


def test_slices_that_the_user_wrote_win_for_their_service() -> None:
    made = plane()
    made.delete("Service", "web")
    mine = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "mine", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["192.0.2.1"]}],
        "ports": [],
    }
    made.put(mine)
    made.service()
    made.pod("p1", "10.244.1.1")
    assert [each["metadata"]["name"] for each in made.slices()] == ["mine"]
    made.delete("Service", "web")
    assert [each["metadata"]["name"] for each in made.slices()] == ["mine"]


def test_derived_slices_go_with_their_service_also_beside_others() -> None:
    made = plane()
    labels = {"kubernetes.io/service-name": "web"}
    mine = {"name": "mine", "labels": labels}
    made.put({"kind": "EndpointSlice", "metadata": mine, "addressType": "IPv4", "endpoints": [], "ports": []})
    assert len(made.slices()) == 2
    made.delete("Service", "web")
    assert [each["metadata"]["name"] for each in made.slices()] == ["mine"]


def test_slices_of_other_namespaces_are_others() -> None:
    made = plane()
    made.put(
        {
            "kind": "Service",
            "metadata": {"name": "web", "namespace": "prod"},
            "spec": {"clusterIP": "10.96.0.9", "selector": {"app": "web"}, "ports": [{"port": 80}]},
        }
    )
    made.pod("p1", "10.244.1.1")
    sizes = {each["metadata"]["namespace"]: len(each["endpoints"]) for each in made.slices()}
    assert sizes == {"ns": 1, "prod": 0}


# Changes


def test_what_changes_nothing_raises_no_revision() -> None:
    made = plane()
    made.pods(1, 2, 3)
    revision = made.store.revision
    made.update("Pod", "p1", {"metadata": {"annotations": {"x": "y"}}})
    made.update("Service", "web", {"metadata": {"annotations": {"x": "y"}}})
    made.put({"kind": "Node", "metadata": {"name": "n-idle"}})
    assert made.store.revision == revision + 3
    for _ in range(3):
        made.controller.reconcile()
    assert made.store.revision == revision + 3


def test_one_change_writes_one_slice() -> None:
    made = plane()
    with made.at_once():
        made.pods(*range(250))
    revision = made.store.revision
    made.delete("Pod", "p7")
    assert made.store.revision == revision + 2
    made.pod("p8", "10.244.0.9", ready=False)
    assert made.store.revision == revision + 4


def test_a_replaced_pod_stays_in_the_slice_that_changes() -> None:
    made = plane()
    with made.at_once():
        made.pods(*range(140))
    full, rest = sorted(made.slices(), key=lambda each: -len(each["endpoints"]))
    gone = full["endpoints"][0]["targetRef"]["name"]
    with made.at_once():
        made.delete("Pod", gone)
        made.pods(200)
    assert made.sizes() == [100, 40]
    assert rest in made.slices()
    (same,) = [each for each in made.slices() if each["metadata"]["name"] == full["metadata"]["name"]]
    assert "p200" in [one["targetRef"]["name"] for one in same["endpoints"]]


def test_slices_are_not_merged() -> None:
    made = plane()
    with made.at_once():
        made.pods(*range(200))
    keep = {each["endpoints"][0]["targetRef"]["name"] for each in made.slices()}
    with made.at_once():
        for number in range(200):
            if f"p{number}" not in keep:
                made.delete("Pod", f"p{number}")
    assert made.sizes() == [1, 1]


def test_metadata_that_others_wrote_into_a_slice_stays() -> None:
    made = plane()
    (only,) = made.slices()
    made.update("EndpointSlice", only["metadata"]["name"], {"metadata": {"uid": "u1", "annotations": {"a": "b"}}})
    revision = made.store.revision
    made.controller.reconcile()
    assert made.store.revision == revision
    made.pods(1)
    (only,) = made.slices()
    assert (only["metadata"]["uid"], only["metadata"]["annotations"]) == ("u1", {"a": "b"})


POD_STATES = st.fixed_dictionaries(
    {
        "ready": st.booleans(),
        "deleted": st.booleans(),
        "node": st.sampled_from(["n-east1", "n-west1", "n-gone"]),
        "port": st.sampled_from([8080, 9090]),
        "labels": st.sampled_from([{"app": "web"}, {"app": "web"}, {"app": "other"}]),
        "six": st.booleans(),
    }
)
fleets = st.dictionaries(st.integers(0, 9), POD_STATES, max_size=8)


def pod_of(number: int, state: Json) -> Json:
    metadata: Json = {"name": f"p{number}", "namespace": "ns", "labels": state["labels"]}
    if state["deleted"]:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    ips = [f"10.244.1.{number + 1}", *([f"fd00::{number + 1}"] if state["six"] else [])]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": state["node"], "containers": [container(http=state["port"])]},
        "status": {
            "phase": "Running",
            "podIPs": [{"ip": ip} for ip in ips],
            "conditions": [{"type": "Ready", "status": str(state["ready"])}],
        },
    }


def content(slices: list[Json]) -> set[tuple[str, str, str]]:
    """All endpoints with their ports, whatever slice they are in."""
    return {
        (each["addressType"], str(each["ports"]), str(sorted(one.items(), key=str)))
        for each in slices
        for one in each["endpoints"]
    }


@settings(max_examples=50, deadline=None)
@given(history=st.lists(fleets, min_size=1, max_size=4))
def test_slices_hold_what_fresh_ones_would_and_are_valid(history: list[dict[int, Json]]) -> None:
    made = plane(ipFamilies=["IPv4", "IPv6"], ports=[{"name": "a", "port": 80, "targetPort": "http"}])
    for fleet in history:
        with made.at_once():
            for value in list(made.store.list("Pod")):
                if int(value["metadata"]["name"][1:]) not in fleet:
                    made.delete("Pod", value["metadata"]["name"])
            for number, state in fleet.items():
                made.put(pod_of(number, state))
        service = msgspec.convert(next(iter(made.store.list("Service"))), Service)
        nodes = {each["metadata"]["name"]: msgspec.convert(each, Node) for each in made.store.list("Node")}
        pods = [msgspec.convert(each, Pod) for each in made.store.list("Pod")]
        fresh = slices_for(service, pods, nodes)
        assert content(made.slices()) == content(fresh)
        assert {each["addressType"] for each in made.slices()} == {"IPv4", "IPv6"}
        names = [each["metadata"]["name"] for each in fresh]
        assert len(set(names)) == len(names)
        assert slices_for(service, pods[::-1], nodes) == fresh
        for each in made.slices():
            default_endpointslice(each)
            assert validate_endpointslice(msgspec.convert(each, EndpointSlice)) == []


def entry(number: int, *, ready: bool = True) -> Json:
    return {"addresses": [f"10.0.{number // 250}.{number % 250}"], "conditions": {**READY, "ready": ready}}


numbers = st.sets(st.integers(0, 400), max_size=330)


@settings(max_examples=60, deadline=None)
@given(before=numbers, after=numbers, again=numbers)
def test_packing_keeps_endpoints_where_they_are_and_slices_small(
    before: set[int], after: set[int], again: set[int]
) -> None:
    slices: list[list[Json]] = []
    for wanted in (before, after, again):
        old = [list(each) for each in slices]
        packed = pack(slices, [entry(each) for each in sorted(wanted)])
        assert sorted(str(each) for new in packed for each in new) == sorted(str(entry(each)) for each in wanted)
        assert all(len(each) <= MAX_ENDPOINTS for each in packed)
        for left, right in zip(old, packed, strict=False):
            kept = [each for each in left if each in right]
            assert right[: len(kept)] == kept
            assert all(str(each) not in str(other) for each in kept for other in packed if other is not right)
        touched = sum(left != right for left, right in zip(old, packed, strict=False)) + len(packed) - len(old)
        losing = sum(any(each not in right for each in left) for left, right in zip(old, packed, strict=False))
        gaining = len(wanted - {number for left in old for number in wanted if entry(number) in left})
        assert touched <= losing + -(-gaining // MAX_ENDPOINTS) + (gaining > 0)
        slices = [each for each in packed if each]


def test_a_slice_that_loses_all_is_not_filled_again() -> None:
    first, second = [entry(number) for number in range(10)], [entry(number) for number in range(100, 150)]
    packed = pack([first, second], [*second, entry(200)])
    assert packed == [[], [*second, entry(200)]]


def test_an_empty_slice_is_filled() -> None:
    assert pack([[]], [entry(1)]) == [[entry(1)]]


def test_another_hostname_is_another_endpoint() -> None:
    named = [{**entry(1), "hostname": name} for name in ("bow", "stern")]
    assert pack([[named[0], entry(2)]], [named[1], entry(2)]) == [[entry(2), named[1]]]


def test_an_endpoint_that_changes_its_conditions_stays_in_its_place() -> None:
    packed = pack([[entry(1), entry(2)], [entry(3)]], [entry(3), entry(2, ready=False), entry(1)])
    assert packed == [[entry(1), entry(2, ready=False)], [entry(3)]]


@pytest.mark.parametrize(
    ("sizes", "added", "expected"),
    [
        ([], 250, [100, 100, 50]),
        ([40, 50], 30, [40, 80]),
        ([40, 50], 50, [40, 100]),
        ([40, 50], 55, [95, 50]),
        ([40, 50], 70, [40, 50, 70]),
        ([40, 50], 100, [40, 50, 100]),
        ([40, 50], 155, [95, 50, 100]),
        ([100, 100], 1, [100, 100, 1]),
    ],
)
def test_new_endpoints_go_where_the_controller_puts_them(sizes: list[int], added: int, expected: list[int]) -> None:
    numbers = iter(range(1000))
    slices = [[entry(next(numbers)) for _ in range(size)] for size in sizes]
    new = [entry(next(numbers)) for _ in range(added)]
    packed = pack(slices, [*(each for one in slices for each in one), *new])
    assert [len(each) for each in packed] == expected


def test_slices_that_lose_endpoints_are_filled_first_and_the_fullest_of_them_before() -> None:
    slices = [
        [entry(number) for number in range(start, start + size)] for start, size in ((0, 90), (100, 50), (200, 95))
    ]
    kept = [each for one in slices for each in one if each not in (entry(0), entry(100))]
    packed = pack(slices, [*kept, *(entry(number) for number in range(300, 320))])
    assert [len(each) for each in packed] == [100, 58, 95]
