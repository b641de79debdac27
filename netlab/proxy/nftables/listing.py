"""What ``nft -j list table`` prints, read as a value: the table as the kernel holds it, and the handles of its rules.

Source: libnftables-json(5). Versions of nft differ in small things: flags are a word or a list of words, a set's type
is one name or a list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from netlab.proxy.nftables.ruleset import Container, Element, Hook, Rule, Table

Json = Mapping[str, Any]

_VERDICTS = ("accept", "drop", "continue", "return")


@dataclass(slots=True)
class Listing:
    """A table of the kernel, origins unknown; ``handles``: of each chain's rules, in their order."""

    table: Table
    handles: dict[str, tuple[int, ...]] = field(default_factory=dict)


def parse_listing(text: str | bytes, family: str) -> Listing:
    """Read the objects of one family ("ip", "ip6"); the printed text is of one table, or of several families' same one.

    Elements of sets that packets add to are passed over: they are nobody's to want. An expression that kube-proxy never
    writes becomes its JSON text, so that it equals no wanted rule.
    """
    document: Json = msgspec.json.decode(text)
    listing = Listing(Table(family))
    table = listing.table
    rules: dict[str, list[Rule]] = {}
    handles: dict[str, list[int]] = {}
    for entry in document["nftables"]:
        for kind, value in entry.items():
            if value.get("family") != family:
                continue
            if kind in ("set", "map"):
                _read_container(table, kind, value)
            elif kind == "chain":
                rules.setdefault(value["name"], [])
                if "hook" in value:
                    table.hooks[value["name"]] = Hook(value["type"], value["hook"], value["prio"])
            elif kind == "rule":
                rules.setdefault(value["chain"], []).append(Rule(rule_text(value["expr"])))
                handles.setdefault(value["chain"], []).append(value.get("handle", 0))
    table.chains = {chain: tuple(each) for chain, each in rules.items()}
    listing.handles = {chain: tuple(each) for chain, each in handles.items()}
    return listing


def _read_container(table: Table, kind: str, value: Json) -> None:
    name, keys = value["name"], value["type"]
    container = Container(
        keys=keys if isinstance(keys, str) else " . ".join(keys),
        verdicts=value.get("map") == "verdict",
        timeout=value.get("timeout"),
    )
    table.containers[name] = container
    elements = table.elements.setdefault(name, {})
    if container.timeout is not None:
        return
    for each in value.get("elem", ()):
        element = _element(name, each, is_map=kind == "map")
        elements[element.key] = element


def _element(container: str, value: Any, *, is_map: bool) -> Element:
    key, data = value if is_map else (value, None)
    comment = ""
    if isinstance(key, dict) and "elem" in key:
        comment, key = key["elem"].get("comment", ""), key["elem"]["val"]
    return Element(container, expression_text(key), statement_text(data) if data is not None else "", comment)


def rule_text(expressions: Sequence[Json]) -> str:
    """One rule as ``nft list`` prints it."""
    return " ".join(statement_text(each) for each in expressions)


def statement_text(statement: Json) -> str:
    """One statement: a match, a verdict, or something done to the packet."""
    kind, value = next(iter(statement.items()))
    if kind in _VERDICTS:
        return kind
    writer = _STATEMENTS.get(kind)
    return writer(value) if writer is not None else _json_text(statement)


def _match_text(value: Json) -> str:
    left, right = expression_text(value["left"]), value["right"]
    operator = "!= " if value["op"] == "!=" else ""
    if isinstance(right, int) and isinstance(value["left"], dict) and "&" in value["left"]:
        return f"{left} {operator}{right:#010x}"
    if value["left"] == {"meta": {"key": "iifname"}}:
        return f'{left} {operator}"{right}"'
    return f"{left} {operator}{expression_text(right)}"


def _mangle_text(value: Json) -> str:
    return f"{expression_text(value['key'])} set {expression_text(value['value'])}"


def _vmap_text(value: Json) -> str:
    return f"{expression_text(value['key'])} vmap {_data_text(value['data'])}"


def _dnat_text(value: Json) -> str:
    match value:
        case {"family": family, "addr": dict() as address, **rest} if not rest:
            return f"dnat {family} to {expression_text(address)}"
        case {"addr": str() as address, "port": int() as port, **rest} if not rest:
            return f"dnat to {f'[{address}]' if ':' in address else address}:{port}"
    return _json_text({"dnat": value})


def _masquerade_text(value: Json | None) -> str:
    flags = (value or {}).get("flags", ())
    return " ".join(["masquerade", *([flags] if isinstance(flags, str) else flags)])


def _reject_text(value: Json | None) -> str:
    """What "reject" alone means is printed as such: port-unreachable in the table's own family."""
    if value is None or (value.get("type") in ("icmp", "icmpv6") and value.get("expr") == "port-unreachable"):
        return "reject"
    return _json_text({"reject": value})


def _set_text(value: Json) -> str:
    return f"{value['op']} {value['set']} {{ {expression_text(value['elem'])} }}"


_STATEMENTS: dict[str, Callable[[Any], str]] = {
    "match": _match_text,
    "mangle": _mangle_text,
    "vmap": _vmap_text,
    "dnat": _dnat_text,
    "masquerade": _masquerade_text,
    "reject": _reject_text,
    "set": _set_text,
    "jump": lambda value: f"jump {value['target']}",
    "goto": lambda value: f"goto {value['target']}",
}


def expression_text(value: Any) -> str:
    """A value, or where in the packet it is found."""
    if not isinstance(value, dict):
        return str(value)
    kind, data = next(iter(value.items()))
    match kind:
        case "payload" if "protocol" in data:
            return f"{data['protocol']} {data['field']}"
        case "meta":
            return data["key"] if data["key"] == "iifname" else f"meta {data['key']}"
        case "ct":
            return f"ct {data['key']}"
        case "fib":
            return f"fib {_words(data['flags'])} {data['result']}"
        case "concat":
            return " . ".join(expression_text(each) for each in data)
        case "prefix":
            return f"{data['addr']}/{data['len']}"
        case "range":
            return f"{data[0]}-{data[1]}"
        case "set":
            return f"{{ {', '.join(expression_text(each) for each in data)} }}"
        case "numgen" if not data.get("offset"):
            return f"numgen {data['mode']} mod {data['mod']}"
        case "map":
            return f"{expression_text(data['key'])} map {_data_text(data['data'])}"
        case "|" | "^" | "&" if isinstance(data[1], int):
            return f"{expression_text(data[0])} {kind} {data[1]:#010x}"
    return _json_text(value)


def _data_text(data: Any) -> str:
    """What a key leads to: a named map, or a map within the rule."""
    if isinstance(data, str):
        return data
    entries = []
    for key, value in data["set"]:
        is_verdict = isinstance(value, dict) and not value.keys().isdisjoint((*_VERDICTS, "goto", "jump"))
        entries.append(f"{expression_text(key)} : {statement_text(value) if is_verdict else expression_text(value)}")
    return f"{{ {', '.join(entries)} }}"


def _words(flags: str | Sequence[str]) -> str:
    return flags if isinstance(flags, str) else " . ".join(flags)


def _json_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
