"""All that can be seen, in every place of a lab at once: frames, trace records, conntrack events.

Instruments are made with their place; rings for frames with the first observation, and then they stay. A packet socket
has a price at its end: the kernel waits for a grace period (some 10 ms), one socket after the other where one process
held many. So each is shared with a process of its place (see ``Watchpoint.shared``): a lab that is killed ends in all
places at the same time.
"""

from __future__ import annotations

import asyncio
import errno
import select
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from netlab.kernel import capture, nfnetlink, nftables
from netlab.kernel.capture import CaptureRing
from netlab.kernel.conntrack import ConntrackSocket
from netlab.kernel.netlink import NetlinkError, NetlinkSocket, Request
from netlab.kernel.netns import NetNamespace
from netlab.kernel.nftables import PacketMatch
from netlab.kernel.trace import TraceSocket
from netlab.model.records import ConntrackRecord, Frame, Loss, TraceRecord

BLOCK_SIZE = 64 * 1024
BUSY_BLOCKS = 64
"""Ring of a place that forwards: 4 MiB."""
QUIET_BLOCKS = 8
"""Ring of a client or a Pod: 512 KiB."""
THREADS = 128
FLUSH_S = 0.25
"""Longest wait for blocks that the kernel has not finished, seconds; it takes :data:`capture.RETIRE_MS`."""


@dataclass
class Recorded:
    """What one observation recorded."""

    frames: list[Frame] = field(default_factory=list)
    traces: list[TraceRecord] = field(default_factory=list)
    conntrack: list[ConntrackRecord] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)


class Watchpoint:
    """The instruments in one place. ``interface_name`` tells an interface by its index."""

    def __init__(
        self, place: str, namespace: NetNamespace, interface_name: Callable[[int], str], *, busy: bool
    ) -> None:
        self.place = place
        self.namespace = namespace
        self.interface_name = interface_name
        with namespace.entered():
            self.control: NetlinkSocket = nfnetlink.netfilter_socket()
            nftables.make_trace_table(self.control)
            self.traces = TraceSocket(place, interface_name)
            self.conntrack = ConntrackSocket(place)
            self.ring = CaptureRing(BLOCK_SIZE, BUSY_BLOCKS if busy else QUIET_BLOCKS)
        self.commits = 0
        """How often the rules of the place have changed by what was traced."""
        self.blocks: list[bytes] = []
        self.trace_records: list[TraceRecord] = []
        self.conntrack_records: list[ConntrackRecord] = []
        self.lost: set[str] = set()
        self._came = asyncio.Event()
        self._fed = 0

    @property
    def shared(self) -> list[int]:
        """Descriptors to keep open in a process of the place."""
        return [self.ring.fileno()]

    def close(self) -> None:
        self.ring.close()
        self.conntrack.close()
        self.traces.close()
        self.control.close()

    def begin(self, tracing: list[Request]) -> None:
        """Forget what was recorded before, and record from now on; the ring is open."""
        self.traces.read()
        self.conntrack.read()
        self.blocks, self.trace_records, self.conntrack_records = [], [], []
        self.lost = set()
        self._fed = 0
        self.trace(tracing)
        self.ring.resume()

    def trace(self, tracing: list[Request]) -> None:
        """Trace other packets from now on (see :func:`netlab.kernel.nftables.tracing`)."""
        try:
            nftables.commit(self.control, tracing)
        except NetlinkError as error:
            if error.errno != errno.ENOENT:
                raise
            # Somebody has flushed the whole rule set of the place, and the lab's table with it.
            nftables.make_trace_table(self.control)
            self.commits += 1
            nftables.commit(self.control, tracing)
        self.commits += 1

    def drain_frames(self) -> None:
        self.blocks += self.ring.take()
        self._came.set()

    async def next_frames(self) -> list[bytes]:
        """The frames since the last call; waits until there is one (see :class:`netlab.packets.craft.FrameFeed`)."""
        while self._fed == len(self.blocks):
            self._came.clear()
            await self._came.wait()
        new, self._fed = self.blocks[self._fed :], len(self.blocks)
        return [raw.data for block in new for raw in capture.frames(block)]

    def drain_traces(self) -> None:
        records, loss = self.traces.read()
        self.trace_records += records
        if loss is not None:
            self.lost.add("trace")

    def drain_conntrack(self) -> None:
        records, loss = self.conntrack.read()
        self.conntrack_records += records
        if loss is not None:
            self.lost.add("conntrack")

    def frames(self) -> list[Frame]:
        """The captured frames of the place, in order, each with its id."""
        found: list[Frame] = []
        counts: dict[int, int] = {}
        names: dict[int, str] = {}
        for block in self.blocks:
            for raw in capture.frames(block):
                number = counts[raw.interface] = counts.get(raw.interface, 0) + 1
                name = names.get(raw.interface)
                if name is None:
                    name = names[raw.interface] = self.interface_name(raw.interface)
                found.append(
                    Frame(
                        id=f"frame:{self.place}/{name}#{number}",
                        place=self.place,
                        interface=name,
                        direction="out" if raw.outgoing else "in",
                        time_ns=raw.time_ns,
                        data=raw.data,
                        length=raw.length,
                        overheard=raw.overheard,
                        complete_checksum=raw.complete_checksum,
                    )
                )
        return found

    def losses(self) -> list[Loss]:
        # What the kernel has counted and not handed over in time is lost as well.
        dropped = self.ring.dropped() + self.ring.outstanding()
        lost: list[Loss] = [Loss(self.place, "frame", dropped)] if dropped else []
        if "trace" in self.lost:
            lost.append(Loss(self.place, "trace", None))
        if "conntrack" in self.lost:
            lost.append(Loss(self.place, "conntrack", None))
        return lost


