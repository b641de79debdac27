"""What trace records refer to: the base chains of a place, its rules by handle, and the elements that rules look up,
with their texts and causes."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from netlab.model.keys import Origin

IPTABLES_TABLES = ("raw", "mangle", "nat", "filter", "security")
"""Tables of nftables that are iptables' own, in the order in which a hook asks them."""


class ChainInfo(NamedTuple):
    """A base chain: its hook's name as iptables writes it, and its priority. ``nat``: only the first packet of a
    connection comes to it."""

    hook: str
    priority: int
    nat: bool = False


class RuleEntry(msgspec.Struct, frozen=True):
    """A rule in the kernel. ``text`` as the tool prints it, without "-A CHAIN"; ``position`` counts from 1 within the
    chain; ``choices`` is how many of the chain's rules pick an endpoint.

    ``native``: the rule is nft's own and not one of iptables. ``choice_origins``: what caused each of the endpoints
    that the rule itself picks from.
    """

    table: str
    chain: str
    handle: int
    text: str
    position: int
    choices: int = 0
    origin: Origin | None = None
    native: bool = False
    choice_origins: tuple[Origin, ...] = ()


class ElementEntry(msgspec.Struct, frozen=True):
    """An element of a set or map: its key as nft prints it, in a verdict map its verdict ("goto CHAIN", "drop")."""

    container: str
    key: str
    value: str = ""
    origin: Origin | None = None


class ServerEntry(msgspec.Struct, frozen=True):
    """A virtual server of IPVS with what caused it and each of its real servers ("A:P")."""

    scheduler: str
    origin: Origin | None = None
    reals: dict[str, Origin | None] = {}


class Rulebook(msgspec.Struct, frozen=True):
    """One place's chains and rules; the keys begin with the nftables family ("ip", "ip6", "inet")."""

    base_chains: dict[tuple[str, str, str], ChainInfo] = {}
    rules: dict[tuple[str, str, int], RuleEntry] = {}
    elements: dict[tuple[str, str, str, str], ElementEntry] = {}
    """By family, table, set or map, and key; as far as their causes are known. Sets of ipset have the table "ipset"."""
    servers: dict[tuple[str, str], ServerEntry] = {}
    """Virtual servers by protocol and "A:P", as far as their causes are known."""

    def chain(self, family: str, table: str, chain: str) -> ChainInfo | None:
        return self.base_chains.get((family, table, chain))

    def rule(self, family: str, table: str, handle: int) -> RuleEntry | None:
        return self.rules.get((family, table, handle))

    def element(self, family: str, table: str, container: str, key: str) -> ElementEntry | None:
        return self.elements.get((family, table, container, key))
