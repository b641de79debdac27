"""Sets of addresses and ports that rules of iptables look things up in (ipset(8)), over netlink.

No program is started: the elements of a change go to the kernel in one message for each set (a few hundred each), the
messages of a change in one system call. Elements have the form in which ``ipset save`` prints them.

Source: include/uapi/linux/netfilter/ipset/ip_set.h and net/netfilter/ipset/ip_set_core.c.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv6Address

from netlab.kernel import nfnetlink
from netlab.kernel.netlink import (
    NLM_F_CREATE,
    NLM_F_DUMP,
    NLM_F_EXCL,
    NetlinkError,
    NetlinkSocket,
    Request,
    attribute,
    attributes,
    nested,
    text,
    u8,
)
from netlab.model.errors import MachineCannot
from netlab.model.text import Message

UNSUPPORTED = Message(
    "ipset.unsupported",
    en="Mode ipvs cannot be used here: this kernel has no ipset. Where the kernel has it as a module, "
    "'modprobe ip_set' and 'modprobe xt_set' (as root) load it.",
    zh="此处无法使用 ipvs 模式：当前内核没有 ipset。如果内核以模块形式提供它，"
    "请以 root 执行 'modprobe ip_set' 和 'modprobe xt_set' 加载。",
)
NO_TYPE = Message(
    "ipset.no-type",
    en="Mode ipvs cannot be used here: this kernel's ipset has no type {type}. Where the kernel has it as a module, "
    "'modprobe {module}' (as root) loads it.",
    zh="此处无法使用 ipvs 模式：当前内核的 ipset 没有类型 {type}。如果内核以模块形式提供它，"
    "请以 root 执行 'modprobe {module}' 加载。",
)

NAME_LENGTH = 31
"""A set's name has at most so many characters (IPSET_MAXNAMELEN less the closing zero)."""

_SUBSYSTEM = 6
_CREATE, _DESTROY, _LIST, _ADD, _DEL, _TYPE = 2, 3, 7, 9, 10, 13
_PROTOCOL_VERSION = 6
_HEADER = nfnetlink.header(nfnetlink.NFPROTO_IPV4)
_ATTR_PROTOCOL, _ATTR_SETNAME, _ATTR_TYPENAME, _ATTR_REVISION, _ATTR_FAMILY = 1, 2, 3, 4, 5
_ATTR_DATA, _ATTR_ADT, _ATTR_LINENO = 7, 8, 9
_DATA_IP, _DATA_PORT, _DATA_PORT_TO, _DATA_PROTO, _DATA_LINENO = 1, 4, 5, 7, 9
_DATA_HASHSIZE, _DATA_MAXELEM, _DATA_REFERENCES, _DATA_IP2, _DATA_CIDR2 = 18, 19, 25, 20, 21
_IPV4, _IPV6 = 1, 2
_NET_BYTEORDER = 0x4000
_ERRORS = {
    4096: "the set's own kind of error",
    4097: "malformed message",
    4098: "no such type of set",
    4099: "too many sets",
    4100: "the set is in use",
    4101: "a set of the other name exists",
    4102: "the sets are of different types",
    4103: "the element is already there, or not there",
    4104: "invalid prefix length",
    4106: "invalid address family",
    4108: "the set is referred to",
    4109: "an IPv4 address is needed",
    4110: "an IPv6 address is needed",
    4352: "the set is full, or the number is out of its range",
}
ELEMENT_EXISTS = 4103
IN_USE = 4100

_FAMILIES = {"": 0, "inet": socket.AF_INET, "inet6": socket.AF_INET6}
_FAMILY_NAMES = {number: name for name, number in _FAMILIES.items()}
_PROTOCOLS = {"tcp": socket.IPPROTO_TCP, "udp": socket.IPPROTO_UDP, "sctp": socket.IPPROTO_SCTP}
_PROTOCOL_NAMES = {number: name for name, number in _PROTOCOLS.items()}

# The revision of each type that ipset 7.17 makes: newer ones would only hide the sets from older tools.
_REVISIONS = {"hash:ip": 5, "hash:ip,port": 6, "hash:ip,port,ip": 6, "hash:ip,port,net": 8, "bitmap:port": 3}

ELEMENTS_A_MESSAGE = 300


