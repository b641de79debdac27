"""A kernel's nftables table in memory: takes the commands that ``nft -f`` takes, and refuses what the kernel refuses.

A transaction takes effect as a whole or not at all. Refused are: names that are not there, and names that are there
with other properties; an element that is there with another verdict; verdicts, jumps and look-ups that lead nowhere;
keys that do not fit their set; deleting what something still refers to (nf_tables_api.c; nft(8)).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from ipaddress import ip_address, ip_network
from typing import ClassVar

from netlab.proxy.nftables.addresses import listed_set
from netlab.proxy.nftables.ruleset import COMMENT_LENGTH, Container, Element, Hook, Rule, Table

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9/\-_.]{0,254}")
_TARGET = re.compile(r"\b(?:jump|goto) (\S+?)(?=[\s,]|$)")
_LOOKED_UP = re.compile(r"(\w+ )?@(\S+)")
_LIST = re.compile(r"([sd]addr (?:!= )?)(\{ [^}]* \})")
_HOOK = re.compile(r"\{ type (\w+) hook (\w+) priority (-?\d+); policy accept; \}")
_TIMEOUT = re.compile(r"timeout ((?:\d+[dhms])+)")
_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_PROTOCOLS = ("tcp", "udp", "sctp")


class Refused(Exception):
    """The kernel (or nft) would not take the command."""


class FakeTable:
    """The table ``kube-proxy`` of one family; ``table`` is None until it is made."""

    def __init__(self, family: str) -> None:
        self.family = family
        self.table: Table | None = None
        self.clients: dict[str, set[str]] = {}

    def run(self, text: str) -> None:
        """One transaction."""
        before = self.copy(), {name: set(each) for name, each in self.clients.items()}
        try:
            for line in text.splitlines():
                self._command(line)
        except Refused:
            self.table, self.clients = before
            raise

    def copy(self) -> Table | None:
        """The table as it is now; what happens later does not change it."""
        if self.table is None:
            return None
        elements = {name: dict(each) for name, each in self.table.elements.items()}
        table = self.table
        return Table(self.family, dict(table.containers), elements, dict(table.hooks), dict(table.chains))

    def learn(self, name: str, client: str) -> None:
        """A packet adds its source to a set with a timeout."""
        _refuse(self._table.containers[name].timeout is None, f"{name} is not dynamic")
        self.clients[name].add(client)

    @property
    def _table(self) -> Table:
        if self.table is None:
            raise Refused("there is no table")
        return self.table

    def _command(self, line: str) -> None:
        match line.split(" ", 5):
            case ["add", "table", self.family, "kube-proxy"]:
                self.table = self.table or Table(self.family)
            case ["delete", "table", self.family, "kube-proxy"]:
                _refuse(self.table is None, "there is no table to delete")
                self.table, self.clients = None, {}
            case [verb, kind, self.family, "kube-proxy", name, *rest] if (verb, kind) in self._commands:
                self._commands[verb, kind](self, name, " ".join(rest))
            case _:
                raise Refused(f"syntax error: {line}")

    def _add_chain(self, name: str, rest: str) -> None:
        _refuse(not _NAME.fullmatch(name), f"bad name {name}")
        found = _HOOK.fullmatch(rest)
        _refuse(bool(rest) and found is None, f"bad chain {rest}")
        hook = Hook(found[1], found[2], int(found[3])) if found else None
        if name in self._table.chains:
            _refuse(self._table.hooks.get(name) != hook, f"{name} is there with another hook")
        self._table.chains.setdefault(name, ())
        if hook is not None:
            self._table.hooks[name] = hook

    def _flush_chain(self, name: str, rest: str) -> None:
        _refuse(name not in self._table.chains, f"no chain {name} to flush")
        self._table.chains[name] = ()

    def _delete_chain(self, name: str, rest: str) -> None:
        _refuse(name not in self._table.chains, f"no chain {name} to delete")
        del self._table.chains[name]
        self._table.hooks.pop(name, None)
        _refuse(name in set(self._targets()), f"{name} is busy")

    def _targets(self) -> Iterator[str]:
        for rules in self._table.chains.values():
            for rule in rules:
                yield from _TARGET.findall(rule.text)
        for elements in self._table.elements.values():
            for element in elements.values():
                yield from _TARGET.findall(element.value)

    def _add_container(self, name: str, rest: str) -> None:
        _refuse(not _NAME.fullmatch(name), f"bad name {name}")
        _refuse(not rest.startswith("{ type ") or not rest.endswith("; }"), f"bad set {rest}")
        words = rest[2:-3].split("; ")
        keys, _, data = words[0].removeprefix("type ").partition(" : ")
        timeout = _TIMEOUT.search(rest)
        seconds = None
        if timeout is not None:
            _refuse("flags dynamic,timeout" not in words, "a timeout without its flag")
            seconds = sum(int(count) * _UNITS[unit] for count, unit in re.findall(r"(\d+)([dhms])", timeout[1]))
        container = Container(keys, bool(data), seconds)
        known = self._table.containers.setdefault(name, container)
        _refuse(known != container, f"{name} is there with other properties")
        self._table.elements.setdefault(name, {})
        self.clients.setdefault(name, set())

    def _delete_container(self, name: str, rest: str) -> None:
        _refuse(name not in self._table.containers, f"no set {name} to delete")
        del self._table.containers[name], self._table.elements[name], self.clients[name]
        for rules in self._table.chains.values():
            for rule in rules:
                _refuse(any(each == name for _, each in _LOOKED_UP.findall(rule.text)), f"{name} is busy")

    def _add_rule(self, chain: str, text: str) -> None:
        self._table.chains[chain] = (*self._rules(chain), self._rule(text))

    def _insert_rule(self, chain: str, text: str) -> None:
        self._table.chains[chain] = (self._rule(text), *self._rules(chain))

    def _rules(self, chain: str) -> tuple[Rule, ...]:
        _refuse(chain not in self._table.chains, f"no chain {chain} for a rule")
        return self._table.chains[chain]

    def _rule(self, text: str) -> Rule:
        for target in _TARGET.findall(text):
            self._check_target(target)
        for word, name in _LOOKED_UP.findall(text):
            _refuse(name not in self._table.containers, f"no set {name} to look in")
            container = self._table.containers[name]
            _refuse((word == "vmap ") != container.verdicts, f"{name} is a {container.kind}")
            _refuse(word == "update " and container.timeout is None, f"{name} is not dynamic")
        return Rule(_LIST.sub(_as_listed, text))

    def _check_target(self, name: str) -> None:
        _refuse(name not in self._table.chains, f"no chain {name} to go to")
        _refuse(name in self._table.hooks, f"{name} is a base chain")

    def _add_element(self, name: str, rest: str) -> None:
        container = self._container(name)
        for command in _elements(rest):
            head, _, value = command.partition(" : ")
            key, _, comment = head.partition(' comment "')
            comment = comment.removesuffix('"')
            _refuse(len(comment) > COMMENT_LENGTH, f"comment too long: {comment}")
            _refuse(bool(value) != container.verdicts, f"{name} is a {container.kind}: {command}")
            _check_key(container, key)
            for target in _TARGET.findall(value):
                self._check_target(target)
            element = Element(name, key, value, comment)
            known = self._table.elements[name].setdefault(key, element)
            _refuse(known.value != value, f"{key} in {name} leads elsewhere")

    def _delete_element(self, name: str, rest: str) -> None:
        self._container(name)
        for key in _elements(rest):
            _refuse(self._table.elements[name].pop(key, None) is None, f"no {key} in {name} to delete")

    def _container(self, name: str) -> Container:
        _refuse(name not in self._table.containers, f"no set {name} for elements")
        return self._table.containers[name]

    _commands: ClassVar[dict[tuple[str, str], Callable[[FakeTable, str, str], None]]] = {
        ("add", "chain"): _add_chain,
        ("flush", "chain"): _flush_chain,
        ("delete", "chain"): _delete_chain,
        ("add", "set"): _add_container,
        ("add", "map"): _add_container,
        ("delete", "set"): _delete_container,
        ("delete", "map"): _delete_container,
        ("add", "rule"): _add_rule,
        ("insert", "rule"): _insert_rule,
        ("add", "element"): _add_element,
        ("delete", "element"): _delete_element,
    }


def _refuse(condition: bool, words: str) -> None:
    if condition:
        raise Refused(words)


def _elements(rest: str) -> list[str]:
    _refuse(not rest.startswith("{ ") or not rest.endswith(" }"), f"bad elements {rest}")
    return rest[2:-2].split(", ")


def _check_key(container: Container, key: str) -> None:
    types, fields = container.keys.split(" . "), key.split(" . ")
    _refuse(len(types) != len(fields), f"{key} is no key of {container.keys}")
    for kind, field in zip(types, fields, strict=True):
        if kind in ("ipv4_addr", "ipv6_addr"):
            _refuse(f"ipv{ip_address(field).version}_addr" != kind, f"{field} is no {kind}")
        elif kind == "inet_proto":
            _refuse(field not in _PROTOCOLS, f"{field} is no protocol")
        else:
            _refuse(not 0 < int(field) < 65536, f"{field} is no port")


def _as_listed(found: re.Match[str]) -> str:
    """A list within a rule as nft will print it."""
    words = found[2][2:-2].split(", ")
    ranges = [ip_network(each) for each in words if "/" in each]
    return f"{found[1]}{listed_set(ranges, [each for each in words if '/' not in each])}"
