"""Objects of a running lab change by command: all that is given, or nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import Machine
from tests.conftest import NODEPORT

pytestmark = [pytest.mark.kernel, pytest.mark.xdist_group("apply")]

SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: second}
spec: {type: NodePort, clusterIP: 10.96.0.77, selector: {app: web}, ports: [{port: 80, nodePort: 30077}]}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: web-9, labels: {app: web-9}}
spec: {nodeName: node-b, containers: [{name: web, image: nginx, ports: [{containerPort: 80}]}]}
"""


@pytest.fixture
def running(machine: Machine) -> Iterator[Machine]:
    """A lab named "mine" that stays."""
    machine.run("up", NODEPORT, "--name", "mine", "--mode", "nftables", "--detach").done()
    yield machine
    machine.run("down", "mine").done()


def verdict(machine: Machine, to: str, sender: str = "client") -> str:
    walk = machine.run("walk", "mine", "--from", sender, "--to", to, "--timeout", "0.5", "-o", "json")
    return str(json.loads(walk.out)["verdict"])


def test_services_and_pods_come_and_go(running: Machine) -> None:
    files = [running.lab(SERVICE, "service.yaml"), running.lab(POD, "pod.yaml")]
    done = running.run("apply", "mine", *files)
    done.done()
    assert done.out.splitlines() == ["Service default/second created", "Pod default/web-9 created"]
    assert verdict(running, "192.168.60.123:30077") == "answered"
    assert verdict(running, "10.96.0.1:80", "web-9") == "answered"
    again = running.run("apply", "mine", *files, NODEPORT, "-o", "json")
    again.done()
    assert {each["action"] for each in json.loads(again.out)} == {"unchanged"}
    gone = running.run("delete", "mine", "service/second", "Pod/default/web-9")
    assert gone.out.splitlines() == ["Service default/second deleted", "Pod default/web-9 deleted"]
    assert verdict(running, "192.168.60.123:30077") == "refused"
    running.run("walk", "mine", "--from", "web-9", "--to", "10.96.0.1:80").said(2, "web-9")


def test_nothing_is_half_applied(running: Machine) -> None:
    good_and_bad = running.lab(SERVICE + "---" + POD.replace("node-b", "node-z"))
    running.run("apply", "mine", good_and_bad).said(2, "spec.nodeName", '"node-z"', "there is no such node")
    assert verdict(running, "192.168.60.123:30077") == "refused"
    # What it would have got is free.
    running.run("apply", "mine", running.lab(SERVICE.replace("second", "third"))).done()
    assert verdict(running, "192.168.60.123:30077") == "answered"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (SERVICE.replace("30077", "30080"), ["spec.ports[0].nodePort", "provided port is already allocated"]),
        (SERVICE.replace("second", "web").replace("30077", "30080"), ["clusterIPs[0]", "may not change once set"]),
        (SERVICE.replace("second", "Second"), ["metadata.name", "RFC"]),
        (POD.replace("web-9", "web-1").replace("nginx", "other"), ["Pod default/web-1", "spec", "Forbidden"]),
        ("apiVersion: v1\nkind: Node\nmetadata: {name: node-z}\n", ["Node node-z", "no such node", "node-a, node-b"]),
        ("apiVersion: netlab/v1alpha1\nkind: Lab\nmetadata: {name: other}\n", ["Lab document", "start it anew"]),
        ("kind: [", ["not readable as YAML"]),
    ],
)
def test_what_cannot_be_is_refused(running: Machine, text: str, parts: list[str]) -> None:
    running.run("apply", "mine", running.lab(text)).said(2, *parts)


def test_what_is_not_there_cannot_go(running: Machine) -> None:
    running.run("delete", "mine", "service/none").said(2, 'services "none" not found')
    running.run("delete", "mine", "node/node-a").said(2, "Service, EndpointSlice, Pod")
    running.run("delete", "mine", "web").said(2, "KIND/NAME")
    running.run("apply", "other", Path(NODEPORT)).said(2, "other")
