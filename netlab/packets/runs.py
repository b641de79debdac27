"""A packet's passes through hooks in one place, cut into stays, and where those belong in its journey."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from netlab.model.topology import Topology
from netlab.packets.passes import HookPass
from netlab.packets.visits import END_HOSTS, LOOPBACK, Visit, interface_of, leads_to

STAGES = {"PREROUTING": 0, "OUTPUT": 0, "INPUT": 1, "FORWARD": 1, "POSTROUTING": 2}


@dataclass
class Run:
    """Passes of one stay, one after the other. ``times``: how often the first of them was seen; ``forwards``: the place
    hands on packets that others made."""

    passes: list[HookPass]
    times: int
    forwards: bool

    @property
    def place(self) -> str:
        return self.passes[0].place

    @property
    def first_hops(self) -> int:
        return self.passes[0].packet.hops

    @property
    def arrival(self) -> int | None:
        """Hops left on arrival, where a hook from before routing tells."""
        return self.first_hops if self.passes[0].hook in ("PREROUTING", "INPUT") else None

    @property
    def departure(self) -> int | None:
        last = self.passes[-1]
        return last.packet.hops if last.hook in ("FORWARD", "POSTROUTING") else None

    @property
    def born_here(self) -> bool:
        """Whether the packet begins with this stay: what goes to the loopback device always does."""
        first = self.passes[0]
        return first.hook == "OUTPUT" or first.output == LOOPBACK or (self.arrival is None and not self.forwards)


def split_runs(passes: Sequence[HookPass], topology: Topology) -> Iterator[Run]:
    """Cut each place's passes where the packet comes by again, and leave out what was seen before: a copy that a bridge
    flooded, or a second sending."""
    for place in dict.fromkeys(each.place for each in passes):
        own = [each for each in passes if each.place == place]
        there = topology.places.get(place)
        forwards = there is None or there.kind not in END_HOSTS
        times = Counter((each.chain, each.packet.hops) for each in own)
        seen: set[tuple[tuple[str, str, str], int]] = set()
        repeating = False
        run: Run | None = None
        for each in own:
            station = (each.chain, each.packet.hops)
            repeating |= station in seen
            if repeating and each.packet.hops >= min(hops for _, hops in seen):
                continue
            repeating = False
            seen.add(station)
            if run is None or not _goes_on(run.passes[-1], each):
                if run is not None:
                    yield run
                run = Run([], times[station], forwards)
            run.passes.append(each)
        if run is not None:
            yield run


def _goes_on(last: HookPass, new: HookPass) -> bool:
    """Whether a pass can belong to the same stay as the one before it in the same place."""
    if not last.hook or not new.hook:
        return False
    counted = last.packet.hops - new.packet.hops
    if new.hook == "OUTPUT" and last.hook in ("INPUT", "OUTPUT") and last.packet.destination != new.packet.destination:
        # IPVS has sent it on (ip_vs_nat_xmit in net/netfilter/ipvs/ip_vs_xmit.c), and counted its hops down.
        return counted in (0, 1)
    if last.hook == new.hook:
        return counted == 0 and new.priority >= last.priority
    if last.hook == "PREROUTING" and new.hook in ("FORWARD", "POSTROUTING"):
        return counted in (0, 1)
    if "INPUT" in (last.hook, new.hook) and (last.hook, new.hook) != ("PREROUTING", "INPUT"):
        return False
    return counted == 0 and STAGES[new.hook] > STAGES[last.hook]


def belongs(run: Run, visit: Visit) -> bool:
    """Whether passes are those of a stay that frames show."""
    if run.place != visit.place or not run.passes[0].hook:
        return False
    arrived = visit.incoming[0].packet.hops if visit.incoming else None
    left = visit.outgoing[0].packet.hops if visit.outgoing else None
    if run.born_here:
        return arrived is None and left in (run.first_hops, run.passes[-1].packet.hops)
    if visit.passed("OUTPUT") or (visit.outgoing and visit.outgoing[0].frame.interface == LOOPBACK):
        return False
    if run.arrival is not None:
        if arrived is not None:
            return arrived == run.arrival
        if left is None or run.passes[-1].hook == "INPUT" or not run.forwards:
            return False
        return left == run.departure if run.departure is not None else run.arrival - left in (0, 1)
    if left is not None:
        return left == run.departure
    return arrived is not None and run.departure is not None and arrived - run.departure in (0, 1)


def is_again(run: Run, visit: Visit) -> bool:
    """Whether passes are those of a stay that is there already, so of another sending: who comes to a place again has
    been counted down by it and by another."""
    born = not visit.incoming and (visit.passed("OUTPUT") or not run.forwards)
    near = abs(visit.first_packet().hops - run.first_hops) < 2
    return visit.place == run.place and born == run.born_here and near


def position(visits: Sequence[Visit], run: Run, topology: Topology) -> int | None:
    if run.born_here:
        return 0
    for index, visit in enumerate(visits):
        if visit.outgoing and leads_to(topology, visit.outgoing[-1].frame, run.place):
            hops = visit.outgoing[-1].packet.hops
            if run.arrival == hops or (run.arrival is None and hops - run.first_hops in (0, 1)):
                return index + 1
    for index, visit in enumerate(visits):
        interface = interface_of(topology, visit.incoming[0].frame) if visit.incoming else None
        if interface is not None and interface.peer is not None and interface.peer.place == run.place:
            hops = visit.incoming[0].packet.hops
            if run.departure == hops or (run.departure is None and run.first_hops - hops in (0, 1)):
                return index
    hops = run.first_hops
    if run.passes[-1].hook == "INPUT" and all(visit.last_packet().hops >= hops for visit in visits):
        return len(visits)
    if run.arrival is None or any(visit.first_packet().hops == hops for visit in visits):
        return None if visits else 0
    return sum(visit.first_packet().hops > hops for visit in visits)
