"""Metrics and their text."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netlab.proxy.exposition import Histogram, Metric, exposition, label_text, number_text
from netlab.proxy.family import Family
from netlab.proxy.metrics import ProxyMetrics
from netlab.proxy.topology import NodeTopology
from tests.unit.proxy.build import READY, endpoint_slice, service, tracker


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (3, "3"),
        (0.001, "0.001"),
        (16.384, "16.384"),
        (0.25, "0.25"),
        (131072, "131072"),
        (1000000, "1e+06"),
        (1234567.5, "1.2345675e+06"),
        (1704110400, "1.7041104e+09"),
        (0.00001, "1e-05"),
        (-2.5, "-2.5"),
    ],
)
def test_numbers_as_go_writes_them(value: float, text: str) -> None:
    assert number_text(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_read_back_the_same(value: float) -> None:
    assert math.isclose(float(number_text(value)), value, rel_tol=0, abs_tol=0)


def test_labels_are_escaped_and_in_order() -> None:
    assert (
        label_text(("table", "le", "ip_family"), ("n\\at", "1", 'I"P\n'))
        == r'{ip_family="I\"P\n",table="n\\at",le="1"}'
    )
    assert label_text((), ()) == ""


def test_histogram_counts_cumulatively() -> None:
    made = Histogram("h", "words", "histogram", ("f",), buckets=(0.1, 1))
    for value in (0.05, 0.1, 0.5, 7):
        made.observe(value, "a")
    assert exposition([made]).splitlines() == [
        "# HELP h words",
        "# TYPE h histogram",
        'h_bucket{f="a",le="0.1"} 2',
        'h_bucket{f="a",le="1"} 3',
        'h_bucket{f="a",le="+Inf"} 4',
        'h_sum{f="a"} 7.65',
        'h_count{f="a"} 4',
    ]


def test_series_without_labels_are_there_from_the_beginning() -> None:
    assert exposition([Metric("b", "x", "counter"), Metric("a", "x", "counter", ("l",))]) == (
        "# HELP b x\n# TYPE b counter\nb 0\n"
    )


def test_a_sync_in_the_real_ones_names() -> None:
    metrics = ProxyMetrics("iptables")
    metrics.service_changed()
    metrics.endpoints_changed()
    metrics.queued(Family.IPV4, 1704110400.5)
    assert "kubeproxy_sync_proxy_rules_service_changes_pending 1" in metrics.text()
    metrics.taken_in()
    metrics.synced(Family.IPV4, 1704110401.0, 0.003, full=False)
    metrics.programmed(Family.IPV4, [0.4])
    metrics.count_rules(Family.IPV4, {"filter": 12, "nat": 30}, {"nat": 4})
    metrics.reconciled(Family.IPV4, 0.01, 3)
    lines = metrics.text().splitlines()
    for line in (
        "# HELP kubeproxy_sync_proxy_rules_duration_seconds [ALPHA] SyncProxyRules latency in seconds",
        "# TYPE kubeproxy_sync_proxy_rules_duration_seconds histogram",
        'kubeproxy_sync_proxy_rules_duration_seconds_bucket{ip_family="IPv4",le="0.002"} 0',
        'kubeproxy_sync_proxy_rules_duration_seconds_bucket{ip_family="IPv4",le="0.004"} 1',
        'kubeproxy_sync_proxy_rules_duration_seconds_bucket{ip_family="IPv4",le="16.384"} 1',
        'kubeproxy_sync_partial_proxy_rules_duration_seconds_count{ip_family="IPv4"} 1',
        'kubeproxy_network_programming_duration_seconds_bucket{ip_family="IPv4",le="0"} 0',
        'kubeproxy_network_programming_duration_seconds_bucket{ip_family="IPv4",le="0.5"} 1',
        'kubeproxy_network_programming_duration_seconds_bucket{ip_family="IPv4",le="300"} 1',
        "kubeproxy_sync_proxy_rules_service_changes_pending 0",
        "kubeproxy_sync_proxy_rules_service_changes_total 1",
        "kubeproxy_sync_proxy_rules_endpoint_changes_total 1",
        'kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv4"} 1.7041104005e+09',
        'kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"} 1.704110401e+09',
        'kubeproxy_sync_proxy_rules_iptables_total{ip_family="IPv4",table="nat"} 30',
        'kubeproxy_sync_proxy_rules_iptables_last{ip_family="IPv4",table="nat"} 4',
        'kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family="IPv4"} 3',
    ):
        assert line in lines
    assert len([line for line in lines if "programming_duration_seconds_bucket" in line]) == 1 + 2 + 59 + 12 + 7 + 1


@pytest.mark.parametrize(
    ("mode", "name"),
    [
        ("iptables", "kubeproxy_sync_proxy_rules_iptables_restore_failures_total"),
        ("ipvs", "kubeproxy_sync_proxy_rules_iptables_restore_failures_total"),
        ("nftables", "kubeproxy_sync_proxy_rules_nftables_sync_failures_total"),
    ],
)
def test_failures_by_mode(mode: str, name: str) -> None:
    metrics = ProxyMetrics(mode)
    metrics.failed(Family.IPV6)
    assert f'{name}{{ip_family="IPv6"}} 1' in metrics.text().splitlines()
    assert ("nftables" in metrics.text()) == (mode == "nftables")


def test_ports_without_local_endpoints() -> None:
    text = """
    {metadata: a, spec: {type: NodePort, clusterIP: 10.96.0.8, internalTrafficPolicy: Local,
     externalTrafficPolicy: Local, ports: [{port: 80, nodePort: 30080}]}}
    """
    endpoints = [{"addresses": ["10.244.2.7"], "nodeName": "n2", "conditions": READY}]
    for node, count in (("n1", 1), ("n2", 0)):
        slices = [endpoint_slice("a-1", "a", endpoints, [{"port": 8080}])]
        known = tracker([service(text)], slices, NodeTopology(node))
        known.take_changes()
        metrics = ProxyMetrics("ipvs")
        metrics.count_ports(Family.IPV4, known.ports)
        for policy in ("internal", "external"):
            pattern = rf'no_local_endpoints_total{{ip_family="IPv4",traffic_policy="{policy}"}} {count}$'
            assert re.search(pattern, metrics.text(), re.MULTILINE)
