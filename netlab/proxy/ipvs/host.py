"""The node's kernel, read and changed in ipvs mode: IPVS, sets and addresses over netlink, rules through iptables."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from typing import Literal, NamedTuple, Protocol

from netlab.kernel import addresses, ipset, iptables, ipvs, nfnetlink
from netlab.kernel.ipset import SetSpec
from netlab.kernel.ipvs import Ipvs, RealServer, ServerAddress, Target
from netlab.kernel.netlink import NETLINK_ROUTE, NetlinkError, NetlinkSocket, Request
from netlab.model.errors import LabFailed, MachineCannot
from netlab.model.text import Message
from netlab.objects.ip import Address
from netlab.proxy.family import Family
from netlab.proxy.iptables.restore import LINES_PER_TRANSACTION, restore_texts
from netlab.proxy.iptables.ruleset import TableChange, parse_save
from netlab.proxy.ipvs import names
from netlab.proxy.ipvs.difference import Actual, ActualServer
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

REFUSED = Message(
    "ipvs.refused",
    en="The kernel of {node} refused: {what}",
    zh="{node} 的内核拒绝了请求：{what}",
)
NO_DUMMY = Message(
    "ipvs.no-dummy",
    en="Mode ipvs cannot be used here: this kernel has no dummy links, which {link} has to be one of. Where the kernel "
    "has them as a module, 'modprobe dummy' (as root) loads it.",
    zh="此处无法使用 ipvs 模式：当前内核不支持 dummy 网卡，而 {link} 必须是这种网卡。如果内核以模块形式提供它，"
    "请以 root 执行 'modprobe dummy' 加载。",
)

ADDRESSES_AT_ONCE = 64
"""The kernel tells the watch of addresses of these, too: so many surely find room until they are read."""


class Applied(NamedTuple):
    """How much went to the kernel: batches and calls of tools; messages and lines of rules."""

    transactions: int
    lines: int


class Host(Protocol):
    """One family of one node. Every method raises :class:`LabFailed` where the kernel refuses."""

    def node_addresses(self) -> list[Address]:
        """All addresses but those of kube-ipvs0."""
        ...

    def addresses_changed(self) -> bool:
        """Whether :meth:`node_addresses` may tell something else than last time."""
        ...

    def read(self) -> Actual:
        """All that ipvs mode has to do with."""
        ...

    def reals(self, servers: Sequence[ServerAddress]) -> dict[ServerAddress, dict[Target, RealServer]]:
        """The real servers of some virtual servers, with their counts of connections; none of one that is not there."""
        ...

    def apply(self, operations: Sequence[Operation]) -> Applied:
        """Carry out the operations in their order."""
        ...

    def close(self) -> None:
        """Let go of the kernel; what it holds stays."""
        ...


class NodeHost:
    """A :class:`Host` for the network namespace that the calling thread is in. ``node`` is named in error messages."""

    def __init__(self, node: str, family: Family) -> None:
        self.node = node
        self.family = family
        self._version: Literal[4, 6] = 4 if family is Family.IPV4 else 6
        self._ipvs = Ipvs()
        self._netfilter = nfnetlink.netfilter_socket()
        self._route = NetlinkSocket(NETLINK_ROUTE)
        self._watch = addresses.AddressWatch(self._version)
        self._revisions: dict[tuple[str, str], int] = {}
        self._link: int | None = None
        self._changed = False

    def close(self) -> None:
        for each in (self._ipvs, self._netfilter, self._route, self._watch):
            each.close()

    def node_addresses(self) -> list[Address]:
        with self._refusals():
            return [ip for link, ip in self._addresses() if link != self._link]

    def addresses_changed(self) -> bool:
        changed, self._changed = self._changed or self._watch.changed(self._link), False
        return changed

    def read(self) -> Actual:
        with self._refusals():
            on_links = self._addresses()
            of_family = [
                each for each in self._ipvs.servers() if (":" in each.address.ip) == (self.family is Family.IPV6)
            ]
            reals = self._ipvs.all_reals([each.address for each in of_family])
            return Actual(
                link=self._link is not None,
                addresses={str(ip) for link, ip in on_links if link == self._link and not ip.is_link_local},
                servers={each.address: ActualServer(each, reals[each.address]) for each in of_family},
                sets=ipset.list_sets(self._netfilter),
                rules=parse_save(iptables.save(self._version, self.node)),
            )

    def reals(self, servers: Sequence[ServerAddress]) -> dict[ServerAddress, dict[Target, RealServer]]:
        with self._refusals():
            return self._ipvs.all_reals(servers)

    def apply(self, operations: Sequence[Operation]) -> Applied:
        transactions = lines = 0
        with self._refusals():
            for channel, group in groupby(operations, _channel):
                done = self._run(channel, list(group))
                transactions += done.transactions
                lines += done.lines
        return Applied(transactions, lines)

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except NetlinkError as error:
            raise LabFailed(REFUSED(node=self.node, what=ipset.words(error))) from error

    def _addresses(self) -> list[tuple[int, Address]]:
        self._link = addresses.link_index(self._route, names.LINK)
        return addresses.by_link(self._route, self._version)

    def _run(self, channel: str, operations: list[Operation]) -> Applied:
        if channel == "rules":
            return self._write_rules(operations)
        if channel == "ipvs":
            self._ipvs.run(_ipvs_command(each) for each in operations)
        elif channel == "ipset":
            self._netfilter.run(request for each in operations for request in self._set_requests(each))
        elif channel == "link":
            self._make_link()
        else:
            for start in range(0, len(operations), ADDRESSES_AT_ONCE):
                self._route.run(self._address_request(each) for each in operations[start : start + ADDRESSES_AT_ONCE])
                self._changed = self._watch.changed(self._link) or self._changed
        return Applied(1, sum(_size(each) for each in operations))

    def _make_link(self) -> None:
        try:
            self._route.run([addresses.dummy(names.LINK, names.LINK_INDEX)])
        except NetlinkError as error:
            if error.errno == errno.EOPNOTSUPP:
                raise MachineCannot(NO_DUMMY(link=names.LINK)) from error
            raise
        self._link = addresses.link_index(self._route, names.LINK)

    def _set_requests(self, operation: Operation) -> Iterable[Request]:
        match operation:
            case CreateSet(spec):
                return [ipset.create(spec, self._revision(spec))]
            case AddElements(spec, elements):
                return ipset.add(spec, elements)
            case DeleteElements(spec, elements):
                return ipset.delete(spec, elements)
        raise AssertionError(operation)

    def _revision(self, spec: SetSpec) -> int:
        kind = (spec.type, spec.family)
        if kind not in self._revisions:
            with nfnetlink.netfilter_socket() as netlink:
                self._revisions[kind] = ipset.type_revision(netlink, *kind)
        return self._revisions[kind]

    def _address_request(self, operation: Operation) -> Request:
        assert self._link is not None, "kube-ipvs0 comes before its addresses"
        match operation:
            case AddAddress(ip):
                return addresses.add(self._link, ip, names.LINK)
            case DeleteAddress(ip):
                return addresses.remove(self._link, ip, names.LINK)
        raise AssertionError(operation)

    def _write_rules(self, operations: list[Operation]) -> Applied:
        transactions = lines = 0
        for operation in operations:
            assert isinstance(operation, WriteRules)
            for text in rule_texts(operation.changes):
                iptables.restore(self._version, self.node, text)
                transactions += 1
                lines += text.count("\n")
        return Applied(transactions, lines)


def rule_texts(changes: Mapping[str, TableChange], limit: int = LINES_PER_TRANSACTION) -> Iterator[str]:
    """The texts for iptables-restore. In more than one, the chain that is jumped to comes before the one that jumps."""
    texts = list(restore_texts(changes, limit))
    change = changes.get("filter")
    if len(texts) > 1 and change is not None and names.SOURCE_RANGES_FIREWALL in change.written:
        first = {names.SOURCE_RANGES_FIREWALL: change.written[names.SOURCE_RANGES_FIREWALL]}
        rest = {chain: rules for chain, rules in change.written.items() if chain not in first}
        yield from restore_texts({"filter": TableChange({}, first, ())}, limit)
        texts = list(restore_texts({**changes, "filter": replace(change, written=rest)}, limit))
    yield from texts


def _channel(operation: Operation) -> str:
    match operation:
        case CreateSet() | AddElements() | DeleteElements():
            return "ipset"
        case AddAddress() | DeleteAddress():
            return "addresses"
        case CreateLink():
            return "link"
        case WriteRules():
            return "rules"
    return "ipvs"


def _ipvs_command(operation: Operation) -> ipvs.Command:
    match operation:
        case NewServer(server):
            return ipvs.new_server(server)
        case SetServer(server):
            return ipvs.set_server(server)
        case DeleteServer(address):
            return ipvs.delete_server(address)
        case NewReal(address, target):
            return ipvs.new_real(address, target, WEIGHT)
        case SetReal(address, target, weight):
            return ipvs.set_real(address, target, weight)
        case DeleteReal(address, target):
            return ipvs.delete_real(address, target)
    raise AssertionError(operation)


def _size(operation: Operation) -> int:
    return len(operation.elements) if isinstance(operation, AddElements | DeleteElements) else 1
