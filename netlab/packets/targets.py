"""Where a probe goes, as the user writes it: "ADDR:PORT", "[ADDR6]:PORT", or "ADDR" for a ping."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address

from netlab.model.errors import BadInput
from netlab.model.text import Message, Text
from netlab.model.walk import endpoint_text
from netlab.objects.ip import Address, parse_ip

BAD_TARGET = Message(
    "target.bad",
    en='--to: "{text}": {allowed} is expected, as in {example}',
    zh='--to："{text}"：应为 {allowed}，例如 {example}',
)
NO_NAMES = Message(
    "target.no-names",
    en='--to: "{text}": names are not supported yet; an address is needed, as in {example}',
    zh='--to："{text}"：尚不支持域名；需要地址，例如 {example}',
)
NOT_ONE_HOST = Message(
    "target.not-one-host",
    en="{option}: {text} is no address of one host: a walk follows one packet to one receiver",
    zh="{option}：{text} 不是单个主机的地址：walk 跟踪的是发往单个接收者的数据包",
)
BAD_PROTOCOL = Message(
    "target.bad-protocol",
    en='--proto: "{text}" is none of tcp, udp, sctp, icmp',
    zh='--proto："{text}" 不是 tcp、udp、sctp、icmp 之一',
)
_NAME = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?\.?")
PROTOCOLS = ("tcp", "udp", "sctp", "icmp")


@dataclass(frozen=True)
class Target:
    """Where a probe goes: an address, and a port for protocols that have them."""

    address: str
    port: int | None

    @property
    def family(self) -> int:
        return int(ip_address(self.address).version)

    @property
    def text(self) -> str:
        return endpoint_text(self.address, self.port)


def split_target(text: str) -> tuple[str, str]:
    """Address and port as they are written; the port is empty where there is none."""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        return host, rest.removeprefix(":")
    if text.count(":") == 1:
        host, _, port = text.partition(":")
        return host, port
    return text, ""


def is_one_host(address: Address) -> bool:
    """Whether an address can be that of one host: no group, no broadcast, and not "any"."""
    return not address.is_multicast and not address.is_unspecified and str(address) != "255.255.255.255"


def not_an_address(text: str, host: str, allowed: str) -> Text:
    """What is wrong with a destination whose host is no address."""
    example = "192.168.60.123:30080, [fd00::1]:80" if "PORT" in allowed else "10.96.0.1"
    if _NAME.fullmatch(host):
        return NO_NAMES(text=text, example=example)
    return BAD_TARGET(text=text, allowed=allowed, example=example)


def parse_target(text: str, protocol: str) -> Target:
    """Raises :class:`BadInput`."""
    if protocol not in PROTOCOLS:
        raise BadInput(BAD_PROTOCOL(text=protocol))
    host, port = split_target(text)
    address = parse_ip(host)
    allowed = "ADDR" if protocol == "icmp" else "ADDR:PORT"
    is_port = port.isdecimal() and len(port) <= 5 and 1 <= int(port) <= 65535
    if address is None or (port if protocol == "icmp" else not is_port):
        raise BadInput(not_an_address(text, host if address is None else "", allowed))
    if not is_one_host(address):
        raise BadInput(NOT_ONE_HOST(option="--to", text=address))
    return Target(str(address), int(port) if is_port else None)
