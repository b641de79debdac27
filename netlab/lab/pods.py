"""The lab's Pods as processes: started from the fork server, told what to listen on, noticed when they end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from netlab.model import jsonrpc
from netlab.node import pods as pod_processes
from netlab.node.zygote import Zygote

CANNOT_LISTEN = "{pod} cannot listen on {port}: {error}"


@dataclass
class PodProcess:
    """One stand-in: its control connection and, once it has been forked, its pid in the lab's pid namespace.

    ``refused``: the errno of what the kernel refused it, where it ended of that.
    """

    pod: str
    control: socket.socket
    number: int
    pid: int | None = None
    ended: int | None = None
    listening: list[int] | None = None
    refused: int = 0
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    def exited(self, status: int, refused: int) -> None:
        self.ended, self.refused = status, refused
        self.gone.set()

    async def listen(self, ports: Sequence[int]) -> dict[str, str]:
        """Have the Pod serve exactly these ports; returns the kernel's name for what went wrong, by port.

        Raises ConnectionError where the Pod has ended.
        """
        self.listening = list(ports)
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(self.control, jsonrpc.request(1, "listen", {"ports": list(ports)}))
        lines = jsonrpc.LineBuffer()
        while True:
            data = await loop.sock_recv(self.control, 65536)
            if not data:
                raise ConnectionResetError(f"the Pod {self.pod} has ended")
            for line in lines.feed(data):
                result: dict[str, str] = jsonrpc.decode(line).result["failed"]
                return result


class PodProcesses:
    """All stand-ins by Pod ("namespace/name")."""

    def __init__(self, zygote: Zygote) -> None:
        self.zygote = zygote
        self.processes: dict[str, PodProcess] = {}

    def start(
        self, pod: str, node: str, namespace: int, addresses: Sequence[str], kept: Sequence[int] = ()
    ) -> PodProcess:
        """Ask for a Pod's process in the network namespace behind the descriptor ``namespace``.

        ``kept``: descriptors that it is to hold open as long as it lives.
        """
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            hostname = pod.rpartition("/")[2][:63]
            given = pod_processes.parameters(pod, node, hostname, list(addresses))
            number = self.zygote.spawn(pod_processes.KIND, given, [namespace, theirs.fileno(), *kept])
        process = PodProcess(pod, ours, number)
        self.processes[pod] = process
        return process

    def stop(self, pod: str) -> None:
        """Close the control connection: the Pod's process ends by itself."""
        process = self.processes.pop(pod, None)
        if process is not None:
            process.control.close()

    def by_number(self, number: int) -> PodProcess | None:
        return next((each for each in self.processes.values() if each.number == number), None)


def declared_ports(declared: Sequence[int], from_slices: Callable[[], Sequence[int]]) -> list[int]:
    """What a stand-in listens on: the ports that its containers declare; where they declare none, those that
    EndpointSlices send traffic to."""
    return sorted(set(declared or from_slices()))
