"""What a proxy makes of a Service (kubernetes/pkg/proxy/serviceport.go)."""

from __future__ import annotations

import pytest

from netlab.model.keys import ObjectKey
from netlab.proxy.family import Family
from netlab.proxy.iptables import names
from netlab.proxy.service_ports import AddressOfService, ServicePort, ServicePortName, is_proxied, service_ports
from tests.unit.proxy.build import service


def ports(spec: str, family: Family = Family.IPV4, status: str = "{}") -> list[ServicePort]:
    return service_ports(service(f"{{metadata: web, spec: {{{spec}}}, status: {status}}}"), family)


def one(spec: str, status: str = "{}") -> ServicePort:
    (port,) = ports(f"clusterIP: 10.96.0.5, ports: [{{port: 80, nodePort: 30080}}], {spec}", status=status)
    return port


DUAL = "clusterIP: 10.96.0.5, clusterIPs: [10.96.0.5, 'fd00::5'], ports: [{port: 80}]"


def test_a_name_prints_as_in_comments_and_hashes() -> None:
    assert str(ServicePortName("lab", "web", "http", "TCP")) == "lab/web:http"
    assert str(ServicePortName("lab", "web", "", "TCP")) == "lab/web"
    assert ServicePortName("lab", "web", "", "TCP").service == ObjectKey("Service", "lab", "web")


def test_chain_names_are_kube_proxys() -> None:
    """An unnamed port adds no colon to what is hashed; KUBE-SVC-4N57TFCL4MD7ZTDA is what very old releases made."""
    assert names.cluster_policy_chain(ServicePortName("default", "nginx", "", "TCP")) == "KUBE-SVC-2CMXP7HKUVJN7L6M"
    assert names.cluster_policy_chain(ServicePortName("default", "kubernetes", "https", "TCP")) == (
        "KUBE-SVC-NPX46M4PTMTKRN6Y"
    )
    assert names.cluster_policy_chain(ServicePortName("kube-system", "kube-dns", "dns", "UDP")) == (
        "KUBE-SVC-TCOU7JCQXEZGVUNU"
    )


def test_each_family_has_its_own_addresses() -> None:
    assert [each.cluster_ip for each in ports(DUAL)] == [AddressOfService("10.96.0.5", "spec.clusterIPs[0]")]
    assert [each.cluster_ip for each in ports(DUAL, Family.IPV6)] == [AddressOfService("fd00::5", "spec.clusterIPs[1]")]
    assert ports("clusterIP: 10.96.0.5, ports: [{port: 80}]", Family.IPV6) == []


@pytest.mark.parametrize("spec", ["clusterIP: 10.96.0.5", "clusterIP: 10.96.0.5, clusterIPs: [10.96.0.5]"])
def test_a_single_cluster_ip_is_named_as_people_write_it(spec: str) -> None:
    (port,) = ports(f"{spec}, ports: [{{port: 80}}]")
    assert port.cluster_ip == AddressOfService("10.96.0.5", "spec.clusterIP")


def test_external_and_balancer_addresses_keep_their_place_in_their_lists() -> None:
    status = "{loadBalancer: {ingress: [{hostname: a.example}, {ip: 'FD00::0009'}, {ip: 198.51.100.9}]}}"
    spec = f"{DUAL}, type: LoadBalancer, externalIPs: ['fd00::7', 203.0.113.7]"
    (four,) = ports(spec, status=status)
    (six,) = ports(spec, Family.IPV6, status)
    assert four.external_ips == (AddressOfService("203.0.113.7", "spec.externalIPs[1]"),)
    assert four.load_balancer_ips == (AddressOfService("198.51.100.9", "status.loadBalancer.ingress[2].ip"),)
    assert six.external_ips == (AddressOfService("fd00::7", "spec.externalIPs[0]"),)
    assert six.load_balancer_ips == (AddressOfService("fd00::9", "status.loadBalancer.ingress[1].ip"),)


@pytest.mark.parametrize(("mode", "there"), [("", True), (", ipMode: VIP", True), (", ipMode: Proxy", False)])
def test_the_node_answers_for_a_balancers_address_in_mode_vip(mode: str, there: bool) -> None:
    port = one("type: LoadBalancer", f"{{loadBalancer: {{ingress: [{{ip: 198.51.100.9{mode}}}]}}}}")
    assert bool(port.load_balancer_ips) is there


def test_an_address_that_a_former_type_has_left_is_not_used() -> None:
    assert one("type: NodePort", "{loadBalancer: {ingress: [{ip: 198.51.100.9}]}}").load_balancer_ips == ()


