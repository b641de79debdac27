"""The Lab: a cluster's objects, its fabric, its processes, and what can be asked of them while they run."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from netlab.cluster.store import Event, Store
from netlab.kernel import ipvs
from netlab.kernel.limits import check_namespaces
from netlab.kernel.nftables import PacketMatch
from netlab.lab.causes import NodeWorld, causes_of
from netlab.lab.change import Change, plan_change, plan_deletion
from netlab.lab.connections import connections, forget_connection
from netlab.lab.endpoints import EndpointSliceController
from netlab.lab.execution import Executed, execute
from netlab.lab.fabric import Fabric
from netlab.lab.input import Locator, read_input
from netlab.lab.listing import listing
from netlab.lab.load_balancing import LoadBalancing
from netlab.lab.locating import CauseLocator
from netlab.lab.meanings import has_localhost_node_ports, meanings_of
from netlab.lab.observatory import Observatory, Recorded, Watchpoint
from netlab.lab.plan import ROUTER, FabricPlan, PlaceSetup, PodPlan, plan_fabric, plan_pod
from netlab.lab.pods import PodProcess, PodProcesses, declared_ports
from netlab.lab.programmed import NO_NODE
from netlab.lab.proxies import ProxyProcess, ProxyProcesses
from netlab.lab.resolve import BAD_MODE, Resolved, resolve
from netlab.lab.rulebooks import Causes, RulebookReader
from netlab.lab.unready import why_unready
from netlab.lab.who import Sender, find_sender
from netlab.model.changes import Changed, Changes
from netlab.model.errors import BadInput, LabFailed
from netlab.model.keys import ObjectKey
from netlab.model.records import ConntrackRecord, IpvsRecord, ProxyConnection
from netlab.model.rulebook import Rulebook
from netlab.model.text import Message, Text
from netlab.model.topology import Topology
from netlab.model.walk import Probe as ProbeWords
from netlab.model.walk import Walk
from netlab.node.zygote import Spawned, Zygote
from netlab.objects.endpointslice import EndpointSlice
from netlab.objects.node import Node
from netlab.objects.pod import Pod
from netlab.objects.proxyconfig import MODES, KubeProxyConfiguration
from netlab.objects.service import Service
from netlab.objects.yaml_source import Source
from netlab.packets.correlate import correlate
from netlab.packets.craft import CraftedProbe, sctp_init
from netlab.packets.expression import parse_expression
from netlab.packets.headers import ACK, SYN, TCP
from netlab.packets.observation import EndpointOwner, Observation
from netlab.packets.probe import EchoProbe, Probe, TcpProbe, UdpProbe
from netlab.packets.targets import parse_target
from netlab.proxy.family import join_host_port

T = TypeVar("T")

SYNC_TIMEOUT_S = 60.0
TCP_FLAGS_OFFSET = 13
OPENINGS = (SYN, SYN | ACK)
"""The flags of the first two segments of a TCP connection."""
POD_END_S = 5.0
"""How long the fork server may take to tell of what a Pod has ended, seconds."""
PODS_AT_ONCE = 16
"""Pods that are made together, in few exchanges with the kernel."""

CANNOT_LISTEN = Message(
    "lab.cannot-listen",
    en="{pod} cannot listen on port {port}: {error}",
    zh="{pod} 无法监听端口 {port}：{error}",
)
HELPER_DIED = Message(
    "lab.helper-died",
    en="The lab's fork server for {what} has ended; the lab cannot go on.",
    zh="实验中负责 {what} 的进程已退出；实验无法继续。",
)
POD_DIED = Message(
    "lab.pod-died",
    en="The Pod {pod} has ended while the lab came up.",
    zh="Pod {pod} 在实验建立期间退出。",
)


@dataclass
class Captured:
    """The last walk's capture, kept until the next walk."""

    walk: Walk
    recorded: Recorded
    began_ns: int
    ended_ns: int


@dataclass
class Zygotes:
    """The two fork servers, made before the engine had an event loop."""

    pods: Zygote
    proxies: Zygote


