"""Why a Service has no endpoints that may be used."""

from __future__ import annotations

from typing import Any

import msgspec

from netlab.cluster.endpointslices import slices_for
from netlab.lab.unready import why_unready
from netlab.objects.endpointslice import EndpointSlice
from netlab.objects.node import Node
from netlab.objects.pod import Pod
from netlab.objects.service import Service

NODES = {"node-a": msgspec.convert({"metadata": {"name": "node-a"}}, Node)}


def pod(name: str, *, ready: str = "True", port_name: str = "http", **metadata: Any) -> Pod:
    value = {
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}, **metadata},
        "spec": {
            "nodeName": "node-a",
            "containers": [{"name": "c", "ports": [{"name": port_name, "containerPort": 80, "protocol": "TCP"}]}],
        },
        "status": {"podIPs": [{"ip": "10.200.1.2"}], "conditions": [{"type": "Ready", "status": ready}]},
    }
    return msgspec.convert(value, Pod)


def service(target: str | int = "http", **spec: Any) -> Service:
    port = {"port": 80, "protocol": "TCP", "targetPort": target, "nodePort": 30080}
    value = {"metadata": {"name": "web", "namespace": "default"}}
    return msgspec.convert({**value, "spec": {"selector": {"app": "web"}, "ports": [port], **spec}}, Service)


def why(asked: Service, *pods: Pod, slices: list[Any] | None = None) -> dict[str, str]:
    made = slices_for(asked, pods, NODES) if slices is None else slices
    found = why_unready([asked], pods, [msgspec.convert(each, EndpointSlice) for each in made])
    return {key: text.en for key, text in found.items()}


def only(found: dict[str, str]) -> str:
    assert set(found) == {"Service default/web 80/tcp", "Service default/web 30080/tcp"}
    assert len(set(found.values())) == 1
    return found["Service default/web 80/tcp"]


def test_ready_endpoints_need_no_reason() -> None:
    assert why(service(), pod("a")) == {}
    assert why(service(publishNotReadyAddresses=True), pod("a", ready="False")) == {}
    assert why(service(), pod("a"), pod("b", ready="False")) == {}


def test_nothing_selected() -> None:
    assert only(why(service(selector={"app": "other"}), pod("a"))) == (
        "no Pod has the labels of its selector (app=other)"
    )
    assert only(why(service())) == "no Pod has the labels of its selector (app=web)"


def test_a_target_port_that_no_pod_has() -> None:
    assert only(why(service("web"), pod("a"), pod("b"))) == (
        'its targetPort "web" (tcp) names no port of the Pods that it selects (Pod default/a, Pod default/b)'
    )


def test_pods_that_are_not_ready() -> None:
    told = only(why(service(), pod("a", ready="False"), pod("b", port_name="other")))
    assert told == "it selects Pod default/a, and none of them is ready"


def test_pods_that_end() -> None:
    told = only(why(service(), pod("a", deletionTimestamp="2026-01-01T00:00:00Z")))
    assert told == "it selects Pod default/a, and all of them have ended or are about to"


def test_without_a_selector() -> None:
    assert only(why(service(selector={}), pod("a"))) == "it has no selector, and no EndpointSlice names it"
    metadata = {"name": "web-1", "namespace": "default", "labels": {"kubernetes.io/service-name": "web"}}
    made = {
        "metadata": metadata,
        "addressType": "IPv4",
        "ports": [{"name": "", "port": 80, "protocol": "TCP"}],
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": False}}],
    }
    told = only(why(service(selector={}), slices=[made]))
    assert told == "its EndpointSlices (web-1) have no ready endpoint with this port"
    made["endpoints"] = [{"addresses": ["10.0.0.1"]}]
    assert why(service(selector={}), slices=[made]) == {}
