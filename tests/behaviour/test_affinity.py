"""Session affinity: per Service port, for as long as a client comes back in time, and no longer."""

from __future__ import annotations

import time

from tests.behaviour.running import Running

TIMEOUT_S = 2
"""Of the Service ``sticky`` (timeoutSeconds), which has three endpoints."""
SENDERS = ("cli1", "cli2", "cli3", "n1", "n2", "n3", "x1", "x2")


def pods(lab: Running, sender: str, to: str, count: int = 5) -> set[str]:
    return {each.error or each.pod for each in lab.talk(sender, to, count)}


def test_a_client_stays_with_its_endpoint(lab: Running) -> None:
    assert len(pods(lab, "cli1", "10.96.0.70:80", 20)) == 1


def test_each_port_has_its_own(lab: Running) -> None:
    """Of eight clients, it takes chance one in 6,000 to have all of them at the same endpoint twice."""
    differing = 0
    for sender in SENDERS:
        ip = "192.168.50.11" if sender.startswith("x") else "10.96.0.70"
        ports = (30170, 30171) if sender.startswith("x") else (80, 81)
        found = [pods(lab, sender, f"{ip}:{port}") for port in ports]
        assert [len(each) for each in found] == [1, 1]
        differing += found[0] != found[1]
    # In turns, every client gets the same one twice as well as not: the two ports take turns by themselves.
    assert differing or lab.mode in ("ipvs", "userspace")


def test_it_ends_after_silence(lab: Running) -> None:
    """In mode ipvs it does not: connections in TIME_WAIT hold it for two minutes. Userspace looks in turns."""
    if lab.mode in ("ipvs", "userspace"):
        return
    found: set[str] = set()
    for _ in range(12):
        found |= pods(lab, "cli2", "10.96.0.70:80", 1)
        if len(found) > 1:
            break
        # The silence itself.
        time.sleep(TIMEOUT_S + 0.5)
    assert len(found) > 1


def test_it_lasts_as_long_as_the_client_comes_back(lab: Running) -> None:
    """Each connection begins the time anew."""
    found: set[str] = set()
    for pause in (0.0, TIMEOUT_S * 0.6, TIMEOUT_S * 0.6):
        time.sleep(pause)
        found |= pods(lab, "cli3", "10.96.0.70:80", 1)
    assert len(found) == 1
