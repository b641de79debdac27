"""What the topology shows: a lab (or a walk alone) as rooms, Pods, links and Services."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from netlab.model.topology import Place, Topology
from netlab.model.walk import Walk, host_of


@dataclass(frozen=True)
class Machine:
    """A client or the router."""

    name: str
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True)
class PodView:
    """A Pod; ``state`` is a word of kubectl's where it is not simply running."""

    path: str
    addresses: tuple[str, ...] = ()
    state: str = ""

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class NodeView:
    name: str
    addresses: tuple[str, ...] = ()
    mode: str = ""
    bridge: str | None = None
    pods: tuple[PodView, ...] = ()


@dataclass(frozen=True)
class ServicePort:
    name: str
    port: int
    protocol: str
    node_port: int | None = None


@dataclass(frozen=True)
class ServiceView:
    """A Service; ``endpoints`` are the Pods (or bare addresses) behind it."""

    path: str
    type: str
    addresses: tuple[str, ...] = ()
    ports: tuple[ServicePort, ...] = ()
    endpoints: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class Picture:
    """All of it. ``attached`` tells for each interface of a place which place is at its other end."""

    clients: tuple[Machine, ...] = ()
    router: Machine | None = None
    nodes: tuple[NodeView, ...] = ()
    services: tuple[ServiceView, ...] = ()
    attached: Mapping[tuple[str, str], str] = field(default_factory=dict)


def picture_of_lab(topology: Topology, objects: Iterable[Mapping[str, Any]], mode: str) -> Picture:
    """A lab as its topology and its objects say."""
    values = list(objects)
    places = topology.places.values()
    states = {_path(each): _pod_state(each) for each in values if each["kind"] == "Pod"}
    routers = [place for place in places if place.kind == "router"]
    return Picture(
        clients=tuple(Machine(place.name, _addresses(place)) for place in places if place.kind == "client"),
        router=Machine(routers[0].name, _addresses(routers[0])) if routers else None,
        nodes=tuple(
            NodeView(
                place.name,
                _addresses(place),
                mode,
                next((each.name for each in place.interfaces if each.kind == "bridge"), None),
                tuple(
                    PodView(each.name, _addresses(each), states.get(each.name, ""))
                    for each in places
                    if each.kind == "pod" and each.node == place.name
                ),
            )
            for place in places
            if place.kind == "node"
        ),
        services=tuple(services_of(values)),
        attached={
            (place.name, each.name): each.peer.place for place in places for each in place.interfaces if each.peer
        },
    )


def services_of(objects: Iterable[Mapping[str, Any]]) -> list[ServiceView]:
    """Services with their endpoints, by name."""
    values = list(objects)
    endpoints: dict[str, list[str]] = {}
    for value in values:
        if value["kind"] == "EndpointSlice":
            metadata = value["metadata"]
            owner = (metadata.get("labels") or {}).get("kubernetes.io/service-name", "")
            endpoints.setdefault(f"{metadata.get('namespace', '')}/{owner}", []).extend(_endpoints(value))
    found: list[ServiceView] = []
    for value in values:
        if value["kind"] != "Service":
            continue
        spec, path = value.get("spec") or {}, _path(value)
        addresses = spec.get("clusterIPs") or ([spec["clusterIP"]] if spec.get("clusterIP") else [])
        ports = [
            ServicePort(
                each.get("name") or "", int(each["port"]), each.get("protocol") or "TCP", each.get("nodePort") or None
            )
            for each in spec.get("ports") or []
        ]
        behind = tuple(dict.fromkeys(endpoints.get(path, [])))
        found.append(
            ServiceView(path, spec.get("type") or "ClusterIP", tuple(addresses), tuple(ports), behind),
        )
    return sorted(found, key=lambda each: each.path)


