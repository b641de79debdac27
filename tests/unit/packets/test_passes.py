"""Trace records to passes through base chains: what follows what, and what is noticed when it does not."""

from __future__ import annotations

from itertools import count

from netlab.model.records import TraceRecord
from netlab.model.rulebook import ChainInfo, Rulebook, RuleEntry
from netlab.packets.passes import HookPass, group_passes
from tests.unit.packets import wire
from tests.unit.packets.wire import TCP, Datagram

PACKET = Datagram(TCP, "10.0.0.1", "10.0.0.2", 1, 80, sequence=7)

BOOK = Rulebook(
    {("ip", "nat", "PREROUTING"): ChainInfo("PREROUTING", -100), ("ip", "filter", "FORWARD"): ChainInfo("FORWARD", 0)},
    {
        ("ip", "nat", 1): RuleEntry("nat", "PREROUTING", 1, "-j KUBE-SERVICES", 1),
        ("ip", "nat", 2): RuleEntry("nat", "KUBE-SERVICES", 2, "-d 10.0.0.2/32 -j KUBE-SVC", 1),
        ("ip", "nat", 3): RuleEntry("nat", "KUBE-SVC", 3, "-j KUBE-MARK-MASQ", 1),
        ("ip", "nat", 4): RuleEntry("nat", "KUBE-SVC", 4, '-m comment --comment "a -> b" -j KUBE-SEP', 2),
        ("ip", "nat", 5): RuleEntry("nat", "KUBE-SEP", 5, "-p tcp -j DNAT --to-destination 10.1.1.1:80", 1),
        ("ip", "nat", 6): RuleEntry("nat", "KUBE-MARK-MASQ", 6, "-j MARK --set-xmark 0x4000/0x4000", 1),
    },
)

orders = count(1)


def record(
    chain: str,
    verdict: str = "continue",
    *,
    handle: int | None = None,
    target: str | None = None,
    kind: str = "rule",
    header: bool = False,
    packet: int = 1,
    table: str = "nat",
    place: str = "node-a",
) -> TraceRecord:
    order = next(orders)
    return TraceRecord(
        id=f"trace:{place}#{order}",
        place=place,
        order=order,
        packet=packet,
        family="ip",
        table=table,
        chain=chain,
        kind=kind,  # type: ignore[arg-type]
        handle=handle,
        verdict=verdict,
        target=target,
        input="eth0",
        output=None,
        mark=0,
        network=wire.network_header(PACKET) if header else b"",
        transport=wire.transport_part(PACKET)[:20] if header else b"",
    )


def translated(packet: int = 1) -> list[TraceRecord]:
    """A packet that a Service's rules translate."""
    return [
        record("PREROUTING", "jump", handle=1, target="KUBE-SERVICES", header=True, packet=packet),
        record("KUBE-SERVICES", "jump", handle=2, target="KUBE-SVC", packet=packet),
        record("KUBE-SVC", "jump", handle=3, target="KUBE-MARK-MASQ", packet=packet),
        record("KUBE-MARK-MASQ", "continue", handle=6, packet=packet),
        record("KUBE-MARK-MASQ", packet=packet),
        record("KUBE-SVC", "jump", handle=4, target="KUBE-SEP", packet=packet),
        record("KUBE-SEP", "accept", handle=5, packet=packet),
    ]


def passes(records: list[TraceRecord], book: Rulebook = BOOK) -> list[HookPass]:
    return group_passes(records, {"node-a": book})


def test_whole_pass() -> None:
    (one,) = passes(translated())
    assert (one.hook, one.priority, one.chain) == ("PREROUTING", -100, ("ip", "nat", "PREROUTING"))
    assert len(one.records) == 7
    assert one.complete
    assert one.packet.addresses == ("10.0.0.1:1", "10.0.0.2:80")


def test_pass_that_ends_with_the_policy() -> None:
    records = [
        record("PREROUTING", "jump", handle=1, target="KUBE-SERVICES", header=True),
        record("KUBE-SERVICES"),
        record("PREROUTING"),
        record("PREROUTING", "accept", kind="policy"),
    ]
    (one,) = passes(records)
    assert one.complete
    assert not one.dropped


