"""Stale conntrack entries, and the settings of the table."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from netlab.model.records import ConntrackRecord, Tuple
from netlab.objects.proxyconfig import Conntrack
from netlab.proxy.changes import ServiceTracker
from netlab.proxy.conntrack import ConntrackCleaner, stale_entries
from netlab.proxy.conntrack_settings import conntrack_max, settings_of
from netlab.proxy.family import Family
from netlab.proxy.topology import NodeTopology
from tests.unit.proxy.build import DRAINING, NOT_READY, READY, endpoint_slice, service, tracker

U = """
{metadata: u, spec: {type: LoadBalancer, clusterIP: 10.96.0.57, externalIPs: [203.0.113.7],
 externalTrafficPolicy: Local, ports: [{protocol: UDP, port: 5353, nodePort: 30253}]},
 status: {loadBalancer: {ingress: [{ip: 203.0.113.8}]}}}
"""
PORT = {"port": 8080, "protocol": "UDP"}


def known(*endpoints: tuple[str, dict[str, bool]], text: str = U, port: dict[str, Any] = PORT) -> ServiceTracker:
    values = [{"addresses": [ip], "nodeName": "n2", "conditions": state} for ip, state in endpoints]
    made = tracker([service(text)], [endpoint_slice("u-1", "u", values, [port])], NodeTopology("n1"))
    made.take_changes()
    return made


def entry(destination: str, port: int, answering: str, protocol: int = 17) -> ConntrackRecord:
    return ConntrackRecord(
        id=f"{destination}:{port}",
        place="n1",
        order=1,
        event="update",
        entry=1,
        protocol=protocol,
        original=Tuple("10.244.1.20", destination, 40001, port),
        reply=Tuple(answering, "10.244.1.20", 8080, 40001),
        status=("DNAT",),
    )


def test_entries_to_endpoints_that_are_gone() -> None:
    ports = known(("10.244.1.6", READY)).ports
    stale = [
        entry("10.96.0.57", 5353, "10.244.2.7"),
        entry("203.0.113.7", 5353, "10.244.2.7"),
        entry("203.0.113.8", 5353, "10.244.2.7"),
        entry("192.168.50.11", 30253, "10.244.2.7"),
    ]
    fresh = [
        entry("10.96.0.57", 5353, "10.244.1.6"),
        entry("10.96.0.57", 5354, "10.244.2.7"),
        entry("10.96.0.58", 5353, "10.244.2.7"),
        entry("10.96.0.57", 5353, "10.244.2.7", protocol=6),
        entry("192.168.50.11", 30253, "10.244.1.6"),
    ]
    assert stale_entries([*stale, *fresh], ports) == stale


def test_the_first_endpoint_of_a_service_that_had_none() -> None:
    untranslated = entry("10.96.0.57", 5353, "10.96.0.57")
    assert stale_entries([untranslated], known().ports) == []
    assert stale_entries([untranslated], known(("10.244.1.6", READY)).ports) == [untranslated]


def test_a_strangers_flow_to_the_number_of_a_node_port_goes_too() -> None:
    stranger = entry("172.20.0.9", 30253, "172.20.0.9")
    assert stale_entries([stranger], known(("10.244.1.6", READY)).ports) == [stranger]


def test_serving_counts_whatever_policies_say() -> None:
    ports = known(("10.244.1.6", READY), ("10.244.2.7", DRAINING), ("10.244.2.8", NOT_READY)).ports
    entries = [entry("10.96.0.57", 5353, ip) for ip in ("10.244.1.6", "10.244.2.7", "10.244.2.8")]
    assert stale_entries(entries, ports) == entries[2:]


def test_without_serving_endpoints_only_if_asked_for() -> None:
    ports = known(("10.244.2.7", NOT_READY)).ports
    old = entry("10.96.0.57", 5353, "10.244.2.7")
    assert stale_entries([old], ports) == []
    assert stale_entries([old], ports, unserved_too=True) == [old]


def test_a_service_that_is_gone_only_if_asked_for() -> None:
    gone = [state.port for state in known(("10.244.2.7", READY)).ports.values()]
    old = entry("10.96.0.57", 5353, "10.244.2.7")
    assert stale_entries([old], {}) == []
    assert stale_entries([old], {}, gone=gone) == [old]


def test_looked_for_when_endpoints_of_a_udp_port_have_changed() -> None:
    cleaner = ConntrackCleaner(Family.IPV4, "n1")
    one, other = known(("10.244.1.6", READY)).ports, known(("10.244.1.6", NOT_READY)).ports
    assert cleaner.required(one)
    assert not cleaner.required(one)
    assert cleaner.required(other)
    assert cleaner.required(dict.fromkeys(one))
    assert not cleaner.required(dict.fromkeys(one))
    web = known(
        ("10.244.1.6", READY),
        text="{metadata: u, spec: {clusterIP: 10.96.0.50, ports: [{port: 80}]}}",
        port={"port": 8080, "protocol": "TCP"},
    )
    assert not cleaner.required(web.ports)


@pytest.mark.parametrize(("cores", "most"), [(2, 131072), (8, 262144), (64, 1048576)])
def test_size_of_the_table_by_cores(cores: int, most: int) -> None:
    assert conntrack_max(Conntrack(), cores) == most


@pytest.mark.parametrize(
    ("config", "most"),
    [
        ({"maxPerCore": 0}, 0),
        ({"maxPerCore": 1000, "min": 5000}, 5000),
        ({"maxPerCore": 1000, "min": 0}, 2000),
        ({"maxPerCore": 600000}, 1048576),
    ],
)
def test_size_of_the_table_by_configuration(config: dict[str, int], most: int) -> None:
    assert conntrack_max(msgspec.convert(config, Conntrack), 2) == most


def test_default_settings() -> None:
    assert {each.name.rpartition("/")[2]: each.value for each in settings_of(Conntrack(), 2)} == {
        "nf_conntrack_max": 131072,
        "nf_conntrack_tcp_timeout_established": 86400,
        "nf_conntrack_tcp_timeout_close_wait": 3600,
    }


def test_all_settings() -> None:
    config = {
        "maxPerCore": 0,
        "tcpEstablishedTimeout": "0s",
        "tcpCloseWaitTimeout": "90s",
        "tcpBeLiberal": True,
        "udpTimeout": "10s500ms",
        "udpStreamTimeout": "1m",
    }
    made = settings_of(msgspec.convert(config, Conntrack), 2)
    assert [(each.name.rpartition("/")[2], each.value, each.field) for each in made] == [
        ("nf_conntrack_tcp_timeout_close_wait", 90, "tcpCloseWaitTimeout"),
        ("nf_conntrack_tcp_be_liberal", 1, "tcpBeLiberal"),
        ("nf_conntrack_udp_timeout", 10, "udpTimeout"),
        ("nf_conntrack_udp_timeout_stream", 60, "udpStreamTimeout"),
    ]
