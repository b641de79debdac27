"""From configuration and node to what the rules depend on."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network

from netlab.objects.ip import Address, Network, parse_cidr
from netlab.objects.proxyconfig import KubeProxyConfiguration
from netlab.proxy.family import Family
from netlab.proxy.iptables.rules import Settings
from netlab.proxy.local_traffic import local_traffic
from netlab.proxy.nftables.rules import Settings as NftablesSettings

_LOOPBACK = IPv4Network("127.0.0.0/8")


def iptables_settings(
    config: KubeProxyConfiguration,
    family: Family,
    *,
    node_ips: Sequence[Address],
    local_addresses: Sequence[Address],
    pod_cidrs: Sequence[str],
    counters: bool,
) -> Settings:
    """The settings of iptables mode for one family on one node.

    ``node_ips``: the node's own addresses as its Node object has them, primary first; ``local_addresses``: all
    addresses on its interfaces; ``pod_cidrs``: its ranges for Pods; ``counters``: the kernel has nfacct.
    """
    bit = config.iptables.masquerade_bit
    localhost = config.iptables.localhost_node_ports
    return Settings(
        family=family,
        masquerade_bit=14 if bit is None else bit,
        masquerade_all=config.iptables.masquerade_all,
        local=local_traffic(config, family, pod_cidrs),
        localhost_node_ports=localhost is not False and serves_loopback(config.node_port_addresses),
        node_port_ips=node_port_ips(config.node_port_addresses, family, node_ips, local_addresses),
        tcp_be_liberal=config.conntrack.tcp_be_liberal,
        counters=counters,
        node_ips=tuple(node_ips),
    )


def nftables_settings(
    config: KubeProxyConfiguration,
    family: Family,
    *,
    node_ips: Sequence[Address],
    local_addresses: Sequence[Address],
    pod_cidrs: Sequence[str],
    service_cidrs: Sequence[str],
) -> NftablesSettings:
    """The settings of nftables mode for one family on one node.

    As for :func:`iptables_settings`; ``service_cidrs``: the cluster's ranges for ClusterIPs. No nodePortAddresses means
    the node's primary addresses in this mode (KEP-3866).
    """
    bit = config.nftables.masquerade_bit
    selectors = config.node_port_addresses or ["primary"]
    return NftablesSettings(
        family=family,
        masquerade_bit=14 if bit is None else bit,
        masquerade_all=config.nftables.masquerade_all,
        local=local_traffic(config, family, pod_cidrs),
        node_port_ips=node_port_ips(selectors, family, node_ips, local_addresses),
        service_ranges=service_ranges(service_cidrs, family),
        node_ips=tuple(node_ips),
    )


def service_ranges(cidrs: Sequence[str], family: Family) -> tuple[Network, ...]:
    """The ranges of one family, in their order."""
    ranges = (parse_cidr(each.strip()) for each in cidrs)
    return tuple(each for each in ranges if each is not None and family.matches(each))


def serves_loopback(selectors: Sequence[str]) -> bool:
    """Whether nodePortAddresses takes in a loopback address of IPv4; if not, nodePorts on it are off altogether.

    A list that has no range of IPv4 counts as empty, as everywhere, and "primary" is never a loopback address.
    """
    if list(selectors) == ["primary"]:
        return False
    ranges = [network for each in selectors if isinstance(network := parse_cidr(each), IPv4Network)]
    return not ranges or any(_LOOPBACK.overlaps(network) for network in ranges)


def node_port_ips(
    selectors: Sequence[str], family: Family, node_ips: Sequence[Address], local_addresses: Sequence[Address]
) -> tuple[str, ...] | None:
    """The addresses that serve nodePorts; None for all. ``selectors`` is nodePortAddresses: ranges, or "primary".

    Source: kubernetes/pkg/proxy/util/nodeport_addresses.go. A list that has no range of the family counts as empty, and
    so does "primary" on a node that has no address of the family.
    """
    if list(selectors) == ["primary"]:
        return tuple(str(ip) for ip in node_ips if family.matches(ip))[:1] or None
    ranges = [network for each in selectors if (network := parse_cidr(each)) is not None and family.matches(network)]
    if not ranges or any(network.prefixlen == 0 for network in ranges):
        return None
    return tuple(str(ip) for ip in sorted(set(local_addresses), key=int) if any(ip in network for network in ranges))
