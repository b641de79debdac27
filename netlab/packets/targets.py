"""Where a probe goes, as the user writes it: "ADDR:PORT", "[ADDR6]:PORT", or "ADDR" for a ping."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address

from netlab.model.errors import BadInput
from netlab.model.text import Message
from netlab.model.walk import endpoint_text
from netlab.objects.ip import parse_ip

BAD_TARGET = Message(
    "target.bad",
    en='--to: "{text}": {allowed} is expected, as in {example}',
    zh='--to："{text}"：应为 {allowed}，例如 {example}',
)
BAD_PROTOCOL = Message(
    "target.bad-protocol",
    en='--proto: "{text}" is none of tcp, udp, sctp, icmp',
    zh='--proto："{text}" 不是 tcp、udp、sctp、icmp 之一',
)
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


def parse_target(text: str, protocol: str) -> Target:
    """Raises :class:`BadInput`."""
    if protocol not in PROTOCOLS:
        raise BadInput(BAD_PROTOCOL(text=protocol))
    host, port = split_target(text)
    address = parse_ip(host)
    if protocol == "icmp":
        if address is None or port:
            raise BadInput(BAD_TARGET(text=text, allowed="ADDR", example="10.96.0.1"))
        return Target(str(address), None)
    if address is None or not port.isdigit() or not 1 <= int(port) <= 65535:
        example = "192.168.60.123:30080, [fd00::1]:80"
        raise BadInput(BAD_TARGET(text=text, allowed="ADDR:PORT", example=example))
    return Target(str(address), int(port))
