"""``python -m bench.build_inside fabric|rules < LAB``: a lab in this process, without a frontend.

``fabric``: all but the kube-proxies; prints the milliseconds from a read file until every Pod listens.
``rules``: the whole lab; prints, as JSON ``[[node, 4|6, text]]``, what iptables-save says in its nodes.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Mapping

from netlab.kernel import iptables, sandbox
from netlab.node import kube_proxy, pods


async def measure(what: str, text: bytes, limits: Mapping[str, int]) -> None:
    # As the engine does: fork servers first, which get ready while the rest is imported.
    pods_zygote, proxies_zygote = pods.start_zygote(), kube_proxy.start_zygote()
    from netlab.engine.server import Engine
    from netlab.lab.lab import Zygotes
    from netlab.objects.yaml_source import Source

    lab = Engine(Zygotes(pods_zygote, proxies_zygote), limits, None).lab
    lab.load([Source("lab.yaml", text)])
    nodes = list(lab.configs)
    if what == "fabric":
        lab.configs = {}
    began = time.perf_counter()
    await lab.start()
    took = (time.perf_counter() - began) * 1000
    saved = []
    for node in nodes if what == "rules" else []:
        with lab.fabric.namespaces[node].entered():
            saved += [[node, family, iptables.save(family, node)] for family in (4, 6)]
    print(json.dumps(took if what == "fabric" else saved), flush=True)


def main() -> None:
    text = sys.stdin.buffer.read()
    limits = sandbox.enter(lambda _: None, [])
    asyncio.run(measure(sys.argv[1], text, limits))
    # The sandbox's init ends, and all that is in it.
    os._exit(0)


main()
