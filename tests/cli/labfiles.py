"""Lab files with one fault each: how the NodePort example is changed, and what is to be said about it.

``#!`` marks the line that a message has to name; where there is none, it is the end of the file.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.conftest import NODEPORT

GOOD = NODEPORT.read_text()
MARKER = "#!"


@dataclass(frozen=True)
class Fault:
    """A lab file, and what its message holds: the object, the field, what was found, what is allowed."""

    name: str
    text: str
    said: tuple[str, ...]

    @property
    def line(self) -> int:
        lines = self.text.splitlines()
        return next((number for number, line in enumerate(lines, 1) if MARKER in line), len(lines) + 1)


def changed(name: str, old: str, new: str, *said: str) -> Fault:
    """The example with a piece of it replaced, once."""
    assert GOOD.count(old) >= 1, old
    return Fault(name, GOOD.replace(old, new, 1), said)


def node(name: str, letter: str, addresses: str, cidrs: str, *said: str) -> Fault:
    """The example with another line for one of its nodes."""
    old = next(line for line in GOOD.splitlines() if f"name: node-{letter}" in line)
    new = f"  - {{name: node-{letter}, addresses: [{addresses}], podCIDRs: [{cidrs}]}} #!"
    return changed(name, old, new, *said)


def added(name: str, text: str, *said: str) -> Fault:
    """The example with a document more."""
    return Fault(name, f"{GOOD}---\n{text}\n", said)


def alone(name: str, text: str, *said: str) -> Fault:
    """A file of its own."""
    return Fault(name, text + "\n", said)


def lab(name: str, spec: str, *said: str) -> Fault:
    """A Lab document alone."""
    return alone(name, f"apiVersion: netlab/v1alpha1\nkind: Lab\nspec:\n{spec}", *said)


def service(name: str, spec: str, *said: str) -> Fault:
    text = f"apiVersion: v1\nkind: Service\nmetadata: {{name: two}}\nspec:\n{spec}"
    return added(name, text, "Service default/two", *said)


def pod(name: str, metadata: str, spec: str, *said: str) -> Fault:
    return added(name, f"apiVersion: v1\nkind: Pod\nmetadata: {metadata}\nspec: {spec}", *said)


def proxy(name: str, text: str, *said: str) -> Fault:
    head = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"
    return alone(name, head + text, "KubeProxyConfiguration", *said)


_POD = "{containers: [{name: web, image: nginx}]}"
_IPS = "annotations: {netlab/ips: "
_NOT_AN_OBJECT = "a Kubernetes object is expected (a mapping with apiVersion and kind), found "
_BOMB = "".join(f"{chr(c)}: &{chr(c)} [{', '.join([f'*{chr(c - 1)}'] * 9)}]\n" for c in range(98, 110))

SYNTAX = (
    alone("unparsable", "apiVersion: v1\nkind: [Service\nmetadata: {} #!", "not readable as YAML"),
    alone("open-quote", 'apiVersion: "v1\nkind: Service', "not readable as YAML", "unexpected end"),
    changed("tab", "  type: NodePort", "\ttype: NodePort #!", "a tab where YAML allows only spaces"),
    changed(
        "duplicate-key",
        "  type: NodePort",
        "  type: NodePort\n  type: ClusterIP #!",
        'duplicate field "type"',
        "line 26",
    ),
    alone("control-character", "kind: \x00 #!", "not readable as YAML", "control characters"),
    alone("unknown-alias", "kind: *nobody #!", "undefined alias"),
    alone("self-alias", "kind: &a [*a] #!", "an alias inside the value that it stands for"),
    alone("python-tag", "kind: !!python/object/apply:os.system [true] #!", "has no meaning in Kubernetes"),
    alone("binary-tag", "kind: !!binary aGk= #!", "has no meaning in Kubernetes"),
    alone("deep", "a: " + "{a: " * 98 + "[[[1]]] #!", "nested deeper than 100 levels"),
    alone("deep-block", "".join(f"{' ' * n}a:\n" for n in range(100)) + " " * 100 + "a: {b: 1} #!", "100 levels"),
    alone("bomb", f"a: &a [x, x, x, x, x, x, x, x, x]\n{_BOMB}".replace("*f]", "*f] #!"), "more than 2000000 values"),
)

SHAPE = (
    alone("text", "hello #!", _NOT_AN_OBJECT + '"hello"'),
    alone("number", "5 #!", _NOT_AN_OBJECT + "5"),
    added("list", "- a #!", _NOT_AN_OBJECT + "a list"),
    added("no-kind", "apiVersion: v1 #!\nmetadata: {name: x}", "kind: Required value"),
    added("no-version", "kind: Service #!\nmetadata: {name: x}", "apiVersion: Required value"),
    added("number-kind", "apiVersion: v1\nkind: 5 #!", "kind: Required value"),
    added(
        "old-slice",
        "kind: EndpointSlice\napiVersion: discovery.k8s.io/v1beta1 #!",
        "EndpointSlice",
        "discovery.k8s.io/v1",
    ),
    added("service-v2", "kind: Service\napiVersion: v2 #!", 'no matches for kind "Service" in version "v2"'),
    alone("lab-version", "kind: Lab\napiVersion: netlab/v9 #!", "netlab/v9", "netlab/v1alpha1"),
    added("second-lab", "apiVersion: netlab/v1alpha1 #!\nkind: Lab", "a second Lab document", ":5"),
    added(
        "second-configuration",
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1 #!\nkind: KubeProxyConfiguration",
        "a second KubeProxyConfiguration document",
    ),
    added("items-mapping", "apiVersion: v1\nkind: List\nitems: {a: 1} #!", "List: items: a list", "a mapping"),
    added("items-text", "apiVersion: v1\nkind: PodList\nitems: hello #!", "PodList: items: a list", '"hello"'),
    added("item-text", "apiVersion: v1\nkind: List\nitems:\n- 5 #!", _NOT_AN_OBJECT + "5"),
    added(
        "item-fault",
        "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: A_B} #!\n  spec: " + _POD,
        "A_B",
        "RFC 1123",
    ),
    added(
        "item-of-old-list",
        "apiVersion: discovery.k8s.io/v1beta1\nkind: EndpointSliceList\nitems:\n- metadata: {name: a} #!",
        "discovery.k8s.io/v1beta1",
    ),
    added(
        "name-twice", "apiVersion: v1 #!\nkind: Pod\nmetadata: {name: web-1}\nspec: " + _POD, "already exists", ":34"
    ),
    changed(
        "unknown-field",
        "  type: NodePort",
        "  typ: NodePort #!",
        "Service default/web",
        'unknown field "spec.typ"',
        '"type"',
    ),
    lab("unknown-lab-field", "  podWirring: ptp #!", "Lab", 'unknown field "spec.podWirring"', '"podWiring"'),
    changed("text-port", "- port: 80", "- port: eighty #!", "spec.ports[0].port", "found string", "allowed is int32"),
    changed("float-port", "- port: 80", "- port: 80.5 #!", "number 80.5", "allowed is int32"),
    changed("huge-port", "- port: 80", "- port: 99999999999999999999 #!", "found number", "allowed is int32"),
    changed(
        "quoted-port", "nodePort: 30080", 'nodePort: "30080" #!', "spec.ports[0].nodePort", "found string", "int32"
    ),
    changed(
        "ports-mapping",
        "  ports:\n",
        "  ports: {a: 1} #!\n  selector2:\n",
        "spec.ports",
        "found object",
        "[]v1.ServicePort",
    ),
    changed("number-label", "selector: {app: web}", "selector: {app: 1} #!", "spec.selector", "found number", "string"),
    changed(
        "number-name", "metadata: {name: web, ", "metadata: {name: 5, #!\n  ", "metadata.name", "found number", "string"
    ),
    lab("text-flag", '  hairpin: "maybe" #!', "spec.hairpin", "found string", "allowed is bool"),
)

LAB = (
    node("address-outside", "a", "192.168.61.123", "10.200.1.0/24", "spec.nodes[0].addresses[0]", "192.168.60.0/24"),
    node(
        "no-address",
        "a",
        "192.168.60.256",
        "10.200.1.0/24",
        "spec.nodes[0].addresses[0]",
        '"192.168.60.256"',
        "valid IP",
    ),
    node("leading-zero", "a", "192.168.060.123", "10.200.1.0/24", "spec.nodes[0].addresses[0]"),
    node("same-address", "b", "192.168.60.123", "10.200.2.0/24", "spec.nodes[1].addresses[0]", "belongs to node-a"),
    node("network-address", "a", "192.168.60.0", "10.200.1.0/24", "is the address of the network 192.168.60.0/24"),
    node("broadcast", "a", "192.168.60.255", "10.200.1.0/24", "is the broadcast address"),
    changed("client-outside", "192.168.1.100]}", "192.168.60.9]} #!", "spec.clients[0].addresses[0]", "192.168.1.0/24"),
    lab("multicast", "  nodes: [{name: a, addresses: [224.1.2.3]}] #!", "224.1.2.3", "the address of one host"),
    lab("loopback", "  nodes: [{name: a, addresses: [127.0.0.1]}] #!", "127.0.0.1", "loopback range"),
    lab("unspecified", '  nodes: [{name: a, addresses: ["::"]}] #!', "::", "unspecified"),
    lab("no-network", "  networks: {client: 192.168.1.0} #!", "spec.networks.client", "192.168.1.0", "valid CIDR"),
    lab(
        "two-networks",
        "  networks: {node: [10.1.0.0/24, 10.2.0.0/24]} #!",
        "spec.networks.node",
        "one range of each IP family",
    ),
    lab("empty-networks", "  networks: {node: []} #!", "spec.networks.node", "Required value"),
    lab(
        "full-network",
        "  networks: {client: 10.9.9.0/31} #!",
        "spec.networks.client",
        "no address of it is free for client",
    ),
    lab("port-range", "  nodePortRange: 80 #!", "spec.nodePortRange"),
    lab(
        "port-range-order",
        "  nodePortRange: 32767-30000 #!",
        "spec.nodePortRange",
        '"32767-30000"',
        "the lower one first",
    ),
    lab("service-cidr", "  serviceCIDRs: [10.96.0.0] #!", "spec.serviceCIDRs[0]", '"10.96.0.0"', "valid CIDR"),
    lab("service-cidr-single", "  serviceCIDRs: [10.96.0.1/32] #!", "spec.serviceCIDRs", "no address to give"),
    lab(
        "pod-cidr", "  nodes: [{name: a, podCIDRs: [10.200.1.0/33]}] #!", "spec.nodes[0].podCIDRs[0]", '"10.200.1.0/33"'
    ),
    lab("pod-cidr-small", "  nodes: [{name: a, podCIDRs: [10.200.1.0/31]}] #!", "podCIDRs[0]", "at least 4 addresses"),
    lab("pod-cidr-last", "  nodes: [{name: a, podCIDRs: [255.255.255.255/32]}] #!", "podCIDRs[0]", "at least 4"),
    lab("pod-cidr-special", "  nodes: [{name: a, podCIDRs: [127.1.0.0/16]}] #!", "podCIDRs[0]", "loopback"),
    node(
        "pod-cidr-clash",
        "b",
        "192.168.60.124",
        "10.200.0.0/16",
        "spec.nodes[1].podCIDRs[0]",
        "overlap with 10.200.1.0/24",
    ),
    node("pod-cidr-network", "b", "192.168.60.124", "192.168.0.0/16", "podCIDRs[0]", "overlap with 192.168.60.0/24"),
    lab("wiring", "  podWiring: calico #!", "spec.podWiring", '"calico"', '"bridge", "ptp"'),
    lab("inter-node", "  interNode: ipip #!", "spec.interNode", '"ipip"', '"routed", "vxlan"'),
    lab("balancer", "  loadBalancer: {mode: bgp} #!", "spec.loadBalancer.mode", '"bgp"', '"none", "l2", "proxy"'),
    lab("pool", "  loadBalancer: {pool: everything} #!", "spec.loadBalancer.pool", '"everything"', "valid CIDR"),
    lab("domain", "  clusterDomain: Cluster_Local #!", "spec.clusterDomain", '"Cluster_Local"', "RFC 1123"),
    lab("router", "  nodes: [{name: router}] #!", "spec.nodes[0].name", '"router"', "the lab's router"),
    lab("capitals", "  nodes: [{name: NodeA}] #!", "spec.nodes[0].name", '"NodeA"', "lower case"),
    lab("no-name", "  clients: [{addresses: []}] #!", "spec.clients[0].name", "Required value"),
    lab("same-name", "  nodes: [{name: a}, {name: a}] #!", "spec.nodes[1].name", "Duplicate value", '"a"'),
    lab("client-node", "  nodes: [{name: a}]\n  clients: [{name: a}] #!", "spec.clients[0].name", '"a"'),
    lab("proxy-nobody", "  proxy: {nobody: {mode: iptables}} #!", "spec.proxy[nobody]", "node-a, node-b"),
    lab("proxy-mode", "  proxy: {node-a: {mode: ebpf}} #!", "spec.proxy[node-a].mode", '"ebpf"', '"nftables"'),
    alone(
        "lab-name", "apiVersion: netlab/v1alpha1\nkind: Lab\nmetadata: {name: My Lab} #!", "metadata.name", '"My Lab"'
    ),
)

PROXY = (
    proxy("mode", "mode: ebpf #!", "mode", '"ebpf"', '"iptables", "ipvs", "nftables"'),
    proxy("cluster-cidr", "clusterCIDR: 10.0.0.0 #!", "clusterCIDR", '"10.0.0.0"', "valid CIDR"),
    proxy("bit", "iptables: {masqueradeBit: 40} #!", "iptables.masqueradeBit", "40", "[0, 31]"),
    proxy("period", "iptables: {minSyncPeriod: soon} #!", "iptables.minSyncPeriod", '"soon"', "invalid duration"),
    proxy(
        "periods", "iptables: {syncPeriod: 1s, minSyncPeriod: 2s} #!", "iptables.syncPeriod", '"1s"', "minSyncPeriod"
    ),
    proxy("addresses", "nodePortAddresses: [eth0] #!", "nodePortAddresses[0]", '"eth0"', "valid CIDR"),
    proxy("field", "mod: iptables #!", 'unknown field "mod"', '"mode"'),
)

SERVICES = (
    changed(
        "node-port",
        "nodePort: 30080",
        "nodePort: 80 #!",
        "Service default/web",
        "spec.ports[0].nodePort",
        "80",
        "30000-32767",
    ),
    changed("node-port-large", "nodePort: 30080", "nodePort: 70000 #!", "spec.ports[0].nodePort", "70000"),
    changed(
        "port-0", "- port: 80", "- port: 0 #!", "Service default/web", "spec.ports[0].port", "0", "between 1 and 65535"
    ),
    changed("port-large", "- port: 80", "- port: 70000 #!", "spec.ports[0].port", "70000", "between 1 and 65535"),
    changed(
        "cluster-ip",
        "clusterIP: 10.96.0.1",
        "clusterIP: 10.96.0.300 #!",
        "spec.clusterIPs[0]",
        '"10.96.0.300"',
        "valid IP",
    ),
    changed("cluster-ip-outside", "clusterIP: 10.96.0.1", "clusterIP: 10.128.0.1 #!", "spec.clusterIPs", "10.128.0.1"),
    changed("type", "type: NodePort", "type: Nodeport #!", "spec.type", '"Nodeport"', '"NodePort"'),
    service(
        "node-port-twice",
        "  type: NodePort\n  ports: [{port: 80, nodePort: 30080}] #!",
        "nodePort",
        "30080",
        "already allocated",
    ),
    service("cluster-ip-taken", "  clusterIP: 10.96.0.1 #!\n  ports: [{port: 80}]", "10.96.0.1", "already allocated"),
    service("no-ports", "  ports: [] #!", "spec.ports", "Required value"),
    service(
        "port-names",
        "  ports: [{name: a, port: 80}, {name: a, port: 81}] #!",
        "spec.ports[1].name",
        "Duplicate value",
        '"a"',
    ),
    service(
        "protocol",
        "  ports: [{port: 80, protocol: HTTP}] #!",
        "spec.ports[0].protocol",
        '"HTTP"',
        '"SCTP", "TCP", "UDP"',
    ),
    service("target-port", "  ports: [{port: 80, targetPort: a_b}] #!", "spec.ports[0].targetPort", '"a_b"'),
    service("no-node-port", "  ports: [{port: 80, nodePort: 30081}] #!", "spec.ports[0].nodePort", "ClusterIP"),
    service(
        "affinity",
        "  sessionAffinity: Cookie #!\n  ports: [{port: 80}]",
        "spec.sessionAffinity",
        '"Cookie"',
        '"ClientIP"',
    ),
    service("external-ip", "  externalIPs: [127.0.0.1] #!\n  ports: [{port: 80}]", "spec.externalIPs[0]", "loopback"),
    service(
        "families", "  ipFamilies: [IPv6] #!\n  ports: [{port: 80}]", "spec.ipFamilies[0]", '"IPv6"', "not configured"
    ),
    service(
        "dual-stack",
        "  ipFamilyPolicy: RequireDualStack #!\n  ports: [{port: 80}]",
        "spec.ipFamilyPolicy",
        "dual-stack",
    ),
    added(
        "service-name", "apiVersion: v1\nkind: Service\nmetadata: {name: Web} #!\nspec: {ports: [{port: 80}]}", '"Web"'
    ),
)

PODS = (
    changed(
        "pod-address-twice",
        "10.200.1.3}",
        "10.200.1.2} #!",
        "Pod default/web-2",
        "netlab/ips",
        '"10.200.1.2"',
        "default/web-1",
    ),
    changed(
        "pod-address-outside",
        "10.200.1.3}",
        "10.200.9.3} #!",
        "Pod default/web-2",
        '"10.200.9.3"',
        "node-a: 10.200.1.0/24",
    ),
    changed("pod-no-address", "10.200.1.3}", "ten} #!", "netlab/ips", '"ten"', "valid IP address"),
    changed("pod-empty-address", "10.200.1.3}", '""} #!', "netlab/ips", '""', "valid IP address"),
    changed(
        "pod-two-addresses", "10.200.1.3}", '"10.200.1.3, 10.200.1.4"} #!', "no more than one IP for each IP family"
    ),
    changed("pod-gateway", "10.200.1.3}", "10.200.1.1} #!", '"10.200.1.1"', "an address of node-a itself"),
    changed("pod-network", "10.200.1.3}", "10.200.1.0} #!", '"10.200.1.0"', "is the address of the network"),
    changed("pod-broadcast", "10.200.1.3}", "10.200.1.255} #!", '"10.200.1.255"', "is the broadcast address"),
    changed(
        "pod-node",
        "nodeName: node-b",
        "nodeName: node-z #!",
        "Pod default/web-3",
        "spec.nodeName",
        '"node-z"',
        "node-a, node-b",
    ),
    pod("pod-name", "{name: Web} #!", _POD, "Pod default/Web", "metadata.name", '"Web"', "RFC 1123"),
    pod("pod-unnamed", "{generateName: web-} #!", _POD, "metadata.name", "Required value"),
    pod("pod-namespace", "{name: a, namespace: A} #!", _POD, "metadata.namespace", '"A"'),
    pod("pod-empty", "{name: a}", "{containers: []} #!", "Pod default/a", "spec.containers", "Required value"),
    pod("pod-image", "{name: a}", "{containers: [{name: a}]} #!", "spec.containers[0].image", "Required value"),
    pod(
        "pod-port", "{name: a}", "{containers: [{name: a, image: b, ports: [{containerPort: 0}]}]} #!", "containerPort"
    ),
    pod(
        "pod-same-container",
        "{name: a}",
        "{containers: [{name: a, image: b}, {name: a, image: b}]} #!",
        "Duplicate value",
    ),
    added(
        "namespace", "apiVersion: v1\nkind: Namespace\nmetadata: {name: A} #!", "Namespace A", "metadata.name", '"A"'
    ),
    added(
        "node-address",
        "apiVersion: v1\nkind: Node\nmetadata: {name: c}\nstatus:\n  addresses: [{type: InternalIP, address: x}] #!",
        "Node c",
        "status.addresses[0].address",
        '"x"',
    ),
    added(
        "slice-type",
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: s}\naddressType: FQDM #!",
        "EndpointSlice default/s",
        "addressType",
        '"FQDM"',
    ),
    added(
        "slice-address",
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: s}\naddressType: IPv4\n"
        "endpoints: [{addresses: [fd00::1]}] #!",
        "endpoints[0].addresses",
        '"fd00::1"',
        "must be an IPv4 address",
    ),
)

FAULTS = (*SYNTAX, *SHAPE, *LAB, *PROXY, *SERVICES, *PODS)
