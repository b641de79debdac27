"""The iptables mode at work on one node in one family: keeps the kernel's rules equal to what objects ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from netlab.kernel import iptables, nfacct, nfnetlink, sysctl
from netlab.kernel.programs import ProgramFailed
from netlab.proxy.changes import PortState
from netlab.proxy.iptables.restore import restore_texts
from netlab.proxy.iptables.rules import (
    INVALID_COUNTER,
    LARGE_CLUSTER_ENDPOINTS,
    LOCALHOST_COUNTER,
    PortRules,
    Settings,
    port_rules,
)
from netlab.proxy.iptables.ruleset import TableChange, parse_save
from netlab.proxy.iptables.state import IptablesState
from netlab.proxy.proxier import SyncReport
from netlab.proxy.service_ports import ServicePortName

ROUTE_LOCALNET = "net/ipv4/conf/all/route_localnet"


def ensure_counters() -> bool:
    """Make the nfacct counters that rules refer to; false where the kernel has none (then rules do without)."""
    with nfnetlink.netfilter_socket() as netlink:
        return nfacct.ensure(netlink, INVALID_COUNTER) and nfacct.ensure(netlink, LOCALHOST_COUNTER)


class IptablesProxier:
    """Implements :class:`netlab.proxy.proxier.Proxier`. ``node`` is named in error messages."""

    def __init__(self, node: str, settings: Settings) -> None:
        self.node = node
        self.state = IptablesState(settings)
        self._family: Literal[4, 6] = 4 if settings.family.value == 4 else 6
        self._full = True
        self._large = False
        self._counts: dict[ServicePortName, int] = {}
        self._endpoints = 0
        if settings.localhost_v4:
            sysctl.write(ROUTE_LOCALNET, 1)

    def require_full_sync(self) -> None:
        self._full = True

    def sync(
        self, changed: Mapping[ServicePortName, PortState | None], ports: Mapping[ServicePortName, PortState]
    ) -> SyncReport:
        large = self._count(changed) > LARGE_CLUSTER_ENDPOINTS
        if large != self._large:
            self._large = large
            changed = {**changed, **ports}
        new: dict[ServicePortName, PortRules | None] = {
            name: port_rules(each.port, each.endpoints, self.state.settings, large) if each is not None else None
            for name, each in changed.items()
        }
        full = self._full
        # Whatever goes wrong from here on, the kernel's rules are no longer known.
        self._full = True
        changes = self.state.replace(new)
        if not full:
            try:
                return self._apply(changes, full=False)
            except ProgramFailed:
                pass  # The rules are not as we left them: somebody else has been at them.
        return self._apply(self.state.full_change(parse_save(iptables.save(self._family, self.node))), full=True)

    def _count(self, changed: Mapping[ServicePortName, PortState | None]) -> int:
        """How many endpoints all Service ports have, which is kept up as they change."""
        for name, each in changed.items():
            count = len(each.all_endpoints) if each is not None else 0
            self._endpoints += count - self._counts.pop(name, 0)
            if count:
                self._counts[name] = count
        return self._endpoints

    def _apply(self, changes: Mapping[str, TableChange], *, full: bool) -> SyncReport:
        transactions = lines = 0
        for text in restore_texts(changes):
            iptables.restore(self._family, self.node, text)
            transactions += text.count("COMMIT\n")
            lines += text.count("\n")
        self._full = False
        return SyncReport(full, transactions, lines)
