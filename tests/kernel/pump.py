"""Clients of servers that live in an :class:`EventLoop`, in the same thread: the loop is turned while they wait."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from netlab.node.eventloop import EventLoop

WAIT_S = 10.0


def until(loop: EventLoop, done: Callable[[], bool]) -> None:
    """Turn the loop until something is so."""
    end = time.monotonic() + WAIT_S
    while not done():
        assert time.monotonic() < end, "it did not come to that"
        loop.turn(0.02)


def received(loop: EventLoop, client: socket.socket, enough: Callable[[bytes], bool]) -> bytes:
    """What a client gets until it is enough or the connection ends."""
    client.setblocking(False)
    data = b""
    ended = False

    def step() -> bool:
        nonlocal data, ended
        try:
            piece = client.recv(65536)
        except BlockingIOError:
            return False
        data += piece
        ended = not piece
        return ended or enough(data)

    until(loop, step)
    return data


def get(loop: EventLoop, host: str, port: int, path: str = "/", method: str = "GET") -> tuple[int, dict[str, str], str]:
    """Status, headers (names in lower case) and body of one request on a connection of its own."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.connect((host, port))
        client.sendall(f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        answer = received(loop, client, lambda _: False).decode()
    head, _, body = answer.partition("\r\n\r\n")
    first, *lines = head.split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return int(first.split(" ")[1]), headers, body
