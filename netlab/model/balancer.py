"""What the lab's load balancer is told to serve."""

from __future__ import annotations

import msgspec


class Frontend(msgspec.Struct, frozen=True):
    """An address and port of the balancer that ends connections itself (mode proxy), and where it passes them on.

    ``backends``: address and nodePort of each node; ``check_port``, ``check_path``: where each node is asked whether
    it is to get connections.
    """

    namespace: str
    service: str
    port_name: str
    protocol: str
    ip: str
    port: int
    backends: tuple[tuple[str, int], ...]
    check_port: int
    check_path: str
