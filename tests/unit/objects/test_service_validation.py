from __future__ import annotations

from typing import Any

import pytest

from netlab.objects.decode import decode, typed
from netlab.objects.field import FieldError
from netlab.objects.service import Service, ServiceSpec
from netlab.objects.service_defaults import default_service
from netlab.objects.service_validation import service_warnings, validate_cluster_ips, validate_service

PORT = {"port": 80}


def made(name: str = "web", annotations: dict[str, str] | None = None, **spec: Any) -> Service:
    """A defaulted Service; one port unless told otherwise, and allocations that are fine where they are needed."""
    metadata: dict[str, Any] = {"name": name, "namespace": "lab"}
    if annotations:
        metadata["annotations"] = annotations
    value = decode({"metadata": metadata, "spec": {"ports": [PORT]} | spec}, Service).value
    default_service(value)
    return typed(value, Service)


def errors(**made_of: Any) -> list[FieldError]:
    return validate_service(made(**made_of))


def faults(**made_of: Any) -> list[tuple[str, str]]:
    return [(error.path, error.kind) for error in errors(**made_of)]


@pytest.mark.parametrize("name", ["web", "9lives", "x" * 63])
def test_a_name_is_fine(name: str) -> None:
    assert errors(name=name) == []


@pytest.mark.parametrize("name", ["Web", "web.lab", "x" * 64, "web-"])
def test_a_name_is_refused(name: str) -> None:
    assert faults(name=name) == [("metadata.name", "Invalid")]


def test_all_faults_of_ports_come_at_once() -> None:
    third = {"name": "b", "port": 70000, "protocol": "ICMP", "targetPort": "waytoolongportname"}
    assert faults(ports=[{"port": 80}, {"name": "b", "port": 80}, third]) == [
        ("spec.ports[0].name", "Required"),
        ("spec.ports[2].name", "Duplicate"),
        ("spec.ports[2].port", "Invalid"),
        ("spec.ports[2].protocol", "Unsupported"),
        ("spec.ports[2].targetPort", "Invalid"),
        ("spec.ports[1]", "Duplicate"),
    ]


def test_a_repeated_port_is_printed_as_the_api_server_sees_it() -> None:
    (error,) = errors(ports=[{"name": "a", "port": 80}, {"name": "b", "port": 80, "targetPort": 8080}])
    assert str(error) == (
        'spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,'
        '"NodePort":0}'
    )


def test_node_ports_repeat_only_with_another_protocol() -> None:
    tcp = {"name": "t", "port": 53, "nodePort": 30053}
    udp = {"name": "u", "port": 53, "nodePort": 30053, "protocol": "UDP"}
    assert faults(type="NodePort", ports=[tcp, udp]) == []
    again = {"name": "x", "port": 54, "nodePort": 30053}
    assert faults(type="NodePort", ports=[tcp, again]) == [("spec.ports[1].nodePort", "Duplicate")]


def test_application_protocols_are_qualified_names() -> None:
    assert faults(ports=[PORT | {"appProtocol": "kubernetes.io/h2c"}]) == []
    assert faults(ports=[PORT | {"appProtocol": "h 2"}]) == [("spec.ports[0].appProtocol", "Invalid")]


@pytest.mark.parametrize("kind", ["NodePort", "LoadBalancer"])
def test_headless_goes_with_cluster_ip_only(kind: str) -> None:
    assert faults(type=kind, clusterIP="None")[0] == ("spec.clusterIPs[0]", "Invalid")


def test_headless_with_external_ips_is_fine_but_remarked() -> None:
    service = made(clusterIP="None", externalIPs=["203.0.113.31"], loadBalancerIP="203.0.113.32")
    assert validate_service(service) == []
    assert service_warnings(service) == [
        "spec.loadBalancerIP is ignored for headless services",
        "spec.externalIPs is ignored for headless services",
    ]


