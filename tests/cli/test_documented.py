"""The commands, programs and files that the documentation shows, as they stand there.

A file's blocks run one after the other in one folder, which looks like a checkout with the example as ``lab.yaml``.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.cli.command import Machine
from tests.conftest import NODEPORT, ROOT

pytestmark = [pytest.mark.kernel, pytest.mark.xdist_group("documented")]

FILES = ["README.md", "README.zh-CN.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
NOT_RUN = re.compile(
    r"(\./run|\./test|wireshark|kube-netlab gui) .*"
    r"|kube-netlab (apply|delete) NAME .*"
    r"|kube-netlab .*--(vm|mode ipvs)\b.*"
)
"""What takes a display or a microVM, installs packages, is this very run, or has words to be filled in."""
FILLED_IN = {
    "[--proto tcp|udp|icmp|sctp]": "--proto tcp",
    "--from WHO": "--from curl",
    "--to ADDR:PORT": "--to 10.96.0.1:80",
    "--from NODE": "--from node-a",
    "CLUSTER_IP:PORT": "10.96.0.50:80",
}
CHANGED = """
apiVersion: v1
kind: Service
metadata: {name: another}
spec: {selector: {app: web}, ports: [{port: 80}]}
"""
KUBECTL = "#!/bin/sh\ncat cluster-objects.yaml\n"


def blocks(file: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / file).read_text(), re.DOTALL | re.MULTILINE)


def script(block: str) -> str:
    lines = [line for line in block.splitlines() if not NOT_RUN.fullmatch(line)]
    text = "\n".join(lines)
    for placeholder, value in FILLED_IN.items():
        text = text.replace(placeholder, value)
    return text


def cluster_objects() -> str:
    """The example as a cluster tells it: without the lab's own documents, and with nodes."""
    text = NODEPORT.read_text().replace("10.96.0.1", "10.96.0.50")
    documents = [each for each in yaml.safe_load_all(text) if each["apiVersion"] == "v1"]
    for number, address in ((1, "192.168.60.123"), (2, "192.168.60.124")):
        status = {"addresses": [{"type": "InternalIP", "address": address}]}
        spec = {"podCIDR": f"10.200.{number}.0/24", "podCIDRs": [f"10.200.{number}.0/24"]}
        name = "node-a" if number == 1 else "node-b"
        documents.append(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec, "status": status}
        )
    return yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": documents})


@pytest.fixture
def checkout(machine: Machine) -> Path:
    folder = machine.work
    folder.chmod(0o755)
    for name in (".venv", "netlab", "assets"):
        (folder / name).symlink_to(ROOT / name)
    (machine.work / "changed.yaml").write_text(CHANGED)
    for name in ("lab.yaml", "LAB.yaml"):
        (folder / name).write_text(NODEPORT.read_text())
    (folder / "cluster-objects.yaml").write_text(cluster_objects())
    (folder / "bin").mkdir()
    (folder / "bin/kubectl").write_text(KUBECTL)
    (folder / "bin/kubectl").chmod(0o755)
    return folder


def run(machine: Machine, checkout: Path, *command: str) -> None:
    path = f"{checkout / 'bin'}:{ROOT / '.venv/bin'}:/usr/bin:/bin"
    environment = machine.environment({"HOME": str(checkout), "PATH": path})
    result = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    labs = json.loads(machine.run("ls", "-o", "json").out)
    for lab in labs:
        machine.run("down", lab["name"])
    assert result.returncode == 0, f"{command[-1]}\n{result.stdout}\n{result.stderr}"
    assert labs == [], "a block ends the labs that it starts"


@pytest.mark.parametrize("file", [file for file in FILES if blocks(file, "sh")])
def test_commands(file: str, machine: Machine, checkout: Path) -> None:
    for block in blocks(file, "sh"):
        run(machine, checkout, "bash", "-euo", "pipefail", "-c", script(block))


@pytest.mark.parametrize("file", [file for file in FILES if blocks(file, "python")])
def test_programs(file: str, machine: Machine, checkout: Path) -> None:
    run(machine, checkout, str(ROOT / ".venv/bin/python"), "-c", "\n".join(blocks(file, "python")))


@pytest.mark.parametrize("file", [file for file in FILES if blocks(file, "yaml")])
def test_lab_files(file: str, machine: Machine, checkout: Path) -> None:
    for block in blocks(file, "yaml"):
        (checkout / "shown.yaml").write_text(block)
        run(
            machine,
            checkout,
            "kube-netlab",
            "walk",
            "shown.yaml",
            "--from",
            "client",
            "--to",
            "192.168.60.123",
            "--proto",
            "icmp",
        )


@pytest.mark.parametrize("file", FILES)
def test_every_command_is_in_a_block_that_is_run(file: str) -> None:
    """A block without a language shows no command."""
    for block in re.findall(r"^```\n(.*?)^```", (ROOT / file).read_text(), re.DOTALL | re.MULTILINE):
        assert not re.search(r"^(kube-netlab|tshark|\.venv/bin/|\./)", block, re.MULTILINE), block


@pytest.mark.parametrize("file", FILES)
def test_links_lead_somewhere(file: str) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / file).read_text()):
        assert (ROOT / file).parent.joinpath(target).exists(), target
