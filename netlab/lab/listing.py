"""What the kernel holds in a node's namespace, as the tools of the node's mode print it."""

from __future__ import annotations

import re
from typing import Literal

from netlab.kernel import ipset, iptables, ipvs, nfnetlink, nft
from netlab.proxy.ipvs.text import kernel_text
from netlab.proxy.nftables.names import TABLE

_COUNTERS = re.compile(r" \[\d+:\d+\]$")


def listing(mode: str, node: str) -> str:
    """All that belongs to the mode, in the calling thread's namespace; parts under a line that names the tool."""
    if mode == "nftables":
        return "".join(
            nft.list_text(family, TABLE, node) for family in nft.FAMILIES_OF_PROXY if TABLE in nft.tables(family)
        )
    versions: tuple[Literal[4, 6], ...] = (4, 6)
    parts = _balancer() if mode == "ipvs" else []
    for version, title in zip(versions, ("# iptables-save", "# ip6tables-save"), strict=True):
        lines = [line for line in iptables.save(version, node).splitlines() if not line.startswith("#")]
        parts += [title, *(_COUNTERS.sub("", line) for line in lines)]
    return "\n".join(parts) + "\n"


def _balancer() -> list[str]:
    """Virtual servers and sets: read from the kernel itself, as not every machine has the tools for them."""
    with ipvs.Ipvs() as kernel, nfnetlink.netfilter_socket() as netlink:
        servers = kernel.servers()
        reals = kernel.all_reals([each.address for each in servers])
        return kernel_text([(each, reals[each.address]) for each in servers], ipset.list_sets(netlink)).splitlines()
