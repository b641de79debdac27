"""The userspace mode at work on one node, in the one family that it knew: rules, and a listener for each Service port.

It knew no traffic policies, no topology and no terminating endpoints: every ready endpoint counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from netlab.kernel import iptables
from netlab.kernel.programs import ProgramFailed
from netlab.model.text import Message, Text
from netlab.proxy.changes import PortState
from netlab.proxy.iptables.ruleset import parse_save
from netlab.proxy.proxier import SyncReport
from netlab.proxy.service_ports import AddressOfService, ServicePort, ServicePortName
from netlab.proxy.userspace.rules import PortRules, Settings, port_rules
from netlab.proxy.userspace.state import Change, UserspaceState

CANNOT_PROXY = Message(
    "userspace.cannot-proxy",
    en="kube-proxy on {node} failed to start the proxy for {port}: {error}",
    zh="{node} 上的 kube-proxy 无法为 {port} 启动代理：{error}",
)
CANNOT_CLAIM = Message(
    "userspace.cannot-claim",
    en="kube-proxy on {node} cannot open the port {address}/{protocol} for {port}: {error}",
    zh="{node} 上的 kube-proxy 无法为 {port} 打开端口 {address}/{protocol}：{error}",
)
UNKNOWN_PROTOCOL = Message(
    "userspace.unknown-protocol",
    en="mode userspace does not know the protocol {protocol} of {port}",
    zh="userspace 模式不支持 {port} 的协议 {protocol}",
)

PROTOCOLS = ("TCP", "UDP")


class Sockets(Protocol):
    """The proxying itself, done with sockets in the node's network namespace."""

    def open(self, name: ServicePortName, affinity_seconds: int | None) -> int:
        """Begin to take connections of a Service port; returns the port of the node. Raises OSError."""
        ...

    def close(self, name: ServicePortName) -> None:
        """Take no more: TCP connections that there are go on, UDP flows end."""
        ...

    def forget(self, name: ServicePortName) -> None:
        """The Service port is gone with its endpoints and what was remembered of its clients."""
        ...

    def set_endpoints(self, name: ServicePortName, endpoints: Sequence[str]) -> None:
        """Endpoints ("A:P") for new connections; those that there are stay where they are."""
        ...

    def claim(self, ip: str | None, port: int, protocol: str) -> None:
        """Hold a port of the node (``ip`` None: on all addresses), so that no other program gets it. Raises OSError."""
        ...

    def release(self, ip: str | None, port: int, protocol: str) -> None: ...

    def sweep(self) -> None:
        """Forget clients whose affinity is over."""
        ...


Claim = tuple[str | None, int, str]


@dataclass(frozen=True, slots=True)
class _Portal:
    """What a listener was opened for: another one takes its place when this changes."""

    cluster_ip: AddressOfService
    port: int
    node_port: int
    external_ips: tuple[AddressOfService, ...]
    load_balancer_ips: tuple[AddressOfService, ...]
    affinity: bool


@dataclass(slots=True)
class _Open:
    portal: _Portal
    proxy_port: int
    claims: list[Claim]


