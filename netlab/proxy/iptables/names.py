"""Names of kube-proxy's chains. Those of Services and endpoints are hashes, the same on every node of every cluster.

Source: kubernetes/pkg/proxy/iptables/proxier.go.
"""

from __future__ import annotations

import hashlib
from itertools import product

from netlab.proxy.service_ports import ServicePortName

SERVICES = "KUBE-SERVICES"
EXTERNAL_SERVICES = "KUBE-EXTERNAL-SERVICES"
NODEPORTS = "KUBE-NODEPORTS"
POSTROUTING = "KUBE-POSTROUTING"
MARK_MASQ = "KUBE-MARK-MASQ"
FORWARD = "KUBE-FORWARD"
PROXY_FIREWALL = "KUBE-PROXY-FIREWALL"
FIREWALL = "KUBE-FIREWALL"
CANARY = "KUBE-PROXY-CANARY"

_PAIRS = tuple("".join(pair) for pair in product("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", repeat=2))
_SHIFTS = tuple(range(70, -1, -10))
"""base32 (RFC 4648), two characters at a time: a large cluster has tens of thousands of names."""

SERVICE_PREFIXES = ("KUBE-SVC-", "KUBE-SVL-", "KUBE-FW-", "KUBE-EXT-", "KUBE-SEP-")


def is_service_chain(name: str) -> bool:
    """Whether the chain is one that kube-proxy makes for a Service or an endpoint, and takes away with it."""
    return name.startswith(SERVICE_PREFIXES)


def cluster_policy_chain(name: ServicePortName) -> str:
    return f"KUBE-SVC-{_hash(name)}"


def local_policy_chain(name: ServicePortName) -> str:
    return f"KUBE-SVL-{_hash(name)}"


def firewall_chain(name: ServicePortName) -> str:
    return f"KUBE-FW-{_hash(name)}"


def external_chain(name: ServicePortName) -> str:
    return f"KUBE-EXT-{_hash(name)}"


def endpoint_chain(name: ServicePortName, endpoint: str) -> str:
    """``endpoint`` as "A:P" or "[A6]:P"."""
    return f"KUBE-SEP-{_hash(name, endpoint)}"


def _hash(name: ServicePortName, endpoint: str = "") -> str:
    digest = hashlib.sha256(f"{name}{name.protocol.lower()}{endpoint}".encode()).digest()
    bits = int.from_bytes(digest[:10])
    return "".join([_PAIRS[bits >> shift & 1023] for shift in _SHIFTS])
