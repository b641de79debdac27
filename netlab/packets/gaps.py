"""What a packet's sightings leave open: frames and hook records that there must have been and that were not recorded.

From what is missing nothing is concluded but that it is missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from netlab.model.rulebook import Rulebook
from netlab.model.text import Message, Text
from netlab.model.topology import Place, Topology
from netlab.packets.balancing import IPVS_PRIORITIES, refusing_server
from netlab.packets.passes import TRACE_TABLE
from netlab.packets.runs import STAGES
from netlab.packets.visits import END_HOSTS, LOOPBACK, FrameSighting, Visit, interface_of

NOT_SEEN_ARRIVING = Message(
    "gap.not-seen-arriving",
    en="The packet left {place} by {interface}, and was not seen at the other end of that link ({peer}).",
    zh="数据包从 {place} 的 {interface} 离开，但在链路另一端 ({peer}) 没有被观察到。",
)
NOT_SEEN_COMING = Message(
    "gap.not-seen-coming",
    en="How the packet came to {place} was not observed.",
    zh="没有观察到数据包是如何到达 {place} 的。",
)
NOT_SEEN_LEAVING = Message(
    "gap.not-seen-leaving",
    en="How the packet left {place} was not observed.",
    zh="没有观察到数据包是如何离开 {place} 的。",
)
NOT_SEEN_ENDING = Message(
    "gap.not-seen-ending",
    en="What became of the packet in {place} was not observed.",
    zh="没有观察到数据包在 {place} 中的去向。",
)
NOT_SEEN_AT = Message(
    "gap.not-seen-at",
    en="The packet must have passed {what} in {place}, and was not seen there.",
    zh="数据包必定经过了 {place} 的 {what}，但在那里没有被观察到。",
)
HAIRPIN_OFF = Message(
    "gap.hairpin-off",
    en="What became of the packet in {place} was not observed. It is for {to}, behind {port}, the port of the bridge "
    "that it came in by; the hairpin mode of that port is off, and such a bridge sends no frame back to where it came "
    "from.",
    zh="没有观察到数据包在 {place} 中的去向。其目标 {to} 位于 {port} 之后，而它正是从网桥的这个端口进入的；"
    "该端口的 hairpin 模式已关闭，这样的网桥不会把帧从来时的端口发回。",
)
A_PORT_OF = Message("gap.a-port-of", en="a port of {bridge}", zh="{bridge} 的某个端口")
BELOW_TUNNEL = Message("gap.below-tunnel", en="the link below {tunnel}", zh="{tunnel} 之下的链路")
UNTRACED = Message(
    "gap.untraced",
    en="The packet passed through {place}, but no record of its hooks there reached the lab.",
    zh="数据包经过了 {place}，但实验没有收到它在那里的钩子记录。",
)
CHAIN_UNSEEN = Message(
    "gap.chain-unseen",
    en="How the packet passed {hook} of the table {table} in {place} was not observed.",
    zh="没有观察到数据包在 {place} 中如何经过表 {table} 的 {hook}。",
)
CHAIN_CUT = Message(
    "gap.chain-cut",
    en="Records of {hook} of the table {table} in {place} are missing: not all steps there were observed.",
    zh="{place} 中表 {table} 的 {hook} 缺少记录：并非所有步骤都被观察到。",
)
NAT_NOT_ASKED = Message(
    "gap.nat-not-asked",
    en="In {place}, no rule of the table nat was seen to be asked in {hook}: conntrack knew the connection already or "
    "does not follow it, or records are missing.",
    zh="在 {place} 的 {hook} 中没有观察到对 nat 表规则的查询：连接跟踪已知该连接或未跟踪它，或者缺少记录。",
)

_PATHS = {
    "in": ("PREROUTING", "INPUT"),
    "through": ("PREROUTING", "FORWARD", "POSTROUTING"),
    "turned": ("PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"),
}


def gap_before(visit: Visit, before: Visit | None, topology: Topology) -> Text | None:
    """What is missing between a stay and the one before it."""
    if before is None:
        return None if is_born_in(visit, topology) else NOT_SEEN_COMING(place=visit.place)
    if not before.outgoing:
        return NOT_SEEN_LEAVING(place=before.place)
    last = before.outgoing[-1]
    first = visit.incoming[0] if visit.incoming else None
    if first is not None and _next_to(last, first, topology):
        return None
    return _lost_on_link(last, topology) or NOT_SEEN_COMING(place=visit.place)


def is_born_in(visit: Visit, topology: Topology) -> bool:
    """Whether the packet was made in this stay."""
    place = topology.places.get(visit.place)
    end_host = place is not None and place.kind in END_HOSTS and bool(visit.outgoing)
    return not visit.incoming and (visit.passed("OUTPUT") or end_host)


def _next_to(last: FrameSighting, first: FrameSighting, topology: Topology) -> bool:
    """Whether the second frame is what the first one comes in as."""
    interface = interface_of(topology, last.frame)
    if last.packet.hops != first.packet.hops:
        return False
    if interface is None:
        return True
    if interface.kind == "loopback":
        return (first.frame.place, first.frame.interface) == (last.frame.place, LOOPBACK)
    if interface.peer is None:
        return False
    return (first.frame.place, first.frame.interface) == (interface.peer.place, interface.peer.interface)


def _lost_on_link(last: FrameSighting, topology: Topology) -> Text | None:
    interface = interface_of(topology, last.frame)
    if interface is None or interface.peer is None:
        return None
    peer = f"{interface.peer.place}/{interface.peer.interface}"
    return NOT_SEEN_ARRIVING(place=last.frame.place, interface=last.frame.interface, peer=peer)


def gap_at_end(visit: Visit, topology: Topology, *, explained: bool, to: str = "") -> Text | None:
    """What is missing after the last stay. ``explained``: its end is told otherwise, by a step or an answer. ``to`` is
    where the packet was last seen to go."""
    place = topology.places.get(visit.place)
    if not explained and not visit.dropped and (port := _port_without_hairpin(visit, topology, to)) is not None:
        return HAIRPIN_OFF(place=visit.place, to=to, port=port)
    if visit.outgoing:
        if explained:
            return None
        return _lost_on_link(visit.outgoing[-1], topology) or NOT_SEEN_ENDING(place=visit.place)
    if visit.passed("INPUT") or visit.dropped or explained:
        return None
    if place is not None and place.kind in END_HOSTS and visit.incoming:
        return None
    return NOT_SEEN_ENDING(place=visit.place)


def _port_without_hairpin(visit: Visit, topology: Topology, to: str) -> str | None:
    """The bridge port that the packet came in by and would have to leave by again, if that port forbids it."""
    place = topology.places.get(visit.place)
    port = interface_of(topology, visit.incoming[0].frame) if visit.incoming else None
    if place is None or port is None or port.hairpin is not False or port.peer is None or not place.bridge_netfilter:
        return None
    bridges = (port.name, port.master)
    stayed = all(each.frame.interface in bridges for each in visit.frames)
    there = topology.places.get(port.peer.place)
    return port.name if stayed and there is not None and to in there.own_addresses() else None


# Interfaces of one place


def gap_of_bridge(visit: Visit, topology: Topology, asked_on: str | None) -> Text | None:
    """The bridge that the packet must have passed where IP ended its way: with an error of its own, or with a question
    on the interface ``asked_on``. (With bridge netfilter, a translated packet can go on in the same bridge.)"""
    place = topology.places.get(visit.place)
    interfaces = [interface_of(topology, each.frame) for each in visit.incoming]
    bridge = next((each.master for each in interfaces if each is not None and each.master is not None), None)
    if place is None or bridge is None or any(each is not None and each.name == bridge for each in interfaces):
        return None
    if asked_on == bridge and place.bridge_netfilter:
        return None
    return NOT_SEEN_AT(place=visit.place, what=bridge)


def interface_gaps(visit: Visit, topology: Topology) -> Iterator[Text]:
    """Interfaces that the packet must have passed, by those where it was seen: a routed packet passes a bridge and its
    port, a bridged one two ports; a packet in VXLAN passes the tunnel's device and the link below."""
    place = topology.places.get(visit.place)
    if place is None:
        return
    routed = _is_routed(visit)
    for side, frames in (("in", visit.incoming), ("out", visit.outgoing)):
        names = [each.frame.interface for each in frames]
        kinds = {each.name: each.kind for each in place.interfaces}
        masters = {each.name: each.master for each in place.interfaces if each.master is not None}
        ports = [name for name in names if name in masters]
        bridges = [name for name in names if kinds.get(name) == "bridge"]
        tunnels = [name for name in names if kinds.get(name) == "vxlan"]
        wrapped = any(each.packet.outer is not None for each in frames)
        if bridges and not ports and not _ends_in_bridge(visit, place):
            yield NOT_SEEN_AT(place=place.name, what=A_PORT_OF(bridge=bridges[0]))
        if ports and not bridges and (routed or (side == "out" and visit.passed("OUTPUT"))):
            yield NOT_SEEN_AT(place=place.name, what=masters[ports[0]])
        if tunnels and not wrapped:
            yield NOT_SEEN_AT(place=place.name, what=BELOW_TUNNEL(tunnel=tunnels[0]))
        if wrapped and not tunnels and (tunnel := _tunnel_of(place)) is not None:
            yield NOT_SEEN_AT(place=place.name, what=tunnel)


