"""What a node's kube-proxy serves besides rules, asked in a running lab, and mode userspace as a process."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

import netlab
from tests.cli.command import until
from tests.conftest import NODEPORT

pytestmark = [pytest.mark.kernel, pytest.mark.xdist_group("proxy-companions")]

NODE = "node-a"
TARGET = "192.168.60.123:30080"

BALANCED = """
apiVersion: v1
kind: Service
metadata: {name: balanced}
spec:
  type: LoadBalancer
  externalTrafficPolicy: Local
  healthCheckNodePort: 31900
  selector: {app: web}
  ports: [{name: http, port: 80, nodePort: 31080}, {name: other, port: 81, nodePort: 31081, targetPort: 80}]
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[netlab.Lab]:
    file = tmp_path_factory.mktemp("balanced") / "balanced.yaml"
    file.write_text(BALANCED)
    with netlab.open_lab(NODEPORT, file, mode="nftables") as lab:
        yield lab


@pytest.fixture(scope="module")
def old_lab() -> Iterator[netlab.Lab]:
    with netlab.open_lab(NODEPORT, mode="userspace") as lab:
        yield lab


def fetch(lab: netlab.Lab, place: str, url: str) -> tuple[int, str]:
    """Status and body of an HTTP answer."""
    status, out, words = lab.run(place, "curl", "-sS", "-w", "\n%{http_code}", url)
    assert status == 0, words
    body, _, code = out.decode().rpartition("\n")
    return int(code), body


def test_health_of_the_proxy_and_of_a_service(lab: netlab.Lab) -> None:
    assert lab.walk("client", TARGET).verdict == "answered"
    status, body = fetch(lab, "client", "http://192.168.60.123:10256/healthz")
    assert status == 200
    told = json.loads(body)
    assert told["nodeEligible"] is True
    assert set(told["status"]) == {"IPv4", "IPv6"}
    status, body = fetch(lab, "client", "http://192.168.60.123:31900/")
    told = json.loads(body)
    assert told["service"] == {"namespace": "default", "name": "balanced"}
    assert (status, told["localEndpoints"]) == (200, 2)
    status, body = fetch(lab, "client", "http://192.168.60.124:31900/any")
    assert (status, json.loads(body)["localEndpoints"]) == (200, 1)


def test_metrics_on_loopback_alone(lab: netlab.Lab) -> None:
    status, body = fetch(lab, NODE, "http://127.0.0.1:10249/metrics")
    assert status == 200
    assert 'kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family="IPv4"} 1' in body.splitlines()
    assert fetch(lab, NODE, "http://127.0.0.1:10249/proxyMode") == (200, "nftables")
    assert lab.run("client", "curl", "-sS", "http://192.168.60.123:10249/metrics")[0] != 0


def test_a_walk_to_the_proxys_listener(old_lab: netlab.Lab) -> None:
    walk = old_lab.walk("client", TARGET)
    assert (walk.verdict, walk.mode, walk.gaps) == ("answered", "userspace", ())
    translated = next(step for step in walk.steps if step.action == "DNAT")
    assert translated.chain == "KUBE-NODEPORT-CONTAINER"
    assert translated.origin is not None
    assert translated.origin.field == "spec.ports[0].nodePort"


def test_connections_die_with_the_proxy_and_rules_do_not(old_lab: netlab.Lab) -> None:
    def said() -> list[str]:
        return [json.loads(fetch(old_lab, "client", f"http://{TARGET}/")[1])["pod"] for _ in range(6)]

    before = said()
    assert len(set(before)) == 3
    assert before[:3] == before[3:]
    old_lab.kill_proxy(NODE)
    _, saved, _ = old_lab.run(NODE, "iptables-save")
    assert b"KUBE-NODEPORT-CONTAINER -p tcp" in saved
    assert old_lab.walk("client", TARGET).verdict == "refused"
    old_lab.restart_proxy(NODE)
    walk = old_lab.walk("client", TARGET)
    assert walk.verdict == "answered"
    assert all(step.origin for step in walk.steps if step.action == "DNAT")


def test_other_modes_take_its_rules_away(old_lab: netlab.Lab) -> None:
    for mode in ("iptables", "userspace", "nftables", "userspace"):
        old_lab.restart_proxy(NODE, mode)
        _, saved, _ = old_lab.run(NODE, "iptables-save")
        assert (b"KUBE-PORTALS-" in saved) == (mode == "userspace")
        assert (b"KUBE-SVC-" in saved) == (mode == "iptables")
        assert old_lab.walk("client", TARGET).verdict == "answered"


def test_its_rules_are_repaired(old_lab: netlab.Lab) -> None:
    old_lab.restart_proxy(NODE, "userspace")
    status, _, words = old_lab.run(NODE, "iptables", "-t", "nat", "-F")
    assert status == 0, words
    until(lambda: b"30080" in old_lab.run(NODE, "iptables-save", "-t", "nat")[1], "repaired", 10)
    assert old_lab.walk("client", TARGET).verdict == "answered"
