"""What a node's kube-proxy programs, as text and piece by piece with its cause: worked out from objects alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from netlab.lab.causes import NodeWorld, iptables_rules, ipvs_value, nftables_table, userspace_rules
from netlab.lab.plan import plan_fabric, plan_pod
from netlab.lab.resolve import Resolved
from netlab.model.errors import BadInput
from netlab.model.keys import Origin
from netlab.model.text import Message
from netlab.objects.endpointslice import SERVICE_NAME_LABEL
from netlab.objects.node import Node
from netlab.proxy.family import Family
from netlab.proxy.iptables.ruleset import save_text
from netlab.proxy.iptables.state import rules_of as iptables_rules_of
from netlab.proxy.ipvs import text as ipvs_text
from netlab.proxy.nftables.names import TABLE
from netlab.proxy.nftables.ruleset import Table, rule_set_text
from netlab.proxy.nftables.ruleset import rules_of as nftables_rules_of

NO_NODE = Message(
    "programmed.no-node",
    en='--node: there is no node "{name}"; the lab has {nodes}',
    zh='--node：没有节点 "{name}"；实验中有 {nodes}',
)
NO_SERVICE = Message(
    "programmed.no-service",
    en='there is no Service "{name}"; the lab has {services}',
    zh='没有 Service "{name}"；实验中有 {services}',
)
AMBIGUOUS_SERVICE = Message(
    "programmed.ambiguous-service",
    en='"{name}" is ambiguous: {services}',
    zh='"{name}" 有歧义：{services}',
)


class Programmed(msgspec.Struct, frozen=True):
    """One rule, element, virtual or real server, or address.

    ``part``: the tool that shows it ("iptables", "ip6tables", "nft", "ipvsadm", "ipset"; "kube-ipvs0" for addresses).
    ``place``: "TABLE CHAIN", "FAMILY TABLE CHAIN", the set or map, or the virtual server.
    """

    part: str
    place: str
    text: str
    origin: Origin | None = None


def world_of(resolved: Resolved, node: str) -> NodeWorld:
    """What the node's proxy would compute from. Raises :class:`BadInput` where there is no such node."""
    if node not in resolved.configs:
        raise BadInput(NO_NODE(name=node, nodes=", ".join(resolved.configs)))
    plan = plan_fabric(resolved.nodes, resolved.clients, resolved.declared, resolved.wiring)
    for pod in resolved.pods:
        plan_pod(plan, pod)
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for value in resolved.objects:
        by_kind.setdefault(value["kind"], []).append(value)
    own = next(each for each in by_kind["Node"] if each["metadata"]["name"] == node)
    return NodeWorld(
        node=msgspec.convert(own, Node),
        config=resolved.configs[node],
        services=by_kind.get("Service", []),
        slices=by_kind.get("EndpointSlice", []),
        service_cidrs=[cidr for each in by_kind.get("ServiceCIDR", []) for cidr in each["spec"]["cidrs"]],
        local_addresses=plan.topology().places[node].own_addresses(),
    )


def programmed_text(world: NodeWorld) -> str:
    """What the tools would save or take for all of it."""
    match world.config.proxy_mode:
        case "nftables":
            return rule_set_text(nftables_table(world, family) for family in Family)
        case "ipvs":
            return ipvs_text.dry_run_text([ipvs_value(world, family) for family in Family])
    titles = {Family.IPV4: "# iptables-save", Family.IPV6: "# ip6tables-save"}
    rules = userspace_rules if world.config.proxy_mode == "userspace" else iptables_rules
    return "".join(f"{titles[family]}\n{save_text(rules(world, family))}" for family in Family)


def programmed_items(world: NodeWorld, locate: Callable[[Origin], Origin]) -> list[Programmed]:
    """All pieces, each with its cause (and that with its place in the files)."""
    known: dict[Origin, Origin] = {}

    def located(origin: Origin | None) -> Origin | None:
        if origin is not None and origin not in known:
            known[origin] = locate(origin)
        return known[origin] if origin is not None else None

    return [Programmed(each.part, each.place, each.text, located(each.origin)) for each in _items(world)]


def _items(world: NodeWorld) -> Iterator[Programmed]:
    for family in Family:
        match world.config.proxy_mode:
            case "nftables":
                yield from _nftables_items(nftables_table(world, family))
            case "ipvs":
                for each in ipvs_text.causes(*ipvs_value(world, family)):
                    yield Programmed(each.part, each.place, each.text, each.origin)
            case _:
                tool = "iptables" if family is Family.IPV4 else "ip6tables"
                rules = userspace_rules if world.config.proxy_mode == "userspace" else iptables_rules
                for table, chain, rule in iptables_rules_of(rules(world, family)):
                    yield Programmed(tool, f"{table} {chain}", rule.text, rule.origin)


def _nftables_items(table: Table) -> Iterator[Programmed]:
    for container, elements in table.elements.items():
        for each in elements.values():
            yield Programmed("nft", f"{table.family} {TABLE} @{container}", each.command, each.origin)
    for chain, rule in nftables_rules_of(table):
        yield Programmed("nft", f"{table.family} {TABLE} {chain}", rule.text, rule.origin)


def find_service(resolved: Resolved, name: str) -> str:
    """The Service ("namespace/name") that "[namespace/]name" means. Raises :class:`BadInput`."""
    paths = [
        f"{each['metadata']['namespace']}/{each['metadata']['name']}"
        for each in resolved.objects
        if each["kind"] == "Service"
    ]
    found = [path for path in paths if name in (path, path.partition("/")[2])]
    if f"default/{name}" in found:
        return f"default/{name}"
    if not found:
        raise BadInput(NO_SERVICE(name=name, services=", ".join(paths) or "-"))
    if len(found) > 1:
        raise BadInput(AMBIGUOUS_SERVICE(name=name, services=", ".join(found)))
    return found[0]


def caused_by(items: list[Programmed], resolved: Resolved, service: str) -> list[Programmed]:
    """Those pieces that a Service ("namespace/name") or its EndpointSlices caused."""
    namespace, _, name = service.partition("/")
    objects = {f"Service {service}"}
    for each in resolved.objects:
        metadata = each["metadata"]
        labels = metadata.get("labels") or {}
        of_service = labels.get(SERVICE_NAME_LABEL) == name and metadata.get("namespace") == namespace
        if each["kind"] == "EndpointSlice" and of_service:
            objects.add(f"EndpointSlice {namespace}/{metadata['name']}")
    return [each for each in items if each.origin is not None and each.origin.object in objects]
