"""Incremental changes of iptables rules come to the same as a fresh start, in any number of transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from netlab.model.keys import Origin
from netlab.proxy.family import Family
from netlab.proxy.iptables.names import is_service_chain
from netlab.proxy.iptables.restore import restore_texts
from netlab.proxy.iptables.rules import PortRules, Settings
from netlab.proxy.iptables.ruleset import BUILT_IN, Rule, RuleSet, TableChange, target
from netlab.proxy.iptables.state import _SHARED, IptablesState
from netlab.proxy.service_ports import ServicePortName
from tests.unit.proxy.build import POD_RANGE, endpoint_slice, rules_for, service, tracker
from tests.unit.proxy.fake_iptables import FakeIptables, Refused, chains_of
from tests.unit.proxy.worlds import NODE, Change, World, batches, histories, make

SETTINGS = Settings(Family.IPV4, local=POD_RANGE)
LIMITS = st.sampled_from([None, 1, 2, 3, 5, 8, 13, 21])
TABLES = ("mangle", "filter", "nat")
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

After = Callable[[], None]


def run(kernel: FakeIptables, changes: dict[str, TableChange], limit: int | None, after: After = lambda: None) -> None:
    """Apply a change; ``after`` looks at the kernel after each transaction."""
    for text in restore_texts(changes, limit):
        kernel.restore(text)
        after()


def assert_equal(kernel: FakeIptables, wanted: RuleSet) -> None:
    for table in TABLES:
        assert kernel.tables[table] == chains_of(wanted, table)


def assert_has_rules(kernel: FakeIptables, rules: PortRules) -> None:
    """All that a Service port causes is in the kernel: its chains, and its rules in the shared chains."""
    for (table, chain), attribute in _SHARED.items():
        there = kernel.tables[table].get(chain, [])
        assert all(rule.text in there for rule in getattr(rules, attribute)), f"{table} {chain}"
    for chain, own in rules.chains.items():
        assert kernel.tables["nat"][chain] == [rule.text for rule in own]


def assert_frame_is_there(kernel: FakeIptables, state: IptablesState) -> None:
    """The jumps from built-in chains, and the chains that belong to no Service."""
    wanted = state.wanted()
    shared = {chain for _, chain in _SHARED}
    for table in TABLES:
        for chain, rules in chains_of(wanted, table).items():
            if chain not in shared and not is_service_chain(chain):
                assert kernel.tables[table][chain] == rules


class Proxy:
    """A proxy with its kernel: takes changes of the world in, one sync a batch."""

    def __init__(self) -> None:
        self.world = World()
        self.tracker = tracker((), (), NODE)
        self.state = IptablesState(SETTINGS)
        self.kernel = FakeIptables()
        run(self.kernel, self.state.full_change(self.kernel.read()), None)

    def take(self, batch: Iterable[Change]) -> dict[ServicePortName, PortRules | None]:
        for change in batch:
            make(change, self.world, self.tracker)
        return rules_for(self.tracker.take_changes(), SETTINGS)

    def fresh(self) -> IptablesState:
        """What a proxy that starts now wants."""
        state = IptablesState(SETTINGS)
        known = tracker(self.world.services.values(), self.world.slices.values(), self.world.node)
        state.replace(rules_for(known.take_changes(), SETTINGS))
        return state


@quick
@given(history=histories, limit=LIMITS)
def test_incremental_changes_equal_a_fresh_start(history: list[list[Change]], limit: int | None) -> None:
    proxy = Proxy()
    for batch in history:
        run(proxy.kernel, proxy.state.replace(proxy.take(batch)), limit)
        assert_equal(proxy.kernel, proxy.fresh().wanted())
        assert_equal(proxy.kernel, proxy.state.wanted())
        assert not proxy.state.full_change(proxy.kernel.read())


@quick
@given(history=histories, limit=LIMITS)
def test_an_unchanged_service_has_its_rules_between_any_two_transactions(
    history: list[list[Change]], limit: int | None
) -> None:
    proxy = Proxy()
    for batch in history:
        before = dict(proxy.state.ports)
        changes = proxy.state.replace(proxy.take(batch))
        unchanged = [rules for name, rules in before.items() if proxy.state.ports.get(name) == rules]

        def look(unchanged: list[PortRules] = unchanged) -> None:
            for rules in unchanged:
                assert_has_rules(proxy.kernel, rules)
            assert_frame_is_there(proxy.kernel, proxy.state)

        run(proxy.kernel, changes, limit, look)


@quick
@given(history=histories, repeated=batches)
def test_what_is_there_already_changes_nothing(history: list[list[Change]], repeated: list[Change]) -> None:
    proxy = Proxy()
    for batch in history:
        proxy.state.replace(proxy.take(batch))
    again = [change for change in repeated if change[0].startswith("put")]
    proxy.state.replace(proxy.take(again))
    final = {**{c[1].metadata.name: c for c in again if c[0] == "put service"}}
    assert not proxy.state.replace(proxy.take(final.values()))


FOREIGN = """*nat
:CNI-HOSTPORT-DNAT - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
:MINE - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A CNI-HOSTPORT-DNAT -p tcp -m tcp --dport 8080 -j DNAT --to-destination 10.244.1.9:80
-A POSTROUTING -s 10.244.1.0/24 -j MASQUERADE
COMMIT
*filter
-A INPUT -s 192.0.2.1/32 -j DROP
-I FORWARD 1 -s 192.0.2.2/32 -j DROP
COMMIT
"""
FOREIGN_CHAINS = ("CNI-HOSTPORT-DNAT", "KUBE-KUBELET-CANARY", "MINE")
DRIFTS = [
    "delete jump",
    "delete rule",
    "add rule",
    "delete chain",
    "add chain",
    "empty chain",
    "double rule",
    "reverse chain",
]


@st.composite
def drifts(draw: st.DrawFn) -> list[tuple[str, int, int]]:
    """What people do by hand to kube-proxy's chains: an operation, and which chain and rule of all that there are."""
    numbers = st.integers(0, 1000)
    return draw(st.lists(st.tuples(st.sampled_from(DRIFTS), numbers, numbers), min_size=1, max_size=6))


