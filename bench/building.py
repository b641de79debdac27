"""How long a lab takes to come up and to be gone, beside bare netlink for the same fabric."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.figures import Figure, median
from bench.labs import NODE_PORT_TARGET, build_floor_ms, floor_input, inside, lab_text, plan_of, saved_rules
from netlab.engine.client import EngineClient, start_engine

COMMAND = Path(sys.executable).with_name("kube-netlab")


def first_walk_ms(lab: bytes) -> float:
    """From nothing to the finished table: the whole command, imports and teardown included."""
    with tempfile.NamedTemporaryFile(suffix=".yaml") as file:
        file.write(lab)
        file.flush()
        began = time.perf_counter()
        subprocess.run(
            [COMMAND, "walk", file.name, "--from", "client", "--to", NODE_PORT_TARGET],
            stdout=subprocess.DEVNULL,
            check=True,
        )
        return (time.perf_counter() - began) * 1000


def build_ms(lab: bytes) -> tuple[float, EngineClient]:
    """From a read lab file to a lab with every Pod listening and every node programmed; and that lab."""
    client = start_engine()
    client.load([("lab.yaml", lab)], None)
    began = time.perf_counter()
    client.start()
    return (time.perf_counter() - began) * 1000, client


def killed_ms(client: EngineClient) -> float:
    """From SIGKILL of the engine until the kernel has nothing of the lab any more.

    The engine is PID 1 of the lab's pid namespace: the kernel lets its parent see its end only when every other process
    of the lab is gone. The namespaces' own end is awaited through the peers of their links being gone with them.
    """
    assert client.process is not None
    pid = client.process.pid
    descriptor = os.pidfd_open(pid)
    began = time.perf_counter()
    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    os.waitpid(pid, 0)
    took = (time.perf_counter() - began) * 1000
    os.close(descriptor)
    client.close()
    return took


def run(*, smoke: bool) -> Iterator[Figure]:
    rounds = 3 if smoke else 9
    ten = lab_text(10)
    first = [first_walk_ms(ten) for _ in range(rounds)]
    yield Figure("3 nodes + 10 Pods: command to first walk", median(first), "ms", 1000)
    for pods in (10, 100):
        lab = lab_text(pods)
        wanted = floor_input(plan_of(lab), saved_rules(lab))
        build_floor_ms(wanted)
        floors, fabrics, builds, ends = [], [], [], []
        for _ in range(rounds):
            floors.append(build_floor_ms(wanted))
            fabrics.append(inside("fabric", lab))
            took, client = build_ms(lab)
            builds.append(took)
            ends.append(killed_ms(client))
        bare = median([sum(each.values()) - each["rules"] for each in floors])
        whole = median([sum(each.values()) for each in floors])
        parts = ", ".join(f"{name} {median([each[name] for each in floors]):.0f}" for name in floors[0])
        yield Figure(f"{pods} Pods: bare netlink and forks", bare, "ms", None, parts)
        yield Figure(f"{pods} Pods: fabric and Pods", median(fabrics), "ms")
        yield Figure(f"{pods} Pods: fabric and Pods against the floor", median(fabrics) / bare, "×", 2)
        yield Figure(f"{pods} Pods: bare netlink, forks and iptables-restore", whole, "ms")
        yield Figure(f"{pods} Pods: lab up, rules too", median(builds), "ms")
        yield Figure(f"{pods} Pods: lab up against the floor", median(builds) / whole, "×", 2)
        yield Figure(f"{pods} Pods: gone after SIGKILL", median(ends), "ms", 100)
