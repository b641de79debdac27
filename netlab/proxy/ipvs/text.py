"""A node's value in ipvs mode as text: what ``ipvsadm -Sn``, ``ipset save`` and ``iptables-save`` would print.

Left out is what the kernel makes up: counters, and the random seed of a set (initval).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_address
from typing import NamedTuple

from netlab.kernel.ipset import SetContent, SetSpec
from netlab.kernel.ipvs import PERSISTENT, SCHEDULER_2, RealServer, ServerAddress, Target, VirtualServer
from netlab.model.keys import Origin
from netlab.proxy.iptables.ruleset import save_text
from netlab.proxy.iptables.state import rules_of
from netlab.proxy.ipvs import names
from netlab.proxy.ipvs.values import WEIGHT, IpvsValue, WantedServer

_SERVICE_OPTIONS = {"tcp": "-t", "udp": "-u", "sctp": "--sctp-service"}
_PROTOCOL_ORDER = ("tcp", "udp", "sctp")


class Caused(NamedTuple):
    """One line of what is programmed, and what caused it. ``part``: "ipvsadm", "kube-ipvs0", "ipset", "iptables" or
    "ip6tables"; ``place``: the virtual server, the set, or "table chain"."""

    part: str
    place: str
    text: str
    origin: Origin | None


def dry_run_text(values: Sequence[tuple[IpvsValue, dict[str, SetSpec]]]) -> str:
    """The values of IPv4 and of IPv6, in this order, as ``rules --dry-run`` prints them."""
    parts = ["# ipvsadm -Sn", *(line for value, _ in values for line in server_lines(value))]
    parts += ["# ipset save", *(line for value, specs in values for line in set_lines(value, specs))]
    for title, (value, _) in zip(("# iptables-save", "# ip6tables-save"), values, strict=True):
        parts += [title, rules_text(value).rstrip("\n")]
    return "\n".join(parts) + "\n"


def kernel_text(
    servers: Iterable[tuple[VirtualServer, Mapping[Target, RealServer]]], sets: Mapping[str, SetContent]
) -> str:
    """What a node's kernel holds, in the same words; without the rules."""
    lines = ["# ipvsadm -Sn"]
    for server, reals in sorted(servers, key=lambda each: _server_order(each[0].address)):
        lines.append(_settings_line(server))
        ordered = sorted(reals, key=_target_order)
        lines += [real_line(server.address, target, reals[target].weight) for target in ordered]
    lines.append("# ipset save")
    for name in sorted(sets):
        lines.append(create_line(sets[name].spec))
        lines += [f"add {name} {element}" for element in sorted(sets[name].elements)]
    return "\n".join(lines) + "\n"


def rules_text(value: IpvsValue) -> str:
    """As iptables-save prints the tables filter and nat; it does not print the others, which nobody has made."""
    text = save_text(value.rules)
    return text[text.index("*filter") :]


def server_lines(value: IpvsValue) -> list[str]:
    """Virtual servers with their real servers, in the order of the tool."""
    lines = []
    for address in sorted(value.servers, key=_server_order):
        server = value.servers[address]
        lines.append(server_line(server))
        lines += [real_line(address, target) for target in sorted(server.reals, key=_target_order)]
    return lines


def server_line(server: WantedServer) -> str:
    return _settings_line(server.server)


def _settings_line(settings: VirtualServer) -> str:
    line = f"-A {_service(settings.address)} -s {settings.scheduler}"
    if settings.flags & PERSISTENT:
        line += f" -p {settings.timeout}"
    if settings.flags & SCHEDULER_2:
        line += " -b mh-port"
    return line


def real_line(address: ServerAddress, target: Target, weight: int = WEIGHT) -> str:
    return f"-a {_service(address)} -r {target.text} -m -w {weight}"


def set_lines(value: IpvsValue, specs: dict[str, SetSpec]) -> list[str]:
    """Each set with its elements, sorted."""
    lines = []
    for purpose, spec in specs.items():
        lines.append(create_line(spec))
        lines += [f"add {spec.name} {element}" for element in sorted(value.sets[purpose])]
    return lines


def create_line(spec: SetSpec) -> str:
    if spec.type == "bitmap:port":
        return f"create {spec.name} {spec.type} range 0-65535"
    return f"create {spec.name} {spec.type} family {spec.family} hashsize 1024 maxelem 65536 bucketsize 12"


def causes(value: IpvsValue, specs: dict[str, SetSpec]) -> Iterator[Caused]:
    """Everything that is programmed for one family, with what caused it."""
    for ip, origin in value.addresses.items():
        yield Caused(names.LINK, names.LINK, ip, origin)
    for address, server in value.servers.items():
        yield Caused("ipvsadm", address.text, server_line(server), server.origin)
        for target, origin in server.reals.items():
            yield Caused("ipvsadm", address.text, real_line(address, target), origin)
    for purpose, elements in value.sets.items():
        for element, origin in elements.items():
            yield Caused("ipset", specs[purpose].name, element, origin)
    tool = "ip6tables" if any(spec.family == "inet6" for spec in specs.values()) else "iptables"
    for table, chain, rule in rules_of(value.rules):
        yield Caused(tool, f"{table} {chain}", rule.text, rule.origin)


def _service(address: ServerAddress) -> str:
    return f"{_SERVICE_OPTIONS[address.protocol]} {Target(address.ip, address.port).text}"


def _server_order(address: ServerAddress) -> tuple[int, int, list[int], int]:
    version = 6 if ":" in address.ip else 4
    return version, _PROTOCOL_ORDER.index(address.protocol), _signed_words(address.ip), address.port


def _target_order(target: Target) -> tuple[list[int], int]:
    return _signed_words(target.ip), target.port


def _signed_words(ip: str) -> list[int]:
    """An address as the tool compares it: 32 bits at a time, and those as a signed number."""
    packed = ip_address(ip).packed
    return [int.from_bytes(packed[start : start + 4], signed=True) for start in range(0, len(packed), 4)]
