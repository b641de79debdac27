"""What Service addresses stand for, seen from different senders."""

from __future__ import annotations

from typing import Any

import msgspec

from netlab.lab.meanings import has_localhost_node_ports, meanings_of
from netlab.model.topology import Interface, Place, Topology
from netlab.objects.proxyconfig import IPTables, KubeProxyConfiguration
from netlab.objects.service import Service


def node(name: str, address: str) -> Place:
    lo = Interface(name="lo", index=1, kind="loopback", mac="", addresses=("127.0.0.1/8", "::1/128"))
    eth0 = Interface(name="eth0", index=2, kind="veth", mac="", addresses=(f"{address}/24",))
    return Place(name=name, kind="node", interfaces=(lo, eth0))


TOPOLOGY = Topology({each.name: each for each in (node("node-a", "192.168.60.1"), node("node-b", "192.168.60.2"))})


def service(name: str, ip: str, **spec: Any) -> Service:
    ports = spec.pop("ports", [{"port": 80, "protocol": "TCP", "nodePort": 30080}])
    status = spec.pop("status", {})
    value = {"metadata": {"name": name, "namespace": "default"}, "status": status}
    return msgspec.convert({**value, "spec": {"clusterIP": ip, "clusterIPs": [ip], "ports": ports, **spec}}, Service)


WEB = service("web", "10.96.0.50")


def words(key: str, origin: str = "node-a", *, localhost: bool = True, services: tuple[Service, ...] = (WEB,)) -> str:
    address, _, protocol = key.partition("/")
    host, _, port = address.partition(":")
    asked = (host, int(port) if port else None, protocol)
    text = meanings_of(services, TOPOLOGY, origin, asked, localhost=localhost).get(key)
    return text.en if text is not None else ""


def test_loopback_is_the_senders_own() -> None:
    assert words("127.0.0.1:30080/tcp", "node-a") == "the nodePort of Service default/web on node-a"
    assert words("127.0.0.1:30080/tcp", "node-b") == "the nodePort of Service default/web on node-b"
    assert words("127.0.0.1:30080/tcp", "client") == ""
    assert words("127.0.0.1:30080/tcp", "node-a", localhost=False) == ""
    assert words("192.168.60.2:30080/tcp", "client") == "the nodePort of Service default/web on node-b"


def test_which_proxies_serve_node_ports_at_localhost() -> None:
    assert has_localhost_node_ports(KubeProxyConfiguration(mode="iptables"))
    assert has_localhost_node_ports(KubeProxyConfiguration(mode="userspace"))
    assert not has_localhost_node_ports(KubeProxyConfiguration(mode="nftables"))
    without = KubeProxyConfiguration(mode="iptables", iptables=IPTables(localhost_node_ports=False))
    assert not has_localhost_node_ports(without)
    elsewhere = KubeProxyConfiguration(mode="iptables", node_port_addresses=["192.168.60.0/24"])
    assert not has_localhost_node_ports(elsewhere)


def test_a_port_that_the_service_does_not_have() -> None:
    assert words("10.96.0.50:81/tcp") == "Service default/web has no port 81/tcp; it has 80/tcp"
    assert words("10.96.0.50:80/udp") == "Service default/web has no port 80/udp; it has 80/tcp"
    assert words("10.96.0.50/icmp") == "Service default/web has no port for icmp; it has 80/tcp"
    assert words("10.96.0.50:80/tcp").startswith("the clusterIP of Service default/web")
    assert words("192.168.60.1:81/tcp") == ""


def test_two_services_with_one_external_address() -> None:
    shared = {"externalIPs": ["198.51.100.1"]}
    other = [{"port": 443, "protocol": "TCP"}]
    both = (service("one", "10.96.0.1", **shared), service("two", "10.96.0.2", **shared, ports=other))
    assert words("198.51.100.1:443/tcp", services=both).startswith("an external IP of Service default/two")


def test_headless_services_have_no_address() -> None:
    assert words("None:80/tcp", services=(service("headless", "None"),)) == ""
