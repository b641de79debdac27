"""Named counters that rules refer to (``-m nfacct``): they have to exist before the rule does (nfnetlink_acct.h)."""

from __future__ import annotations

import errno
import struct

from netlab.kernel import nfnetlink
from netlab.kernel.netlink import NLM_F_CREATE, NLM_F_EXCL, NetlinkError, NetlinkSocket, attribute, attributes, text

_NEW, _GET = 0, 1
_NAME, _PACKETS, _BYTES = 1, 2, 3


def ensure(netlink: NetlinkSocket, name: str) -> bool:
    """Make the counter unless it is there; false where the kernel has no nfnetlink_acct."""
    zero = struct.pack("!Q", 0)
    body = nfnetlink.header() + text(_NAME, name) + attribute(_PACKETS, zero) + attribute(_BYTES, zero)
    kind = nfnetlink.message_type(nfnetlink.SUBSYSTEM_ACCT, _NEW)
    try:
        netlink.exchange(kind, NLM_F_CREATE | NLM_F_EXCL, body, f"make the counter {name}")
    except NetlinkError as error:
        if error.errno == errno.EEXIST:
            return True
        if error.errno in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOENT):
            return False
        raise
    return True


def read(netlink: NetlinkSocket, name: str) -> tuple[int, int]:
    """Packets and bytes counted so far."""
    kind = nfnetlink.message_type(nfnetlink.SUBSYSTEM_ACCT, _GET)
    answers = netlink.exchange(kind, 0, nfnetlink.header() + text(_NAME, name), f"read the counter {name}")
    values = dict(attributes(answers[0].body[nfnetlink.HEADER_LENGTH :]))
    return struct.unpack("!Q", values[_PACKETS])[0], struct.unpack("!Q", values[_BYTES])[0]
