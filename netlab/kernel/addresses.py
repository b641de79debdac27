"""Addresses of a network namespace: which there are, whether they have changed, and a dummy link that carries some.

A dummy link need not be up for its addresses to be the namespace's own (rtnetlink(7), net/ipv4/fib_frontend.c).
"""

from __future__ import annotations

import errno
import socket
import struct
from ipaddress import ip_address

from netlab.kernel import rtnetlink
from netlab.kernel.netlink import (
    NETLINK_ROUTE,
    NLM_F_CREATE,
    NLM_F_DUMP,
    NLM_F_EXCL,
    NetlinkError,
    NetlinkSocket,
    Request,
    attribute,
    attributes,
    messages,
    nested,
    text,
    u32,
)
from netlab.kernel.rtnetlink import Address

_IFLA_IFNAME, _IFLA_TXQLEN, _IFLA_LINKINFO, _IFLA_INFO_KIND = 3, 13, 18, 1
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_GROUP_IPV4_ADDRESSES, _GROUP_IPV6_ADDRESSES = 5, 9
_CREATE = NLM_F_CREATE | NLM_F_EXCL
_HEADER = struct.Struct("=BBBBI")


def dummy(name: str, index: int) -> Request:
    """A dummy link, down and without a queue. EEXIST: there is a link of the name; EOPNOTSUPP: no such kind."""
    body = struct.pack("=BxHiII", 0, 0, index, 0, 0) + text(_IFLA_IFNAME, name) + u32(_IFLA_TXQLEN, 0)
    return Request(
        rtnetlink.RTM_NEWLINK,
        _CREATE,
        body + nested(_IFLA_LINKINFO, text(_IFLA_INFO_KIND, "dummy")),
        f"make the dummy link {name}",
    )


def link_index(netlink: NetlinkSocket, name: str) -> int | None:
    """The index of the link; None where there is none of the name."""
    body = bytes(16) + text(_IFLA_IFNAME, name)
    try:
        answers = netlink.exchange(rtnetlink.RTM_GETLINK, 0, body, f"look up the link {name}")
    except NetlinkError as error:
        if error.errno == errno.ENODEV:
            return None
        raise
    return int(struct.unpack_from("=i", answers[0].body, 4)[0])


def add(index: int, ip: str, what: str) -> Request:
    """Give the link ``what`` a single address. EEXIST: it has it."""
    return Request(rtnetlink.RTM_NEWADDR, _CREATE, _body(index, ip), f"give {what} the address {ip}")


def remove(index: int, ip: str, what: str) -> Request:
    """EADDRNOTAVAIL: the link has no such address."""
    return Request(rtnetlink.RTM_DELADDR, 0, _body(index, ip), f"take the address {ip} from {what}")


def by_link(netlink: NetlinkSocket, version: int) -> list[tuple[int, Address]]:
    """All addresses of the IP version, each with the index of its link."""
    family = socket.AF_INET if version == 4 else socket.AF_INET6
    found: list[tuple[int, Address]] = []
    for message in netlink.exchange(
        rtnetlink.RTM_GETADDR, NLM_F_DUMP, _HEADER.pack(family, 0, 0, 0, 0), "list the addresses"
    ):
        values = dict(attributes(message.body[_HEADER.size :]))
        packed = values.get(_IFA_LOCAL, values.get(_IFA_ADDRESS))
        if packed is not None:
            found.append((struct.unpack_from("=I", message.body, 4)[0], ip_address(packed)))
    return found


class AddressWatch:
    """Tells whether addresses of an IP version have come or gone in the namespace that this was made in."""

    def __init__(self, version: int) -> None:
        group = _GROUP_IPV4_ADDRESSES if version == 4 else _GROUP_IPV6_ADDRESSES
        self._netlink = NetlinkSocket(NETLINK_ROUTE, [group])
        self._netlink.socket.setblocking(False)

    def close(self) -> None:
        self._netlink.close()

    def changed(self, except_on: int | None) -> bool:
        """Since the last call; changes on the link ``except_on`` do not count, unless there were too many to tell."""
        result = False
        while True:
            try:
                data = self._netlink.socket.recv(256 * 1024)
            except BlockingIOError:
                return result
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                result = True
                continue
            indexes = {struct.unpack_from("=I", message.body, 4)[0] for message in messages(data)}
            result = result or bool(indexes - {except_on})


def _body(index: int, ip: str) -> bytes:
    address = ip_address(ip)
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    header = _HEADER.pack(family, address.max_prefixlen, 0, 0, index)
    return header + attribute(_IFA_LOCAL, address.packed) + attribute(_IFA_ADDRESS, address.packed)
