"""Answers for addresses that are on no interface: ARP (RFC 826) and neighbour discovery (RFC 4861) on one link.

As MetalLB's speaker does it in layer 2 mode: who asks for the address is told this node's MAC address, and when the
node takes an address over, all on the link are told without having asked.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address

from netlab.node.eventloop import READ, EventLoop, Timer

_ETH_P_ARP = 0x0806
_ARP = struct.Struct("!HHBBH6s4s6s4s")
_REQUEST, _REPLY = 1, 2
_BROADCAST = b"\xff" * 6
_ICMP6_FILTER = 1
_SOLICITATION, _ADVERTISEMENT = 135, 136
_TARGET_LINK_ADDRESS = 2
_OVERRIDE, _SOLICITED = 0x20000000, 0x40000000
_ALL_NODES = "ff02::1"

REPEATS, REPEAT_S = 5, 1.1
"""An address that was taken over is announced so often, so far apart."""


class L2Announcer:
    """The answers of one node on one link, made in the network namespace that the thread is in.

    ``interface``: the link's name; ``mac``: its address, "02:…".
    """

    def __init__(self, loop: EventLoop, interface: str, mac: str) -> None:
        self.loop = loop
        self.interface = interface
        self.mac = bytes.fromhex(mac.replace(":", ""))
        self.addresses: set[IPv4Address | IPv6Address] = set()
        self._index = socket.if_nametoindex(interface)
        self._timers: dict[IPv4Address | IPv6Address, Timer] = {}
        self._arp = socket.socket(
            socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK, socket.htons(_ETH_P_ARP)
        )
        self._arp.bind((interface, _ETH_P_ARP))
        loop.watch(self._arp, READ, lambda _: self._hear_arp())
        self._icmp = self._icmp_socket()
        if self._icmp is not None:
            loop.watch(self._icmp, READ, lambda _: self._hear_solicitation())

    def _icmp_socket(self) -> socket.socket | None:
        """A socket that gets neighbour solicitations alone; None where the kernel has no IPv6."""
        kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        try:
            made = socket.socket(socket.AF_INET6, kind, socket.IPPROTO_ICMPV6)
        except OSError:
            return None
        blocked = [0xFFFFFFFF] * 8
        blocked[_SOLICITATION >> 5] &= ~(1 << (_SOLICITATION & 31))
        made.setsockopt(socket.IPPROTO_ICMPV6, _ICMP6_FILTER, struct.pack("=8I", *blocked))
        made.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, self.interface.encode())
        for option in (socket.IPV6_UNICAST_HOPS, socket.IPV6_MULTICAST_HOPS):
            made.setsockopt(socket.IPPROTO_IPV6, option, 255)
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, self._index)
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, 0)
        return made

    def close(self) -> None:
        self.set_addresses(())
        for each in (self._arp, self._icmp):
            if each is not None:
                self.loop.forget(each)
                each.close()

    def set_addresses(self, addresses: Iterable[str]) -> None:
        """Answer for exactly these; announce those that are new."""
        wanted = {ip_address(text) for text in addresses}
        for ip in self.addresses - wanted:
            self._timers.pop(ip).cancel()
            self._group(ip, join=False)
        new = wanted - self.addresses
        self.addresses = wanted
        for ip in sorted(new, key=int):
            self._group(ip, join=True)
            self._announce(ip, REPEATS)

    def _group(self, ip: IPv4Address | IPv6Address, *, join: bool) -> None:
        """Solicitations for an address go to a multicast group that is made from its last 24 bits."""
        if ip.version == 4 or self._icmp is None:
            return
        groups = [_solicited_node(each) for each in self.addresses if each.version == 6 and each != ip]
        group = _solicited_node(ip)
        if group in groups:
            return
        option = socket.IPV6_JOIN_GROUP if join else socket.IPV6_LEAVE_GROUP
        with suppress(OSError):
            self._icmp.setsockopt(socket.IPPROTO_IPV6, option, group + struct.pack("=I", self._index))

    def _announce(self, ip: IPv4Address | IPv6Address, times: int) -> None:
        if ip.version == 4:
            # Some hosts learn from requests alone, others from replies alone.
            for operation in (_REQUEST, _REPLY):
                self._send_arp(operation, _BROADCAST, ip.packed, _BROADCAST, ip.packed)
        else:
            self._advertise(ip.packed, _ALL_NODES, _OVERRIDE)
        again = times - 1
        self._timers[ip] = self.loop.call_later(REPEAT_S, lambda: self._announce(ip, again) if again else None)

    def _hear_arp(self) -> None:
        try:
            frame = self._arp.recv(2048)
        except OSError:
            return
        if len(frame) < 14 + _ARP.size:
            return
        _, kind, size, length, operation, mac, sender, _, target = _ARP.unpack_from(frame, 14)
        if operation != _REQUEST or (kind, size, length) != (0x0800, 6, 4) or mac == self.mac:
            return
        if IPv4Address(target) in self.addresses:
            self._send_arp(_REPLY, mac, target, mac, sender)

    def _send_arp(self, operation: int, to: bytes, ip: bytes, target_mac: bytes, target: bytes) -> None:
        head = to + self.mac + struct.pack("!H", _ETH_P_ARP)
        packet = _ARP.pack(1, 0x0800, 6, 4, operation, self.mac, ip, target_mac, target)
        # A link that is down hears nothing, and is told again or asks when it is up.
        with suppress(OSError):
            self._arp.send(head + packet)

    def _hear_solicitation(self) -> None:
        assert self._icmp is not None
        try:
            message, sender = self._icmp.recvfrom(2048)
        except OSError:
            return
        if len(message) < 24 or message[0] != _SOLICITATION:
            return
        target = message[8:24]
        if IPv6Address(target) not in self.addresses:
            return
        host = str(sender[0]).partition("%")[0]
        if host == "::":
            # Somebody looks whether the address is free: it is not.
            self._advertise(target, _ALL_NODES, _OVERRIDE)
        else:
            self._advertise(target, host, _OVERRIDE | _SOLICITED)

    def _advertise(self, target: bytes, to: str, flags: int) -> None:
        """The kernel fills in the checksum."""
        if self._icmp is None:
            return
        option = struct.pack("!BB", _TARGET_LINK_ADDRESS, 1) + self.mac
        message = struct.pack("!BBHI", _ADVERTISEMENT, 0, 0, flags) + target + option
        with suppress(OSError):
            self._icmp.sendto(message, (to, 0, 0, self._index))


def _solicited_node(ip: IPv4Address | IPv6Address) -> bytes:
    return IPv6Address("ff02::1:ff00:0").packed[:13] + ip.packed[13:]
