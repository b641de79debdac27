"""What a Service's policies come to on one node: who is served, who is refused or dropped, and which field says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from netlab.objects.ip import Address
from netlab.proxy.family import Family
from netlab.proxy.service_ports import ServicePort
from netlab.proxy.topology import UsableEndpoints


@dataclass(frozen=True, slots=True)
class Reach:
    """``anywhere``: some node has an endpoint. ``internal``, ``external``: traffic to the ClusterIP, and from outside
    to any other address, finds one under its traffic policy here."""

    anywhere: bool
    internal: bool
    external: bool

    @property
    def internal_field(self) -> str:
        """What refuses traffic to the ClusterIP where ``internal`` is false."""
        return "spec.internalTrafficPolicy" if self.anywhere else "spec.selector"

    @property
    def external_field(self) -> str:
        """What refuses traffic from outside where ``external`` is false."""
        return "spec.externalTrafficPolicy" if self.anywhere else "spec.selector"


def reach_of(port: ServicePort, endpoints: UsableEndpoints) -> Reach:
    """How far one Service port reaches on a node that uses these endpoints."""
    anywhere, local = endpoints.anywhere, bool(endpoints.local)
    return Reach(
        anywhere=anywhere,
        internal=local if port.internal_policy_local else anywhere,
        external=local if port.external_policy_local else anywhere,
    )


def node_may_connect(port: ServicePort, node_ips: Sequence[Address], family: Family) -> bool:
    """Whether the source ranges take in the node's own (first) address.

    Then the Service's load-balancer addresses are allowed as sources too: a node that has one of them on an interface
    sends its own connections from it.
    """
    own = next((ip for ip in node_ips if family.matches(ip)), None)
    return own is not None and any(own in source for source in port.source_ranges)
