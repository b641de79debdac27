"""The machine is that of the command's tests, and nothing may stay on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from netlab.microvm.start import start_engine_in_microvm
from tests.cli.command import Machine
from tests.cli.conftest import machine
from tests.cli.leftovers import none_left

__all__ = ["machine"]


@pytest.fixture(scope="session", autouse=True)
def _guest() -> None:
    """Make the guest before the first test: what tests measure is how long it takes to use it."""
    start_engine_in_microvm().close()


@pytest.fixture
def nothing_left(machine: Machine) -> Iterator[None]:
    """Fails where a process, a namespace, a link, a mount or a file remains that was not there before."""
    with none_left(machine.token, [machine.rendezvous, machine.temporary]):
        yield
