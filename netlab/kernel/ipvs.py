"""IPVS, the kernel's load balancer, over generic netlink: virtual servers and the real servers behind them.

Source: include/uapi/linux/ip_vs.h and net/netfilter/ipvs/ip_vs_ctl.c. Words as in ipvsadm(8). Many commands go in one
system call; what one exchange a virtual server would cost is why all real servers are read from /proc/net/ip_vs.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import IPv6Address
from pathlib import Path
from typing import NamedTuple

from netlab.kernel.netlink import (
    NETLINK_GENERIC,
    NLM_F_DUMP,
    NetlinkError,
    NetlinkSocket,
    Request,
    attribute,
    attributes,
    be16,
    nested,
    text,
    u16,
    u32,
)
from netlab.model.errors import MachineCannot
from netlab.model.records import IpvsRecord
from netlab.model.text import Message

UNSUPPORTED = Message(
    "ipvs.unsupported",
    en="Mode ipvs cannot be used here: IPVS is not supported by this kernel. Where the kernel has it as a module, "
    "'modprobe ip_vs' (as root) loads it.",
    zh="此处无法使用 ipvs 模式：当前内核不支持 IPVS。如果内核以模块形式提供它，请以 root 执行 'modprobe ip_vs' 加载。",
)
NO_SCHEDULER = Message(
    "ipvs.no-scheduler",
    en="Mode ipvs cannot be used here: this kernel's IPVS has no scheduler {scheduler}. Where the kernel has it as a "
    "module, 'modprobe ip_vs_{scheduler}' (as root) loads it.",
    zh="此处无法使用 ipvs 模式：当前内核的 IPVS 没有调度器 {scheduler}。如果内核以模块形式提供它，"
    "请以 root 执行 'modprobe ip_vs_{scheduler}' 加载。",
)
FORBIDDEN = Message(
    "ipvs.forbidden",
    en="Mode ipvs cannot be used here: this kernel lets only root configure IPVS, and not root of a user namespace.",
    zh="此处无法使用 ipvs 模式：当前内核只允许真正的 root 配置 IPVS，用户命名空间中的 root 不行。",
)

MASQUERADING = 0
"""The forwarding method that translates addresses (IP_VS_CONN_F_MASQ); the kernel's other methods pass by the node."""

PERSISTENT = 0x1
"""A virtual server's flag: clients stay with their real server for the timeout."""

SCHEDULER_2 = 0x10
"""A virtual server's flag that its scheduler gives a meaning to; for "mh" it is mh-port: hash the port, too."""

_HASHED = 0x2

_NEW_SERVICE, _SET_SERVICE, _DEL_SERVICE, _GET_SERVICE = 1, 2, 3, 4
_NEW_DEST, _SET_DEST, _DEL_DEST, _GET_DEST = 5, 6, 7, 8
_SET_CONFIG, _GET_CONFIG, _GET_INFO, _FLUSH = 12, 13, 15, 17
_ATTR_SERVICE, _ATTR_DEST = 1, 2
_ATTR_TIMEOUT_TCP, _ATTR_TIMEOUT_TCP_FIN, _ATTR_TIMEOUT_UDP = 4, 5, 6
_SVC_AF, _SVC_PROTOCOL, _SVC_ADDR, _SVC_PORT, _SVC_FWMARK = 1, 2, 3, 4, 5
_SVC_SCHEDULER, _SVC_FLAGS, _SVC_TIMEOUT, _SVC_NETMASK = 6, 7, 8, 9
_DEST_ADDR, _DEST_PORT, _DEST_METHOD, _DEST_WEIGHT, _DEST_UPPER, _DEST_LOWER = 1, 2, 3, 4, 5, 6
_DEST_ACTIVE, _DEST_INACTIVE, _DEST_PERSISTENT, _DEST_AF = 7, 8, 9, 11
_INFO_VERSION, _INFO_TABLE_SIZE = 1, 2

_CTRL_ID, _CTRL_GETFAMILY, _CTRL_FAMILY_ID, _CTRL_FAMILY_NAME = 16, 3, 1, 2
_HEADER = struct.Struct("=BBxx")
_VERSION = 1

