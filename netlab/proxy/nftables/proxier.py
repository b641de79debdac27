"""The nftables mode at work on one node in one family: keeps the kernel's table equal to what objects ask for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from netlab.kernel import nft
from netlab.kernel.programs import ProgramFailed
from netlab.objects.ip import Network
from netlab.proxy.changes import PortState
from netlab.proxy.family import Family
from netlab.proxy.nftables.listing import parse_listing
from netlab.proxy.nftables.names import TABLE
from netlab.proxy.nftables.rules import PortRules, Settings, port_rules
from netlab.proxy.nftables.state import NftablesState
from netlab.proxy.nftables.transaction import Change, script, transactions
from netlab.proxy.proxier import SyncReport
from netlab.proxy.service_ports import ServicePortName


class NftablesProxier:
    """Implements :class:`netlab.proxy.proxier.Proxier`. ``node`` is named in error messages."""

    def __init__(self, node: str, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self.node = node
        self.state = NftablesState(settings, deletes_at_once=nft.frees_chains_at_once())
        self._family = settings.family.nftables
        self._clock = clock
        self._full = True

    def require_full_sync(self) -> None:
        self._full = True

    def set_service_ranges(self, ranges: Sequence[Network]) -> None:
        """Other ranges of the cluster for ClusterIPs (of this family); the next sync brings them in."""
        if tuple(ranges) != self.state.settings.service_ranges:
            self.state.settings = replace(self.state.settings, service_ranges=tuple(ranges))
            self._full = True

    def sync(
        self, changed: Mapping[ServicePortName, PortState | None], ports: Mapping[ServicePortName, PortState]
    ) -> SyncReport:
        new: dict[ServicePortName, PortRules | None] = {
            name: port_rules(each.port, each.endpoints, self.state.settings) if each is not None else None
            for name, each in changed.items()
        }
        full, now = self._full, self._clock()
        # Whatever goes wrong from here on, the kernel's table is no longer known.
        self._full = True
        changes = self.state.replace(new, now)
        if not full:
            try:
                return self._apply(changes, full=False)
            except ProgramFailed:
                pass  # The table is not as we left it: somebody else has been at it.
        listed = nft.list_table(self._family, TABLE, self.node)
        current = parse_listing(listed, self._family).table if listed is not None else None
        return self._apply(self.state.full_change(current, now), full=True)

    def _apply(self, changes: Iterable[Change], *, full: bool) -> SyncReport:
        count = lines = 0
        for change in transactions(changes):
            text = script(f"{self._family} {TABLE}", change)
            nft.apply(self.node, text)
            count += 1
            lines += text.count("\n")
        self._full = False
        return SyncReport(full, count, lines)


def cleanup(node: str) -> None:
    """Take away all that nftables mode has made in the namespace, as ``kube-proxy --cleanup`` does."""
    for family in Family:
        nft.delete_table(family.nftables, TABLE, node)