def drift(kernel: FakeIptables, what: tuple[str, int, int]) -> None:
    """Change kube-proxy's chains by hand, as far as the kernel allows."""
    kind, chain_number, rule_number = what
    own = [(table, chain) for table in TABLES for chain in kernel.tables[table] if chain.startswith("KUBE-")]
    own = [each for each in own if each[1] not in FOREIGN_CHAINS]
    if kind == "delete jump":
        own = [(table, chain) for table in TABLES for chain in BUILT_IN[table] if kernel.tables[table][chain]]
    table, chain = own[chain_number % len(own)]
    rules = kernel.tables[table][chain]
    rule = rules[rule_number % len(rules)] if rules else "-j RETURN"
    lines = {
        "delete jump": [f"-D {chain} {rule}"] if "-j KUBE-" in rule else [],
        "delete rule": [f"-D {chain} {rule}"],
        "add rule": [f"-I {chain} {rule_number % (len(rules) + 1) + 1} -s 192.0.2.{rule_number % 250}/32 -j DROP"],
        "double rule": [f"-A {chain} {rule}"],
        "reverse chain": [f":{chain} - [0:0]", *(f"-A {chain} {each}" for each in reversed(rules))],
        "empty chain": [f":{chain} - [0:0]"],
        "delete chain": [f":{chain} - [0:0]", f"-X {chain}"],
        "add chain": [
            f":KUBE-SVC-STALE{rule_number} - [0:0]",
            f":KUBE-SEP-STALE{rule_number} - [0:0]",
            f"-A KUBE-SVC-STALE{rule_number} -j KUBE-SEP-STALE{rule_number}",
            f"-A {chain} -j KUBE-SVC-STALE{rule_number}",
        ],
    }[kind]
    with suppress(Refused):
        kernel.restore("\n".join([f"*{table}", *lines, "COMMIT", ""]))


