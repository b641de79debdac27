"""A scenario's probe, sent in a simulated lab."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from netlab.packets.observation import Mark, SocketResult
from tests.unit.packets import wire
from tests.unit.packets.rules import Service
from tests.unit.packets.scenarios import ACK_ONLY, BARE, BARE_PING, Scenario, services
from tests.unit.packets.simulated_lab import Host, Setup
from tests.unit.packets.simulated_records import Row, Skb
from tests.unit.packets.simulator import Simulator
from tests.unit.packets.wire import ACK, ICMP, ICMPV6, RST, SCTP, SYN, TCP, UDP, Datagram


@dataclass
class Simulated:
    """A probe that was sent in a simulated lab."""

    scenario: Scenario
    sim: Simulator
    mark: Mark
    packet: Datagram
    result: SocketResult = "timeout"

    @property
    def rows(self) -> list[Row]:
        """What is true of the first sending, in the order in which a walk tells it: the request first."""
        return self.truth(0, 0)

    def truth(self, request: int, reply: int) -> list[Row]:
        """What is true of one sending's request and of the reply to another."""
        sendings = self.sim.recorder.sendings
        asked = [row for row in sendings[request] if row.role == "request"]
        return asked + [row for row in sendings[reply] if row.role == "reply"]

    def send_again(self, identification: int | None = None) -> None:
        """A retransmission: a kernel gives it the next number, or (the label of IPv6) the same one."""
        packet = self.packet if identification is None else self.packet.changed(identification=identification)
        self.sim.recorder.sendings.append([])
        self.sim.send(self.scenario.origin, packet, "request")


def simulate(scenario: Scenario, setup: Setup, seed: int = 0) -> Simulated:
    """Send the scenario's probe."""
    chance = random.Random(f"probe {seed}")
    offered = services(setup.family)
    protocol = {BARE: "udp", ACK_ONLY: "tcp"}.get(scenario.protocol, scenario.protocol)
    sequence = chance.randrange(1, 1 << 32)
    mark, packet = _probe(scenario, chance, sequence, setup.family)
    traced = _traced_by(mark)
    sim = Simulator(setup, tuple(offered.values()), traced, lambda count: chance.randrange(count), seed)
    set_user_rules(scenario, sim)
    origin = sim.hosts[scenario.origin]
    service = offered.get(f"{scenario.service}/{protocol}")
    address, port = _destination(sim, scenario, service)
    source = _source(origin, address, setup.family)
    ports: dict[str, Any] = {}
    if packet.has_ports:
        ports = {"source_port": chance.randrange(32768, 61000), "destination_port": port}
    packet = packet.changed(source=source, destination=address, **ports)
    probe = Simulated(scenario, sim, mark, packet)
    sim.on_receive = _socket(probe)
    sim.send(scenario.origin, packet, "request")
    return probe


def set_user_rules(scenario: Scenario, sim: Simulator) -> None:
    for each in scenario.user:
        each.set(sim.hosts[each.place].rules, "ip" if sim.setup.family == 4 else "ip6")


def _probe(scenario: Scenario, chance: random.Random, sequence: int, family: int) -> tuple[Mark, Datagram]:
    text = b"nl" + chance.randbytes(5).hex().encode()
    empty = Datagram(0, "0.0.0.0", "0.0.0.0", hops=scenario.hops, identification=chance.randrange(1, 65535))
    if scenario.protocol == "tcp":
        return Mark(TCP, sequence=sequence), empty.changed(protocol=TCP, flags=SYN, sequence=sequence)
    if scenario.protocol == ACK_ONLY:
        number = chance.randrange(1, 1 << 32)
        mark = Mark(TCP, sequence=sequence, answers=(sequence,), acknowledged=number)
        return mark, empty.changed(protocol=TCP, flags=ACK, sequence=sequence, acknowledgement=number)
    if scenario.protocol == "udp":
        return Mark(UDP, payload=text), empty.changed(protocol=UDP, payload=text + b" kube-netlab")
    if scenario.protocol == BARE:
        return Mark(UDP, identification=empty.identification), empty.changed(protocol=UDP)
    if scenario.protocol == "sctp":
        chunk = wire.init_chunk(sequence)
        return Mark(SCTP, payload=chunk[:12]), empty.changed(protocol=SCTP, payload=chunk)
    if scenario.protocol == BARE_PING:
        protocol, kind = (ICMP, 8) if family == 4 else (ICMPV6, 128)
        mark = Mark(protocol, identification=empty.identification, echo=chance.randrange(2, 65536))
        number = mark.echo or 0
        return mark, empty.changed(protocol=protocol, icmp=(kind, 0), echo=chance.randrange(65536), sequence=number)
    echo = chance.randrange(65536)
    protocol, kind = (ICMP, 8) if family == 4 else (ICMPV6, 128)
    packet = empty.changed(protocol=protocol, icmp=(kind, 0), echo=echo, payload=text + b" kube-netlab")
    return Mark(protocol, payload=text), packet


