"""The cache: whole entries or none, made once, the oldest removed unless they are in use."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from netlab.microvm.cache import KEPT, Cache, default_folder
from netlab.model.errors import MachineCannot


def writes(text: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        (folder / "file").write_text(text)

    return make


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def test_it_is_made_once(cache: Cache) -> None:
    for text in ("first", "second"):
        entry = cache.get("kind", "key", writes(text))
        assert (entry.path / "file").read_text() == "first"
        entry.close()


def test_what_fails_leaves_nothing(cache: Cache) -> None:
    def fail(folder: Path) -> None:
        (folder / "file").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.get("kind", "key", fail)
    assert list((cache.folder / "kind").iterdir()) == []
    assert cache.find("kind", "key") is None


def test_parts_of_who_was_killed_are_removed(cache: Cache) -> None:
    part = cache.folder / "kind" / "other.part"
    part.mkdir(parents=True)
    (part / "file").write_text("half")
    cache.get("kind", "key", writes("x")).close()
    assert [path.name for path in (cache.folder / "kind").iterdir()] == ["key"]


def test_two_at_once(cache: Cache) -> None:
    begun = threading.Semaphore(0)
    made: list[str] = []

    def make(folder: Path) -> None:
        begun.release()
        made.append(folder.name)
        writes("x")(folder)

    threads = [threading.Thread(target=lambda: cache.get("kind", "key", make).close()) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(made) == 1


def test_few_are_kept(cache: Cache) -> None:
    held = cache.get("kind", "held", writes("x"))
    os.utime(held.path, (1, 1))
    for number in range(KEPT + 2):
        entry = cache.get("kind", str(number), writes("x"))
        os.utime(entry.path, (2 + number, 2 + number))
        entry.close()
    names = {path.name for path in (cache.folder / "kind").iterdir()}
    assert "held" in names
    assert str(KEPT + 1) in names
    assert "0" not in names
    held.close()


def test_removing(cache: Cache) -> None:
    cache.get("kind", "key", writes("x")).close()
    cache.remove("kind", "key")
    cache.remove("kind", "key")
    assert cache.find("kind", "key") is None


def test_no_room() -> None:
    with pytest.raises(MachineCannot) as raised:
        Cache(Path("/proc/nowhere")).get("kind", "key", writes("x"))
    assert "/proc/nowhere" in str(raised.value)


def test_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_folder() == Path("/somewhere/kube-netlab/microvm")
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", "/home/me")
    assert default_folder() == Path("/home/me/.cache/kube-netlab/microvm")
