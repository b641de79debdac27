"""From configuration and node to what mode userspace depends on."""

from __future__ import annotations

from collections.abc import Sequence

from netlab.objects.ip import Address, parse_ip
from netlab.objects.proxyconfig import KubeProxyConfiguration
from netlab.proxy.family import Family
from netlab.proxy.userspace.rules import Settings


def family_of(config: KubeProxyConfiguration, node_ips: Sequence[Address]) -> Family:
    """The one family that mode userspace serves: that of bindAddress where it names an address, else of the node's
    first one."""
    bind = parse_ip(config.bind_address)
    if bind is not None and not bind.is_unspecified:
        return Family(bind.version)
    return Family(node_ips[0].version) if node_ips else Family.IPV4


def userspace_settings(
    config: KubeProxyConfiguration, *, node_ips: Sequence[Address], local_addresses: Sequence[Address]
) -> Settings:
    """As for the other modes; ``node_ips`` of the Node object, primary first, ``local_addresses`` on its interfaces.

    Raises ValueError for a loopback bindAddress, as the real one does: nothing could be redirected to it.
    """
    family = family_of(config, node_ips)
    bind = parse_ip(config.bind_address)
    if bind is not None and bind.is_loopback:
        raise ValueError("cannot proxy on localhost")
    everywhere = "0.0.0.0" if family is Family.IPV4 else "::"
    listen = everywhere if bind is None or bind.is_unspecified else str(bind)
    usable = [
        ip for ip in (*node_ips, *local_addresses) if family.matches(ip) and not ip.is_loopback and not ip.is_link_local
    ]
    return Settings(family, host_ip=str(usable[0]) if usable else everywhere, listen_ip=listen)


def proxy_ports(text: str) -> tuple[int, int] | None:
    """First and last port of portRange: "A-B", "A+SIZE" or "A"; None for no range (any free port).

    Raises ValueError. Source: k8s.io/apimachinery/pkg/util/net/port_range.go.
    """
    text = text.strip()
    if not text or text == "0-0":
        return None
    for sign in "-+":
        first, found, second = text.partition(sign)
        if found:
            low = int(first)
            high = int(second) if sign == "-" else low + int(second)
            break
    else:
        low = high = int(text)
    if not 0 < low <= high <= 65535:
        raise ValueError(f"{text} is not a range of ports")
    return low, high
