"""What a probe can be sent to, by the names that a person uses; and who can send it."""

from __future__ import annotations

from dataclasses import dataclass

from gui.values.picture import Picture, ServiceView
from netlab.model.walk import endpoint_text

MOST_NODES = 5
"""Nodes whose nodePorts are offered: a list is for picking, and any other address can be typed."""


@dataclass(frozen=True)
class Target:
    """``label`` is what is typed and shown, ``hint`` what it stands for, ``address`` what the engine gets."""

    label: str
    hint: str
    address: str
    protocol: str


def senders(picture: Picture) -> list[str]:
    """Clients first: their requests come by most places."""
    pods = [pod.path for node in picture.nodes for pod in node.pods]
    bare = [path.rpartition("/")[2] for path in pods]
    named = [name if bare.count(name) == 1 else path for name, path in zip(bare, pods, strict=True)]
    return [each.name for each in picture.clients] + named + [each.name for each in picture.nodes]


def targets(picture: Picture) -> list[Target]:
    """NodePorts, Service addresses, then Pods."""
    found: list[Target] = []
    for service in picture.services:
        found += _node_ports(service, picture)
    for service in picture.services:
        for port in service.ports:
            for address in service.addresses:
                if address != "None":
                    text = endpoint_text(address, port.port)
                    found.append(
                        Target(f"{service.name}:{port.port}", f"ClusterIP {text}", text, port.protocol.lower())
                    )
    ports = {endpoint: port for service in picture.services for port in service.ports for endpoint in service.endpoints}
    for node in picture.nodes:
        for pod in node.pods:
            served = ports.get(pod.path)
            for address in pod.addresses[:1]:
                if served is not None:
                    text = endpoint_text(address, served.port)
                    found.append(Target(f"{pod.name}:{served.port}", f"Pod {text}", text, served.protocol.lower()))
                else:
                    found.append(Target(pod.name, f"Pod {address}", address, "icmp"))
    return found


def _node_ports(service: ServiceView, picture: Picture) -> list[Target]:
    return [
        Target(
            endpoint_text(node.addresses[0], port.node_port),
            f"{service.name} NodePort, {node.name}",
            endpoint_text(node.addresses[0], port.node_port),
            port.protocol.lower(),
        )
        for port in service.ports
        if port.node_port
        for node in picture.nodes[:MOST_NODES]
        if node.addresses
    ]


def resolve(text: str, known: list[Target]) -> Target | None:
    """The target that is meant; None for what is an address already (or nothing that is known)."""
    wanted = text.strip()
    return next((each for each in known if wanted in (each.label, each.address)), None)