def _traced_by(mark: Mark) -> Callable[[Datagram], bool]:
    """The packets that the lab has nftables trace (see ``netlab.packets.probe.trace_matches``)."""

    def carries(packet: Datagram) -> bool:
        if packet.protocol != mark.protocol:
            return False
        if mark.protocol == TCP:
            return packet.sequence == mark.sequence
        if mark.payload:
            return packet.payload.startswith(mark.payload)
        if mark.echo is not None:
            return packet.sequence == mark.echo
        return packet.identification == mark.identification

    def traced(packet: Datagram) -> bool:
        if packet.quoted is not None:
            return carries(packet.quoted)
        if mark.protocol == UDP == packet.protocol and not mark.payload:
            return True
        if carries(packet):
            return True
        if mark.protocol == TCP == packet.protocol:
            return packet.acknowledgement in mark.expected or packet.sequence == mark.acknowledged
        return packet.protocol == SCTP == mark.protocol and packet.tag.to_bytes(4) == mark.payload[4:8]

    return traced


def _destination(sim: Simulator, scenario: Scenario, service: Service | None) -> tuple[str, int]:
    six = sim.setup.family == 6
    port = scenario.port or 0
    if scenario.to == "cluster-ip":
        assert service is not None
        return service.cluster_ip, service.port
    if scenario.to == "localhost":
        assert service is not None
        return "127.0.0.1", service.node_port
    if scenario.to == "nobody":
        return ("fd00:60::99" if six else "192.168.60.99"), port
    if scenario.to == "nowhere":
        return ("fd00:9::9" if six else "172.16.0.1"), port
    if scenario.to == "unused":
        return ("fd00:200:1::99" if six else "10.200.1.99"), port
    address = sim.hosts[scenario.to].address_on("eth0", sim.setup.family)
    return address, service.node_port if service is not None else port


def _source(origin: Host, destination: str, family: int) -> str:
    way = origin.route(destination)
    assert way is not None
    if way[1] == "lo":
        return destination
    return origin.address_on(way[1], family)


def _socket(probe: Simulated) -> Callable[[Host, Skb], bool]:
    """What the prober's socket makes of what comes back; true where it takes the packet."""
    asked = probe.packet

    def receive(host: Host, skb: Skb) -> bool:
        packet = skb.packet
        if host.name != probe.scenario.origin or skb.role != "reply":
            return False
        if packet.quoted is not None:
            quoted = packet.quoted
            same = (quoted.source_text, quoted.destination_text) == (asked.source_text, asked.destination_text)
            if same and probe.result == "timeout":
                if packet.icmp in ((3, 3), (1, 4)) and packet.icmp[0] == (3 if asked.family == 4 else 1):
                    probe.result = "refused"
                elif asked.protocol != TCP or packet.icmp[0] != (11 if asked.family == 4 else 3):
                    probe.result = "unreachable"
            return True
        same = (packet.source_text, packet.destination_text) == (asked.destination_text, asked.source_text)
        if not same:
            if packet.protocol == TCP and not packet.flags & RST:
                back = packet.changed(
                    source=packet.destination,
                    destination=packet.source,
                    source_port=packet.destination_port,
                    destination_port=packet.source_port,
                    flags=RST,
                    sequence=packet.acknowledgement,
                    acknowledgement=0,
                    hops=64,
                )
                probe.sim._later(lambda: probe.sim._send(host, Skb(back, "noise")))
            return True
        if probe.result == "timeout":
            probe.result = "refused" if packet.flags & RST else "answered"
        return True

    return receive