_PROTOCOLS = {"tcp": socket.IPPROTO_TCP, "udp": socket.IPPROTO_UDP, "sctp": socket.IPPROTO_SCTP}
_PROTOCOL_NAMES = {number: name for name, number in _PROTOCOLS.items()}
_METHODS = {"Masq": 0, "Local": 1, "Tunnel": 2, "Route": 3, "Bypass": 4}

_TABLE = Path("/proc/thread-self/net/ip_vs")
_CONNECTIONS = Path("/proc/thread-self/net/ip_vs_conn")


MANY = 64
"""From so many virtual servers on, reading the table of all real servers is cheaper than asking for each."""


class ServerAddress(NamedTuple):
    """What identifies a virtual server. ``protocol``: "tcp", "udp" or "sctp"; ``ip`` as Kubernetes writes it."""

    protocol: str
    ip: str
    port: int

    @property
    def text(self) -> str:
        """ "tcp A:P" or "tcp [A6]:P", for messages."""
        return f"{self.protocol} {f'[{self.ip}]' if ':' in self.ip else self.ip}:{self.port}"


class VirtualServer(NamedTuple):
    """A virtual server's settings. ``timeout``: of persistence, in seconds; ``prefix``: how many leading bits of their
    address clients have to share to stick together."""

    address: ServerAddress
    scheduler: str
    flags: int
    timeout: int
    prefix: int


class Target(NamedTuple):
    """What identifies a real server within its virtual server."""

    ip: str
    port: int

    @property
    def text(self) -> str:
        """ "A:P" or "[A6]:P"."""
        return f"[{self.ip}]:{self.port}" if ":" in self.ip else f"{self.ip}:{self.port}"


class RealServer(NamedTuple):
    """What the kernel tells of a real server: its settings, and how many connections it has."""

    weight: int
    method: int = MASQUERADING
    active: int = 0
    inactive: int = 0
    persistent: int = 0

    @property
    def connections(self) -> int:
        return self.active + self.inactive


class Info(NamedTuple):
    """The version of IPVS ("1.2.1") and the size of its table of connections."""

    version: str
    table_size: int


class Timeouts(NamedTuple):
    """How long idle connections are kept, in seconds: open TCP ones, TCP ones after a FIN, UDP ones."""

    tcp: int
    tcp_fin: int
    udp: int


class Command(NamedTuple):
    """A message to the kernel, without its netlink header."""

    body: bytes
    purpose: str


def new_server(server: VirtualServer) -> Command:
    """Refused with EEXIST where there is a virtual server at the address, with ENOENT for an unknown scheduler."""
    return _command(_NEW_SERVICE, _service(server), f"make the virtual server {server.address.text}")


def set_server(server: VirtualServer) -> Command:
    """Change scheduler and persistence; connections and real servers stay. ESRCH: there is no such server."""
    return _command(_SET_SERVICE, _service(server), f"change the virtual server {server.address.text}")


def delete_server(address: ServerAddress) -> Command:
    """With its real servers. ESRCH: there is no such server."""
    return _command(_DEL_SERVICE, _which(address), f"delete the virtual server {address.text}")


def new_real(address: ServerAddress, target: Target, weight: int) -> Command:
    """Add a masquerading real server. EEXIST: it is there; ESRCH: there is no such virtual server."""
    purpose = f"add the real server {target.text} to {address.text}"
    return _command(_NEW_DEST, _which(address) + _destination(target, weight), purpose)


def set_real(address: ServerAddress, target: Target, weight: int) -> Command:
    """Change the weight; 0 is for no new connections. ENOENT: there is no such real server."""
    purpose = f"give the real server {target.text} of {address.text} the weight {weight}"
    return _command(_SET_DEST, _which(address) + _destination(target, weight), purpose)


def delete_real(address: ServerAddress, target: Target) -> Command:
    """Its connections end with it. ENOENT: there is no such real server."""
    purpose = f"delete the real server {target.text} of {address.text}"
    return _command(_DEL_DEST, _which(address) + nested(_ATTR_DEST, _target(target)), purpose)


def set_timeouts(timeouts: Timeouts) -> Command:
    """0 leaves a timeout as it is."""
    kinds = (_ATTR_TIMEOUT_TCP, _ATTR_TIMEOUT_TCP_FIN, _ATTR_TIMEOUT_UDP)
    parts = [u32(kind, seconds) for kind, seconds in zip(kinds, timeouts, strict=True)]
    return _command(_SET_CONFIG, b"".join(parts), "set the timeouts of IPVS")


