"""Rules of single Service ports: what causes them, and what the recordings do not show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from ipaddress import ip_address, ip_network

import pytest

from netlab.model.keys import Origin
from netlab.objects.proxyconfig import KubeProxyConfiguration, NFTables
from netlab.proxy.endpoints import Endpoint
from netlab.proxy.family import Family
from netlab.proxy.local_traffic import LocalTraffic
from netlab.proxy.nftables import names
from netlab.proxy.nftables.addresses import given_set, listed_set, range_text
from netlab.proxy.nftables.rules import PortRules, frame
from netlab.proxy.nftables.ruleset import duration_text, rules_of
from netlab.proxy.service_ports import ServicePortName
from netlab.proxy.settings import nftables_settings
from tests.unit.proxy.nftables.services import SETTINGS, Drawn, endpoint

NAME = ServicePortName("lab", "web", "http", "TCP")
SERVICE = "Service lab/web"


def values(rules: PortRules, container: str) -> dict[str, str]:
    return {each.key: each.value for each in rules.elements if each.container == container}


def chain(rules: PortRules, prefix: str) -> list[str]:
    (found,) = (listed for name, listed in rules.chains.items() if name.startswith(prefix))
    return [rule.text for rule in found]


def test_every_element_and_rule_of_a_service_names_its_cause() -> None:
    rules = Drawn(
        node_port=30080,
        external=(1,),
        balancer=(2,),
        ranges=("10.0.0.0/8",),
        external_local=True,
        affinity=600,
        endpoints=(endpoint(1, local=True), endpoint(2)),
    ).rules(NAME)
    fields = {(each.container, each.key): each.origin for each in rules.elements}
    assert fields["cluster-ips", "10.96.0.1"] == Origin(SERVICE, "spec.clusterIP")
    assert fields["service-ips", "10.96.0.1 . tcp . 80"] == Origin(SERVICE, "spec.clusterIP")
    assert fields["service-ips", "198.18.0.1 . tcp . 80"] == Origin(SERVICE, "spec.externalIPs[0]")
    assert fields["service-ips", "203.0.113.2 . tcp . 80"] == Origin(SERVICE, "status.loadBalancer.ingress[0]")
    assert fields["service-nodeports", "tcp . 30080"] == Origin(SERVICE, "spec.ports[0].nodePort")
    assert fields["firewall-ips", "203.0.113.2 . tcp . 80"] == Origin(SERVICE, "spec.loadBalancerSourceRanges")
    hairpin = fields["hairpin-connections", "10.244.1.1 . 10.244.1.1 . tcp . 8080"]
    assert hairpin == Origin("EndpointSlice lab/s", "endpoints[1].addresses[0]")
    assert all(rule.origin is not None for listed in rules.chains.values() for rule in listed)
    (balance,) = (listed[-1] for name, listed in rules.chains.items() if name.startswith("service-"))
    assert balance.origin == Origin(SERVICE, "spec.selector")
    assert [each.field for each in balance.choices] == ["endpoints[1].addresses[0]", "endpoints[2].addresses[0]"]


@pytest.mark.parametrize(
    ("service", "field"),
    [
        (Drawn(node_port=30080), "spec.selector"),
        (Drawn(node_port=30080, external_local=True, endpoints=(endpoint(1),)), "spec.externalTrafficPolicy"),
    ],
)
def test_a_refusal_names_what_refuses(service: Drawn, field: str) -> None:
    (element,) = (each for each in service.rules(NAME).elements if each.container == "no-endpoint-nodeports")
    assert element.origin == Origin(SERVICE, field)
    assert element.comment == "lab/web:http"


def test_every_rule_of_the_frame_that_configuration_shapes_names_it() -> None:
    causes = {rule.origin.field for _, rule in rules_of(frame(SETTINGS)) if rule.origin is not None}
    assert causes == {"clusterCIDR", "nodePortAddresses", "nftables.masqueradeBit", "spec.cidrs"}
    everyone = replace(SETTINGS, masquerade_all=True)
    assert "nftables.masqueradeAll" in {rule.origin.field for _, rule in rules_of(frame(everyone)) if rule.origin}


def test_source_ranges_hold_whether_there_are_endpoints_or_not() -> None:
    rules = Drawn(balancer=(1,), ranges=("10.0.0.0/8", "10.1.0.0/16")).rules(NAME)
    assert values(rules, "firewall-ips").keys() == {"203.0.113.1 . tcp . 80"}
    assert values(rules, "no-endpoint-services")["203.0.113.1 . tcp . 80"] == "goto reject-chain"
    assert chain(rules, "firewall-") == ["ip saddr != { 10.0.0.0/8 } drop"]
    (rule,) = (listed[0] for name, listed in rules.chains.items() if name.startswith("firewall-"))
    assert rule.command == "ip saddr != { 10.0.0.0/8, 10.1.0.0/16 } drop"


def test_a_node_within_the_source_ranges_may_come_from_the_balancers_address() -> None:
    settings = replace(SETTINGS, node_ips=(ip_address("192.168.50.11"), ip_address("fd00::11")))
    service = Drawn(balancer=(1,), ranges=("192.168.50.0/24",))
    assert chain(service.rules(NAME, settings), "firewall-") == ["ip saddr != { 192.168.50.0/24, 203.0.113.1 } drop"]
    assert chain(service.rules(NAME), "firewall-") == ["ip saddr != 192.168.50.0/24 drop"]


def test_without_a_way_to_tell_local_traffic_there_is_no_short_cut_for_pods() -> None:
    service = Drawn(node_port=30080, external_local=True, endpoints=(endpoint(1),))
    texts = chain(service.rules(NAME, replace(SETTINGS, local=None)), "external-")
    assert [text.split(" ")[0] for text in texts] == ["fib", "fib"]
    rules = frame(replace(SETTINGS, local=None)).chains[names.SERVICES]
    assert [rule.text.startswith("ip daddr @cluster-ips") for rule in rules] == [False, False]


def test_a_clusters_interfaces_tell_local_traffic() -> None:
    settings = replace(SETTINGS, local=LocalTraffic("prefix", "veth", "detectLocal.interfaceNamePrefix"))
    service = Drawn(node_port=30080, external_local=True, endpoints=(endpoint(1),))
    assert chain(service.rules(NAME, settings), "external-")[0].startswith('iifname "veth*" goto service-')


def test_ipv6_endpoints_stand_in_brackets_and_in_names_without_colons() -> None:
    origin = Origin("EndpointSlice lab/s", "endpoints[0].addresses[0]")
    end = Endpoint("fd00::5", 80, False, True, True, False, frozenset(), frozenset(), origin)
    rules = Drawn(affinity=600, endpoints=(end,)).rules(NAME, replace(SETTINGS, family=Family.IPV6))
    (clients,) = rules.containers
    assert clients.endswith("-lab/web/tcp/http__fd00..5/80")
    assert rules.containers[clients].keys == "ipv6_addr"
    assert chain(rules, "endpoint-") == [f"update @{clients} {{ ip6 saddr }}", "meta l4proto tcp dnat to [fd00::5]:80"]


def test_long_names_stay_short_enough_for_the_kernel_and_apart() -> None:
    long = ServicePortName("n" * 63, "s" * 63, "p" * 63, "SCTP")
    endpoints = {names.of_endpoint(long, f"fd00:1111:2222:3333:4444:5555:6666:{n}", 65535) for n in range(7770, 7790)}
    assert len(endpoints) == 20
    assert {len(each) for each in endpoints} == {240}
    assert all(each.endswith("...") for each in endpoints)
    assert len(names.endpoint_chain(names.of_endpoint(long, "10.0.0.1", 80))) < 256


def test_comments_stay_short_enough_for_nft() -> None:
    rules = Drawn().rules(ServicePortName("n" * 63, "s" * 63, "p" * 15, "TCP"))
    assert {len(each.comment) for each in rules.elements if each.comment} == {128}


@pytest.mark.parametrize(
    ("ranges", "addresses", "listed"),
    [
        (["10.0.0.0/8"], [], "10.0.0.0/8"),
        (["10.0.0.1/32"], [], "10.0.0.1"),
        (["10.0.0.0/8", "10.1.0.0/16"], [], "{ 10.0.0.0/8 }"),
        (["10.1.0.0/16", "10.0.0.0/16"], [], "{ 10.0.0.0/15 }"),
        (["10.0.0.0/24", "10.0.1.0/25"], [], "{ 10.0.0.0-10.0.1.127 }"),
        (["192.0.2.33/32", "172.30.0.0/24"], ["192.0.2.30"], "{ 172.30.0.0/24, 192.0.2.30, 192.0.2.33 }"),
        (["255.255.255.0/24", "0.0.0.0/8"], [], "{ 0.0.0.0/8, 255.255.255.0/24 }"),
        (["fd00::/64", "fd00:0:0:1::/65"], ["fd00:5::1"], "{ fd00::-fd00::1:7fff:ffff:ffff:ffff, fd00:5::1 }"),
    ],
)
def test_lists_as_nft_prints_them(ranges: Sequence[str], addresses: Sequence[str], listed: str) -> None:
    networks = [ip_network(each) for each in ranges]
    assert listed_set(networks, addresses) == listed
    assert (given_set(networks, addresses) == listed) == (len(ranges) + len(addresses) == 1)


def test_a_range_of_one_address_is_printed_as_the_address() -> None:
    assert [range_text(each) for each in ("10.0.0.1/32", "fd00::1/128", "fd00::/32", "10.0.0.0/8")] == [
        "10.0.0.1",
        "fd00::1",
        "fd00::/32",
        "10.0.0.0/8",
    ]


def test_durations_as_nft_prints_them() -> None:
    assert [duration_text(each) for each in (1, 90, 600, 10800, 86400, 93784)] == [
        "1s",
        "1m30s",
        "10m",
        "3h",
        "1d",
        "1d2h3m4s",
    ]


def node_ports(selectors: list[str], family: Family) -> tuple[str, ...] | None:
    return nftables_settings(
        KubeProxyConfiguration(node_port_addresses=selectors, nftables=NFTables(masquerade_bit=0)),
        family,
        node_ips=[ip_address("192.168.60.11"), ip_address("192.168.61.11")],
        local_addresses=[ip_address(each) for each in ("127.0.0.1", "192.168.60.11", "192.168.61.11", "::1")],
        pod_cidrs=[],
        service_cidrs=["10.96.0.0/16", "fd00:96::/112"],
    ).node_port_ips


def test_node_ports_are_served_on_the_primary_address_unless_told_otherwise() -> None:
    assert node_ports([], Family.IPV4) == ("192.168.60.11",)
    assert node_ports(["primary"], Family.IPV4) == ("192.168.60.11",)
    assert node_ports([], Family.IPV6) is None
    assert node_ports(["0.0.0.0/0"], Family.IPV4) is None
    assert node_ports(["192.168.61.0/24"], Family.IPV4) == ("192.168.61.11",)
    assert node_ports(["192.168.61.0/24"], Family.IPV6) is None


def test_node_ports_are_never_served_on_loopback() -> None:
    selected = node_ports(["127.0.0.0/8", "192.168.60.0/24"], Family.IPV4)
    table = frame(replace(SETTINGS, node_port_ips=selected))
    assert table.elements[names.NODEPORT_IPS].keys() == {"192.168.60.11"}
    every = frame(replace(SETTINGS, node_port_ips=None))
    assert names.NODEPORT_IPS not in every.containers
    assert every.chains[names.SERVICES][-1].text.startswith("fib daddr type local ip daddr != 127.0.0.0/8 ")
    assert every.chains[names.NODEPORT_ENDPOINTS_CHECK][0].text.startswith("ip daddr != 127.0.0.0/8 ")


def test_without_service_ranges_nothing_is_dropped() -> None:
    assert len(frame(replace(SETTINGS, service_ranges=())).chains[names.CLUSTER_IPS_CHECK]) == 1
    two = frame(replace(SETTINGS, service_ranges=(ip_network("10.96.0.0/16"), ip_network("10.98.0.0/16"))))
    assert two.chains[names.CLUSTER_IPS_CHECK][1].text == "ip daddr { 10.96.0.0/16, 10.98.0.0/16 } drop"


def test_the_highest_mark_bit_has_eight_digits() -> None:
    assert replace(SETTINGS, masquerade_bit=31).mark == "0x80000000"
    assert replace(SETTINGS, masquerade_bit=0).mark == "0x00000001"
