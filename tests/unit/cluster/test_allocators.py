from __future__ import annotations

import copy
from ipaddress import ip_address, ip_network
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netlab.cluster.allocators import (
    AllocationFailed,
    Allocators,
    Taken,
    allocate_service,
    release_service,
)
from netlab.cluster.bands import port_bands, service_range
from netlab.objects.field import FieldError
from netlab.objects.service_defaults import default_service


def allocators(*cidrs: str, ports: str = "30000-32767", seed: int = 1) -> Allocators:
    return Allocators(cidrs or ("10.96.0.0/16",), ports, random=Random(seed))


def dual_stack() -> Allocators:
    return allocators("10.96.0.0/16", "fd00:10:96::/112")


def service(**spec: Any) -> dict[str, Any]:
    value: dict[str, Any] = {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]} | copy.deepcopy(spec)}
    default_service(value)
    return value


def allocated(pool: Allocators, **spec: Any) -> dict[str, Any]:
    """The spec of a Service that gets all it wants."""
    value = service(**spec)
    assert allocate_service(value, pool) == []
    result = value["spec"]
    assert isinstance(result, dict)
    return result


def refused(pool: Allocators, **spec: Any) -> str:
    """What is said of a Service that is refused for one fault; it stays as it was."""
    value = service(**spec)
    before = copy.deepcopy(value)
    (error,) = allocate_service(value, pool)
    assert value == before
    return str(error)


@pytest.mark.parametrize(
    ("cidr", "first", "middle", "last"),
    [
        ("10.96.0.0/28", "10.96.0.1", "10.96.0.1", "10.96.0.14"),
        ("10.96.0.0/27", "10.96.0.1", "10.96.0.17", "10.96.0.30"),
        ("10.96.0.0/24", "10.96.0.1", "10.96.0.17", "10.96.0.254"),
        ("10.96.0.0/20", "10.96.0.1", "10.96.1.1", "10.96.15.254"),
        ("10.96.0.0/16", "10.96.0.1", "10.96.1.1", "10.96.255.254"),
        ("10.96.0.0/12", "10.96.0.1", "10.96.1.1", "10.111.255.254"),
        ("fd00::/124", "fd00::1", "fd00::1", "fd00::f"),
        ("fd00::/112", "fd00::1", "fd00::101", "fd00::ffff"),
        ("fd00::/64", "fd00::1", "fd00::101", "fd00::ffff:ffff:ffff:ffff"),
    ],
)
def test_the_bands_of_service_ranges(cidr: str, first: str, middle: str, last: str) -> None:
    bands = service_range(ip_network(cidr)).bands
    assert [bands.first, bands.middle, bands.last] == [int(ip_address(text)) for text in (first, middle, last)]


@pytest.mark.parametrize(
    ("first", "last", "middle"),
    [(30000, 32767, 30086), (30000, 30015, 30000), (30000, 30016, 30016), (1, 65535, 129), (30000, 30999, 30031)],
)
def test_the_bands_of_node_ports(first: int, last: int, middle: int) -> None:
    assert port_bands(first, last).middle == middle


def test_addresses_come_from_the_upper_band_until_it_is_full() -> None:
    pool = allocators("10.96.0.0/27")
    found = [allocated(pool)["clusterIP"] for _ in range(29)]
    assert sorted(found[:14], key=ip_address) == [f"10.96.0.{n}" for n in range(17, 31)]
    assert sorted(found[14:], key=ip_address) == [f"10.96.0.{n}" for n in range(2, 17)]
    with pytest.raises(AllocationFailed, match=r"^failed to allocate a serviceIP: range is full$"):
        allocate_service(service(), pool)


def test_the_choice_is_random_but_can_be_repeated() -> None:
    def choice(seed: int) -> list[str]:
        pool = allocators(seed=seed)
        return [allocated(pool)["clusterIP"] for _ in range(5)]

    assert choice(1) == choice(1)
    assert choice(1) != choice(2)


@pytest.mark.parametrize(
    ("address", "fault"),
    [
        ("10.96.0.50", "provided IP is already allocated"),
        ("10.97.0.5", "the provided network does not match the current range"),
        ("10.96.0.0", "the provided network does not match the current range"),
        ("10.96.255.255", "the provided network does not match the current range"),
        ("10.96.0.1", "provided IP is already allocated"),
    ],
)
def test_an_address_that_cannot_be_had(address: str, fault: str) -> None:
    pool = allocators()
    allocated(pool, clusterIP="10.96.0.50")
    said = f'spec.clusterIPs: Invalid value: ["{address}"]: failed to allocate IP {address}: {fault}'
    assert refused(pool, clusterIP=address) == said


