"""Reading what ``nft -j list table`` prints, also where it is not ours or of another version of nft."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from netlab.proxy.nftables.listing import parse_listing, rule_text
from netlab.proxy.nftables.ruleset import Container


def listing(*entries: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"nftables": [{"metainfo": {"version": "1.0.6"}}, *entries]})


def test_rules_keep_their_handles_and_order() -> None:
    chain = {"family": "ip", "table": "kube-proxy", "chain": "c"}
    parsed = parse_listing(
        listing(
            {"chain": {"family": "ip", "name": "c", "handle": 1}},
            {"rule": {**chain, "handle": 7, "expr": [{"accept": None}]}},
            {"rule": {**chain, "handle": 4, "expr": [{"return": None}], "comment": "mine"}},
            {"rule": {**chain, "family": "ip6", "handle": 5, "expr": [{"drop": None}]}},
        ),
        "ip",
    )
    assert [rule.text for rule in parsed.table.chains["c"]] == ["accept", "return"]
    assert parsed.handles == {"c": (7, 4)}


def test_a_set_that_packets_add_to_has_no_elements_to_compare() -> None:
    live = {"elem": {"val": "192.0.2.1", "timeout": 600, "expires": 599}}
    affinity = {"family": "ip", "name": "affinity-x", "type": "ipv4_addr", "flags": ["timeout"], "timeout": 600}
    parsed = parse_listing(listing({"set": {**affinity, "elem": [live]}}), "ip")
    assert parsed.table.containers == {"affinity-x": Container("ipv4_addr", timeout=600)}
    assert parsed.table.elements == {"affinity-x": {}}


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ({"masquerade": {"flags": ["fully-random"]}}, "masquerade fully-random"),
        ({"masquerade": None}, "masquerade"),
        ({"reject": None}, "reject"),
        ({"reject": {"type": "tcp reset"}}, '{"reject":{"type":"tcp reset"}}'),
        ({"counter": {"packets": 1, "bytes": 2}}, '{"counter":{"packets":1,"bytes":2}}'),
        ({"dnat": {"addr": "10.0.0.1"}}, '{"dnat":{"addr":"10.0.0.1"}}'),
        (
            {"match": {"op": "==", "left": {"fib": {"result": "type", "flags": "daddr"}}, "right": "local"}},
            "fib daddr type local",
        ),
        (
            {"match": {"op": "==", "left": {"payload": {"base": "th", "offset": 0, "len": 16}}, "right": 80}},
            '{"payload":{"base":"th","offset":0,"len":16}} 80',
        ),
    ],
)
def test_other_versions_and_other_peoples_rules_are_read_too(statement: dict[str, Any], text: str) -> None:
    assert rule_text([statement]) == text
