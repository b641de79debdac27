"""Signals as one exception: the first one counts, and one that comes when that was of no use."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from netlab.cli import interrupts
from netlab.cli.interrupts import Interrupted


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """The handlers of the test's own process come back afterwards."""
    before = {number: signal.getsignal(number) for number in interrupts.SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", interrupts.SIGNALS)
def test_each_of_them_interrupts(number: signal.Signals) -> None:
    interrupts.install()
    with pytest.raises(Interrupted):
        signal.raise_signal(number)


def test_what_comes_soon_after_the_first_does_nothing() -> None:
    interrupts.install()
    with pytest.raises(Interrupted):
        signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGTERM)


def test_what_comes_later_interrupts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "PATIENCE_S", 0.0)
    interrupts.install()
    for _ in range(2):
        with pytest.raises(Interrupted):
            signal.raise_signal(signal.SIGINT)


def test_what_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    interrupts.install()
    signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
