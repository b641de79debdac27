"""A machine for the tests of the command, and the demand that nothing stays on it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import Machine
from tests.cli.leftovers import none_left


@pytest.fixture
def machine() -> Iterator[Machine]:
    """Folders of its own for the commands of one test; what still runs at the end is ended.

    They are where other users can get at what they may have: pytest's own folders are closed to them.
    """
    with tempfile.TemporaryDirectory(prefix="lab-test-") as folder:
        os.chmod(folder, 0o755)
        machine = Machine(Path(folder))
        yield machine
        machine.close()


@pytest.fixture
def nothing_left(machine: Machine) -> Iterator[None]:
    """Fails where a process, a namespace, a link, a mount or a file remains that was not there before."""
    with none_left(machine.token, [machine.rendezvous, machine.temporary, Path(f"/tmp/kube-netlab-{os.getuid()}")]):
        yield
