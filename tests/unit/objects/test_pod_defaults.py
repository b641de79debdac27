from __future__ import annotations

import copy
from typing import Any

import pytest

from netlab.objects.pod_defaults import default_pod, pull_policy


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("sail", "Always"),
        ("sail:latest", "Always"),
        ("registry.example:5000/sail", "Always"),
        ("sail:1", "IfNotPresent"),
        ("registry.example:5000/team/sail:1", "IfNotPresent"),
        ("sail@sha256:" + "0" * 64, "IfNotPresent"),
        ("sail:latest@sha256:" + "0" * 64, "Always"),
        ("", "IfNotPresent"),
    ],
)
def test_the_tag_decides_when_an_image_is_pulled(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


def test_containers() -> None:
    container: dict[str, Any] = {
        "name": "c",
        "image": "a:1",
        "ports": [{"containerPort": 80}],
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
        "readinessProbe": {"grpc": {"port": 9000}, "periodSeconds": 3},
        "lifecycle": {"preStop": {"httpGet": {"port": 80}}, "stopSignal": "SIGTERM"},
        "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
    }
    pod: dict[str, Any] = {"spec": {"containers": [container], "initContainers": [{"name": "i", "image": "b"}]}}
    default_pod(pod)
    assert container == {
        "name": "c",
        "image": "a:1",
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "ports": [{"containerPort": 80, "protocol": "TCP"}],
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}},
        "readinessProbe": {
            "grpc": {"port": 9000, "service": ""},
            "timeoutSeconds": 1,
            "periodSeconds": 3,
            "successThreshold": 1,
            "failureThreshold": 3,
        },
        "lifecycle": {"preStop": {"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}}, "stopSignal": "SIGTERM"},
        "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP", "apiVersion": "v1"}}}],
    }
    assert pod["spec"]["initContainers"][0]["resources"] == {}


def test_ports_on_the_node_s_network_are_ports_of_the_node() -> None:
    ports = [{"containerPort": 80}, {"containerPort": 81, "hostPort": 81}]
    default_pod({"spec": {"hostNetwork": True, "containers": [{"name": "c", "ports": ports}]}})
    assert [port["hostPort"] for port in ports] == [80, 81]


def test_volumes() -> None:
    token = {"serviceAccountToken": {"path": "token"}}
    field = {"downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}}
    volumes: list[dict[str, Any]] = [{"name": "a"}, {"name": "b", "projected": {"sources": [token, field]}}]
    default_pod({"spec": {"volumes": volumes}})
    assert volumes[0] == {"name": "a", "emptyDir": {}}
    assert volumes[1]["projected"]["defaultMode"] == 420
    assert token["serviceAccountToken"] == {"path": "token", "expirationSeconds": 3600}
    assert field["downwardAPI"]["items"][0]["fieldRef"] == {"fieldPath": "metadata.name", "apiVersion": "v1"}


def test_defaulting_twice_changes_nothing() -> None:
    pod: dict[str, Any] = {"spec": {"containers": [{"name": "c", "livenessProbe": {"tcpSocket": {"port": 80}}}]}}
    default_pod(pod)
    again = copy.deepcopy(pod)
    default_pod(again)
    assert again == pod
