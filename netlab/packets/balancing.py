"""Where IPVS ends a packet: a virtual server without real servers refuses it (ip_vs_leave in ip_vs_core.c)."""

from __future__ import annotations

from netlab.model.rulebook import Rulebook, ServerEntry
from netlab.packets.headers import PROTOCOL_NAMES
from netlab.packets.visits import Visit

IPVS_PRIORITIES = {"INPUT": 98, "OUTPUT": -98}
"""Up to where a hook's chains see a packet that IPVS takes away there (ip_vs_ops in ip_vs_core.c)."""


def refusing_server(visit: Visit, book: Rulebook | None) -> ServerEntry | None:
    """The virtual server that refused the packet at the end of a stay; None where none did."""
    if book is None or not book.servers or not visit.passes or visit.outgoing or visit.dropped:
        return None
    last = visit.passes[-1]
    if last.priority > IPVS_PRIORITIES.get(last.hook, last.priority - 1):
        return None
    protocol = PROTOCOL_NAMES.get(last.packet.protocol, "")
    server = book.servers.get((protocol, last.packet.destination_text))
    return server if server is not None and not server.reals else None
