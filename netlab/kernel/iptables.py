"""iptables of the network namespace that the calling thread is in, through the system's own tools.

The nft variant is called by its own name: which variant plain ``iptables`` means differs from machine to machine, and
rules of both kinds side by side would hide each other.
"""

from __future__ import annotations

from typing import Literal

from netlab.kernel import nfnetlink, nftables, programs


def save(family: Literal[4, 6], place: str) -> str:
    """All tables as text, without counters; nothing, and no program is run, where there is no table."""
    with nfnetlink.netfilter_socket() as netlink:
        if not nftables.has_tables(netlink, nfnetlink.NFPROTO_IPV4 if family == 4 else nfnetlink.NFPROTO_IPV6):
            return ""
    return programs.run([f"{_prefix(family)}-nft-save"], place)


def restore(family: Literal[4, 6], place: str, text: str) -> None:
    """Apply a text; chains that it does not name are left alone. Each table takes effect at once or not at all."""
    programs.run([f"{_prefix(family)}-nft-restore", "--noflush"], place, text)


def _prefix(family: Literal[4, 6]) -> str:
    return "iptables" if family == 4 else "ip6tables"
