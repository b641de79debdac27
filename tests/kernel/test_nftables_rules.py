"""The kernel takes our table as it is: applied through nft and read back, it is the same value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from ipaddress import ip_network
from typing import Any, TypeVar

import pytest

from netlab.kernel import netns, nft
from netlab.proxy.changes import PortState
from netlab.proxy.family import Family
from netlab.proxy.nftables.listing import parse_listing
from netlab.proxy.nftables.names import TABLE
from netlab.proxy.nftables.proxier import NftablesProxier, cleanup
from netlab.proxy.nftables.ruleset import Table, rule_set_text
from netlab.proxy.nftables.transaction import LIMIT, script, transactions
from netlab.proxy.service_ports import AddressOfService, ServicePortName
from netlab.proxy.topology import UsableEndpoints
from tests.conformance.test_kube_proxy_nftables import CASES, comparable, load, state_of

pytestmark = pytest.mark.kernel
T = TypeVar("T")
Sandbox = Callable[[Callable[[], T]], T]

STICKY = CASES / "08-affinity"
RANGES = CASES / "04-lb-source-ranges"


def listed(family: Family) -> Table:
    text = nft.list_table(family.nftables, TABLE, "test")
    assert text is not None
    return parse_listing(text, family.nftables).table


@pytest.mark.parametrize("limit", [LIMIT, 2_000], ids=["one transaction", "many"])
@pytest.mark.parametrize("family", list(Family), ids=lambda family: family.kubernetes)
def test_listed_tables_are_the_wanted_ones(sandbox: Sandbox[list[Any]], family: Family, limit: int) -> None:
    states = [state_of(case, family) for case in sorted(CASES.iterdir())]

    def run() -> list[Any]:
        results = []
        for index, state in enumerate(states):
            with netns.create([f"node{index}"])[0].entered():
                parts = list(transactions(state.full_change(None, 0.0), limit))
                for part in parts:
                    nft.apply("test", script(f"{family.nftables} {TABLE}", part))
                table = listed(family)
                results.append((len(parts), table, state.full_change(table, 1.0)))
        return results

    for state, (count, table, left) in zip(states, sandbox(run), strict=True):
        assert comparable(table) == comparable(state.wanted())
        assert left == []
        assert (count == 1) == (limit == LIMIT)


def test_the_whole_text_loads_as_it_is(sandbox: Sandbox[list[Table]]) -> None:
    wanted = [state_of(CASES / "v-detect-prefix", family).wanted() for family in Family]

    def run() -> list[Table]:
        with netns.create(["node"])[0].entered():
            nft.apply("test", rule_set_text(wanted))
            return [listed(family) for family in Family]

    assert [comparable(table) for table in sandbox(run)] == [comparable(table) for table in wanted]


@pytest.mark.parametrize(
    "ranges",
    [
        ("10.0.0.0/8", "10.1.0.0/16"),
        ("10.0.0.0/25", "10.0.0.128/25"),
        ("10.0.0.0/24", "10.0.1.0/25", "192.0.2.29/32"),
        ("198.51.100.7/32",),
        ("0.0.0.0/1", "128.0.0.0/1"),
    ],
)
def test_lists_of_ranges_read_back_as_we_expect_them(sandbox: Sandbox[list[Table]], ranges: tuple[str, ...]) -> None:
    settings, tracker = load(RANGES, Family.IPV4)
    ports = {
        name: replace(each, port=replace(each.port, source_ranges=tuple(map(ip_network, ranges))))
        for name, each in tracker.take_changes().items()
        if each is not None
    }

    def run() -> list[Table]:
        with netns.create(["node"])[0].entered():
            proxier = NftablesProxier("node", settings)
            proxier.sync(ports, ports)
            return [listed(Family.IPV4), proxier.state.wanted()]

    table, wanted = sandbox(run)
    assert comparable(table) == comparable(wanted)


def test_a_proxy_keeps_the_kernel_up_to_date(sandbox: Sandbox[Any]) -> None:
    """Through changes, a restart, strangers' hands and a clean-up; a client's affinity outlives what it can."""
    settings, tracker = load(STICKY, Family.IPV4)
    ports = {name: each for name, each in tracker.take_changes().items() if each is not None}
    ((name, whole),) = ports.items()
    usable = whole.endpoints
    fewer = replace(whole, endpoints=replace(usable, cluster=usable.cluster[:2], reachable=usable.reachable[:2]))

    def run() -> None:
        now = [0.0]
        with netns.create(["node"])[0].entered():
            proxier = NftablesProxier("node", settings, lambda: now[0])

            def sync(changed: dict[ServicePortName, PortState | None]) -> tuple[bool, int, int]:
                report = proxier.sync(changed, ports)
                return report.full, report.transactions, report.lines

            def check() -> None:
                assert comparable(listed(Family.IPV4)) == comparable(proxier.state.wanted())

            assert sync({**ports})[:2] == (True, 1)
            check()
            affinity = sorted(each for each in listed(Family.IPV4).containers if each.startswith("affinity-"))
            assert len(affinity) == 3
            for each in affinity:
                nft.apply("node", f"add element ip {TABLE} {each} {{ 192.0.2.9 }}\n")

            full, count, lines = sync({name: fewer})
            assert (full, count) == (False, 1)
            assert lines < 10
            assert len([each for each in affinity if each in listed(Family.IPV4).containers]) == 2
            now[0] = 1.0
            assert sync({}) == (False, 1, 1)
            check()
            assert sync({}) == (False, 0, 0)
            text = nft.list_table("ip", TABLE, "node")
            assert text is not None
            assert text.count("192.0.2.9") == 2

            proxier = NftablesProxier("node", settings, lambda: now[0])
            assert sync({name: fewer}) == (True, 0, 0)
            nft.apply("node", f"flush chain ip {TABLE} services\nadd chain ip {TABLE} mine\n")
            proxier.require_full_sync()
            assert sync({}) == (True, 1, 4)
            check()
            text = nft.list_table("ip", TABLE, "node")
            assert text is not None
            assert text.count("192.0.2.9") == 2

            nft.delete_table("ip", TABLE, "node")
            assert sync({name: whole})[0]
            check()
            assert sync({name: replace(whole, port=replace(whole.port, affinity_seconds=60))})[:2] == (False, 1)
            check()
            proxier.set_service_ranges([ip_network("10.96.0.0/16"), ip_network("10.112.0.0/16")])
            assert sync({}) == (True, 1, 3)
            check()
            cleanup("node")
            assert nft.tables("ip") == set()

    sandbox(run)


def test_five_hundred_services_fit_in_transactions_of_a_user_namespace(sandbox: Sandbox[int]) -> None:
    settings, tracker = load(CASES / "17-dualstack", Family.IPV6)
    (pattern,) = (each for each in tracker.take_changes().values() if each is not None)
    ports = {}
    for number in range(1, 501):
        name = ServicePortName("a-longer-namespace-name", f"and-a-service-with-number-{number}", "http", "TCP")
        ip = AddressOfService(f"fd00:10:96::{number:x}", "spec.clusterIP")
        port = replace(pattern.port, name=name, cluster_ip=ip, node_port=30000 + number)
        ports[name] = replace(pattern, port=port)

    def run() -> int:
        with netns.create(["node"])[0].entered():
            proxier = NftablesProxier("node", settings)
            report = proxier.sync(ports, ports)
            assert comparable(listed(Family.IPV6)) == comparable(proxier.state.wanted())
            return report.transactions

    assert 2 <= sandbox(run) <= 10


def test_this_kernel_frees_chains_at_once(sandbox: Sandbox[bool]) -> None:
    def run() -> bool:
        with netns.create(["node"])[0].entered():
            nft.apply(
                "node",
                "add table ip t\nadd chain ip t c\nadd map ip t m { type ipv4_addr : verdict; }\n"
                "add element ip t m { 192.0.2.1 : goto c }\n",
            )
            if nft.frees_chains_at_once():
                nft.apply("node", "delete element ip t m { 192.0.2.1 }\ndelete chain ip t c\n")
            return True

    assert sandbox(run)


SERVICES = {
    "plain": 400,
    "refused": 1200,
    "local": 300,
    "sticky": 120,
    "ranges": 2,
    "endpoints": 8,
    "sticky endpoints": 1,
}


def many(kind: str, family: Family) -> dict[ServicePortName, PortState]:
    """Service ports of one kind, enough for more than one transaction, with names and addresses as short as can be:
    so there is little text for many bytes."""
    prefix = "10." if family is Family.IPV4 else "f::"
    pattern = next(each for each in load(STICKY, Family.IPV4)[1].take_changes().values() if each is not None)
    endpoints = tuple(
        replace(pattern.endpoints.cluster[0], ip=_address(prefix, number), port=1, local=True) for number in range(2)
    )
    wide = tuple(replace(endpoints[0], ip=_address(prefix, number)) for number in range(600))
    ports = {}
    for number in range(SERVICES[kind]):
        name = ServicePortName("a", f"{number:x}", "", "TCP")
        port = replace(
            pattern.port,
            name=name,
            cluster_ip=AddressOfService(_address(prefix, 4000 + number), "spec.clusterIP"),
            node_port=number + 1,
            affinity_seconds=1 if kind.startswith("sticky") else None,
            external_policy_local=kind == "local",
            internal_policy_local=False,
        )
        chosen = wide if kind.endswith("endpoints") else () if kind == "refused" else endpoints
        if kind == "ranges":
            ranges = [ip_network(f"{_address(prefix, 8 * each)}") for each in range(1500)]
            balancer = (AddressOfService(_address(prefix, 9000 + number), "status.loadBalancer.ingress[0].ip"),)
            port = replace(port, load_balancer_ips=balancer, source_ranges=tuple(ranges))
        ports[name] = PortState(port, UsableEndpoints(chosen, chosen[:1], chosen, bool(chosen)), chosen)
    return ports


def _address(prefix: str, number: int) -> str:
    return f"{prefix}{number:x}" if ":" in prefix else f"{prefix}0.{number // 250}.{number % 250}"


@pytest.mark.parametrize("kind", SERVICES)
@pytest.mark.parametrize("family", list(Family), ids=lambda family: family.kubernetes)
def test_transactions_of_any_kind_fit_the_send_buffer(sandbox: Sandbox[int], family: Family, kind: str) -> None:
    settings, _ = load(STICKY, family)
    ports = many(kind, family)

    def run() -> int:
        with netns.create(["node"])[0].entered():
            return NftablesProxier("node", settings).sync(ports, ports).transactions

    assert sandbox(run) > 1
