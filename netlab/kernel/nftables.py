"""nftables by netlink: the lab's own tracing table, and which chain and rule a handle in a trace record stands for.

kube-proxy's rules are not made here: they go through ``iptables-restore`` and ``nft`` as on a real node
(include/uapi/linux/netfilter/nf_tables.h).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from netlab.kernel import nfnetlink
from netlab.kernel.netlink import (
    NLM_F_APPEND,
    NLM_F_CREATE,
    NLM_F_DUMP,
    NetlinkSocket,
    Request,
    attribute,
    attributes,
    be32,
    nested,
    text,
)
from netlab.model.rulebook import ChainInfo

_SUBSYSTEM = nfnetlink.SUBSYSTEM_NFTABLES
NEWTABLE, GETTABLE, DELTABLE, NEWCHAIN, GETCHAIN, DELCHAIN = 0, 1, 2, 3, 4, 5
NEWRULE, GETRULE, DELRULE, DELSETELEM, GETGEN = 6, 7, 8, 14, 16
MESSAGE_TRACE = nfnetlink.message_type(_SUBSYSTEM, 17)

HOOKS = ("PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING")

TRACE_TABLE = "netlab-trace"
# Where the table looks: before everything that can change a packet, and after everything that has.
_TRACE_CHAINS = {
    "prerouting": (0, -450),
    "input": (1, 300),
    "forward": (2, -450),
    "output": (3, -450),
    "postrouting": (4, 300),
}
_MARKING_CHAINS = ("prerouting", "output")

_META_NFTRACE, _META_NFPROTO, _META_L4PROTO = 12, 15, 16
_PAYLOAD_NETWORK, _PAYLOAD_TRANSPORT = 1, 2
_REGISTER = 1


class RuleSet(NamedTuple):
    """What the kernel holds: base chains by (family, table, chain), and each chain's rule handles in order."""

    base_chains: dict[tuple[str, str, str], ChainInfo]
    rules: dict[tuple[str, str, str], list[int]]


class PacketMatch(NamedTuple):
    """Packets to trace: a transport protocol, and bytes at an offset from the start of its header (``network``: of the
    IP header).

    ``family`` is 4 or 6; ``value`` up to 16 bytes; without any, all packets of the protocol.
    """

    family: int
    protocol: int
    offset: int
    value: bytes
    network: bool = False


def _request(message: int, flags: int, family: int, body: bytes, purpose: str) -> Request:
    return Request(nfnetlink.message_type(_SUBSYSTEM, message), flags, nfnetlink.header(family) + body, purpose)


def commit(netlink: NetlinkSocket, requests: list[Request]) -> None:
    """Have all requests take effect at once in the socket's namespace; this makes a new generation of its rules."""
    netlink.transaction(nfnetlink.batch_begin(_SUBSYSTEM), requests, nfnetlink.batch_end(_SUBSYSTEM))


def make_trace_table(netlink: NetlinkSocket) -> None:
    """Add the table ``inet netlab-trace`` with its empty chains to the socket's namespace; it touches no packet."""
    inet = nfnetlink.NFPROTO_INET
    requests = [_request(NEWTABLE, NLM_F_CREATE, inet, text(1, TRACE_TABLE), "make the table for traces")]
    for chain, (hook, priority) in _TRACE_CHAINS.items():
        place = nested(4, be32(1, hook), attribute(2, struct.pack("!i", priority)))
        body = text(1, TRACE_TABLE) + text(3, chain) + place + be32(5, 1) + text(7, "filter")
        requests.append(_request(NEWCHAIN, NLM_F_CREATE, inet, body, f"make the chain {chain} for traces"))
    commit(netlink, requests)


def tracing(packets: Iterable[PacketMatch], drop: Iterable[bytes] = ()) -> list[Request]:
    """What makes the kernel report each step of the packets that match, in place of what was traced before.

    ``drop`` are expression lists (see :func:`tcp_reset_expressions`) of packets that are not to leave the namespace.
    """
    requests = [_delete_rules(chain) for chain in _MARKING_CHAINS]
    requests += [_new_rule("output", expressions, "keep the kernel's own answer from leaving") for expressions in drop]
    for packet in packets:
        expressions = _match(packet) + _set_nftrace()
        requests += [_new_rule(chain, expressions, "trace a packet") for chain in _MARKING_CHAINS]
    return requests


def _delete_rules(chain: str) -> Request:
    body = text(1, TRACE_TABLE) + text(2, chain)
    return _request(DELRULE, 0, nfnetlink.NFPROTO_INET, body, f"stop tracing in {chain}")


def _new_rule(chain: str, expressions: bytes, purpose: str) -> Request:
    body = text(1, TRACE_TABLE) + text(2, chain) + nested(4, expressions)
    return _request(NEWRULE, NLM_F_CREATE | NLM_F_APPEND, nfnetlink.NFPROTO_INET, body, purpose)


def _expression(name: str, *data: bytes) -> bytes:
    return nested(1, text(1, name), nested(2, *data))


