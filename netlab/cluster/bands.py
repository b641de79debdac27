"""Ranges of numbers to allocate from, cut into a lower band that users choose from and an upper one for the rest.

Whoever asks for a certain address or port does best to take it from the lower band: what is allocated automatically
comes from the upper one as long as that lasts, at random, so the two seldom meet (KEP-3070, KEP-3668).
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from ipaddress import ip_address
from random import Random

from netlab.objects.ip import Address, Network

ADDRESS_BAND = (16, 16, 256)
"""A sixteenth of a service range, at least 16 and at most 256 addresses (KEP-3070)."""

PORT_BAND = (32, 16, 128)
"""A thirty-second of the node port range, at least 16 and at most 128 ports (KEP-3668)."""


@dataclass(frozen=True)
class Bands:
    """The numbers from ``first`` to ``last``; those below ``middle`` are the lower band, which may be empty."""

    first: int
    middle: int
    last: int

    def __contains__(self, number: int) -> bool:
        return self.first <= number <= self.last

    def pick(self, taken: Container[int], random: Random) -> int | None:
        """A free number: a random one of the upper band, else one of the lower band; None where all are taken."""
        upper = _pick(self.middle, self.last, taken, random)
        return upper if upper is not None else _pick(self.first, self.middle - 1, taken, random)


@dataclass(frozen=True)
class ServiceRange:
    """A range of cluster IPs: all its addresses but that of the network and, in IPv4, the broadcast address."""

    network: Network
    bands: Bands

    @property
    def family(self) -> str:
        return f"IPv{self.network.version}"

    def __contains__(self, address: Address) -> bool:
        return address.version == self.network.version and int(address) in self.bands

    @property
    def first(self) -> Address:
        return self.address(self.bands.first)

    def address(self, number: int) -> Address:
        return ip_address(number.to_bytes(self.network.max_prefixlen // 8, "big"))


def service_range(network: Network) -> ServiceRange:
    """The range as the API server uses it. Raises ValueError where it has no address to give."""
    first = int(network.network_address) + 1
    last = int(network.broadcast_address) - (1 if network.version == 4 else 0)
    if first > last:
        raise ValueError(f"no address to give in {network}")
    return ServiceRange(network, Bands(first, first + _band(network.num_addresses, ADDRESS_BAND), last))


def port_bands(first: int, last: int) -> Bands:
    """A range of node ports."""
    return Bands(first, first + _band(last - first + 1, PORT_BAND), last)


def _band(size: int, rule: tuple[int, int, int]) -> int:
    """How many numbers the lower band has; a range that is not larger than the least band has none."""
    step, least, most = rule
    return 0 if size <= least else min(max(least, size // step), most)


def _pick(first: int, last: int, taken: Container[int], random: Random) -> int | None:
    """The first free number from a random one onwards, and round to the start."""
    if last < first:
        return None
    start = random.randint(first, last)
    for numbers in (range(start, last + 1), range(first, start)):
        for number in numbers:
            if number not in taken:
                return number
    return None
