"""``kube-netlab proxy``: against an API server, in a network namespace of its own."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from netlab.kernel import iptables, nft, rtnetlink
from netlab.kernel.netlink import NETLINK_ROUTE, NetlinkSocket
from tests.cli.api_server import ApiServer
from tests.cli.command import KUBE_NETLAB, run, until

pytestmark = pytest.mark.kernel

TOKEN = "abc.def"
OBJECTS: list[dict[str, Any]] = [
    {
        "kind": "Node",
        "metadata": {"name": "node-a"},
        "spec": {"podCIDRs": ["10.244.1.0/24"]},
        "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.11"}]},
    },
    {
        "kind": "Service",
        "metadata": {"namespace": "default", "name": "web"},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "10.96.0.50",
            "clusterIPs": ["10.96.0.50"],
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 8080}],
        },
    },
]


def endpoint_slice(*addresses: str) -> dict[str, Any]:
    return {
        "kind": "EndpointSlice",
        "metadata": {
            "namespace": "default",
            "name": "web-abcde",
            "labels": {"kubernetes.io/service-name": "web"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [each], "conditions": {"ready": True}} for each in addresses],
        "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
    }


def kubeconfig(folder: Path, url: str, token: str = TOKEN) -> Path:
    value = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": token}}],
    }
    file = folder / "kubeconfig"
    file.write_text(json.dumps(value))
    return file


@contextmanager
def running(server: ApiServer, mode: str) -> Iterator[Path]:
    """The command at work; its log."""
    folder = Path(tempfile.mkdtemp())
    file = str(kubeconfig(folder, server.url))
    command = [str(KUBE_NETLAB), "proxy", "--kubeconfig", file, "--mode", mode, "--node", "node-a"]
    log = folder / "log"
    with open(log, "wb") as stderr, subprocess.Popen(command, stderr=stderr) as process:
        try:
            yield log
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(10)
            shutil.rmtree(folder)


def rules(mode: str) -> str:
    if mode == "iptables":
        return iptables.save(4, "test")
    with suppress(LookupError):
        if "kube-proxy" in nft.tables("ip"):
            return nft.list_text("ip", "kube-proxy", "test")
    return ""


@pytest.mark.parametrize("mode", ["iptables", "nftables"])
def test_it_follows_the_api_server(sandbox: Callable[[Callable[[], Any]], Any], mode: str) -> None:
    def use() -> None:
        with NetlinkSocket(NETLINK_ROUTE) as netlink:
            netlink.run([rtnetlink.up(1, "lo")])
        server = ApiServer([*OBJECTS, endpoint_slice("10.244.1.5")], TOKEN)
        with running(server, mode) as log:
            until(lambda: "10.244.1.5" in rules(mode), f"the first rules; {log.read_text()}")
            server.put(endpoint_slice("10.244.1.5", "10.244.2.7"))
            until(lambda: "10.244.2.7" in rules(mode), "another endpoint")
            # What the server has forgotten is listed again, and what is gone meanwhile goes.
            server.forget()
            server.delete("EndpointSlice", "default", "web-abcde")
            until(lambda: "10.244.1.5" not in rules(mode), "no endpoint")
            assert "10.96.0.50" in rules(mode)
        selectors = [query["labelSelector"][0] for query in server.queries if "labelSelector" in query]
        assert all("!service.kubernetes.io/headless" in each for each in selectors)
        assert "10.96.0.50" in rules(mode), "rules stay when the proxy ends"
        done = run("proxy", "--cleanup")
        assert done.returncode == 0, done.stderr
        assert "10.96.0.50" not in rules(mode)

    sandbox(use)


def test_who_is_not_let_in_is_told_so(sandbox: Callable[[Callable[[], Any]], Any]) -> None:
    def use() -> None:
        with NetlinkSocket(NETLINK_ROUTE) as netlink:
            netlink.run([rtnetlink.up(1, "lo")])
        server = ApiServer(OBJECTS, "another")
        with running(server, "nftables") as log:
            until(lambda: "401: Unauthorized" in log.read_text(), "a word about it")

    sandbox(use)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"current-context": "there"}, 'contexts: there is no context "there"; the file has here'),
        ({"current-context": None}, "current-context: required"),
        ({"users": [{"name": "u", "user": {"exec": {"command": "aws"}}}]}, "users[u].user.exec: credentials from"),
        ({"clusters": []}, 'clusters: there is no cluster "c"'),
    ],
)
def test_a_kubeconfig_that_cannot_be_used(
    sandbox: Callable[[Callable[[], Any]], Any], change: dict[str, Any], words: str
) -> None:
    def use() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            file = kubeconfig(Path(folder), "http://127.0.0.1:1")
            file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
            return run("proxy", "--kubeconfig", str(file))

    done = sandbox(use)
    assert done.returncode == 2
    assert words in done.stderr


def test_without_privileges_it_says_so() -> None:
    done = subprocess.run(
        ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", KUBE_NETLAB, "proxy", "--cleanup"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 3
    assert "takes root" in done.stderr
