"""Decoding: the sentences are those of the API server (recorded, or of Go's encoding/json)."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import field

from netlab.objects.decode import WrongType, closest, decode, typed
from netlab.objects.endpointslice import EndpointSlice
from netlab.objects.meta import Object, ObjectMeta
from netlab.objects.node import Node
from netlab.objects.pod import Pod
from netlab.objects.service import Service
from netlab.objects.yaml_source import Source, documents


class ConfigMap(Object):
    """A kind that the recordings use."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    data: dict[str, str] | None = None


def service(**port: object) -> dict[str, Any]:
    return {"metadata": {"name": "web"}, "spec": {"ports": [port]}}


WRONG_TYPES = [
    (
        service(port="80"),
        "spec.ports[0].port",
        "json: cannot unmarshal string into Go struct field ServicePort.spec.ports.port of type int32",
        ("string", "int32"),
    ),
    (
        service(port=80.5),
        "spec.ports[0].port",
        "json: cannot unmarshal number 80.5 into Go struct field ServicePort.spec.ports.port of type int32",
        ("number 80.5", "int32"),
    ),
    (
        service(port=2**31),
        "spec.ports[0].port",
        "json: cannot unmarshal number 2147483648 into Go struct field ServicePort.spec.ports.port of type int32",
        ("number 2147483648", "int32"),
    ),
    (
        service(port=80, targetPort=True),
        "spec.ports[0].targetPort",
        "json: cannot unmarshal bool into Go struct field ServicePort.spec.ports.targetPort of type int32",
        ("bool", "int32"),
    ),
    (
        service(port=80, protocol=["TCP"]),
        "spec.ports[0].protocol",
        "json: cannot unmarshal array into Go struct field ServicePort.spec.ports.protocol of type v1.Protocol",
        ("array", "v1.Protocol"),
    ),
    (
        {"metadata": {"labels": {"app": 1}}},
        "metadata.labels[app]",
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ("number", "string"),
    ),
    (
        {"spec": {"ports": {"port": 80}}},
        "spec.ports",
        "json: cannot unmarshal object into Go struct field ServiceSpec.spec.ports of type []v1.ServicePort",
        ("object", "[]v1.ServicePort"),
    ),
    (
        {"spec": {"ports": [80]}},
        "spec.ports[0]",
        "json: cannot unmarshal number into Go struct field ServiceSpec.spec.ports of type v1.ServicePort",
        ("number", "v1.ServicePort"),
    ),
    (
        {"spec": "ClusterIP"},
        "spec",
        "json: cannot unmarshal string into Go struct field Service.spec of type v1.ServiceSpec",
        ("string", "v1.ServiceSpec"),
    ),
    (
        {"spec": {"selector": ["app"]}},
        "spec.selector",
        "json: cannot unmarshal array into Go struct field ServiceSpec.spec.selector of type map[string]string",
        ("array", "map[string]string"),
    ),
    (["a"], "", "json: cannot unmarshal array into Go value of type v1.Service", ("array", "v1.Service")),
]


@pytest.mark.parametrize(("value", "path", "message", "found_and_allowed"), WRONG_TYPES)
def test_a_value_of_the_wrong_type_is_refused_in_the_words_of_the_api_server(
    value: object, path: str, message: str, found_and_allowed: tuple[str, str]
) -> None:
    with pytest.raises(WrongType) as raised:
        decode(value, Service)
    wrong = raised.value
    assert (wrong.path, wrong.message, (wrong.found, wrong.allowed)) == (path, message, found_and_allowed)


def test_the_recorded_words_for_a_number_where_text_belongs() -> None:
    with pytest.raises(WrongType) as raised:
        decode({"metadata": {"name": "chart3"}, "data": {"depth": 12}}, ConfigMap)
    assert raised.value.message == ("json: cannot unmarshal number into Go struct field ConfigMap.data of type string")


def test_the_first_wrong_value_of_the_document_is_named() -> None:
    value = {"spec": {"type": 3, "ports": [{"port": "x"}]}, "metadata": {"name": 1}}
    with pytest.raises(WrongType) as raised:
        decode(value, Service)
    assert raised.value.path == "spec.type"


def test_untyped_parts_are_checked_too() -> None:
    probe = {"httpGet": {"port": "web"}, "periodSeconds": "10"}
    with pytest.raises(WrongType) as raised:
        decode({"spec": {"containers": [{"name": "c", "readinessProbe": probe}]}}, Pod)
    assert raised.value.path == "spec.containers[0].readinessProbe.periodSeconds"
    assert raised.value.message == (
        "json: cannot unmarshal string into Go struct field "
        "Probe.spec.containers.readinessProbe.periodSeconds of type int32"
    )


