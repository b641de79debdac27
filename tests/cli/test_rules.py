"""``rules``, ``explain`` and ``compare``: what is programmed, by which line of YAML, and how modes differ."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import run
from tests.conftest import NODEPORT, ROOT

LABS = ROOT / "tests" / "labs"
CHAIN_OF_WEB = "KUBE-SVC-LOLE4ISW44XBNF3G"


def as_json(*words: str) -> Any:
    done = run(*words, "-o", "json")
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


class TestDryRun:
    def test_needs_neither_privileges_nor_a_lab(self) -> None:
        """Where no namespace can be made, rules are worked out all the same."""
        command: list[str | Path] = [ROOT / ".venv/bin/kube-netlab", "rules", NODEPORT, "--node", "node-a", "--dry-run"]
        limit = 'echo 0 > /proc/sys/user/max_net_namespaces; exec "$@"'
        done = subprocess.run(
            ["unshare", "-Ur", "sh", "-c", limit, "sh", *command],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert CHAIN_OF_WEB in done.stdout

    @pytest.mark.parametrize(
        ("mode", "heads"),
        [
            ("iptables", ["# iptables-save", "# ip6tables-save"]),
            ("nftables", ["table ip kube-proxy {", "table ip6 kube-proxy {"]),
            ("ipvs", ["# ipvsadm -Sn", "# ipset save", "# iptables-save", "# ip6tables-save"]),
        ],
    )
    def test_parts_of_each_mode(self, mode: str, heads: list[str]) -> None:
        done = run("rules", str(NODEPORT), "--node", "node-a", "--dry-run", "--mode", mode)
        assert done.returncode == 0
        assert [line for line in done.stdout.splitlines() if line in heads] == heads

    def test_the_value_names_object_field_and_line(self) -> None:
        value = as_json("rules", str(NODEPORT), "--node", "node-a", "--dry-run")
        line = next(n for n, text in enumerate(NODEPORT.read_text().splitlines(), 1) if "nodePort: 30080" in text)
        origins = [each["origin"] for each in value["items"] if each["place"] == "nat KUBE-NODEPORTS"]
        assert {(each["object"], each["field"], each["line"]) for each in origins} == {
            ("Service default/web", "spec.ports[0].nodePort", line)
        }

    def test_an_unknown_node_is_told_with_those_that_there_are(self) -> None:
        done = run("rules", str(NODEPORT), "--node", "node-x", "--dry-run")
        assert done.returncode == 2
        assert 'there is no node "node-x"; the lab has node-a, node-b' in done.stderr


class TestExplain:
    def test_all_that_a_service_causes(self) -> None:
        value = as_json("explain", str(NODEPORT), "web", "--node", "node-a")
        places = {each["place"] for each in value["items"]}
        assert {"nat KUBE-SERVICES", "nat KUBE-NODEPORTS", f"nat {CHAIN_OF_WEB}"} <= places
        assert {each["origin"]["object"].partition(" ")[0] for each in value["items"]} == {"Service", "EndpointSlice"}

    def test_an_endpoint_leads_to_its_pod(self) -> None:
        """Nobody wrote the EndpointSlice: what one can change is the Pod behind it."""
        value = as_json("explain", str(NODEPORT), "web", "--node", "node-a")
        lines = NODEPORT.read_text().splitlines()
        dnat = next(each for each in value["items"] if "--to-destination 10.200.1.2:80" in each["text"])
        assert "10.200.1.2" in lines[dnat["origin"]["line"] - 1]

    @pytest.mark.parametrize("mode", ["nftables", "ipvs"])
    def test_in_other_modes(self, mode: str) -> None:
        value = as_json("explain", str(NODEPORT), "default/web", "--node", "node-b", "--mode", mode)
        assert {each["part"] for each in value["items"]} >= ({"nft"} if mode == "nftables" else {"ipvsadm", "ipset"})

    def test_words_that_name_no_service(self) -> None:
        done = run("explain", str(NODEPORT), "wrong", "--node", "node-a")
        assert done.returncode == 2
        assert 'there is no Service "wrong"; the lab has default/web' in done.stderr


@pytest.mark.kernel
class TestOfARunningLab:
    @pytest.mark.parametrize("mode", ["iptables", "nftables"])
    def test_the_kernel_has_what_the_dry_run_says(self, mode: str) -> None:
        words = ("rules", str(NODEPORT), "--node", "node-a", "--mode", mode)
        real, dry = run(*words), run(*words, "--dry-run")
        assert sorted(comparable(real.stdout)) == sorted(comparable(dry.stdout))

    def test_compare_marks_what_differs(self) -> None:
        value = as_json(
            "compare", str(NODEPORT), "--from", "curl", "--to", "10.64.3.3:80", "--modes", "iptables,nftables"
        )
        assert [each["verdict"] for each in value["modes"]] == ["unreachable", "dropped"]
        assert value["modes"][0]["differs"] == []
        assert "verdict" in value["modes"][1]["differs"]
        assert "in the cluster's range for Services" in " ".join(each["en"] for each in value["reasons"])


def priority(words: str) -> int:
    """What nft's words for a priority ("dstnat - 10") stand for."""
    name, *offset = words.split(" ", 1)
    return {"filter": 0, "dstnat": -100, "srcnat": 100}[name] + int("".join(offset).replace(" ", "") or 0)


def comparable(text: str) -> list[str]:
    """Lines in one form of words, without counters."""
    text = re.sub(r"priority ([a-z][^;]*);", lambda found: f"priority {priority(found[1])};", text)
    return [re.sub(r" (\[0:0\]|-?# .*)$", "", line).rstrip() for line in text.splitlines() if line.strip()]


@pytest.mark.kernel
class TestDoctor:
    def test_it_tries_what_it_says(self) -> None:
        value = as_json("doctor")
        found = {each["name"]["en"]: each["ok"] for each in value}
        assert found["tools"] is True
        assert found["labs"] is True

    def test_a_missing_tool_is_named_with_its_package(self, tmp_path: Path) -> None:
        """In a mount namespace where the program is hidden."""
        script = 'for f in /usr/sbin/nft /sbin/nft; do mount --bind /dev/null $f; done; exec "$@"'
        done = subprocess.run(
            ["unshare", "-Urm", "sh", "-c", script, "sh", ROOT / ".venv/bin/kube-netlab", "doctor", "-o", "json"],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 3, done.stderr
        words = {each["name"]["en"]: each["words"]["en"] for each in json.loads(done.stdout)}
        assert "apt install nftables" in words["tools"]
