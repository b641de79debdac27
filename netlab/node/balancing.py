"""The processes of the lab's load balancer: a speaker on each node (mode l2), a box beside them (mode proxy).

Each is a child of a fork server, in a network namespace that it is given, and does what its control connection says
until that closes: lines of JSON-RPC with the method "announce" ({"addresses": […]}) or "serve" ({"frontends": […]}).
What it cannot do goes the other way, as "balancer.complaint".
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from netlab.kernel import libc
from netlab.model import jsonrpc
from netlab.model.balancer import Frontend
from netlab.model.text import Text
from netlab.node.balancer_box import CHECK_S, BalancerBox
from netlab.node.eventloop import READ, EventLoop
from netlab.node.l2_announcer import L2Announcer
from netlab.node.userspace.sockets import raise_descriptor_limit

SPEAKER, BOX = "l2-speaker", "load-balancer"
_CHUNK = 64 * 1024


def speak(given: Mapping[str, Any], descriptors: list[int]) -> None:
    """A speaker: ``given`` names its link ("interface") and the link's address ("mac").

    Descriptors: the network namespace, the control connection.
    """
    control = _enter(descriptors, b"l2-speaker")
    loop = EventLoop()
    announcer = L2Announcer(loop, given["interface"], given["mac"])
    _obey(loop, control, {"announce": lambda params: announcer.set_addresses(params["addresses"])})


def balance(given: Mapping[str, Any], descriptors: list[int]) -> None:
    """A box: ``given`` has its name ("place") and, if it is to differ, how often nodes are asked ("check_s").

    Descriptors as for :func:`speak`.
    """
    control = _enter(descriptors, b"load-balancer")
    raise_descriptor_limit()
    loop = EventLoop()

    def complain(text: Text) -> None:
        with suppress(ConnectionError):
            control.sendall(jsonrpc.notification("balancer.complaint", msgspec.to_builtins(text)))

    box = BalancerBox(
        loop,
        given["place"],
        # Nobody keeps a list of its connections; there may be very many.
        report=lambda _: None,
        complain=complain,
        check_s=given.get("check_s", CHECK_S),
    )
    _obey(
        loop, control, {"serve": lambda params: box.set_frontends(msgspec.convert(params["frontends"], list[Frontend]))}
    )


HANDLERS = {SPEAKER: speak, BOX: balance}
"""For a fork server."""


def _enter(descriptors: list[int], name: bytes) -> socket.socket:
    namespace, connection, *_ = descriptors
    libc.setns(namespace, libc.CLONE_NEWNET)
    os.close(namespace)
    libc.prctl(libc.PR_SET_NAME, name)
    return socket.socket(fileno=connection)


def _obey(loop: EventLoop, control: socket.socket, methods: Mapping[str, Callable[[Any], None]]) -> None:
    """Until the control connection closes. A request with an id is answered when it has been done."""
    lines = jsonrpc.LineBuffer()
    open_ = True

    def hear(_: int) -> None:
        nonlocal open_
        try:
            data = control.recv(_CHUNK)
            for line in lines.feed(data):
                message = jsonrpc.decode(line)
                methods[message.method or ""](message.params)
                if message.id is not None:
                    control.sendall(jsonrpc.answer(message.id, {}))
            open_ = bool(data)
        except ConnectionError:
            open_ = False

    loop.watch(control, READ, hear)
    while open_:
        loop.turn(timeout=3600)
