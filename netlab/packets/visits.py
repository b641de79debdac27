"""Sightings of a packet, and its stays: what was seen of it in one place, from coming in to going out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from netlab.model.records import Frame
from netlab.model.topology import Interface, Place, Topology
from netlab.packets.headers import Packet
from netlab.packets.passes import HookPass

END_HOSTS = ("client", "pod")
LOOPBACK = "lo"


@dataclass(frozen=True, slots=True)
class FrameSighting:
    """A frame with the packet that it holds."""

    frame: Frame
    packet: Packet


Sighting = FrameSighting | HookPass


@dataclass
class Visit:
    """One stay of a packet in one place: frames in, hooks, frames out."""

    place: str
    incoming: list[FrameSighting] = field(default_factory=list)
    passes: list[HookPass] = field(default_factory=list)
    outgoing: list[FrameSighting] = field(default_factory=list)

    @property
    def frames(self) -> list[FrameSighting]:
        return [*self.incoming, *self.outgoing]

    @property
    def begin_ns(self) -> int | None:
        frames = self.frames
        return frames[0].frame.time_ns if frames else None

    @property
    def sightings(self) -> list[Sighting]:
        return [*self.incoming, *self.passes, *self.outgoing]

    def first_packet(self) -> Packet:
        """What the packet was when the stay began."""
        return self.sightings[0].packet

    def last_packet(self) -> Packet:
        """What the packet was when last seen in the stay."""
        return self.sightings[-1].packet

    def passed(self, hook: str) -> bool:
        """Whether the packet was seen in the hook."""
        return any(each.hook == hook for each in self.passes)

    @property
    def turned(self) -> bool:
        """Whether the packet came in for the place itself and was sent on from behind INPUT, as IPVS does."""
        return self.passed("INPUT") and self.passed("OUTPUT")

    @property
    def dropped(self) -> bool:
        return any(each.dropped for each in self.passes)

    def takes(self, sighting: FrameSighting, *, at_port: bool) -> bool:
        """Whether a frame after all others of this stay can belong to it. Hops are counted down on the way through, and
        not while a frame is bridged: a bridge's port shows a packet that was counted down only behind the bridge."""
        hops = sighting.packet.hops
        if sighting.frame.direction == "in":
            return not self.outgoing and all(each.packet.hops == hops for each in self.incoming)
        if self.outgoing:
            return self.outgoing[0].packet.hops == hops
        return not self.incoming or self.incoming[0].packet.hops - hops in ((0,) if at_port else (0, 1))


def interface_of(topology: Topology, frame: Frame) -> Interface | None:
    place = topology.places.get(frame.place)
    return place.interface(frame.interface) if place is not None else None


def leads_to(topology: Topology, frame: Frame, place: str) -> bool:
    """Whether a frame that went out comes in at the place next."""
    interface = interface_of(topology, frame)
    if interface is None or frame.direction != "out":
        return False
    if interface.kind == "loopback":
        return frame.place == place
    return interface.peer is not None and interface.peer.place == place


def is_port(topology: Topology, frame: Frame) -> bool:
    """Whether the frame was seen at a port of a bridge."""
    interface = interface_of(topology, frame)
    return interface is not None and interface.master is not None


def hooks_between(visit: Visit, place: Place | None) -> Iterator[Sighting]:
    """The sightings of one stay in order.

    With bridge netfilter, a frame from a bridge port passes PREROUTING in the bridge, before the bridge device itself
    sees it; and one whose new destination is behind the same bridge may go out by the bridge device first, and through
    FORWARD and POSTROUTING on its way to the port (net/bridge/br_netfilter_hooks.c).
    """
    before = [each for each in visit.passes if each.hook == "PREROUTING"]
    after = [each for each in visit.passes if each.hook != "PREROUTING"]
    if place is None or not place.bridge_netfilter:
        yield from visit.incoming
        yield from [*before, *after]
        yield from visit.outgoing
        return
    bridges = {interface.name for interface in place.interfaces if interface.kind == "bridge"}
    from_bridge = [each for each in visit.incoming if each.frame.interface in bridges]
    yield from [each for each in visit.incoming if each not in from_bridge]
    yield from before
    yield from from_bridge
    turned = [each for each in visit.outgoing if each.frame.interface in bridges and _stays_bridged(visit, place)]
    yield from turned
    yield from after
    yield from [each for each in visit.outgoing if each not in turned]


def _stays_bridged(visit: Visit, place: Place) -> bool:
    """Whether a packet that a bridge port brought goes on to a port of the same bridge, without being routed: its hops
    are not counted down then, and POSTROUTING is not told by what device it came."""
    if len({each.packet.hops for each in visit.sightings}) > 1 or visit.passed("INPUT") or visit.passed("OUTPUT"):
        return False
    if visit.incoming:
        last = place.interface(visit.incoming[-1].frame.interface)
        return last is not None and last.master is not None
    if visit.passed("PREROUTING"):
        return True
    if visit.passed("FORWARD"):
        return any(each.hook == "FORWARD" and each.input == each.output for each in visit.passes)
    return any(each.input is None for each in visit.passes)
