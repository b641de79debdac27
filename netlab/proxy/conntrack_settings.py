"""The ``conntrack:`` block of kube-proxy's configuration as kernel settings.

Source: kubernetes/pkg/proxy/conntrack/sysctls.go (1.36), defaults from pkg/proxy/apis/config/v1alpha1/defaults.go.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from netlab.kernel import sysctl
from netlab.model.text import Message, Text
from netlab.objects.duration import parse_duration
from netlab.objects.proxyconfig import Conntrack

CANNOT_SET = Message(
    "conntrack.cannot-set",
    en="conntrack.{field}: {name} stays {current} on {node}, it cannot be set to {value} there ({error})",
    zh="conntrack.{field}：{node} 上的 {name} 仍为 {current}，无法设为 {value} ({error})",
)

MAX_PER_CORE, MIN = 32 * 1024, 128 * 1024
TCP_ESTABLISHED_TIMEOUT, TCP_CLOSE_WAIT_TIMEOUT = "24h0m0s", "1h0m0s"
HIGHEST_MAX = 1024 * 1024
"""Scaling by cores ends here (since 1.36)."""

_ROOT = "net/netfilter/"


@dataclass(frozen=True, slots=True)
class Setting:
    """One kernel setting, and the field of ``conntrack:`` that asks for it."""

    name: str
    value: int
    field: str


def conntrack_max(config: Conntrack, cores: int) -> int:
    """How many connections the table is to hold; 0 leaves the kernel's limit alone."""
    per_core = MAX_PER_CORE if config.max_per_core is None else config.max_per_core
    floor = MIN if config.min is None else config.min
    if per_core <= 0:
        return 0
    scaled = per_core * cores
    return HIGHEST_MAX if scaled > HIGHEST_MAX else max(scaled, floor)


def settings_of(config: Conntrack, cores: int) -> list[Setting]:
    """The settings in the order in which the real one makes them; what is 0 is left as it is."""
    established = config.tcp_established_timeout or TCP_ESTABLISHED_TIMEOUT
    close_wait = config.tcp_close_wait_timeout or TCP_CLOSE_WAIT_TIMEOUT
    return [
        Setting(f"{_ROOT}{name}", value, field)
        for name, value, field in (
            ("nf_conntrack_max", conntrack_max(config, cores), "maxPerCore"),
            ("nf_conntrack_tcp_timeout_established", _seconds(established), "tcpEstablishedTimeout"),
            ("nf_conntrack_tcp_timeout_close_wait", _seconds(close_wait), "tcpCloseWaitTimeout"),
            ("nf_conntrack_tcp_be_liberal", int(config.tcp_be_liberal), "tcpBeLiberal"),
            ("nf_conntrack_udp_timeout", _seconds(config.udp_timeout), "udpTimeout"),
            ("nf_conntrack_udp_timeout_stream", _seconds(config.udp_stream_timeout), "udpStreamTimeout"),
        )
        if value > 0
    ]


def _seconds(duration: str) -> int:
    return int(parse_duration(duration))


def apply(settings: Sequence[Setting], node: str) -> list[Text]:
    """Make the settings in the network namespace that the thread is in; returns what could not be made, and why.

    The size of the table is the machine's: only its first network namespace can change it. So a node of a lab says
    what it was to be, and goes on; the real one would have ended.
    """
    refused: list[Text] = []
    for each in settings:
        current = "?"
        try:
            current = sysctl.read(each.name)
            if current != str(each.value):
                sysctl.write(each.name, each.value)
        except OSError as error:
            name = each.name.replace("/", ".")
            words = error.strerror or os.strerror(error.errno or 0)
            refused.append(
                CANNOT_SET(field=each.field, name=name, value=each.value, node=node, current=current, error=words)
            )
    return refused