@pytest.mark.parametrize(
    ("ranges", "four", "six"),
    [
        ("[172.20.0.0/16]", ["172.20.0.0/16"], []),
        ("[' 172.20.0.0/16 ', 'fd00::/8']", ["172.20.0.0/16"], ["fd00::/8"]),
        ("[172.20.0.0/16, 0.0.0.0/0, 'fd00::/8']", [], ["fd00::/8"]),
        ("[172.20.0.0/16, '::/0']", ["172.20.0.0/16"], []),
        ("[]", [], []),
    ],
)
def test_ranges_are_those_of_the_family_and_everything_is_none(ranges: str, four: list[str], six: list[str]) -> None:
    spec = f"{DUAL}, type: LoadBalancer, loadBalancerSourceRanges: {ranges}"
    assert [str(each) for each in ports(spec)[0].source_ranges] == four
    assert [str(each) for each in ports(spec, Family.IPV6)[0].source_ranges] == six


@pytest.mark.parametrize(
    ("spec", "external", "internal", "cluster_used", "local_used"),
    [
        ("type: NodePort", False, False, True, False),
        ("type: NodePort, externalTrafficPolicy: Local", True, False, True, True),
        ("type: NodePort, internalTrafficPolicy: Local", False, True, True, True),
        ("type: LoadBalancer, externalTrafficPolicy: Local", True, False, True, True),
        ("type: ClusterIP, externalTrafficPolicy: Local, externalIPs: [203.0.113.7]", True, False, True, True),
        ("type: ClusterIP, externalTrafficPolicy: Local", False, False, True, False),
    ],
)
def test_policies(spec: str, external: bool, internal: bool, cluster_used: bool, local_used: bool) -> None:
    port = one(spec)
    assert (port.external_policy_local, port.internal_policy_local) == (external, internal)
    assert (port.uses_cluster_endpoints, port.uses_local_endpoints) == (cluster_used, local_used)


def test_a_policy_for_strangers_is_void_where_none_can_come() -> None:
    (port,) = ports("clusterIP: 10.96.0.5, ports: [{port: 80}], type: LoadBalancer, externalTrafficPolicy: Local")
    assert (port.uses_cluster_endpoints, port.uses_local_endpoints) == (True, False)


def test_a_port_that_is_only_inside_uses_local_endpoints_alone() -> None:
    (port,) = ports("clusterIP: 10.96.0.5, ports: [{port: 80}], internalTrafficPolicy: Local")
    assert (port.uses_cluster_endpoints, port.uses_local_endpoints) == (False, True)


@pytest.mark.parametrize(
    ("spec", "port"),
    [
        ("type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 31999", 31999),
        ("type: LoadBalancer, externalTrafficPolicy: Cluster, healthCheckNodePort: 31999", 0),
        ("type: NodePort, externalTrafficPolicy: Local, healthCheckNodePort: 31999", 0),
    ],
)
def test_only_load_balancers_with_policy_local_are_checked(spec: str, port: int) -> None:
    assert one(spec).health_check_node_port == port


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        ("sessionAffinity: None", None),
        ("sessionAffinity: ClientIP", 10800),
        ("sessionAffinity: ClientIP, sessionAffinityConfig: {}", 10800),
        ("sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 6}}", 6),
        ("sessionAffinity: None, sessionAffinityConfig: {clientIP: {timeoutSeconds: 6}}", None),
    ],
)
def test_affinity(spec: str, seconds: int | None) -> None:
    assert one(spec).affinity_seconds == seconds


@pytest.mark.parametrize(
    ("labels", "spec", "proxied"),
    [
        ("", "clusterIP: 10.96.0.5", True),
        ("", "clusterIP: None", False),
        ("", "clusterIP: ''", False),
        ("", "clusterIP: 10.96.0.5, type: ExternalName", False),
        ("service.kubernetes.io/headless: ''", "clusterIP: 10.96.0.5", False),
        ("service.kubernetes.io/service-proxy-name: custom", "clusterIP: 10.96.0.5", False),
    ],
)
def test_which_services_are_proxied(labels: str, spec: str, proxied: bool) -> None:
    assert is_proxied(service(f"{{metadata: {{name: web, labels: {{{labels}}}}}, spec: {{{spec}}}}}")) is proxied


def test_ports_stand_in_the_order_of_the_service_and_know_their_place() -> None:
    found = ports("clusterIP: 10.96.0.5, ports: [{name: b, port: 81}, {name: a, port: 80, protocol: UDP}]")
    assert [(each.name.port, each.protocol, each.port_field("nodePort")) for each in found] == [
        ("b", "tcp", "spec.ports[0].nodePort"),
        ("a", "udp", "spec.ports[1].nodePort"),
    ]
