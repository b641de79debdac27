"""How long a lab in a microVM takes: until its guest is ready, until the lab is up in mode ipvs, and walks in it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from bench.figures import Figure, median
from bench.walking import NODE_PORT_LAB, walk_ms
from netlab.microvm.start import start_engine_in_microvm

DESTINATION = "192.168.60.123:30080"


@dataclass
class Times:
    """Milliseconds of each round."""

    ready: list[float] = field(default_factory=list)
    up: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    later: list[float] = field(default_factory=list)


def run(*, smoke: bool) -> Iterator[Figure]:
    # The first time on a machine, or after a change of the code, the guest has to be made.
    start_engine_in_microvm().close()
    times = Times()
    for _ in range(1 if smoke else 5):
        began = time.perf_counter()
        with start_engine_in_microvm() as client:
            times.ready.append((time.perf_counter() - began) * 1000)
            began = time.perf_counter()
            client.load([("nodeport.yaml", NODE_PORT_LAB.read_bytes())], "ipvs")
            client.start()
            times.up.append((time.perf_counter() - began) * 1000)
            times.first.append(walk_ms(client, DESTINATION))
            times.later += [walk_ms(client, DESTINATION) for _ in range(5)]
    yield Figure("microVM: guest ready", median(times.ready), "ms")
    yield Figure("microVM: the NodePort example up, mode ipvs", median(times.up), "ms")
    yield Figure("microVM: first walk", median(times.first), "ms")
    yield Figure("microVM: walk", median(times.later), "ms")
