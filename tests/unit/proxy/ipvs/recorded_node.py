"""The recorded cases played on a real kernel that has IPVS: a node as the recordings' was, and what the tools print.

For tests that run where such a kernel is (as root, with ipvsadm, ipset, iptables and iproute2 installed).
"""

from __future__ import annotations

import difflib
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from netlab.kernel import netns
from netlab.objects.ip import parse_ip
from netlab.proxy.changes import ServiceTracker
from netlab.proxy.family import Family
from netlab.proxy.ipvs.proxier import IpvsProxier, make_proxier, prepare_node
from netlab.proxy.proxier import SyncReport
from tests.conformance.test_kube_proxy_ipvs import CASES, FAMILIES, config_of, node_of, objects_of, recorded, tracker_of

NODE = (
    "ip link set lo up",
    "ip link add eth0 type dummy",
    "ip link set eth0 up",
    "ip addr add 172.30.0.11/24 dev eth0",
    "ip addr add fd00:172:30::11/64 dev eth0 nodad",
    "ip route add default via 172.30.0.1",
    "ip -6 route add default via fd00:172:30::1",
)
TOOLS = {
    "ipvsadm.txt": "ipvsadm -Sn",
    "ipvsadm-Ln.txt": "ipvsadm -Ln",
    "addresses.txt": "ip -d addr show dev kube-ipvs0",
    "ipset.txt": "ipset save",
    "iptables-save.txt": "iptables-nft-save",
    "ip6tables-save.txt": "ip6tables-nft-save",
    "sysctl.txt": "sysctl net.ipv4.vs net.ipv4.conf.all.arp_ignore net.ipv4.conf.all.arp_announce net.ipv4.ip_forward "
    "net.ipv4.conf.all.route_localnet net.ipv6.conf.all.forwarding",
}


class PlayedNode:
    """Both families' proxiers of node-a in the calling thread's network namespace, with the objects of a case."""

    def __init__(self, case: str) -> None:
        objects = objects_of(case)
        node = node_of(objects)
        node_ips = [ip for text in node.addresses_of_type("InternalIP") if (ip := parse_ip(text)) is not None]
        prepare_node("node-a", config_of(case))
        self.trackers: dict[Family, ServiceTracker] = {}
        self.proxiers: dict[Family, IpvsProxier] = {}
        for family in FAMILIES:
            self.trackers[family] = tracker_of(objects, family)
            self.proxiers[family] = make_proxier(
                "node-a", config_of(case), family, node_ips=node_ips, pod_cidrs=node.spec.pod_cidrs
            )

    def close(self) -> None:
        for proxier in self.proxiers.values():
            proxier.close()

    def sync(self) -> list[SyncReport]:
        reports = []
        for family, proxier in self.proxiers.items():
            tracker = self.trackers[family]
            reports.append(proxier.sync(tracker.take_changes(), tracker.ports))
        return reports


def run(command: str) -> str:
    return subprocess.run(["sh", "-c", command], check=True, capture_output=True, text=True).stdout


def in_new_node(function: Callable[[], list[str]], before: Path | None = None) -> list[str]:
    """Call the function in a new network namespace that looks like the recordings' node."""
    namespace = netns.create(["node-a"])[0]
    try:
        with namespace.entered():
            for command in NODE:
                run(command)
            if before is not None and before.exists():
                run(before.read_text())
            return function()
    finally:
        namespace.close()


def differences(case: str) -> list[str]:
    """Play a case and say how the tools' output differs from the recorded, and whether anything was left to do."""

    def play() -> list[str]:
        node = PlayedNode(case)
        node.sync()
        found = [line for name, command in TOOLS.items() for line in compare(case, name, run(command))]
        for proxier in node.proxiers.values():
            proxier.require_full_sync()
        again = sum(report.lines for report in node.sync())
        node.close()
        return found + ([f"the second full sync still did {again} things"] if again else [])

    return in_new_node(play, CASES / case / "pre.sh")


def compare(case: str, name: str, printed: str) -> list[str]:
    """Lines that differ, less what the kernel makes up and what has no order."""
    ours, theirs = (comparable(name, lines) for lines in (printed.splitlines(), recorded(case, name)))
    if name == "sysctl.txt":
        theirs = [line for line in theirs if line.split(" = ")[0] in {each.split(" = ")[0] for each in ours}]
    return [f"{case}/{name}: {line}" for line in difflib.unified_diff(theirs, ours, lineterm="", n=0)]


def comparable(name: str, lines: list[str]) -> list[str]:
    if name == "addresses.txt":
        text = re.sub(r"^\d+: |ether \S+|qlen \d+", "", "\n".join(lines), flags=re.MULTILINE)
        heads = text.split("\n    inet", 1)[0].splitlines()
        return [line.strip() for line in heads] + sorted(re.findall(r"inet6? .*", text))
    if name == "ipset.txt":
        return sorted(re.sub(r" initval \S+", "", line) for line in lines)
    if name == "sysctl.txt":
        return sorted(" ".join(line.split()) for line in lines if "sync_qlen_max" not in line)
    if name.endswith("tables-save.txt"):
        kept = [re.sub(r" \[\d+:\d+\]", "", line) for line in lines if not line.startswith("#")]
        return [re.sub(r"^(:\S+) -$", r"\1 -", line) for line in kept]
    return [line.rstrip() for line in lines]