@dataclass(frozen=True, slots=True)
class SetSpec:
    """A set's name, its type ("hash:ip,port" and the like) and family ("inet", "inet6"; "" for a set of ports)."""

    name: str
    type: str
    family: str


@dataclass(slots=True)
class SetContent:
    """A set in the kernel: what it is, its elements, and how many rules (and other sets) refer to it."""

    spec: SetSpec
    elements: set[str] = field(default_factory=set)
    references: int = 0


def create(spec: SetSpec, revision: int) -> Request:
    """Make an empty set, of the size that kube-proxy gives it; EEXIST where one of the name is there."""
    if spec.type == "bitmap:port":
        options = _net16(_DATA_PORT, 0) + _net16(_DATA_PORT_TO, 65535)
    else:
        options = _net32(_DATA_HASHSIZE, 1024) + _net32(_DATA_MAXELEM, 65536)
    body = b"".join(
        (
            _head(spec),
            text(_ATTR_TYPENAME, spec.type),
            u8(_ATTR_REVISION, revision),
            u8(_ATTR_FAMILY, _FAMILIES[spec.family]),
            nested(_ATTR_DATA, options),
        )
    )
    return _request(_CREATE, NLM_F_CREATE | NLM_F_EXCL, body, f"make the set {spec.name}")


def destroy(spec: SetSpec) -> Request:
    """ENOENT: there is no such set; IN_USE: a rule refers to it."""
    return _request(_DESTROY, NLM_F_EXCL, _head(spec), f"destroy the set {spec.name}")


def add(spec: SetSpec, elements: Sequence[str]) -> Iterator[Request]:
    """ELEMENT_EXISTS where one is there already: those before it in its message are in then."""
    return _elements(_ADD, spec, elements, "add to")


def delete(spec: SetSpec, elements: Sequence[str]) -> Iterator[Request]:
    """ELEMENT_EXISTS where one is not there."""
    return _elements(_DEL, spec, elements, "delete from")


def type_revision(netlink: NetlinkSocket, type_name: str, family: str) -> int:
    """The revision of the type to make sets of. Raises :class:`MachineCannot` where the kernel has no such type."""
    number = _FAMILIES[family]
    body = b"".join(
        (
            _HEADER,
            u8(_ATTR_PROTOCOL, _PROTOCOL_VERSION),
            text(_ATTR_TYPENAME, type_name),
            u8(_ATTR_FAMILY, number),
        )
    )
    kind = nfnetlink.message_type(_SUBSYSTEM, _TYPE)
    try:
        answers = netlink.exchange(kind, 0, body, f"look up sets of type {type_name}")
    except NetlinkError as error:
        if error.errno in (errno.EINVAL, errno.EOPNOTSUPP):
            raise MachineCannot(UNSUPPORTED()) from error
        module = "ip_set_" + type_name.replace(":", "_").replace(",", "")
        raise MachineCannot(NO_TYPE(type=type_name, module=module)) from error
    values = dict(attributes(answers[0].body[nfnetlink.HEADER_LENGTH :]))
    return min(values[_ATTR_REVISION][0], _REVISIONS[type_name])


def list_sets(netlink: NetlinkSocket) -> dict[str, SetContent]:
    """All sets of the socket's network namespace by name; elements of types that are not read here are left out."""
    body = _HEADER + u8(_ATTR_PROTOCOL, _PROTOCOL_VERSION)
    kind = nfnetlink.message_type(_SUBSYSTEM, _LIST)
    sets: dict[str, SetContent] = {}
    try:
        answers = netlink.exchange(kind, NLM_F_DUMP, body, "list the sets")
    except NetlinkError as error:
        if error.errno in (errno.EINVAL, errno.EOPNOTSUPP):
            raise MachineCannot(UNSUPPORTED()) from error
        raise
    for answer in answers:
        values = dict(attributes(answer.body[nfnetlink.HEADER_LENGTH :]))
        name = _text(values[_ATTR_SETNAME])
        if _ATTR_TYPENAME in values:
            family = _FAMILY_NAMES.get(values[_ATTR_FAMILY][0], "")
            sets[name] = SetContent(SetSpec(name, _text(values[_ATTR_TYPENAME]), family))
        content = sets[name]
        if _ATTR_DATA in values:
            content.references = _net_number(dict(attributes(values[_ATTR_DATA])).get(_DATA_REFERENCES, bytes(4)))
        if _ATTR_ADT in values and content.spec.type in _REVISIONS:
            content.elements.update(_element(data) for _, data in attributes(values[_ATTR_ADT]))
    return sets


