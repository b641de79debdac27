"""From wanted and actual values to steps, in an order in which every state in between is consistent.

What comes: a virtual server has its real servers before sets know its address, rules exist before the address does:
so a packet is never handed to a port of the node itself, nor to a Service that cannot answer. What goes: first the
sets forget the address (new connections are refused), then the virtual server ends, the address is removed last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address

from netlab.kernel.ipset import SetContent, SetSpec
from netlab.kernel.ipvs import RealServer, ServerAddress, Target, VirtualServer
from netlab.model.errors import LabFailed
from netlab.model.text import Message
from netlab.objects.ip import Network
from netlab.proxy.iptables.ruleset import RuleSet, TableChange
from netlab.proxy.iptables.ruleset import difference as table_difference
from netlab.proxy.ipvs import names
from netlab.proxy.ipvs.graceful import Leaving, Reals, is_graceful, real_changes
from netlab.proxy.ipvs.operations import (
    AddAddress,
    AddElements,
    CreateLink,
    CreateSet,
    DeleteAddress,
    DeleteElements,
    DeleteServer,
    NewServer,
    Operation,
    SetServer,
    WriteRules,
)
from netlab.proxy.ipvs.state import IpvsChange
from netlab.proxy.ipvs.values import WEIGHT, IpvsValue, WantedServer

FOREIGN_SET = Message(
    "ipvs.foreign-set",
    en="The set {name} exists with type {type} {family} where kube-proxy needs {wanted_type} {wanted_family}: "
    "'ipset destroy {name}' makes room for it.",
    zh="集合 {name} 已存在，类型为 {type} {family}，而 kube-proxy 需要 {wanted_type} {wanted_family}："
    "请用 'ipset destroy {name}' 删除它。",
)


@dataclass(slots=True)
class ActualServer:
    """A virtual server in the kernel."""

    server: VirtualServer
    reals: dict[Target, RealServer] = field(default_factory=dict)


@dataclass(slots=True)
class Actual:
    """What a node holds in one family. ``link``: kube-ipvs0 exists; ``addresses`` are those on it; ``sets`` by name."""

    link: bool = False
    addresses: set[str] = field(default_factory=set)
    servers: dict[ServerAddress, ActualServer] = field(default_factory=dict)
    sets: dict[str, SetContent] = field(default_factory=dict)
    rules: RuleSet = field(default_factory=RuleSet)


@dataclass(slots=True)
class Plan:
    """Steps in their order, and the real servers that are leaving (at weight 0) once they are done."""

    operations: list[Operation]
    leaving: dict[ServerAddress, frozenset[Target]]


def full_plan(
    wanted: IpvsValue, actual: Actual, specs: Mapping[str, SetSpec], exclude: Sequence[Network], leaving: Leaving
) -> Plan:
    """What turns all that there is into all that is wanted. ``exclude``: virtual servers in these ranges stay.

    Raises :class:`LabFailed` where a set of one of the names is of another type.
    """
    steps = _Steps(leaving)
    for purpose, spec in specs.items():
        there = actual.sets.get(spec.name)
        elements = wanted.sets[purpose]
        if there is None:
            steps.sets.append(CreateSet(spec))
            steps.add(purpose, elements)
        else:
            _check_type(spec, there.spec)
            steps.add(purpose, (each for each in elements if each not in there.elements))
            steps.delete(purpose, (each for each in there.elements if each not in elements))
    steps.link = not actual.link
    for address, server in wanted.servers.items():
        known = actual.servers.get(address)
        steps.server(server, known.server if known else None, known.reals if known else {})
    for address in actual.servers:
        if address not in wanted.servers:
            steps.delete_server(address, exclude)
    steps.new_addresses = [ip for ip in wanted.addresses if ip not in actual.addresses]
    steps.old_addresses = [ip for ip in actual.addresses if ip not in wanted.addresses]
    steps.rules, steps.rules_first = _full_rules(wanted.rules, actual.rules)
    return steps.plan(specs)


def change_plan(
    change: IpvsChange,
    counted: Mapping[ServerAddress, Reals],
    specs: Mapping[str, SetSpec],
    exclude: Sequence[Network],
    leaving: Leaving,
) -> Plan:
    """What brings a change to a node that has all that was wanted before. ``counted``: the real servers in the kernel
    of those virtual servers that :func:`to_count` names."""
    steps = _Steps(leaving)
    for (purpose, element), (was, now) in change.elements.items():
        if was is None and now is not None:
            steps.add(purpose, (element,))
        elif was is not None and now is None:
            steps.delete(purpose, (element,))
    for address, (before, after) in change.servers.items():
        if after is None:
            steps.delete_server(address, exclude)
            continue
        known = counted.get(address)
        if known is None:
            known = dict.fromkeys(before.reals, RealServer(WEIGHT)) if before is not None else {}
        steps.server(after, before.server if before is not None else None, known)
    steps.new_addresses = [ip for ip, (was, now) in change.addresses.items() if was is None and now is not None]
    steps.old_addresses = [ip for ip, (was, now) in change.addresses.items() if was is not None and now is None]
    steps.rules, steps.rules_first = change.rules, change.new_rules
    return steps.plan(specs)


def to_count(change: IpvsChange, leaving: Leaving) -> list[ServerAddress]:
    """The virtual servers whose real servers have to be read before the change can be planned: those that lose one
    whose connections may finish, and those that have a leaving one already."""
    return [
        address
        for address, (before, after) in change.servers.items()
        if before is not None
        and after is not None
        and (address in leaving or (is_graceful(address) and before.reals.keys() - after.reals.keys()))
    ]


class _Steps:
    """Steps by kind, put in order at the end."""

    def __init__(self, leaving: Leaving) -> None:
        self.sets: list[Operation] = []
        self.link = False
        self.joining: list[Operation] = []
        self.going: list[Operation] = []
        self.new_addresses: list[str] = []
        self.old_addresses: list[str] = []
        self.rules: Mapping[str, TableChange] = {}
        self.rules_first = False
        self._added: dict[str, list[str]] = {}
        self._deleted: dict[str, list[str]] = {}
        self._leaving = {address: frozenset(targets) for address, targets in leaving.items()}

    def add(self, purpose: str, elements: Iterable[str]) -> None:
        self._added.setdefault(purpose, []).extend(elements)

    def delete(self, purpose: str, elements: Iterable[str]) -> None:
        self._deleted.setdefault(purpose, []).extend(elements)

    def server(self, wanted: WantedServer, known: VirtualServer | None, reals: Reals) -> None:
        address = wanted.server.address
        if known is None:
            self.joining.append(NewServer(wanted.server))
        elif known != wanted.server:
            self.joining.append(SetServer(wanted.server))
        changes = real_changes(address, wanted.reals.keys(), reals, self._leaving.pop(address, frozenset()))
        self.joining += changes.joining
        self.going += changes.going
        if changes.leaving:
            self._leaving[address] = changes.leaving

    def delete_server(self, address: ServerAddress, exclude: Sequence[Network]) -> None:
        ip = ip_address(address.ip)
        if not any(ip in network for network in exclude):
            self.going.append(DeleteServer(address))
        self._leaving.pop(address, None)

    def plan(self, specs: Mapping[str, SetSpec]) -> Plan:
        rules: list[Operation] = [WriteRules(self.rules)] if self.rules else []
        operations = [*self.sets, *([CreateLink()] if self.link else []), *self.joining]
        operations += [
            AddElements(spec, tuple(self._added[purpose]))
            for purpose, spec in specs.items()
            if self._added.get(purpose)
        ]
        operations += rules if self.rules_first else []
        operations += [AddAddress(ip) for ip in self.new_addresses]
        deletions = {
            purpose: DeleteElements(spec, tuple(self._deleted[purpose]))
            for purpose, spec in reversed(list(specs.items()))
            if self._deleted.get(purpose)
        }
        last = deletions.pop(names.IPVS_IPS, None)
        operations += [*deletions.values(), *self.going]
        operations += [] if self.rules_first else rules
        operations += [DeleteAddress(ip) for ip in self.old_addresses]
        operations += [last] if last is not None else []
        return Plan(operations, self._leaving)


def _check_type(wanted: SetSpec, there: SetSpec) -> None:
    if (wanted.type, wanted.family) != (there.type, there.family):
        raise LabFailed(
            FOREIGN_SET(
                name=wanted.name,
                type=there.type,
                family=there.family,
                wanted_type=wanted.type,
                wanted_family=wanted.family,
            )
        )


def _full_rules(wanted: RuleSet, actual: RuleSet) -> tuple[dict[str, TableChange], bool]:
    """The changes by table, and whether they add any rule. Chains of iptables mode stay: as far as they share names
    the two modes take over from each other, the rest is for the clean-up."""
    changes: dict[str, TableChange] = {}
    added = False
    for name, table in wanted.tables.items():
        current = actual.tables[name]
        change = table_difference(name, table, current)
        written = {chain: rules for chain, rules in change.written.items() if chain in table.chains}
        replaced = {chain: current.chains[chain] for chain in written if chain in current.chains}
        if change.jumps or written:
            changes[name] = TableChange(change.jumps, written, (), replaced)
        added = added or bool(change.jumps)
        for chain, rules in written.items():
            known = {rule.text for rule in replaced.get(chain, ())}
            added = added or any(rule.text not in known for rule in rules)
    return changes, added
