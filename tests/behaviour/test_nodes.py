"""What is on a node besides what packets show: what is not programmed, the proxy's servers, kernel settings."""

from __future__ import annotations

import pytest

from netlab.model.text import Text
from tests.behaviour.running import Running

NOT_PROGRAMMED = {
    "ipMode Proxy": "203.0.113.11",
    "another proxy's Service": "10.96.0.35",
    "headless": "default/headless",
    "ExternalName": "default/elsewhere",
    "another proxy's Service by name": "default/others",
}


def test_what_is_not_programmed(lab: Running) -> None:
    for node in ("n1", "n2"):
        rules = lab.rules(node)
        assert "10.96.0.10" in rules
        assert not [what for what, text in NOT_PROGRAMMED.items() if text in rules]


def test_a_zero_range_is_no_firewall(lab: Running) -> None:
    rules = [line for line in lab.rules("n1").splitlines() if "203.0.113.15" in line or "default/open-to-all" in line]
    assert rules or lab.mode == "userspace"
    assert not [line for line in rules if "firewall" in line.lower() or "-FW" in line]


@pytest.mark.parametrize(("node", "ip", "local"), [("n1", ".11", 1), ("n2", ".12", 2), ("n3", ".13", 0)])
def test_a_health_check(lab: Running, node: str, ip: str, local: int) -> None:
    """Pods count once, however many ports they serve. (prefer: a1 on n1, b1 and b2 on n2.)"""
    if lab.mode == "userspace":
        return
    status, headers, said = lab.get("x1", f"192.168.50{ip}", 31900)
    assert status == (200 if local else 503)
    assert said == {
        "service": {"namespace": "default", "name": "checked"},
        "localEndpoints": local,
        "serviceProxyHealthy": True,
    }
    assert headers["Content-Type"] == "application/json"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Load-Balancing-Endpoint-Weight"] == str(local)


def test_an_endpoint_that_leaves_does_not_count(lab: Running) -> None:
    if lab.mode == "userspace":
        return
    status, _, said = lab.get("x1", "192.168.50.11", 31901)
    assert (status, said["localEndpoints"]) == (503, 0)


def test_the_proxys_own_health(lab: Running) -> None:
    status, _, said = lab.get("x1", "192.168.50.11", 10256, "/healthz")
    assert (status, said["healthy"], said["nodeEligible"]) == (200, True, True)


def test_conntrack_settings(lab: Running) -> None:
    names = ("established", "close_wait")
    found = [lab.run("n1", "cat", f"/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_{name}").strip() for name in names]
    assert found == ["86400", "3600"]
    assert lab.run("n1", "cat", "/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal").strip() == "0"


def test_packets_that_conntrack_calls_invalid(lab: Running) -> None:
    """Dropped in iptables mode alone."""
    drops = [line for line in lab.rules("n1").splitlines() if "INVALID" in line or "ct state invalid" in line]
    assert bool(drops) == (lab.mode == "iptables")


def test_loopback_node_ports_need_a_setting(lab: Running) -> None:
    """iptables mode serves nodePorts on 127.0.0.1, for which packets from there have to be routed."""
    if lab.mode == "userspace":
        return
    setting = lab.run("n1", "cat", "/proc/sys/net/ipv4/conf/all/route_localnet").strip()
    assert setting == ("1" if lab.mode == "iptables" else "0")


def test_addresses_of_ipvs(lab: Running) -> None:
    if lab.mode != "ipvs":
        return
    link = lab.run("n1", "ip", "-o", "addr", "show", "kube-ipvs0")
    for there in ("10.96.0.10/32", "203.0.113.10/32", "203.0.113.20/32", "fd00:10:96::95/128"):
        assert there in link
    for absent in ("192.168.50.", "10.96.0.35/", "203.0.113.11/"):
        assert absent not in link
    flags = lab.run("n1", "ip", "-o", "link", "show", "kube-ipvs0")
    assert "NOARP" in flags
    assert "state DOWN" in flags
    found = [lab.run("n1", "cat", f"/proc/sys/net/ipv4/conf/all/arp_{name}").strip() for name in ("ignore", "announce")]
    assert found == ["1", "2"]


def test_nothing_is_complained_of(lab: Running) -> None:
    notes: list[Text] = lab.client.call("lab.describe")["notes"]
    assert notes == []