def flush() -> Command:
    """Delete all virtual servers, whoever made them."""
    return _command(_FLUSH, b"", "delete all virtual servers")


class Ipvs:
    """IPVS of the network namespace that the calling thread is in when this is made.

    Raises :class:`MachineCannot` where the kernel has none; asking for it loads the module where that is allowed.
    """

    def __init__(self) -> None:
        self._netlink = NetlinkSocket(NETLINK_GENERIC)
        try:
            self._family = _family(self._netlink)
        except BaseException:
            self._netlink.close()
            raise

    def __enter__(self) -> Ipvs:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._netlink.close()

    def run(self, commands: Iterable[Command]) -> None:
        """Carry out the commands, in order, many a system call; raise the first :class:`NetlinkError` after the
        batch in which it happened."""
        self._netlink.run(Request(self._family, 0, command.body, command.purpose) for command in commands)

    def servers(self) -> list[VirtualServer]:
        """All virtual servers of both families, less those for firewall marks."""
        found = []
        for message in self._dump(_GET_SERVICE, b"", "list the virtual servers"):
            server = _read_service(dict(attributes(message)).get(_ATTR_SERVICE, b""))
            if server is not None:
                found.append(server)
        return found

    def reals(self, address: ServerAddress) -> dict[Target, RealServer]:
        """The real servers of one virtual server; none where it does not exist."""
        found = {}
        family = socket.AF_INET6 if ":" in address.ip else socket.AF_INET
        for message in self._dump(_GET_DEST, _which(address), f"list the real servers of {address.text}"):
            target, real = _read_destination(dict(attributes(message)).get(_ATTR_DEST, b""), family)
            found[target] = real
        return found

    def all_reals(self, addresses: Sequence[ServerAddress]) -> dict[ServerAddress, dict[Target, RealServer]]:
        """The real servers of many virtual servers; none of one that does not exist.

        Reading the table is cheaper than asking for each. Where other network namespaces have virtual servers, too, the
        table leaves some out from its second page on (ip_vs_info_seq_next counts theirs, ip_vs_info_array does not),
        and never says the wrong thing of one that is in it: so only these are asked for.
        """
        table = parse_table(_TABLE.read_text()) if len(addresses) >= MANY else {}
        return {address: table[address] if address in table else self.reals(address) for address in addresses}

    def timeouts(self) -> Timeouts:
        answers = self._netlink.exchange(self._family, 0, _HEADER.pack(_GET_CONFIG, _VERSION), "read the timeouts")
        values = dict(attributes(answers[0].body[_HEADER.size :]))
        kinds = (_ATTR_TIMEOUT_TCP, _ATTR_TIMEOUT_TCP_FIN, _ATTR_TIMEOUT_UDP)
        return Timeouts(*(_number(values[kind]) for kind in kinds))

    def info(self) -> Info:
        answers = self._netlink.exchange(self._family, 0, _HEADER.pack(_GET_INFO, _VERSION), "read IPVS' version")
        values = dict(attributes(answers[0].body[_HEADER.size :]))
        version = _number(values[_INFO_VERSION])
        words = ".".join(str(version >> shift & 0xFF) for shift in (16, 8, 0))
        return Info(words, _number(values[_INFO_TABLE_SIZE]))

    def _dump(self, command: int, body: bytes, purpose: str) -> Iterator[bytes]:
        header = _HEADER.pack(command, _VERSION)
        for message in self._netlink.exchange(self._family, NLM_F_DUMP, header + body, purpose):
            yield message.body[_HEADER.size :]


def parse_table(table: str) -> dict[ServerAddress, dict[Target, RealServer]]:
    """What /proc/net/ip_vs says (ip_vs_info_seq_show): addresses and ports in hexadecimal."""
    found: dict[ServerAddress, dict[Target, RealServer]] = {}
    reals: dict[Target, RealServer] = {}
    for line in table.splitlines()[3:]:
        words = line.split()
        if words[0] == "->":
            ip, port = _hexadecimal(words[1])
            reals[Target(ip, port)] = RealServer(int(words[3]), _METHODS[words[2]], int(words[4]), int(words[5]))
        else:
            reals = {}
            if words[0].lower() in _PROTOCOLS:
                ip, port = _hexadecimal(words[1])
                found[ServerAddress(words[0].lower(), ip, port)] = reals
    return found


