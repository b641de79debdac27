"""What a kube-proxy process does besides rules: its servers, its metrics, stale conntrack entries, and the sockets of
mode userspace. All of it lives in one :class:`EventLoop` inside the proxy's own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from netlab.kernel import rtnetlink
from netlab.kernel.netlink import NETLINK_ROUTE, NetlinkSocket
from netlab.model.errors import LabFailed
from netlab.model.records import ProxyConnection
from netlab.model.text import Message, Text
from netlab.node.eventloop import EventLoop
from netlab.node.proxy_servers import ProxyServers
from netlab.node.userspace.sockets import UserspaceSockets, raise_descriptor_limit
from netlab.objects.duration import parse_duration
from netlab.objects.ip import parse_ip
from netlab.objects.node import Node
from netlab.objects.proxyconfig import KubeProxyConfiguration
from netlab.proxy import conntrack_settings
from netlab.proxy.changes import PortState, ServiceTracker
from netlab.proxy.conntrack import ConntrackCleaner
from netlab.proxy.family import Family
from netlab.proxy.health import ProxyHealth, service_checks
from netlab.proxy.metrics import ProxyMetrics
from netlab.proxy.modes import NodeFacts, periods
from netlab.proxy.proxier import Proxier, SyncReport
from netlab.proxy.service_ports import ServicePortName
from netlab.proxy.settings import node_port_ips
from netlab.proxy.userspace.proxier import UserspaceProxier
from netlab.proxy.userspace.settings import proxy_ports, userspace_settings

TRIGGER_ANNOTATION = "endpoints.kubernetes.io/last-change-trigger-time"

CANNOT_START = Message(
    "companions.cannot-start",
    en="kube-proxy on {node} cannot start in mode userspace: {error}",
    zh="{node} 上的 kube-proxy 无法以 userspace 模式启动：{error}",
)


@dataclass(frozen=True, slots=True)
class Synced:
    """What one sync brought in for one family, and how long it took, in seconds."""

    family: Family
    changed: Mapping[ServicePortName, PortState | None]
    report: SyncReport
    took_s: float


class Companions:
    """Made in the node's network namespace.

    ``report(method, params)`` tells the engine: "proxy.complaint" ({"node", "text"}) and "proxy.connection" ({"node",
    "record"}, mode userspace). Watch :meth:`fileno` for reading, wake up at :meth:`due`, call :meth:`turn` then.
    """

    def __init__(self, node: str, config: KubeProxyConfiguration, report: Callable[[str, Any], None]) -> None:
        self.node = node
        self.config = config
        self.report = report
        self.loop = EventLoop()
        self.health = ProxyHealth(timeout=2 * periods(config)[0])
        self.metrics = ProxyMetrics(config.proxy_mode)
        self.servers: ProxyServers | None = None
        self._cleaners = {family: ConntrackCleaner(family, node) for family in Family}
        self._triggers: dict[Family, list[float]] = {family: [] for family in Family}
        self._stale: set[Family] = set()
        self._began = time.time()

    def fileno(self) -> int:
        return self.loop.fileno()

    def due(self) -> float | None:
        return self.loop.due()

    def turn(self) -> None:
        self.loop.turn()

    def complain(self, text: Text) -> None:
        self.report("proxy.complaint", {"node": self.node, "text": text})

    # Starting

    def start(self, facts: NodeFacts) -> None:
        """Make the conntrack settings and open the servers; once, before the first sync."""
        if self.servers is not None:
            return
        settings = conntrack_settings.settings_of(self.config.conntrack, os.cpu_count() or 1)
        for text in conntrack_settings.apply(settings, self.node):
            self.complain(text)
        self.servers = ProxyServers(
            self.loop,
            self.node,
            self.config.proxy_mode,
            self.health,
            self.metrics,
            check_addresses=self._check_addresses(facts),
            complain=self.complain,
        )
        self.servers.start(self.config)

    def _check_addresses(self, facts: NodeFacts) -> list[str]:
        """Where health-check nodePorts listen; none: everywhere."""
        selectors = self.config.node_port_addresses
        if not selectors and self.config.proxy_mode == "nftables":
            selectors = ["primary"]
        local = _local_addresses()
        found: list[str] = []
        for family in Family:
            ips = node_port_ips(selectors, family, facts.node_ips, local)
            if ips is None:
                if any(family.matches(ip) for ip in facts.node_ips):
                    return []
                continue
            found += ips
        return found

    def userspace_proxiers(self, facts: NodeFacts) -> dict[Family, Proxier]:
        """The proxier of mode userspace, in its one family. Raises :class:`NetlabError` for what it cannot serve."""
        local = _local_addresses()
        try:
            settings = userspace_settings(self.config, node_ips=facts.node_ips, local_addresses=local)
            ports = proxy_ports(self.config.port_range)
        except ValueError as error:
            raise LabFailed(CANNOT_START(node=self.node, error=error)) from error
        raise_descriptor_limit()
        sockets = UserspaceSockets(
            self.loop,
            self.node,
            settings.listen_ip,
            report=self._tell_connection,
            ports=ports,
            udp_idle_s=parse_duration(self.config.udp_idle_timeout),
        )
        addresses = [str(ip) for ip in local]
        made = UserspaceProxier(self.node, settings, sockets, local_addresses=addresses, complain=self.complain)
        return {settings.family: made}

    def _tell_connection(self, record: ProxyConnection) -> None:
        self.report("proxy.connection", {"node": self.node, "record": record})

    # Changes

    def see_node(self, node: Node | None) -> None:
        """Take in the node's own object; None where there is none (any more)."""
        self.health.see_node(node)

    def object_changed(self, value: Mapping[str, Any]) -> None:
        """A Service or EndpointSlice was added, changed or deleted."""
        if value["kind"] == "Service":
            self.metrics.service_changed()
        elif value["kind"] == "EndpointSlice":
            self.metrics.endpoints_changed()
            trigger = _trigger_time(value)
            if trigger is not None and trigger > self._began:
                family = Family.IPV6 if value.get("addressType") == "IPv6" else Family.IPV4
                self._triggers[family].append(trigger)

    def queued(self, families: Mapping[Family, object]) -> None:
        """Changes have come, which the proxiers of these families are to bring in."""
        for family in families:
            self.health.queued(family, time.time_ns())
            self.metrics.queued(family, time.time())

    # Syncs

    def taken_in(self) -> None:
        """A sync begins with all that has come."""
        self.metrics.taken_in()

    def synced(self, sync: Synced, ports: Mapping[ServicePortName, PortState]) -> None:
        """One family's rules are in the kernel: tell it, and delete the conntrack entries that are stale now."""
        family, now = sync.family, time.time()
        self.health.synced(family, time.time_ns())
        self.metrics.synced(family, now, sync.took_s, full=sync.report.full)
        self.metrics.programmed(family, [now - each for each in self._triggers[family]])
        self._triggers[family].clear()
        self.metrics.count_ports(family, ports)
        if self._look_for_stale(family, sync.changed):
            self._stale.discard(family)
            begin = time.monotonic()
            # The real one goes on without as well; the next change tries again.
            with suppress(OSError):
                deleted = self._cleaners[family].clean(ports)
                self.metrics.reconciled(family, time.monotonic() - begin, len(deleted))

    def failed(self, family: Family, changed: Mapping[ServicePortName, PortState | None]) -> None:
        """One family's rules could not be brought in; the changes will be, with the next sync that can."""
        self.metrics.failed(family)
        self._look_for_stale(family, changed)

    def _look_for_stale(self, family: Family, changed: Mapping[ServicePortName, PortState | None]) -> bool:
        """Whether this change, or one before it, may have made conntrack entries stale."""
        if self.config.proxy_mode == "userspace":
            return False
        if self._cleaners[family].required(changed):
            self._stale.add(family)
        return family in self._stale

    def serve_checks(self, trackers: Mapping[Family, ServiceTracker]) -> None:
        """Open, close and update the health-check nodePorts (mode userspace had none)."""
        if self.servers is not None and self.config.proxy_mode != "userspace":
            self.servers.set_checks(service_checks(tracker.ports for tracker in trackers.values()))


def _local_addresses() -> list[Any]:
    with NetlinkSocket(NETLINK_ROUTE) as netlink:
        return [ip for each in rtnetlink.list_addresses(netlink) if (ip := parse_ip(str(each))) is not None]


def _trigger_time(value: Mapping[str, Any]) -> float | None:
    """When what led to the EndpointSlice's change happened, wall clock; None where it does not tell."""
    text = (value["metadata"].get("annotations") or {}).get(TRIGGER_ANNOTATION)
    try:
        return datetime.fromisoformat(text).timestamp() if isinstance(text, str) else None
    except ValueError:
        return None
