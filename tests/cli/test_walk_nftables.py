"""Walks through nodes in nftables mode: the same probes, other rules, the same evidence."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import netlab
from netlab.model.walk import Step, Walk
from tests.cli.test_walk import LABS, changes, check, reached, step_with, until
from tests.conftest import NODEPORT

pytestmark = [pytest.mark.kernel, pytest.mark.xdist_group("nftables-walks")]


@pytest.fixture(scope="module")
def lab() -> Iterator[netlab.Lab]:
    with netlab.open_lab(NODEPORT, LABS / "services.yaml", LABS / "policies.yaml", mode="nftables") as lab:
        yield lab


def reason_ids(walk: Walk) -> list[str]:
    return [step.reason.id for step in walk.steps if step.reason is not None and step.direction == "request"]


def origin_of(step: Step) -> str:
    assert step.origin is not None
    return f"{step.origin.object} {step.origin.field}"


def chains(walk: Walk) -> list[str]:
    """The chains of the request, each once, in order, without the hash in a Service's name."""
    found = [step.chain for step in walk.steps if step.chain is not None and step.direction == "request"]
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("pod", ["web-1", "web-3"])
def test_a_node_port(lab: netlab.Lab, pod: str) -> None:
    walk = until(lambda: lab.walk("client", "192.168.60.123:30080"), reached(pod))
    check(walk)
    assert (walk.verdict, walk.mode, walk.gaps) == ("answered", "nftables", ())
    assert changes(walk) == [
        ("request", "node-a", "PREROUTING", ("destination",)),
        ("request", "node-a", "POSTROUTING", ("source",)),
        ("reply", "node-a", "PREROUTING", ("destination",)),
        ("reply", "node-a", "POSTROUTING", ("source",)),
    ]
    path = chains(walk)
    assert path.index("nat-prerouting") < path.index("services") < path.index("masquerading")
    dispatch = next(step for step in walk.steps if step.reason is not None and step.reason.id == "rule.node-port")
    assert origin_of(dispatch) == "Service default/web spec.ports[0].nodePort"
    assert dispatch.origin is not None
    assert dispatch.origin.line is not None
    dnat = step_with(walk, "DNAT")
    assert dnat.reason is not None
    assert dnat.reason.id == "rule.picked-and-translated"
    assert dnat.origin is not None
    assert dnat.origin.object.startswith("EndpointSlice default/web-")
    assert "rule.masq-external" in reason_ids(walk)


def test_a_pod_to_a_cluster_ip_keeps_its_source(lab: netlab.Lab) -> None:
    walk = until(lambda: lab.walk("curl", "10.96.0.1:80"), reached("web-3"))
    check(walk)
    assert changes(walk) == [
        ("request", "node-a", "PREROUTING", ("destination",)),
        ("reply", "node-a", "POSTROUTING", ("source",)),
    ]
    assert walk.seen_by_pod is not None
    assert walk.seen_by_pod.startswith("10.200.1.10:")
    dispatch = next(step for step in walk.steps if step.reason is not None and step.reason.id == "rule.cluster-ip")
    assert origin_of(dispatch) == "Service default/web spec.clusterIP"


def test_a_pod_that_reaches_itself_is_masqueraded(lab: netlab.Lab) -> None:
    walk = lab.walk("curl", "10.96.0.8:80")
    check(walk)
    assert walk.verdict == "answered"
    snat = step_with(walk, "SNAT")
    assert snat.reason is not None
    assert snat.reason.id == "rule.masq-hairpin-now"


def test_a_node_goes_through_output(lab: netlab.Lab) -> None:
    walk = lab.walk("node-a", "10.96.0.1:80")
    check(walk)
    assert walk.verdict == "answered"
    assert step_with(walk, "DNAT").hook == "OUTPUT"
    assert "rule.to-services-local" in reason_ids(walk)


def test_udp(lab: netlab.Lab) -> None:
    walk = lab.walk("client", "192.168.60.123:30053", protocol="udp")
    check(walk)
    assert walk.verdict == "answered"
    assert walk.gaps == ()


@pytest.mark.parametrize(("sender", "to"), [("curl", "10.96.0.9:80"), ("client", "192.168.60.123:30099")])
def test_without_endpoints_it_is_rejected(lab: netlab.Lab, sender: str, to: str) -> None:
    walk = lab.walk(sender, to)
    check(walk)
    assert walk.verdict == "rejected"
    refused = step_with(walk, "reject")
    assert refused.chain == "reject-chain"
    assert refused.reason is not None
    assert refused.reason.id == "rule.rejected-nothing-selected"
    assert "Service default/none" in refused.reason.en
    assert origin_of(refused) == "Service default/none spec.selector"


def test_policy_local_without_a_local_endpoint_drops(lab: netlab.Lab) -> None:
    walk = lab.walk("client", "192.168.60.123:30111", timeout=0.3)
    check(walk)
    assert walk.verdict == "dropped"
    drop = step_with(walk, "drop")
    assert drop.reason is not None
    assert drop.reason.id == "rule.dropped-no-local"
    assert origin_of(drop) == "Service default/local spec.externalTrafficPolicy"


def test_source_ranges(lab: netlab.Lab) -> None:
    walk = lab.walk("client", "192.168.60.250:80", timeout=0.3)
    check(walk)
    assert walk.verdict == "no-reply"


def test_source_ranges_from_inside(lab: netlab.Lab) -> None:
    walk = lab.walk("curl", "192.168.60.250:80", timeout=0.3)
    check(walk)
    assert walk.verdict == "dropped"
    assert "rule.to-firewall" in reason_ids(walk)
    drop = step_with(walk, "drop")
    assert drop.reason is not None
    assert "Service default/guarded" in drop.reason.en


def test_an_external_ip(lab: netlab.Lab) -> None:
    walk = lab.walk("curl", "192.168.60.251:80")
    check(walk)
    assert walk.verdict == "answered"
    assert "rule.external-ip" in reason_ids(walk)


def test_affinity(lab: netlab.Lab) -> None:
    first = lab.walk("curl", "10.96.1.1:80")
    check(first)
    assert {"rule.picked", "rule.remembered", "rule.dnat"} <= set(reason_ids(first))
    again = [lab.walk("curl", "10.96.1.1:80") for _ in range(5)]
    assert {walk.endpoint for walk in again} == {first.endpoint}
    assert all("rule.sticky" in reason_ids(walk) for walk in again)


def test_a_port_that_the_service_does_not_have(lab: netlab.Lab) -> None:
    walk = lab.walk("curl", "10.96.0.1:81")
    check(walk)
    assert walk.verdict == "rejected"
    refused = step_with(walk, "reject")
    assert refused.reason is not None
    assert refused.reason.id == "rule.rejected-wrong-port"
