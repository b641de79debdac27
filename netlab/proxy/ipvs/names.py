"""Names of ipvs mode: the link that carries the Services' addresses, the sets, the chains.

Source: kubernetes/pkg/proxy/ipvs/ipset.go and iptables.go.
"""

from __future__ import annotations

from types import MappingProxyType

from netlab.kernel.ipset import NAME_LENGTH, SetSpec
from netlab.proxy.family import Family

LINK = "kube-ipvs0"
LINK_INDEX = 1_000_000
"""Far from where indexes are counted up: the kernel would take the next one, which a lab may want for a Pod's link."""

SERVICES = "KUBE-SERVICES"
POSTROUTING = "KUBE-POSTROUTING"
MARK_MASQ = "KUBE-MARK-MASQ"
NODE_PORT = "KUBE-NODE-PORT"
LOAD_BALANCER_CHAIN = "KUBE-LOAD-BALANCER"
FORWARD = "KUBE-FORWARD"
PROXY_FIREWALL = "KUBE-PROXY-FIREWALL"
SOURCE_RANGES_FIREWALL = "KUBE-SOURCE-RANGES-FIREWALL"
IPVS_FILTER = "KUBE-IPVS-FILTER"
IPVS_OUT_FILTER = "KUBE-IPVS-OUT-FILTER"

NAT_CHAINS = (SERVICES, POSTROUTING, NODE_PORT, LOAD_BALANCER_CHAIN, MARK_MASQ)
FILTER_CHAINS = (FORWARD, NODE_PORT, PROXY_FIREWALL, SOURCE_RANGES_FIREWALL, IPVS_FILTER, IPVS_OUT_FILTER)

LOOP_BACK = "LOOP-BACK"
CLUSTER_IP = "CLUSTER-IP"
EXTERNAL_IP = "EXTERNAL-IP"
EXTERNAL_IP_LOCAL = "EXTERNAL-IP-LOCAL"
LOAD_BALANCER = "LOAD-BALANCER"
LOAD_BALANCER_FW = "LOAD-BALANCER-FW"
LOAD_BALANCER_LOCAL = "LOAD-BALANCER-LOCAL"
LOAD_BALANCER_SOURCE_IP = "LOAD-BALANCER-SOURCE-IP"
LOAD_BALANCER_SOURCE_CIDR = "LOAD-BALANCER-SOURCE-CIDR"
HEALTH_CHECK_NODE_PORT = "HEALTH-CHECK-NODE-PORT"
IPVS_IPS = "IPVS-IPS"

NODE_PORTS = MappingProxyType(
    {
        "tcp": ("NODE-PORT-TCP", "NODE-PORT-LOCAL-TCP"),
        "udp": ("NODE-PORT-UDP", "NODE-PORT-LOCAL-UDP"),
        "sctp": ("NODE-PORT-SCTP-HASH", "NODE-PORT-LOCAL-SCTP-HASH"),
    }
)
"""The set of all nodePorts of a protocol, and that of those with external policy Local."""

# Exceptions stand before what they are exceptions to: sets are filled in this order and emptied in reverse, so that no
# state in between lets in, or masquerades, what neither the old nor the new one does.
_TYPES = {
    LOOP_BACK: "hash:ip,port,ip",
    LOAD_BALANCER_SOURCE_CIDR: "hash:ip,port,net",
    LOAD_BALANCER_SOURCE_IP: "hash:ip,port,ip",
    LOAD_BALANCER_FW: "hash:ip,port",
    LOAD_BALANCER_LOCAL: "hash:ip,port",
    LOAD_BALANCER: "hash:ip,port",
    EXTERNAL_IP_LOCAL: "hash:ip,port",
    EXTERNAL_IP: "hash:ip,port",
    "NODE-PORT-LOCAL-TCP": "bitmap:port",
    "NODE-PORT-TCP": "bitmap:port",
    "NODE-PORT-LOCAL-UDP": "bitmap:port",
    "NODE-PORT-UDP": "bitmap:port",
    "NODE-PORT-LOCAL-SCTP-HASH": "hash:ip,port",
    "NODE-PORT-SCTP-HASH": "hash:ip,port",
    HEALTH_CHECK_NODE_PORT: "bitmap:port",
    CLUSTER_IP: "hash:ip,port",
    IPVS_IPS: "hash:ip",
}


def set_specs(family: Family) -> dict[str, SetSpec]:
    """The sets of a family by what they are for ("CLUSTER-IP"), each with its name in the kernel.

    Names are cut to the length that the kernel allows, which tells in IPv6.
    """
    prefix, name = ("KUBE-", "inet") if family is Family.IPV4 else ("KUBE-6-", "inet6")
    return {
        purpose: SetSpec(f"{prefix}{purpose}"[:NAME_LENGTH], kind, "" if kind == "bitmap:port" else name)
        for purpose, kind in _TYPES.items()
    }
