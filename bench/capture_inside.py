"""``python -m bench.capture_inside RATE SECONDS``: a fabric, a stream of datagrams from the client to a Pod, and what
the capture of all places got of it.

Prints JSON: ``{"sent", "seconds", "points": {interface: datagrams}, "stated": losses}``.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
from collections import Counter

from bench.labs import lab_text, plan_of
from netlab.kernel import libc, sandbox
from netlab.lab.fabric import Fabric
from netlab.lab.observatory import Observatory

DATAGRAM = b"kube-netlab bench: one datagram of the stream"
PORT = 9999
CLIENT, POD = "client", "default/web-0"


def stream(namespace: int, rate: int, seconds: float, target: str, report: socket.socket) -> None:
    """Datagrams from the namespace behind the descriptor, evenly spread; tells how many and how long."""
    libc.setns(namespace, libc.CLONE_NEWNET)
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.connect((target, PORT))
    sent, began = 0, time.perf_counter()
    while (passed := time.perf_counter() - began) < seconds:
        for _ in range(int(passed * rate) - sent):
            sender.send(DATAGRAM)
            sent += 1
        time.sleep(0.0005)
    report.send(json.dumps({"sent": sent, "seconds": time.perf_counter() - began}).encode())


async def measure(rate: int, seconds: float) -> None:
    plan = plan_of(lab_text(3))
    fabric = Fabric()
    fabric.build(plan)
    topology = plan.topology()
    observatory = Observatory()
    for setup in plan.setups.values():
        observatory.add(setup.name, fabric.namespaces[setup.name], setup.interface_name, busy=setup.forwards)
    with fabric.namespaces[POD].entered():
        sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sink.bind(("0.0.0.0", PORT))
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    target = next(each.addresses[0] for each in topology.places[POD].interfaces if each.name == "eth0")
    await observatory.begin([], {})
    if os.fork() == 0:
        try:
            stream(fabric.namespaces[CLIENT].descriptor, rate, seconds, target.partition("/")[0], theirs)
        finally:
            os._exit(0)
    theirs.close()
    ours.setblocking(False)
    result = json.loads(await asyncio.get_running_loop().sock_recv(ours, 4096))
    recorded = await observatory.end()
    points = Counter(f"{each.place}/{each.interface}" for each in recorded.frames if DATAGRAM in each.data)
    stated = sum(loss.count or 0 for loss in recorded.losses)
    print(json.dumps({**result, "points": points, "stated": stated}), flush=True)


def main() -> None:
    rate, seconds = int(sys.argv[1]), float(sys.argv[2])
    sandbox.enter(lambda _: None, [])
    asyncio.run(measure(rate, seconds))
    # The sandbox's init ends, and all that is in it.
    os._exit(0)


main()
