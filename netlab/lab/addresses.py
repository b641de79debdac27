"""Which addresses and ranges of a lab are taken, and what is free. Pure, and fast for thousands of hosts."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from ipaddress import ip_network
from itertools import chain

from netlab.objects.address_validation import validate_endpoint_ip
from netlab.objects.ip import Address, Network

FIRST_FREE = 2
"""The first address of a network belongs to the network, the second to its router or gateway."""

_V4_CIDRS = range(56 * 256)
_V6_CIDRS = range(0x10000)


class Addresses:
    """The addresses that have an owner."""

    def __init__(self) -> None:
        self._owners: dict[Address, str] = {}
        self._offsets: dict[Network, Iterator[int]] = {}

    def copy(self) -> Addresses:
        """The same owners, to try something with."""
        other = Addresses()
        other._owners = dict(self._owners)
        return other

    def release(self, owner: str) -> None:
        """Give back all that somebody has."""
        self._owners = {address: each for address, each in self._owners.items() if each != owner}
        self._offsets.clear()

    def __contains__(self, address: Address) -> bool:
        return address in self._owners

    def take(self, address: Address, owner: str) -> str | None:
        """Note who has an address; the earlier owner where it is taken."""
        earlier = self._owners.setdefault(address, owner)
        return None if earlier == owner else earlier

    def free(self, network: Network, start: int, owner: str) -> Address | None:
        """Take the next free address of a network, from the ``start``-th on and round; None where all are taken."""
        if network not in self._offsets:
            end = network.num_addresses - (1 if network.version == 4 and network.prefixlen < 31 else 0)
            self._offsets[network] = chain(range(start, end), range(FIRST_FREE, min(start, end)))
        for offset in self._offsets[network]:
            address = network[offset]
            if address not in self._owners:
                self._owners[address] = owner
                return address
        return None


@dataclass
class _Sorted:
    """Ranges of one family in order; no two of them overlap."""

    firsts: list[int] = field(default_factory=list)
    networks: list[Network] = field(default_factory=list)

    def before(self, number: int) -> int:
        return bisect_right(self.firsts, number)


class Ranges:
    """Ranges of addresses in use."""

    def __init__(self, networks: Iterable[Network] = ()) -> None:
        self._families = {4: _Sorted(), 6: _Sorted()}
        for network in sorted(networks, key=lambda each: each.prefixlen):
            self.add(network)

    def clash(self, network: Network) -> Network | None:
        """A range in use that overlaps with ``network``."""
        ranges = self._families[network.version]
        position = ranges.before(int(network.broadcast_address))
        near = ranges.networks[position - 1] if position else None
        return near if near is not None and int(near.broadcast_address) >= int(network.network_address) else None

    def add(self, network: Network) -> None:
        """Note a range as used; one that overlaps with another is covered well enough for what is refused later."""
        if self.clash(network) is None:
            ranges = self._families[network.version]
            position = ranges.before(int(network.network_address))
            ranges.firsts.insert(position, int(network.network_address))
            ranges.networks.insert(position, network)

    def free_cidr(self, version: int, number: int) -> Network | None:
        """Take a range for the Pods of the ``number``-th node: 10.200.NUMBER.0/24, or the next free one behind it."""
        for each in (_V4_CIDRS if version == 4 else _V6_CIDRS)[number:]:
            network = _pod_cidr(version, each)
            if self.clash(network) is None:
                self.add(network)
                return network
        return None


def _pod_cidr(version: int, number: int) -> Network:
    if version == 4:
        return ip_network(f"10.{200 + number // 256}.{number % 256}.0/24")
    return ip_network(f"fd00:10:200:{number:x}::/64")


def host_fault(address: Address, network: Network) -> str | None:
    """Why no host can have the address in this network; None where it can."""
    text = str(address)
    if faults := validate_endpoint_ip("", text):
        return faults[0].detail
    if address.is_multicast or (address.version == 4 and address.packed[0] >= 240):
        return "must be the address of one host"
    if address.version == 4 and network.prefixlen < 31:
        if address == network.network_address:
            return f"is the address of the network {network} itself"
        if address == network.broadcast_address:
            return f"is the broadcast address of the network {network}"
    return None
