"""Tells which accepted connection belongs to which dialled one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from netlab.model.records import ProxyConnection, Tuple
from netlab.proxy.service_ports import ServicePortName

PROTOCOL_NUMBERS = {"TCP": 6, "UDP": 17}

Address = tuple[Any, ...]
"""A socket address of the internet families, as Python has it."""


@dataclass(slots=True)
class Reporter:
    """Numbers the records of one place. ``report`` must not wait."""

    place: str
    report: Callable[[ProxyConnection], None]
    wall_clock: Callable[[], int] = time.time_ns
    order: int = 0

    def tell(
        self,
        event: Literal["joined", "failed", "ended"],
        name: ServicePortName,
        accepted: Tuple,
        dialled: Tuple | None,
        tried: tuple[str, ...] = (),
    ) -> None:
        self.order += 1
        self.report(
            ProxyConnection(
                id=f"proxy:{self.place}#{self.order}",
                place=self.place,
                order=self.order,
                event=event,
                time_ns=self.wall_clock(),
                service_port=str(name),
                protocol=PROTOCOL_NUMBERS[name.protocol],
                accepted=accepted,
                dialled=dialled,
                tried=tried,
            )
        )


def host_of(address: Address) -> str:
    """The address's text: without a zone, and IPv4 that came in by an IPv6 socket as IPv4."""
    host = str(address[0]).partition("%")[0]
    return host.removeprefix("::ffff:") if "." in host else host


def pair(source: Address, destination: Address) -> Tuple:
    return Tuple(host_of(source), host_of(destination), int(source[1]), int(destination[1]))


def split_endpoint(endpoint: str) -> tuple[str, int]:
    """ "A:P" or "[A6]:P"."""
    host, _, port = endpoint.rpartition(":")
    return host.strip("[]"), int(port)
