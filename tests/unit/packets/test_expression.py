"""Packets as an expression: what is refused, and in which words."""

from __future__ import annotations

import socket

import pytest

from netlab.model.errors import BadInput
from netlab.packets.expression import parse_expression


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("IP()/TCP(dport=99999)", "column 16: TCP: dport=99999 is not possible: a whole number from 0 to 65535"),
        ("IP()/TCP(dport=-1)", "TCP: dport=-1 is not possible: a whole number from 0 to 65535"),
        ("IP()/TCP(dport=1e3)", "TCP: dport=1000.0 is not possible: a whole number"),
        (
            'IP()/TCP(flags="Q")',
            "TCP: flags='Q' is not possible: flags are made of FSRPAUECN, or are a number from 0 to",
        ),
        ('IP(flags="XX")', "IP: flags='XX' is not possible: flags are made of MF+DF+evil"),
        ("IP(ihl=99)", "IP: ihl=99 is not possible: a whole number from 0 to 15"),
        ("IP(ttl=300)", "IP: ttl=300 is not possible: a whole number from 0 to 255"),
        ("IP()/ICMP(id=70000)", "ICMP: id=70000 is not possible: a whole number from 0 to 65535"),
        ('IP()/UDP(dport="no such name")', "UDP: dport='no such name' is not possible"),
        ('IP(dst="www.example.com")', "IP: dst='www.example.com' is not possible: an IPv4 address is needed"),
        ('IP(dst="")', "IP: dst='' is not possible: an IPv4 address is needed"),
        ('IP(dst="10.96.0.0/24")', "IP: dst='10.96.0.0/24' is not possible: an IPv4 address is needed"),
        ('IP(src="fd00::1")', "IP: src='fd00::1' is not possible: an IPv4 address is needed"),
        ('IPv6(dst="example.com")', "IPv6: dst='example.com' is not possible: an IPv6 address is needed"),
        ("IP()/UDP(dport=(1,10))", "UDP: dport=(1, 10) is not possible: one value is needed"),
        ("IP()/UDP(dport=[53,54])", "UDP: dport=[53, 54] is not possible: one value is needed"),
        ('IP(dst=["10.0.0.1","10.0.0.2"])', "one value is needed"),
    ],
)
def test_values_that_no_packet_can_have(text: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: object) -> None:
        raise AssertionError("a name was looked up")

    for each in ("getaddrinfo", "gethostbyname"):
        monkeypatch.setattr(socket, each, nothing)
    with pytest.raises(BadInput) as raised:
        parse_expression(text)
    assert said in raised.value.text.en
    assert "\n" not in raised.value.text.en
    assert "不能使用" in raised.value.text.zh


@pytest.mark.parametrize(
    "text",
    [
        'IP(dst="10.0.0.1",proto="udp",flags="DF+MF")/TCP(flags="SA",options=[("MSS",1460),("NOP",None)])',
        "IP(dst=None)/TCP(sport=None, flags=18)",
        'IP()/ICMP(type=3,code="host-unreachable")',
        'IPv6(dst="fd00::1")/ICMPv6EchoRequest(id=1)',
        'IP()/UDP()/DNS(rd=1,qd=DNSQR(qname="x.y"))',
        "IP(options=[IPOption_RR()])/ICMP()",
        'Ether(dst="ff:ff:ff:ff:ff:ff")/IP()',
    ],
)
def test_values_that_scapy_has(text: str) -> None:
    assert parse_expression(text).layers()


def test_none_leaves_a_field_open() -> None:
    assert "sport" not in parse_expression("TCP(sport=None)").fields
