"""The kernel takes our rules as they are: applied through iptables-restore and read back, they are the same texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from netlab.kernel import iptables, netns, nfacct, nfnetlink
from netlab.proxy.family import Family
from netlab.proxy.iptables.restore import restore_texts
from netlab.proxy.iptables.rules import INVALID_COUNTER, LOCALHOST_COUNTER
from netlab.proxy.iptables.ruleset import RuleSet, difference, parse_save
from tests.conformance.test_kube_proxy_iptables import CASES, comparable, rule_set

pytestmark = pytest.mark.kernel
T = TypeVar("T")
Sandbox = Callable[[Callable[[], T]], T]

EXACT = ["01-clusterip", "08-affinity", "12-udp-sctp", "17-dualstack", "v-detect-prefix"]


def apply(wanted: RuleSet, family: Family, limit: int | None) -> tuple[int, str]:
    """Bring the rules into a new namespace; returns how many calls it took, and what iptables-save prints then."""
    version = family.value
    namespace = netns.create(["rules"])[0]
    with namespace.entered():
        with nfnetlink.netfilter_socket() as netlink:
            assert nfacct.ensure(netlink, INVALID_COUNTER)
            assert nfacct.ensure(netlink, LOCALHOST_COUNTER)
        empty = RuleSet()
        changes = {name: difference(name, table, empty.tables[name]) for name, table in wanted.tables.items()}
        texts = list(restore_texts({name: each for name, each in changes.items() if each}, limit))
        for text in texts:
            iptables.restore(version, "test", text)  # type: ignore[arg-type]
        return len(texts), iptables.save(version, "test")  # type: ignore[arg-type]


@pytest.mark.parametrize("case", EXACT)
@pytest.mark.parametrize("family", list(Family), ids=lambda family: family.kubernetes)
@pytest.mark.parametrize("limit", [None, 7], ids=["one transaction", "many"])
def test_saved_rules_are_the_wanted_ones(
    sandbox: Sandbox[tuple[int, str]], case: str, family: Family, limit: int | None
) -> None:
    wanted = rule_set(CASES / case, family)
    calls, saved = sandbox(lambda: apply(wanted, family, limit))
    assert comparable(parse_save(saved)) == comparable(wanted)
    assert (calls == 1) == (limit is None)


def test_nothing_is_left_to_do_after_a_sync(sandbox: Sandbox[tuple[int, str]]) -> None:
    wanted = rule_set(CASES / "04-lb-source-ranges", Family.IPV4)
    _, saved = sandbox(lambda: apply(wanted, Family.IPV4, None))
    current = parse_save(saved)
    changes = [difference(name, table, current.tables[name]) for name, table in wanted.tables.items()]
    assert not any(changes)


def test_foreign_rules_stay_where_they_are(sandbox: Sandbox[str]) -> None:
    wanted = rule_set(CASES / "01-clusterip", Family.IPV4)
    foreign = (
        "*filter\n-A INPUT -s 192.0.2.1/32 -j DROP\nCOMMIT\n*nat\n:CNI-X - [0:0]\n-A POSTROUTING -j CNI-X\nCOMMIT\n"
    )

    def run() -> str:
        namespace = netns.create(["rules"])[0]
        with namespace.entered():
            with nfnetlink.netfilter_socket() as netlink:
                nfacct.ensure(netlink, INVALID_COUNTER)
            iptables.restore(4, "test", foreign)
            current = parse_save(iptables.save(4, "test"))
            changes = {name: difference(name, table, current.tables[name]) for name, table in wanted.tables.items()}
            for text in restore_texts(changes):
                iptables.restore(4, "test", text)
            return iptables.save(4, "test")

    saved = parse_save(sandbox(run))
    assert [rule.text for rule in saved.tables["filter"].built_in["INPUT"]][-1] == "-s 192.0.2.1/32 -j DROP"
    assert [rule.text for rule in saved.tables["nat"].built_in["POSTROUTING"]] == ["-j KUBE-POSTROUTING", "-j CNI-X"]
    assert "CNI-X" in saved.tables["nat"].chains


def test_recorded_cases_are_all_here() -> None:
    assert len(list(Path(CASES).iterdir())) == 25