def test_unknown_fields_are_named_in_the_order_of_the_document_and_left_out() -> None:
    value = {"metadata": {"name": "uf", "shade": "blue"}, "data": {"a": "b"}, "extra": {"x": 1}}
    decoded = decode(value, ConfigMap)
    assert decoded.unknown == ["metadata.shade", "extra"]
    assert decoded.value == {"metadata": {"name": "uf"}, "data": {"a": "b"}}


def test_unknown_fields_have_indexes_in_their_paths() -> None:
    decoded = decode(service(port=80, nodeport=30080), Service)
    assert decoded.unknown == ["spec.ports[0].nodeport"]


def test_field_names_are_matched_exactly() -> None:
    assert decode({"Spec": {}, "spec": {"clusterip": "None"}}, Service).unknown == ["Spec", "spec.clusterip"]


def test_fields_that_kubernetes_knows_are_not_unknown() -> None:
    status = {"qosClass": "BestEffort", "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": None}]}
    assert decode({"status": status}, Pod).unknown == []
    assert decode({"status": {"nodeInfo": {"osImage": "x"}, "capacity": {"cpu": "4"}}}, Node).unknown == []


def test_null_is_the_same_as_nothing() -> None:
    value = {"metadata": {"name": "web", "labels": {"a": None}}, "spec": {"ports": None, "type": None}, "status": None}
    decoded = decode(value, Service)
    assert decoded.value == {"metadata": {"name": "web", "labels": {"a": ""}}, "spec": {}}
    assert decoded.object.spec.ports == []
    assert decoded.object.spec.type == "ClusterIP"


def test_null_in_a_list_is_an_empty_item() -> None:
    decoded = decode({"addressType": "IPv4", "endpoints": [None, {"addresses": [None]}]}, EndpointSlice)
    assert decoded.value["endpoints"] == [{}, {"addresses": [""]}]


def test_whole_floats_are_numbers() -> None:
    decoded = decode(service(port=8.0, targetPort=9.0), Service)
    assert decoded.value["spec"]["ports"] == [{"port": 8, "targetPort": 9}]
    assert isinstance(decoded.value["spec"]["ports"][0]["port"], int)


def test_a_target_port_is_a_number_or_a_name() -> None:
    ports = [{"port": 1, "targetPort": 80}, {"port": 2, "targetPort": "web"}]
    view = decode({"spec": {"ports": ports}}, Service).object
    assert [port.target_port for port in view.spec.ports] == [80, "web"]


def test_large_numbers_fit_where_kubernetes_has_64_bits() -> None:
    assert decode({"metadata": {"generation": 2**40}}, Service).object.metadata.generation == 2**40


def test_the_value_shares_nothing_with_the_input() -> None:
    pod = {"spec": {"containers": [{"name": "c", "securityContext": {"runAsUser": 1}, "env": [{"name": "A"}]}]}}
    before = copy.deepcopy(pod)
    value = decode(pod, Pod).value
    value["spec"]["containers"][0]["securityContext"]["runAsUser"] = 2
    value["spec"]["containers"][0]["env"].append({"name": "B"})
    assert pod == before


def test_values_that_know_their_lines_are_read_like_any_other() -> None:
    text = b"kind: Service\nmetadata: {name: web}\nspec:\n  ports:\n  - port: 80\n    nodeport: 30080\n"
    document = next(iter(documents(Source("a.yaml", text))))
    decoded = decode(document.value, Service)
    assert decoded.unknown == ["spec.ports[0].nodeport"]
    assert document.locate(decoded.unknown[0]) == 6
    assert type(decoded.value["spec"]) is dict


def test_a_defaulted_value_can_be_seen_typed_again() -> None:
    value = decode(service(port=80), Service).value
    value["spec"]["ports"][0]["nodePort"] = 30080
    assert typed(value, Service).spec.ports[0].node_port == 30080


@pytest.mark.parametrize(
    ("path", "type_", "name"),
    [
        ("spec.ports[0].nodeport", Service, "nodePort"),
        ("spec.selectr", Service, "selector"),
        ("sepc", Service, "spec"),
        ("spec.clusterip", Service, "clusterIP"),
        ("spec.containers[1].readinessprobe", Pod, "readinessProbe"),
        ("spec.containers[1].livenessProbe.httpget", Pod, "httpGet"),
        ("endpoints[3].adresses", EndpointSlice, "addresses"),
        ("spec.colour", Service, None),
        ("spec.nothing.port", Service, None),
        ("metadata.labels.app", Service, None),
    ],
)
def test_the_closest_name_is_proposed(path: str, type_: type[msgspec.Struct], name: str | None) -> None:
    assert closest(path, type_) == name


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["metadata", "name", "labels", "spec", "ports", "port", "targetPort", "selector", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(JSON)
def test_any_json_is_read_or_refused(value: object) -> None:
    before = json.dumps(value)
    with suppress(WrongType):
        decoded = decode(value, Service)
        assert typed(decoded.value, Service) == decoded.object
        assert decode(decoded.value, Service).unknown == []
    assert json.dumps(value) == before
