"""Cluster IPs and node ports for the Services of a lab file. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from netlab.cluster.allocators import AllocationFailed, Allocators, allocate_service
from netlab.lab.faults import Faults
from netlab.lab.input import Given
from netlab.model.text import Message, Text
from netlab.objects.field import invalid
from netlab.objects.ip import parse_ip

Json = dict[str, Any]

FOREIGN_SERVICE_IP = Message(
    "resolve.foreign-service-ip",
    en="{service}: {ip} is outside the service range {ranges} and kept as it is; a Lab document can set serviceCIDRs",
    zh="{service}：{ip} 不在 Service 网段 {ranges} 中，保留原值；可在 Lab 文档中设置 serviceCIDRs",
)


def allocate_services(
    services: Iterable[tuple[Given, Json]], allocators: Allocators, faults: Faults, *, own_ranges: bool
) -> list[Text]:
    """Give Services what they lack; plain values, changed in place. Those that ask for something come first.

    ``own_ranges``: the lab file says which ranges there are. Returns what is worth telling; what is wrong goes to
    ``faults``.
    """
    notes: list[Text] = []
    for given, value in sorted(services, key=lambda each: not _asks_for_something(each[1])):
        if not own_ranges and (note := _keep_foreign(given, value, allocators)) is not None:
            notes.append(note)
            continue
        try:
            found = allocate_service(value, allocators)
        except AllocationFailed as error:
            found = [invalid("spec.clusterIPs", [], str(error))]
        for fault in found:
            faults.add_field(given.document, str(given.key), fault)
    return notes


def _keep_foreign(given: Given, value: Json, allocators: Allocators) -> Text | None:
    """A Service out of another cluster's range, in a file without ranges of its own, is taken as it is."""
    spec = value["spec"]
    texts = spec.get("clusterIPs") or ([spec["clusterIP"]] if spec.get("clusterIP") else [])
    addresses = [address for text in texts if (address := parse_ip(text)) is not None]
    outside = [each for each in addresses if not any(each in one for one in allocators.ranges)]
    if not outside:
        return None
    spec["clusterIPs"] = [str(each) for each in addresses]
    spec["clusterIP"] = str(addresses[0])
    spec.setdefault("ipFamilies", [f"IPv{each.version}" for each in addresses])
    spec.setdefault("ipFamilyPolicy", "SingleStack" if len(addresses) == 1 else "PreferDualStack")
    ranges = ", ".join(str(each.network) for each in allocators.ranges)
    return FOREIGN_SERVICE_IP(service=given.key, ip=outside[0], ranges=ranges)


def _asks_for_something(service: Json) -> bool:
    spec = service.get("spec", {})
    ports = spec.get("ports") or []
    return bool(spec.get("clusterIP")) or any(port.get("nodePort") for port in ports)