def _ends_in_bridge(visit: Visit, place: Place) -> bool:
    """Whether a packet from a bridge's port was last seen going out by the same bridge, before the hooks on its way to
    another port: the bridge itself may have dropped it."""
    kinds = {each.name: each.kind for each in place.interfaces}
    masters = {each.name: each.master for each in place.interfaces}
    came_by = {masters.get(each.frame.interface) for each in visit.incoming}
    return (
        place.bridge_netfilter
        and bool(visit.outgoing)
        and all(kinds.get(each.frame.interface) == "bridge" for each in visit.outgoing)
        and came_by == {each.frame.interface for each in visit.outgoing}
        and not any(visit.passed(hook) for hook in ("FORWARD", "POSTROUTING"))
    )


def _tunnel_of(place: Place) -> str | None:
    return next((each.name for each in place.interfaces if each.kind == "vxlan"), None)


def _is_routed(visit: Visit) -> bool:
    """Whether IP handled the packet, and no bridge alone."""
    return visit.passed("INPUT") or len({each.packet.hops for each in visit.sightings}) > 1


# Hooks of one place


def hook_gaps(visit: Visit, topology: Topology, book: Rulebook | None, asked_in: Collection[str]) -> Iterator[Text]:
    """Base chains that the packet must have passed, and rules of them of which records are missing.

    ``asked_in`` are the hooks where conntrack asks the rules of nat, as far as the walk shows.
    """
    for each in visit.passes:
        if each.chain[1] != TRACE_TABLE and not each.complete:
            yield CHAIN_CUT(place=visit.place, hook=each.hook, table=each.chain[1])
    if book is None or all(table == TRACE_TABLE for _, table, _ in book.base_chains):
        return
    expected = list(_expected_chains(visit, topology, book))
    if expected and not visit.passes:
        yield UNTRACED(place=visit.place)
        return
    seen = {each.chain for each in visit.passes}
    for hook, chain in expected:
        if chain in seen:
            continue
        if visit.turned and hook == "OUTPUT" and book.base_chains[chain].nat:
            # Asked once in PREROUTING: where IPVS sends the packet on, its destination is settled.
            continue
        if not book.base_chains[chain].nat:
            yield CHAIN_UNSEEN(place=visit.place, hook=hook, table=chain[1])
        elif hook in asked_in and not (visit.incoming and visit.incoming[0].frame.interface == LOOPBACK):
            yield NAT_NOT_ASKED(place=visit.place, hook=hook)


