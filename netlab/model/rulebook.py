"""What trace records refer to: the base chains of a place, and its rules by handle, with their texts and causes."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from netlab.model.keys import Origin


class ChainInfo(NamedTuple):
    """A base chain: its hook's name as iptables writes it, and its priority."""

    hook: str
    priority: int


class RuleEntry(msgspec.Struct, frozen=True):
    """A rule in the kernel. ``text`` as the tool prints it, without "-A CHAIN"; ``position`` counts from 1 within the
    chain; ``choices`` is how many of the chain's rules pick an endpoint."""

    table: str
    chain: str
    handle: int
    text: str
    position: int
    choices: int = 0
    origin: Origin | None = None


class Rulebook(msgspec.Struct, frozen=True):
    """One place's chains and rules; the keys begin with the nftables family ("ip", "ip6", "inet")."""

    base_chains: dict[tuple[str, str, str], ChainInfo] = {}
    rules: dict[tuple[str, str, int], RuleEntry] = {}

    def chain(self, family: str, table: str, chain: str) -> ChainInfo | None:
        return self.base_chains.get((family, table, chain))

    def rule(self, family: str, table: str, handle: int) -> RuleEntry | None:
        return self.rules.get((family, table, handle))
