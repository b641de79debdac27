"""Links, addresses, routes and device features as netlink requests (rtnetlink(7), ethtool-netlink of the kernel docs).

Each function returns a :class:`Request`; :meth:`NetlinkSocket.run` sends many of them at once.
"""

from __future__ import annotations

import socket
import struct
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network, ip_address

from netlab.kernel.netlink import (
    NETLINK_GENERIC,
    NLM_F_CREATE,
    NLM_F_DUMP,
    NLM_F_EXCL,
    NLM_F_REPLACE,
    NetlinkSocket,
    Request,
    attribute,
    attributes,
    nested,
    text,
    u8,
    u32,
)

Address = IPv4Address | IPv6Address
Interface = IPv4Interface | IPv6Interface
Network = IPv4Network | IPv6Network

RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK, RTM_SETLINK = 16, 17, 18, 19
RTM_NEWADDR, RTM_DELADDR, RTM_GETADDR = 20, 21, 22
RTM_NEWROUTE, RTM_DELROUTE = 24, 25
RTM_SETNEIGHTBL = 67

IFF_UP = 0x1
_AF_BRIDGE = 7
_IFA_F_NODAD = 0x02
_RT_TABLE_MAIN, _RTPROT_STATIC, _RTN_UNICAST = 254, 4, 1
_RT_SCOPE_UNIVERSE, _RT_SCOPE_LINK, _RT_SCOPE_HOST = 0, 253, 254

_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MTU, _IFLA_MASTER, _IFLA_LINKINFO = 1, 3, 4, 10, 18
_IFLA_NET_NS_FD, _IFLA_AF_SPEC, _IFLA_PROTINFO = 28, 26, 12
_IFLA_INFO_KIND, _IFLA_INFO_DATA = 1, 2
_IFLA_VXLAN_ID, _IFLA_VXLAN_LINK, _IFLA_VXLAN_LOCAL, _IFLA_VXLAN_LEARNING, _IFLA_VXLAN_PORT = 1, 3, 4, 7, 15
_VETH_INFO_PEER = 1
_IFLA_BRPORT_MODE = 4
_IFLA_INET6_ADDR_GEN_MODE = 8
_NDA_DST, _NDA_LLADDR = 1, 2
_NDTA_NAME, _NDTA_PARMS = 1, 6
_NDTPA_IFINDEX, _NDTPA_RETRANS_TIME = 1, 5
RTM_NEWNEIGH = 28
_NUD_PERMANENT = 0x80
_NTF_SELF = 0x02

_CREATE = NLM_F_CREATE | NLM_F_EXCL


def _link_header(index: int, flags: int = 0, change: int = 0, family: int = 0) -> bytes:
    return struct.pack("=BxHiII", family, 0, index, flags, change)


def mac_bytes(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))


def veth(
    name: str,
    index: int,
    mac: str,
    namespace: int,
    peer: str,
    peer_index: int,
    peer_mac: str,
    peer_namespace: int,
    mtu: int | None = None,
) -> Request:
    """A pair of virtual Ethernet links, each end made right in its namespace (by descriptor) under a chosen index.

    Neither end may be set up in this message: the kernel answers ENOTCONN for a peer in another namespace.
    """
    size = u32(_IFLA_MTU, mtu) if mtu is not None else b""
    peer_part = _link_header(peer_index) + b"".join(
        (
            text(_IFLA_IFNAME, peer),
            attribute(_IFLA_ADDRESS, mac_bytes(peer_mac)),
            size,
            u32(_IFLA_NET_NS_FD, peer_namespace),
        )
    )
    body = _link_header(index) + b"".join(
        (
            text(_IFLA_IFNAME, name),
            attribute(_IFLA_ADDRESS, mac_bytes(mac)),
            size,
            u32(_IFLA_NET_NS_FD, namespace),
            nested(
                _IFLA_LINKINFO,
                text(_IFLA_INFO_KIND, "veth"),
                nested(_IFLA_INFO_DATA, nested(_VETH_INFO_PEER, peer_part)),
            ),
        )
    )
    return Request(RTM_NEWLINK, _CREATE, body, f"make the link {name} with its peer {peer}")


def bridge(name: str, index: int, mac: str) -> Request:
    """An Ethernet bridge in the socket's namespace (no spanning tree, the kernel's defaults)."""
    body = _link_header(index) + b"".join(
        (
            text(_IFLA_IFNAME, name),
            attribute(_IFLA_ADDRESS, mac_bytes(mac)),
            nested(_IFLA_LINKINFO, text(_IFLA_INFO_KIND, "bridge")),
        )
    )
    return Request(RTM_NEWLINK, _CREATE, body, f"make the bridge {name}")


