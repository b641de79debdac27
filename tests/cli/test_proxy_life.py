"""A node's kube-proxy as a process: it dies, comes back, changes its mode, and has its rules taken away."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

import netlab
from netlab.model.errors import BadInput
from tests.cli.command import until
from tests.conftest import NODEPORT

pytestmark = [pytest.mark.kernel, pytest.mark.xdist_group("proxy-life")]

NODE = "node-a"
TARGET = "192.168.60.123:30080"
FLUSHES = {
    "iptables": [
        ("iptables", "-t", "nat", "-F"),
        ("iptables", "-t", "nat", "-F", "KUBE-SERVICES"),
        ("iptables", "-t", "mangle", "-X", "KUBE-PROXY-CANARY"),
        ("iptables", "-t", "nat", "-D", "PREROUTING", "1"),
        ("ip6tables", "-t", "filter", "-F"),
    ],
    "nftables": [
        ("nft", "flush", "ruleset"),
        ("nft", "delete", "table", "ip", "kube-proxy"),
        ("nft", "flush", "chain", "ip", "kube-proxy", "services"),
        ("nft", "delete", "element", "ip", "kube-proxy", "cluster-ips", "{ 10.96.0.1 }"),
    ],
}


@pytest.fixture(scope="module", params=["iptables", "nftables"])
def lab(request: pytest.FixtureRequest) -> Iterator[netlab.Lab]:
    with netlab.open_lab(NODEPORT, mode=request.param) as lab:
        yield lab


def rules(lab: netlab.Lab) -> list[str]:
    """All rules of the node but the lab's own for tracing, whoever made them, in a form that can be compared."""
    texts = []
    for command in ("iptables-save", "ip6tables-save"):
        status, out, _ = lab.run(NODE, command)
        assert status == 0
        lines = [line for line in out.decode().splitlines() if line.startswith(("-A ", ":KUBE-"))]
        texts += [re.sub(r" \[\d+:\d+\]$", "", line) for line in lines]
    for family in ("ip", "ip6"):
        _, out, _ = lab.run(NODE, "nft", "-s", "list", "table", family, "kube-proxy")
        texts += sorted(filter(None, out.decode().replace(",", "\n").split("\n")))
    return texts


def test_what_others_take_away_comes_back(lab: netlab.Lab) -> None:
    before = rules(lab)
    mode = lab.describe()["mode"]
    for command in FLUSHES[mode]:
        status, _, words = lab.run(NODE, *command)
        assert status == 0, words
        until(lambda: rules(lab) == before, f"repaired after {' '.join(command)}", 10)
    assert lab.walk("client", TARGET).verdict == "answered"


def test_rules_outlive_the_proxy_and_are_taken_over(lab: netlab.Lab) -> None:
    before = rules(lab)
    lab.kill_proxy(NODE)
    assert rules(lab) == before
    assert lab.walk("client", TARGET).verdict == "answered"
    lab.restart_proxy(NODE)
    assert rules(lab) == before


def test_another_mode_leaves_nothing_of_this_one(lab: netlab.Lab) -> None:
    mode = lab.describe()["mode"]
    other = "nftables" if mode == "iptables" else "iptables"
    before = rules(lab)
    lab.restart_proxy(NODE, other)
    words = " ".join(rules(lab))
    assert ("KUBE-" in words) == (other == "iptables")
    assert ("table ip kube-proxy" in words) == (other == "nftables")
    assert lab.walk("client", TARGET).verdict == "answered"
    lab.restart_proxy(NODE, mode)
    assert rules(lab) == before


def test_words_that_name_nothing(lab: netlab.Lab) -> None:
    with pytest.raises(BadInput, match="there is no node"):
        lab.kill_proxy("node-x")
    with pytest.raises(BadInput, match="is none of iptables"):
        lab.restart_proxy(NODE, "chains")


def test_commands_run_where_they_are_asked_to(lab: netlab.Lab) -> None:
    assert b"192.168.60.123" in lab.run(NODE, "ip", "-br", "address")[1]
    assert b"10.200.1.10" in lab.run("curl", "ip", "-br", "address")[1]
    assert lab.run("client", "sh", "-c", "cat; exit 7", stdin=b"words") == (7, b"words", b"")
    with pytest.raises(BadInput, match="cannot be run"):
        lab.run("client", "no-such-program")
