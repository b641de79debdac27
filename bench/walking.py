"""How long one walk takes in a lab that is up: from the request to the engine until the walk is there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from bench.figures import Figure, median
from bench.labs import NODE_PORT_TARGET, lab_text
from netlab.engine.client import EngineClient, start_engine

NODE_PORT_LAB = Path(__file__).parents[1] / "netlab" / "scenarios" / "nodeport.yaml"


def walk_ms(client: EngineClient, destination: str) -> float:
    began = time.perf_counter()
    walk, _ = client.walk("client", destination)
    took = (time.perf_counter() - began) * 1000
    if walk.verdict != "answered":
        raise RuntimeError(f"the walk to {destination} was {walk.verdict}")
    return took


def run(*, smoke: bool) -> Iterator[Figure]:
    rounds = 5 if smoke else 25
    labs = (
        ("the NodePort example", NODE_PORT_LAB.read_bytes(), "192.168.60.123:30080"),
        ("3 nodes + 100 Pods", lab_text(100), NODE_PORT_TARGET),
    )
    for name, lab, destination in labs:
        with start_engine() as client:
            client.load([("lab.yaml", lab)], None)
            client.start()
            first = walk_ms(client, destination)
            later = [walk_ms(client, destination) for _ in range(rounds)]
        yield Figure(f"{name}: first walk", first, "ms")
        yield Figure(f"{name}: walk", median(later), "ms", 100, f"{min(later):.0f} to {max(later):.0f}")
