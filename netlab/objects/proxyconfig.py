"""KubeProxyConfiguration (kubeproxy.config.k8s.io/v1alpha1): kube-proxy's own configuration file, with its defaults.

Source: k8s.io/kube-proxy/config/v1alpha1 and kubernetes/pkg/proxy/apis/config (defaults and validation), 1.36.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from msgspec import field

from netlab.objects.duration import parse_duration
from netlab.objects.field import FieldError, invalid, unsupported
from netlab.objects.ip import CIDR_WORDS, IP_WORDS, parse_cidr, parse_ip
from netlab.objects.meta import Object

API_VERSION = "kubeproxy.config.k8s.io/v1alpha1"
MODES = ("iptables", "ipvs", "nftables", "userspace")
DETECT_LOCAL_MODES = ("BridgeInterface", "ClusterCIDR", "InterfaceNamePrefix", "NodeCIDR")
SYNC_PERIOD = "30s"
MIN_SYNC_PERIOD = "1s"
CONFIG_SYNC_PERIOD = "15m0s"
UDP_IDLE_TIMEOUT = "250ms"
IPVS_SCHEDULERS = ("rr", "wrr", "lc", "wlc", "lblc", "lblcr", "sh", "dh", "sed", "nq", "mh")


class Periods(Object):
    """How often a mode's rules are brought in: at least, and at most."""

    sync_period: str = SYNC_PERIOD
    min_sync_period: str = MIN_SYNC_PERIOD

    def __post_init__(self) -> None:
        self.sync_period = _unless_zero(self.sync_period, SYNC_PERIOD)
        self.min_sync_period = _unless_zero(self.min_sync_period, MIN_SYNC_PERIOD)


class IPTables(Periods):
    masquerade_bit: int | None = None
    masquerade_all: bool = False
    localhost_node_ports: bool | None = None


class IPVS(Periods):
    scheduler: str = ""
    exclude_cidrs: list[str] = field(default_factory=list, name="excludeCIDRs")
    strict_arp: bool = field(default=False, name="strictARP")
    tcp_timeout: str = "0s"
    tcp_fin_timeout: str = "0s"
    udp_timeout: str = "0s"


class NFTables(Periods):
    masquerade_bit: int | None = None
    masquerade_all: bool = False


class DetectLocal(Object):
    bridge_interface: str = ""
    interface_name_prefix: str = ""
    cluster_cidrs: list[str] = field(default_factory=list, name="clusterCIDRs")


class Conntrack(Object):
    max_per_core: int | None = None
    min: int | None = None
    tcp_established_timeout: str | None = None
    tcp_close_wait_timeout: str | None = None
    tcp_be_liberal: bool = False
    udp_timeout: str = "0s"
    udp_stream_timeout: str = "0s"


class KubeProxyConfiguration(Object):
    """One node's (or all nodes') kube-proxy configuration."""

    api_version: str = API_VERSION
    kind: str = "KubeProxyConfiguration"
    mode: str = ""
    iptables: IPTables = field(default_factory=IPTables)
    ipvs: IPVS = field(default_factory=IPVS)
    nftables: NFTables = field(default_factory=NFTables)
    detect_local_mode: str = ""
    detect_local: DetectLocal = field(default_factory=DetectLocal)
    cluster_cidr: str = field(default="", name="clusterCIDR")
    node_port_addresses: list[str] = field(default_factory=list)
    conntrack: Conntrack = field(default_factory=Conntrack)
    hostname_override: str = ""
    bind_address: str = ""
    healthz_bind_address: str = ""
    metrics_bind_address: str = ""
    bind_address_hard_fail: bool = False
    enable_profiling: bool = False
    show_hidden_metrics_for_version: str = ""
    feature_gates: dict[str, bool] | None = None
    client_connection: dict[str, Any] | None = None
    logging: dict[str, Any] | None = None
    winkernel: dict[str, Any] | None = None
    windows_run_as_service: bool = False
    oom_score_adj: int | None = None
    port_range: str = ""
    config_sync_period: str = CONFIG_SYNC_PERIOD
    udp_idle_timeout: str = UDP_IDLE_TIMEOUT
    """Mode userspace alone: how long a UDP flow lives without a datagram (gone with that mode in 1.26)."""

    def __post_init__(self) -> None:
        self.udp_idle_timeout = _unless_zero(self.udp_idle_timeout, UDP_IDLE_TIMEOUT)
        self.config_sync_period = _unless_zero(self.config_sync_period, CONFIG_SYNC_PERIOD)

    @property
    def proxy_mode(self) -> str:
        """The mode, with Linux' default for an empty one."""
        return self.mode or "iptables"

    @property
    def cluster_cidrs(self) -> list[str]:
        """The Pods' ranges of all families: detectLocal.clusterCIDRs, else clusterCIDR."""
        listed = self.detect_local.cluster_cidrs or self.cluster_cidr.split(",")
        return [each.strip() for each in listed if each.strip()]


def _unless_zero(period: str, default: str) -> str:
    """Zero is a period that is not given: kubeadm writes out all of them so."""
    with suppress(ValueError):
        return period if parse_duration(period) else default
    return period