def _expected_chains(visit: Visit, topology: Topology, book: Rulebook) -> Iterator[tuple[str, tuple[str, str, str]]]:
    """Base chains on the packet's way, in the order of passing, up to where it was dropped."""
    families = ("inet", "ip" if visit.first_packet().family == 4 else "ip6")
    last = next(((each.hook, each.priority) for each in visit.passes if each.dropped), None)
    if last is None and refusing_server(visit, book) is not None:
        last = visit.passes[-1].hook, IPVS_PRIORITIES[visit.passes[-1].hook]
    for hook in _hooks_on_way(visit, topology):
        chains = [(info, key) for key, info in book.base_chains.items() if info.hook == hook and key[0] in families]
        for info, key in sorted(chains, key=lambda each: each[0].priority):
            if visit.turned and hook == "INPUT" and info.priority > IPVS_PRIORITIES[hook]:
                continue
            if last is not None:
                if STAGES[hook] > STAGES[last[0]]:
                    return
                if hook == last[0] and info.priority > last[1]:
                    return
            yield hook, key


def _hooks_on_way(visit: Visit, topology: Topology) -> Iterable[str]:
    place = topology.places.get(visit.place)
    if is_born_in(visit, topology):
        return ("OUTPUT", "POSTROUTING")
    if visit.turned:
        return _PATHS["turned"]
    if visit.passed("INPUT"):
        return _PATHS["in"]
    if place is None or not _reaches_ip(visit, place):
        return ()
    if _ends_in_bridge(visit, place):
        return ("PREROUTING",)
    if visit.outgoing or visit.passed("POSTROUTING"):
        return _PATHS["through"]
    return _PATHS["through"][:2] if visit.passed("FORWARD") else ("PREROUTING",)


def _reaches_ip(visit: Visit, place: Place) -> bool:
    """Whether IP or the hooks of a bridge saw the packet."""
    if place.bridge_netfilter or visit.passes or _is_routed(visit):
        return True
    interfaces = (place.interface(each.frame.interface) for each in visit.incoming)
    return any(each is not None and each.master is None for each in interfaces)
