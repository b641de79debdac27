"""What ./run and ./test say for themselves, beside what the command says."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.conftest import ROOT


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "yes"),
        ({"LANG": "C.UTF-8"}, "yes"),
        ({"LANG": "zh_CN.UTF-8"}, "是"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C.UTF-8"}, "yes"),
        ({"LANG": "C.UTF-8", "KUBE_NETLAB_LANG": "zh"}, "是"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": ""}, "是"),
    ],
)
def test_the_language_is_chosen_as_the_command_chooses_it(environment: dict[str, str], said: str) -> None:
    script = ". scripts/setup.sh; words yes 是"
    result = subprocess.run(
        ["bash", "-euc", script],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        check=True,
    )
    assert result.stdout.decode() == f"{said}\n"


def test_the_last_lines_of_run_fit() -> None:
    written = re.findall(r'^ +echo "(.+)"$', (ROOT / "run").read_text(), re.MULTILINE)
    assert len(written) == 3
    assert all(len(line.replace("$captures", "/tmp/kube-netlab-captures-XXXXXX")) <= 80 for line in written)


def test_what_pip_warns_of_is_not_shown_and_what_fails_is() -> None:
    calls = re.findall(r"pip install .*", (ROOT / "scripts" / "setup.sh").read_text())
    assert len(calls) == 2
    for call in calls:
        options = " ".join(word for word in call.split() if word in ("--quiet", "--disable-pip-version-check"))
        command = f".venv/bin/python -m pip install {options} --no-index --find-links /nowhere nothing-of-that-name"
        result = subprocess.run(command.split(), cwd=ROOT, capture_output=True, text=True, check=False)
        assert result.returncode == 1
        assert "WARNING" not in result.stderr
        assert "ERROR: No matching distribution found for nothing-of-that-name" in result.stderr
