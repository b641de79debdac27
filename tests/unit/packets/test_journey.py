"""The order of a packet's sightings, and where hooks stand between frames."""

from __future__ import annotations

from dataclasses import dataclass, field

from netlab.model.records import Frame, TraceRecord
from netlab.packets.headers import parse_frame, parse_trace
from netlab.packets.journey import Journey, journey
from netlab.packets.passes import HookPass
from netlab.packets.visits import FrameSighting, hooks_between
from tests.unit.packets import wire
from tests.unit.packets.rules import Service
from tests.unit.packets.simulated_lab import CLIENT, CURL, NODE_A, ROUTER, WEB_1, Setup, build, topology
from tests.unit.packets.wire import TCP, Datagram

PACKET = Datagram(TCP, "10.200.1.10", "10.200.1.2", 1, 80, sequence=7)
PRIORITIES = {"PREROUTING": -450, "OUTPUT": -450, "FORWARD": -450, "INPUT": 300, "POSTROUTING": 300}


@dataclass
class Story:
    """Sightings as they are told: frames "node-a/eth0 > 63" (out, 63 hops left) and hooks "node-a FORWARD 63"."""

    setup: Setup = field(default_factory=Setup)

    def __post_init__(self) -> None:
        services: tuple[Service, ...] = ()
        self.topology = topology(build(self.setup, services, bool, int))

    def of(self, *lines: str) -> Journey:
        frames: list[FrameSighting] = []
        passes: list[HookPass] = []
        for number, line in enumerate(lines, 1):
            where, what, hops = line.split()
            packet = PACKET.changed(hops=int(hops))
            if what in PRIORITIES:
                passes.append(self.hook_pass(where, what, packet, number))
            else:
                frames.append(self.frame(where, "out" if what == ">" else "in", packet, number))
        return journey(frames, passes, self.topology)

    def told(self, *lines: str) -> list[str]:
        """The story again, in the order that the journey has it in."""
        found = self.of(*lines)
        result = []
        for visit in found.visits:
            for each in hooks_between(visit, self.topology.places[visit.place]):
                if isinstance(each, FrameSighting):
                    sign = ">" if each.frame.direction == "out" else "<"
                    result.append(f"{each.frame.place}/{each.frame.interface} {sign} {each.packet.hops}")
                else:
                    result.append(f"{each.place} {each.hook} {each.packet.hops}")
        return result

    def frame(self, where: str, direction: str, packet: Datagram, number: int) -> FrameSighting:
        place, _, interface = where.rpartition("/")
        data = wire.ethernet("0a:58:00:00:00:01", "0a:58:00:00:00:02", packet)
        found = parse_frame(data)
        assert found is not None
        frame = Frame(f"frame:{where}#{number}", place, interface, direction, number * 1000, data, len(data))  # type: ignore[arg-type]
        return FrameSighting(frame, found)

    def hook_pass(self, place: str, hook: str, packet: Datagram, number: int) -> HookPass:
        network, transport = wire.network_header(packet), wire.transport_part(packet)[:20]
        devices = ("cni0" if hook in ("PREROUTING", "FORWARD") else None, "cni0" if hook == "FORWARD" else None)
        record = TraceRecord(
            f"trace:{place}#{number}", place, number, 1, "inet", "netlab-trace", hook.lower(), "policy", None,
            "accept", None, *devices, 0, network, transport,
        )  # fmt: skip
        found = parse_trace(network, transport)
        assert found is not None
        return HookPass(place, hook, PRIORITIES[hook], found, (record,), True)


THROUGH_NODE = (
    f"{CURL}/eth0 > 64",
    f"{NODE_A}/veth-curl < 64",
    f"{NODE_A} PREROUTING 64",
    f"{NODE_A}/cni0 < 64",
    f"{NODE_A} FORWARD 63",
    f"{NODE_A} POSTROUTING 63",
    f"{NODE_A}/eth0 > 63",
    f"{ROUTER}/p-node-a < 63",
)
BRIDGED = (
    f"{CURL}/eth0 > 64",
    f"{NODE_A}/veth-curl < 64",
    f"{NODE_A} PREROUTING 64",
    f"{NODE_A} FORWARD 64",
    f"{NODE_A} POSTROUTING 64",
    f"{NODE_A}/veth-web-1 > 64",
    f"{WEB_1}/eth0 < 64",
)


def test_bridge_netfilter_comes_before_the_bridge() -> None:
    assert Story().told(*THROUGH_NODE) == list(THROUGH_NODE)


def test_without_bridge_netfilter_hooks_come_behind_it() -> None:
    changed = list(THROUGH_NODE)
    changed[2], changed[3] = changed[3], changed[2]
    assert Story(Setup(bridge_netfilter=False)).told(*THROUGH_NODE) == changed


def test_bridged_packet() -> None:
    assert Story().told(*BRIDGED) == list(BRIDGED)


def test_packet_that_goes_out_by_the_bridge_before_its_hooks() -> None:
    """A neighbour that has to be asked for first (net/bridge/br_netfilter_hooks.c, the slow way)."""
    turned = [*BRIDGED[:3], f"{NODE_A}/cni0 > 64", *BRIDGED[3:]]
    assert Story().told(*turned) == turned