def validate(config: KubeProxyConfiguration) -> list[FieldError]:
    """Every fault that kube-proxy would refuse to start with. Mode userspace is allowed: the lab still has it."""
    errors: list[FieldError] = []
    if config.mode and config.mode not in MODES:
        errors.append(unsupported("mode", config.mode, MODES))
    if config.detect_local_mode and config.detect_local_mode not in DETECT_LOCAL_MODES:
        errors.append(unsupported("detectLocalMode", config.detect_local_mode, DETECT_LOCAL_MODES))
    errors += _interfaces(config)
    errors += _cluster_cidrs(config)
    for name, bit in (("iptables", config.iptables.masquerade_bit), ("nftables", config.nftables.masquerade_bit)):
        if bit is not None and not 0 <= bit <= 31:
            errors.append(invalid(f"{name}.masqueradeBit", bit, "must be within the range [0, 31]"))
    if config.ipvs.scheduler and config.ipvs.scheduler not in IPVS_SCHEDULERS:
        errors.append(unsupported("ipvs.scheduler", config.ipvs.scheduler, IPVS_SCHEDULERS))
    for index, cidr in enumerate(config.ipvs.exclude_cidrs):
        if parse_cidr(cidr) is None:
            errors.append(invalid(f"ipvs.excludeCIDRs[{index}]", cidr, CIDR_WORDS))
    for index, cidr in enumerate(config.node_port_addresses):
        if cidr == "primary":
            if len(config.node_port_addresses) > 1:
                errors.append(invalid(f"nodePortAddresses[{index}]", cidr, "may not be combined with other values"))
        elif parse_cidr(cidr) is None:
            errors.append(invalid(f"nodePortAddresses[{index}]", cidr, CIDR_WORDS))
    for name, count in (("maxPerCore", config.conntrack.max_per_core), ("min", config.conntrack.min)):
        if count is not None and count < 0:
            errors.append(invalid(f"conntrack.{name}", count, "must be greater than or equal to 0"))
    if config.bind_address and parse_ip(config.bind_address) is None:
        errors.append(invalid("bindAddress", config.bind_address, IP_WORDS))
    return errors + _periods(config)


def _interfaces(config: KubeProxyConfiguration) -> list[FieldError]:
    """What the modes of detection that look at interfaces need."""
    local = config.detect_local
    if config.detect_local_mode == "BridgeInterface" and not local.bridge_interface:
        return [invalid("detectLocal.bridgeInterface", "", "must not be empty")]
    if config.detect_local_mode == "InterfaceNamePrefix" and not local.interface_name_prefix:
        return [invalid("detectLocal.interfaceNamePrefix", "", "must not be empty")]
    return []


def _cluster_cidrs(config: KubeProxyConfiguration) -> list[FieldError]:
    cidrs = config.cluster_cidrs
    path = "detectLocal.clusterCIDRs" if config.detect_local.cluster_cidrs else "clusterCIDR"
    parsed = [parse_cidr(each) for each in cidrs]
    if None in parsed:
        return [invalid(path, ",".join(cidrs), CIDR_WORDS)]
    versions = [each.version for each in parsed if each is not None]
    if len(cidrs) > 2 or len(set(versions)) != len(versions):
        words = "only one CIDR allowed or a valid DualStack CIDR (e.g. 10.100.0.0/16,fde4:8dba:82e1::/48)"
        return [invalid(path, ",".join(cidrs), words)]
    return []


def _periods(config: KubeProxyConfiguration) -> list[FieldError]:
    errors: list[FieldError] = []
    seconds: dict[str, float] = {}
    values: list[tuple[str, str | None]] = [
        ("iptables.syncPeriod", config.iptables.sync_period),
        ("iptables.minSyncPeriod", config.iptables.min_sync_period),
        ("ipvs.syncPeriod", config.ipvs.sync_period),
        ("ipvs.minSyncPeriod", config.ipvs.min_sync_period),
        ("ipvs.tcpTimeout", config.ipvs.tcp_timeout),
        ("ipvs.tcpFinTimeout", config.ipvs.tcp_fin_timeout),
        ("ipvs.udpTimeout", config.ipvs.udp_timeout),
        ("nftables.syncPeriod", config.nftables.sync_period),
        ("nftables.minSyncPeriod", config.nftables.min_sync_period),
        ("configSyncPeriod", config.config_sync_period),
        ("udpIdleTimeout", config.udp_idle_timeout),
        ("conntrack.tcpEstablishedTimeout", config.conntrack.tcp_established_timeout),
        ("conntrack.tcpCloseWaitTimeout", config.conntrack.tcp_close_wait_timeout),
        ("conntrack.udpTimeout", config.conntrack.udp_timeout),
        ("conntrack.udpStreamTimeout", config.conntrack.udp_stream_timeout),
    ]
    for path, text in values:
        if text is None:
            continue
        try:
            seconds[path] = parse_duration(text)
        except ValueError as error:
            errors.append(invalid(path, text, str(error)))
            continue
        at_least_zero = path.startswith("conntrack.") or path.endswith(("minSyncPeriod", "Timeout"))
        if seconds[path] < 0 or (seconds[path] == 0 and not at_least_zero):
            errors.append(invalid(path, text, f"must be greater than {'or equal to ' if at_least_zero else ''}0"))
    for group in ("iptables", "ipvs", "nftables"):
        period, shortest = seconds.get(f"{group}.syncPeriod"), seconds.get(f"{group}.minSyncPeriod")
        if period is not None and shortest is not None and shortest > period:
            errors.append(
                invalid(
                    f"{group}.syncPeriod",
                    getattr(config, group).sync_period,
                    f"must be greater than or equal to {group}.minSyncPeriod",
                )
            )
    return errors
