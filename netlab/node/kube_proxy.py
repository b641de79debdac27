"""The kube-proxy process of one node: watches Services, EndpointSlices and its Node, and programs the kernel.

It runs in its node's network namespace and keeps nothing on disk; killed, it leaves its rules behind, and the next one
takes them over.
"""

from __future__ import annotations

import gc
import os
import select
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from netlab.kernel import libc
from netlab.kernel.rulewatch import RuleWatch
from netlab.model.errors import NetlabError
from netlab.model.keys import key_of
from netlab.node import balancing, zygote
from netlab.node.companions import Companions, Synced
from netlab.node.objectsource import Changed, EngineSource, Listed, ObjectSource, SourceEnded
from netlab.objects.endpointslice import EndpointSlice
from netlab.objects.ip import parse_ip
from netlab.objects.node import ZONE_LABEL, Node
from netlab.objects.proxyconfig import KubeProxyConfiguration
from netlab.objects.service import Service
from netlab.proxy.changes import ServiceTracker
from netlab.proxy.family import Family
from netlab.proxy.ipvs.proxier import IpvsProxier
from netlab.proxy.modes import NodeFacts, clean_up_others, is_ours, make_proxiers, periods
from netlab.proxy.nftables.proxier import NftablesProxier
from netlab.proxy.proxier import Proxier
from netlab.proxy.settings import service_ranges
from netlab.proxy.topology import NodeTopology
from netlab.proxy.userspace.proxier import UserspaceProxier

KIND = "kube-proxy"
WATCHED = ("Service", "EndpointSlice", "Node", "ServiceCIDR")
RETRY_S = 1.0


def start_zygote() -> zygote.Zygote:
    """The fork server that kube-proxies come from, and the processes of the lab's load balancer."""
    return zygote.start("netlab-proxies", {KIND: _run, **balancing.HANDLERS}, lambda: None)


def _run(given: Mapping[str, Any], descriptors: list[int]) -> None:
    namespace, connection, *_ = descriptors
    libc.setns(namespace, libc.CLONE_NEWNET)
    os.close(namespace)
    libc.prctl(libc.PR_SET_NAME, b"kube-proxy")
    # Objects of a large cluster come and go together: looking for cycles among them again and again finds none.
    gc.set_threshold(100_000, 50, 100)
    config = msgspec.convert(given["config"], KubeProxyConfiguration)
    with suppress(SourceEnded):
        source = EngineSource(socket.socket(fileno=connection), WATCHED)
        KubeProxy(given["node"], config, source).run()


