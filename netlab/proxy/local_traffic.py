"""How a proxy tells traffic of its own node's (or cluster's) Pods from traffic of strangers: detectLocalMode.

Source: kubernetes/pkg/proxy/util/localdetector.go and cmd/kube-proxy/app/server_linux.go (which mode works when).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from netlab.objects.ip import parse_cidr
from netlab.objects.proxyconfig import KubeProxyConfiguration
from netlab.proxy.family import Family

PROXY_CONFIG = "KubeProxyConfiguration"
"""The object that causes are named after which stand in a proxy's configuration."""


@dataclass(frozen=True, slots=True)
class LocalTraffic:
    """Local traffic is what comes from ``value``: a source range, an interface, or interfaces with a prefix.

    ``field`` is the configuration's field that says so.
    """

    by: Literal["source", "interface", "prefix"]
    value: str
    field: str


def local_traffic(config: KubeProxyConfiguration, family: Family, node_pod_cidrs: Sequence[str]) -> LocalTraffic | None:
    """The detector for one family; None where nothing can be told apart (then nothing is masqueraded by it)."""
    mode = config.detect_local_mode or "ClusterCIDR"
    if mode == "BridgeInterface":
        name = config.detect_local.bridge_interface
        return LocalTraffic("interface", name, "detectLocal.bridgeInterface") if name else None
    if mode == "InterfaceNamePrefix":
        prefix = config.detect_local.interface_name_prefix
        return LocalTraffic("prefix", prefix, "detectLocal.interfaceNamePrefix") if prefix else None
    if mode == "NodeCIDR":
        return _range(node_pod_cidrs, family, "detectLocalMode")
    field = "detectLocal.clusterCIDRs" if config.detect_local.cluster_cidrs else "clusterCIDR"
    return _range(config.cluster_cidrs, family, field)


def _range(cidrs: Sequence[str], family: Family, field: str) -> LocalTraffic | None:
    for text in cidrs:
        network = parse_cidr(text)
        if network is not None and family.matches(network):
            return LocalTraffic("source", str(network), field)
    return None
