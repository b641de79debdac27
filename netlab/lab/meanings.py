"""What the addresses of Services stand for, as a probe's sender sees them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from netlab.model.keys import ObjectKey
from netlab.model.text import Message, Text
from netlab.model.topology import Place, Topology
from netlab.model.walk import endpoint_text
from netlab.objects.proxyconfig import KubeProxyConfiguration
from netlab.objects.service import Service, ServicePort
from netlab.packets import reasons
from netlab.proxy.settings import serves_loopback


def meaning_key(address: str, port: int | None, protocol: str) -> str:
    """How an address is looked up: "A:P/tcp", "A/icmp"."""
    return f"{endpoint_text(address, port)}/{protocol.lower()}"


def has_localhost_node_ports(config: KubeProxyConfiguration) -> bool:
    """Whether a node reaches nodePorts at 127.0.0.1: by a rule in OUTPUT with route_localnet, or at a real socket."""
    if config.proxy_mode == "iptables":
        return config.iptables.localhost_node_ports is not False and serves_loopback(config.node_port_addresses)
    return config.proxy_mode == "userspace"


def meanings_of(
    services: Sequence[Service],
    topology: Topology,
    origin: str,
    asked: tuple[str, int | None, str],
    *,
    localhost: bool,
    on_nodes: bool = False,
) -> dict[str, Text]:
    """All that is known, by :func:`meaning_key`.

    ``origin`` is the place that sends: a loopback address is its own, and a nodePort's if ``localhost``. ``asked`` are
    address, port and protocol of the probe: where it is a Service's address with a port that the Service does not have,
    that is what it means. ``on_nodes``: every node has the clusterIPs on kube-ipvs0.
    """
    nodes = [place for place in topology.places.values() if place.kind == "node"]
    meanings: dict[str, Text] = {}
    for service in services:
        name = ObjectKey("Service", service.metadata.namespace, service.metadata.name)
        addresses = list(_addresses(service, on_nodes=on_nodes))
        for port in service.spec.ports:
            for ip, message in addresses:
                meanings[meaning_key(ip, port.port, port.protocol)] = message(service=name)
            for node in nodes if port.node_port else ():
                for ip in _node_addresses(node, localhost=localhost and node.name == origin):
                    text = reasons.NODE_PORT_OF(service=name, node=node.name)
                    meanings[meaning_key(ip, port.node_port, port.protocol)] = text
    address, number, protocol = asked
    for service in services:
        own = {ip for ip, _ in _addresses(service, on_nodes=on_nodes)}
        if meaning_key(*asked) not in meanings and address in own:
            name = ObjectKey("Service", service.metadata.namespace, service.metadata.name)
            have = ", ".join(_port_words(each) for each in service.spec.ports)
            if number is None:
                text = reasons.NO_SUCH_PROTOCOL(service=name, protocol=protocol, have=have)
            else:
                text = reasons.NO_SUCH_PORT(service=name, port=f"{number}/{protocol}", have=have)
            meanings[meaning_key(*asked)] = text
    return meanings


def _addresses(service: Service, *, on_nodes: bool) -> Iterator[tuple[str, Message]]:
    """The Service's own addresses, each with the words for its kind."""
    spec = service.spec
    for ip in spec.cluster_ips or [spec.cluster_ip]:
        if ip and ip != "None":
            yield ip, reasons.CLUSTER_IP_ON_NODES if on_nodes else reasons.CLUSTER_IP_OF
    for ip in spec.external_ips:
        yield ip, reasons.EXTERNAL_IP_OF
    for each in service.status.load_balancer.ingress:
        if each.ip:
            yield each.ip, reasons.LOAD_BALANCER_IP_OF


def _node_addresses(node: Place, *, localhost: bool) -> list[str]:
    """Where a node's nodePorts are asked. There are none at ::1."""
    found = [ip for ip in node.own_addresses() if not ip.startswith("127.") and ip != "::1"]
    return [*found, "127.0.0.1"] if localhost else found


def _port_words(port: ServicePort) -> str:
    return f"{port.port}/{port.protocol.lower()}"
