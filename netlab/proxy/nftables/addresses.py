"""Addresses and ranges as nft prints them: a host without its prefix length, and lists joined where they touch."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address, summarize_address_range

from netlab.objects.ip import Address, Network


def range_text(text: str) -> str:
    """ "10.0.0.0/8", but "10.0.0.1" for a range of one address."""
    address, _, length = text.partition("/")
    return address if length == ("128" if ":" in address else "32") else text


def given_set(ranges: Sequence[Network], addresses: Sequence[str]) -> str:
    """A list within a rule as kube-proxy writes it: first the ranges, then the addresses."""
    if len(ranges) + len(addresses) == 1:
        return listed_set(ranges, addresses)
    return f"{{ {', '.join([*(str(each) for each in ranges), *addresses])} }}"


def listed_set(ranges: Sequence[Network], addresses: Sequence[str]) -> str:
    """The same list as nft prints it.

    nft makes a plain match of a list of one. Of several, at least one of which is a range, it joins those that overlap
    or touch (nft(8): anonymous interval sets are always merged), and prints them in order, a joined range as a prefix
    where it is one; if only one remains, the braces stay.
    """
    if len(ranges) + len(addresses) == 1:
        return range_text(str(ranges[0])) if ranges else addresses[0]
    bounds = [(each.network_address, each.broadcast_address) for each in ranges]
    bounds += [(address, address) for address in map(ip_address, addresses)]
    joined: list[tuple[Address, Address]] = []
    for first, last in sorted(bounds, key=lambda each: (int(each[0]), int(each[1]))):
        if joined and int(first) <= int(joined[-1][1]) + 1:
            if int(last) > int(joined[-1][1]):
                joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return f"{{ {', '.join(_interval_text(first, last) for first, last in joined)} }}"


def _interval_text(first: Address, last: Address) -> str:
    prefixes = list(summarize_address_range(first, last))
    return range_text(str(prefixes[0])) if len(prefixes) == 1 else f"{first}-{last}"
