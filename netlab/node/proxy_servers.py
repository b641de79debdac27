"""The HTTP servers of a kube-proxy: healthz, metrics, and the health-check nodePorts of load-balancer Services.

They live in an :class:`EventLoop`, so that the proxy's own loop serves them between its syncs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from netlab.model.keys import ObjectKey
from netlab.model.text import Message, Text
from netlab.node.eventloop import EventLoop
from netlab.node.http_server import HttpServer, Page, Response, plain
from netlab.objects.ip import parse_ip
from netlab.objects.proxyconfig import KubeProxyConfiguration
from netlab.proxy.health import JSON_HEADERS, ProxyHealth, ServiceCheck, service_answer
from netlab.proxy.metrics import ProxyMetrics

HEALTHZ_PORT, METRICS_PORT = 10256, 10249
RETRY_S = 5.0
"""As the real one, which tries again as long as it runs."""

CANNOT_LISTEN = Message(
    "proxy-servers.cannot-listen",
    en="kube-proxy cannot serve {what} on {address}: {error}",
    zh="kube-proxy 无法在 {address} 上提供 {what}：{error}",
)
CANNOT_CHECK = Message(
    "proxy-servers.cannot-check",
    en="node {node} failed to start the health check of Service {service} on port {port}: {error}",
    zh="节点 {node} 无法在端口 {port} 上启动 Service {service} 的健康检查：{error}",
)

_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Complain = Callable[[Text], None]


def bind_addresses(config: KubeProxyConfiguration) -> tuple[tuple[str, int], tuple[str, int]]:
    """Address and port of healthz and of metrics: defaults follow the family of bindAddress, a port may be left out."""
    bind = parse_ip(config.bind_address)
    six = bind is not None and bind.version == 6
    healthz = split_host_port(config.healthz_bind_address, HEALTHZ_PORT) or ("::" if six else "0.0.0.0", HEALTHZ_PORT)
    metrics = split_host_port(config.metrics_bind_address, METRICS_PORT) or (
        "::1" if six else "127.0.0.1",
        METRICS_PORT,
    )
    return healthz, metrics


def split_host_port(text: str, port: int) -> tuple[str, int] | None:
    """ "A:P", "[A6]:P", or an address alone, which gets ``port``; None for nothing."""
    if not text:
        return None
    if parse_ip(text) is not None:
        return text, port
    host, colon, number = text.rpartition(":")
    if not colon or not number.isdigit():
        return text.strip("[]"), port
    return host.strip("[]"), int(number)


class ProxyServers:
    """All servers of one kube-proxy.

    ``check_addresses``: where health-check nodePorts listen (nodePortAddresses; empty: everywhere); ``complain`` is
    told what cannot be opened.
    """

    def __init__(
        self,
        loop: EventLoop,
        node: str,
        mode: str,
        health: ProxyHealth,
        metrics: ProxyMetrics,
        *,
        check_addresses: Sequence[str] = (),
        complain: Complain,
        wall_clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.loop = loop
        self.node = node
        self.mode = mode
        self.health = health
        self.metrics = metrics
        self.check_addresses = check_addresses or ("0.0.0.0",)
        self.complain = complain
        self._now = wall_clock
        self._checks: dict[ObjectKey, _CheckServer] = {}

    def start(self, config: KubeProxyConfiguration) -> None:
        """Open healthz and metrics; what cannot be opened is tried again."""
        healthz, metrics = bind_addresses(config)
        self._open("healthz", healthz, {"/healthz": self._healthz, "/livez": self._livez})
        self._open(
            "metrics",
            metrics,
            {
                "/metrics": lambda: Response(200, self.metrics.text(), {"Content-Type": _METRICS_TYPE}),
                "/proxyMode": lambda: plain(self.mode),
                "/healthz": lambda: plain("ok"),
            },
        )

    def _open(self, what: str, address: tuple[str, int], pages: Mapping[str, Page]) -> None:
        server = HttpServer(self.loop, pages)
        try:
            server.listen(*address)
        except OSError as error:
            host, port = address
            self.complain(CANNOT_LISTEN(what=what, address=f"{host}:{port}", error=error.strerror))
            self.loop.call_later(RETRY_S, lambda: self._open(what, address, pages))

    def _healthz(self) -> Response:
        status, body = self.health.healthz(self._now())
        self.metrics.healthz.add(str(int(status)))
        return Response(status, body, JSON_HEADERS)

    def _livez(self) -> Response:
        status, body = self.health.livez(self._now())
        self.metrics.livez.add(str(int(status)))
        return Response(status, body, JSON_HEADERS)

    def set_checks(self, checks: Mapping[ObjectKey, ServiceCheck]) -> None:
        """Serve exactly these checks; one whose port stays keeps its server and tells its new count."""
        for service in list(self._checks):
            wanted = checks.get(service)
            if wanted is None or wanted.port != self._checks[service].check.port:
                self._checks.pop(service).server.close()
        for service, check in checks.items():
            open_already = self._checks.get(service)
            if open_already is not None:
                open_already.check = check
                continue
            server = _CheckServer(self, service, check)
            try:
                for address in self.check_addresses:
                    server.server.listen(address, check.port)
            except OSError as error:
                server.server.close()
                # Tried again with the next sync.
                self.complain(CANNOT_CHECK(node=self.node, service=service.path, port=check.port, error=error.strerror))
                continue
            self._checks[service] = server

    def proxy_healthy(self) -> bool:
        return self.health.healthy(self._now())


class _CheckServer:
    """The health check of one Service: the same answer on every path."""

    def __init__(self, servers: ProxyServers, service: ObjectKey, check: ServiceCheck) -> None:
        self.servers = servers
        self.service = service
        self.check = check
        self.server = HttpServer(servers.loop, {"": self._page})

    def _page(self) -> Response:
        return Response(*service_answer(self.service, self.check, self.servers.proxy_healthy()))