def vxlan(name: str, index: int, mac: str, identifier: int, underlay: int, local: Address, port: int) -> Request:
    """A VXLAN device over the link ``underlay``. It learns nothing: :func:`forward_entry` tells it where to send."""
    local_kind = _IFLA_VXLAN_LOCAL if local.version == 4 else 17
    body = _link_header(index) + b"".join(
        (
            text(_IFLA_IFNAME, name),
            attribute(_IFLA_ADDRESS, mac_bytes(mac)),
            nested(
                _IFLA_LINKINFO,
                text(_IFLA_INFO_KIND, "vxlan"),
                nested(
                    _IFLA_INFO_DATA,
                    u32(_IFLA_VXLAN_ID, identifier),
                    u32(_IFLA_VXLAN_LINK, underlay),
                    attribute(local_kind, local.packed),
                    u8(_IFLA_VXLAN_LEARNING, 0),
                    attribute(_IFLA_VXLAN_PORT, struct.pack("!H", port)),
                ),
            ),
        )
    )
    return Request(RTM_NEWLINK, _CREATE, body, f"make the VXLAN device {name}")


def forward_entry(index: int, mac: str, remote: Address) -> Request:
    """In the VXLAN device's forwarding database: frames for ``mac`` go to the node ``remote``."""
    header = struct.pack("=BxxxiHBB", _AF_BRIDGE, index, _NUD_PERMANENT, _NTF_SELF, 0)
    body = header + attribute(_NDA_LLADDR, mac_bytes(mac)) + attribute(_NDA_DST, remote.packed)
    return Request(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, body, f"tell where {mac} is ({remote})")


def neighbour(index: int, address: Address, mac: str) -> Request:
    """A permanent entry of the neighbour table."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    header = struct.pack("=BxxxiHBB", family, index, _NUD_PERMANENT, 0, 0)
    body = header + attribute(_NDA_DST, address.packed) + attribute(_NDA_LLADDR, mac_bytes(mac))
    return Request(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, body, f"tell the neighbour {address}")


def neighbour_retries(index: int, version: int, milliseconds: int, what: str) -> Request:
    """How long an interface waits for an answer before it asks for a neighbour again; after the third time without one
    the host is unreachable. A user namespace has no sysctl for this, but the same setting by netlink."""
    family, table = (socket.AF_INET, "arp_cache") if version == 4 else (socket.AF_INET6, "ndisc_cache")
    values = u32(_NDTPA_IFINDEX, index) + attribute(_NDTPA_RETRANS_TIME, struct.pack("=Q", milliseconds))
    body = struct.pack("=BxH", family, 0) + text(_NDTA_NAME, table) + nested(_NDTA_PARMS, values)
    return Request(RTM_SETNEIGHTBL, 0, body, f"set how long {what} waits for neighbours")


def enslave(index: int, master: int, what: str) -> Request:
    """Make the link a port of a bridge."""
    return Request(RTM_SETLINK, 0, _link_header(index) + u32(_IFLA_MASTER, master), f"make {what} a port")


def up(index: int, what: str) -> Request:
    return Request(RTM_SETLINK, 0, _link_header(index, IFF_UP, IFF_UP), f"set {what} up")


def down(index: int, what: str) -> Request:
    return Request(RTM_SETLINK, 0, _link_header(index, 0, IFF_UP), f"set {what} down")


def delete_link(index: int, what: str) -> Request:
    return Request(RTM_DELLINK, 0, _link_header(index), f"delete {what}")


def without_link_local(index: int, what: str) -> Request:
    """No IPv6 link-local address of the kernel's own choice (IN6_ADDR_GEN_MODE_NONE)."""
    body = _link_header(index) + nested(_IFLA_AF_SPEC, nested(socket.AF_INET6, u8(_IFLA_INET6_ADDR_GEN_MODE, 1)))
    return Request(RTM_SETLINK, 0, body, f"switch link-local addresses off on {what}")


def hairpin(index: int, on: bool, what: str) -> Request:
    """Hairpin mode of a bridge port: whether a frame may leave by the port it came in by (bridge(8))."""
    body = _link_header(index, family=_AF_BRIDGE) + nested(_IFLA_PROTINFO, u8(_IFLA_BRPORT_MODE, int(on)))
    return Request(RTM_SETLINK, 0, body, f"set hairpin mode of {what}")


def address(index: int, interface: Interface, what: str) -> Request:
    """An address with its prefix length; IPv6 without duplicate address detection, so that it is usable at once."""
    if interface.version == 4:
        header = struct.pack("=BBBBI", socket.AF_INET, interface.network.prefixlen, 0, _RT_SCOPE_UNIVERSE, index)
        body = header + attribute(2, interface.ip.packed) + attribute(1, interface.ip.packed)
        if interface.network.prefixlen < 31 and isinstance(interface, IPv4Interface):
            body += attribute(4, interface.network.broadcast_address.packed)
    else:
        header = struct.pack(
            "=BBBBI", socket.AF_INET6, interface.network.prefixlen, _IFA_F_NODAD, _RT_SCOPE_UNIVERSE, index
        )
        body = header + attribute(2, interface.ip.packed) + attribute(1, interface.ip.packed)
    return Request(RTM_NEWADDR, _CREATE, body, f"give {what} the address {interface}")