class Observatory:
    """The watchpoints of all places."""

    def __init__(self) -> None:
        self.points: dict[str, Watchpoint] = {}
        self._epoll = select.epoll()
        self._handlers: dict[int, Callable[[], None]] = {}
        self._came = asyncio.Event()
        self._dropping: list[Watchpoint] = []

    def add(
        self, place: str, namespace: NetNamespace, interface_name: Callable[[int], str], *, busy: bool
    ) -> Watchpoint:
        """Put instruments into a place; ``busy``: much traffic is to be expected there."""
        point = Watchpoint(place, namespace, interface_name, busy=busy)
        self.points[place] = point
        for descriptor, handler in (
            (point.traces.fileno(), point.drain_traces),
            (point.conntrack.fileno(), point.drain_conntrack),
            (point.ring.fileno(), point.drain_frames),
        ):
            self._handlers[descriptor] = handler
            self._epoll.register(descriptor, select.EPOLLIN)
        return point

    def remove(self, place: str) -> None:
        """Take the instruments of a place away."""
        point = self.points.pop(place)
        for each in (point.traces, point.conntrack, point.ring):
            self._epoll.unregister(each.fileno())
            del self._handlers[each.fileno()]
        point.close()

    async def begin(self, packets: Sequence[PacketMatch], drop: Mapping[str, Sequence[bytes]]) -> None:
        """Record in all places from when this returns; ``drop``: packets to keep from leaving a place."""
        loop = asyncio.get_running_loop()
        closed = [point.ring for point in self.points.values() if not point.ring.is_open]
        if closed:
            await loop.run_in_executor(None, _open, closed)
        everywhere = nftables.tracing(packets)
        self._dropping = [point for point in self.points.values() if drop.get(point.place)]
        for point in self.points.values():
            unwanted = drop.get(point.place)
            point.begin(nftables.tracing(packets, unwanted) if unwanted else everywhere)
        loop.add_reader(self._epoll.fileno(), self._drain)

    async def end(self) -> Recorded:
        """Stop recording, and return all that was recorded.

        What was traced stays so until the next observation: no other packet has its mark. Nothing is dropped any more.

        Netlink messages are queued by the time that their packet has gone on; frames may sit in a block that the
        kernel has yet to finish, and their number is known: those are waited for.
        """
        for point in self.points.values():
            point.ring.pause()
        for point in self._dropping:
            point.trace(nftables.tracing([]))
        await self._flush()
        asyncio.get_running_loop().remove_reader(self._epoll.fileno())
        self._drain()
        recorded = Recorded()
        for point in self.points.values():
            recorded.traces += point.trace_records
            recorded.conntrack += point.conntrack_records
            recorded.frames += point.frames()
            recorded.losses += point.losses()
        return recorded

    def _drain(self) -> None:
        for descriptor, _ in self._epoll.poll(0, len(self._handlers) + 1):
            self._handlers[descriptor]()
        self._came.set()

    async def _flush(self) -> None:
        """Until no ring has frames in a block that is not finished."""
        pending = list(self.points.values())
        try:
            async with asyncio.timeout(FLUSH_S):
                while True:
                    self._came.clear()
                    for point in pending:
                        point.drain_frames()
                    pending = [point for point in pending if point.ring.outstanding() > 0]
                    if not pending:
                        return
                    await self._came.wait()
        except TimeoutError:
            # What did not come in time is told as a loss of its place.
            return


def _open(rings: Sequence[CaptureRing]) -> None:
    """Open rings at the same time: each waits for a grace period."""
    with ThreadPoolExecutor(min(THREADS, len(rings)), thread_name_prefix="rings") as pool:
        list(pool.map(CaptureRing.open, rings))
