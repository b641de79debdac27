"""nftables of the network namespace that the calling thread is in, through the system's own tool."""

from __future__ import annotations

import os
from typing import Literal

from netlab.kernel import nfnetlink, programs
from netlab.kernel.netlink import NLM_F_DUMP, attributes
from netlab.kernel.nftables import GETTABLE

NftFamily = Literal["ip", "ip6", "inet"]
FAMILIES_OF_PROXY: tuple[NftFamily, NftFamily] = ("ip", "ip6")
_TABLE_NAME = 1


def apply(place: str, text: str) -> None:
    """Apply commands in one transaction: all take effect at once, or none. Raises :class:`programs.ProgramFailed`."""
    programs.run(["nft", "-f", "-"], place, text)


def list_table(family: NftFamily, table: str, place: str) -> str | None:
    """The table as JSON with handles (libnftables-json(5)); None, and no program is run, where there is none."""
    if table not in tables(family):
        return None
    return programs.run(["nft", "-j", "list", "table", family, table], place)


def list_text(family: NftFamily, table: str, place: str) -> str:
    """The table as nft prints it and takes it."""
    return programs.run(["nft", "list", "table", family, table], place)


def list_rules(family: str, table: str, place: str) -> dict[tuple[str, int], str]:
    """The texts of a table's rules, as nft prints them, by chain and handle."""
    found: dict[tuple[str, int], str] = {}
    chain = ""
    for line in programs.run(["nft", "-a", "-t", "list", "table", family, table], place).splitlines():
        text, _, handle = line.strip().rpartition(" # handle ")
        if text.startswith("chain ") and text.endswith("{"):
            chain = text.removeprefix("chain ").removesuffix("{").strip()
        elif text and handle.isdigit() and not text.endswith("{"):
            found[chain, int(handle)] = text
    return found


def delete_table(family: NftFamily, table: str, place: str) -> None:
    """Delete the table with all that is in it, if it is there."""
    if table in tables(family):
        apply(place, f"delete table {family} {table}\n")


def tables(family: NftFamily) -> set[str]:
    """The names of the family's tables."""
    kind = nfnetlink.message_type(nfnetlink.SUBSYSTEM_NFTABLES, GETTABLE)
    header = nfnetlink.header(nfnetlink.FAMILY_NUMBERS[family])
    with nfnetlink.netfilter_socket() as netlink:
        answers = netlink.exchange(kind, NLM_F_DUMP, header, "list the tables")
    found = set()
    for answer in answers:
        values = dict(attributes(answer.body[nfnetlink.HEADER_LENGTH :]))
        found.add(values[_TABLE_NAME].rstrip(b"\0").decode())
    return found


def frees_chains_at_once() -> bool:
    """Whether a chain can be deleted in the transaction that removes the last map element leading to it: Linux 6.2."""
    major, minor = os.uname().release.split(".")[:2]
    return (int(major), int("".join(each for each in minor if each.isdigit()))) >= (6, 2)
