"""iptables in memory: takes what ``iptables-restore --noflush`` takes, and refuses what it and the kernel refuse."""

from __future__ import annotations

from netlab.proxy.iptables.ruleset import BUILT_IN, RuleSet, parse_save

TARGETS = {"ACCEPT", "DROP", "RETURN", "REJECT", "MARK", "MASQUERADE", "DNAT", "LOG"}
LONGEST_CHAIN_NAME = 28

Chains = dict[str, list[str]]


class Refused(Exception):
    """The tool or the kernel does not take the text; the table that it is about is as before."""


class FakeIptables:
    """Tables by name, each with its chains and their rules as texts."""

    def __init__(self) -> None:
        self.tables: dict[str, Chains] = {
            table: {chain: [] for chain in built_in} for table, built_in in BUILT_IN.items()
        }

    def restore(self, text: str) -> None:
        """Apply a text. Each table takes effect at its COMMIT, as a whole or not at all. Raises :class:`Refused`."""
        name, chains = "", Chains()
        for line in text.splitlines():
            if line.startswith("*"):
                name = line[1:]
                chains = {chain: list(rules) for chain, rules in self.tables[name].items()}
            elif line == "COMMIT":
                _refuse_loops(chains)
                self.tables[name] = chains
                name = ""
            else:
                if not name:
                    raise Refused(f"outside a table: {line}")
                _apply(line, chains, BUILT_IN[name])
        if name:
            raise Refused("no COMMIT")

    def save(self) -> str:
        """All tables, as ``iptables-save`` prints them."""
        lines = []
        for table, chains in self.tables.items():
            built_in = BUILT_IN[table]
            lines.append(f"*{table}")
            lines += [f":{chain} {'ACCEPT' if chain in built_in else '-'} [0:0]" for chain in chains]
            lines += [f"-A {chain} {rule}".rstrip() for chain, rules in chains.items() for rule in rules]
            lines.append("COMMIT")
        return "\n".join(lines) + "\n"

    def read(self) -> RuleSet:
        return parse_save(self.save())


def chains_of(rule_set: RuleSet, table: str) -> Chains:
    """A table's chains as texts, empty built-in ones too."""
    wanted = rule_set.tables[table]
    chains = {chain: [rule.text for rule in wanted.built_in.get(chain, ())] for chain in BUILT_IN[table]}
    return chains | {chain: [rule.text for rule in rules] for chain, rules in wanted.chains.items()}


def target_of(rule: str) -> str | None:
    """What a rule jumps to."""
    words = rule.split(" ")
    return words[words.index("-j") + 1] if "-j" in words else None


def _apply(line: str, chains: Chains, built_in: tuple[str, ...]) -> None:
    operation, _, rest = line.partition(" ")
    if operation.startswith(":"):
        _declare(operation[1:], chains, built_in)
        return
    chain, _, rest = rest.partition(" ")
    if chain not in chains:
        raise Refused(f"no chain {chain}: {line}")
    rules = chains[chain]
    if operation == "-A":
        rules.append(_checked(rest, chains))
    elif operation == "-I":
        number, _, rule = rest.partition(" ")
        if not 1 <= int(number) <= len(rules) + 1:
            raise Refused(f"index of insertion too big: {line}")
        rules.insert(int(number) - 1, _checked(rule, chains))
    elif operation == "-D":
        if rest not in rules:
            raise Refused(f"no such rule: {line}")
        rules.remove(rest)
    elif operation == "-X":
        if chain in built_in or rules:
            raise Refused(f"built-in or not empty: {line}")
        if any(target_of(rule) == chain for others in chains.values() for rule in others):
            raise Refused(f"still referred to: {line}")
        del chains[chain]
    else:
        raise Refused(f"not understood: {line}")


def _declare(chain: str, chains: Chains, built_in: tuple[str, ...]) -> None:
    if len(chain) > LONGEST_CHAIN_NAME:
        raise Refused(f"chain name too long: {chain}")
    if chain in built_in:
        raise Refused(f"a built-in chain would be emptied: {chain}")
    chains[chain] = []


def _checked(rule: str, chains: Chains) -> str:
    target = target_of(rule)
    if target is not None and target not in TARGETS and target not in chains:
        raise Refused(f"no chain to jump to: {rule}")
    return rule


def _refuse_loops(chains: Chains) -> None:
    done: set[str] = set()

    def visit(chain: str, above: tuple[str, ...]) -> None:
        if chain in above:
            raise Refused(f"a loop: {' -> '.join((*above, chain))}")
        if chain not in done:
            for rule in chains[chain]:
                target = target_of(rule)
                if target in chains:
                    visit(target, (*above, chain))
            done.add(chain)

    for chain in chains:
        visit(chain, ())