class UserspaceProxier:
    """Implements :class:`netlab.proxy.proxier.Proxier`. ``node`` is named in error messages; ``local_addresses``: all
    addresses on the node's interfaces; ``complain`` is told what cannot be served."""

    def __init__(
        self,
        node: str,
        settings: Settings,
        sockets: Sockets,
        *,
        local_addresses: Sequence[str] = (),
        complain: Callable[[Text], None],
    ) -> None:
        self.node = node
        self.settings = settings
        self.sockets = sockets
        self.local_addresses = frozenset(local_addresses)
        self.complain = complain
        self.state = UserspaceState()
        self._family: Literal[4, 6] = 4 if settings.family.value == 4 else 6
        self._open: dict[ServicePortName, _Open] = {}
        self._claimed: dict[Claim, ServicePortName] = {}
        self._full = True

    @property
    def proxy_ports(self) -> dict[ServicePortName, int]:
        """The port of the node that connections of each Service port are taken at."""
        return {name: each.proxy_port for name, each in self._open.items()}

    def require_full_sync(self) -> None:
        self._full = True

    def sync(
        self, changed: Mapping[ServicePortName, PortState | None], ports: Mapping[ServicePortName, PortState]
    ) -> SyncReport:
        new: dict[ServicePortName, PortRules | None] = {}
        for name, state in changed.items():
            if state is None and name in self._open:
                self._stop(name)
                new[name] = None
            if state is None:
                self.sockets.forget(name)
        # What is gone has given its ports back by now.
        for name, state in changed.items():
            if state is not None:
                self._bring_in(name, state, new)
        self.sockets.sweep()
        full = self._full
        # Whatever goes wrong from here on, the kernel's rules are no longer known.
        self._full = True
        change = self.state.replace(new)
        if not full:
            try:
                return self._apply(change, full=False)
            except ProgramFailed:
                pass  # The rules are not as we left them: somebody else has been at them.
        return self._apply(self.state.full_change(parse_save(iptables.save(self._family, self.node))), full=True)

    def _apply(self, change: Change, *, full: bool) -> SyncReport:
        transactions = lines = 0
        for text in change.texts():
            iptables.restore(self._family, self.node, text)
            transactions += text.count("COMMIT\n")
            lines += text.count("\n")
        self._full = False
        return SyncReport(full, transactions, lines)

    def _bring_in(self, name: ServicePortName, state: PortState, new: dict[ServicePortName, PortRules | None]) -> None:
        if name.protocol not in PROTOCOLS:
            self.complain(UNKNOWN_PROTOCOL(protocol=name.protocol, port=name))
            return
        self.sockets.set_endpoints(name, [each.text for each in state.all_endpoints if each.ready])
        portal = _portal(state.port)
        known = self._open.get(name)
        if known is not None and known.portal == portal:
            return
        if known is not None:
            self._stop(name)
        new[name] = self._start(name, state.port, portal)

    def _start(self, name: ServicePortName, port: ServicePort, portal: _Portal) -> PortRules | None:
        try:
            proxy_port = self.sockets.open(name, port.affinity_seconds)
        except OSError as error:
            self.complain(CANNOT_PROXY(node=self.node, port=name, error=error.strerror))
            return None
        opened = self._open[name] = _Open(portal, proxy_port, [])
        for address in (port.cluster_ip, *port.external_ips, *port.load_balancer_ips):
            if address.ip in self.local_addresses:
                self._claim(name, (address.ip, port.port, name.protocol), opened)
        has_node_port = bool(port.node_port) and self._claim(name, (None, port.node_port, name.protocol), opened)
        return port_rules(port, proxy_port, self.settings, node_port=has_node_port)

    def _claim(self, name: ServicePortName, claim: Claim, opened: _Open) -> bool:
        """Get hold of a port of the node; without it the real one leaves out the rules of a nodePort."""
        ip, port, protocol = claim
        try:
            if claim in self._claimed:
                raise FileExistsError(17, f"claimed by {self._claimed[claim]}")
            self.sockets.claim(ip, port, protocol)
        except OSError as error:
            address = f"{ip or ''}:{port}"
            self.complain(
                CANNOT_CLAIM(node=self.node, address=address, protocol=protocol, port=name, error=error.strerror)
            )
            return False
        self._claimed[claim] = name
        opened.claims.append(claim)
        return True

    def _stop(self, name: ServicePortName) -> None:
        for claim in self._open.pop(name).claims:
            del self._claimed[claim]
            self.sockets.release(*claim)
        self.sockets.close(name)


def _portal(port: ServicePort) -> _Portal:
    return _Portal(
        port.cluster_ip,
        port.port,
        port.node_port,
        port.external_ips,
        port.load_balancer_ips,
        port.affinity_seconds is not None,
    )
