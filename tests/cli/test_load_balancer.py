"""A lab with a load balancer: Services get addresses, somebody answers for them, walks arrive."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import netlab
from netlab.model.errors import BadInput
from tests.cli.command import until

pytestmark = [pytest.mark.kernel, pytest.mark.xdist_group("load-balancer")]

LAB = """
apiVersion: netlab/v1alpha1
kind: Lab
metadata: {name: balanced}
spec:
  loadBalancer: {mode: MODE, pool: POOL}
  nodes:
  - {name: node-a, addresses: [192.168.60.11], podCIDRs: [10.200.1.0/24]}
  - {name: node-b, addresses: [192.168.60.12], podCIDRs: [10.200.2.0/24]}
  - {name: node-c, addresses: [192.168.60.13], podCIDRs: [10.200.3.0/24]}
---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clusterCIDR: 10.200.0.0/16
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: LoadBalancer, externalTrafficPolicy: POLICY, selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web-1, labels: {app: web}}
spec: {nodeName: node-b, containers: [{name: web, image: nginx, ports: [{containerPort: 80}]}]}
"""


def lab_file(folder: Path, mode: str, policy: str = "Local", pool: str = "192.168.60.240/29") -> Path:
    file = folder / "lab.yaml"
    file.write_text(LAB.replace("MODE", mode).replace("POLICY", policy).replace("POOL", pool))
    return file


@pytest.mark.parametrize("pool", ["192.168.60.240/29", "203.0.113.0/28"])
def test_layer_2(tmp_path: Path, pool: str) -> None:
    """The node with the endpoint answers; also for a pool that is no part of the node network."""
    ip = pool.partition("/")[0]
    with netlab.open_lab(lab_file(tmp_path, "l2", pool=pool)) as lab:
        until(lambda: lab.walk("client", f"{ip}:80").verdict == "answered", "answered", 30)
        walk = lab.walk("client", f"{ip}:80")
        assert walk.endpoint is not None
        assert walk.endpoint.pod == "default/web-1"
        assert walk.seen_by_pod is not None
        assert walk.seen_by_pod.startswith("192.168.1.")
        places = [step.place for step in walk.steps if step.direction == "request"]
        assert "node-b" in places
        assert not {"node-a", "node-c"} & set(places)
        assert lab.walk("client", f"{ip[:-1]}1:80", timeout=0.3).verdict != "answered"


@pytest.mark.parametrize("policy", ["Local", "Cluster"])
def test_a_box_in_front(tmp_path: Path, policy: str) -> None:
    """Connections go to nodes that say that they are well: with policy Local, the one with the endpoint alone."""
    with netlab.open_lab(lab_file(tmp_path, "proxy", policy)) as lab:

        def said() -> str:
            status, out, _ = lab.run("client", "curl", "-sS", "-m", "2", "http://192.168.60.240/")
            return json.loads(out)["client"].rpartition(":")[0] if status == 0 and out else ""

        until(lambda: bool(said()), "an answer", 30)
        seen = {said() for _ in range(6)}
        if policy == "Local":
            assert seen == {"192.168.60.247"}
        else:
            until(lambda: {said() for _ in range(6)} == {"10.200.2.1", "192.168.60.11", "192.168.60.13"}, "all", 60)


def test_a_pool_that_is_used_up_is_noted(tmp_path: Path) -> None:
    file = lab_file(tmp_path, "l2", pool="192.168.60.11/32")
    with netlab.open_lab(file) as lab:
        assert any("no free IPv4 address left" in note.en for note in lab.notes)


def test_a_mode_needs_a_pool(tmp_path: Path) -> None:
    with (
        pytest.raises(BadInput, match=r"spec\.loadBalancer\.pool"),
        netlab.open_lab(lab_file(tmp_path, "l2", pool='""')),
    ):
        pass
