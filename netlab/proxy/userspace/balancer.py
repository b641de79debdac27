"""Which endpoint a client gets in mode userspace: each in turn, or the same one as before with ClientIP affinity.

Source: kubernetes/pkg/proxy/userspace/roundrobin.go (1.25).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, MutableSequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Affinity:
    endpoint: str
    last_used: float


@dataclass(slots=True)
class Balancer:
    """The endpoints of one Service port ("A:P") in the order in which they are used.

    Endpoints that change are shuffled, so that nodes do not all begin with the same one, and the turn starts anew.
    ``affinity_seconds``: how long a client keeps its endpoint after its last connection; None for no affinity.
    """

    affinity_seconds: int | None = None
    clock: Callable[[], float] = time.monotonic
    shuffle: Callable[[MutableSequence[str]], None] = random.shuffle
    endpoints: list[str] = field(default_factory=list)
    index: int = 0
    _clients: dict[str, _Affinity] = field(default_factory=dict)

    def set_endpoints(self, endpoints: Iterable[str]) -> None:
        """Other endpoints; clients forget those that are gone. The same ones in another order change nothing."""
        new = list(endpoints)
        if sorted(new) == sorted(self.endpoints):
            return
        self._clients = {client: each for client, each in self._clients.items() if each.endpoint in new}
        self.shuffle(new)
        self.endpoints = new
        self.index = 0

    def next(self, client: str, *, reset: bool = False) -> str | None:
        """The endpoint for a new connection of ``client`` (its address); None where there is none.

        ``reset``: the endpoint that it had does not answer; it is to get the next one, and keep that.
        """
        if not self.endpoints:
            return None
        now = self.clock()
        if self.affinity_seconds is not None and not reset:
            known = self._clients.get(client)
            if known is not None and int(now - known.last_used) < self.affinity_seconds:
                known.last_used = now
                return known.endpoint
        endpoint = self.endpoints[self.index]
        self.index = (self.index + 1) % len(self.endpoints)
        if self.affinity_seconds is not None:
            self._clients[client] = _Affinity(endpoint, now)
        return endpoint

    def sweep(self) -> None:
        """Forget clients whose time is over."""
        limit, now = self.affinity_seconds, self.clock()
        if limit is None:
            self._clients.clear()
            return
        self._clients = {client: each for client, each in self._clients.items() if int(now - each.last_used) < limit}

    @property
    def clients(self) -> dict[str, str]:
        """The endpoint of each client that keeps one."""
        return {client: each.endpoint for client, each in self._clients.items()}