class KubeProxy:
    """One node's proxy. Reports to the source's other side: "proxy.synced" and "proxy.failed", and what
    :class:`Companions` tells."""

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
        self._sync_period, self._min_period = periods(config)
        self._service_cidrs: dict[str, list[str]] = {}
        self._rules: RuleWatch | None = None
        self._companions = Companions(node, config, source.report)

    def run(self) -> None:
        """Until the source ends."""
        poll = select.poll()
        poll.register(self.source, select.POLLIN)
        self._rules = RuleWatch()
        poll.register(self._rules, select.POLLIN)
        poll.register(self._companions, select.POLLIN)
        while True:
            due = self._next_due()
            timeout = None if due is None else max(0.0, due - time.monotonic()) * 1000
            ready = [descriptor for descriptor, _ in poll.poll(timeout)]
            if self._rules.fileno() in ready and self._rules.drain(self._is_ours):
                self._repair()
            if self.source.fileno() in ready:
                self._take(self.source.read())
            self._companions.turn()
            self._tick()
            due = self._due()
            if due is not None and due <= time.monotonic():
                self._sync()

    def _next_due(self) -> float | None:
        """When there is next something to do without anything having happened (time.monotonic); None: never."""
        ticks = [each.tick_due() for each in self.proxiers.values() if isinstance(each, IpvsProxier)]
        dues = (self._due(), self._companions.due(), *ticks)
        return min((each for each in dues if each is not None), default=None)

    def _due(self) -> float | None:
        """When the next sync is to be (time.monotonic); None before there is anything to sync.

        Changes within minSyncPeriod after a sync wait for its end and are brought in together. Without changes, the
        kernel is looked after every syncPeriod.
        """
        if not self._listed:
            return None
        if self._retry_at is not None:
            return self._retry_at
        return self._last_sync + (self._min_period if self._unsynced else self._sync_period)

    def _is_ours(self, family: str, table: str) -> bool:
        return is_ours(self.config.proxy_mode, family, table)

    def _repair(self) -> None:
        """Somebody else has changed what is ours: look at everything in the next sync."""
        for proxier in self.proxiers.values():
            proxier.require_full_sync()
        self._unsynced = True

    def _tick(self) -> None:
        """Let ipvs mode end the real servers that have nothing left to do."""
        for proxier in self.proxiers.values():
            if isinstance(proxier, IpvsProxier):
                proxier.tick()

    def _take(self, events: list[Listed | Changed]) -> None:
        for event in events:
            if isinstance(event, Listed):
                self._start(event)
            else:
                self._change(event)
            self.revision = event.revision
            self._unsynced = True
        if self._unsynced:
            self._companions.queued(self.proxiers or self.trackers)

    def _start(self, listed: Listed) -> None:
        """Begin (again) from a full list."""
        own = [each for each in listed.objects if each["kind"] == "Node" and each["metadata"]["name"] == self.node]
        self._node_object = msgspec.convert(own[0], Node) if own else Node()
        self._companions.see_node(self._node_object if own else None)
        if not self.trackers:
            self.trackers = {family: ServiceTracker(family, self._topology()) for family in Family}
        keys = {key_of(each) for each in listed.objects}
        for tracker in self.trackers.values():
            tracker.forget_all_but(keys)
            tracker.set_node(self._topology())
        self._service_cidrs.clear()
        for each in listed.objects:
            self._put(each)
        self._repair()
        self._listed = True

    def _change(self, event: Changed) -> None:
        value = event.object
        if event.type != "DELETED":
            self._put(value)
            return
        key = key_of(value)
        self._companions.object_changed(value)
        if key.kind == "Node" and key.name == self.node:
            self._companions.see_node(None)
        if key.kind == "ServiceCIDR":
            self._service_cidrs.pop(key.name, None)
            self._take_ranges()
        for tracker in self.trackers.values():
            if key.kind == "Service":
                tracker.delete_service(key)
            elif key.kind == "EndpointSlice":
                tracker.delete_slice(key)

    def _put(self, value: dict[str, Any]) -> None:
        kind = value["kind"]
        self._companions.object_changed(value)
        if kind == "Service":
            service = msgspec.convert(value, Service)
            for tracker in self.trackers.values():
                tracker.set_service(service)
        elif kind == "EndpointSlice":
            endpoint_slice = msgspec.convert(value, EndpointSlice)
            for tracker in self.trackers.values():
                tracker.set_slice(endpoint_slice)
        elif kind == "ServiceCIDR":
            self._service_cidrs[value["metadata"]["name"]] = value["spec"]["cidrs"]
            self._take_ranges()
        elif kind == "Node" and value["metadata"]["name"] == self.node:
            self._node_object = msgspec.convert(value, Node)
            self._companions.see_node(self._node_object)
            for tracker in self.trackers.values():
                tracker.set_node(self._topology())

    def _topology(self) -> NodeTopology:
        return NodeTopology(self.node, self._node_object.metadata.label(ZONE_LABEL) or "")

    def _take_ranges(self) -> None:
        """The cluster's ranges for ClusterIPs have changed: nftables mode refuses the rest of them."""
        for family, proxier in self.proxiers.items():
            if isinstance(proxier, NftablesProxier):
                proxier.set_service_ranges(service_ranges(self._ranges(), family))

    def _ranges(self) -> list[str]:
        return [each for cidrs in self._service_cidrs.values() for each in cidrs]

    def _make_proxiers(self) -> None:
        """Raises :class:`NetlabError` where this node's kernel cannot have the mode."""
        node_ips = [ip for text in self._node_object.addresses_of_type("InternalIP") if (ip := parse_ip(text))]
        facts = NodeFacts(self.node, node_ips, self._node_object.spec.pod_cidrs, self._ranges())
        clean_up_others(self.config.proxy_mode, self.node)
        if self.config.proxy_mode == "userspace":
            self.proxiers = self._companions.userspace_proxiers(facts)
        else:
            self.proxiers = make_proxiers(self.config, facts)
        self._companions.start(facts)

    def _sync(self) -> None:
        begin = time.monotonic()
        self._last_sync = begin
        done: list[Synced] = []
        failure: NetlabError | None = None
        assert self._rules is not None
        if not self._unsynced and (self._rules.changed or self.config.proxy_mode == "ipvs"):
            self._repair()
        if self._rules.pause(self._is_ours):
            self._repair()
        # Nobody counts what is cleaned up of other modes, and what iptables does not do in mode ipvs.
        is_counted = bool(self.proxiers) and self.config.proxy_mode != "ipvs"
        try:
            if not self.proxiers:
                self._make_proxiers()
            self._companions.taken_in()
            for family, proxier in self.proxiers.items():
                self._sync_family(family, proxier, done)
        except NetlabError as error:
            failure = error
        own = sum(each.report.transactions for each in done)
        disturbed = self._rules.resume(own if is_counted and failure is None else None)
        for each in done:
            self._companions.synced(each, self.trackers[each.family].ports)
        if failure is not None:
            self._retry_at = time.monotonic() + RETRY_S
            params = {"node": self.node, "revision": self.revision, "text": failure.text}
            self.source.report("proxy.failed", params)
            return
        self._companions.serve_checks(self.trackers)
        reports = [each.report for each in done]
        self._retry_at = None
        self._unsynced = False
        if disturbed:
            self._repair()
        self.source.report(
            "proxy.synced",
            {
                "node": self.node,
                "revision": self.revision,
                "full": any(each.full for each in reports),
                "transactions": sum(each.transactions for each in reports),
                "lines": sum(each.lines for each in reports),
                "took_ms": (time.monotonic() - begin) * 1000,
                "portals": {
                    f"{name}/{name.protocol}": port
                    for proxier in self.proxiers.values()
                    if isinstance(proxier, UserspaceProxier)
                    for name, port in proxier.proxy_ports.items()
                },
            },
        )

    def _sync_family(self, family: Family, proxier: Proxier, done: list[Synced]) -> None:
        begin, tracker = time.monotonic(), self.trackers[family]
        changed = tracker.take_changes()
        try:
            report = proxier.sync(changed, tracker.ports)
        except NetlabError:
            self._companions.failed(family, changed)
            raise
        done.append(Synced(family, changed, report, time.monotonic() - begin))
