"""Walks through nodes in ipvs mode, in a microVM where this kernel has no IPVS: the kernel's balancer as evidence."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

import netlab
from netlab.model.walk import Walk
from tests.cli.command import run
from tests.cli.test_walk import LABS, changes, check, step_with
from tests.conftest import NODEPORT

pytestmark = [pytest.mark.kernel, pytest.mark.xdist_group("microvm")]


@pytest.fixture(scope="module")
def lab() -> Iterator[netlab.Lab]:
    with netlab.open_lab(NODEPORT, LABS / "services.yaml", LABS / "policies.yaml", mode="ipvs") as lab:
        yield lab


def balanced(walk: Walk) -> tuple[str, str | None, str]:
    """Where IPVS picked an endpoint, what caused its virtual server, and what its table has as evidence."""
    step = step_with(walk, "IPVS")
    record = next(walk.records[each] for each in step.evidence if each.startswith("ipvs:"))
    assert record["real"] == step.destination
    origin = f"{step.origin.object} {step.origin.field}" if step.origin is not None else None
    return f"{step.place} {step.hook}", origin, str(record["virtual"])


def test_a_node_port(lab: netlab.Lab) -> None:
    walk = lab.walk("client", "192.168.60.123:30080")
    check(walk)
    assert (walk.verdict, walk.mode, walk.gaps) == ("answered", "ipvs", ())
    assert balanced(walk) == (
        "node-a INPUT",
        "Service default/web spec.ports[0].nodePort",
        "192.168.60.123:30080",
    )
    assert changes(walk) == [
        ("request", "node-a", "INPUT", ("destination",)),
        ("request", "node-a", "POSTROUTING", ("source",)),
        ("reply", "node-a", "PREROUTING", ("destination",)),
        ("reply", "node-a", "FORWARD", ("source",)),
    ]


def test_endpoints_take_turns(lab: netlab.Lab) -> None:
    walks = [lab.walk("curl", "10.96.0.1:80") for _ in range(6)]
    pods = [walk.endpoint.pod for walk in walks if walk.endpoint is not None]
    assert pods[:3] == pods[3:]
    assert len(set(pods)) == 3


def test_a_pods_source_is_kept(lab: netlab.Lab) -> None:
    walk = lab.walk("curl", "10.96.0.1:80")
    check(walk)
    assert walk.gaps == ()
    assert [each[3] for each in changes(walk)] == [("destination",), ("source",)]
    assert balanced(walk)[1] == "Service default/web spec.clusterIP"
    assert walk.seen_by_pod is not None
    assert walk.seen_by_pod.startswith("10.200.1.10:")


def test_a_pod_that_reaches_itself(lab: netlab.Lab) -> None:
    walk = lab.walk("curl", "10.96.0.8:80")
    check(walk)
    assert (walk.verdict, walk.gaps) == ("answered", ())
    snat = step_with(walk, "SNAT")
    assert snat.reason is not None
    assert snat.reason.id == "rule.masq-hairpin-now"


def test_from_the_node_itself(lab: netlab.Lab) -> None:
    walk = lab.walk("node-a", "10.96.0.1:80")
    check(walk)
    assert (walk.verdict, walk.gaps) == ("answered", ())
    assert balanced(walk)[0] == "node-a OUTPUT"


def test_udp(lab: netlab.Lab) -> None:
    walk = lab.walk("client", "192.168.60.123:30053", protocol="udp")
    check(walk)
    assert (walk.verdict, walk.gaps) == ("answered", ())


@pytest.mark.parametrize(
    ("sender", "to"), [("curl", "10.96.0.9:80"), ("client", "192.168.60.123:30099"), ("node-a", "10.96.0.9:80")]
)
def test_a_virtual_server_without_real_servers_refuses(lab: netlab.Lab, sender: str, to: str) -> None:
    walk = lab.walk(sender, to)
    check(walk)
    assert (walk.verdict, walk.gaps) == ("rejected", ())
    refused = step_with(walk, "reject")
    assert refused.reason is not None
    assert "has no real server" in refused.reason.en
    assert "no Pod has the labels of its selector" in refused.reason.en
    assert refused.origin is not None
    assert refused.origin.object == "Service default/none"


def test_a_port_that_no_service_has(lab: netlab.Lab) -> None:
    walk = lab.walk("curl", "10.96.0.1:81")
    check(walk)
    assert walk.verdict == "rejected"
    assert step_with(walk, "reject").chain == "KUBE-IPVS-FILTER"


def test_source_ranges(lab: netlab.Lab) -> None:
    walk = lab.walk("curl", "192.168.60.250:80", timeout=0.5)
    check(walk)
    assert walk.verdict == "dropped"
    drop = step_with(walk, "drop")
    assert drop.reason is not None
    assert "Service default/guarded" in drop.reason.en


def test_affinity(lab: netlab.Lab) -> None:
    walks = [lab.walk("curl", "10.96.1.1:80") for _ in range(4)]
    assert len({walk.endpoint for walk in walks}) == 1


def test_the_proxy_dies_and_comes_back(lab: netlab.Lab) -> None:
    before = [lab.run("node-a", "cat", "/proc/net/ip_vs")[1], lab.run("node-a", "iptables-nft-save", "-t", "nat")[1]]
    assert b"0AC80214:0050" in before[0]
    lab.kill_proxy("node-a")
    assert lab.walk("client", "192.168.60.123:30080").verdict == "answered"
    lab.restart_proxy("node-a")
    assert lab.walk("client", "192.168.60.123:30080").verdict == "answered"


def test_other_modes_and_back(lab: netlab.Lab) -> None:
    for mode in ("iptables", "nftables", "ipvs"):
        lab.restart_proxy("node-a", mode)
        assert (b"kube-ipvs0" in lab.run("node-a", "ip", "-br", "link")[1]) == (mode == "ipvs")
        rules = lab.run("node-a", "iptables-nft-save")[1]
        assert (b"KUBE-IPVS-FILTER" in rules) == (mode == "ipvs")
        assert (b":KUBE-NODEPORTS" in rules) == (mode == "iptables")
        assert lab.walk("client", "192.168.60.123:30080").verdict == "answered"


def test_the_kernel_has_what_the_dry_run_says(lab: netlab.Lab) -> None:
    real = lab.client.call("lab.rules", node="node-b")["text"]
    files = [str(NODEPORT), str(LABS / "services.yaml"), str(LABS / "policies.yaml")]
    dry = run("rules", *files, "--node", "node-b", "--mode", "ipvs", "--dry-run").stdout
    assert sorted(comparable(real)) == sorted(comparable(dry))


def comparable(text: str) -> list[str]:
    """Without policies' counters and the lines of tables' ends, of which there are as many as tables."""
    return [re.sub(r" \[\d+:\d+\]$", "", line).rstrip() for line in text.splitlines()]
