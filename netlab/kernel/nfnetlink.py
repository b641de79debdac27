"""What the netfilter subsystems on netlink have in common (include/uapi/linux/netfilter/nfnetlink.h)."""

from __future__ import annotations

import struct

from netlab.kernel.netlink import NETLINK_NETFILTER, NetlinkSocket, Request

SUBSYSTEM_CONNTRACK = 1
SUBSYSTEM_ACCT = 7
SUBSYSTEM_NFTABLES = 10

GROUP_CONNTRACK_NEW = 1
GROUP_CONNTRACK_UPDATE = 2
GROUP_CONNTRACK_DESTROY = 3
GROUP_NFTABLES = 7
GROUP_NFTRACE = 9

NFPROTO_UNSPEC, NFPROTO_INET, NFPROTO_IPV4, NFPROTO_IPV6 = 0, 1, 2, 10
FAMILY_NAMES = {NFPROTO_INET: "inet", NFPROTO_IPV4: "ip", 3: "arp", 5: "netdev", 7: "bridge", NFPROTO_IPV6: "ip6"}
FAMILY_NUMBERS = {name: number for number, name in FAMILY_NAMES.items()}

_BATCH_BEGIN, _BATCH_END = 16, 17


def netfilter_socket(groups: tuple[int, ...] = (), receive_buffer: int | None = None) -> NetlinkSocket:
    """A netfilter socket in the thread's current network namespace, subscribed to ``groups``."""
    return NetlinkSocket(NETLINK_NETFILTER, groups, receive_buffer)


def message_type(subsystem: int, message: int) -> int:
    return subsystem << 8 | message


def header(family: int = NFPROTO_UNSPEC, resource: int = 0) -> bytes:
    """struct nfgenmsg."""
    return struct.pack("!BBH", family, 0, resource)


HEADER_LENGTH = 4


def batch_begin(subsystem: int) -> Request:
    return Request(_BATCH_BEGIN, 0, header(resource=subsystem), "begin a transaction")


def batch_end(subsystem: int) -> Request:
    return Request(_BATCH_END, 0, header(resource=subsystem), "commit a transaction")
