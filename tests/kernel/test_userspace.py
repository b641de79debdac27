"""Mode userspace for real: rules in the kernel, connections through the proxy's sockets to Pods and back."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from netlab.kernel import iptables
from netlab.model.keys import ObjectKey
from netlab.model.records import ProxyConnection
from netlab.model.text import Text
from netlab.node.eventloop import READ, EventLoop
from netlab.node.userspace.sockets import UserspaceSockets, raise_descriptor_limit
from netlab.objects.ip import parse_ip
from netlab.objects.proxyconfig import KubeProxyConfiguration
from netlab.proxy.changes import ServiceTracker
from netlab.proxy.family import Family
from netlab.proxy.iptables.ruleset import parse_save
from netlab.proxy.topology import NodeTopology
from netlab.proxy.userspace.proxier import UserspaceProxier
from netlab.proxy.userspace.settings import userspace_settings
from tests.kernel.pump import received, until
from tests.kernel.wires import NODE_IP, NODE_IP6, Wires
from tests.unit.proxy.build import READY, endpoint_slice, service

pytestmark = pytest.mark.kernel
Sandbox = Callable[[Callable[[], Any]], Any]

TCP, UDP = socket.SOCK_STREAM, socket.SOCK_DGRAM
PODS = ["client", "a", "b"]
WEB = """
{metadata: web, spec: {type: NodePort, clusterIP: 10.96.0.50, ports: [{name: http, port: 80, nodePort: 30080}]%s}}
"""
AFFINITY = ", sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 10}}"
DNS = "{metadata: dns, spec: {clusterIP: 10.96.0.53, ports: [{name: u, port: 53, protocol: UDP}]}}"


class World:
    """One node with the proxy, a client Pod and two server Pods, all served by one loop."""

    def __init__(self, family: Family = Family.IPV4, **sockets: Any) -> None:
        self.version = family.value
        self.wires = Wires(PODS)
        # The proxy's process is in the node's namespace, and dials from there.
        self._stay = self.wires.inside("node")
        self._stay.__enter__()
        self.loop = EventLoop()
        self.records: list[ProxyConnection] = []
        self.complaints: list[Text] = []
        self.servers: list[socket.socket] = []
        self.tracker = ServiceTracker(family, NodeTopology("n1"))
        node_ip = parse_ip(NODE_IP if family is Family.IPV4 else NODE_IP6)
        assert node_ip is not None
        config = KubeProxyConfiguration()
        settings = userspace_settings(config, node_ips=[node_ip], local_addresses=[node_ip])
        self.proxy = UserspaceSockets(self.loop, "n1", settings.listen_ip, report=self.records.append, **sockets)
        self.proxier = UserspaceProxier(
            "n1", settings, self.proxy, local_addresses=[str(node_ip)], complain=self.complaints.append
        )

    def sync(self) -> Any:
        return self.proxier.sync(self.tracker.take_changes(), self.tracker.ports)

    def endpoints(self, of: str, pods: Sequence[str], port: dict[str, Any]) -> None:
        endpoints = [{"addresses": [self.wires.ip(pod, self.version)], "conditions": READY} for pod in pods]
        kind = "IPv4" if self.version == 4 else "IPv6"
        self.tracker.set_slice(endpoint_slice(f"{of}-1", of, endpoints, [port], address_type=kind))

    def serve_tcp(self, pod: str, port: int = 8080) -> None:
        """Greets with the Pod's name and the client's address, then sends everything back; closes after the client."""
        listener = self.wires.socket(pod, TCP, self.version)
        listener.bind(("", port))
        listener.listen(2000)
        self.servers.append(listener)

        def accept(_: int) -> None:
            connection, client = listener.accept()
            connection.sendall(f"{pod} {client[0]}\n".encode())

            def echo(_: int) -> None:
                try:
                    data = connection.recv(65536)
                    if data:
                        connection.sendall(data)
                        return
                    connection.sendall(b"bye\n")
                except OSError:
                    pass
                self.loop.forget(connection)
                connection.close()

            self.loop.watch(connection, READ, echo)

        self.loop.watch(listener, READ, accept)

    def serve_udp(self, pod: str, port: int = 8053) -> None:
        server = self.wires.socket(pod, UDP, self.version)
        server.bind(("", port))
        self.servers.append(server)

        def answer(_: int) -> None:
            data, client = server.recvfrom(65536)
            server.sendto(f"{pod} {client[0]} {len(data)}".encode(), client)

        self.loop.watch(server, READ, answer)

    def connect(self, address: str, port: int, place: str = "client") -> socket.socket:
        client = self.wires.socket(place, TCP, self.version)
        client.settimeout(5)
        client.connect((address, port))
        return client

    def greeting(self, client: socket.socket) -> str:
        return received(self.loop, client, lambda data: data.endswith(b"\n")).decode().strip()


HTTP = {"name": "http", "port": 8080, "protocol": "TCP"}
U = {"name": "u", "port": 8053, "protocol": "UDP"}


def web_world(family: Family = Family.IPV4, *, more: str = "", pods: Sequence[str] = ("a", "b")) -> World:
    world = World(family)
    world.tracker.set_service(service(WEB % more))
    world.endpoints("web", pods, HTTP)
    for pod in ("a", "b"):
        world.serve_tcp(pod)
    world.sync()
    return world


def test_strict_alternation_the_nodes_address_and_one_story(sandbox: Sandbox) -> None:
    def run() -> tuple[list[str], list[ProxyConnection], list[tuple[str, int]]]:
        world = web_world()
        clients = [world.connect("10.96.0.50", 80) for _ in range(4)]
        greetings = [world.greeting(client) for client in clients]
        return greetings, world.records, [client.getsockname() for client in clients]

    greetings, records, clients = sandbox(run)
    assert set(greetings) == {"a 10.244.2.1", "b 10.244.3.1"}
    assert greetings[0] == greetings[2] != greetings[1] == greetings[3]
    assert [record.event for record in records] == ["joined"] * 4
    assert [(record.accepted.source, record.accepted.source_port) for record in records] == clients
    first = records[0]
    assert (first.id, first.service_port, first.protocol) == ("proxy:n1#1", "lab/web:http", 6)
    assert first.accepted.destination == "10.244.1.1"
    assert first.dialled is not None
    assert (
        greetings[0] == {"10.244.2.5": "a", "10.244.3.5": "b"}[first.dialled.destination] + " " + first.dialled.source
    )


def test_ways_to_a_service(sandbox: Sandbox) -> None:
    """From a Pod, from the node itself, from outside to the nodePort, and from the node to the nodePort on loopback."""

    def run() -> list[str]:
        world = web_world(pods=["a"])
        ways = [
            ("client", "10.96.0.50", 80),
            ("node", "10.96.0.50", 80),
            ("outside", NODE_IP, 30080),
            ("node", NODE_IP, 30080),
            ("node", "127.0.0.1", 30080),
        ]
        return [world.greeting(world.connect(address, port, place)) for place, address, port in ways]

    assert sandbox(run) == ["a 10.244.2.1"] * 5


def test_saved_rules_are_the_wanted_ones_and_stay(sandbox: Sandbox) -> None:
    def run() -> dict[str, Any]:
        world = web_world()
        saved = iptables.save(4, "n1")
        wanted = world.proxier.state.wanted()
        nothing = world.sync()
        world.proxier.require_full_sync()
        full = world.sync()
        iptables.restore(4, "n1", "*nat\n-F KUBE-PORTALS-HOST\n-F PREROUTING\nCOMMIT\n")
        world.proxier.require_full_sync()
        world.sync()
        again = iptables.save(4, "n1")
        return {"saved": saved, "again": again, "wanted": wanted, "nothing": nothing, "full": full}

    found = sandbox(run)

    def texts(rule_set: Any) -> dict[str, Any]:
        return {
            f"{table} {chain}": [rule.text for rule in rules]
            for table in ("nat", "filter")
            for chains in (rule_set.tables[table].built_in, rule_set.tables[table].chains)
            for chain, rules in chains.items()
            if rules
        }

    assert texts(parse_save(found["saved"])) == texts(found["wanted"])
    assert texts(parse_save(found["again"])) == texts(found["wanted"])
    assert found["nothing"].transactions == 0
    assert found["full"].full
    assert found["full"].transactions == 0


def test_a_refused_dial_takes_the_next_endpoint_and_pins_the_client_to_it(sandbox: Sandbox) -> None:
    def run() -> tuple[list[str], list[ProxyConnection]]:
        world = World()
        world.tracker.set_service(service(WEB % AFFINITY))
        world.endpoints("web", ["a", "b"], HTTP)
        world.serve_tcp("b")
        world.sync()
        return [world.greeting(world.connect("10.96.0.50", 80)) for _ in range(6)], world.records

    greetings, records = sandbox(run)
    assert greetings == ["b 10.244.3.1"] * 6
    tried = [record.tried for record in records if record.event == "joined"]
    assert tried[0] in ((), ("10.244.2.5:8080",))
    assert tried[1:] == [()] * 5


def test_no_endpoint_or_none_that_answers_closes_the_connection(sandbox: Sandbox) -> None:
    def run() -> tuple[bytes, bytes, list[ProxyConnection]]:
        world = web_world(pods=[])
        none = received(world.loop, world.connect("10.96.0.50", 80), lambda _: False)
        world.endpoints("web", ["client"], HTTP)
        world.sync()
        refused = received(world.loop, world.connect("10.96.0.50", 80), lambda _: False)
        return none, refused, world.records

    none, refused, records = sandbox(run)
    assert none == refused == b""
    assert [record.event for record in records] == ["failed", "failed"]
    assert [record.dialled for record in records] == [None, None]
    assert [record.tried for record in records] == [(), ("10.244.1.5:8080",) * 4]


def test_a_silent_endpoint_costs_a_quarter_of_a_second(sandbox: Sandbox) -> None:
    def run() -> tuple[str, tuple[str, ...], float]:
        world = World()
        world.tracker.set_service(service(WEB % ""))
        world.endpoints("web", ["a", "b"], HTTP)
        world.serve_tcp("b")
        with world.wires.inside("a"):
            iptables.restore(4, "a", "*filter\n-A INPUT -p tcp -j DROP\nCOMMIT\n")
        world.sync()
        greetings = []
        begin = world.loop.clock()
        for _ in range(2):
            greetings.append(world.greeting(world.connect("10.96.0.50", 80)))
        tried = [record.tried for record in world.records if record.tried]
        assert len(set(greetings)) == 1
        return greetings[0], tried[0], world.loop.clock() - begin

    greeting, tried, seconds = sandbox(run)
    assert greeting == "b 10.244.3.1"
    assert tried == ("10.244.2.5:8080",)
    assert 0.25 <= seconds < 2


def test_half_close_and_much_data_both_ways(sandbox: Sandbox) -> None:
    def run() -> tuple[bool, list[str]]:
        world = web_world()
        client = world.connect("10.96.0.50", 80)
        world.greeting(client)
        data = bytes(range(256)) * 16 * 1024
        sent, answer = 0, b""
        client.setblocking(False)

        def step() -> bool:
            nonlocal sent, answer
            try:
                if sent < len(data):
                    sent += client.send(data[sent : sent + 65536])
                    if sent == len(data):
                        client.shutdown(socket.SHUT_WR)
            except BlockingIOError:
                pass
            try:
                piece = client.recv(1 << 20)
            except BlockingIOError:
                return False
            answer += piece
            return not piece

        until(world.loop, step)
        until(world.loop, lambda: len(world.records) == 2)
        return answer == data + b"bye\n", [record.event for record in world.records]

    assert sandbox(run) == (True, ["joined", "ended"])


def test_a_client_that_breaks_off_ends_both(sandbox: Sandbox) -> None:
    def run() -> list[str]:
        world = web_world()
        client = world.connect("10.96.0.50", 80)
        world.greeting(client)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
        until(world.loop, lambda: len(world.records) == 2)
        return [record.event for record in world.records]

    assert sandbox(run) == ["joined", "ended"]


def test_open_connections_outlive_endpoints_and_service(sandbox: Sandbox) -> None:
    def run() -> tuple[list[str], int, int]:
        world = web_world(pods=["a"])
        # The kernel tracks connections, and so translates those that there are, as long as some rule needs it.
        world.tracker.set_service(service("{metadata: z, spec: {clusterIP: 10.96.0.61, ports: [{port: 9}]}}"))
        world.sync()
        client = world.connect("10.96.0.50", 80)
        said = [world.greeting(client)]
        for change in ("endpoints", "service"):
            if change == "endpoints":
                world.endpoints("web", ["b"], HTTP)
            else:
                world.tracker.delete_service(ObjectKey("Service", "lab", "web"))
            world.sync()
            client.sendall(change.encode() + b"\n")
            said.append(world.greeting(client))
        saved = iptables.save(4, "n1")
        with world.wires.socket("node", TCP) as other:
            other.bind(("", 30080))
        return said, saved.count("lab/web"), len(world.proxy._portals)

    said, rules, listeners = sandbox(run)
    assert said == ["a 10.244.2.1", "endpoints", "service"]
    assert (rules, listeners) == (0, 1)


def test_udp_flows_by_client_until_idle(sandbox: Sandbox) -> None:
    def run() -> tuple[list[str], list[ProxyConnection], list[str]]:
        world = World(udp_idle_s=0.2)
        world.tracker.set_service(service(DNS))
        world.endpoints("dns", ["a", "b"], U)
        for pod in ("a", "b"):
            world.serve_udp(pod)
        world.sync()
        clients = [world.wires.socket("client", UDP) for _ in range(2)]
        answers = []
        for client in (*clients, *clients):
            client.connect(("10.96.0.53", 53))
            client.send(b"x" * 5000)
            answers.append(received(world.loop, client, bool).decode())
        until(world.loop, lambda: sum(record.event == "ended" for record in world.records) == 2)
        clients[1].send(b"?")
        later = received(world.loop, clients[1], bool).decode()
        world.tracker.delete_service(next(iter(world.tracker.ports)).service)
        before = list(world.records)
        world.sync()
        return [*answers, later], before, [record.event for record in world.records[len(before) :]]

    answers, records, at_the_end = sandbox(run)
    assert answers[0] == answers[2] != answers[1] == answers[3]
    assert set(answers[:4]) == {"a 10.244.2.1 4096", "b 10.244.3.1 4096"}
    assert answers[4] == answers[0].replace("4096", "1")
    assert [record.event for record in records] == ["joined", "joined", "ended", "ended", "joined"]
    assert {record.protocol for record in records} == {17}
    assert at_the_end == ["ended"]


def test_udp_to_a_closed_port_ends_its_flow(sandbox: Sandbox) -> None:
    def run() -> list[str]:
        world = World(udp_idle_s=30)
        world.tracker.set_service(service(DNS))
        world.endpoints("dns", ["a"], U)
        world.sync()
        client = world.wires.socket("client", UDP)
        client.connect(("10.96.0.53", 53))
        client.send(b"x")
        until(world.loop, lambda: len(world.records) == 2)
        return [record.event for record in world.records]

    assert sandbox(run) == ["joined", "ended"]


def test_ipv6_where_that_is_the_family(sandbox: Sandbox) -> None:
    def run() -> list[str]:
        world = World(Family.IPV6)
        text = WEB.replace("10.96.0.50", '"fd00:10:96::50"') % ""
        world.tracker.set_service(service(text))
        world.endpoints("web", ["a"], HTTP)
        world.serve_tcp("a")
        world.sync()
        ways = [("client", "fd00:10:96::50", 80), ("node", "fd00:10:96::50", 80), ("outside", NODE_IP6, 30080)]
        return [world.greeting(world.connect(address, port, place)) for place, address, port in ways]

    assert sandbox(run) == ["a fd00:10:244:2::1"] * 3


def test_what_cannot_be_served_is_told(sandbox: Sandbox) -> None:
    def run() -> tuple[list[str], str, str]:
        world = World(ports=(40000, 40000))
        taken = world.wires.socket("node", TCP)
        taken.bind(("", 30080))
        taken.listen()
        world.tracker.set_service(service(WEB % ""))
        world.endpoints("web", ["a"], HTTP)
        world.serve_tcp("a")
        sctp = "{metadata: s, spec: {clusterIP: 10.96.0.60, ports: [{port: 9, protocol: SCTP}]}}"
        world.tracker.set_service(service(sctp))
        world.sync()
        again = service("{metadata: z, spec: {clusterIP: 10.96.0.61, ports: [{port: 9}]}}")
        world.tracker.set_service(again)
        world.sync()
        saved = iptables.save(4, "n1")
        return [str(each) for each in world.complaints], saved, world.greeting(world.connect("10.96.0.50", 80))

    complaints, saved, greeting = sandbox(run)
    assert sorted(complaints) == [
        "kube-proxy on n1 cannot open the port :30080/TCP for lab/web:http: Address already in use",
        "kube-proxy on n1 failed to start the proxy for lab/z: no free port in 40000-40000",
        "mode userspace does not know the protocol SCTP of lab/s",
    ]
    assert "30080" not in saved
    assert "sctp" not in saved
    assert "--to-ports 40000" in saved
    assert greeting == "a 10.244.2.1"


def test_a_thousand_connections_at_once(sandbox: Sandbox) -> None:
    def run() -> tuple[int, int]:
        raise_descriptor_limit()
        world = web_world()
        clients = []
        for _ in range(1000):
            client = world.wires.socket("client", TCP)
            client.setblocking(False)
            client.connect_ex(("10.96.0.50", 80))
            clients.append(client)
        until(world.loop, lambda: len(world.records) == 1000)
        for number, client in enumerate(clients):
            client.send(b"%d\n" % number)
        answers = [received(world.loop, client, lambda data: data.count(b"\n") == 2) for client in clients]
        right = sum(answer.endswith(b"\n%d\n" % number) for number, answer in enumerate(answers))
        from_a = sum(answer.startswith(b"a ") for answer in answers)
        return right, from_a

    assert sandbox(run) == (1000, 500)