def test_the_same_address_in_another_spelling_is_taken_too() -> None:
    pool = dual_stack()
    allocated(pool, clusterIP="fd00:10:96::77")
    assert "already allocated" in refused(pool, clusterIP="FD00:10:96:0::77")


def test_a_released_address_can_be_had_again() -> None:
    pool = dual_stack()
    value = service(ipFamilyPolicy="RequireDualStack", clusterIP="10.96.0.50")
    assert allocate_service(value, pool) == []
    first = copy.deepcopy(value)
    release_service(value, pool)
    again = service(**{key: first["spec"][key] for key in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")})
    assert allocate_service(again, pool) == []
    assert again["spec"]["clusterIPs"] == first["spec"]["clusterIPs"]


def test_reserved_addresses() -> None:
    pool = Allocators(["10.96.0.0/16"], random=Random(1), reserved=["10.96.0.10"])
    assert allocated(pool, clusterIP="10.96.0.1")["clusterIP"] == "10.96.0.1"
    assert "already allocated" in refused(pool, clusterIP="10.96.0.10")


def test_a_further_range_is_used_when_the_first_is_full() -> None:
    pool = allocators("10.50.0.0/30")
    assert allocated(pool)["clusterIP"] == "10.50.0.2"
    pool.add_range("10.51.0.0/30")
    assert allocated(pool)["clusterIP"].startswith("10.51.0.")
    pool.release_address("10.50.0.2")
    assert allocated(pool)["clusterIP"] == "10.50.0.2"


def test_what_is_no_range_is_refused() -> None:
    for cidrs, ports in (
        (["x"], "30000-32767"),
        (["10.0.0.0/32"], "30000-32767"),
        ([], "30000-32767"),
        (["10.0.0.0/8"], "3"),
    ):
        with pytest.raises(ValueError, match=r"range|no address"):
            Allocators(cidrs, ports, random=Random(1))


def test_families_by_default() -> None:
    assert allocated(allocators())["ipFamilies"] == ["IPv4"]
    assert allocated(allocators("fd00::/112", "10.96.0.0/16"))["ipFamilies"] == ["IPv6"]
    spec = allocated(dual_stack())
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"], len(spec["clusterIPs"])) == (["IPv4"], "SingleStack", 1)


def test_dual_stack_where_it_can_be_had() -> None:
    spec = allocated(dual_stack(), ipFamilyPolicy="PreferDualStack")
    assert spec["ipFamilies"] == ["IPv4", "IPv6"]
    assert [ip_address(text).version for text in spec["clusterIPs"]] == [4, 6]
    assert spec["clusterIP"] == spec["clusterIPs"][0]
    spec = allocated(dual_stack(), ipFamilyPolicy="PreferDualStack", ipFamilies=["IPv6"])
    assert spec["ipFamilies"] == ["IPv6", "IPv4"]
    assert allocated(allocators(), ipFamilyPolicy="PreferDualStack")["ipFamilies"] == ["IPv4"]


def test_dual_stack_where_it_cannot_be_had() -> None:
    assert refused(allocators(), ipFamilyPolicy="RequireDualStack") == (
        'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services'
    )
    assert refused(allocators(), ipFamilies=["IPv6"]) == (
        'spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster'
    )
    assert refused(allocators(), clusterIP="fd00::5") == (
        'spec.clusterIPs[0]: Invalid value: ["fd00::5"]: IPv6 is not configured on this cluster'
    )


def test_one_family_is_not_two() -> None:
    words = "must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified"
    said = refused(dual_stack(), clusterIP="10.96.0.5", clusterIPs=["10.96.0.5", "fd00:10:96::5"])
    assert said == f'spec.ipFamilyPolicy: Invalid value: "SingleStack": {words}'


def test_a_given_address_decides_the_family() -> None:
    spec = allocated(dual_stack(), clusterIP="fd00:10:96::5")
    assert (spec["ipFamilies"], spec["clusterIPs"]) == (["IPv6"], ["fd00:10:96::5"])
    spec = allocated(dual_stack(), clusterIP="fd00:10:96::5", ipFamilyPolicy="RequireDualStack")
    assert spec["ipFamilies"] == ["IPv6", "IPv4"]
    assert spec["clusterIPs"][0] == "fd00:10:96::5"


def test_faults_of_the_fields_are_told_before_anything_is_allocated() -> None:
    value = service(clusterIP="abc")
    (error,) = allocate_service(value, dual_stack())
    assert error.path == "spec.clusterIPs[0]"


def test_headless_services_get_families_but_no_address() -> None:
    spec = allocated(dual_stack(), clusterIP="None", selector={"a": "b"})
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")
    assert (spec["clusterIP"], spec["clusterIPs"]) == ("None", ["None"])
    release_service({"spec": spec}, dual_stack())


def test_headless_services_without_selector_get_both_families_on_any_cluster() -> None:
    for pool in (allocators(), dual_stack()):
        spec = allocated(pool, clusterIP="None")
        assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["IPv4", "IPv6"], "RequireDualStack")
    spec = allocated(allocators(), clusterIP="None", ipFamilyPolicy="SingleStack", ipFamilies=["IPv6"])
    assert spec["ipFamilies"] == ["IPv6"]


def test_external_names_get_nothing() -> None:
    spec = allocated(allocators(), type="ExternalName", externalName="a.test")
    assert not spec.keys() & {"ipFamilies", "ipFamilyPolicy", "clusterIP", "clusterIPs"}
    assert "nodePort" not in spec["ports"][0]


def node_ports(spec: dict[str, Any]) -> list[int | None]:
    return [port.get("nodePort") for port in spec["ports"]]


DNS = [{"name": "u", "protocol": "UDP", "port": 53}, {"name": "t", "protocol": "TCP", "port": 53}]


def with_node_ports(ports: list[dict[str, Any]], *numbers: int) -> list[dict[str, Any]]:
    return [port | {"nodePort": number} for port, number in zip(ports, numbers, strict=True)]


def test_node_ports_come_from_the_upper_band() -> None:
    pool = allocators()
    found = {allocated(pool, type="NodePort")["ports"][0]["nodePort"] for _ in range(100)}
    assert len(found) == 100
    assert min(found) >= 30086


def test_a_port_number_of_two_protocols_has_one_node_port() -> None:
    pool = allocators()
    one, other = node_ports(allocated(pool, type="NodePort", ports=DNS))
    assert one == other
    assert one is not None
    assert node_ports(allocated(pool, type="NodePort", ports=with_node_ports(DNS, 30054, 30054))) == [30054, 30054]


def test_the_later_of_two_protocols_may_name_the_node_port() -> None:
    ports = [DNS[0], DNS[1] | {"nodePort": 30054}]
    assert node_ports(allocated(allocators(), type="NodePort", ports=ports)) == [30054, 30054]
    assert node_ports(allocated(allocators(), type="NodePort", ports=with_node_ports(DNS, 30054, 30055))) == [
        30054,
        30055,
    ]


def test_other_port_numbers_share_no_node_port() -> None:
    ports = with_node_ports([DNS[0], DNS[1] | {"port": 5353}], 30055, 30055)
    said = "spec.ports[1].nodePort: Invalid value: 30055: provided port is already allocated"
    pool = allocators()
    assert refused(pool, type="NodePort", ports=ports) == said
    assert not pool.is_port_taken(30055)


def test_services_share_no_node_port() -> None:
    pool = allocators()
    allocated(pool, type="NodePort", ports=[{"port": 80, "nodePort": 30053}])
    said = "spec.ports[0].nodePort: Invalid value: 30053: provided port is already allocated"
    assert refused(pool, type="NodePort", ports=[{"port": 80, "protocol": "UDP", "nodePort": 30053}]) == said


@pytest.mark.parametrize("port", [29999, 32768, 80])
def test_a_node_port_has_to_be_in_the_range(port: int) -> None:
    words = "provided port is not in the valid range. The range of valid ports is 30000-32767"
    said = refused(allocators(), type="NodePort", ports=[{"port": 80, "nodePort": port}])
    assert said == f"spec.ports[0].nodePort: Invalid value: {port}: {words}"


def test_load_balancers_without_node_ports_get_those_that_they_ask_for() -> None:
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81, "nodePort": 30181}]
    spec = allocated(allocators(), type="LoadBalancer", allocateLoadBalancerNodePorts=False, ports=ports)
    assert node_ports(spec) == [None, 30181]


