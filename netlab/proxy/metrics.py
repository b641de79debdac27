"""kube-proxy's metrics, under their own names (kubernetes/pkg/proxy/metrics/metrics.go, 1.36).

All times are wall clock, in seconds. "Pending" and "total" of changes count objects that came, once for all families.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from netlab.proxy.changes import PortState
from netlab.proxy.exposition import Histogram, Metric, exponential, exposition, linear
from netlab.proxy.family import Family
from netlab.proxy.service_ports import ServicePortName

_SYNC_BUCKETS = exponential(0.001, 2, 15)
# The bound 0 is in the real one's list as well: its helper that joins lists of bounds starts from a list of one zero.
_PROGRAMMING_BUCKETS = (0.0, *linear(0.25, 0.25, 2), *linear(1, 1, 59), *linear(60, 5, 12), *linear(120, 30, 7))
_FAMILY = ("ip_family",)
_FAMILY_TABLE = ("ip_family", "table")


def _name(text: str) -> str:
    return f"kubeproxy_{text}"


def _help(text: str) -> str:
    return f"[ALPHA] {text}"


class ProxyMetrics:
    """The metrics of one kube-proxy in one mode; :meth:`text` is what /metrics answers."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self._all: list[Metric] = []
        gauge, counter = self._gauge, self._counter
        self.duration = self._histogram("sync_proxy_rules_duration_seconds", "SyncProxyRules latency in seconds")
        self.last = gauge(
            "sync_proxy_rules_last_timestamp_seconds", "The last time proxy rules were successfully synced", _FAMILY
        )
        self.last_queued = gauge(
            "sync_proxy_rules_last_queued_timestamp_seconds", "The last time a sync of proxy rules was queued", _FAMILY
        )
        self.programming = self._histogram(
            "network_programming_duration_seconds",
            "In Cluster Network Programming Latency in seconds",
            _PROGRAMMING_BUCKETS,
        )
        self.endpoint_pending = gauge(
            "sync_proxy_rules_endpoint_changes_pending", "Pending proxy rules Endpoint changes"
        )
        self.endpoint_total = counter(
            "sync_proxy_rules_endpoint_changes_total", "Cumulative proxy rules Endpoint changes"
        )
        self.service_pending = gauge("sync_proxy_rules_service_changes_pending", "Pending proxy rules Service changes")
        self.service_total = counter("sync_proxy_rules_service_changes_total", "Cumulative proxy rules Service changes")
        self.no_local_endpoints = gauge(
            "sync_proxy_rules_no_local_endpoints_total",
            "Number of services with a Local traffic policy and no endpoints",
            ("ip_family", "traffic_policy"),
        )
        self.healthz = counter("proxy_healthz_total", "Cumulative proxy healthz HTTP status", ("code",))
        self.livez = counter("proxy_livez_total", "Cumulative proxy livez HTTP status", ("code",))
        self.conntrack_duration = self._histogram(
            "conntrack_reconciler_sync_duration_seconds", "ReconcileConntrackFlowsLatency latency in seconds"
        )
        self.conntrack_deleted = counter(
            "conntrack_reconciler_deleted_entries_total",
            "Cumulative conntrack flows deleted by conntrack reconciler",
            _FAMILY,
        )
        self.failures: Metric | None = None
        if mode in ("iptables", "ipvs", "userspace"):
            self.failures = counter(
                "sync_proxy_rules_iptables_restore_failures_total",
                "Cumulative proxy iptables restore failures",
                _FAMILY,
            )
        elif mode == "nftables":
            self.failures = counter(
                "sync_proxy_rules_nftables_sync_failures_total", "Cumulative proxy nftables sync failures", _FAMILY
            )
            counter(
                "sync_proxy_rules_nftables_cleanup_failures_total",
                "Cumulative proxy nftables cleanup failures",
                _FAMILY,
            )
        self.full: Histogram | None = None
        self.partial: Histogram | None = None
        if mode in ("iptables", "nftables"):
            words = "SyncProxyRules latency in seconds for {} resyncs"
            self.full = self._histogram("sync_full_proxy_rules_duration_seconds", words.format("full"))
            self.partial = self._histogram("sync_partial_proxy_rules_duration_seconds", words.format("partial"))
        self.rules: Metric | None = None
        self.rules_last: Metric | None = None
        self.partial_failures: Metric | None = None
        if mode == "iptables":
            self.partial_failures = counter(
                "sync_proxy_rules_iptables_partial_restore_failures_total",
                "Cumulative proxy iptables partial restore failures",
                _FAMILY,
            )
            self.rules = gauge(
                "sync_proxy_rules_iptables_total", "Total number of iptables rules owned by kube-proxy", _FAMILY_TABLE
            )
            self.rules_last = gauge(
                "sync_proxy_rules_iptables_last",
                "Number of iptables rules written by kube-proxy in last sync",
                _FAMILY_TABLE,
            )

    def _gauge(self, name: str, words: str, labels: tuple[str, ...] = ()) -> Metric:
        return self._add(Metric(_name(name), _help(words), "gauge", labels))

    def _counter(self, name: str, words: str, labels: tuple[str, ...] = ()) -> Metric:
        return self._add(Metric(_name(name), _help(words), "counter", labels))

    def _histogram(self, name: str, words: str, buckets: tuple[float, ...] = _SYNC_BUCKETS) -> Histogram:
        histogram = Histogram(_name(name), _help(words), "histogram", _FAMILY, buckets=buckets)
        self._all.append(histogram)
        return histogram

    def _add(self, metric: Metric) -> Metric:
        self._all.append(metric)
        return metric

    def service_changed(self) -> None:
        """A Service was added, changed or deleted."""
        self.service_pending.add()
        self.service_total.add()

    def endpoints_changed(self) -> None:
        """An EndpointSlice was added, changed or deleted."""
        self.endpoint_pending.add()
        self.endpoint_total.add()

    def queued(self, family: Family, now: float) -> None:
        """A sync was asked for."""
        self.last_queued.set(now, family.kubernetes)

    def taken_in(self) -> None:
        """All changes that had come are part of the sync that runs now."""
        self.service_pending.set(0)
        self.endpoint_pending.set(0)

    def synced(self, family: Family, now: float, took: float, *, full: bool) -> None:
        """A sync of one family ended well; ``took`` seconds."""
        self.last.set(now, family.kubernetes)
        self.duration.observe(took, family.kubernetes)
        detailed = self.full if full else self.partial
        if detailed is not None:
            detailed.observe(took, family.kubernetes)

    def failed(self, family: Family) -> None:
        """The kernel or a tool refused a sync."""
        if self.failures is not None:
            self.failures.add(family.kubernetes)

    def programmed(self, family: Family, seconds: Iterable[float]) -> None:
        """How long after each change of endpoints (annotation ``last-change-trigger-time``) its rules were there."""
        for each in seconds:
            self.programming.observe(each, family.kubernetes)

    def count_rules(self, family: Family, total: Mapping[str, int], written: Mapping[str, int]) -> None:
        """iptables mode: rules by table, in all and written in the last sync."""
        for metric, counts in ((self.rules, total), (self.rules_last, written)):
            if metric is not None:
                for table, count in counts.items():
                    metric.set(count, family.kubernetes, table)

    def count_ports(self, family: Family, ports: Mapping[ServicePortName, PortState]) -> None:
        """How many Service ports want local endpoints and have none here, though there are some elsewhere."""
        states = [state for state in ports.values() if state.endpoints.anywhere and not state.endpoints.local]
        internal = sum(state.port.internal_policy_local for state in states)
        external = sum(state.port.external_policy_local and state.port.externally_accessible for state in states)
        self.no_local_endpoints.set(internal, family.kubernetes, "internal")
        self.no_local_endpoints.set(external, family.kubernetes, "external")

    def reconciled(self, family: Family, took: float, deleted: int) -> None:
        """Stale conntrack entries were looked for, ``took`` seconds, and so many deleted."""
        self.conntrack_duration.observe(took, family.kubernetes)
        self.conntrack_deleted.add(family.kubernetes, amount=deleted)

    def text(self) -> str:
        return exposition(self._all)
