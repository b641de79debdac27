"""Random clusters of nodes, clients and Pods, as hypothesis strategies."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from itertools import product

from hypothesis import strategies as st

from netlab.lab.networks import Side
from netlab.lab.plan import ClientPlan, FabricPlan, NodePlan, PodPlan, Wiring, plan_fabric, plan_pod
from netlab.model.keys import ObjectKey
from netlab.objects.ip import Address, Network

DECLARED: dict[Side, list[Network]] = {
    "client": [ip_network("192.168.1.0/24"), ip_network("fd00:1::/64")],
    "node": [ip_network("192.168.60.0/24"), ip_network("fd00:60::/64")],
}
NODE_NETWORKS = {4: ("192.168.60", "10.0.1", "10.0.2", "192.168.1"), 6: ("fd00:60::", "fd00:a::", "fd00:1::")}
CLIENT_NETWORKS = {4: ("192.168.1", "172.20.0", "192.168.60"), 6: ("fd00:1::", "fd00:b::")}

WIRINGS = [
    Wiring(pods=pods, between_nodes=between)  # type: ignore[arg-type]
    for pods, between in product(("bridge", "ptp"), ("routed", "vxlan"))
]


@dataclass(frozen=True)
class Fleet:
    nodes: tuple[NodePlan, ...]
    clients: tuple[ClientPlan, ...]
    pods: tuple[PodPlan, ...]

    def plan(self, wiring: Wiring) -> FabricPlan:
        plan = plan_fabric(self.nodes, self.clients, DECLARED, wiring)
        for pod in self.pods:
            plan_pod(plan, pod)
        return plan


def address_in(network: str, number: int) -> Address:
    return ip_address(f"{network}{number:x}" if ":" in network else f"{network}.{number}")


@st.composite
def hosts(
    draw: st.DrawFn, count: int, versions: tuple[int, ...], networks: dict[int, tuple[str, ...]], first: int
) -> list[tuple[Address, ...]]:
    """Addresses of hosts: at least one of each version, on one network or on several."""
    found = []
    for number in range(count):
        addresses = [
            address_in(network, first + number)
            for version in versions
            for network in draw(
                st.lists(st.sampled_from(networks[version]), min_size=1, max_size=3, unique=True).map(tuple)
            )
        ]
        found.append(tuple(draw(st.permutations(addresses))))
    return found


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    versions = draw(st.sampled_from([(4,), (6,), (4, 6)]))
    node_addresses = draw(hosts(draw(st.integers(1, 3)), versions, NODE_NETWORKS, draw(st.sampled_from([1, 11]))))
    nodes = [
        NodePlan(
            f"node-{number}",
            addresses,
            tuple(ip_network(f"10.200.{number}.0/24" if v == 4 else f"fd00:200:{number}::/64") for v in versions),
        )
        for number, addresses in enumerate(node_addresses)
    ]
    client_addresses = draw(hosts(draw(st.integers(0, 2)), versions, CLIENT_NETWORKS, 100))
    clients = [ClientPlan(f"client-{number}", addresses) for number, addresses in enumerate(client_addresses)]
    pods = []
    for number in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(nodes) - 1))
        foreign = draw(st.integers(0, 3)) == 0
        own = [
            ip_address(f"10.99.0.{number + 1}" if foreign else f"10.200.{at}.{number + 2}")
            if version == 4
            else ip_address(f"fd00:99::{number + 1:x}" if foreign else f"fd00:200:{at}::{number + 2:x}")
            for version in draw(st.sampled_from([versions, versions[:1]]))
        ]
        pods.append(PodPlan(ObjectKey("Pod", "default", f"p{number}"), nodes[at].name, tuple(own)))
    return Fleet(tuple(nodes), tuple(clients), tuple(pods))
