"""Names in kube-proxy's nftables table. Those of Services and endpoints are readable; a hash keeps similar ones apart.

Source: kubernetes/pkg/proxy/nftables/proxier.go; what may stand in a name: nft(8), "Lexical conventions".
"""

from __future__ import annotations

import base64
import hashlib

from netlab.proxy.service_ports import ServicePortName

TABLE = "kube-proxy"

HAIRPIN_CONNECTIONS = "hairpin-connections"
CLUSTER_IPS = "cluster-ips"
NODEPORT_IPS = "nodeport-ips"
NO_ENDPOINT_SERVICES = "no-endpoint-services"
NO_ENDPOINT_NODEPORTS = "no-endpoint-nodeports"
FIREWALL_IPS = "firewall-ips"
SERVICE_IPS = "service-ips"
SERVICE_NODEPORTS = "service-nodeports"

FILTER_PREROUTING = "filter-prerouting-pre-dnat"
FILTER_OUTPUT_PRE_DNAT = "filter-output-pre-dnat"
FILTER_INPUT = "filter-input"
FILTER_FORWARD = "filter-forward"
FILTER_OUTPUT = "filter-output"
NAT_PREROUTING = "nat-prerouting"
NAT_OUTPUT = "nat-output"
NAT_POSTROUTING = "nat-postrouting"

NODEPORT_ENDPOINTS_CHECK = "nodeport-endpoints-check"
SERVICE_ENDPOINTS_CHECK = "service-endpoints-check"
FIREWALL_CHECK = "firewall-check"
SERVICES = "services"
MASQUERADING = "masquerading"
CLUSTER_IPS_CHECK = "cluster-ips-check"
REJECT = "reject-chain"

_LONGEST = 240
"""Of a name without its prefix: the kernel takes 255 characters, and 16 are kept for prefixes."""


def of_port(name: ServicePortName) -> str:
    """What the names of all chains of one Service port end in: "HASH-namespace/name/protocol/port"."""
    return _hashed(_path(name))


def of_endpoint(name: ServicePortName, ip: str, port: int) -> str:
    """What the names of an endpoint's chain and of its affinity set end in."""
    return _hashed(f"{_path(name)}__{ip.replace(':', '.')}/{port}")


def cluster_policy_chain(of_port: str) -> str:
    return f"service-{of_port}"


def local_policy_chain(of_port: str) -> str:
    return f"local-{of_port}"


def external_chain(of_port: str) -> str:
    return f"external-{of_port}"


def firewall_chain(of_port: str) -> str:
    return f"firewall-{of_port}"


def endpoint_chain(of_endpoint: str) -> str:
    return f"endpoint-{of_endpoint}"


def affinity_set(of_endpoint: str) -> str:
    return f"affinity-{of_endpoint}"


def _path(name: ServicePortName) -> str:
    return f"{name.namespace}/{name.name}/{name.protocol.lower()}/{name.port}"


def _hashed(path: str) -> str:
    digest = base64.b32encode(hashlib.sha256(path.encode()).digest()).decode()
    name = f"{digest[:8]}-{path}"
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 3]}..."
