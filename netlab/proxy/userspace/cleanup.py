"""Take away all rules of mode userspace on a node, in both families, whoever the proxy was that made them."""

from __future__ import annotations

from typing import Literal

from netlab.kernel import iptables
from netlab.proxy.iptables.cleanup import remove_chains
from netlab.proxy.iptables.ruleset import parse_save
from netlab.proxy.userspace.rules import CHAINS


def cleanup(node: str) -> None:
    """Delete the mode's chains with the jumps to them, in the network namespace of the calling thread.

    Raises :class:`netlab.model.errors.LabFailed` where the kernel refuses.
    """
    versions: tuple[Literal[4, 6], ...] = (4, 6)
    own = {table: [chain for of, chain in CHAINS if of == table] for table in ("filter", "nat")}
    for version in versions:
        saved = iptables.save(version, node)
        if "KUBE-PORTALS-" in saved:
            remove_chains(version, node, parse_save(saved), own)