def picture_of_walk(walk: Walk) -> Picture:
    """What a walk tells of the lab that it was made in: the places that it came by."""
    hooks = {step.place for step in walk.steps if step.hook is not None}
    order = list(dict.fromkeys(step.place for step in walk.steps))
    addresses: dict[str, str] = {}
    if walk.steps:
        addresses[walk.steps[0].place] = host_of(walk.steps[0].source)
    endpoint = walk.endpoint
    if endpoint is not None and endpoint.pod is not None:
        addresses.setdefault(endpoint.pod, endpoint.ip)
    pods = {place: _node_of(walk, place, hooks) for place in order if "/" in place}
    nodes = [place for place in order if place in hooks and "/" not in place]
    nodes += [node for node in pods.values() if node and node not in nodes]
    others = [place for place in order if place not in nodes and place not in pods]
    client = [others[0]] if others and walk.steps[0].place == others[0] else []
    routers = [place for place in others if place not in client]
    return Picture(
        clients=tuple(Machine(each, (addresses[each],) if each in addresses else ()) for each in client),
        router=Machine(routers[0]) if routers else None,
        nodes=tuple(
            NodeView(
                node,
                mode=walk.mode,
                bridge=_bridge_in(walk, node),
                pods=tuple(
                    PodView(pod, (addresses[pod],) if pod in addresses else ())
                    for pod, home in pods.items()
                    if home == node
                ),
            )
            for node in nodes
        ),
        attached=_attached_in(walk),
    )


def _attached_in(walk: Walk) -> dict[tuple[str, str], str]:
    """Which interfaces the packet left by for another place, and came in by from one."""
    found: dict[tuple[str, str], str] = {}
    for one, other in zip(walk.steps, walk.steps[1:], strict=False):
        if one.place != other.place and one.direction == other.direction:
            if one.interface is not None and one.hook is None:
                found[one.place, one.interface] = other.place
            if other.interface is not None and other.hook is None:
                found[other.place, other.interface] = one.place
    return found


def _node_of(walk: Walk, pod: str, hooks: set[str]) -> str:
    if walk.endpoint is not None and walk.endpoint.pod == pod and walk.endpoint.node:
        return walk.endpoint.node
    places = [step.place for step in walk.steps]
    at = places.index(pod)
    near = [*places[at:], *reversed(places[:at])]
    return next((place for place in near if place in hooks), "")


def _bridge_in(walk: Walk, node: str) -> str | None:
    names = {step.interface for step in walk.steps if step.place == node}
    return next((name for name in names if name is not None and name.startswith("cni")), None)


def _addresses(place: Place) -> tuple[str, ...]:
    """The addresses by which others know the place: not loopback's, not its bridges', nor link-local ones."""
    return tuple(
        address.partition("/")[0]
        for interface in place.interfaces
        if interface.kind not in ("loopback", "bridge") or (place.kind == "router" and interface.kind != "loopback")
        for address in interface.addresses
        if not address.startswith("fe80") and not (place.kind == "node" and interface.kind == "vxlan")
    )


def _path(value: Mapping[str, Any]) -> str:
    metadata = value["metadata"]
    namespace = metadata.get("namespace") or ""
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def _pod_state(value: Mapping[str, Any]) -> str:
    """What is worth a word: nothing where the Pod runs and is ready."""
    if value["metadata"].get("deletionTimestamp"):
        return "Terminating"
    status = value.get("status") or {}
    phase = status.get("phase") or ""
    ready = next((each["status"] for each in status.get("conditions") or [] if each["type"] == "Ready"), "True")
    if phase in ("", "Running"):
        return "" if ready == "True" else "NotReady"
    return str(phase)


def _endpoints(value: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    for endpoint in value.get("endpoints") or []:
        target = endpoint.get("targetRef") or {}
        if target.get("kind") == "Pod":
            namespace = target.get("namespace") or value["metadata"].get("namespace", "")
            found.append(f"{namespace}/{target['name']}")
        else:
            found += endpoint.get("addresses") or []
    return found
