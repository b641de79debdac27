"""Which conntrack entries kube-proxy deletes after a sync.

Source: kubernetes/pkg/proxy/conntrack/cleanup.go (1.36). Since 1.32 it compares all UDP entries with the Services that
there are. Up to 1.36.2 it passes over a Service without serving endpoints, and does not see one that is gone, so that
flows to them live on (kubernetes#139628, kubernetes#141371). That is what is done here; what the fixes of these do can
be asked for. Entries of other protocols are never deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from netlab.kernel import conntrack, nfnetlink
from netlab.model.records import ConntrackRecord
from netlab.proxy.changes import PortState
from netlab.proxy.family import Family, join_host_port
from netlab.proxy.service_ports import ServicePort, ServicePortName

UDP = 17


@dataclass(slots=True)
class _Targets:
    """Addresses of endpoints that flows to a Service may go on to, by what they are addressed to."""

    by_address: dict[str, frozenset[str]] = field(default_factory=dict)
    by_node_port: dict[int, frozenset[str]] = field(default_factory=dict)

    def add(self, port: ServicePort, endpoints: frozenset[str]) -> None:
        for address in (port.cluster_ip, *port.load_balancer_ips, *port.external_ips):
            self.by_address[join_host_port(address.ip, port.port)] = endpoints
        if port.node_port:
            self.by_node_port[port.node_port] = endpoints

    def is_stale(self, entry: ConntrackRecord) -> bool:
        destination, port = entry.original.destination, entry.original.destination_port
        if entry.protocol != UDP or port is None:
            return False
        answering = entry.reply.source
        endpoints = self.by_address.get(join_host_port(destination, port))
        if endpoints is not None and answering not in endpoints:
            return True
        # Whatever address it is to: the real one looks at the number alone, so that a stranger's flow to the same
        # number goes as well (it comes back with its next datagram).
        endpoints = self.by_node_port.get(port)
        return endpoints is not None and answering not in endpoints


def stale_entries(
    entries: Iterable[ConntrackRecord],
    ports: Mapping[ServicePortName, PortState],
    *,
    unserved_too: bool = False,
    gone: Iterable[ServicePort] = (),
) -> list[ConntrackRecord]:
    """The entries that lead where no Service sends them any more.

    An entry is stale if it is to an address of a Service and its answers do not come from a serving endpoint of that:
    the endpoint is gone, or the Service had none and has one now. Traffic policies and hints do not count: flows that
    there are stay, as TCP connections do.

    ``unserved_too``: also entries of Services that have no serving endpoint; ``gone``: ports of Services that have been
    deleted, whose entries go as well. (Both: later than 1.36.2.)
    """
    targets = _Targets()
    for port in gone:
        if port.name.protocol == "UDP":
            targets.add(port, frozenset())
    for name, state in ports.items():
        if name.protocol != "UDP":
            continue
        endpoints = frozenset(each.ip for each in state.all_endpoints if each.serving)
        if endpoints or unserved_too:
            targets.add(state.port, endpoints)
    return [entry for entry in entries if targets.is_stale(entry)]


@dataclass
class ConntrackCleaner:
    """Deletes stale entries of one family after those syncs that can have made some, in the network namespace that the
    thread is in. ``place``: the node, for the ids of records."""

    family: Family
    place: str
    unserved_too: bool = False
    _endpoints: dict[ServicePortName, frozenset[str]] = field(default_factory=dict)

    def required(self, changed: Mapping[ServicePortName, PortState | None]) -> bool:
        """Take in what a sync has changed; whether endpoints of a UDP port are among it."""
        found = False
        for name, state in changed.items():
            if name.protocol != "UDP":
                continue
            old = self._endpoints.pop(name, frozenset())
            new: frozenset[str] = frozenset()
            if state is not None:
                new = self._endpoints[name] = frozenset(f"{each.text} {each.serving}" for each in state.all_endpoints)
            found = found or old != new
        return found

    def clean(
        self, ports: Mapping[ServicePortName, PortState], gone: Iterable[ServicePort] = ()
    ) -> list[ConntrackRecord]:
        """Delete what is stale; returns the entries that are gone now. Everything else in the table stays."""
        with nfnetlink.netfilter_socket() as netlink:
            entries = conntrack.list_entries(netlink, self.place, self.family.value, protocol=UDP)
            stale = stale_entries(entries, ports, unserved_too=self.unserved_too, gone=gone)
            return [entry for entry in stale if conntrack.delete_entry(netlink, entry)]
