"""Endpoints in turn, and clients that keep theirs."""

from __future__ import annotations

from collections.abc import MutableSequence

from hypothesis import given
from hypothesis import strategies as st

from netlab.proxy.userspace.balancer import Balancer


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def balancer(*endpoints: str, affinity: int | None = None, clock: Clock | None = None) -> Balancer:
    made = Balancer(affinity, clock or Clock(), shuffle=MutableSequence.reverse)
    made.set_endpoints(reversed(endpoints))
    return made


def test_each_in_turn_whoever_comes() -> None:
    made = balancer("a", "b", "c")
    assert [made.next(client) for client in "xyxyxyx"] == ["a", "b", "c", "a", "b", "c", "a"]


def test_nothing_without_endpoints() -> None:
    assert balancer().next("x") is None


def test_the_same_endpoints_in_another_order_change_nothing() -> None:
    made = balancer("a", "b", "c")
    made.next("x")
    made.set_endpoints(["c", "a", "b"])
    assert made.next("x") == "b"


def test_other_endpoints_begin_anew() -> None:
    made = balancer("a", "b")
    made.next("x")
    made.set_endpoints(["d", "b", "a"])
    assert [made.next("x") for _ in range(3)] == ["a", "b", "d"]


def test_a_client_keeps_its_endpoint_until_its_time_is_over() -> None:
    clock = Clock()
    made = balancer("a", "b", affinity=10, clock=clock)
    assert [made.next("x"), made.next("y"), made.next("x"), made.next("y")] == ["a", "b", "a", "b"]
    clock.now = 9.9
    assert made.next("x") == "a"
    clock.now = 19.8
    assert made.next("x") == "a"
    assert made.next("y") == "a"
    clock.now = 29.8
    assert made.next("x") == "b"


def test_a_reset_takes_the_next_and_keeps_that() -> None:
    made = balancer("a", "b", affinity=10)
    assert made.next("x") == "a"
    assert made.next("x", reset=True) == "b"
    assert made.next("x") == "b"


def test_clients_of_an_endpoint_that_is_gone_choose_again() -> None:
    made = balancer("a", "b", affinity=10)
    made.next("x"), made.next("y")
    made.set_endpoints(["b"])
    assert made.clients == {"y": "b"}
    assert made.next("x") == "b"


def test_sweeping_forgets_old_clients() -> None:
    clock = Clock()
    made = balancer("a", affinity=10, clock=clock)
    made.next("x")
    clock.now = 5
    made.next("y")
    clock.now = 10.5
    made.sweep()
    assert set(made.clients) == {"y"}


@given(st.sets(st.text(min_size=1), min_size=1, max_size=6), st.integers(1, 40))
def test_nobody_is_more_than_one_turn_ahead(endpoints: set[str], connections: int) -> None:
    made = Balancer()
    made.set_endpoints(endpoints)
    got = [made.next("x") for _ in range(connections)]
    counts = [got.count(each) for each in endpoints]
    assert max(counts) - min(counts) <= 1
