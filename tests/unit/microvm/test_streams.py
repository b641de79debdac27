"""Connections over one line: what goes in at one end comes out at the other, whatever pieces the line makes of it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netlab.microvm.streams import BACKLOG_LIMIT, Decoder, Frame, Kind, Line, Stream

frames = st.lists(
    st.builds(Frame, st.sampled_from(Kind), st.integers(0, 2**32 - 1), st.binary(max_size=300)), max_size=20
)


@given(frames, st.integers(1, 500))
def test_frames_survive_any_cuts(sent: list[Frame], piece: int) -> None:
    data = b"".join(each.encode() for each in sent)
    decoder = Decoder()
    found = [frame for at in range(0, len(data), piece) for frame in decoder.feed(data[at : at + piece])]
    assert found == sent


def test_what_is_no_frame() -> None:
    with pytest.raises(ValueError, match="9"):
        Decoder().feed(b"\x09" + bytes(8))


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 10))


class Pair:
    """Both ends of a line; connections opened at the near one come out of ``accepted``."""

    def __init__(self) -> None:
        self.near = Line(unexpected)
        self.far = Line(self._accept)
        self.accepted: asyncio.Queue[tuple[socket.socket, str]] = asyncio.Queue()
        self._tasks: list[asyncio.Task[Any]] = []
        self._sockets: list[socket.socket] = []

    async def __aenter__(self) -> Pair:
        loop = asyncio.get_running_loop()
        for line, end in zip((self.near, self.far), socket.socketpair(), strict=True):
            await loop.connect_accepted_socket(lambda line=line: line, end)  # type: ignore[misc]
        return self

    async def __aexit__(self, *_: object) -> None:
        for each in self._sockets:
            each.close()
        await self.all_gone()
        for line in (self.near, self.far):
            assert line.writer is not None
            line.writer.close()
        await asyncio.gather(self.near.lost.wait(), self.far.lost.wait())

    async def all_gone(self) -> None:
        while self.near.streams or self.far.streams:
            await asyncio.sleep(0)

    async def open(self, purpose: str) -> tuple[socket.socket, socket.socket, Stream]:
        """A connection: its two ends, and the near stream."""
        ours, theirs = socket.socketpair()
        self._sockets.append(ours)
        ours.setblocking(False)
        stream = Stream(self.near)
        self.near.begin(stream, purpose)
        await asyncio.get_running_loop().connect_accepted_socket(lambda: stream, theirs)
        accepted, heard = await self.accepted.get()
        assert heard == purpose
        return ours, accepted, stream

    def _accept(self, stream: Stream, purpose: str) -> None:
        ours, theirs = socket.socketpair()
        self._sockets.append(ours)
        ours.setblocking(False)
        loop = asyncio.get_running_loop()
        self._tasks.append(loop.create_task(loop.connect_accepted_socket(lambda: stream, theirs)))
        self.accepted.put_nowait((ours, purpose))


def unexpected(stream: Stream, purpose: str) -> None:
    raise AssertionError(purpose)


async def receive(connection: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length and (piece := await asyncio.get_running_loop().sock_recv(connection, 65536)):
        data += piece
    return data


class TestLine:
    def test_streams_do_not_mix(self) -> None:
        async def work() -> None:
            loop = asyncio.get_running_loop()
            async with Pair() as pair:
                connections = [await pair.open(str(number)) for number in range(3)]
                for number, (ours, theirs, _) in enumerate(connections):
                    await loop.sock_sendall(ours, b"to" * (number + 1))
                    await loop.sock_sendall(theirs, b"from" * (number + 1))
                for number, (ours, theirs, _) in enumerate(connections):
                    assert await receive(theirs, 2 * (number + 1)) == b"to" * (number + 1)
                    assert await receive(ours, 4 * (number + 1)) == b"from" * (number + 1)

        run(work())

    @pytest.mark.parametrize("side", [0, 1])
    def test_either_end_closes_both(self, side: int) -> None:
        async def work() -> None:
            async with Pair() as pair:
                ends = (await pair.open("x"))[:2]
                ends[side].close()
                assert await receive(ends[1 - side], 1) == b""
                await pair.all_gone()

        run(work())

    def test_much_at_once(self) -> None:
        """More than all the buffers on the way hold: what sends has to wait, and nothing is lost."""
        data = bytes(range(256)) * 40_000

        async def work() -> None:
            async with Pair() as pair:
                ours, theirs, _ = await pair.open("x")
                sending = asyncio.create_task(asyncio.get_running_loop().sock_sendall(ours, data))
                assert await receive(theirs, len(data)) == data
                await sending

        run(work())

    def test_one_that_does_not_read_is_cut_off(self) -> None:
        async def work() -> None:
            async with Pair() as pair:
                _, theirs, stream = await pair.open("x")
                stream.deliver(bytes(BACKLOG_LIMIT + 2 * 1024 * 1024))
                assert await receive(theirs, 1) == b""

        run(work())

    def test_words_for_a_stream_that_has_gone(self) -> None:
        line = Line(unexpected)
        line.data_received(Frame(Kind.DATA, 7, b"late").encode() + Frame(Kind.CLOSE, 7).encode())
        assert line.streams == {}
