"""The text that ``iptables-restore --noflush`` takes to make a change, in as few transactions as the kernel allows.

Inside a user namespace one transaction cannot be larger than the netlink socket's send buffer (iptables-nft may not
enlarge it there: EMSGSIZE). So a large change is cut into several, ordered so that every state in between is
consistent: first chains that nothing refers to yet, then the chains that refer to them, the shared chains that lead
there, then the jumps from built-in chains, and deletions last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from netlab.proxy.iptables import names
from netlab.proxy.iptables.ruleset import TABLES, Rule, TableChange

LINES_PER_TRANSACTION = 250
"""Lines that surely fit in one transaction inside a user namespace, with the default send buffer of 208 KiB."""

_ORDER = ("KUBE-MARK-MASQ", "KUBE-SEP-", "KUBE-SVC-", "KUBE-SVL-", "KUBE-EXT-", "KUBE-FW-")


def restore_texts(changes: Mapping[str, TableChange], limit: int | None = LINES_PER_TRANSACTION) -> Iterator[str]:
    """One text for each call of iptables-restore; ``limit`` None: one call for everything (as real root)."""
    lines = sum(_size(change) for change in changes.values())
    if limit is None or lines <= limit:
        text = "".join(_table_text(table, changes[table]) for table in TABLES if table in changes)
        if text:
            yield text
        return
    for table in TABLES:
        if table in changes:
            yield from _pieces(table, changes[table], limit)


def _size(change: TableChange) -> int:
    chains = (*change.jumps.values(), *change.written.values())
    return sum(len(rules) + 1 for rules in chains) + 2 * len(change.deleted)


def _table_text(table: str, change: TableChange) -> str:
    lines = [f"*{table}"]
    lines += [f":{chain} - [0:0]" for chain in sorted((*change.written, *change.deleted), key=_chain_order)]
    for chain in sorted(change.written, key=_chain_order):
        lines += _appended(chain, change.written[chain])
    for chain, rules in change.jumps.items():
        lines += [f"-I {chain} 1 {rule.text}" for rule in reversed(rules)]
    lines += [f"-X {chain}" for chain in change.deleted]
    lines.append("COMMIT\n")
    return "\n".join(lines)


def _pieces(table: str, change: TableChange, limit: int) -> Iterator[str]:
    declared: list[str] = []
    body: list[str] = []
    for chain in sorted(change.written, key=_chain_order):
        declared.append(f":{chain} - [0:0]")
        for line in _appended(chain, change.written[chain]):
            if len(declared) + len(body) >= limit:
                yield _text(table, declared, body)
                declared, body = [], []
            body.append(line)
    last = [f"-I {chain} 1 {rule.text}" for chain, rules in change.jumps.items() for rule in reversed(rules)]
    yield _text(table, declared, body + last)
    for start in range(0, len(change.deleted), limit // 2):
        gone = change.deleted[start : start + limit // 2]
        yield _text(table, [f":{chain} - [0:0]" for chain in gone], [f"-X {chain}" for chain in gone])


def _text(table: str, declared: list[str], body: list[str]) -> str:
    return "\n".join([f"*{table}", *declared, *body, "COMMIT\n"])


def _appended(chain: str, rules: tuple[Rule, ...]) -> list[str]:
    return [f"-A {chain} {rule.text}".rstrip() for rule in rules]


def _chain_order(chain: str) -> tuple[int, str]:
    """Chains that are jumped to stand before those that jump."""
    for position, prefix in enumerate(_ORDER):
        if chain.startswith(prefix):
            return position, chain
    return len(_ORDER) + (chain in (names.SERVICES, names.EXTERNAL_SERVICES)), chain