def test_headless_needs_no_ports() -> None:
    assert errors(clusterIP="None", ports=[]) == []
    assert faults(ports=[]) == [("spec.ports", "Required")]


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({}, ("spec.externalName", "Required")),
        ({"externalName": "."}, ("spec.externalName", "Required")),
        ({"externalName": "Foo_bar"}, ("spec.externalName", "Invalid")),
        ({"externalName": "ok.test."}, None),
        ({"externalName": "ok.test", "clusterIP": "10.96.0.62"}, ("spec.clusterIPs", "Forbidden")),
        ({"externalName": "ok.test", "ipFamilyPolicy": "SingleStack"}, ("spec.ipFamilyPolicy", "Forbidden")),
        ({"externalName": "ok.test", "ipFamilies": ["IPv4"]}, ("spec.ipFamilies", "Forbidden")),
    ],
)
def test_external_names(spec: dict[str, Any], fault: tuple[str, str] | None) -> None:
    assert faults(type="ExternalName", ports=[], **spec) == ([] if fault is None else [fault])


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("type", "Internal", '"ClusterIP", "ExternalName", "LoadBalancer", "NodePort"'),
        ("sessionAffinity", "Cookie", '"ClientIP", "None"'),
        ("internalTrafficPolicy", "Node", '"Cluster", "Local"'),
        ("ipFamilyPolicy", "Dual", '"PreferDualStack", "RequireDualStack", "SingleStack"'),
        ("trafficDistribution", "Anywhere", '"PreferClose", "PreferSameZone", "PreferSameNode"'),
    ],
)
def test_fixed_lists_are_shown(field: str, value: str, allowed: str) -> None:
    (error,) = errors(**{field: value})
    assert str(error) == f'spec.{field}: Unsupported value: "{value}": supported values: {allowed}'


def test_a_selector_is_made_of_labels() -> None:
    assert faults(selector={"app": "b a d"}) == [("spec.selector", "Invalid")]


def test_session_affinity_needs_a_sensible_timeout() -> None:
    path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
    for seconds in (0, -1, 86401):
        config = {"clientIP": {"timeoutSeconds": seconds}}
        assert faults(sessionAffinity="ClientIP", sessionAffinityConfig=config) == [(path, "Invalid")]
    config = {"clientIP": {"timeoutSeconds": 86400}}
    assert faults(sessionAffinity="ClientIP", sessionAffinityConfig=config) == []


def test_session_affinity_that_nobody_defaulted() -> None:
    for config, path in ((None, ""), ({}, ".clientIP"), ({"clientIP": {}}, ".clientIP.timeoutSeconds")):
        spec: dict[str, Any] = {"ports": [{"port": 80, "targetPort": 80}], "sessionAffinity": "ClientIP"}
        spec |= {"internalTrafficPolicy": "Cluster"} | ({} if config is None else {"sessionAffinityConfig": config})
        view = typed({"metadata": {"name": "web", "namespace": "lab"}, "spec": spec}, Service)
        (error,) = validate_service(view)
        assert str(error) == (
            f"spec.sessionAffinityConfig{path}: Required value: when session affinity type is ClientIP"
        )


def test_cluster_ips_have_to_fit_together() -> None:
    def said(**spec: Any) -> list[str]:
        return [str(error) for error in validate_cluster_ips(typed({"spec": spec}, Service).spec)]

    assert said(clusterIP="10.96.0.5", clusterIPs=["10.96.0.6"]) == [
        'spec.clusterIPs: Invalid value: ["10.96.0.6"]: first value must match `clusterIP`'
    ]
    assert said(clusterIPs=["10.96.0.7"]) == [
        'spec.clusterIPs: Invalid value: ["10.96.0.7"]: must be empty when `clusterIP` is not specified'
    ]
    assert said(clusterIP="10.96.0.8", clusterIPs=["10.96.0.8", "10.96.0.9"]) == [
        'spec.clusterIPs: Invalid value: ["10.96.0.8","10.96.0.9"]: may specify no more than one IP for each IP family'
    ]
    assert said(clusterIP="10.96.0.10", clusterIPs=["10.96.0.10"], ipFamilies=["IPv6"]) == [
        'spec.clusterIPs[0]: Invalid value: "10.96.0.10": expected an IPv6 value as indicated by `ipFamilies[0]`'
    ]
    assert said(clusterIP="None", clusterIPs=["None", "10.96.0.1"]) == [
        'spec.clusterIPs: Invalid value: ["None","10.96.0.1"]: \'None\' must be the first and only value'
    ]
    three = ["10.96.0.1", "::1", "10.96.0.2"]
    assert said(clusterIP="10.96.0.1", clusterIPs=three) == [
        'spec.clusterIPs: Invalid value: ["10.96.0.1","::1","10.96.0.2"]: may only hold up to 2 values'
    ]
    assert said(clusterIP="10.96.0.1") == ["spec.clusterIPs: Required value"]
    assert said(type="ExternalName", clusterIP="x") == []


def test_families_are_known_and_different() -> None:
    families = ["IPv5", "IPv4", "IPv4"]
    found = validate_cluster_ips(ServiceSpec(ip_families=families))
    assert [(error.path, error.kind) for error in found] == [
        ("spec.ipFamilies[0]", "Unsupported"),
        ("spec.ipFamilies[2]", "Duplicate"),
    ]


