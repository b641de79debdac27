"""Take away all that iptables mode makes on a node, in both families, whoever the proxy was that made it.

kube-proxy's own clean-up leaves some chains behind for the kubelet of old; this one does not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

from netlab.kernel import iptables
from netlab.proxy.iptables import names
from netlab.proxy.iptables.ruleset import RuleSet, Table, parse_save, target

_FRAME = {
    "mangle": (names.CANARY,),
    "filter": (
        names.EXTERNAL_SERVICES,
        names.FIREWALL,
        names.FORWARD,
        names.NODEPORTS,
        names.PROXY_FIREWALL,
        names.SERVICES,
        names.CANARY,
    ),
    "nat": (names.SERVICES, names.NODEPORTS, names.POSTROUTING, names.MARK_MASQ, names.CANARY),
}


def cleanup(node: str) -> None:
    """Delete the mode's chains with the jumps to them, in the network namespace of the calling thread.

    Where the mode's own KUBE-NODEPORTS is not there, the chains that it shares with ipvs mode are not its.
    Raises :class:`netlab.model.errors.LabFailed` where the kernel refuses.
    """
    versions: tuple[Literal[4, 6], ...] = (4, 6)
    for version in versions:
        current = parse_save(iptables.save(version, node))
        if names.NODEPORTS in current.tables["nat"].chains:
            remove_chains(version, node, current, own_chains(current))


def own_chains(current: RuleSet) -> dict[str, list[str]]:
    """The chains of the mode that are there, by table."""
    return {
        name: [chain for chain in current.tables[name].chains if chain in frame or names.is_service_chain(chain)]
        for name, frame in _FRAME.items()
    }


def remove_chains(version: Literal[4, 6], node: str, current: RuleSet, own: Mapping[str, Collection[str]]) -> None:
    """Delete chains, by table, and the jumps to them from built-in chains."""
    text = removal_text(current, own)
    if text:
        iptables.restore(version, node, text)


def removal_text(current: RuleSet, own: Mapping[str, Collection[str]]) -> str:
    """What iptables-restore takes to remove chains; "" where there is nothing to do.

    A chain that rules of others lead to as well is emptied and stays.
    """
    blocks = []
    for name, chains in own.items():
        lines = _removal_lines(
            current.tables[name], [chain for chain in chains if chain in current.tables[name].chains]
        )
        if lines:
            blocks.append("\n".join([f"*{name}", *lines, "COMMIT\n"]))
    return "".join(blocks)


def _removal_lines(table: Table, own: Collection[str]) -> list[str]:
    jumps = [
        f"-D {chain} {rule.text}" for chain, rules in table.built_in.items() for rule in rules if target(rule) in own
    ]
    foreign = {target(rule) for chain, rules in table.chains.items() if chain not in own for rule in rules}
    lines = [f":{chain} - [0:0]" for chain in own] + jumps
    return lines + [f"-X {chain}" for chain in own if chain not in foreign]