def connections(place: str) -> list[IpvsRecord]:
    """The connections of the thread's network namespace, but for templates of persistence, which no packet has."""
    return parse_connections(place, _CONNECTIONS.read_text())


def parse_connections(place: str, table: str) -> list[IpvsRecord]:
    """What /proc/net/ip_vs_conn says (ip_vs_conn_seq_show): addresses and ports in hexadecimal, IPv6 with colons."""
    found = []
    for number, line in enumerate(table.splitlines()[1:], 1):
        protocol, *words = line.split()
        client, virtual, real = (_connection_end(*words[start : start + 2]) for start in (0, 2, 4))
        if not client.endswith(":0"):
            identifier = f"ipvs:{place}#{number}"
            found.append(IpvsRecord(identifier, place, protocol.lower(), client, virtual, real, words[6]))
    return found


def _connection_end(ip: str, port: str) -> str:
    address = str(IPv6Address(ip)) if ":" in ip else socket.inet_ntoa(bytes.fromhex(ip))
    return Target(address, int(port, 16)).text


def works() -> bool:
    """Whether the kernel has IPVS, and lets the caller configure it in the thread's network namespace.

    Looked for in the list of all families: asked for by its name, a kernel that has it as a module would load it, and
    then it is the whole host that has changed.
    """
    with NetlinkSocket(NETLINK_GENERIC) as netlink:
        header = _HEADER.pack(_CTRL_GETFAMILY, _VERSION)
        answers = netlink.exchange(_CTRL_ID, NLM_F_DUMP, header, "list the families of generic netlink")
        families = [dict(attributes(each.body[_HEADER.size :])) for each in answers]
    if not any(each.get(_CTRL_FAMILY_NAME) == b"IPVS\0" for each in families):
        return False
    with Ipvs() as ipvs:
        try:
            # Timeouts of 0 stay as they are; but only who may set them may say so.
            ipvs.run([set_timeouts(Timeouts(0, 0, 0))])
        except NetlinkError as error:
            if error.errno == errno.EPERM:
                return False
            raise
    return True


def check_usable(scheduler: str) -> None:
    """Whether IPVS works here with the scheduler, as kube-proxy finds out before it starts in this mode.

    Unless a virtual server with the scheduler is there already, one is made and deleted, at an address that is
    reserved for documentation (RFC 5737). Raises :class:`MachineCannot`, naming what is missing.
    """
    address = ServerAddress("tcp", "198.51.100.0", 20000)
    with Ipvs() as ipvs:
        try:
            there = ipvs.servers()
            if any(server.scheduler == scheduler for server in there):
                return
            left_behind = [delete_server(address)] if any(server.address == address for server in there) else []
            probe = VirtualServer(address, scheduler, 0, 0, 32)
            ipvs.run([*left_behind, new_server(probe), delete_server(address)])
        except NetlinkError as error:
            if error.errno == errno.ENOENT:
                raise MachineCannot(NO_SCHEDULER(scheduler=scheduler)) from error
            if error.errno == errno.EPERM:
                raise MachineCannot(FORBIDDEN()) from error
            raise


def _family(netlink: NetlinkSocket) -> int:
    body = _HEADER.pack(_CTRL_GETFAMILY, _VERSION) + text(_CTRL_FAMILY_NAME, "IPVS")
    try:
        answers = netlink.exchange(_CTRL_ID, 0, body, "look up IPVS")
    except NetlinkError as error:
        if error.errno == errno.ENOENT:
            raise MachineCannot(UNSUPPORTED()) from error
        raise
    values = dict(attributes(answers[0].body[_HEADER.size :]))
    return int(struct.unpack_from("=H", values[_CTRL_FAMILY_ID])[0])


def _command(command: int, body: bytes, purpose: str) -> Command:
    return Command(_HEADER.pack(command, _VERSION) + body, purpose)


