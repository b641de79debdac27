"""Why a rule matched, in words that fit what it compares."""

from __future__ import annotations

import pytest

from netlab.model.rulebook import RuleEntry
from netlab.model.text import Text
from netlab.packets import iptables_reasons, nftables_reasons
from netlab.packets.headers import parse_packet
from tests.unit.packets import wire
from tests.unit.packets.wire import TCP, Datagram

PACKET = parse_packet(wire.whole(Datagram(TCP, "192.168.60.1", "10.96.0.1", 40000, 80)))


def iptables(text: str) -> Text:
    found = iptables_reasons.explain_rule(RuleEntry("nat", "KUBE-SVC-X", 1, text, 1), "PREROUTING", "192.168.60.1")
    assert found is not None
    return found


def nftables(text: str) -> Text:
    assert PACKET is not None
    rule = RuleEntry("kube-proxy", "services", 1, text, 1, native=True)
    found = nftables_reasons.explain_rule(rule, "PREROUTING", PACKET, None, None)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "reason",
    [
        iptables("! -s 10.200.0.0/16 -d 10.96.0.1/32 -j KUBE-MARK-MASQ"),
        nftables("ip daddr . meta l4proto . th dport @service-ips ip saddr != 10.200.0.0/16 meta mark set 0x4000"),
    ],
)
def test_a_source_is_in_a_range_or_not(reason: Text) -> None:
    assert "the source 192.168.60.1 is not in 10.200.0.0/16" in reason.en
    assert "192.168.60.1 不在 10.200.0.0/16 中" in reason.zh


@pytest.mark.parametrize(
    "reason",
    [
        iptables("-d 10.96.0.1/32 ! -i cni0 -j KUBE-MARK-MASQ"),
        nftables('ip daddr . meta l4proto . th dport @service-ips iifname != "cni0" meta mark set 0x4000'),
    ],
)
def test_a_packet_comes_in_by_an_interface_or_not(reason: Text) -> None:
    assert "the packet did not come in by cni0" in reason.en
    assert "不是从 cni0 进入" in reason.zh
