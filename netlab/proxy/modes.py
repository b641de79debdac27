"""The modes side by side: a node's proxiers by mode, how often they sync, and what a mode leaves behind for others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from netlab.kernel import addresses, rtnetlink
from netlab.kernel.netlink import NETLINK_ROUTE, NetlinkSocket
from netlab.objects.duration import parse_duration
from netlab.objects.ip import Address
from netlab.objects.proxyconfig import KubeProxyConfiguration, Periods
from netlab.proxy.family import Family
from netlab.proxy.iptables import cleanup as iptables_cleanup
from netlab.proxy.iptables.proxier import IptablesProxier, ensure_counters
from netlab.proxy.ipvs import cleanup as ipvs_cleanup
from netlab.proxy.ipvs import names as ipvs_names
from netlab.proxy.ipvs import proxier as ipvs_proxier
from netlab.proxy.nftables import proxier as nftables_proxier
from netlab.proxy.nftables.names import TABLE
from netlab.proxy.nftables.proxier import NftablesProxier
from netlab.proxy.proxier import Proxier
from netlab.proxy.settings import iptables_settings, nftables_settings
from netlab.proxy.userspace import cleanup as userspace_cleanup

_TABLES = ("mangle", "filter", "nat")


@dataclass(frozen=True)
class NodeFacts:
    """What a proxy knows of its node and cluster besides Services: ``node_ips`` as the Node object has them, primary
    first; ``pod_cidrs`` the node's ranges for Pods; ``service_cidrs`` the cluster's for ClusterIPs."""

    name: str
    node_ips: Sequence[Address]
    pod_cidrs: Sequence[str]
    service_cidrs: Sequence[str]


def make_proxiers(config: KubeProxyConfiguration, node: NodeFacts) -> dict[Family, Proxier]:
    """The proxiers of both families in the calling thread's namespace, which is set up for their mode (for any but
    userspace, which needs sockets as well).

    Raises :class:`netlab.model.errors.NetlabError` where the kernel lacks what the mode needs.
    """
    mode = config.proxy_mode
    if mode == "ipvs":
        ipvs_proxier.prepare_node(node.name, config)
        return {
            family: ipvs_proxier.make_proxier(
                node.name, config, family, node_ips=node.node_ips, pod_cidrs=node.pod_cidrs
            )
            for family in Family
        }
    local = _local_addresses()
    if mode == "nftables":
        return {family: _nftables(config, family, node, local) for family in Family}
    counters = ensure_counters()
    return {family: _iptables(config, family, node, local, counters=counters) for family in Family}


def _local_addresses() -> list[Address]:
    with NetlinkSocket(NETLINK_ROUTE) as netlink:
        listed = rtnetlink.list_addresses(netlink)
    return [ip_address(each) for each in listed]


def _iptables(
    config: KubeProxyConfiguration, family: Family, node: NodeFacts, local: Sequence[Address], *, counters: bool
) -> IptablesProxier:
    settings = iptables_settings(
        config,
        family,
        node_ips=node.node_ips,
        local_addresses=local,
        pod_cidrs=node.pod_cidrs,
        counters=counters,
    )
    return IptablesProxier(node.name, settings)


def _nftables(
    config: KubeProxyConfiguration, family: Family, node: NodeFacts, local: Sequence[Address]
) -> NftablesProxier:
    settings = nftables_settings(
        config,
        family,
        node_ips=node.node_ips,
        local_addresses=local,
        pod_cidrs=node.pod_cidrs,
        service_cidrs=node.service_cidrs,
    )
    return NftablesProxier(node.name, settings)


def periods(config: KubeProxyConfiguration) -> tuple[float, float]:
    """syncPeriod and minSyncPeriod of the mode, in seconds."""
    of_mode: dict[str, Periods] = {"ipvs": config.ipvs, "nftables": config.nftables}
    chosen = of_mode.get(config.proxy_mode, config.iptables)
    return parse_duration(chosen.sync_period), parse_duration(chosen.min_sync_period)


def is_ours(mode: str, family: str, table: str) -> bool:
    """Whether a mode has rules in a table of nftables (``family`` "ip", "ip6", "inet")."""
    if family not in ("ip", "ip6"):
        return False
    return table == TABLE if mode == "nftables" else table in _TABLES


def clean_up_others(mode: str, node: str) -> None:
    """Take away what proxies of other modes have left in the calling thread's namespace, and nothing of ``mode``'s.

    iptables and ipvs mode share names of chains, so each looks for what only the other one makes.
    """
    if mode != "nftables":
        nftables_proxier.cleanup(node)
    if mode != "ipvs" and _has_ipvs_link():
        ipvs_cleanup.cleanup(node)
    if mode != "iptables":
        iptables_cleanup.cleanup(node)
    if mode != "userspace":
        userspace_cleanup.cleanup(node)


def clean_up(node: str) -> None:
    """Take away all that a proxy of any mode makes in the calling thread's namespace: ``kube-proxy --cleanup``."""
    nftables_proxier.cleanup(node)
    ipvs_cleanup.cleanup(node)
    iptables_cleanup.cleanup(node)
    userspace_cleanup.cleanup(node)


def _has_ipvs_link() -> bool:
    with NetlinkSocket(NETLINK_ROUTE) as netlink:
        return addresses.link_index(netlink, ipvs_names.LINK) is not None
