"""What the kernel holds in a node's namespace, as the tools of the node's mode print it."""

from __future__ import annotations

import re
from typing import Literal

from netlab.kernel import iptables, nft
from netlab.proxy.family import Family
from netlab.proxy.ipvs.host import NodeHost
from netlab.proxy.ipvs.text import actual_text
from netlab.proxy.nftables.names import TABLE

_COUNTERS = re.compile(r" \[\d+:\d+\]$")


def listing(mode: str, node: str) -> str:
    """All that belongs to the mode, in the calling thread's namespace; parts under a line that names the tool."""
    if mode == "nftables":
        return "".join(
            nft.list_text(family, TABLE, node) for family in nft.FAMILIES_OF_PROXY if TABLE in nft.tables(family)
        )
    parts = [_ipvs(node).rstrip("\n")] if mode == "ipvs" else []
    versions: tuple[Literal[4, 6], ...] = (4, 6)
    for version, title in zip(versions, ("# iptables-save", "# ip6tables-save"), strict=True):
        lines = [line for line in iptables.save(version, node).splitlines() if not line.startswith("#")]
        parts += [title, *(_COUNTERS.sub("", line) for line in lines)]
    return "\n".join(parts) + "\n"


def _ipvs(node: str) -> str:
    hosts = [NodeHost(node, family) for family in Family]
    try:
        return actual_text([host.read() for host in hosts])
    finally:
        for host in hosts:
            host.close()
