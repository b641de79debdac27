"""What a proxy mode is to the process that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from netlab.proxy.changes import PortState
from netlab.proxy.service_ports import ServicePortName


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What one sync did: whether it looked at everything, and how many transactions and lines went to the kernel."""

    full: bool
    transactions: int
    lines: int


class Proxier(Protocol):
    """One mode in one family on one node. It is told of changes and brings them into the kernel in :meth:`sync`."""

    def sync(
        self, changed: Mapping[ServicePortName, PortState | None], ports: Mapping[ServicePortName, PortState]
    ) -> SyncReport:
        """Program what ``changed`` says; ``ports`` is everything there is. Raises where the kernel or a tool refuses:
        the next sync is then a full one."""
        ...

    def require_full_sync(self) -> None:
        """Look at everything in the next sync: rules may have been changed by others."""
        ...
