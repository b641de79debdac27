"""All that can be seen, in every place of a lab at once: frames, trace records, conntrack events.

Netlink sockets are made with their place. Packet sockets are there during an observation only: the kernel waits for a
grace period (some 10 ms) when one is made and again when it is closed, one after the other if a process with many of
them is killed, and a killed lab is to be gone at once. In threads of their own they wait at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from netlab.kernel import capture, nfnetlink, nftables
from netlab.kernel.capture import CaptureRing
from netlab.kernel.conntrack import ConntrackSocket
from netlab.kernel.netlink import NetlinkSocket
from netlab.kernel.netns import NetNamespace
from netlab.kernel.nftables import PacketMatch
from netlab.kernel.trace import TraceSocket
from netlab.model.records import ConntrackRecord, Frame, Loss, TraceRecord
from netlab.model.topology import Place

BLOCK_SIZE = 64 * 1024
BUSY_BLOCKS = 64
"""Ring of a node or the router: 4 MiB."""
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
    """The instruments in one place."""

    def __init__(self, place: str, namespace: NetNamespace, names: Callable[[int], str]) -> None:
        self.place = place
        self.namespace = namespace
        self.interface_name = names
        with namespace.entered():
            self.control: NetlinkSocket = nfnetlink.netfilter_socket()
            nftables.make_trace_table(self.control)
            self.traces = TraceSocket(place, names)
            self.conntrack = ConntrackSocket(place)
        self.ring: CaptureRing | None = None
        self.blocks: list[bytes] = []
        self.trace_records: list[TraceRecord] = []
        self.conntrack_records: list[ConntrackRecord] = []
        self.lost: set[str] = set()
        self._came = asyncio.Event()
        self._fed = 0
        self._drops = False

    def make_ring(self, blocks: int) -> CaptureRing:
        with self.namespace.entered():
            self.ring = CaptureRing(BLOCK_SIZE, blocks)
        return self.ring

    def begin(self, packets: Sequence[PacketMatch], drop: Iterable[bytes] = ()) -> None:
        """Forget what was recorded before, and record from now on; the ring is there."""
        self.traces.read()
        self.conntrack.read()
        self.blocks, self.trace_records, self.conntrack_records = [], [], []
        self.lost = set()
        self._fed = 0
        unwanted = list(drop)
        nftables.start_tracing(self.control, packets, unwanted)
        self._drops = bool(unwanted)
        if self.ring is not None:
            self.ring.resume()

    def end(self) -> None:
        """Record nothing more. What was traced stays so until the next observation: no other packet has its mark."""
        if self.ring is not None:
            self.ring.pause()
        if self._drops:
            nftables.stop_tracing(self.control)

    def drain_frames(self) -> None:
        if self.ring is not None:
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

    def descriptors(self) -> Mapping[int, Callable[[], None]]:
        """What to call when which descriptor is readable."""
        callbacks = {self.traces.fileno(): self.drain_traces, self.conntrack.fileno(): self.drain_conntrack}
        if self.ring is not None:
            callbacks[self.ring.fileno()] = self.drain_frames
        return callbacks

    def frames(self) -> list[Frame]:
        """The captured frames of the place, in order, each with its id."""
        found: list[Frame] = []
        counts: dict[int, int] = {}
        for block in self.blocks:
            for raw in capture.frames(block):
                number = counts[raw.interface] = counts.get(raw.interface, 0) + 1
                name = self.interface_name(raw.interface)
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
        dropped = self.ring.dropped() + self.ring.outstanding() if self.ring is not None else 0
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
        self._kinds: dict[str, str] = {}
        self._watched: list[int] = []
        self._pool = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="rings")

    def add(self, place: Place, namespace: NetNamespace) -> None:
        """Put instruments into a place."""
        names = {interface.index: interface.name for interface in place.interfaces}
        point = Watchpoint(place.name, namespace, lambda index: names.get(index, f"if{index}"))
        self.points[place.name] = point
        self._kinds[place.name] = place.kind

    async def begin(self, packets: Sequence[PacketMatch], drop: Mapping[str, Sequence[bytes]]) -> None:
        """Record in all places from when this returns; ``drop``: packets to keep from leaving a place."""
        loop = asyncio.get_running_loop()
        rings = [
            point.make_ring(BUSY_BLOCKS if self._kinds[point.place] in ("node", "router") else QUIET_BLOCKS)
            for point in self.points.values()
        ]
        await loop.run_in_executor(None, lambda: list(self._pool.map(CaptureRing.open, rings)))
        for point in self.points.values():
            point.begin(packets, drop.get(point.place, ()))
            for descriptor, callback in point.descriptors().items():
                loop.add_reader(descriptor, callback)
                self._watched.append(descriptor)

    async def end(self) -> Recorded:
        """Stop recording, and return all that was recorded.

        Netlink messages are queued by the time that their packet has gone on; frames may sit in a block that the
        kernel has yet to finish, and their number is known: those are waited for.
        """
        for point in self.points.values():
            point.end()
        await self._flush()
        loop = asyncio.get_running_loop()
        for descriptor in self._watched:
            loop.remove_reader(descriptor)
        self._watched = []
        recorded = Recorded()
        for point in self.points.values():
            point.drain_traces()
            point.drain_conntrack()
            recorded.traces += point.trace_records
            recorded.conntrack += point.conntrack_records
            recorded.frames += point.frames()
            recorded.losses += point.losses()
            if point.ring is not None:
                self._pool.submit(point.ring.close)
                point.ring = None
        return recorded

    async def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + FLUSH_S
        pending = [point for point in self.points.values() if point.ring is not None]
        while pending:
            for point in pending:
                point.drain_frames()
            pending = [point for point in pending if point.ring is not None and point.ring.outstanding() > 0]
            if not pending or loop.time() > deadline:
                return
            await _readable([point.ring.fileno() for point in pending if point.ring is not None], deadline)


async def _readable(descriptors: Sequence[int], deadline: float) -> None:
    """Until one of the descriptors is readable. They are taken over from other readers, and given back to none."""
    loop = asyncio.get_running_loop()
    woken = asyncio.Event()
    for descriptor in descriptors:
        loop.add_reader(descriptor, woken.set)
    try:
        await asyncio.wait_for(woken.wait(), max(0.0, deadline - loop.time()))
    except TimeoutError:
        return
    finally:
        for descriptor in descriptors:
            loop.remove_reader(descriptor)
