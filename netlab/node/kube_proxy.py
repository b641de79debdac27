"""The kube-proxy process of one node: watches Services, EndpointSlices and its Node, and programs the kernel.

It runs in its node's network namespace and keeps nothing on disk; killed, it leaves its rules behind.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address
from typing import Any

import msgspec

from netlab.kernel import libc, rtnetlink
from netlab.kernel.netlink import NETLINK_ROUTE, NetlinkSocket
from netlab.model.errors import NetlabError
from netlab.model.keys import ObjectKey
from netlab.node import zygote
from netlab.node.objectsource import Changed, EngineSource, Listed, ObjectSource, SourceEnded
from netlab.objects.duration import parse_duration
from netlab.objects.endpointslice import EndpointSlice
from netlab.objects.ip import parse_ip
from netlab.objects.node import ZONE_LABEL, Node
from netlab.objects.proxyconfig import KubeProxyConfiguration
from netlab.objects.service import Service
from netlab.proxy.changes import ServiceTracker
from netlab.proxy.family import Family
from netlab.proxy.iptables.proxier import IptablesProxier, ensure_counters
from netlab.proxy.proxier import Proxier, SyncReport
from netlab.proxy.settings import iptables_settings
from netlab.proxy.topology import NodeTopology

KIND = "kube-proxy"
WATCHED = ("Service", "EndpointSlice", "Node")
RETRY_S = 1.0


def start_zygote() -> zygote.Zygote:
    """The fork server that kube-proxies come from."""
    return zygote.start("netlab-proxies", {KIND: _run}, lambda: None)


def _run(given: Mapping[str, Any], descriptors: list[int]) -> None:
    namespace, connection, *_ = descriptors
    libc.setns(namespace, libc.CLONE_NEWNET)
    os.close(namespace)
    libc.prctl(libc.PR_SET_NAME, b"kube-proxy")
    config = msgspec.convert(given["config"], KubeProxyConfiguration)
    with suppress(SourceEnded):
        source = EngineSource(socket.socket(fileno=connection), WATCHED)
        KubeProxy(given["node"], config, source).run()


class KubeProxy:
    """One node's proxy. Reports to the source's other side: "proxy.synced" and "proxy.failed"."""

    def __init__(self, node: str, config: KubeProxyConfiguration, source: ObjectSource) -> None:
        self.node = node
        self.config = config
        self.source = source
        self.trackers: dict[Family, ServiceTracker] = {}
        self.proxiers: dict[Family, Proxier] = {}
        self.revision = 0
        self._node_object = Node()
        self._listed = False
        self._unsynced = False
        self._last_sync = float("-inf")
        self._retry_at: float | None = None
        self._min_period = parse_duration(config.iptables.min_sync_period)

    def run(self) -> None:
        """Until the source ends."""
        poll = select.poll()
        poll.register(self.source, select.POLLIN)
        while True:
            due = self._due()
            timeout = None if due is None else max(0.0, due - time.monotonic()) * 1000
            if poll.poll(timeout):
                self._take(self.source.read())
            due = self._due()
            if due is not None and due <= time.monotonic():
                self._sync()

    def _due(self) -> float | None:
        """When the next sync is to be (time.monotonic); None while there is nothing to do.

        Changes within minSyncPeriod after a sync wait for its end and are brought in together.
        """
        if not self._listed or not self._unsynced:
            return None
        if self._retry_at is not None:
            return self._retry_at
        return self._last_sync + self._min_period

    def _take(self, events: list[Listed | Changed]) -> None:
        for event in events:
            if isinstance(event, Listed):
                self._start(event)
            else:
                self._change(event)
            self.revision = event.revision
            self._unsynced = True

    def _start(self, listed: Listed) -> None:
        """Begin (again) from a full list."""
        own = [each for each in listed.objects if each["kind"] == "Node" and each["metadata"]["name"] == self.node]
        self._node_object = msgspec.convert(own[0], Node) if own else Node()
        self.trackers = {family: ServiceTracker(family, self._topology()) for family in Family}
        if not self.proxiers:
            self.proxiers = self._make_proxiers()
        for proxier in self.proxiers.values():
            proxier.require_full_sync()
        for each in listed.objects:
            self._put(each)
        self._listed = True

    def _change(self, event: Changed) -> None:
        value = event.object
        if event.type != "DELETED":
            self._put(value)
            return
        key = ObjectKey(value["kind"], value["metadata"].get("namespace", ""), value["metadata"]["name"])
        for tracker in self.trackers.values():
            if key.kind == "Service":
                tracker.delete_service(key)
            elif key.kind == "EndpointSlice":
                tracker.delete_slice(key)

    def _put(self, value: dict[str, Any]) -> None:
        kind = value["kind"]
        if kind == "Service":
            service = msgspec.convert(value, Service)
            for tracker in self.trackers.values():
                tracker.set_service(service)
        elif kind == "EndpointSlice":
            endpoint_slice = msgspec.convert(value, EndpointSlice)
            for tracker in self.trackers.values():
                tracker.set_slice(endpoint_slice)
        elif kind == "Node" and value["metadata"]["name"] == self.node:
            self._node_object = msgspec.convert(value, Node)
            for tracker in self.trackers.values():
                tracker.set_node(self._topology())

    def _topology(self) -> NodeTopology:
        return NodeTopology(self.node, self._node_object.metadata.label(ZONE_LABEL) or "")

    def _make_proxiers(self) -> dict[Family, Proxier]:
        with NetlinkSocket(NETLINK_ROUTE) as netlink:
            local_addresses = rtnetlink.list_addresses(netlink)
        node_ips = [ip for text in self._node_object.addresses_of_type("InternalIP") if (ip := parse_ip(text))]
        counters = ensure_counters()
        return {
            family: IptablesProxier(
                self.node,
                iptables_settings(
                    self.config,
                    family,
                    node_ips=node_ips,
                    local_addresses=[ip_address(each) for each in local_addresses],
                    pod_cidrs=self._node_object.spec.pod_cidrs,
                    counters=counters,
                ),
            )
            for family in Family
        }

    def _sync(self) -> None:
        begin = time.monotonic()
        self._last_sync = begin
        reports: list[SyncReport] = []
        try:
            for family, proxier in self.proxiers.items():
                tracker = self.trackers[family]
                reports.append(proxier.sync(tracker.take_changes(), tracker.ports))
        except NetlabError as error:
            self._retry_at = time.monotonic() + RETRY_S
            params = {"node": self.node, "revision": self.revision, "text": error.text}
            self.source.report("proxy.failed", params)
            return
        self._retry_at = None
        self._unsynced = False
        self.source.report(
            "proxy.synced",
            {
                "node": self.node,
                "revision": self.revision,
                "full": any(each.full for each in reports),
                "transactions": sum(each.transactions for each in reports),
                "lines": sum(each.lines for each in reports),
                "took_ms": (time.monotonic() - begin) * 1000,
            },
        )
