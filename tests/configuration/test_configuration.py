"""The configuration of kube-proxy: how it tells Pods' traffic, what it masquerades, which addresses serve nodePorts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.behaviour.conftest import NOT_USERSPACE
from tests.behaviour.running import Running, running

CLUSTER_CIDR = "clusterCIDR: 10.244.0.0/16,fd00:10:244::/56"
OTHERS_TOO = ("ip", "route", "add", "10.96.0.0/16", "via", "192.168.50.11")
"""The router takes cluster IPs to n1."""


IPVS = [each for each in NOT_USERSPACE if each.values == ("ipvs",)]
OTHERS = [each for each in NOT_USERSPACE if each.values != ("ipvs",)]
"""Detection is the same code in all modes; the guest that mode ipvs may need is slow."""


@pytest.fixture(params=NOT_USERSPACE)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextmanager
def variant(mode: str, instead: str, changes: dict[str, str] | None = None) -> Iterator[Running]:
    """A lab with other lines in the place of the clusterCIDR, and other changes."""
    with running(
        mode, "cluster.yaml", "proxy.yaml", "variants.yaml", changes={CLUSTER_CIDR: instead, **(changes or {})}
    ) as lab:
        lab.run("router", *OTHERS_TOO)
        yield lab


def seen(lab: Running, sender: str, to: str, count: int = 2) -> set[str]:
    return {each.error or ("own" if each.seen == each.own else each.seen) for each in lab.talk(sender, to, count)}


def verdict(lab: Running, sender: str, to: str) -> str:
    return lab.walk(sender, to, timeout=0.3).verdict


def short_circuit(lab: Running) -> None:
    """Pods of the node reach all endpoints of a Service with policy Local."""
    assert seen(lab, "cli2", "192.168.50.12:30081") == {"own"}
    assert seen(lab, "cli2", "10.96.0.11:80") == {"own"}
    assert seen(lab, "x1", "10.96.0.11:80") == {"10.244.1.1"}


def other_nodes_pod(lab: Running) -> str:
    """A Pod of n2 asks n3 for a Service with policy Local, whose endpoint is on n1."""
    return verdict(lab, "cli2", "192.168.50.13:30081")


@pytest.mark.parametrize("mode", OTHERS, indirect=True)
def test_cluster_cidr(mode: str) -> None:
    """Every Pod counts as local, so the answer comes from a stranger. Its way in is INVALID to conntrack: iptables mode
    drops such packets on the Pod's node, else they get as far as the Pod, which resets them."""
    with variant(mode, CLUSTER_CIDR) as lab:
        short_circuit(lab)
        assert other_nodes_pod(lab) == ("dropped" if mode == "iptables" else "no-reply")


def test_node_cidr_and_node_port_addresses(mode: str) -> None:
    text = "detectLocalMode: NodeCIDR\nnodePortAddresses: [192.168.50.0/24]"
    with variant(mode, text) as lab:
        short_circuit(lab)
        # In mode ipvs all endpoints are used where there is none on the node.
        assert other_nodes_pod(lab) == ("no-reply" if mode == "ipvs" else "dropped")
        assert verdict(lab, "x1", "192.168.50.11:30080") == "answered"
        assert verdict(lab, "x1", "192.168.77.11:30080") == "refused"
        assert verdict(lab, "n1", "127.0.0.1:30080") == "refused"


@pytest.mark.parametrize("mode", OTHERS, indirect=True)
def test_bridge_and_primary(mode: str) -> None:
    text = "detectLocalMode: BridgeInterface\ndetectLocal: {bridgeInterface: cni0}\nnodePortAddresses: [primary]"
    with variant(mode, text) as lab:
        short_circuit(lab)
        assert other_nodes_pod(lab) == "dropped"
        assert verdict(lab, "x1", "192.168.50.11:30080") == "answered"
        assert verdict(lab, "x1", "192.168.77.11:30080") == "refused"


def test_prefix_and_liberal_tracking(mode: str) -> None:
    text = (
        "detectLocalMode: InterfaceNamePrefix\ndetectLocal: {interfaceNamePrefix: cni}\nconntrack: {tcpBeLiberal: true}"
    )
    with variant(mode, text) as lab:
        short_circuit(lab)
        assert other_nodes_pod(lab) == ("no-reply" if mode == "ipvs" else "dropped")
        assert lab.run("n1", "cat", "/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal").strip() == "1"
        assert "INVALID" not in lab.rules("n1")


def test_no_detection_and_no_loopback(mode: str) -> None:
    """Without a way to tell Pods, nobody gets a short circuit and nobody is masqueraded on the way to a cluster IP."""
    with variant(mode, "", {"iptables: {": "iptables: {localhostNodePorts: false, "}) as lab:
        if mode != "ipvs":
            assert verdict(lab, "cli2", "192.168.50.12:30081") == "dropped"
        assert seen(lab, "n1", "192.168.50.11:30081") == {"10.244.1.1" if mode != "ipvs" else "own"}
        assert seen(lab, "cli2", "10.96.0.11:80") == {"own"}
        assert seen(lab, "x1", "10.96.0.11:80") == {"own"}
        assert verdict(lab, "n1", "127.0.0.1:30080") == "refused"
        assert lab.run("n1", "cat", "/proc/sys/net/ipv4/conf/all/route_localnet").strip() == "0"


def test_masquerade_all(mode: str) -> None:
    """Cluster IPs alone: policy Local keeps the source."""
    changes = {f"{each}: {{": f"{each}: {{masqueradeAll: true, " for each in ("iptables", "nftables")}
    with variant(mode, CLUSTER_CIDR, changes) as lab:
        assert seen(lab, "cli1", "10.96.0.10:80", 40) == {"10.244.1.1", "192.168.50.11"}
        assert seen(lab, "x1", "192.168.50.11:30081") == {"own"}


@pytest.mark.parametrize("mode", IPVS, indirect=True)
def test_addresses_of_ipvs(mode: str) -> None:
    """An external IP that is a node's own is not bound there, and is on all others: these lose sight of that node."""
    with running(
        mode, "cluster.yaml", "proxy.yaml", "variants.yaml", "external-node.yaml", changes={", strictARP: true": ""}
    ) as lab:
        bound = {node: lab.run(node, "ip", "-o", "addr", "show", "kube-ipvs0") for node in ("n1", "n2", "n3")}
        assert [node for node, text in bound.items() if "192.168.50.11/32" in text] == ["n2", "n3"]
        assert "192.168.50.11:8000" in lab.rules("n1")
        names = ("arp_ignore", "arp_announce")
        found = [lab.run("n1", "cat", f"/proc/sys/net/ipv4/conf/all/{name}").strip() for name in names]
        assert found == ["0", "0"]
