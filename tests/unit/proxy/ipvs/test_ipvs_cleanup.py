"""The clean-up takes all of ipvs mode's rules away, and nothing else."""

from __future__ import annotations

from netlab.proxy.iptables.cleanup import removal_text
from netlab.proxy.iptables.ruleset import parse_save
from netlab.proxy.ipvs.cleanup import CHAINS
from tests.conformance.test_kube_proxy_ipvs import CASES, MANIFESTS
from tests.unit.proxy.fake_iptables import FakeIptables
from tests.unit.proxy.ipvs.test_ipvs_changes import Proxy

COMMENTED = '-m comment --comment "kubernetes ipvs access filter" -j KUBE-IPVS-FILTER'


def kernel_with(text: str) -> FakeIptables:
    """A kernel that holds what iptables-save printed."""
    kernel = FakeIptables()
    lines = [line for line in text.splitlines() if not line.startswith(":") or line.endswith("-")]
    kernel.restore("\n".join(lines))
    return kernel


def cleaned(kernel: FakeIptables) -> FakeIptables:
    kernel.restore(removal_text(kernel.read(), CHAINS))
    return kernel


def test_rules_of_iptables_mode_stay_when_the_mode_changes() -> None:
    """Only the clean-up takes them (kubernetes#102314); what both modes have by the same name is ipvs mode's now."""
    proxy = Proxy()
    proxy.host.iptables = kernel_with((MANIFESTS / "03-nodeport" / "iptables-save.txt").read_text())
    before = proxy.host.iptables.tables["nat"].copy()
    proxy.take()
    after = proxy.host.iptables.tables["nat"]
    assert set(before) <= set(after)
    own = [chain for chain in before if chain.startswith(("KUBE-SVC-", "KUBE-EXT-", "KUBE-SEP-", "KUBE-NODEPORTS"))]
    assert own
    assert {chain: after[chain] for chain in own} == {chain: before[chain] for chain in own}
    assert after["KUBE-SERVICES"] == ["-s 127.0.0.0/8 -j RETURN", "-m addrtype --dst-type LOCAL -j KUBE-NODE-PORT"]


def test_nothing_remains_as_recorded() -> None:
    kernel = cleaned(kernel_with((CASES / "_cleanup" / "after-sigterm-iptables-save.txt").read_text()))
    recorded = parse_save((CASES / "_cleanup" / "after-cleanup-iptables-save.txt").read_text())
    assert all(not table.chains for table in recorded.tables.values())
    assert kernel.tables == FakeIptables().tables


def test_rules_of_others_stay() -> None:
    kernel = kernel_with((CASES / "v-default" / "iptables-save.txt").read_text())
    kernel.restore("*filter\n:CNI - [0:0]\n-A INPUT -s 192.0.2.1/32 -j DROP\n-A INPUT -j CNI\nCOMMIT\n")
    cleaned(kernel)
    assert kernel.tables["filter"]["INPUT"] == ["-s 192.0.2.1/32 -j DROP", "-j CNI"]
    assert kernel.tables["filter"]["CNI"] == []


def test_jumps_that_the_real_kube_proxy_made_go_too() -> None:
    kernel = kernel_with((CASES / "v-default" / "iptables-save.txt").read_text())
    kernel.restore(f"*filter\n-D INPUT -j KUBE-IPVS-FILTER\n-I INPUT 1 {COMMENTED}\nCOMMIT\n")
    assert cleaned(kernel).tables == FakeIptables().tables


def test_a_chain_that_iptables_mode_leads_to_is_emptied_and_stays() -> None:
    kernel = kernel_with((CASES / "v-default" / "iptables-save.txt").read_text())
    kernel.restore("*nat\n:KUBE-SEP-X - [0:0]\n-A KUBE-SEP-X -s 10.244.1.5/32 -j KUBE-MARK-MASQ\nCOMMIT\n")
    cleaned(kernel)
    assert kernel.tables["nat"]["KUBE-MARK-MASQ"] == []
    assert kernel.tables["nat"]["KUBE-SEP-X"] == ["-s 10.244.1.5/32 -j KUBE-MARK-MASQ"]


def test_there_is_nothing_to_do_where_there_is_nothing() -> None:
    assert removal_text(FakeIptables().read(), CHAINS) == ""
