"""How long a proxy takes to bring a cluster into the kernel, beside the bare tool given the same texts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

from bench.figures import Figure, median

SIZES, SMALL_SIZES = (100, 1000, 5000), (100, 1000)
MODES = ("iptables", "nftables")
FIRST_LIMIT, SMALL_MARGIN_MS = 1.3, 30
CHANGE_LIMITS = {"iptables": 2.0, "nftables": 1.5}
MEMORY_MIB = 150
FIGURES = ("first", "first_floor", "change", "change_floor", "memory")


ROUNDS = 3


def run(*, smoke: bool) -> Iterator[Figure]:
    for mode in MODES:
        for services in SMALL_SIZES if smoke else SIZES:
            yield from _of_size(mode, services, 1 if smoke else ROUNDS)


def _of_size(mode: str, services: int, rounds: int) -> Iterator[Figure]:
    command = [sys.executable, "-m", "bench.programming_inside", mode, str(services)]
    all_got = [json.loads(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(rounds)]
    got = {key: median([each[key] for each in all_got]) for key in FIGURES}
    name = f"{mode}, {services} Services × 2"
    detail = f"{got['first']:.0f} ms, bare {got['first_floor']:.0f} ms, backend {all_got[0]['backend']}"
    if services < SIZES[1]:
        over = got["first"] - got["first_floor"]
        yield Figure(f"{name}: first sync over bare", over, "ms", SMALL_MARGIN_MS, detail)
    else:
        yield Figure(f"{name}: first sync", got["first"] / got["first_floor"], "×", FIRST_LIMIT, detail)
    detail = f"{got['change']:.1f} ms, bare {got['change_floor']:.1f} ms"
    yield Figure(f"{name}: one endpoint", got["change"] / got["change_floor"], "×", CHANGE_LIMITS[mode], detail)
    if services == SIZES[-1]:
        yield Figure(f"{name}: memory", got["memory"], "MiB", MEMORY_MIB)
