"""Labs to measure with, as text, and what the bare floor has to make for the same fabric."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from netlab.lab.input import read_input
from netlab.lab.plan import FabricPlan, plan_fabric, plan_pod
from netlab.lab.resolve import resolve
from netlab.objects.yaml_source import Source

FLOOR = Path(__file__).with_name("floor_build.py")
UNSHARED = ("unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--kill-child")
NODE_PORT_TARGET = "192.168.60.11:30080"


def lab_text(pods: int, nodes: int = 3) -> bytes:
    """A lab of some nodes, one NodePort Service and that many Pods behind it, spread over the nodes."""
    names = [f"node-{chr(ord('a') + number)}" for number in range(nodes)]
    listed = ", ".join(f"{{name: {name}}}" for name in names)
    documents = [
        f"apiVersion: netlab/v1alpha1\nkind: Lab\nspec: {{nodes: [{listed}]}}\n",
        "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n"
        "spec: {type: NodePort, selector: {app: web}, ports: [{port: 80, nodePort: 30080}]}\n",
    ]
    documents += [
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: web-{number}, labels: {{app: web}}}}\n"
        f"spec: {{nodeName: {names[number % nodes]}, "
        "containers: [{name: web, image: web, ports: [{containerPort: 80}]}]}\n"
        for number in range(pods)
    ]
    return "---\n".join(documents).encode()


def plan_of(lab: bytes) -> FabricPlan:
    resolved = resolve(read_input([Source("lab.yaml", lab)]), None)
    plan = plan_fabric(resolved.nodes, resolved.clients, resolved.declared, resolved.wiring)
    for pod in resolved.pods:
        plan_pod(plan, pod)
    return plan


def inside(what: str, lab: bytes) -> Any:
    """What ``build_inside.py`` prints for it."""
    command = [sys.executable, "-m", "bench.build_inside", what]
    return json.loads(subprocess.run(command, input=lab, capture_output=True, check=True).stdout)


def saved_rules(lab: bytes) -> list[Any]:
    """``[[node, 4|6, text]]`` of the running lab, without the match on accounting objects, which no text makes."""
    return [
        [node, family, re.sub(" -m nfacct --nfacct-name +[^ ]+", "", text)]
        for node, family, text in inside("rules", lab)
    ]


def floor_input(plan: FabricPlan, rules: list[Any]) -> dict[str, Any]:
    """The plan in the words of ``floor_build.py``: the same places, links, addresses and routes; a process a Pod.

    ``rules``: ``[[node, 4|6, text]]``, to be loaded in the nodes.
    """
    setups = plan.setups.values()
    index = {setup.name: setup.indexes for setup in setups}
    return {
        "namespaces": [setup.name for setup in setups],
        "bridges": [[setup.name, name, number] for setup in setups for name, number, _ in setup.bridges],
        "veths": [
            [
                *(each.one.place, each.one.interface, each.one.index),
                *(each.other.place, each.other.interface, each.other.index),
            ]
            for each in plan.veths
        ],
        "ports": [
            [setup.name, index[setup.name][port], index[setup.name][bridge]]
            for setup in setups
            for port, bridge in setup.ports
        ],
        "addresses": [
            [setup.name, {"lo": 1, **index[setup.name]}[device], str(each)]
            for setup in setups
            for device, each in setup.addresses
        ],
        "routes": [
            [
                setup.name,
                str(route.destination),
                str(route.via) if route.via is not None else None,
                index[setup.name][route.device] if route.device is not None else None,
            ]
            for setup in setups
            for route in setup.routes
        ],
        "processes": [setup.name for setup in setups if setup.kind == "pod"],
        "rules": rules,
    }


def build_floor_ms(wanted: dict[str, Any]) -> dict[str, float]:
    """Milliseconds by part that the bare script takes for it."""
    done = subprocess.run(
        [*UNSHARED, sys.executable, str(FLOOR)],
        input=json.dumps(wanted).encode(),
        capture_output=True,
        check=True,
    )
    parts: dict[str, float] = json.loads(done.stdout)
    return parts