def intact(kernel: FakeIptables, rules: PortRules) -> bool:
    try:
        assert_has_rules(kernel, rules)
    except (AssertionError, KeyError):
        return False
    return True


@quick
@given(history=histories, drifted=drifts(), lost=st.booleans(), limit=LIMITS)
def test_a_full_change_repairs_exactly_what_is_kube_proxys(
    history: list[list[Change]], drifted: list[tuple[str, int, int]], lost: bool, limit: int | None
) -> None:
    proxy = Proxy()
    kernel = proxy.kernel
    for batch in history[:-1] if lost else history:
        run(kernel, proxy.state.replace(proxy.take(batch)), None)
    kernel.restore(FOREIGN)
    for each in drifted:
        drift(kernel, each)
    foreign = {chain: kernel.tables["nat"][chain] for chain in FOREIGN_CHAINS if chain in kernel.tables["nat"]}
    if lost:
        proxy.state.replace(proxy.take(history[-1]))
    whole = [rules for rules in proxy.state.ports.values() if intact(kernel, rules)]

    def look() -> None:
        assert all(intact(kernel, rules) for rules in whole)

    run(kernel, proxy.state.full_change(kernel.read()), limit, look)
    wanted = proxy.fresh().wanted()
    for table in TABLES:
        chains = chains_of(wanted, table)
        for chain, rules in kernel.tables[table].items():
            if chain in BUILT_IN[table]:
                assert sorted(rule for rule in rules if "KUBE-" in rule) == sorted(chains[chain])
            elif chain not in FOREIGN_CHAINS:
                assert rules == chains.pop(chain)
        assert set(chains) <= set(BUILT_IN[table])
    assert {chain: kernel.tables["nat"][chain] for chain in foreign} == foreign
    assert kernel.tables["filter"]["INPUT"][-1] == "-s 192.0.2.1/32 -j DROP"
    assert "-s 192.0.2.2/32 -j DROP" in kernel.tables["filter"]["FORWARD"]
    assert kernel.tables["nat"]["POSTROUTING"][-1] == "-s 10.244.1.0/24 -j MASQUERADE"
    assert not proxy.state.full_change(kernel.read())


def services_of(count: int) -> IptablesState:
    """Many Services with two endpoints each."""
    state = IptablesState(SETTINGS)
    state.replace({name: rules for number in range(count) for name, rules in port(number).items()})
    return state


def port(number: int, endpoints: int = 2) -> dict[ServicePortName, PortRules | None]:
    name = f"s{number:04}"
    spec = f"{{clusterIP: 10.96.{number // 250}.{number % 250}, ports: [{{port: 80}}]}}"
    addresses = [{"addresses": [f"10.244.{number // 100}.{each}"]} for each in range(1, endpoints + 1)]
    slices = [endpoint_slice(name, name, addresses, [{"name": "", "port": 8080}])]
    known = tracker([service(f"{{metadata: {name}, spec: {spec}}}")], slices, NODE)
    return rules_for(known.take_changes(), SETTINGS)


def test_a_change_costs_what_changed_and_not_what_exists() -> None:
    state = services_of(600)
    texts = list(restore_texts(state.replace(port(300, endpoints=3)), 250))
    assert sum(text.count("\n") for text in texts) < 20
    (name,) = port(301)
    texts = list(restore_texts(state.replace({name: None, **port(700)}), 250))
    assert sum(text.count("\n") for text in texts) < 30


def test_no_transaction_is_longer_than_the_limit() -> None:
    texts = list(restore_texts(services_of(200).full_change(FakeIptables().read()), 50))
    assert max(text.count("\n") for text in texts) <= 52
    assert len(texts) < 2 * sum(text.count("\n") for text in texts) / 50


def test_a_change_that_fits_is_one_transaction() -> None:
    state = services_of(3)
    assert len(list(restore_texts(state.full_change(FakeIptables().read())))) == 1
    assert len(list(restore_texts(services_of(300).full_change(FakeIptables().read()), None))) == 1
    assert list(restore_texts({})) == []


