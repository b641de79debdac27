"""kube-proxy's nftables table as a value: sets and maps with their elements, and chains with their rules.

Rules are kept in the form in which ``nft list`` prints them, so that a wanted rule and a rule read back from the kernel
are equal as texts; ``nft -f`` takes the same form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from netlab.model.keys import Origin
from netlab.proxy.nftables.names import TABLE

COMMENT_LENGTH = 128
"""The longest comment that nft takes."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule without its chain, and what caused it.

    ``choices``: what caused each entry of the rule's own list of endpoints, in order. ``given``: what nft has to be
    told where it prints ``text`` for it ("" where it takes ``text`` itself).
    """

    text: str
    origin: Origin | None = None
    choices: tuple[Origin, ...] = ()
    given: str = ""

    @property
    def command(self) -> str:
        """What nft is told."""
        return self.given or self.text


@dataclass(frozen=True, slots=True)
class Element:
    """One element of a set, or of a map (then with its verdict as ``value``)."""

    container: str
    key: str
    value: str = ""
    comment: str = ""
    origin: Origin | None = None

    @property
    def command(self) -> str:
        """As nft takes and prints it."""
        comment = f' comment "{self.comment}"' if self.comment else ""
        return f"{self.key}{comment} : {self.value}" if self.value else f"{self.key}{comment}"

    def same(self, other: Element | None) -> bool:
        """Equal in the kernel's eyes: origins do not count."""
        return (
            other is not None
            and self.key == other.key
            and self.value == other.value
            and self.comment == other.comment
            and self.container == other.container
        )


class Container(NamedTuple):
    """A set, or a verdict map. ``timeout``: packets add elements, which live for so many seconds."""

    keys: str
    verdicts: bool = False
    timeout: int | None = None

    @property
    def kind(self) -> str:
        return "map" if self.verdicts else "set"

    @property
    def properties(self) -> tuple[str, ...]:
        """The lines of its declaration. A set that packets add to has nft's own default size."""
        type_line = f"type {self.keys}{' : verdict' if self.verdicts else ''}"
        if self.timeout is None:
            return (type_line,)
        return (type_line, "size 65535", "flags dynamic,timeout", f"timeout {duration_text(self.timeout)}")


class Hook(NamedTuple):
    """What makes a chain a base chain: packets enter it at a hook of the kernel. Its policy is to accept."""

    type: str
    hook: str
    priority: int

    @property
    def declaration(self) -> str:
        return f"type {self.type} hook {self.hook} priority {self.priority}; policy accept;"


@dataclass(slots=True)
class Table:
    """The whole table ``kube-proxy`` of one family ("ip" or "ip6"). Chains that stand in ``hooks`` are base chains."""

    family: str
    containers: dict[str, Container] = field(default_factory=dict)
    elements: dict[str, dict[str, Element]] = field(default_factory=dict)
    hooks: dict[str, Hook] = field(default_factory=dict)
    chains: dict[str, tuple[Rule, ...]] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """What names the table in commands."""
        return f"{self.family} {TABLE}"


def same_rules(left: tuple[Rule, ...], right: tuple[Rule, ...]) -> bool:
    """Equal as texts: origins do not count."""
    return len(left) == len(right) and all(a.text == b.text for a, b in zip(left, right, strict=True))


def rules_of(table: Table) -> Iterator[tuple[str, Rule]]:
    """Every rule with its chain."""
    for chain, rules in table.chains.items():
        for rule in rules:
            yield chain, rule


def rule_set_text(tables: Iterable[Table]) -> str:
    """The tables of all families in one text, which ``nft -f`` takes where there are none yet."""
    return "".join(table_text(table) for table in tables)


def table_text(table: Table) -> str:
    """The table as ``nft list table`` prints it and ``nft -f`` takes it (elements one a line)."""
    lines = [f"table {table.place} {{"]
    for name, container in table.containers.items():
        lines.append(f"\t{container.kind} {name} {{")
        lines += [f"\t\t{each}" for each in container.properties]
        lines += _element_lines(table.elements.get(name, {}))
        lines += ["\t}", ""]
    for name, rules in table.chains.items():
        lines.append(f"\tchain {name} {{")
        if name in table.hooks:
            lines.append(f"\t\t{table.hooks[name].declaration}")
        lines += [f"\t\t{rule.command}" for rule in rules]
        lines += ["\t}", ""]
    lines[-1] = "}\n"
    return "\n".join(lines)


def _element_lines(elements: Mapping[str, Element]) -> Iterable[str]:
    commands = [elements[key].command for key in sorted(elements)]
    for index, command in enumerate(commands):
        head = "\t\telements = { " if index == 0 else "\t\t\t     "
        yield f"{head}{command}{' }' if index == len(commands) - 1 else ','}"


def duration_text(seconds: int) -> str:
    """Seconds as nft prints them: "10m", "3h", "1d2h30s"."""
    parts = []
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, seconds = divmod(seconds, length)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