def test_hooks_find_their_stay_by_the_hops_left() -> None:
    """Node-a twice, as a packet to the other node's nodePort and back: its four runs of hooks are in one order, and
    frames in another; each goes where its hops say."""
    first, second = THROUGH_NODE[1:7], (
        f"{NODE_A}/eth0 < 61",
        f"{NODE_A} PREROUTING 61",
        f"{NODE_A} FORWARD 60",
        f"{NODE_A} POSTROUTING 60",
        f"{NODE_A}/cni0 > 60",
    )  # fmt: skip
    assert Story().told(*first, *second) == [*first, *second]
    without_frames = [line for line in first if "/" not in line.split()[0]]
    assert Story().told(*without_frames, *second) == [*without_frames, *second]


def test_lost_way_out_does_not_join_two_stays() -> None:
    visits = Story().of(f"{NODE_A}/veth-curl < 64", f"{NODE_A}/cni0 < 64", f"{NODE_A}/eth0 < 61").visits
    assert [len(visit.incoming) for visit in visits] == [2, 1]


def test_stay_without_frames_is_found_by_its_links() -> None:
    hooks = [line for line in THROUGH_NODE if " PREROUTING " in line or " FORWARD " in line]
    assert Story().told(THROUGH_NODE[0], *hooks, THROUGH_NODE[-1]) == [THROUGH_NODE[0], *hooks, THROUGH_NODE[-1]]
    assert Story().told(*hooks, THROUGH_NODE[-1]) == [*hooks, THROUGH_NODE[-1]]


def test_stay_of_which_the_place_is_not_known_is_left_out() -> None:
    found = Story().of(f"{ROUTER}/p-client < 64", f"{NODE_A} FORWARD 64")
    assert [visit.place for visit in found.visits] == [ROUTER]
    assert [each.place for each in found.unplaced] == [NODE_A]


def test_hooks_alone() -> None:
    hooks = (f"{CURL} OUTPUT 64", f"{CURL} POSTROUTING 64", f"{NODE_A} PREROUTING 64", f"{NODE_A} INPUT 64")
    assert Story().told(*hooks[2:], *hooks[:2]) == list(hooks)


def test_loopback_is_two_stays() -> None:
    lines = (
        f"{NODE_A} OUTPUT 64",
        f"{NODE_A} POSTROUTING 64",
        f"{NODE_A}/lo > 64",
        f"{NODE_A}/lo < 64",
        f"{NODE_A} PREROUTING 64",
        f"{NODE_A} INPUT 64",
    )
    assert Story().told(*lines) == list(lines)
    assert len(Story().of(*lines).visits) == 2


def test_same_packet_sent_again_is_left_out() -> None:
    found = Story().of(*BRIDGED, *BRIDGED)
    assert (len(found.visits), found.reappeared, found.unplaced) == (3, False, [])
    assert Story().told(*BRIDGED, *BRIDGED) == list(BRIDGED)


def test_second_sending_is_noticed_by_where_it_cannot_come_from() -> None:
    """Nothing is seen twice, but a Pod does not hand on what it got, and hops do not come back."""
    end, begin = BRIDGED[5:], BRIDGED[:2]
    found = Story().of(*end, *begin)
    assert [visit.place for visit in found.visits] == [NODE_A, WEB_1]
    assert found.reappeared
    found = Story().of(f"{ROUTER}/p-node-a < 63", f"{NODE_A}/veth-curl < 64")
    assert ([visit.place for visit in found.visits], found.reappeared) == ([ROUTER], True)


def test_hooks_of_one_of_two_sendings_are_nobody_s() -> None:
    """Frames show that the packet came twice; whose the only hooks are is not known."""
    frames = [line for line in BRIDGED if "/" in line.split()[0]]
    hooks = [line for line in BRIDGED if line not in frames]
    found = Story().of(*frames, *frames, *hooks)
    assert {each.hook for each in found.unplaced} == {"PREROUTING", "FORWARD", "POSTROUTING"}


def test_copies_that_a_bridge_flooded_pass_its_hooks_too() -> None:
    flooded = [*BRIDGED[:5], f"{NODE_A} FORWARD 64", f"{NODE_A} POSTROUTING 64", *BRIDGED[5:]]
    assert Story().told(*flooded) == list(BRIDGED)


def test_round_and_round() -> None:
    """A routing loop passes every station again and again, each time with fewer hops left."""
    lines: list[str] = [f"{CLIENT}/eth0 > 64", f"{ROUTER}/p-client < 64", f"{ROUTER}/clients0 < 64"]
    for hops in range(63, 1, -2):
        lines += [f"{ROUTER}/nodes0 > {hops}", f"{ROUTER}/p-node-a > {hops}", f"{NODE_A}/eth0 < {hops}"]
        lines += [f"{NODE_A}/eth0 > {hops - 1}", f"{ROUTER}/p-node-a < {hops - 1}", f"{ROUTER}/nodes0 < {hops - 1}"]
    assert Story().told(*lines) == lines


def test_unknown_place() -> None:
    frame = Story().frame("elsewhere/eth0", "in", PACKET, 1)
    assert [visit.place for visit in journey([frame], [], Story().topology).visits] == ["elsewhere"]