def _meta_equals(key: int, value: bytes) -> bytes:
    return _expression("meta", be32(1, _REGISTER), be32(2, key)) + _equals(value)


def _payload_equals(offset: int, value: bytes, base: int = _PAYLOAD_TRANSPORT) -> bytes:
    load = _expression("payload", be32(1, _REGISTER), be32(2, base), be32(3, offset), be32(4, len(value)))
    return load + _equals(value)


def _equals(value: bytes) -> bytes:
    return _expression("cmp", be32(1, _REGISTER), be32(2, 0), nested(3, attribute(1, value)))


def _match(packet: PacketMatch) -> bytes:
    family = nfnetlink.NFPROTO_IPV4 if packet.family == 4 else nfnetlink.NFPROTO_IPV6
    whole = _meta_equals(_META_NFPROTO, bytes([family])) + _meta_equals(_META_L4PROTO, bytes([packet.protocol]))
    if not packet.value:
        return whole
    base = _PAYLOAD_NETWORK if packet.network else _PAYLOAD_TRANSPORT
    return whole + _payload_equals(packet.offset, packet.value, base)


def _set_nftrace() -> bytes:
    load = _expression("immediate", be32(1, _REGISTER), nested(2, attribute(1, b"\x01\0\0\0")))
    return load + _expression("meta", be32(2, _META_NFTRACE), be32(3, _REGISTER))


def tcp_reset_expressions(family: int, source_port: int, destination_port: int) -> bytes:
    """Match a RST between two ports and drop it: the kernel's answer to a SYN-ACK that none of its sockets expects."""
    ports = struct.pack("!HH", source_port, destination_port)
    number = nfnetlink.NFPROTO_IPV4 if family == 4 else nfnetlink.NFPROTO_IPV6
    flags = (
        _expression("payload", be32(1, _REGISTER), be32(2, _PAYLOAD_TRANSPORT), be32(3, 13), be32(4, 1))
        + _expression(
            "bitwise",
            be32(1, _REGISTER),
            be32(2, _REGISTER),
            be32(3, 1),
            nested(4, attribute(1, b"\x04")),
            nested(5, attribute(1, b"\x00")),
        )
        + _equals(b"\x04")
    )
    drop = _expression("immediate", be32(1, 0), nested(2, nested(2, be32(1, 0))))
    return (
        _meta_equals(_META_NFPROTO, bytes([number]))
        + _meta_equals(_META_L4PROTO, b"\x06")
        + _payload_equals(0, ports)
        + flags
        + drop
    )


def has_tables(netlink: NetlinkSocket, family: int) -> bool:
    """Whether the socket's namespace has any table of the family (NFPROTO_IPV4, NFPROTO_IPV6, …)."""
    kind = nfnetlink.message_type(_SUBSYSTEM, GETTABLE)
    return bool(netlink.exchange(kind, NLM_F_DUMP, nfnetlink.header(family), "list the tables"))


def generation(netlink: NetlinkSocket) -> int:
    """The number of the rule set's generation: it rises with every commit in the namespace."""
    kind = nfnetlink.message_type(_SUBSYSTEM, GETGEN)
    answers = netlink.exchange(kind, 0, nfnetlink.header(), "ask for the rule set's generation")
    for number, value in attributes(answers[0].body[nfnetlink.HEADER_LENGTH :]):
        if number == 1:
            return int(struct.unpack("!I", value)[0])
    raise LookupError("the kernel told no generation")


def read_rule_set(netlink: NetlinkSocket) -> RuleSet:
    """Base chains and rule handles of all tables but the lab's own, as the kernel holds them now."""
    base_chains: dict[tuple[str, str, str], ChainInfo] = {}
    kind = nfnetlink.message_type(_SUBSYSTEM, GETCHAIN)
    for message in netlink.exchange(kind, NLM_F_DUMP, nfnetlink.header(), "list the chains"):
        values = dict(attributes(message.body[nfnetlink.HEADER_LENGTH :]))
        if 4 not in values:
            continue
        hook = dict(attributes(values[4]))
        number = struct.unpack("!I", hook[1])[0]
        if number < len(HOOKS):
            priority = struct.unpack("!i", hook[2])[0]
            base_chains[_key(message.body[0], values[1], values[3])] = ChainInfo(
                HOOKS[number], priority, nat=values.get(7) == b"nat\0"
            )
    rules: dict[tuple[str, str, str], list[int]] = {}
    kind = nfnetlink.message_type(_SUBSYSTEM, GETRULE)
    for message in netlink.exchange(kind, NLM_F_DUMP, nfnetlink.header(), "list the rules"):
        values = dict(attributes(message.body[nfnetlink.HEADER_LENGTH :]))
        handles = rules.setdefault(_key(message.body[0], values[1], values[2]), [])
        handles.append(struct.unpack("!Q", values[3])[0])
    return RuleSet(base_chains, rules)


def _key(family: int, table: bytes, chain: bytes) -> tuple[str, str, str]:
    return (
        nfnetlink.FAMILY_NAMES.get(family, str(family)),
        table.rstrip(b"\0").decode(),
        chain.rstrip(b"\0").decode(),
    )