class Lab:
    """One running lab. Made and used inside the sandbox, in the engine's event loop.

    ``connect_proxy(node)`` gives a node's proxy its connection to the engine. ``limits``: how many namespaces of each
    kind there may be, by the setting that says so.
    """

    def __init__(
        self, zygotes: Zygotes, connect_proxy: Callable[[str], socket.socket], limits: Mapping[str, int]
    ) -> None:
        self.zygotes = zygotes
        self.limits = limits
        self.connect_proxy = connect_proxy
        self.store = Store()
        self.fabric = Fabric()
        self.observatory = Observatory()
        self.pods = PodProcesses(zygotes.pods)
        self.proxies = ProxyProcesses(zygotes.proxies)
        self.rulebooks = RulebookReader()
        self.topology = Topology({})
        self.plan: FabricPlan | None = None
        self.configs: Mapping[str, KubeProxyConfiguration] = {}
        self.locator: Locator | None = None
        self.resolved = Resolved("lab")
        self.name = "lab"
        self.notes: list[Text] = []
        self.captured: Captured | None = None
        self.failed: Text | None = None
        self.balancing: LoadBalancing | None = None
        self._slices = EndpointSliceController(self.store)
        self._walking = asyncio.Lock()
        self._causes: dict[str, tuple[int, Causes]] = {}
        self._host_network: dict[ObjectKey, str] = {}

    # Coming up

    def load(self, sources: Sequence[Source], mode: str | None = None) -> None:
        """Read and work out what is to be built; nothing is made. ``mode`` overrides every node's proxy mode.

        Raises :class:`BadInput`.
        """
        resolved = resolve(read_input(sources), mode)
        self.resolved = resolved
        self.name, self.notes = resolved.name, resolved.notes
        self.configs, self.locator = resolved.configs, resolved.locator

    async def start(self) -> None:
        """Build what was read, start it, and return when every Pod listens and every proxy has programmed its node.

        Raises :class:`MachineCannot` or :class:`LabFailed`.
        """
        resolved = self.resolved
        self._watch_processes()
        box = resolved.load_balancer.box if resolved.load_balancer is not None else None
        plan = plan_fabric(resolved.nodes, resolved.clients, resolved.declared, resolved.wiring, box)
        check_namespaces(self.limits, _needed_namespaces(plan, resolved))
        self.fabric.build(plan)
        for value in resolved.objects:
            self.store.put(value)
        self._slices.given = {each.key for each in resolved.given.of_kind("EndpointSlice")}
        self.store.watch(self._slices.note)
        if resolved.load_balancer is not None:
            self.balancing = LoadBalancing(self.store, resolved.load_balancer, self.zygotes.proxies)
            self.store.watch(self.balancing.note)
            self.balancing.start(self.fabric, plan.topology())
        for setup in plan.setups.values():
            self._observe_place(setup)
        # All at the same time: proxies list objects and program nodes, a thread adds Pods to these, processes start.
        self._start_proxies()
        self.plan = plan
        await self._add_pods(resolved.pods)
        self._start_host_network_pods(resolved.host_network_pods)
        await self._listen()
        await self.proxies.wait_synced(SYNC_TIMEOUT_S)

    async def _add_pods(self, pods: Sequence[PodPlan]) -> None:
        """Wire Pods, in a thread, and start their processes."""
        plan = self.plan
        assert plan is not None
        for start in range(0, len(pods), PODS_AT_ONCE):
            group = pods[start : start + PODS_AT_ONCE]
            for pod in group:
                plan_pod(plan, pod)
            await asyncio.to_thread(self.fabric.make_places, plan)
            for pod in group:
                point = self._observe_place(plan.setups[pod.place])
                namespace = point.namespace.descriptor
                addresses = [str(each) for each in pod.addresses]
                self.pods.start(pod.place, pod.node, namespace, addresses, point.shared)
            # The fork server makes the processes at the same time.
            await asyncio.to_thread(self.fabric.build, plan)
        self.topology = plan.topology()

    def _observe_place(self, setup: PlaceSetup) -> Watchpoint:
        namespace = self.fabric.namespaces[setup.name]
        return self.observatory.add(setup.name, namespace, setup.interface_name, busy=setup.forwards)

    def _watch_processes(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(self.zygotes.pods.fileno(), self._read_zygote, self.zygotes.pods)
        loop.add_reader(self.zygotes.proxies.fileno(), self._read_zygote, self.zygotes.proxies)

    def _read_zygote(self, zygote: Zygote) -> None:
        try:
            events = zygote.read()
        except ConnectionError:
            asyncio.get_running_loop().remove_reader(zygote.fileno())
            self.failed = HELPER_DIED(what="Pods" if zygote is self.zygotes.pods else "kube-proxy")
            for each in self.pods.processes.values() if zygote is self.zygotes.pods else ():
                each.gone.set()
            return
        for event in events:
            group = self.pods if zygote is self.zygotes.pods else self.proxies
            process = group.by_number(event.number)
            if process is None:
                continue
            if isinstance(process, ProxyProcess):
                if isinstance(event, Spawned):
                    self.proxies.started(process, event.pid)
                else:
                    self.proxies.exited(process, event.status, event.errno)
            elif isinstance(event, Spawned):
                process.pid = event.pid
            else:
                process.exited(event.status, event.errno)

    def _start_proxies(self) -> None:
        for node in self.configs:
            self._start_proxy(node)

    def _start_proxy(self, node: str) -> None:
        with self.connect_proxy(node) as connection:
            point = self.observatory.points[node]
            self.proxies.start(node, point.namespace.descriptor, self.configs[node], connection, point.shared)

    async def kill_proxy(self, node: str) -> None:
        """End a node's kube-proxy with SIGKILL, as a fault: what it programmed stays. Raises :class:`BadInput`."""
        self._need_node(node)
        await self.proxies.kill(node)

    async def restart_proxy(self, node: str, mode: str | None = None) -> None:
        """End a node's kube-proxy and start it anew, in another mode if one is given; returns when it has programmed
        its node. Raises :class:`BadInput` for words that name nothing, :class:`LabFailed` where it cannot program."""
        self._need_node(node)
        if mode is not None and mode not in MODES:
            raise BadInput(BAD_MODE(mode=mode, modes=", ".join(MODES)))
        await self.proxies.kill(node)
        if mode is not None:
            self.configs = {**self.configs, node: msgspec.structs.replace(self.configs[node], mode=mode)}
        # Also in the same mode: mode userspace has other ports then, and rules to them.
        self._causes.pop(node, None)
        self._start_proxy(node)
        await self.proxies.wait_synced(SYNC_TIMEOUT_S)

    def _need_node(self, node: str) -> None:
        if node not in self.configs:
            raise BadInput(NO_NODE(name=node, nodes=", ".join(self.configs)))

    async def execute(self, who: str, command: Sequence[str], stdin: bytes = b"") -> Executed:
        """Run a command in the network namespace of a client, a node, a Pod or the router. Raises :class:`BadInput`."""
        place = who if who == ROUTER else find_sender(who, self.topology, self._host_network).place
        return await execute(self.observatory.points[place].namespace, command, stdin)

    def _start_host_network_pods(self, keys: Sequence[ObjectKey]) -> None:
        nodes = {node.name: node for node in self.resolved.nodes}
        for key in keys:
            value = self.store.get(key)
            assert value is not None
            node = nodes[value["spec"]["nodeName"]]
            self._host_network[key] = node.name
            namespace = self.fabric.namespaces[node.name].descriptor
            self.pods.start(key.path, node.name, namespace, [str(each) for each in node.addresses])

    async def _listen(self) -> None:
        """Tell every Pod what to listen on, if that is something else than before."""
        wanted = {path: self._ports_of(path) for path in self.pods.processes}
        wanted = {path: ports for path, ports in wanted.items() if ports != self.pods.processes[path].listening}
        processes = [self.pods.processes[path] for path in wanted]
        results = await asyncio.gather(*(self._have_listen(each, wanted[each.pod]) for each in processes))
        for process, failed in zip(processes, results, strict=True):
            for port, error_name in failed.items():
                self.notes.append(CANNOT_LISTEN(pod=process.pod, port=port, error=error_name))

    async def _have_listen(self, process: PodProcess, ports: Sequence[int]) -> dict[str, str]:
        """Raises OSError with what the kernel refused the Pod, where it has ended of that."""
        try:
            return await process.listen(ports)
        except ConnectionError as error:
            with suppress(TimeoutError):
                async with asyncio.timeout(POD_END_S):
                    await process.gone.wait()
            if process.refused:
                raise OSError(process.refused, os.strerror(process.refused)) from error
            raise LabFailed(self.failed or POD_DIED(pod=process.pod)) from error

    def _ports_of(self, path: str) -> list[int]:
        namespace, _, name = path.partition("/")
        value = self.store.get(ObjectKey("Pod", namespace, name))
        if value is None:
            return []
        pod = msgspec.convert(value, Pod)
        containers = [*pod.spec.containers, *(each for each in pod.spec.init_containers if each.restart_policy)]
        declared = [port.container_port for container in containers for port in container.ports]
        return declared_ports(declared, lambda: self._ports_sent_to(pod))

    def _ports_sent_to(self, pod: Pod) -> list[int]:
        """The ports that EndpointSlices send traffic to, at the Pod's addresses."""
        addresses = {each.ip for each in pod.status.pod_ips}
        ports: set[int] = set()
        for value in self.store.list("EndpointSlice"):
            each = msgspec.convert(value, EndpointSlice)
            if any(address in addresses for endpoint in each.endpoints for address in endpoint.addresses):
                ports |= {port.port for port in each.ports if port.port}
        return sorted(ports)

    # Objects

    def list_objects(self, kinds: Sequence[str]) -> tuple[list[dict[str, Any]], int]:
        """All objects of the kinds, and the revision that this is true for."""
        return [value for kind in kinds for value in self.store.list(kind)], self.store.revision

    def watch_objects(self, kinds: Sequence[str], since: int, tell: Callable[[Event], None]) -> Callable[[], None]:
        """Tell every change of the kinds after a revision; returns what ends that. Raises RevisionGone."""
        wanted = set(kinds)

        def pick(event: Event) -> None:
            if event.object["kind"] in wanted:
                tell(event)

        return self.store.watch(pick, since)

    async def apply(self, sources: Sequence[Source]) -> Changes:
        """Create or change the objects in lab files; returns when every living proxy has brought it in.

        Raises :class:`BadInput`, and then nothing has changed.
        """
        given = read_input(sources)
        async with self._walking:
            change = plan_change(given, self.resolved, self.store)
            if self.locator is not None:
                self.locator.learn(given)
            self._slices.given |= {each.key for each in given.of_kind("EndpointSlice")}
            return await self._carry_out(change)

    async def delete(self, key: ObjectKey) -> Changes:
        """Take an object away; returns when every living proxy has brought it in. Raises :class:`BadInput`."""
        async with self._walking:
            return await self._carry_out(plan_deletion(key, self.resolved, self.store))

    async def _carry_out(self, change: Change) -> Changes:
        self.resolved.allocators, self.resolved.addresses = change.allocators, change.addresses
        # A new Pod is there before anything is sent to it, and one that goes stays until nothing is sent to it.
        await self._add_pods(change.pods)
        for value in change.objects:
            self.store.put(value)
        for key in change.deleted:
            self.store.delete(key)
        self._slices.reconcile()
        if self.balancing is not None:
            self.balancing.reconcile()
        self._start_host_network_pods(change.host_network)
        await self._listen()
        await self.proxies.wait_synced(SYNC_TIMEOUT_S)
        for key in change.stopped:
            self._stop_pod(key, forget=key in change.deleted)
        notes = [*change.notes, *(self.balancing.refused if self.balancing is not None else ())]
        return Changes([Changed(str(key), action) for key, action in change.actions.items()], notes)

    def _stop_pod(self, key: ObjectKey, *, forget: bool) -> None:
        """End a Pod's process; ``forget``: its place goes, too."""
        self.pods.stop(key.path)
        self._host_network.pop(key, None)
        if forget and key.path in self.observatory.points and self.plan is not None:
            self.observatory.remove(key.path)
            self.fabric.remove_pod(self.plan, key.path)
            self.topology = self.plan.topology()

    # Walks

    async def walk(
        self,
        sender: str,
        destination: str | None,
        protocol: str | None = None,
        expression: str | None = None,
        timeout: float = 2.0,
    ) -> Walk:
        """Send one probe, and tell its way.

        ``sender``: a client, a node, or "[namespace/]pod"; ``destination``: "ADDR:PORT", or "ADDR" for icmp;
        ``expression``: a packet to craft instead of a connection; ``timeout`` in seconds.

        Raises :class:`BadInput` for words that name nothing.
        """
        found = find_sender(sender, self.topology, self._host_network)
        async with self._walking:
            probe = self._make_probe(found, destination, protocol, expression)
            try:
                return await self._observe(found, probe, sender, destination, timeout)
            finally:
                probe.close()

    def _make_probe(
        self, sender: Sender, destination: str | None, protocol: str | None, expression: str | None
    ) -> Probe:
        point = self.observatory.points[sender.place]
        if expression is not None:
            packet = parse_expression(expression)
            with point.namespace.entered():
                return CraftedProbe(packet, destination, point, protocol)
        protocol = protocol or "tcp"
        target = parse_target(destination or "", protocol)
        with point.namespace.entered():
            if protocol == "tcp":
                return TcpProbe(target)
            if protocol == "udp":
                return UdpProbe(target)
            if protocol == "icmp":
                return EchoProbe(target)
            return CraftedProbe(sctp_init(target), destination, point)

    async def _observe(
        self,
        sender: Sender,
        probe: Probe,
        who: str,
        destination: str | None,
        timeout: float,
    ) -> Walk:
        began = time.time_ns()
        await self.observatory.begin([*probe.matches(), *self._openings()], {sender.place: probe.drops()})
        try:
            outcome = await probe.run(timeout)
        finally:
            recorded = await self.observatory.end()
            await _take_in()
        ended = time.time_ns()
        places = {record.place for record in recorded.traces} | {
            frame.place for frame in recorded.frames if frame.place in self.configs
        }
        services = self._typed("Service", Service)
        config = self.configs.get(sender.place)
        localhost = config is not None and has_localhost_node_ports(config)
        asked = (probe.target.address, probe.target.port, probe.protocol.removesuffix("v6"))
        on_nodes = self._mode_words() == "ipvs"
        meanings = meanings_of(services, self.topology, sender.place, asked, localhost=localhost, on_nodes=on_nodes)
        walk = correlate(
            Observation(
                origin=sender.place,
                mark=probe.mark,
                probe=ProbeWords(who, destination or probe.target.text, probe.protocol),
                mode=self._mode_words(),
                outcome=outcome,
                topology=self.topology,
                frames=recorded.frames,
                traces=recorded.traces,
                conntrack=recorded.conntrack,
                ipvs=self._ipvs_connections(),
                proxied=self._proxied(began),
                losses=recorded.losses,
                rulebooks={place: self._rulebook(place) for place in places},
                owners=self._owners(),
                meanings=meanings,
                unready=self._unready(services) if outcome.result != "answered" else {},
                vxlan=self.plan is not None and self.plan.wiring.between_nodes == "vxlan",
            )
        )
        self.captured = Captured(walk, recorded, began, ended)
        return walk

    async def rules(self, node: str) -> dict[str, Any]:
        """A node's rules as the kernel has them: ``{"node", "mode", "text", "items": [{"family", "table", "chain",
        "handle", "text", "origin"}]}``. Raises :class:`BadInput` where there is no such node."""
        self._need_node(node)
        async with self._walking:
            await self.proxies.wait_synced(SYNC_TIMEOUT_S)
            mode = self.configs[node].proxy_mode
            with self.observatory.points[node].namespace.entered():
                text = listing(mode, node)
            book = self._rulebook(node)
        items = [{"family": family, **msgspec.to_builtins(rule)} for (family, _, _), rule in book.rules.items()]
        return {"node": node, "mode": mode, "text": text, "items": items}

    def connections(self, node: str) -> list[ConntrackRecord]:
        """A node's conntrack table as it is now. Raises :class:`BadInput` where there is no such node."""
        self._need_node(node)
        with self.observatory.points[node].namespace.entered():
            return connections(node)

    def forget_connection(self, node: str, entry: int) -> bool:
        """Delete an entry of a node's conntrack table; false if it had gone already."""
        self._need_node(node)
        with self.observatory.points[node].namespace.entered():
            return forget_connection(node, entry)

    def _openings(self) -> list[PacketMatch]:
        """What to trace besides the probe: with a proxy that opens connections of its own, all openings of such."""
        if all(config.proxy_mode != "userspace" for config in self.configs.values()):
            return []
        return [PacketMatch(family, TCP, TCP_FLAGS_OFFSET, bytes([flags])) for family in (4, 6) for flags in OPENINGS]

    def _proxied(self, began: int) -> list[ProxyConnection]:
        """What proxies have joined since a time (wall clock, ns)."""
        processes = self.proxies.processes.values()
        return [each for process in processes for each in process.connections if each.time_ns >= began]

    def _ipvs_connections(self) -> list[IpvsRecord]:
        found: list[IpvsRecord] = []
        for node, config in self.configs.items():
            if config.proxy_mode == "ipvs":
                with self.observatory.points[node].namespace.entered():
                    found += ipvs.connections(node)
        return found

    def _mode_words(self) -> str:
        """The proxy mode, or all modes where nodes differ."""
        return ",".join(sorted({config.proxy_mode for config in self.configs.values()}))

    def _rulebook(self, place: str) -> Rulebook:
        return self.rulebooks.read(self.observatory.points[place], self.store.revision, lambda: self._causes_of(place))

    def _causes_of(self, place: str) -> Causes:
        """What caused the rules of a node, worked out again when objects have changed."""
        known = self._causes.get(place)
        if known is not None and known[0] == self.store.revision:
            return known[1]
        config = self.configs.get(place)
        value = self.store.get(ObjectKey("Node", "", place))
        if config is None or value is None:
            return Causes()
        ranges = [cidr for each in self.store.list("ServiceCIDR") for cidr in each["spec"]["cidrs"]]
        world = NodeWorld(
            node=msgspec.convert(value, Node),
            config=config,
            services=list(self.store.list("Service")),
            slices=list(self.store.list("EndpointSlice")),
            service_cidrs=ranges,
            local_addresses=self.topology.places[place].own_addresses(),
            portals=self.proxies.portals(place),
        )
        causes = causes_of(world, CauseLocator(self.locator, self.store.get))
        self._causes[place] = (self.store.revision, causes)
        return causes

    def _owners(self) -> dict[str, EndpointOwner]:
        """Who answers at an address: Pods by IP, Pods on their node's network by "A:P"."""
        owners: dict[str, EndpointOwner] = {}
        for value in self.store.list("Pod"):
            pod = msgspec.convert(value, Pod)
            path = f"{pod.metadata.namespace}/{pod.metadata.name}"
            node = self._host_network.get(ObjectKey("Pod", pod.metadata.namespace, pod.metadata.name))
            for each in pod.status.pod_ips:
                if node is None:
                    if path in self.topology.places:
                        owners[each.ip] = EndpointOwner(path, pod.spec.node_name, path)
                    continue
                for port in self._ports_of(path):
                    owners[join_host_port(each.ip, port)] = EndpointOwner(path, node, node)
        return owners

    def _unready(self, services: Sequence[Service]) -> Mapping[str, Text]:
        return why_unready(services, self._typed("Pod", Pod), self._typed("EndpointSlice", EndpointSlice))

    def _typed(self, kind: str, of: type[T]) -> list[T]:
        return [msgspec.convert(value, of) for value in self.store.list(kind)]

    # Telling

    def describe(self) -> dict[str, Any]:
        """What the lab is, for whoever asks: places, Pods, Services, modes, notes."""
        return {
            "name": self.name,
            "mode": self._mode_words(),
            "nodes": [place.name for place in self.topology.places.values() if place.kind == "node"],
            "clients": [place.name for place in self.topology.places.values() if place.kind == "client"],
            "pods": len(self.pods.processes),
            "services": len(list(self.store.list("Service"))),
            "notes": self.notes,
        }


async def _take_in() -> None:
    """Let the event loop read and handle what is in its sockets already: a proxy tells what it joined before it lets
    an answer through."""
    for _ in range(4):
        await asyncio.sleep(0)


def _needed_namespaces(plan: FabricPlan, resolved: Resolved) -> dict[str, int]:
    """How many namespaces of each kind a lab has: its own, those of its places, and those of its Pods' processes."""
    pods = 1 + len(resolved.pods) + len(resolved.host_network_pods)
    places = 1 + len(plan.setups) + len(resolved.pods)
    return {"user": 1, "mnt": 2, "net": places, "pid": pods, "uts": pods, "ipc": pods}
