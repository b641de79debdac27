"""``python -m bench.programming_inside MODE SERVICES``: one proxy's first sync and changes of one endpoint each, and
the bare tool given the same texts in the same batches, in another namespace.

Prints JSON: ``{"first", "first_floor", "change", "change_floor"}`` in milliseconds, ``{"memory"}`` in MiB, and which
``backend`` applied the rules.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from ipaddress import ip_address
from typing import NamedTuple

import msgspec

from bench.clusters import endpoint_slice, objects, tracker_of
from netlab.kernel import netns, programs, sandbox
from netlab.kernel.netns import NetNamespace
from netlab.objects.endpointslice import EndpointSlice
from netlab.objects.proxyconfig import KubeProxyConfiguration
from netlab.proxy.family import Family
from netlab.proxy.modes import NodeFacts, make_proxiers

CHANGES = 9


class Call(NamedTuple):
    """One run of a tool."""

    command: list[str]
    text: str


class Recorder:
    """Passes every run of a tool on, and remembers it."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._run = programs.run

    def __call__(self, command: list[str], place: str, text: str = "") -> str:
        self.calls.append(Call(command, text))
        return self._run(command, place, text)

    def taken(self) -> list[Call]:
        """What has been run since the last call, less what only reads."""
        calls, self.calls = self.calls, []
        return [each for each in calls if each.text]


def bare_ms(namespace: NetNamespace, calls: list[Call]) -> float:
    """The same texts given to the same tools, one after the other, with nothing around."""
    paths = {each.command[0]: programs.find(each.command[0]) for each in calls}
    with namespace.entered():
        began = time.perf_counter()
        for each in calls:
            command = [paths[each.command[0]], *each.command[1:]]
            subprocess.run(command, input=each.text.encode(), stdout=subprocess.DEVNULL, check=True)
        return (time.perf_counter() - began) * 1000


def main() -> None:
    mode, services = sys.argv[1], int(sys.argv[2])
    sandbox.enter(lambda _: None, [])
    gc.set_threshold(100_000, 50, 100)
    values = list(objects(services))
    ours, bare = netns.create(["ours", "bare"])
    config = msgspec.convert({"mode": mode, "clusterCIDR": "10.200.0.0/13"}, KubeProxyConfiguration)
    facts = NodeFacts("node-a", [ip_address("192.168.60.11")], ["10.240.0.0/16"], ["10.96.0.0/12"])
    recorder = Recorder()
    programs.run = recorder
    for namespace in (ours, bare):
        with namespace.entered():
            proxier = make_proxiers(config, facts)[Family.IPV4]
    recorder.taken()
    with ours.entered():
        proxier = make_proxiers(config, facts)[Family.IPV4]
        began = time.perf_counter()
        tracker = tracker_of(values)
        proxier.sync(tracker.take_changes(), tracker.ports)
        first = (time.perf_counter() - began) * 1000
    first_floor = bare_ms(bare, recorder.taken())
    took, floors = [], []
    for number in range(CHANGES):
        value = endpoint_slice(services // 2, moved=number + 1)
        with ours.entered():
            began = time.perf_counter()
            tracker.set_slice(msgspec.convert(value, EndpointSlice))
            proxier.sync(tracker.take_changes(), tracker.ports)
            took.append((time.perf_counter() - began) * 1000)
        floors.append(bare_ms(bare, recorder.taken()))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    change, change_floor = statistics.median(took), statistics.median(floors)
    figures = {"first": first, "first_floor": first_floor, "change": change, "change_floor": change_floor}
    print(json.dumps({**figures, "memory": memory, "backend": "nf_tables"}), flush=True)
    # The sandbox's init ends, and all that is in it.
    os._exit(0)


main()
