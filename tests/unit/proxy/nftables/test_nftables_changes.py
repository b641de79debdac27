"""Changes applied one after the other lead to the table that a fresh start makes, and through no broken state."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netlab.proxy.nftables.ruleset import Container, Element, Hook, Rule, Table
from netlab.proxy.nftables.state import STALE_S, NftablesState
from netlab.proxy.nftables.transaction import Change, script, transactions
from netlab.proxy.service_ports import ServicePortName
from tests.unit.proxy.nftables.fake import FakeTable, Refused
from tests.unit.proxy.nftables.services import ENDPOINTS, HISTORIES, NAMES, SERVICE_PORTS, SETTINGS, Drawn, endpoint

PLACE = "ip kube-proxy"
ONE_TRANSACTION = 10_000_000
TINY = 900

unhurried = settings(deadline=None)  # machines that run tests are busy

History = list[dict[ServicePortName, Drawn | None]]


class Node:
    """A proxy and its kernel."""

    def __init__(self, limit: int = ONE_TRANSACTION, *, at_once: bool = False) -> None:
        self.state = NftablesState(SETTINGS, at_once)
        self.kernel = FakeTable("ip")
        self.limit = limit
        self.now = 0.0
        self.between: list[Table] = []

    def sync(self, changed: Mapping[ServicePortName, Drawn | None], *, full: bool = False) -> list[Change]:
        """One sync; returns its transactions."""
        rules = {name: each.rules(name) if each is not None else None for name, each in changed.items()}
        changes = self.state.replace(rules, self.now)
        if full:
            changes = self.state.full_change(self.kernel.table, self.now)
        parts = list(transactions(changes, self.limit))
        for part in parts:
            self.kernel.run(script(PLACE, part))
            table = self.kernel.copy()
            assert table is not None
            self.between.append(table)
        return parts

    def run(self, history: History) -> None:
        self.sync(history[0], full=True)
        for changed in history[1:]:
            self.now += 0.25
            self.sync(changed)


def comparable(table: Table | None) -> dict[str, Any]:
    assert table is not None
    return {
        "containers": dict(table.containers),
        "elements": {
            name: {key: (each.value, each.comment) for key, each in table.elements.get(name, {}).items()}
            for name in table.containers
        },
        "hooks": dict(table.hooks),
        "chains": {chain: [rule.text for rule in rules] for chain, rules in table.chains.items()},
    }


def fresh(history: History) -> Node:
    """A node that starts with what the history has led to."""
    node = Node()
    last: dict[ServicePortName, Drawn | None] = {}
    for changed in history:
        last |= changed
    node.sync({name: each for name, each in last.items() if each is not None}, full=True)
    return node


@unhurried
@given(HISTORIES, st.sampled_from([ONE_TRANSACTION, TINY]))
def test_many_small_changes_lead_to_what_a_fresh_start_makes(history: History, limit: int) -> None:
    node = Node(limit)
    node.run(history)
    stale = set(node.state.stale)
    assert node.kernel.table is not None
    assert all(node.kernel.table.chains[chain] == () for chain in stale)
    node.now += STALE_S
    node.sync({})
    assert comparable(node.kernel.table) == comparable(fresh(history).kernel.table)
    assert comparable(node.kernel.table) == comparable(node.state.wanted())


def with_one_timeout(history: History) -> History:
    """The history without sets that have to be made anew: a Service with these is without rules for a moment, if its
    change is too large for one transaction."""

    def keep(each: Drawn | None) -> Drawn | None:
        return replace(each, affinity=600) if each is not None and each.affinity else each

    return [{name: keep(each) for name, each in changed.items()} for changed in history]


@unhurried
@given(HISTORIES.map(with_one_timeout))
def test_no_state_in_between_leads_nowhere(history: History) -> None:
    """The fake refuses names that are not there; here: no packet comes to a chain that is still, or already, empty."""
    node = Node(TINY)
    node.run(history)
    for table in node.between:
        assert all(table.chains[chain] for chain in reachable(table) - table.hooks.keys())


@unhurried
@given(HISTORIES)
def test_what_is_there_before_and_after_is_there_in_between(history: History) -> None:
    node = Node(TINY)
    node.sync(history[0], full=True)
    for changed in history[1:]:
        before = node.kernel.copy()
        node.between.clear()
        node.sync(changed)
        after = node.kernel.copy()
        assert before is not None
        assert after is not None
        for name, elements in before.elements.items():
            kept = elements.keys() & after.elements.get(name, {}).keys()
            assert all(kept <= table.elements.get(name, {}).keys() for table in node.between)


@unhurried
@given(HISTORIES)
def test_a_new_table_sees_no_packet_before_it_is_complete(history: History) -> None:
    node = Node(TINY)
    node.sync(history[0], full=True)
    for table in node.between:
        if any(table.chains[chain] for chain in table.hooks):
            assert comparable(table)["elements"] == comparable(node.state.wanted())["elements"]


def reachable(table: Table) -> set[str]:
    """The chains that packets can come to from the hooks."""
    found: set[str] = set()
    leads = list(table.hooks)
    while leads:
        chain = leads.pop()
        if chain in found:
            continue
        found.add(chain)
        for rule in table.chains[chain]:
            leads += re.findall(r"(?:jump|goto) ([^ ,]+)", rule.text)
            for name in re.findall(r"vmap @(\S+)", rule.text):
                elements = table.elements[name].values()
                leads += [each.value.removeprefix("goto ") for each in elements if each.value != "drop"]
    return found


@unhurried
@given(HISTORIES, HISTORIES, st.booleans(), st.sampled_from([ONE_TRANSACTION, TINY]))
def test_a_full_sync_repairs_whatever_is_there(history: History, other: History, at_once: bool, limit: int) -> None:
    node = Node()
    node.run(history)
    taken_over = Node(limit, at_once=at_once)
    taken_over.kernel = node.kernel
    last: dict[ServicePortName, Drawn | None] = {}
    for changed in other:
        last |= changed
    wanted = {name: each for name, each in last.items() if each is not None}
    taken_over.sync(wanted, full=True)
    assert at_once == (not taken_over.state.stale) or not taken_over.state.stale
    taken_over.now += STALE_S
    taken_over.sync({})
    assert comparable(taken_over.kernel.table) == comparable(fresh(other).kernel.table)
    assert taken_over.sync({}, full=True) == []


@unhurried
@given(SERVICE_PORTS, ENDPOINTS)
def test_live_affinity_survives_every_sync_that_keeps_the_endpoint(service: Drawn, later: tuple[Any, ...]) -> None:
    before = replace(service, affinity=600)
    after = replace(before, endpoints=later)
    node = Node()
    node.sync({NAMES[0]: before}, full=True)
    assert node.kernel.table is not None
    sets = {name for name, each in node.kernel.table.containers.items() if each.timeout}
    for name in sets:
        node.kernel.learn(name, "192.0.2.9")
    node.sync({NAMES[0]: after})
    node.sync({}, full=True)
    kept = sets & node.state.ports[NAMES[0]].containers.keys()
    assert all(node.kernel.clients[name] == {"192.0.2.9"} for name in kept)
    assert node.kernel.clients.keys() & sets == kept


def test_one_changed_endpoint_costs_one_rule() -> None:
    node = Node()
    services = {
        ServicePortName("lab", f"web{number}", "", "TCP"): Drawn(
            cluster_ip=number, endpoints=(endpoint(1), endpoint(2, local=True))
        )
        for number in range(200)
    }
    node.sync(services, full=True)
    name = ServicePortName("lab", "web7", "", "TCP")
    (change,) = node.sync({name: Drawn(cluster_ip=7, endpoints=(endpoint(1), endpoint(3)))})
    assert script(PLACE, change).count("\n") == 2
    assert [len(change.flushed), len(change.appended)] == [1, 1]


def test_what_has_not_changed_costs_nothing() -> None:
    node = Node()
    service = Drawn(endpoints=(endpoint(1), endpoint(2)), node_port=30080)
    node.sync({NAMES[0]: service}, full=True)
    assert node.sync({NAMES[0]: service}) == []


def test_an_address_that_two_claim_goes_to_the_first_by_name() -> None:
    node = Node()
    first, second = NAMES[0], NAMES[4]
    service = Drawn(external=(1,), endpoints=(endpoint(1),))
    node.sync({second: service}, full=True)
    for changed, owner in (({first: service}, first), ({first: None}, second)):
        node.sync(changed)
        assert node.kernel.table is not None
        value = node.kernel.table.elements["service-ips"]["198.18.0.1 . tcp . 80"].value
        assert f"lab/{owner.name}/" in value


def test_another_affinity_timeout_makes_its_sets_anew() -> None:
    for limit in (ONE_TRANSACTION, TINY):
        node = Node(limit)
        ends = (endpoint(1), endpoint(2))
        node.sync({NAMES[0]: Drawn(affinity=600, endpoints=ends)}, full=True)
        node.sync({NAMES[0]: Drawn(affinity=60, endpoints=ends)})
        assert node.kernel.table is not None
        assert {each.timeout for each in node.kernel.table.containers.values()} == {None, 60}
        assert comparable(node.kernel.table) == comparable(node.state.wanted())
        assert node.sync({}, full=True) == []


@pytest.mark.parametrize("restart", [False, True])
def test_a_chain_that_goes_lets_go_of_a_set_that_is_made_anew(restart: bool) -> None:
    node = Node(TINY)
    ends = (endpoint(1, local=True), endpoint(2))
    node.sync({NAMES[0]: Drawn(affinity=600, internal_local=True, external=(1,), endpoints=ends)}, full=True)
    if restart:
        kernel, node = node.kernel, Node(TINY)
        node.kernel = kernel
    node.sync({NAMES[0]: Drawn(affinity=60, external=(1,), endpoints=ends)}, full=restart)
    node.now += STALE_S
    node.sync({})
    assert comparable(node.kernel.table) == comparable(node.state.wanted())


def test_chains_are_emptied_first_and_deleted_a_second_later() -> None:
    node = Node()
    service = Drawn(affinity=600, endpoints=(endpoint(1),))
    node.sync({NAMES[0]: service, NAMES[4]: service}, full=True)
    node.now = 10.0
    node.sync({NAMES[0]: None})
    assert node.kernel.table is not None
    gone = [chain for chain in node.kernel.table.chains if "lab/s0/" in chain]
    assert len(gone) == 2
    assert all(node.kernel.table.chains[chain] == () for chain in gone)
    assert not [name for name in node.kernel.table.containers if "lab/s0/" in name]
    node.now = 10.9
    node.sync({})
    assert set(gone) <= node.kernel.table.chains.keys()
    node.now = 11.0
    node.sync({})
    assert not set(gone) & node.kernel.table.chains.keys()


def test_a_stale_chain_that_is_wanted_again_is_filled_again() -> None:
    node = Node()
    service = Drawn(endpoints=(endpoint(1),))
    node.sync({NAMES[0]: service}, full=True)
    node.sync({NAMES[0]: None})
    node.now = 5.0
    node.sync({NAMES[0]: service})
    node.now = 10.0
    assert node.sync({}) == []
    assert comparable(node.kernel.table) == comparable(node.state.wanted())


def test_a_chain_larger_than_a_transaction_never_lacks_its_last_rule() -> None:
    ends = tuple(endpoint(number) for number in range(1, 10))
    node = Node(2600)
    node.sync({NAMES[0]: Drawn(affinity=600, endpoints=ends[:8])}, full=True)
    node.between.clear()
    parts = node.sync({NAMES[0]: Drawn(affinity=600, endpoints=ends)})
    assert len(parts) > 3
    chain = next(each for each in node.state.ports[NAMES[0]].chains if each.startswith("service-"))
    assert all(table.chains[chain][-1].text.startswith("numgen random mod") for table in node.between)
    assert comparable(node.kernel.table) == comparable(node.state.wanted())


def test_what_strangers_left_in_the_table_goes() -> None:
    node = Node()
    node.sync({NAMES[0]: Drawn(endpoints=(endpoint(1),))}, full=True)
    before = comparable(node.kernel.table)
    node.kernel.run(
        f"add chain {PLACE} mine\nadd set {PLACE} seen {{ type ipv4_addr; }}\n"
        f"add rule {PLACE} mine ip saddr @seen drop\n"
        f"add chain {PLACE} hooked {{ type filter hook input priority 0; policy accept; }}\n"
        f"add rule {PLACE} hooked jump mine\nadd rule {PLACE} services goto mine\nflush chain {PLACE} filter-input\n"
        f"add element {PLACE} no-endpoint-nodeports {{ tcp . 81 : goto mine }}\ndelete element {PLACE} cluster-ips "
        "{ 10.96.0.1 }\n"
    )
    node.sync({}, full=True)
    node.now += STALE_S
    node.sync({})
    assert comparable(node.kernel.table) == before


@pytest.mark.parametrize(
    "spoil",
    [
        lambda table: table.containers.update({"service-ips": Container("ipv4_addr", verdicts=True)}),
        lambda table: table.hooks.update({"nat-output": Hook("nat", "output", 5)}),
        lambda table: table.hooks.update({"services": Hook("nat", "output", 5)}),
    ],
)
def test_a_table_of_another_make_is_made_anew(spoil: Any) -> None:
    node = Node()
    node.sync({NAMES[0]: Drawn(endpoints=(endpoint(1),))}, full=True)
    assert node.kernel.table is not None
    spoil(node.kernel.table)
    (change,) = node.sync({}, full=True)
    assert change.table == "replace"
    assert comparable(node.kernel.table) == comparable(node.state.wanted())


@pytest.mark.parametrize(
    "command",
    [
        "add rule {} services goto nowhere",
        "add rule {} nowhere drop",
        "add rule {} services ip saddr @nowhere drop",
        "add rule {} services ip daddr @service-ips drop",
        "add rule {} services jump nat-output",
        "add element {} service-ips {{ 10.96.0.9 . tcp . 80 : goto nowhere }}",
        "add element {} service-ips {{ 10.96.0.1 . tcp . 80 : drop }}",
        "add element {} service-ips {{ 10.96.0.9 . tcp : drop }}",
        "add element {} cluster-ips {{ fd00::1 }}",
        "delete element {} cluster-ips {{ 10.96.0.9 }}",
        "delete chain {} reject-chain\nadd rule {} services goto reject-chain",
        "delete chain {} services",
        "delete set {} cluster-ips",
        "delete set {} nowhere",
        "flush chain {} nowhere",
        "add set {} cluster-ips {{ type ipv6_addr; }}",
        "add chain {} nat-output",
        "delete table ip6 kube-proxy",
    ],
)
def test_the_fake_refuses_what_the_kernel_refuses_and_changes_nothing(command: str) -> None:
    node = Node()
    node.sync({NAMES[0]: Drawn(endpoints=(endpoint(1),))}, full=True)
    before = comparable(node.kernel.table)
    with pytest.raises(Refused):
        node.kernel.run(f"add chain {PLACE} new\n{command.format(PLACE, PLACE)}\n")
    assert comparable(node.kernel.table) == before


def test_an_element_is_written_as_nft_takes_it() -> None:
    change = Change(
        removed=[Element("m", "tcp . 80", "drop", "a/b"), Element("m", "tcp . 81", "drop")],
        added=[Element("m", "tcp . 80", "goto x", "a/b"), Element("s", "10.0.0.1")],
        appended=[("x", Rule("ip saddr != { 10.0.0.0/8 } drop", given="ip saddr != { 10.0.0.0/8, 10.1.0.0/16 } drop"))],
    )
    assert script("ip t", change).splitlines() == [
        "delete element ip t m { tcp . 80, tcp . 81 }",
        "add rule ip t x ip saddr != { 10.0.0.0/8, 10.1.0.0/16 } drop",
        'add element ip t m { tcp . 80 comment "a/b" : goto x }',
        "add element ip t s { 10.0.0.1 }",
    ]
