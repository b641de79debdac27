"""The floor under building a lab: the same namespaces, links, addresses and routes through bare batched netlink, and as
many idle processes, one in each Pod's namespace. Standard library only; nothing of the product is used.

Run inside an unshared user, mount, pid and network namespace. Standard input: JSON
``{"namespaces": [...], "bridges": [[place, name, index]], "veths": [[place, name, index, place, name, index]],
"ports": [[place, index, bridge index]], "addresses": [[place, index, "A/len"]],
"routes": [[place, "NET/len", "A" or null, index or null]], "processes": [place, ...], "rules": [[place, 4|6, text]]}``.
Prints the milliseconds that it took, as JSON:
``{"namespaces": ..., "links": ..., "inside": ..., "processes": ..., "rules": ...}``.
"""

from __future__ import annotations

import ctypes
import ipaddress
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from typing import Any

CLONE_NEWNET = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)


def check(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + b"\0" * (-len(value) % 4)


def message(kind: int, flags: int, body: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, flags | 1, 1, 0) + body


def link(index: int, flags: int = 0) -> bytes:
    return struct.pack("=BxHiII", 0, 0, index, flags, flags)


def exchange(netlink: socket.socket, batch: list[bytes]) -> None:
    """Send in few system calls; only the last message of each is acknowledged, errors come unasked."""
    position = 0
    while position < len(batch):
        size, end = 0, position
        while end < len(batch) and size < 48000:
            size += len(batch[end])
            end += 1
        last = bytearray(batch[end - 1])
        struct.pack_into("=H", last, 6, struct.unpack_from("=H", last, 6)[0] | 4)
        netlink.send(b"".join(batch[position : end - 1]) + bytes(last))
        answer = netlink.recv(262144)
        code = struct.unpack_from("=i", answer, 16)[0]
        if code:
            raise OSError(-code, os.strerror(-code))
        position = end


def veth(end: list[Any], descriptors: dict[str, int]) -> bytes:
    place, name, index, far_place, far_name, far_index = end
    peer = link(far_index) + attribute(3, far_name.encode() + b"\0")
    peer += attribute(28, struct.pack("=I", descriptors[far_place]))
    kind = attribute(1, b"veth") + attribute(0x8002, attribute(0x8001, peer))
    body = link(index) + attribute(3, name.encode() + b"\0")
    body += attribute(28, struct.pack("=I", descriptors[place])) + attribute(0x8012, kind)
    return message(16, 0x600, body)


def address(index: int, text: str) -> bytes:
    each = ipaddress.ip_interface(text)
    family = socket.AF_INET if each.version == 4 else socket.AF_INET6
    head = struct.pack("=BBBBI", family, each.network.prefixlen, 0 if each.version == 4 else 2, 0, index)
    return message(20, 0x600, head + attribute(2, each.ip.packed) + attribute(1, each.ip.packed))


def route(destination: str, via: str | None, index: int | None) -> bytes:
    network = ipaddress.ip_network(destination)
    family = socket.AF_INET if network.version == 4 else socket.AF_INET6
    scope = 253 if via is None and network.version == 4 else 0
    body = struct.pack("=BBBBBBBBI", family, network.prefixlen, 0, 0, 254, 4, scope, 1, 0)
    if network.prefixlen:
        body += attribute(1, network.network_address.packed)
    if via is not None:
        body += attribute(5, ipaddress.ip_address(via).packed)
    if index is not None:
        body += attribute(4, struct.pack("=I", index))
    return message(24, 0x600, body)


def main() -> None:
    wanted = json.load(sys.stdin)
    clock = [time.perf_counter()]

    descriptors, sockets = {}, {}
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    for name in wanted["namespaces"]:
        check(libc.unshare(CLONE_NEWNET))
        descriptors[name] = os.open("/proc/self/ns/net", os.O_RDONLY)
        sockets[name] = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    check(libc.setns(home, CLONE_NEWNET))
    outside = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    clock.append(time.perf_counter())

    for place, name, index in wanted["bridges"]:
        body = link(index) + attribute(3, name.encode() + b"\0") + attribute(0x8012, attribute(1, b"bridge"))
        exchange(sockets[place], [message(16, 0x600, body)])
    exchange(outside, [veth(each, descriptors) for each in wanted["veths"]])
    clock.append(time.perf_counter())

    inside: dict[str, list[bytes]] = {name: [message(19, 0, link(1, 1))] for name in wanted["namespaces"]}
    for place, index, bridge in wanted["ports"]:
        inside[place].append(message(19, 0, link(index) + attribute(10, struct.pack("=I", bridge))))
    for place, index, text in wanted["addresses"]:
        inside[place].append(address(index, text))
    for place, _, index in wanted["bridges"]:
        inside[place].append(message(19, 0, link(index, 1)))
    for one, _, index, other, _, far_index in wanted["veths"]:
        inside[one].append(message(19, 0, link(index, 1)))
        inside[other].append(message(19, 0, link(far_index, 1)))
    for place, destination, via, index in wanted["routes"]:
        inside[place].append(route(destination, via, index))
    for place, batch in inside.items():
        exchange(sockets[place], batch)
    clock.append(time.perf_counter())

    for place in wanted["processes"]:
        if os.fork() == 0:
            check(libc.setns(descriptors[place], CLONE_NEWNET))
            signal.pause()
    clock.append(time.perf_counter())

    for place, family, text in wanted["rules"]:
        check(libc.setns(descriptors[place], CLONE_NEWNET))
        program = "iptables-nft-restore" if family == 4 else "ip6tables-nft-restore"
        subprocess.run([program, "--noflush"], input=text.encode(), check=True)
    clock.append(time.perf_counter())

    names = ("namespaces", "links", "inside", "processes", "rules")
    print(json.dumps({name: (clock[i + 1] - clock[i]) * 1000 for i, name in enumerate(names)}))


main()
