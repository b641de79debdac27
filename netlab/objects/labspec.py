"""The Lab document (netlab/v1alpha1): what a lab has besides Kubernetes' own objects. Every field is optional."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import field

from netlab.objects.address_validation import validate_ip
from netlab.objects.field import FieldError, duplicate, invalid, required, unsupported
from netlab.objects.ip import CIDR_WORDS, parse_cidr
from netlab.objects.meta import Object, ObjectMeta
from netlab.objects.names import dns1123_label_fault, dns1123_subdomain_fault
from netlab.objects.proxyconfig import MODES

API_VERSION = "netlab/v1alpha1"
POD_WIRINGS = ("bridge", "ptp")
INTER_NODE_WAYS = ("routed", "vxlan")
LOAD_BALANCER_MODES = ("none", "l2", "proxy")


class LabNetworks(Object):
    """The two networks that the router joins: one range, or a list with one of each family."""

    client: str | list[str] = "192.168.1.0/24"
    node: str | list[str] = "192.168.60.0/24"

    def ranges(self, name: str) -> list[str]:
        value = self.client if name == "client" else self.node
        return [value] if isinstance(value, str) else value


class LabNode(Object):
    name: str = ""
    addresses: list[str] = field(default_factory=list)
    pod_cidrs: list[str] = field(default_factory=list, name="podCIDRs")
    labels: dict[str, str] | None = None


class LabClient(Object):
    name: str = ""
    addresses: list[str] = field(default_factory=list)


class LabLoadBalancer(Object):
    mode: str = "none"
    pool: str = ""


class LabNodeProxy(Object):
    """What one node's kube-proxy has otherwise than KubeProxyConfiguration says."""

    mode: str = ""


class LabSpec(Object):
    service_cidrs: list[str] = field(default_factory=list, name="serviceCIDRs")
    node_port_range: str = "30000-32767"
    cluster_domain: str = "cluster.local"
    networks: LabNetworks | None = None
    nodes: list[LabNode] = field(default_factory=list)
    clients: list[LabClient] = field(default_factory=list)
    pod_wiring: str = "bridge"
    hairpin: bool = True
    bridge_netfilter: bool = True
    inter_node: str = "routed"
    proxy: dict[str, LabNodeProxy] | None = None
    load_balancer: LabLoadBalancer = field(default_factory=LabLoadBalancer)


class Lab(Object):
    api_version: str = API_VERSION
    kind: str = "Lab"
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: LabSpec = field(default_factory=LabSpec)
    status: dict[str, Any] | None = None


def validate(lab: Lab) -> list[FieldError]:
    """Every fault that can be seen in the Lab document alone."""
    spec = lab.spec
    errors: list[FieldError] = []
    if lab.metadata.name and (fault := dns1123_label_fault(lab.metadata.name)):
        errors.append(invalid("metadata.name", lab.metadata.name, fault))
    errors += _families("spec.serviceCIDRs", spec.service_cidrs)
    if parse_port_range(spec.node_port_range) is None:
        words = "must be two ports from 1 to 65535, the lower one first, as in 30000-32767"
        errors.append(invalid("spec.nodePortRange", spec.node_port_range, words))
    if fault := dns1123_subdomain_fault(spec.cluster_domain):
        errors.append(invalid("spec.clusterDomain", spec.cluster_domain, fault))
    for name in ("client", "node") if spec.networks else ():
        assert spec.networks is not None
        errors += _families(f"spec.networks.{name}", spec.networks.ranges(name), needed=True)
    for path, value, allowed in (
        ("spec.podWiring", spec.pod_wiring, POD_WIRINGS),
        ("spec.interNode", spec.inter_node, INTER_NODE_WAYS),
        ("spec.loadBalancer.mode", spec.load_balancer.mode, LOAD_BALANCER_MODES),
    ):
        if value not in allowed:
            errors.append(unsupported(path, value, allowed))
    if spec.load_balancer.mode in LOAD_BALANCER_MODES[1:] and not spec.load_balancer.pool:
        errors.append(required("spec.loadBalancer.pool", CIDR_WORDS))
    if spec.load_balancer.pool and parse_cidr(spec.load_balancer.pool) is None:
        errors.append(invalid("spec.loadBalancer.pool", spec.load_balancer.pool, CIDR_WORDS))
    errors += _hosts(spec)
    for node, proxy in (spec.proxy or {}).items():
        if proxy.mode and proxy.mode not in MODES:
            errors.append(unsupported(f"spec.proxy[{node}].mode", proxy.mode, MODES))
    return errors


def _hosts(spec: LabSpec) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    groups: list[tuple[str, Sequence[LabNode | LabClient]]] = [("nodes", spec.nodes), ("clients", spec.clients)]
    for kind, hosts in groups:
        for index, host in enumerate(hosts):
            path = f"spec.{kind}[{index}]"
            if not host.name:
                errors.append(required(f"{path}.name"))
            elif fault := dns1123_subdomain_fault(host.name):
                errors.append(invalid(f"{path}.name", host.name, fault))
            elif host.name in seen:
                errors.append(duplicate(f"{path}.name", host.name))
            elif host.name == "router":
                errors.append(invalid(f"{path}.name", host.name, "this is the name of the lab's router"))
            seen.add(host.name)
            for position, text in enumerate(host.addresses):
                errors += validate_ip(f"{path}.addresses[{position}]", text)
    for index, node in enumerate(spec.nodes):
        errors += _families(f"spec.nodes[{index}].podCIDRs", node.pod_cidrs)
    return errors


def _families(path: str, texts: Sequence[str], *, needed: bool = False) -> list[FieldError]:
    """A list of ranges: at most one of each family."""
    if needed and not texts:
        return [required(path, CIDR_WORDS)]
    errors = [invalid(f"{path}[{i}]", text, CIDR_WORDS) for i, text in enumerate(texts) if parse_cidr(text) is None]
    versions = [network.version for text in texts if (network := parse_cidr(text)) is not None]
    if not errors and len(set(versions)) != len(versions):
        errors.append(invalid(path, list(texts), "may hold at most one range of each IP family"))
    return errors


def parse_port_range(text: str) -> tuple[int, int] | None:
    """First and last port of "30000-32767"; None where the text is no such range."""
    first, dash, last = text.partition("-")
    if not dash or not all(port.isascii() and port.isdigit() and len(port) <= 5 for port in (first, last)):
        return None
    low, high = int(first), int(last)
    return (low, high) if 1 <= low <= high <= 65535 else None
