"""Ten megabytes of lab file: real ones, faulty ones, endless ones. All in bounded time and memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from netlab.engine.files import LIMIT_BYTES
from tests.conftest import ROOT

Json = dict[str, Any]

SIZE = 10_000_000
PIECES = {
    "empty documents": "---\n{}\n",
    "objects without a name": "---\napiVersion: v1\nkind: Pod\n",
    "unknown fields": "---\napiVersion: v1\nkind: Pod\n" + "".join(f"a{number}: 1\n" for number in range(1000)),
    "Pods without room": "---\napiVersion: v1\nkind: Pod\nmetadata: {name: a%d}\n"
    "spec: {containers: [{name: a, image: b}]}\n# " + "x" * 700 + "\n",
    "node ports": "---\napiVersion: v1\nkind: Service\nmetadata: {name: a%d}\n"
    "spec: {type: NodePort, ports: [{port: 80}]}\n# " + "x" * 900 + "\n",
}
ENDLESS = {
    "flow mappings": "{a: " * (SIZE // 4),
    "block sequences": "- " * (SIZE // 2),
    "an open quote": "a: '" + "x" * SIZE,
    "a word": "x" * SIZE,
    "an anchor": "&" + "a" * SIZE + " x",
    "items": "- 1\n" * (SIZE // 4),
    "a literal": "a: |\n" + " \n" * (SIZE // 2),
    "merges": "a: &a [x,x,x,x,x,x,x,x,x]\n"
    + "".join(f"{chr(c)}: &{chr(c)} {{<<: [{','.join([f'*{chr(c - 1)}'] * 9)}]}}\n" for c in range(98, 123)),
}

MEASURE = """
import resource, sys, time
from netlab.engine.files import read_files
from netlab.lab.input import read_input
from netlab.lab.resolve import resolve
from netlab.model.errors import BadInput
from netlab.objects.yaml_source import Source

limit = int(sys.argv[2]) * 1024 * 1024
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
begin = time.process_time()
sources = [Source(name, data) for name, data in read_files(sys.argv[1:2])]
try:
    resolved = resolve(read_input(sources))
    outcome = f"{len(resolved.pods)} Pods"
except BadInput as error:
    outcome = str(error)[:500]
print(time.process_time() - begin)
print(outcome)
"""


def measured(path: Path, megabytes: int) -> tuple[float, str]:
    """Seconds of processor time that reading takes in a process of its own with so much memory, and what came of it."""
    command = [sys.executable, "-c", MEASURE, str(path), str(megabytes)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    seconds, outcome = result.stdout.split("\n", 1)
    return float(seconds), outcome


def cluster(services: int, pods: int, nodes: int) -> Json:
    """What ``kubectl get nodes,svc,pods -A -o json`` says of a cluster, with the fields that are long."""
    items = [_node(number) for number in range(nodes)]
    items += [_service(number) for number in range(services)]
    items += [_pod(number, number % nodes, number // nodes, services) for number in range(pods)]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _node(number: int) -> Json:
    cidr = f"10.{100 + number}.0.0/16"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": _metadata(f"n{number}"),
        "spec": {"podCIDR": cidr, "podCIDRs": [cidr]},
        "status": {"addresses": [{"type": "InternalIP", "address": f"192.168.60.{number + 10}"}]},
    }


def _service(number: int) -> Json:
    address = f"10.96.{number // 250}.{number % 250 + 2}"
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(f"s{number}", "default"),
        "spec": {
            "type": "ClusterIP",
            "clusterIP": address,
            "clusterIPs": [address],
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "selector": {"app": f"a{number}"},
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}],
        },
    }


def _pod(number: int, node: int, host: int, services: int) -> Json:
    address = f"10.{100 + node}.{host // 250}.{host % 250 + 2}"
    container = {
        "name": "c",
        "image": "nginx:1.25",
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "resources": {"limits": {"cpu": "100m", "memory": "128Mi"}},
        "env": [{"name": f"V{each}", "value": "x" * 40} for each in range(8)],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(f"p{number}", "default") | {"labels": {"app": f"a{number % services}"}},
        "spec": {"nodeName": f"n{node}", "containers": [container]},
        "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]},
    }


def _metadata(name: str, namespace: str = "") -> Json:
    metadata: Json = {"name": name, "uid": f"u-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    metadata["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "x" * 700}
    return metadata | ({"namespace": namespace} if namespace else {})


class TestLargeFiles:
    @pytest.mark.parametrize("form", ["json", "yaml"])
    def test_ten_megabytes_of_a_cluster(self, tmp_path: Path, form: str) -> None:
        value = cluster(services=2000, pods=4000, nodes=20)
        path = tmp_path / f"lab.{form}"
        if form == "json":
            path.write_text(json.dumps(value, indent=1))
        else:
            path.write_text(yaml.dump(value, Dumper=yaml.CSafeDumper, sort_keys=False))
        assert 8_000_000 < path.stat().st_size < LIMIT_BYTES
        seconds, outcome = measured(path, 700)
        assert outcome.startswith("4000 Pods")
        assert seconds < 20

    @pytest.mark.parametrize("piece", PIECES.values(), ids=PIECES)
    def test_ten_megabytes_of_faults(self, tmp_path: Path, piece: str) -> None:
        path = tmp_path / "lab.yaml"
        path.write_text("".join(piece.replace("%d", str(number)) for number in range(SIZE // len(piece))))
        seconds, outcome = measured(path, 900)
        assert outcome.startswith(str(path))
        assert seconds < 30

    @pytest.mark.parametrize("text", ENDLESS.values(), ids=ENDLESS)
    def test_ten_megabytes_of_nothing(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "lab.yaml"
        path.write_text(text)
        seconds, outcome = measured(path, 900)
        assert outcome.startswith(f"{path}:")
        assert seconds < 15