def route(destination: Network, *, via: Address | None = None, index: int | None = None, what: str = "") -> Request:
    """A route in the main table: ``via`` a gateway, or on-link out of the link ``index``, or both."""
    family = socket.AF_INET if destination.version == 4 else socket.AF_INET6
    scope = _RT_SCOPE_UNIVERSE if via is not None or family == socket.AF_INET6 else _RT_SCOPE_LINK
    header = struct.pack(
        "=BBBBBBBBI", family, destination.prefixlen, 0, 0, _RT_TABLE_MAIN, _RTPROT_STATIC, scope, _RTN_UNICAST, 0
    )
    parts = []
    if destination.prefixlen:
        parts.append(attribute(1, destination.network_address.packed))
    if via is not None:
        parts.append(attribute(5, via.packed))
    if index is not None:
        parts.append(u32(4, index))
    way = f"via {via}" if via is not None else f"over link {index}"
    return Request(RTM_NEWROUTE, _CREATE, header + b"".join(parts), f"add the route {destination} {way} in {what}")


def delete_route(
    destination: Network, *, via: Address | None = None, index: int | None = None, what: str = ""
) -> Request:
    """Take away what :func:`route` adds."""
    added = route(destination, via=via, index=index)
    return Request(RTM_DELROUTE, 0, added.body, f"delete the route {destination} in {what}")


def list_links(netlink: NetlinkSocket) -> dict[int, str]:
    """The links of the socket's namespace: names by index."""
    links = {}
    for message in netlink.exchange(RTM_GETLINK, NLM_F_DUMP, _link_header(0), "list the links"):
        index = struct.unpack_from("=i", message.body, 4)[0]
        for kind, value in attributes(message.body[16:]):
            if kind == _IFLA_IFNAME:
                links[index] = value.rstrip(b"\0").decode()
    return links


def list_addresses(netlink: NetlinkSocket) -> list[Address]:
    """All addresses on the interfaces of the socket's namespace, loopback and link-local ones too."""
    found: list[Address] = []
    for message in netlink.exchange(RTM_GETADDR, NLM_F_DUMP, struct.pack("=BxxxI", 0, 0), "list the addresses"):
        values = dict(attributes(message.body[8:]))
        packed = values.get(2, values.get(1))
        if packed is not None:
            found.append(ip_address(packed))
    return found


# Device features, over generic netlink (include/uapi/linux/ethtool_netlink.h).

_GENL_ID_CTRL, _CTRL_CMD_GETFAMILY = 16, 3
_CTRL_ATTR_FAMILY_ID, _CTRL_ATTR_FAMILY_NAME = 1, 2
_ETHTOOL_MSG_FEATURES_SET = 12
_ETHTOOL_A_HEADER_DEV_INDEX, _ETHTOOL_A_HEADER_FLAGS = 1, 3
_ETHTOOL_FLAG_OMIT_REPLY = 2
_OFFLOADS = (
    "tx-checksum-ip-generic",
    "tx-tcp-segmentation",
    "tx-tcp-ecn-segmentation",
    "tx-tcp-mangleid-segmentation",
    "tx-tcp6-segmentation",
    "tx-generic-segmentation",
    "tx-udp-segmentation",
    "tx-sctp-segmentation",
    "rx-gro",
    "tx-checksum-sctp",
)


def ethtool_family(netlink: NetlinkSocket) -> int:
    """The number of the generic netlink family "ethtool" (needs a NETLINK_GENERIC socket)."""
    body = struct.pack("=BBxx", _CTRL_CMD_GETFAMILY, 1) + text(_CTRL_ATTR_FAMILY_NAME, "ethtool")
    answers = netlink.exchange(_GENL_ID_CTRL, 0, body, "look up ethtool")
    for kind, value in attributes(answers[0].body[4:]):
        if kind == _CTRL_ATTR_FAMILY_ID:
            return int(struct.unpack_from("=H", value)[0])
    raise LookupError("the kernel has no ethtool netlink family")


def without_offloads(family: int, index: int, what: str) -> Request:
    """Switch off what would let the link carry unfinished checksums and frames larger than its MTU."""
    bits = b"".join(nested(1, text(2, name)) for name in _OFFLOADS)
    header = nested(1, u32(_ETHTOOL_A_HEADER_DEV_INDEX, index), u32(_ETHTOOL_A_HEADER_FLAGS, _ETHTOOL_FLAG_OMIT_REPLY))
    wanted = nested(3, nested(3, bits))
    body = struct.pack("=BBxx", _ETHTOOL_MSG_FEATURES_SET, 1) + header + wanted
    return Request(family, 0, body, f"switch offloads of {what} off")


def generic_socket() -> NetlinkSocket:
    return NetlinkSocket(NETLINK_GENERIC)
