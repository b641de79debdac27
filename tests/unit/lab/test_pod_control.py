"""What Pods are told to listen on, and the conversation about it."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Iterator

import pytest

from netlab.lab.pods import PodProcess, declared_ports


@pytest.mark.parametrize(
    ("declared", "from_slices", "expected"),
    [([8080, 80, 8080], [9], [80, 8080]), ([], [9, 3, 9], [3, 9]), ([], [], [])],
)
def test_ports_are_the_declared_ones_or_else_those_that_get_traffic(
    declared: list[int], from_slices: list[int], expected: list[int]
) -> None:
    assert declared_ports(declared, lambda: from_slices) == expected


@pytest.fixture
def pod() -> Iterator[tuple[PodProcess, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield PodProcess("default/web", ours, 1), theirs


def talk(process: PodProcess, far: socket.socket, answer: Callable[[bytes], list[bytes]]) -> dict[str, str]:
    """Have the Pod listen; ``answer`` makes the pieces that come back out of the request."""

    async def run() -> dict[str, str]:
        told = asyncio.ensure_future(process.listen([80, 443]))
        request = await asyncio.get_running_loop().run_in_executor(None, far.recv, 65536)
        for piece in answer(request):
            far.sendall(piece)
            await asyncio.sleep(0.01)
        return await told

    return asyncio.run(asyncio.wait_for(run(), 5))


def test_a_pod_says_which_ports_it_could_not_have(pod: tuple[PodProcess, socket.socket]) -> None:
    requests = []

    def answer(request: bytes) -> list[bytes]:
        requests.append(json.loads(request))
        line = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"failed": {"80": "EADDRINUSE"}}}).encode() + b"\n"
        return [line[:10], line[10:]]

    assert talk(*pod, answer) == {"80": "EADDRINUSE"}
    assert [(each["method"], each["params"]) for each in requests] == [("listen", {"ports": [80, 443]})]


def test_a_pod_that_ends_meanwhile_is_an_error(pod: tuple[PodProcess, socket.socket]) -> None:
    process, far = pod

    def answer(request: bytes) -> list[bytes]:
        far.shutdown(socket.SHUT_RDWR)
        return []

    with pytest.raises(ConnectionError, match="default/web"):
        talk(process, far, answer)


def test_a_pod_that_has_ended_is_an_error(pod: tuple[PodProcess, socket.socket]) -> None:
    process, far = pod
    far.close()
    with pytest.raises(ConnectionError):
        asyncio.run(process.listen([80]))
