"""A small model of the kernel: what a probe leaves behind in a lab, and what is true of it.

Bridges, routing, conntrack and NAT are modelled as far as frames, trace records and conntrack events show them;
``test_recorded.py`` compares the model's records with those of a real lab. Nothing here uses the code under test.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

from netlab.model.topology import Peer
from tests.unit.packets import wire
from tests.unit.packets.rules import Service
from tests.unit.packets.simulated_hooks import Devices, Hooks
from tests.unit.packets.simulated_lab import Host, Setup, build
from tests.unit.packets.simulated_records import Event, Recorder, Role, Row, Skb
from tests.unit.packets.wire import ACK, ICMP, ICMPV6, RST, SCTP, SYN, TCP, UDP, Datagram


class Simulator:
    """One lab. :meth:`send` sends a packet and lets everything happen that follows from it."""

    def __init__(
        self,
        setup: Setup,
        services: tuple[Service, ...],
        traced: Callable[[Datagram], bool],
        choose: Callable[[int], int],
        seed: int,
    ) -> None:
        self.setup = setup
        self.random = random.Random(seed)
        self.hosts = build(setup, services, lambda it: traced(it.packet), choose)
        self.recorder = Recorder()
        self.hooks = Hooks(self.recorder, self.random, self._reject)
        self.received: list[tuple[str, Datagram]] = []
        self.on_receive: Callable[[Host, Skb], bool] | None = None
        self._work: deque[Callable[[], None]] = deque()

    # Life

    def send(self, place: str, packet: Datagram, role: Role, *, at_wire: bool = False) -> None:
        """``at_wire``: from a packet socket, past the hooks."""
        host = self.hosts[place]
        skb = Skb(packet, role)
        if at_wire:
            way = host.route(packet.destination)
            assert way is not None
            self._later(lambda: self._transmit(host, way[1], way[0] or packet.destination, skb))
        else:
            self._later(lambda: self._send(host, skb))
        while self._work:
            self._work.popleft()()

    def _later(self, job: Callable[[], None]) -> None:
        self._work.append(job)

    # Sending and receiving

    def _send(self, host: Host, skb: Skb) -> None:
        """A packet made by the host itself."""
        way = host.route(skb.packet.destination)
        if way is None:
            return
        before = skb.packet.destination
        if not self.hooks.run(host, "OUTPUT", skb, None, way[1]):
            return
        if skb.packet.destination != before:
            way = host.route(skb.packet.destination)
            if way is None:
                return
        via, device = way
        if self.hooks.run(host, "POSTROUTING", skb, None, device):
            self._transmit(host, device, via or skb.packet.destination, skb)

    def _transmit(self, host: Host, device: str, next_hop: str, skb: Skb) -> None:
        interface = host.interfaces[device]
        if device == "lo":
            macs = (interface.mac, interface.mac)
            self.recorder.frame(host, "lo", "out", skb, macs)
            self.recorder.frame(host, "lo", "in", skb, macs)
            skb.came_by = (host.name, "lo")
            skb.traced = False
            self._later(lambda: self._receive_ip(host, "lo", skb))
            return
        mac = self._resolve(host, device, next_hop)
        if mac is None:
            self._ask(host, device, next_hop)
            return
        macs = (interface.mac, mac)
        if interface.kind == "vxlan":
            self.recorder.frame(host, device, "out", skb, macs)
            peer = next(each for each in self.hosts.values() if any(i.mac == mac for i in each.interfaces.values()))
            skb.outer = Datagram(
                UDP,
                host.address_on("eth0", 4 if self.setup.family == 4 else 6),
                peer.address_on("eth0", self.setup.family),
                source_port=40000,
                destination_port=wire.VXLAN_PORT,
                identification=self.random.randrange(1, 65536),
            )
            skb.inner_macs = macs
            way = host.route(skb.outer.destination)
            assert way is not None
            self._transmit(host, way[1], way[0] or skb.outer.destination, skb)
            return
        self.recorder.frame(host, device, "out", skb, macs)
        if interface.kind == "bridge":
            self._bridge(host, device, macs, skb, None)
        else:
            self._cross(host, device, macs, skb)

    def _cross(self, host: Host, device: str, macs: tuple[str, str], skb: Skb) -> None:
        peer = host.interfaces[device].peer
        assert peer is not None
        there = self.hosts[peer.place]
        skb.entry, skb.state, skb.mark, skb.traced, skb.reverse = None, "", 0, False, False
        self._later(lambda: self._arrive(there, peer.interface, macs, skb))

    def _arrive(self, host: Host, device: str, macs: tuple[str, str], skb: Skb) -> None:
        interface = host.interfaces[device]
        skb.came_by = (host.name, device)
        self.recorder.frame(host, device, "in", skb, macs)
        if interface.master is not None:
            self._arrive_at_port(host, device, interface.master, macs, skb)
        elif skb.outer is not None:
            skb.outer = None
            skb.came_by = (host.name, "vxlan1")
            self.recorder.frame(host, "vxlan1", "in", skb, skb.inner_macs)
            self._receive_ip(host, "vxlan1", skb)
        else:
            self._receive_ip(host, device, skb)

    def _arrive_at_port(self, host: Host, port: str, bridge: str, macs: tuple[str, str], skb: Skb) -> None:
        own = host.interfaces[bridge].mac
        if host.bridge_netfilter:
            before = skb.packet.destination
            if not self.hooks.run(host, "PREROUTING", skb, bridge, None):
                return
            if skb.packet.destination != before:
                way = host.route(skb.packet.destination)
                if way is not None and way[1] == bridge and way[0] is None:
                    mac = self._resolve(host, bridge, skb.packet.destination)
                    if mac is None:
                        self._ask(host, bridge, skb.packet.destination)
                        return
                    macs = (own, mac)
                    if not self.setup.neighbours_known:
                        self.recorder.frame(host, bridge, "out", skb, macs)
                else:
                    macs = (macs[0], own)
        if macs[1] == own:
            skb.came_by = (host.name, bridge)
            self.recorder.frame(host, bridge, "in", skb, macs)
            self._receive_ip(host, bridge, skb, hooked=host.bridge_netfilter)
            return
        self._bridge(host, bridge, macs, skb, port)

    def _bridge(self, host: Host, bridge: str, macs: tuple[str, str], skb: Skb, came_in: str | None) -> None:
        """On to a port; ``came_in`` is the port that the frame came by, if it came by one."""
        ports = [each for each in host.interfaces.values() if each.master == bridge]
        filtered = came_in is not None and host.bridge_netfilter
        for port in ports:
            if port.name == came_in and not (self.setup.hairpin and host.kind == "node"):
                continue
            meant = port.peer is not None and self._mac_of(port.peer) == macs[1]
            if not meant and self.setup.ports_known:
                continue
            copy = skb if meant else self._copy(skb)
            if filtered and not (
                self.hooks.run(host, "FORWARD", copy, bridge, bridge)
                and self.hooks.run(host, "POSTROUTING", copy, None, bridge)
            ):
                continue
            self.recorder.frame(host, port.name, "out", copy, macs, flood=not meant)
            if meant:
                self._cross(host, port.name, macs, copy)
            else:
                assert port.peer is not None
                self.recorder.frame(self.hosts[port.peer.place], port.peer.interface, "in", copy, macs, flood=True)

    def _copy(self, skb: Skb) -> Skb:
        """A flooded copy: true of it is nothing that a walk tells."""
        copy = Skb(**{name: getattr(skb, name) for name in skb.__dataclass_fields__})
        copy.role = "noise"
        return copy

    def _receive_ip(self, host: Host, device: str, skb: Skb, *, hooked: bool = False) -> None:
        if not hooked and not self.hooks.run(host, "PREROUTING", skb, device, None):
            return
        packet = skb.packet
        if packet.family == 4 and packet.source in host.addresses() and device != "lo":
            # A martian; IPv6 does not mind.
            return
        if packet.destination in host.addresses() or packet.destination.startswith("127."):
            if self.hooks.run(host, "INPUT", skb, device, None):
                self._deliver(host, skb)
            return
        if not host.forwards:
            return
        way = host.route(packet.destination)
        if way is None:
            self._answer_with_error(host, device, skb, (3, 0) if packet.family == 4 else (1, 0))
            return
        if packet.hops <= 1:
            self._answer_with_error(host, device, skb, (11, 0) if packet.family == 4 else (3, 0))
            return
        skb.packet = packet.changed(hops=packet.hops - 1)
        via, out = way
        if self.hooks.run(host, "FORWARD", skb, device, out) and self.hooks.run(host, "POSTROUTING", skb, device, out):
            self._transmit(host, out, via or skb.packet.destination, skb)

    def _answer_with_error(self, host: Host, device: str, skb: Skb, kind: tuple[int, int]) -> None:
        packet = skb.packet
        if packet.is_error or packet.flags & RST:
            return
        answer = Datagram(
            ICMP if packet.family == 4 else ICMPV6,
            host.address_on(device, packet.family)
            if packet.destination not in host.addresses()
            else packet.destination,
            packet.source,
            identification=self.random.randrange(1, 65536),
            icmp=kind,
            quoted=packet,
        )
        self._send(host, _attached(answer, skb))

    def _deliver(self, host: Host, skb: Skb) -> None:
        packet = skb.packet
        self.received.append((host.name, packet))
        if self.on_receive is not None and self.on_receive(host, skb):
            return
        if packet.is_error:
            return
        back = packet.changed(
            source=packet.destination,
            destination=packet.source,
            source_port=packet.destination_port,
            destination_port=packet.source_port,
            hops=64,
            identification=self.random.randrange(1, 65536),
        )
        listening = (packet.protocol, packet.destination_port) in host.listens
        answer: Datagram | None = None
        if packet.protocol == TCP and packet.flags & (SYN | ACK | RST) == SYN:
            answer = back.changed(
                flags=SYN | ACK if listening else RST | ACK,
                sequence=self._isn(packet) if listening else 0,
                acknowledgement=packet.sequence + 1 & 0xFFFFFFFF,
                identification=0 if packet.family == 4 else self._isn(packet) & 0xFFFFF,
            )
        elif packet.protocol == UDP and listening:
            answer = back.changed(payload=packet.payload + b" seen")
        elif packet.protocol in (ICMP, ICMPV6) and packet.icmp in ((8, 0), (128, 0)):
            answer = back.changed(icmp=(0, 0) if packet.protocol == ICMP else (129, 0))
        elif packet.protocol == SCTP and packet.payload[:1] == b"\1":
            if any(protocol == SCTP for protocol, _ in host.listens):
                chunk = b"\2" + wire.init_chunk(7)[1:] if listening else b"\6\0\0\4"
                answer = back.changed(tag=int.from_bytes(packet.payload[4:8]), payload=chunk)
            else:
                self._answer_with_error(host, "eth0", skb, (3, 2) if packet.family == 4 else (4, 1))
        elif packet.protocol == UDP:
            self._answer_with_error(host, "eth0", skb, (3, 3) if packet.family == 4 else (1, 4))
        elif packet.protocol == TCP and packet.flags & (SYN | RST) == 0:
            answer = back.changed(flags=RST, sequence=packet.acknowledgement, acknowledgement=0, identification=0)
        if answer is not None:
            reply = answer
            self._later(lambda: self._send(host, Skb(reply, _answer_role(skb.role))))

    def _isn(self, packet: Datagram) -> int:
        """The same number for the same question: a SYN-ACK that is sent twice is the same to the last bit."""
        return random.Random(f"{packet.sequence}/{packet.source}").randrange(1 << 32)

    def _reject(self, host: Host, skb: Skb, devices: Devices, how: str) -> None:
        packet = skb.packet
        if how == "reject":
            device = devices[0] or devices[1] or "eth0"
            self._answer_with_error(host, device, skb, (3, 3) if packet.family == 4 else (1, 4))
            return
        answer = packet.changed(
            source=packet.destination,
            destination=packet.source,
            source_port=packet.destination_port,
            destination_port=packet.source_port,
            hops=64,
            identification=0,
            flags=RST | ACK,
            sequence=0,
            acknowledgement=packet.sequence + 1 & 0xFFFFFFFF,
        )
        self._send(host, _attached(answer, skb))

    # Neighbours

    def _mac_of(self, peer: Peer) -> str:
        return self.hosts[peer.place].interfaces[peer.interface].mac

    def _resolve(self, host: Host, device: str, next_hop: str) -> str | None:
        """The MAC of the host on the device's link that has the address."""
        interface = host.interfaces[device]
        if interface.kind == "vxlan":
            others = [each for each in self.hosts.values() if each is not host and "vxlan1" in each.interfaces]
            return next(
                (each.interfaces["vxlan1"].mac for each in others if next_hop in each.addresses()),
                None,
            )
        for place, name in self._link(host.name, device):
            there = self.hosts[place]
            if next_hop in there.addresses() and there is not host:
                return there.interfaces[name].mac
        return None

    def _link(self, place: str, device: str) -> set[tuple[str, str]]:
        """The interfaces with addresses of their own that frames from the device can reach."""
        host = self.hosts[place]
        found: set[tuple[str, str]] = set()
        ports = [each for each in host.interfaces.values() if each.master == device] or [host.interfaces[device]]
        for port in ports:
            if port.peer is None:
                continue
            far = self.hosts[port.peer.place].interfaces[port.peer.interface]
            if far.master is None:
                found.add((port.peer.place, far.name))
                continue
            found.add((port.peer.place, far.master))
            for each in self.hosts[port.peer.place].interfaces.values():
                if each.master == far.master and each is not far and each.peer is not None:
                    found.add((each.peer.place, each.peer.interface))
        return found

    def _ask(self, host: Host, device: str, address: str) -> None:
        """An address that nobody has."""
        interface = host.interfaces[device]
        sender = next(
            text.partition("/")[0] for text in interface.addresses if (":" in text) == (self.setup.family == 6)
        )
        data = wire.arp_question(interface.mac, sender, address)
        ports = [each.name for each in host.interfaces.values() if each.master == device]
        first = True
        for name in [device, *ports]:
            values: dict[str, object] = {"interface": name, "direction": "out", "data": data, "overheard": False}
            event = Event("frame", host.name, values, role="request")
            self.recorder.events.append(event)
            request = next((row for row in reversed(self.recorder.rows) if row.role == "request"), None)
            if first and request is not None:
                addresses = request.source, request.destination
                self.recorder.rows.append(
                    Row("request", host.name, name, None, None, None, None, *addresses, (), event, optional=False)
                )
            first = False


def _answer_role(role: Role) -> Role:
    return "reply" if role == "request" else "noise"


def _attached(answer: Datagram, to: Skb) -> Skb:
    """An error or a reset that the kernel makes belongs to the connection of the packet that caused it, even one that
    is not confirmed (``nf_ct_attach``)."""
    skb = Skb(answer, _answer_role(to.role))
    if to.entry is not None:
        skb.entry, skb.reverse, skb.state = to.entry, not to.reverse, "RELATED"
    return skb
