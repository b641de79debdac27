"""The store: keys, revisions, watches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netlab.cluster import store as store_module
from netlab.cluster.store import Event, RevisionGone, Store
from netlab.model.keys import ObjectKey, key_of


def pod(name: str, namespace: str = "lab", **fields: Any) -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"name": name, "namespace": namespace}, **fields}


def key(name: str, namespace: str = "lab") -> ObjectKey:
    return ObjectKey("Pod", namespace, name)


def told(events: Iterable[Event]) -> list[tuple[str, str, int]]:
    return [(each.type, each.object["metadata"]["name"], each.revision) for each in events]


# Objects


def test_what_is_put_is_there_with_its_revision() -> None:
    store = Store()
    stored = store.put(pod("a", spec={"nodeName": "n"}))
    assert stored == pod("a", spec={"nodeName": "n"}) | {
        "metadata": {"name": "a", "namespace": "lab", "resourceVersion": "1"}
    }
    assert store.get(key("a")) is stored
    assert store.get(key("b")) is None
    assert store.get(ObjectKey("Service", "lab", "a")) is None


def test_an_object_without_a_namespace_has_an_empty_one() -> None:
    assert key_of({"kind": "Node", "metadata": {"name": "n"}}) == ObjectKey("Node", "", "n")


def test_a_list_holds_one_kind_in_the_order_of_keys() -> None:
    store = Store()
    for name, namespace in (("b", "x"), ("a", "y"), ("c", "a"), ("a", "x")):
        store.put(pod(name, namespace))
    store.put({"kind": "Node", "metadata": {"name": "n"}})
    assert [(each["metadata"]["namespace"], each["metadata"]["name"]) for each in store.list("Pod")] == [
        ("a", "c"),
        ("x", "a"),
        ("x", "b"),
        ("y", "a"),
    ]
    assert list(store.list("Service")) == []


def test_every_change_raises_the_revision_by_one() -> None:
    store = Store()
    revisions = [store.revision]
    store.put(pod("a"))
    revisions.append(store.revision)
    store.put(pod("a", spec={}))
    revisions.append(store.revision)
    store.delete(key("a"))
    revisions.append(store.revision)
    assert revisions == [0, 1, 2, 3]


def test_putting_the_same_again_is_no_change() -> None:
    store = Store()
    events: list[Event] = []
    store.watch(events.append)
    first = store.put(pod("a", spec={"x": [1]}))
    for again in (pod("a", spec={"x": [1]}), dict(first), pod("a", spec={"x": [1]}) | {"metadata": first["metadata"]}):
        assert store.put(again) is first
    stale = pod("a", spec={"x": [1]})
    stale["metadata"]["resourceVersion"] = "17"
    assert store.put(stale) is first
    assert (store.revision, told(events)) == (1, [("ADDED", "a", 1)])


@pytest.mark.parametrize(
    "other",
    [
        pod("a", spec={"x": 2}),
        pod("a"),
        pod("a", spec={"x": 1}, status={}),
        pod("a", spec={"x": 1}) | {"metadata": {"name": "a", "namespace": "lab", "labels": {}}},
    ],
)
def test_any_difference_is_a_change(other: dict[str, Any]) -> None:
    store = Store()
    store.put(pod("a", spec={"x": 1}))
    store.put(other)
    assert store.revision == 2


def test_what_is_given_is_not_written_to() -> None:
    store = Store()
    value = pod("a")
    store.put(value)
    store.put(pod("a", spec={}))
    assert value == pod("a")


def test_deleting_gives_back_what_was_there() -> None:
    store = Store()
    stored = store.put(pod("a"))
    assert store.delete(key("a")) is stored
    assert store.delete(key("a")) is None
    assert (store.get(key("a")), list(store.list("Pod")), store.revision) == (None, [], 2)


# Watches


def test_a_watch_is_told_of_changes_from_now_on_in_order() -> None:
    store = Store()
    store.put(pod("before"))
    events: list[Event] = []
    store.watch(events.append)
    store.put(pod("a"))
    store.put(pod("a", spec={}))
    store.delete(key("a"))
    store.delete(key("a"))
    assert told(events) == [("ADDED", "a", 2), ("MODIFIED", "a", 3), ("DELETED", "a", 4)]
    assert [each.object["metadata"]["resourceVersion"] for each in events] == ["2", "3", "4"]
    assert events[2].object["spec"] == {}


def test_an_object_that_comes_back_is_added() -> None:
    store = Store()
    events: list[Event] = []
    store.watch(events.append)
    store.put(pod("a"))
    store.delete(key("a"))
    store.put(pod("a"))
    assert [each.type for each in events] == ["ADDED", "DELETED", "ADDED"]


@pytest.mark.parametrize(("since", "revisions"), [(0, [1, 2, 3]), (1, [2, 3]), (2, [3]), (3, [])])
def test_a_watch_since_a_revision_is_told_what_came_after(since: int, revisions: list[int]) -> None:
    store = Store()
    for name in "abc":
        store.put(pod(name))
    events: list[Event] = []
    store.watch(events.append, since)
    store.put(pod("d"))
    assert [each.revision for each in events] == [*revisions, 4]


def test_a_list_and_a_watch_since_its_revision_miss_nothing() -> None:
    store = Store()
    store.put(pod("a"))
    known = {each["metadata"]["name"] for each in store.list("Pod")}
    since = store.revision
    store.put(pod("b"))
    events: list[Event] = []
    store.watch(events.append, since)
    store.put(pod("c"))
    assert known | {each.object["metadata"]["name"] for each in events} == {"a", "b", "c"}


def test_a_revision_that_is_forgotten_or_not_there_yet_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "HISTORY", 3)
    store = Store()
    for number in range(5):
        store.put(pod(f"p{number}"))
    for since in (0, 1, 6, 100):
        with pytest.raises(RevisionGone):
            store.watch(lambda _: None, since)
    for since in (2, 3, 4, 5):
        events: list[Event] = []
        store.watch(events.append, since)
        assert [each.revision for each in events] == list(range(since + 1, 6))


def test_a_watch_of_an_empty_store() -> None:
    events: list[Event] = []
    store = Store()
    store.watch(events.append, 0)
    store.put(pod("a"))
    assert told(events) == [("ADDED", "a", 1)]


def test_a_refused_watch_is_told_nothing() -> None:
    store = Store()
    events: list[Event] = []
    with pytest.raises(RevisionGone):
        store.watch(events.append, 7)
    store.put(pod("a"))
    assert events == []


def test_an_ended_watch_is_told_nothing_more() -> None:
    store = Store()
    events: list[Event] = []
    others: list[Event] = []
    watcher = events.append
    end = store.watch(watcher)
    store.watch(watcher)
    store.watch(others.append)
    end()
    end()
    store.put(pod("a"))
    assert (len(events), len(others)) == (1, 1)


def test_a_watch_may_end_itself_and_others_while_it_is_told() -> None:
    store = Store()
    events: list[str] = []
    ends: list[Callable[[], None]] = []

    def first(event: Event) -> None:
        events.append("first")
        for end in ends:
            end()

    ends.append(store.watch(first))
    ends.append(store.watch(lambda _: events.append("second")))
    store.watch(lambda _: events.append("third"))
    store.put(pod("a"))
    store.put(pod("b"))
    assert events == ["first", "third", "third"]


def test_a_change_that_a_watcher_makes_is_told_after_the_one_that_it_is_about() -> None:
    store = Store()
    seen: dict[str, list[int]] = {"maker": [], "other": [], "late": []}

    def maker(event: Event) -> None:
        seen["maker"].append(event.revision)
        name = event.object["metadata"]["name"]
        if len(name) < 4:
            store.put(pod(name + "x"))

    store.watch(maker)
    store.watch(lambda event: seen["other"].append(event.revision))
    store.put(pod("a"))
    store.watch(lambda event: seen["late"].append(event.revision), 0)
    assert seen == {"maker": [1, 2, 3, 4], "other": [1, 2, 3, 4], "late": [1, 2, 3, 4]}


def test_a_watcher_that_changes_something_while_it_catches_up_misses_nothing() -> None:
    store = Store()
    store.put(pod("a"))
    store.put(pod("b"))
    seen = []

    def watcher(event: Event) -> None:
        seen.append(event.revision)
        if event.revision == 1:
            store.put(pod("c"))

    store.watch(watcher, 0)
    assert seen == [1, 2, 3]


def test_a_watch_that_begins_while_others_are_told_misses_nothing() -> None:
    store = Store()
    seen: list[int] = []

    def watcher(event: Event) -> None:
        if event.revision == 1:
            store.watch(lambda inner: seen.append(inner.revision), 0)
            store.put(pod("b"))

    store.watch(watcher)
    store.put(pod("a"))
    assert seen == [1, 2]


def test_a_watcher_that_fails_keeps_nothing_from_others() -> None:
    store = Store()
    seen: list[int] = []

    def broken(event: Event) -> None:
        if event.revision == 1:
            raise ZeroDivisionError

    store.watch(broken)
    store.watch(lambda event: seen.append(event.revision))
    with pytest.raises(ZeroDivisionError):
        store.put(pod("a"))
    store.put(pod("b"))
    assert seen == [1, 2]


changes = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from(["delete", "put", "put"]), st.integers(0, 2)), max_size=30
)


@given(history=changes, since=st.integers(0, 30))
def test_replaying_events_gives_the_store(history: list[tuple[str, str, int]], since: int) -> None:
    """From the state at any revision, the events after it lead to the state now."""
    store = Store()
    states: list[dict[str, Any]] = [{}]
    live: list[Event] = []
    store.watch(live.append)
    for name, kind, number in history:
        before = store.revision
        if kind == "put":
            store.put(pod(name, spec=number))
        else:
            store.delete(key(name))
        if store.revision > before:
            states.append({each["metadata"]["name"]: each for each in store.list("Pod")})
    assert len(states) == store.revision + 1
    since = min(since, store.revision)
    events: list[Event] = []
    store.watch(events.append, since)
    assert events == live[since:]
    state = dict(states[since])
    for event in events:
        name = event.object["metadata"]["name"]
        assert (name in state) == (event.type != "ADDED")
        if event.type == "DELETED":
            del state[name]
        else:
            state[name] = event.object
    assert state == states[-1]
