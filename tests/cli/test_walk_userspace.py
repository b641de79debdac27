"""Walks through nodes in mode userspace: a proxy process between two connections, told as one story."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import netlab
from netlab.model.walk import Walk
from tests.cli.test_walk import LABS, check, step_with
from tests.conftest import NODEPORT

pytestmark = [pytest.mark.kernel, pytest.mark.xdist_group("userspace-walks")]


@pytest.fixture(scope="module")
def lab() -> Iterator[netlab.Lab]:
    with netlab.open_lab(NODEPORT, LABS / "services.yaml", LABS / "policies.yaml", mode="userspace") as lab:
        yield lab


def relays(walk: Walk) -> list[tuple[str, str]]:
    return [(step.direction, step.place) for step in walk.steps if step.action == "relayed"]


@pytest.mark.parametrize(
    ("sender", "to", "protocol"),
    [
        ("client", "192.168.60.123:30080", "tcp"),
        ("curl", "10.96.0.1:80", "tcp"),
        ("node-a", "10.96.0.1:80", "tcp"),
        ("curl", "10.96.0.8:80", "tcp"),
        ("client", "192.168.60.123:30053", "udp"),
    ],
)
def test_two_connections_are_one_story(lab: netlab.Lab, sender: str, to: str, protocol: str) -> None:
    walk = lab.walk(sender, to, protocol=protocol)
    check(walk)
    assert (walk.verdict, walk.mode, walk.gaps) == ("answered", "userspace", ())
    assert relays(walk) == [("request", "node-a"), ("reply", "node-a")]
    step = step_with(walk, "relayed")
    joined = walk.records[step.evidence[0]]
    assert joined["dialled"] == {"source": step.source, "destination": step.destination}
    assert walk.endpoint is not None
    assert step.destination == f"{walk.endpoint.ip}:{walk.endpoint.port}"
    assert walk.seen_by_pod == step.source


def test_endpoints_take_turns(lab: netlab.Lab) -> None:
    walks = [lab.walk("curl", "10.96.0.1:80") for _ in range(6)]
    pods = [walk.endpoint.pod for walk in walks if walk.endpoint is not None]
    assert pods[:3] == pods[3:]
    assert len(set(pods)) == 3


def test_affinity(lab: netlab.Lab) -> None:
    assert len({lab.walk("curl", "10.96.1.1:80").endpoint for _ in range(4)}) == 1


def test_no_endpoint_closes_the_connection(lab: netlab.Lab) -> None:
    walk = lab.walk("curl", "10.96.0.9:80")
    check(walk)
    assert walk.verdict == "refused"
    closed = step_with(walk, "closed")
    assert closed.reason is not None
    assert "Service default/none has no ready endpoint" in closed.reason.en


def test_killing_the_proxy_kills_the_service_on_its_node(lab: netlab.Lab) -> None:
    lab.kill_proxy("node-a")
    assert lab.walk("client", "192.168.60.123:30080").verdict == "refused"
    assert lab.walk("client", "192.168.60.124:30080").verdict == "answered"
    lab.restart_proxy("node-a")
    assert lab.walk("client", "192.168.60.123:30080").verdict == "answered"
