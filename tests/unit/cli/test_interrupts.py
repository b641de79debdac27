"""Signals as one exception: the first one counts, and one that comes when that was of no use."""

from __future__ import annotations

import gc
import importlib
import signal
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from netlab.cli import interrupts
from netlab.cli.interrupts import Interrupted


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """The handlers of the test's own process come back afterwards."""
    before = {number: signal.getsignal(number) for number in (*interrupts.SIGNALS, signal.SIGALRM)}
    hook = sys.unraisablehook
    yield
    sys.unraisablehook = hook
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", interrupts.SIGNALS)
def test_each_of_them_interrupts(number: signal.Signals) -> None:
    interrupts.release()
    with pytest.raises(Interrupted) as caught:
        signal.raise_signal(number)
    assert caught.value.exit_status == 128 + number


def test_what_comes_soon_after_the_first_does_nothing() -> None:
    interrupts.release()
    with pytest.raises(Interrupted):
        signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGTERM)


def test_what_comes_later_interrupts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "PATIENCE_S", 0.0)
    interrupts.release()
    for _ in range(2):
        with pytest.raises(Interrupted):
            signal.raise_signal(signal.SIGINT)


def test_what_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    interrupts.release()
    signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def test_what_comes_while_they_are_held_back_waits() -> None:
    interrupts.hold()
    signal.raise_signal(signal.SIGTERM)
    with pytest.raises(Interrupted):
        interrupts.release()


def test_what_comes_during_an_import_waits_for_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "imported_while_interrupted.py").write_text(
        "import signal\nsignal.raise_signal(signal.SIGINT)\nfor each in range(10): pass\nWHOLE = True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    interrupts.release()
    with pytest.raises(Interrupted):  # noqa: PT012
        module = importlib.import_module("imported_while_interrupted")
        assert module.WHOLE
        signal.pause()


def test_what_is_lost_in_a_callback_comes_again() -> None:
    class Thing:
        pass

    thing = Thing()
    reference = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
    interrupts.release()
    with pytest.raises(Interrupted):  # noqa: PT012
        del thing
        gc.collect()
        assert reference() is None
        signal.pause()