def words(error: NetlinkError) -> str:
    """What an error of this subsystem means: it has numbers of its own beyond those of the system."""
    own = _ERRORS.get(error.errno or 0)
    return f"{error.purpose}: {own}" if own is not None else str(error.strerror)


def _request(command: int, flags: int, body: bytes, purpose: str) -> Request:
    return Request(nfnetlink.message_type(_SUBSYSTEM, command), flags, body, purpose)


def _head(spec: SetSpec) -> bytes:
    return _HEADER + u8(_ATTR_PROTOCOL, _PROTOCOL_VERSION) + text(_ATTR_SETNAME, spec.name)


def _elements(command: int, spec: SetSpec, elements: Sequence[str], doing: str) -> Iterator[Request]:
    for start in range(0, len(elements), ELEMENTS_A_MESSAGE):
        some = elements[start : start + ELEMENTS_A_MESSAGE]
        lines = (nested(_ATTR_DATA, _data(spec, each), _net32(_DATA_LINENO, i)) for i, each in enumerate(some, 1))
        body = _head(spec) + _net32(_ATTR_LINENO, 1) + nested(_ATTR_ADT, *lines)
        more = f" and {len(some) - 1} more" if len(some) > 1 else ""
        yield _request(command, NLM_F_EXCL, body, f"{doing} the set {spec.name} {some[0]}{more}")


def _data(spec: SetSpec, element: str) -> bytes:
    """ "A", "A,tcp:P", "A,tcp:P,A", "A,tcp:P,A/N" or "P"; an address without a prefix length stands for itself."""
    if spec.type == "bitmap:port":
        return _net16(_DATA_PORT, int(element))
    parts = element.split(",")
    data = _address(_DATA_IP, parts[0])
    if len(parts) > 1:
        protocol, _, port = parts[1].partition(":")
        data += _net16(_DATA_PORT, int(port)) + u8(_DATA_PROTO, _PROTOCOLS[protocol])
    if len(parts) > 2:
        ip, slash, prefix = parts[2].partition("/")
        data += _address(_DATA_IP2, ip)
        if spec.type == "hash:ip,port,net":
            data += u8(_DATA_CIDR2, int(prefix) if slash else 128 if ":" in ip else 32)
    return data


def _address(kind: int, ip: str) -> bytes:
    if ":" in ip:
        return nested(kind, attribute(_IPV6 | _NET_BYTEORDER, socket.inet_pton(socket.AF_INET6, ip)))
    return nested(kind, attribute(_IPV4 | _NET_BYTEORDER, socket.inet_aton(ip)))


def _element(data: bytes) -> str:
    values = dict(attributes(data))
    if _DATA_IP not in values:
        return str(struct.unpack("!H", values[_DATA_PORT])[0])
    element = _read_address(values[_DATA_IP])
    if _DATA_PORT in values:
        protocol = values[_DATA_PROTO][0]
        name = _PROTOCOL_NAMES.get(protocol) or str(protocol)
        element += f",{name}:{struct.unpack('!H', values[_DATA_PORT])[0]}"
    if _DATA_IP2 in values:
        element += f",{_read_address(values[_DATA_IP2])}"
        if _DATA_CIDR2 in values and values[_DATA_CIDR2][0] != _bits(values[_DATA_IP2]):
            element += f"/{values[_DATA_CIDR2][0]}"
    return element


def _read_address(data: bytes) -> str:
    kind, packed = next(attributes(data))
    return socket.inet_ntoa(packed) if kind == _IPV4 else str(IPv6Address(packed))


def _bits(data: bytes) -> int:
    return 32 if next(attributes(data))[0] == _IPV4 else 128


def _net16(kind: int, value: int) -> bytes:
    return attribute(kind | _NET_BYTEORDER, struct.pack("!H", value))


def _net32(kind: int, value: int) -> bytes:
    return attribute(kind | _NET_BYTEORDER, struct.pack("!I", value))


def _net_number(value: bytes) -> int:
    return int(struct.unpack("!I", value)[0])


def _text(value: bytes) -> str:
    return value.rstrip(b"\0").decode()