def test_many_services_are_deleted_in_many_transactions() -> None:
    state, kernel = services_of(40), FakeIptables()
    run(kernel, state.full_change(kernel.read()), None)
    names = list(state.ports)
    run(kernel, state.replace(dict.fromkeys(names[1:])), 7)
    assert_equal(kernel, state.wanted())
    assert list(state.ports) == names[:1]


def test_a_shared_chain_longer_than_a_transaction_never_loses_a_rule_that_stays() -> None:
    state, kernel = services_of(40), FakeIptables()
    run(kernel, state.full_change(kernel.read()), None)
    staying = state.ports[next(iter(port(20)))]
    changed = {**dict.fromkeys([name for number in range(20) for name in port(number)]), **port(5), **port(50)}
    run(kernel, state.replace(changed), 10, lambda: assert_has_rules(kernel, staying))
    assert_equal(kernel, state.wanted())


def test_rules_in_another_order_are_put_right_without_losing_one() -> None:
    state, kernel = services_of(40), FakeIptables()
    run(kernel, state.full_change(kernel.read()), None)
    kernel.tables["nat"]["KUBE-SERVICES"].reverse()

    def look() -> None:
        assert all(intact(kernel, rules) for rules in state.ports.values())

    run(kernel, state.full_change(kernel.read()), 1, look)
    assert_equal(kernel, state.wanted())


def test_a_chain_that_somebody_elses_rule_leads_to_is_emptied_and_kept() -> None:
    state, kernel = services_of(2), FakeIptables()
    run(kernel, state.full_change(kernel.read()), None)
    (name,) = port(1)
    chains = list(state.ports[name].chains)
    (chain,) = [each for each in chains if each.startswith("KUBE-SVC")]
    kernel.restore(f"*nat\n:MINE - [0:0]\n-A MINE -p tcp -j {chain}\n-A OUTPUT -j MINE\nCOMMIT\n")
    with pytest.raises(Refused):
        run(kernel, state.replace({name: None}), None)
    run(kernel, state.full_change(kernel.read()), None)
    assert [each for each in chains if each in kernel.tables["nat"]] == [chain]
    assert kernel.tables["nat"][chain] == []
    assert kernel.tables["nat"]["MINE"] == [f"-p tcp -j {chain}"]
    assert not state.full_change(kernel.read())


def test_a_rule_deleted_by_hand_makes_an_edit_fail_and_loses_no_other_rule() -> None:
    state, kernel = services_of(40), FakeIptables()
    run(kernel, state.full_change(kernel.read()), None)
    (name,) = port(3)
    (dispatch,) = state.ports[name].nat_services
    kernel.restore(f"*nat\n-D KUBE-SERVICES {dispatch.text}\nCOMMIT\n")
    before = list(kernel.tables["nat"]["KUBE-SERVICES"])
    with pytest.raises(Refused):
        run(kernel, state.replace({name: None}), 10)
    assert kernel.tables["nat"]["KUBE-SERVICES"] == before
    run(kernel, state.full_change(kernel.read()), 10)
    assert_equal(kernel, state.wanted())


def test_a_new_place_of_a_cause_is_kept_without_writing_anything() -> None:
    state = IptablesState(SETTINGS)
    name = ServicePortName("lab", "a", "", "TCP")
    for field in ("spec.externalIPs[0]", "spec.externalIPs[1]"):
        rule = Rule("-d 203.0.113.1/32 -j KUBE-EXT-X", Origin("Service lab/a", field))
        changes = state.replace({name: PortRules(nat_services=(rule,))})
    assert not changes
    assert state.wanted().tables["nat"].chains["KUBE-SERVICES"][0].origin == rule.origin


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-j KUBE-SERVICES", "KUBE-SERVICES"),
        ('-p tcp -m comment --comment "a -j b" -m tcp --dport 80 -j DNAT --to-destination 10.0.0.1:80', "DNAT"),
        ("-p tcp -g MINE", "MINE"),
        ("-p tcp -m tcp --dport 80", ""),
        ("", ""),
    ],
)
def test_the_target_of_a_rule(text: str, expected: str) -> None:
    assert target(Rule(text)) == expected