def _identity(address: ServerAddress) -> bytes:
    family, packed = _packed(address.ip)
    return b"".join(
        (
            u16(_SVC_AF, family),
            u16(_SVC_PROTOCOL, _PROTOCOLS[address.protocol]),
            attribute(_SVC_ADDR, packed),
            be16(_SVC_PORT, address.port),
        )
    )


def _which(address: ServerAddress) -> bytes:
    return nested(_ATTR_SERVICE, _identity(address))


def _service(server: VirtualServer) -> bytes:
    """The mask of IPv6 is a prefix length; both are in the machine's byte order."""
    mask = server.prefix
    if ":" not in server.address.ip:
        mask = struct.unpack("=I", struct.pack("!I", 0xFFFFFFFF << (32 - server.prefix) & 0xFFFFFFFF))[0]
    return nested(
        _ATTR_SERVICE,
        _identity(server.address),
        text(_SVC_SCHEDULER, server.scheduler),
        attribute(_SVC_FLAGS, struct.pack("=II", server.flags, 0xFFFFFFFF)),
        u32(_SVC_TIMEOUT, server.timeout),
        u32(_SVC_NETMASK, mask),
    )


def _target(target: Target) -> bytes:
    family, packed = _packed(target.ip)
    return u16(_DEST_AF, family) + attribute(_DEST_ADDR, packed) + be16(_DEST_PORT, target.port)


def _destination(target: Target, weight: int) -> bytes:
    return nested(
        _ATTR_DEST,
        _target(target),
        u32(_DEST_METHOD, MASQUERADING),
        u32(_DEST_WEIGHT, weight),
        u32(_DEST_UPPER, 0),
        u32(_DEST_LOWER, 0),
    )


def _packed(ip: str) -> tuple[int, bytes]:
    """The family, and the address as union nf_inet_addr: 16 bytes in both families."""
    if ":" in ip:
        return socket.AF_INET6, socket.inet_pton(socket.AF_INET6, ip)
    return socket.AF_INET, socket.inet_aton(ip) + bytes(12)


def _unpacked(family: int, packed: bytes) -> str:
    return socket.inet_ntoa(packed[:4]) if family == socket.AF_INET else str(IPv6Address(packed))


def _read_service(data: bytes) -> VirtualServer | None:
    values = dict(attributes(data))
    if _SVC_FWMARK in values or _SVC_ADDR not in values:
        return None
    family = struct.unpack_from("=H", values[_SVC_AF])[0]
    protocol = _PROTOCOL_NAMES.get(struct.unpack_from("=H", values[_SVC_PROTOCOL])[0])
    if protocol is None:
        return None
    address = ServerAddress(protocol, _unpacked(family, values[_SVC_ADDR]), _port(values[_SVC_PORT]))
    mask = values[_SVC_NETMASK]
    prefix = _number(mask) if family == socket.AF_INET6 else struct.unpack("!I", mask)[0].bit_count()
    scheduler = values[_SVC_SCHEDULER].rstrip(b"\0").decode()
    flags = _number(values[_SVC_FLAGS]) & ~_HASHED
    return VirtualServer(address, scheduler, flags, _number(values[_SVC_TIMEOUT]), prefix)


def _read_destination(data: bytes, family: int) -> tuple[Target, RealServer]:
    """``family`` is that of the virtual server: kernels before 3.18 do not name the real server's own."""
    values = dict(attributes(data))
    if _DEST_AF in values:
        family = struct.unpack_from("=H", values[_DEST_AF])[0]
    target = Target(_unpacked(family, values[_DEST_ADDR]), _port(values[_DEST_PORT]))
    kinds = (_DEST_WEIGHT, _DEST_METHOD, _DEST_ACTIVE, _DEST_INACTIVE, _DEST_PERSISTENT)
    return target, RealServer._make(_number(values[kind]) for kind in kinds)


def _number(value: bytes) -> int:
    return int(struct.unpack_from("=I", value)[0])


def _port(value: bytes) -> int:
    return int(struct.unpack_from("!H", value)[0])


def _hexadecimal(text: str) -> tuple[str, int]:
    """ "0A60000A:0050" or "[fd00:…]:0050"."""
    address, _, port = text.rpartition(":")
    if address.startswith("["):
        return str(IPv6Address(address[1:-1])), int(port, 16)
    return socket.inet_ntoa(bytes.fromhex(address)), int(port, 16)
