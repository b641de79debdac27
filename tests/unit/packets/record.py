"""Records real walks as test data: ``python -m tests.unit.packets.record``.

Builds the lab of ``scenarios.py`` for real, sends the probes named in :data:`RECORDED`, and stores all that the
correlator was given for each of them. Takes namespaces, iptables and some seconds.
"""

from __future__ import annotations

import asyncio
import gzip
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import yaml

from netlab.lab.lab import Lab
from netlab.objects.yaml_source import Source
from netlab.packets.observation import Observation
from tests.conftest import run_in_sandbox
from tests.unit.packets.scenarios import ACK_ONLY, BARE, BARE_PING, SCENARIOS, DropPolicy, Scenario, services
from tests.unit.packets.simulated_lab import CLIENT, CURL, NODE_A, NODE_B, OTHER_CLIENT, WEB_1, WEB_2, WEB_3, Setup
from tests.unit.packets.wire import address_text

FOLDER = Path(__file__).parent / "recorded"
TIMEOUT_S = 0.3
_ADDRESSES = {
    CLIENT: ("192.168.1.100", "fd00:1::100"),
    OTHER_CLIENT: ("192.168.1.101", "fd00:1::101"),
    NODE_A: ("192.168.60.123", "fd00:60::a"),
    NODE_B: ("192.168.60.124", "fd00:60::b"),
    WEB_1: ("10.200.1.2", "fd00:200:1::2"),
    WEB_2: ("10.200.1.3", "fd00:200:1::3"),
    CURL: ("10.200.1.10", "fd00:200:1::10"),
    WEB_3: ("10.200.2.20", "fd00:200:2::20"),
    "nobody": ("192.168.60.99", "fd00:60::99"),
    "nowhere": ("172.16.0.1", "fd00:9::9"),
    "unused": ("10.200.1.99", "fd00:200:1::99"),
}

BRIDGE, NO_FILTER = Setup(), Setup(bridge_netfilter=False)
ROUTED_VETHS, VXLAN, SIX = Setup(wiring="ptp"), Setup(between_nodes="vxlan"), Setup(family=6)

RECORDED: dict[Setup, tuple[str, ...]] = {
    BRIDGE: (
        "client to nodePort, endpoint elsewhere",
        "client to nodePort without local endpoint",
        "client to nodePort without endpoints",
        "Pod to itself by its Service",
        "Pod to the other node's nodePort and back",
        "node to clusterIP, endpoint there",
        "node to a closed port of its own",
        "rejected where it was translated",
        "reset where it was translated",
        "UDP to a closed port",
        "datagram without payload",
        "ping without payload to a Pod",
        "segment of no connection",
    ),
    NO_FILTER: ("answer past conntrack",),
    ROUTED_VETHS: ("client to nodePort, endpoint there",),
    VXLAN: ("Pod to clusterIP, endpoint elsewhere",),
    SIX: ("UDP to nodePort, endpoint elsewhere",),
}


def file_of(setup: Setup, name: str) -> Path:
    """Where a recorded walk is kept."""
    words = [str(setup.family), setup.wiring, "filtered" if setup.bridge_netfilter else "unfiltered"]
    text = "-".join([*words, setup.between_nodes, *name.replace(",", "").replace("'", "").split()])
    return FOLDER / f"{text.lower()}.msgpack.gz"


def load(setup: Setup, name: str) -> Observation:
    return msgspec.msgpack.decode(gzip.decompress(file_of(setup, name).read_bytes()), type=Observation)


def save(setup: Setup, name: str, seen: Observation) -> None:
    FOLDER.mkdir(exist_ok=True)
    file_of(setup, name).write_bytes(gzip.compress(msgspec.msgpack.encode(seen), mtime=0))


def lab_file(setup: Setup) -> bytes:
    """The simulated lab as a lab file."""
    version = 1 if setup.family == 6 else 0

    def address(place: str) -> list[str]:
        return [_ADDRESSES[place][version]]

    def pod(name: str, node: str, labels: Mapping[str, str], port: int, *, on_host: bool = False) -> dict[str, Any]:
        spec: dict[str, Any] = {"nodeName": node, "containers": [{"name": "web", "image": "nginx"}]}
        spec["containers"][0]["ports"] = [{"containerPort": port}, {"containerPort": port, "protocol": "UDP"}]
        metadata: dict[str, Any] = {"name": name, "namespace": "default", "labels": dict(labels)}
        if on_host:
            spec["hostNetwork"] = True
        else:
            metadata["annotations"] = {"netlab/ips": _ADDRESSES[f"default/{name}"][version]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    lab = {
        "serviceCIDRs": [("10.64.0.0/10", "fd00:96::/108")[version]],
        "networks": {
            "client": ("192.168.1.0/24", "fd00:1::/64")[version],
            "node": ("192.168.60.0/24", "fd00:60::/64")[version],
        },
        "nodes": [
            {
                "name": node,
                "addresses": address(node),
                "podCIDRs": [(f"10.200.{n}.0/24", f"fd00:200:{n}::/64")[version]],
            }
            for n, node in ((1, NODE_A), (2, NODE_B))
        ],
        "clients": [{"name": client, "addresses": address(client)} for client in (CLIENT, OTHER_CLIENT)],
        "podWiring": setup.wiring,
        "bridgeNetfilter": setup.bridge_netfilter,
        "hairpin": setup.hairpin,
        "interNode": setup.between_nodes,
    }
    documents: list[dict[str, Any]] = [
        {"apiVersion": "netlab/v1alpha1", "kind": "Lab", "metadata": {"name": "recorded"}, "spec": lab},
        {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "iptables",
            "clusterCIDR": ("10.200.0.0/16", "fd00:200::/32")[version],
        },
        pod("web-1", NODE_A, {"near": "web", "all": "web"}, 80),
        pod("web-2", NODE_A, {"all": "web"}, 80),
        pod("curl", NODE_A, {}, 80),
        pod("web-3", NODE_B, {"far": "web", "all": "web", "local": "web", "closed": "web"}, 80),
        pod("on-host", NODE_B, {"host": "web"}, 8080, on_host=True),
    ]
    for key, service in services(setup.family).items():
        target = service.endpoints[0][1] if service.endpoints else 80
        port = {
            "port": service.port,
            "targetPort": target,
            "nodePort": service.node_port,
            "protocol": service.protocol.upper(),
        }
        spec: dict[str, Any] = {
            "type": "NodePort",
            "clusterIP": service.cluster_ip,
            "selector": {key.partition("/")[0]: "web"},
            "ports": [port],
        }
        if service.local:
            spec["externalTrafficPolicy"] = "Local"
        name = service.name.removeprefix("default/")
        documents.append(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": name, "namespace": "default"},
                "spec": spec,
            }
        )
    return yaml.safe_dump_all(documents).encode()


