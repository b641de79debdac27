"""What the command says of itself: whole sentences that fit, in both languages."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from netlab.model.version import product_version
from tests.cli.command import Machine

COMMANDS = (
    *("walk", "compare", "rules", "explain", "up", "exec", "apply", "delete", "down", "ls"),
    *("proxy", "doctor", "gui"),
)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_nothing_is_cut(machine: Machine, language: str) -> None:
    result = machine.run("--help", environment={"COLUMNS": "80", "KUBE_NETLAB_LANG": language})
    result.done()
    assert "..." not in result.out.partition("[ARGS]...")[2]
    assert all(cell_len(line) <= 80 for line in result.out.splitlines())
    assert [line.split()[0] for line in result.out.splitlines()[-len(COMMANDS) :]] == list(COMMANDS)


def test_the_version(machine: Machine) -> None:
    result = machine.run("--version")
    result.done()
    assert result.out == f"kube-netlab {product_version()}\n"
    assert product_version() != "unknown"


def test_no_words_at_all(machine: Machine) -> None:
    result = machine.run()
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith("Usage: kube-netlab")
