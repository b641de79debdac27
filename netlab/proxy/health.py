"""How healthy a kube-proxy is, and what it answers when asked, for itself and for Services of load balancers.

Source: kubernetes/pkg/proxy/healthcheck/proxy_health.go and service_health.go (1.36), KEP-3458 (node eligibility),
KEP-3836 (livez).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus

from netlab.model.keys import ObjectKey
from netlab.objects.node import Node
from netlab.proxy.changes import PortState
from netlab.proxy.family import Family
from netlab.proxy.service_ports import ServicePortName

TO_BE_DELETED_TAINT = "ToBeDeletedByClusterAutoscaler"
JSON_HEADERS = {"Content-Type": "application/json", "X-Content-Type-Options": "nosniff"}
_ZERO_TIME = "0001-01-01T00:00:00Z"


@dataclass
class ProxyHealth:
    """When each family was asked to sync, and when it last had done so.

    Unhealthy is a proxy with a change that has waited for ``timeout`` seconds (twice the sync period) or longer. It is
    healthy while it starts. All times are wall clock, in nanoseconds.
    """

    timeout: float
    updated: dict[Family, int] = field(default_factory=dict)
    pending: dict[Family, int] = field(default_factory=dict)
    node_eligible: bool = False

    def queued(self, family: Family, now: int) -> None:
        """A change has come that needs a sync; the oldest one counts."""
        self.pending.setdefault(family, now)

    def synced(self, family: Family, now: int) -> None:
        """Everything that had come is in the kernel."""
        self.pending.pop(family, None)
        self.updated[family] = now

    def see_node(self, node: Node | None) -> None:
        """Take in the proxy's own Node; a Node that is gone, goes or is about to be taken away is not eligible."""
        self.node_eligible = node is not None and node_eligible(node)

    def family_healthy(self, family: Family, now: int) -> bool:
        waiting = self.pending.get(family)
        return waiting is None or (now - waiting) / 1e9 < self.timeout

    def healthy(self, now: int) -> bool:
        """Of the proxy alone, whatever its node is."""
        return all(self.family_healthy(family, now) for family in self.updated)

    def healthz(self, now: int) -> tuple[int, str]:
        """Status and body of /healthz: 503 also where the Node is not eligible, so that balancers turn elsewhere."""
        return self._answer(now, self.healthy(now) and self.node_eligible, {"nodeEligible": self.node_eligible})

    def livez(self, now: int) -> tuple[int, str]:
        """Status and body of /livez: of the proxy alone."""
        return self._answer(now, self.healthy(now), {})

    def _answer(self, now: int, good: bool, more: Mapping[str, bool]) -> tuple[int, str]:
        last = now if good else max(self.updated.values(), default=0)
        families = sorted(self.updated, key=lambda family: family.kubernetes)
        value = {
            # Of a healthy proxy always the present time: monitoring took it for a sign of life before syncs on demand.
            "lastUpdated": go_time(last),
            "currentTime": go_time(now),
            **more,
            "healthy": self.healthy(now),
        }
        if families:
            value["status"] = {
                family.kubernetes: {
                    "lastUpdated": go_time(self.updated[family]),
                    "healthy": self.family_healthy(family, now),
                }
                for family in families
            }
        status = HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
        return status, json.dumps(value, separators=(",", ":"))


def node_eligible(node: Node) -> bool:
    """Whether load balancers may go on sending to the node: it is not being deleted, nor about to be scaled away."""
    if node.metadata.deletion_timestamp:
        return False
    return all(taint.get("key") != TO_BE_DELETED_TAINT for taint in node.spec.taints or [])


def go_time(nanoseconds: int) -> str:
    """Wall clock in UTC as Go writes it in JSON (RFC 3339, fraction without trailing zeros); 0: Go's zero time."""
    if not nanoseconds:
        return _ZERO_TIME
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    fraction = f".{rest:09d}".rstrip("0").rstrip(".")
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}{fraction}Z"


@dataclass(frozen=True, slots=True)
class ServiceCheck:
    """What a Service's healthCheckNodePort tells: how many addresses of ready endpoints are on this node."""

    port: int
    local_endpoints: int


def service_checks(families: Iterable[Mapping[ServicePortName, PortState]]) -> dict[ObjectKey, ServiceCheck]:
    """The checks that a node has to serve, by Service.

    Addresses count once, however many ports they serve. A Service in several families is counted in the first of them
    that it is in: each family of the real proxy tries to open the same port, and the first one gets it.
    """
    checks: dict[ObjectKey, ServiceCheck] = {}
    for ports in families:
        wanted = {name.service: each.port.health_check_node_port for name, each in ports.items()}
        wanted = {service: port for service, port in wanted.items() if port}
        local: dict[ObjectKey, set[str]] = {service: set() for service in wanted}
        for name, state in ports.items() if wanted else ():
            if name.service in wanted:
                local[name.service] |= {each.ip for each in state.all_endpoints if each.local and each.ready}
        for service, port in wanted.items():
            checks.setdefault(service, ServiceCheck(port, len(local[service])))
    return checks


def service_answer(service: ObjectKey, check: ServiceCheck, proxy_healthy: bool) -> tuple[int, str, dict[str, str]]:
    """Status, body and headers of a healthCheckNodePort, on whatever path it is asked."""
    good = check.local_endpoints > 0 and proxy_healthy
    body = "\n".join(
        [
            "{",
            '\t"service": {',
            f'\t\t"namespace": {json.dumps(service.namespace)},',
            f'\t\t"name": {json.dumps(service.name)}',
            "\t},",
            f'\t"localEndpoints": {check.local_endpoints},',
            f'\t"serviceProxyHealthy": {"true" if proxy_healthy else "false"}',
            "}",
        ]
    )
    headers = {**JSON_HEADERS, "X-Load-Balancing-Endpoint-Weight": str(check.local_endpoints)}
    return HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE, body, headers
