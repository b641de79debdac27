"""A place's connection tracking table, listed and weeded by hand. To be called in the place's network namespace."""

from __future__ import annotations

from netlab.kernel import conntrack, nfnetlink
from netlab.model.records import ConntrackRecord


def connections(place: str) -> list[ConntrackRecord]:
    """The table as it is now, both families."""
    with nfnetlink.netfilter_socket() as netlink:
        return [entry for family in (4, 6) for entry in conntrack.list_entries(netlink, place, family)]


def forget_connection(place: str, entry: int) -> bool:
    """Delete the entry with the kernel's number; false if it had gone already."""
    found = next((each for each in connections(place) if each.entry == entry), None)
    if found is None:
        return False
    with nfnetlink.netfilter_socket() as netlink:
        return conntrack.delete_entry(netlink, found)