def test_local_load_balancers_get_a_port_for_health_checks() -> None:
    pool = allocators()
    spec = allocated(pool, type="LoadBalancer", externalTrafficPolicy="Local")
    assert spec["healthCheckNodePort"] >= 30086
    assert spec["healthCheckNodePort"] != spec["ports"][0]["nodePort"]
    release_service({"spec": spec}, pool)
    assert not pool.is_port_taken(spec["healthCheckNodePort"])


def test_a_taken_port_for_health_checks_is_an_internal_error() -> None:
    pool = allocators()
    local = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30074}
    value = service(**local, clusterIP="10.96.0.9", ports=[{"port": 80, "nodePort": 30074}])
    with pytest.raises(AllocationFailed) as raised:
        allocate_service(value, pool)
    assert str(raised.value) == (
        "failed to allocate requested HealthCheck NodePort 30074: provided port is already allocated"
    )
    assert not pool.is_port_taken(30074)
    pool.take_address("10.96.0.9")


def test_a_full_port_range_is_an_internal_error_and_gives_all_back() -> None:
    pool = allocators("10.96.0.0/29", ports="30000-30001")
    ports = [{"name": f"p{n}", "port": n} for n in (1, 2, 3)]
    for _ in range(10):
        with pytest.raises(AllocationFailed, match=r"^failed to allocate a nodePort: range is full$"):
            allocate_service(service(type="NodePort", ports=ports), pool)
    local = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": ports[:2]}
    with pytest.raises(AllocationFailed, match=r"^failed to allocate a HealthCheck NodePort 0: range is full$"):
        allocate_service(service(**local), pool)
    assert len(node_ports(allocated(pool, type="NodePort", ports=ports[:2]))) == 2


