"""How computing a change grows: with what changed, and not with what there is. Without the kernel; drawn as a plot."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import msgspec

from bench.clusters import endpoint_slice, objects, tracker_of
from bench.figures import Figure, median
from bench.plot import Series, plot
from netlab.objects.endpointslice import EndpointSlice
from netlab.objects.proxyconfig import KubeProxyConfiguration
from netlab.proxy.changes import ServiceTracker
from netlab.proxy.family import Family
from netlab.proxy.iptables.restore import restore_texts
from netlab.proxy.iptables.rules import port_rules as iptables_port_rules
from netlab.proxy.iptables.state import IptablesState
from netlab.proxy.ipvs.settings import ipvs_settings
from netlab.proxy.ipvs.state import IpvsState
from netlab.proxy.ipvs.values import port_value
from netlab.proxy.nftables.rules import port_rules as nftables_port_rules
from netlab.proxy.nftables.state import NftablesState
from netlab.proxy.nftables.transaction import script, transactions
from netlab.proxy.settings import iptables_settings, nftables_settings

PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "scaling.svg"
SIZES, SMOKE_SIZES = (500, 1000, 2000, 5000, 10_000), (500, 2000)
CHANGES, SMOKE_CHANGES = (1, 10, 100, 1000, 2000), (1, 100)
MODES = ("iptables", "nftables", "ipvs")
ROUNDS = 5
GROWTH_LIMIT = 3.0
"""How much one change may cost more in a cluster of the largest size than in one of the smallest, which has one tenth
and less of it: constant but for caches."""

Compute = Callable[[dict[Any, Any], ServiceTracker], object]


def run(*, smoke: bool) -> Iterator[Figure]:
    sizes = SMOKE_SIZES if smoke else SIZES
    by_size = [Series(mode, [(float(size), change_ms(mode, size, 1)) for size in sizes]) for mode in MODES]
    for series in by_size:
        (_, small), (_, large) = series.points[0], series.points[-1]
        detail = f"{small:.2f} ms at {sizes[0]} Services, {large:.2f} ms at {sizes[-1]}"
        yield Figure(f"{series.name}: computing one changed endpoint", large / small, "×", GROWTH_LIMIT, detail)
    if smoke:
        return
    counts = [Series(mode, [(float(n), change_ms(mode, SIZES[-2], n)) for n in CHANGES]) for mode in MODES]
    for series in counts:
        (_, few), (number, many) = series.points[1], series.points[-1]
        detail = f"{few:.2f} ms for {CHANGES[1]} changes, {many:.1f} ms for {number:.0f}"
        limit = GROWTH_LIMIT * number / CHANGES[1]
        yield Figure(f"{series.name}: computing many changes", many / few, "×", limit, detail)
    PICTURE.write_text(
        plot(
            [
                ("one endpoint changed", "Services in the cluster", "ms", by_size),
                (f"{SIZES[-2]} Services", "endpoints changed at once", "ms", counts),
            ]
        )
    )


def change_ms(mode: str, services: int, changes: int) -> float:
    """From changed objects to the text or the operations for the kernel, milliseconds."""
    tracker = tracker_of(list(objects(services)))
    compute = _computer(mode)
    compute(tracker.take_changes(), tracker)
    took = []
    for number in range(ROUNDS):
        values = [
            msgspec.convert(endpoint_slice(each, moved=number + 1), EndpointSlice)
            for each in range(0, services, max(1, services // changes))
        ][:changes]
        began = time.perf_counter()
        for value in values:
            tracker.set_slice(value)
        compute(tracker.take_changes(), tracker)
        took.append((time.perf_counter() - began) * 1000)
    return median(took)


def _computer(mode: str) -> Compute:
    config = msgspec.convert({"mode": mode, "clusterCIDR": "10.200.0.0/13"}, KubeProxyConfiguration)
    of_node: dict[str, Any] = {
        "node_ips": [ip_address("192.168.60.11")],
        "local_addresses": [ip_address("192.168.60.11")],
        "pod_cidrs": ["10.240.0.0/16"],
    }
    if mode == "iptables":
        settings = iptables_settings(config, Family.IPV4, counters=True, **of_node)
        iptables = IptablesState(settings)

        def compute_iptables(changed: dict[Any, Any], tracker: ServiceTracker) -> object:
            large = tracker.endpoint_count() > 1000
            new = {
                name: iptables_port_rules(each.port, each.endpoints, settings, large) for name, each in changed.items()
            }
            return list(restore_texts(iptables.replace(new)))

        return compute_iptables
    if mode == "nftables":
        nft_settings = nftables_settings(config, Family.IPV4, service_cidrs=["10.96.0.0/12"], **of_node)
        nftables = NftablesState(nft_settings)

        def compute_nftables(changed: dict[Any, Any], _: ServiceTracker) -> object:
            new = {name: nftables_port_rules(each.port, each.endpoints, nft_settings) for name, each in changed.items()}
            return [script("ip kube-proxy", each) for each in transactions(nftables.replace(new, time.monotonic()))]

        return compute_nftables
    ipvs_of_node = ipvs_settings(config, Family.IPV4, **of_node)
    ipvs = IpvsState(ipvs_of_node)
    return lambda changed, _: ipvs.replace({name: port_value(each, ipvs_of_node) for name, each in changed.items()})