def test_return_goes_back_to_the_caller() -> None:
    records = [
        record("PREROUTING", "jump", handle=1, target="KUBE-SERVICES", header=True),
        record("KUBE-SERVICES", "return", handle=2),
        record("PREROUTING", "drop", kind="rule", handle=9),
    ]
    (one,) = passes(records)
    assert (len(one.records), one.complete, one.dropped) == (3, True, True)


def test_goto_does_not_come_back() -> None:
    records = [
        record("PREROUTING", "goto", handle=1, target="KUBE-SERVICES", header=True),
        record("KUBE-SERVICES"),
        record("PREROUTING", "accept", kind="policy"),
    ]
    (one,) = passes(records)
    assert (len(one.records), one.complete) == (3, True)


def test_records_of_older_kernels_for_the_end_of_a_chain() -> None:
    records = [
        record("PREROUTING", "jump", handle=1, target="KUBE-SERVICES", header=True),
        record("KUBE-SERVICES", kind="return"),
        record("PREROUTING", kind="return"),
        record("PREROUTING", "accept", kind="policy"),
    ]
    assert passes(records)[0].complete


def test_two_packets_in_turns() -> None:
    one, other = translated(1), translated(2)
    turns = [each for pair in zip(one, other, strict=True) for each in pair]
    found = passes(turns)
    assert [len(each.records) for each in found] == [7, 7]
    assert all(each.complete for each in found)
    assert {record.packet for record in found[0].records} == {found[0].records[0].packet}


def test_number_that_comes_back() -> None:
    found = passes([*translated(1), *translated(1)])
    assert [(len(each.records), each.complete) for each in found] == [(7, True), (7, True)]


def test_number_that_comes_back_without_its_beginning() -> None:
    """The second packet's records do not go on where the first packet's ended."""
    found = passes([*translated(1), *translated(1)[1:]])
    assert [(len(each.records), each.complete) for each in found] == [(7, True)]


def test_every_lost_record_shows() -> None:
    whole = translated()
    for lost in range(1, len(whole)):
        (one,) = passes([each for index, each in enumerate(whole) if index != lost])
        assert not one.complete, whole[lost]


def test_nothing_is_taken_behind_a_break() -> None:
    whole = translated()
    (one,) = passes([*whole[:1], *whole[2:]])
    assert [each.chain for each in one.records] == ["PREROUTING"]


def test_rule_that_matches_all_cannot_be_passed_over() -> None:
    """Without the whole visit to KUBE-MARK-MASQ the records around it still fit together."""
    whole = translated()
    (one,) = passes([*whole[:2], *whole[5:]])
    assert [each.chain for each in one.records] == ["PREROUTING", "KUBE-SERVICES", "KUBE-SVC", "KUBE-SEP"]
    assert not one.complete
    assert passes([*whole[:2], *whole[5:]], Rulebook(BOOK.base_chains))[0].complete


def test_other_tables_do_not_mix() -> None:
    records = [
        record("PREROUTING", "jump", handle=1, target="KUBE-SERVICES", header=True),
        record("KUBE-SERVICES", "drop", handle=2, table="filter"),
    ]
    (one,) = passes(records)
    assert (len(one.records), one.dropped) == (1, False)


def test_places_do_not_mix() -> None:
    whole = translated()
    elsewhere = [record("KUBE-SEP", "drop", handle=5, place="node-b")]
    (one,) = group_passes([*whole[:-1], *elsewhere, whole[-1]], {"node-a": BOOK})
    assert one.complete


def test_base_chain_that_nobody_knows() -> None:
    (one,) = passes([record("my-chain", "accept", handle=1, header=True, table="mine")])
    assert one.hook == ""
    (known,) = group_passes([record("POSTROUTING", "accept", handle=1, header=True)], {})
    assert known.hook == "POSTROUTING"