def test_a_dry_run_takes_nothing() -> None:
    pool = dual_stack()
    value = service(type="NodePort", ipFamilyPolicy="RequireDualStack", ports=[{"name": "a", "port": 80}, DNS[0]])
    assert allocate_service(value, pool, dry_run=True) == []
    assert value["spec"]["clusterIPs"] == ["10.96.0.0", "fd00:10:96::"]
    assert node_ports(value["spec"]) == [32769, 32770]
    explicit = service(type="NodePort", clusterIP="10.96.0.5", ports=[{"port": 80, "nodePort": 30005}])
    for _ in range(2):
        assert allocate_service(explicit, pool, dry_run=True) == []
    pool.take_port(30005)
    pool.take_address("10.96.0.5")
    (error,) = allocate_service(explicit, pool, dry_run=True)
    assert error.detail == "provided port is already allocated"


def test_giving_back_what_nobody_has_is_no_error() -> None:
    pool = allocators()
    pool.release_address("10.96.0.77")
    pool.release_address("x")
    pool.release_port(30077)
    pool.take_port(30077)
    with pytest.raises(Taken):
        pool.take_port(30077)


SPECS = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]),
        "ports": st.lists(
            st.fixed_dictionaries(
                {"port": st.integers(1, 3), "protocol": st.sampled_from(["TCP", "UDP"])},
                optional={"nodePort": st.integers(29999, 30008)},
            ),
            min_size=1,
            max_size=4,
        ),
    },
    optional={
        "clusterIP": st.sampled_from(["None", "10.96.0.2", "10.96.0.3", "fd00::2", "10.1.1.1"]),
        "ipFamilyPolicy": st.sampled_from(["SingleStack", "PreferDualStack", "RequireDualStack"]),
        "ipFamilies": st.sampled_from([["IPv4"], ["IPv6"], ["IPv4", "IPv6"], ["IPv6", "IPv4"]]),
        "externalTrafficPolicy": st.sampled_from(["Cluster", "Local"]),
        "selector": st.just({"a": "b"}),
    },
)


@settings(max_examples=200)
@given(st.lists(SPECS, max_size=8), st.integers(0, 9))
def test_nobody_has_what_another_has_and_nothing_is_lost(specs: list[dict[str, Any]], seed: int) -> None:
    pool = allocators("10.96.0.0/28", "fd00::/124", ports="30000-30007", seed=seed)
    alive: list[dict[str, Any]] = []
    for spec in specs:
        value = service(**spec)
        before = copy.deepcopy(value)
        errors: list[FieldError] | None
        try:
            errors = allocate_service(value, pool)
        except AllocationFailed:
            errors = None
        if errors == []:
            alive.append(value)
        else:
            assert value == before
    addresses = [ip_address(text) for each in alive for text in owned_addresses(each["spec"])]
    assert len(set(addresses)) == len(addresses)
    ports = [port for each in alive for port in owned_ports(each["spec"])]
    assert len(set(ports)) == len(ports)
    while alive:
        release_service(alive.pop(), pool)
        assert all(pool.is_port_taken(port) for each in alive for port in owned_ports(each["spec"]))
    for port in range(30000, 30008):
        pool.take_port(port)
    for host in list(ip_network("10.96.0.0/28").hosts())[1:]:
        pool.take_address(str(host))


def owned_addresses(spec: dict[str, Any]) -> list[str]:
    """The cluster IPs that a Service holds."""
    if spec["type"] == "ExternalName" or spec["clusterIP"] == "None":
        return []
    result = spec["clusterIPs"]
    assert isinstance(result, list)
    return result


def owned_ports(spec: dict[str, Any]) -> set[int]:
    """The ports of the nodes that a Service holds."""
    if spec["type"] not in ("NodePort", "LoadBalancer"):
        return set()
    ports = {port["nodePort"] for port in spec["ports"] if port.get("nodePort")}
    return ports | ({spec["healthCheckNodePort"]} if "healthCheckNodePort" in spec else set())