def record(setup: Setup, wanted: Iterable[Scenario]) -> dict[str, Observation]:
    """What the correlator is given for the scenarios' probes in a real lab. Each is sent twice, and the second counts:
    neighbours are known then."""
    wanted = list(wanted)

    def inside() -> dict[str, Observation]:
        from netlab.node import pods

        pods_zygote = pods.start_zygote()
        from netlab.node import kube_proxy

        proxies_zygote = kube_proxy.start_zygote()
        from netlab.engine.server import Engine
        from netlab.lab import lab as module
        from netlab.lab.lab import Zygotes

        seen: list[Observation] = []
        correlate = vars(module)["correlate"]

        def note(given: Observation) -> Any:
            seen.append(given)
            return correlate(given)

        vars(module)["correlate"] = note

        async def run() -> dict[str, Observation]:
            engine = Engine(Zygotes(pods_zygote, proxies_zygote), {}, None)
            engine.lab.load([Source("recorded.yaml", lab_file(setup))])
            await engine.lab.start()
            found = {}
            for scenario in wanted:
                for _ in range(2):
                    with _user_rules(engine.lab, scenario):
                        await _walk(engine.lab, setup, scenario)
                found[scenario.name] = seen[-1]
            return found

        return asyncio.run(run())

    return run_in_sandbox(inside)


@contextmanager
def _user_rules(lab: Lab, scenario: Scenario) -> Iterator[None]:
    def run(place: str, command: str) -> None:
        with lab.observatory.points[place].namespace.entered():
            subprocess.run(command.split(), check=True)

    for each in scenario.user:
        run(each.place, each.command)
    try:
        yield
    finally:
        for each in scenario.user:
            policy = isinstance(each, DropPolicy)
            undo = f"iptables -P {each.chain} ACCEPT" if policy else f"iptables -t {each.table} -D {each.chain} 1"  # type: ignore[union-attr]
            run(each.place, undo)


async def _walk(lab: Lab, setup: Setup, scenario: Scenario) -> None:
    version = 1 if setup.family == 6 else 0
    protocol = {BARE: "udp", BARE_PING: "icmp", ACK_ONLY: "tcp"}.get(scenario.protocol, scenario.protocol)
    service = services(setup.family).get(f"{scenario.service}/{protocol}")
    if scenario.to == "cluster-ip":
        assert service is not None
        host, port = service.cluster_ip, service.port
    else:
        host = "127.0.0.1" if scenario.to == "localhost" else _ADDRESSES[scenario.to][version]
        port = service.node_port if service is not None else scenario.port or 0
    layers = {4: f'IP(dst="{host}",ttl={scenario.hops})', 6: f'IPv6(dst="{host}",hlim={scenario.hops})'}
    expression = None
    if scenario.protocol == BARE:
        expression = f"{layers[setup.family]}/UDP(dport={port})"
    elif scenario.protocol == BARE_PING:
        ping = "ICMP()" if setup.family == 4 else "ICMPv6EchoRequest()"
        expression = f"{layers[setup.family]}/{ping}"
    elif scenario.protocol == ACK_ONLY:
        expression = f'{layers[setup.family]}/TCP(dport={port},flags="A",ack=305419896)'
    elif scenario.hops != 64:
        expression = f'{layers[setup.family]}/TCP(dport={port},flags="S")'
    target = address_text(host, None if protocol == "icmp" else port)
    await lab.walk(scenario.origin, target if expression is None else None, protocol, expression, TIMEOUT_S)


def main() -> None:
    scenarios = {scenario.name: scenario for scenario in SCENARIOS}
    for setup, names in RECORDED.items():
        for name, seen in record(setup, [scenarios[name] for name in names]).items():
            save(setup, name, seen)


if __name__ == "__main__":
    main()