def test_external_ips_are_no_special_addresses() -> None:
    assert faults(externalIPs=["203.0.113.1", "127.0.0.1", "x"]) == [
        ("spec.externalIPs[1]", "Invalid"),
        ("spec.externalIPs[2]", "Invalid"),
    ]


def test_source_ranges_are_for_load_balancers() -> None:
    path = "spec.LoadBalancerSourceRanges"
    assert faults(type="NodePort", loadBalancerSourceRanges=["10.0.0.0/8"]) == [(path, "Forbidden")]
    ranges = [" 10.0.0.0/8 ", "10.0.0.1/8", "x"]
    assert faults(type="LoadBalancer", loadBalancerSourceRanges=ranges) == [
        (f"{path}[1]", "Invalid"),
        (f"{path}[2]", "Invalid"),
    ]


def test_source_ranges_may_stand_in_an_annotation() -> None:
    name = "service.beta.kubernetes.io/load-balancer-source-ranges"
    path = f"metadata.annotations[{name}]"
    assert faults(type="LoadBalancer", annotations={name: "10.0.0.0/8, 10.64.0.0/16"}) == []
    assert faults(type="LoadBalancer", annotations={name: " "}) == []
    assert faults(type="LoadBalancer", annotations={name: "10.0.0.0/8,x"}) == [(path, "Invalid")]
    assert faults(annotations={name: "10.0.0.0/8"}) == [(path, "Forbidden")]


def test_fields_of_load_balancers() -> None:
    assert faults(allocateLoadBalancerNodePorts=True) == [("spec.allocateLoadBalancerNodePorts", "Forbidden")]
    assert faults(loadBalancerClass="example.net/inner") == [("spec.loadBalancerClass", "Forbidden")]
    assert faults(type="LoadBalancer", loadBalancerClass="b a d") == [("spec.loadBalancerClass", "Invalid")]
    service = made(type="LoadBalancer")
    service.spec.allocate_load_balancer_node_ports = None
    assert [str(error) for error in validate_service(service)] == ["allocateLoadBalancerNodePorts: Required value"]


def test_external_traffic_policy_is_for_what_is_reached_from_outside() -> None:
    assert faults(externalTrafficPolicy="Local") == [("spec.externalTrafficPolicy", "Invalid")]
    assert faults(externalTrafficPolicy="Local", externalIPs=["203.0.113.1"]) == []
    assert faults(type="NodePort", externalTrafficPolicy="Global") == [("spec.externalTrafficPolicy", "Unsupported")]


def test_a_health_check_port_is_for_local_load_balancers() -> None:
    path = "spec.healthCheckNodePort"
    local = {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}
    assert faults(type="NodePort", healthCheckNodePort=30000) == [(path, "Invalid")]
    assert faults(**local) == [(path, "Required")]
    assert faults(**local, healthCheckNodePort=70000) == [(path, "Invalid")]
    assert faults(**local, healthCheckNodePort=30000) == []


def test_topology_annotations_have_to_agree() -> None:
    hints, mode = "service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"
    service = made(annotations={hints: "Auto", mode: "Disabled"})
    assert [error.path for error in validate_service(service)] == [f"metadata.annotations[{mode}]"]
    assert service_warnings(service) == [f"annotation {hints} is deprecated, please use {mode} instead"]


def test_warnings_about_fields_without_effect() -> None:
    service = made(type="ExternalName", externalName="a.test", externalIPs=["203.0.113.1"], ports=[])
    assert service_warnings(service) == ['spec.externalIPs is ignored when spec.type is "ExternalName"']
    assert service_warnings(made(externalName="a.test")) == [
        'spec.externalName is ignored when spec.type is not "ExternalName"'
    ]
    affine = made(clusterIP="None", sessionAffinity="ClientIP")
    assert service_warnings(affine) == ["spec.SessionAffinity is ignored for headless services"]


def test_warnings_about_spellings() -> None:
    service = made(
        type="LoadBalancer",
        clusterIP="FD00::1",
        externalIPs=["2001:DB8::1"],
        loadBalancerIP="2001:DB8::2",
        loadBalancerSourceRanges=["2001:DB8::/64"],
    )
    places = [warning.partition(":")[0] for warning in service_warnings(service)]
    assert places == [
        "spec.clusterIPs[0]",
        "spec.externalIPs[0]",
        "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
        "spec.loadBalancerIP",
        "spec.loadBalancerSourceRanges[0]",
    ]
