"""From configuration and node to what ipvs mode depends on, kernel settings among it.

Source: kubernetes/pkg/proxy/ipvs/proxier.go, KubeProxyConfiguration's ``ipvs`` block (masquerading is set in the
``iptables`` block in this mode, too).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from netlab.kernel.ipvs import Timeouts
from netlab.objects.duration import parse_duration
from netlab.objects.ip import Address, Network, parse_cidr
from netlab.objects.proxyconfig import KubeProxyConfiguration
from netlab.proxy.family import Family
from netlab.proxy.local_traffic import LocalTraffic, local_traffic
from netlab.proxy.settings import node_port_ips

DEFAULT_SCHEDULER = "rr"

FIXED_CONN_REUSE = (5, 9)
"""From this kernel on, the reuse of a connection's port no longer costs it a second (kubernetes#93297)."""

FIRST_CONN_REUSE = (4, 1)


@dataclass(frozen=True, slots=True)
class Settings:
    """What shapes the values besides objects, in one family.

    ``node_ips``: the node's own, primary first; ``node_addresses``: all on its links, which kube-ipvs0 must not have as
    well; ``node_port_ips``: those that serve nodePorts.
    """

    family: Family
    scheduler: str = DEFAULT_SCHEDULER
    masquerade_bit: int = 14
    masquerade_all: bool = False
    local: LocalTraffic | None = None
    exclude: tuple[Network, ...] = ()
    node_ips: tuple[Address, ...] = ()
    node_addresses: frozenset[str] = frozenset()
    node_port_ips: tuple[str, ...] = ()

    @property
    def mark(self) -> str:
        return f"{1 << self.masquerade_bit:#x}"


def ipvs_settings(
    config: KubeProxyConfiguration,
    family: Family,
    *,
    node_ips: Sequence[Address],
    local_addresses: Sequence[Address],
    pod_cidrs: Sequence[str],
) -> Settings:
    """The settings for one family on one node.

    ``node_ips``: the node's own addresses as its Node object has them, primary first; ``local_addresses``: all
    addresses on its links but those of kube-ipvs0; ``pod_cidrs``: its ranges for Pods.
    """
    bit = config.iptables.masquerade_bit
    on_links = [ip for ip in local_addresses if family.matches(ip)]
    node_addresses = [ip for ip in on_links if not ip.is_loopback and not (ip.version == 6 and ip.is_link_local)]
    selected = node_port_ips(config.node_port_addresses, family, node_ips, on_links)
    if selected is None:
        selected = tuple(str(ip) for ip in sorted(node_addresses, key=int))
    return Settings(
        family=family,
        scheduler=config.ipvs.scheduler or DEFAULT_SCHEDULER,
        masquerade_bit=14 if bit is None else bit,
        masquerade_all=config.iptables.masquerade_all,
        local=local_traffic(config, family, pod_cidrs),
        exclude=tuple(network for text in config.ipvs.exclude_cidrs if (network := parse_cidr(text)) is not None),
        node_ips=tuple(node_ips),
        node_addresses=frozenset(str(ip) for ip in node_addresses),
        node_port_ips=tuple(ip for ip in selected if not ip_address(ip).is_loopback),
    )


def timeouts(config: KubeProxyConfiguration) -> Timeouts | None:
    """What the configuration wants of IPVS' timeouts, 0 for those that are to stay; None where all are."""
    texts = (config.ipvs.tcp_timeout, config.ipvs.tcp_fin_timeout, config.ipvs.udp_timeout)
    seconds = Timeouts(*(int(parse_duration(text)) for text in texts))
    return seconds if any(seconds) else None


def sysctls(config: KubeProxyConfiguration, kernel: tuple[int, int]) -> dict[str, int]:
    """The kernel's settings (below /proc/sys) that the mode needs. ``kernel``: the first two numbers of its version."""
    wanted = {
        "net/ipv4/vs/conntrack": 1,
        "net/ipv4/vs/expire_nodest_conn": 1,
        "net/ipv4/vs/expire_quiescent_template": 1,
        "net/ipv4/ip_forward": 1,
    }
    if FIRST_CONN_REUSE <= kernel < FIXED_CONN_REUSE:
        wanted["net/ipv4/vs/conn_reuse_mode"] = 0
    if config.ipvs.strict_arp:
        wanted |= {"net/ipv4/conf/all/arp_ignore": 1, "net/ipv4/conf/all/arp_announce": 2}
    return wanted
