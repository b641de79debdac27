"""The lab's kube-proxies as processes: started from the fork server, and how far each has come."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from netlab.model.errors import LabFailed
from netlab.model.records import ProxyConnection
from netlab.model.text import Message, Text
from netlab.node import kube_proxy
from netlab.node.zygote import Zygote
from netlab.objects.proxyconfig import KubeProxyConfiguration

DIED = Message(
    "proxies.died",
    en="kube-proxy on {node} ended (status {status}) before it had programmed its node",
    zh="{node} 上的 kube-proxy 在完成节点编程之前退出 (状态 {status})",
)
FAILED = Message("proxies.failed", en="kube-proxy on {node}: {text}", zh="{node} 上的 kube-proxy：{text}")
TOO_SLOW = Message(
    "proxies.too-slow",
    en="kube-proxy on {node} has not programmed its node within {seconds} s",
    zh="{node} 上的 kube-proxy 在 {seconds} 秒内没有完成节点编程",
)

KEPT = 10_000
"""Complaints and connections of one proxy that are remembered, the latest ones."""


@dataclass
class ProxyProcess:
    """One node's proxy. ``synced``: the revision that it has brought into the kernel; ``told``: the last revision that
    it was sent; ``refused``: the errno of what the kernel refused it, where it ended of that; ``complaints``: what it
    could not serve; ``connections``: what it joined in mode userspace."""

    node: str
    number: int
    pid: int | None = None
    synced: int = -1
    told: int = 0
    ended: int | None = None
    refused: int = 0
    failure: Text | None = None
    last_sync: Mapping[str, Any] = field(default_factory=dict)
    complaints: deque[Text] = field(default_factory=lambda: deque(maxlen=KEPT))
    connections: deque[ProxyConnection] = field(default_factory=lambda: deque(maxlen=KEPT))
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class ProxyProcesses:
    """All proxies by node."""

    def __init__(self, zygote: Zygote) -> None:
        self.zygote = zygote
        self.processes: dict[str, ProxyProcess] = {}

    def start(
        self,
        node: str,
        namespace: int,
        config: KubeProxyConfiguration,
        connection: socket.socket,
        kept: Sequence[int] = (),
    ) -> None:
        """Ask for a node's proxy; ``connection`` is its end of a connection to the engine.

        ``kept``: descriptors that it is to hold open as long as it lives.
        """
        given = {"node": node, "config": msgspec.to_builtins(config)}
        number = self.zygote.spawn(kube_proxy.KIND, given, [namespace, connection.fileno(), *kept])
        self.processes[node] = ProxyProcess(node, number)

    async def kill(self, node: str) -> None:
        """End a node's proxy with SIGKILL; returns when it has ended. What it has programmed stays."""
        process = self.processes[node]
        while process.pid is None and process.ended is None:
            process.changed.clear()
            await process.changed.wait()
        if process.ended is None and process.pid is not None:
            os.kill(process.pid, signal.SIGKILL)
        while process.ended is None:
            process.changed.clear()
            await process.changed.wait()

    def started(self, process: ProxyProcess, pid: int) -> None:
        process.pid = pid
        process.changed.set()

    def by_number(self, number: int) -> ProxyProcess | None:
        return next((each for each in self.processes.values() if each.number == number), None)

    def synced(self, report: Mapping[str, Any]) -> None:
        """A proxy says that it has brought everything up to a revision into the kernel."""
        process = self.processes[report["node"]]
        process.synced = report["revision"]
        process.last_sync = report
        process.failure = None
        process.changed.set()

    def failed(self, report: Mapping[str, Any]) -> None:
        process = self.processes[report["node"]]
        process.failure = msgspec.convert(report["text"], Text)
        process.changed.set()

    def complained(self, report: Mapping[str, Any]) -> None:
        """A proxy says what it could not do; it goes on without."""
        self.processes[report["node"]].complaints.append(msgspec.convert(report["text"], Text))

    def connected(self, report: Mapping[str, Any]) -> None:
        """A proxy in mode userspace has joined two connections, or could not, or they are over."""
        self.processes[report["node"]].connections.append(msgspec.convert(report["record"], ProxyConnection))

    def portals(self, node: str) -> Mapping[str, int]:
        """Mode userspace: where the node's proxy listens, by Service port ("namespace/name:port/PROTOCOL")."""
        process = self.processes.get(node)
        return process.last_sync.get("portals", {}) if process is not None else {}

    def exited(self, process: ProxyProcess, status: int, refused: int = 0) -> None:
        process.ended, process.refused = status, refused
        process.changed.set()

    async def wait_synced(self, seconds: float) -> None:
        """Until every living proxy has brought in what it was told.

        Raises :class:`LabFailed` where one has ended before its first sync, or cannot program its node, and OSError
        where the kernel refused one what it needs.
        """
        for process in self.processes.values():
            try:
                async with asyncio.timeout(seconds):
                    await self._wait(process)
            except TimeoutError as error:
                raise LabFailed(TOO_SLOW(node=process.node, seconds=seconds)) from error

    async def _wait(self, process: ProxyProcess) -> None:
        while process.synced < process.told or process.synced < 0:
            if process.ended is not None:
                if process.synced >= 0:
                    return
                if process.refused:
                    raise OSError(process.refused, os.strerror(process.refused))
                raise LabFailed(DIED(node=process.node, status=process.ended))
            if process.failure is not None:
                raise LabFailed(FAILED(node=process.node, text=process.failure))
            process.changed.clear()
            await process.changed.wait()
