"""IPVS, sets, addresses and rules of one node in memory: takes the steps that the kernel takes, and refuses others."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NoReturn

from netlab.kernel import ipset, ipvs
from netlab.kernel.ipset import SetContent, SetSpec
from netlab.kernel.ipvs import RealServer, ServerAddress, Target
from netlab.objects.ip import Address
from netlab.objects.proxyconfig import IPVS_SCHEDULERS
from netlab.proxy.ipvs.difference import Actual, ActualServer
from netlab.proxy.ipvs.host import Applied, rule_texts
from netlab.proxy.ipvs.operations import (
    AddAddress,
    AddElements,
    CreateLink,
    CreateSet,
    DeleteAddress,
    DeleteElements,
    DeleteReal,
    DeleteServer,
    NewReal,
    NewServer,
    Operation,
    SetReal,
    SetServer,
    WriteRules,
)
from netlab.proxy.ipvs.values import WEIGHT
from tests.unit.proxy.fake_iptables import FakeIptables


class Refused(Exception):
    """The kernel does not do it; what came before in the same call is done."""


class FakeHost:
    """Implements :class:`netlab.proxy.ipvs.host.Host`. ``after`` is called after every single step."""

    def __init__(self, node_addresses: Sequence[Address] = ()) -> None:
        self.actual = Actual()
        self.iptables = FakeIptables()
        self.after: Callable[[], None] = lambda: None
        self.done: list[Operation] = []
        self._node_addresses = list(node_addresses)
        self._addresses_changed = False

    def close(self) -> None:
        return

    def node_addresses(self) -> list[Address]:
        return list(self._node_addresses)

    def set_node_addresses(self, node_addresses: Sequence[Address]) -> None:
        self._node_addresses = list(node_addresses)
        self._addresses_changed = True

    def addresses_changed(self) -> bool:
        changed, self._addresses_changed = self._addresses_changed, False
        return changed

    def read(self) -> Actual:
        return Actual(
            self.actual.link,
            set(self.actual.addresses),
            {key: ActualServer(each.server, dict(each.reals)) for key, each in self.actual.servers.items()},
            {
                name: SetContent(each.spec, set(each.elements), each.references)
                for name, each in self.actual.sets.items()
            },
            self.iptables.read(),
        )

    def reals(self, servers: Sequence[ServerAddress]) -> dict[ServerAddress, dict[Target, RealServer]]:
        known = self.actual.servers
        return {address: dict(known[address].reals) if address in known else {} for address in servers}

    def apply(self, operations: Sequence[Operation]) -> Applied:
        for operation in operations:
            self._apply(operation)
            self.done.append(operation)
            self.after()
        return Applied(len(operations), len(operations))

    def connect(self, address: ServerAddress, target: Target, active: int, inactive: int = 0) -> None:
        """Let a real server have so many connections."""
        reals = self.actual.servers[address].reals
        reals[target] = reals[target]._replace(active=active, inactive=inactive)

    def destroy_set(self, name: str) -> None:
        if name not in self.actual.sets:
            _refuse(errno.ENOENT, name)
        if any(f"--match-set {name} " in rule for chains in self.iptables.tables.values() for rule in _rules(chains)):
            raise Refused(f"in use: {name}")
        del self.actual.sets[name]

    def elements(self, spec: SetSpec) -> set[str]:
        content = self.actual.sets.get(spec.name)
        return set(content.elements) if content is not None else set()

    def _apply(self, operation: Operation) -> None:
        match operation:
            case CreateSet() | AddElements() | DeleteElements():
                self._change_set(operation)
            case CreateLink() | AddAddress() | DeleteAddress():
                self._change_link(operation)
            case NewServer() | SetServer() | DeleteServer():
                self._change_server(operation)
            case NewReal() | SetReal() | DeleteReal():
                self._change_real(operation)
            case WriteRules(changes):
                for text in rule_texts(changes):
                    self._restore(text)

    def _change_set(self, operation: CreateSet | AddElements | DeleteElements) -> None:
        spec = operation.spec
        there = self.actual.sets.get(spec.name)
        if isinstance(operation, CreateSet):
            ipset.create(spec, 1)
            if there is not None or len(spec.name) > ipset.NAME_LENGTH:
                _refuse(errno.EEXIST, spec.name)
            self.actual.sets[spec.name] = SetContent(spec)
            return
        if there is None:
            _refuse(errno.ENOENT, spec.name)
        if there.spec != spec or not operation.elements:
            raise Refused(f"malformed: {operation}")
        list((ipset.add if isinstance(operation, AddElements) else ipset.delete)(spec, operation.elements))
        for element in operation.elements:
            if (element in there.elements) == isinstance(operation, AddElements):
                raise Refused(f"{spec.name}: the element is already there, or not there: {element}")
            (there.elements.add if isinstance(operation, AddElements) else there.elements.remove)(element)

    def _change_link(self, operation: CreateLink | AddAddress | DeleteAddress) -> None:
        if isinstance(operation, CreateLink):
            if self.actual.link:
                _refuse(errno.EEXIST, operation)
            self.actual.link = True
            return
        if not self.actual.link:
            _refuse(errno.ENODEV, operation)
        if isinstance(operation, AddAddress):
            if operation.ip in self.actual.addresses:
                _refuse(errno.EEXIST, operation)
            self.actual.addresses.add(operation.ip)
        else:
            if operation.ip not in self.actual.addresses:
                _refuse(errno.EADDRNOTAVAIL, operation)
            self.actual.addresses.remove(operation.ip)

    def _change_server(self, operation: NewServer | SetServer | DeleteServer) -> None:
        servers = self.actual.servers
        if isinstance(operation, DeleteServer):
            ipvs.delete_server(operation.address)
            if operation.address not in servers:
                _refuse(errno.ESRCH, operation)
            del servers[operation.address]
            return
        server = operation.server
        if server.scheduler not in IPVS_SCHEDULERS:
            _refuse(errno.ENOENT, operation)
        if isinstance(operation, NewServer):
            ipvs.new_server(server)
            if server.address in servers:
                _refuse(errno.EEXIST, operation)
            servers[server.address] = ActualServer(server)
        else:
            ipvs.set_server(server)
            if server.address not in servers:
                _refuse(errno.ESRCH, operation)
            servers[server.address] = replace(servers[server.address], server=server)

    def _change_real(self, operation: NewReal | SetReal | DeleteReal) -> None:
        server = self.actual.servers.get(operation.address)
        if server is None:
            _refuse(errno.ESRCH, operation)
        reals, target = server.reals, operation.target
        if isinstance(operation, NewReal):
            ipvs.new_real(operation.address, target, WEIGHT)
            if target in reals:
                _refuse(errno.EEXIST, operation)
            reals[target] = RealServer(WEIGHT)
            return
        if target not in reals:
            _refuse(errno.ENOENT, operation)
        if isinstance(operation, SetReal):
            ipvs.set_real(operation.address, target, operation.weight)
            reals[target] = reals[target]._replace(weight=operation.weight, method=ipvs.MASQUERADING)
        else:
            ipvs.delete_real(operation.address, target)
            del reals[target]

    def _restore(self, text: str) -> None:
        for name in re.findall(r"--match-set (\S+)", text):
            if name not in self.actual.sets:
                raise Refused(f"Set {name} doesn't exist")
        self.iptables.restore(text)


def _rules(chains: dict[str, list[str]]) -> list[str]:
    return [rule for rules in chains.values() for rule in rules]


def _refuse(code: int, what: object) -> NoReturn:
    raise Refused(f"{what}: {os.strerror(code)}")
