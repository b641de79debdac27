from __future__ import annotations

from typing import Any

import pytest

from netlab.objects.decode import decode, typed
from netlab.objects.endpointslice import EndpointSlice
from netlab.objects.endpointslice_validation import (
    default_endpointslice,
    endpointslice_warnings,
    validate_endpointslice,
)

ADDRESS = {"addresses": ["10.1.0.5"]}


def made(**fields: Any) -> EndpointSlice:
    plain = {"metadata": {"name": "web-x", "namespace": "lab"}, "addressType": "IPv4"} | fields
    value = decode(plain, EndpointSlice).value
    default_endpointslice(value)
    return typed(value, EndpointSlice)


def faults(**fields: Any) -> list[tuple[str, str]]:
    return [(error.path, error.kind) for error in validate_endpointslice(made(**fields))]


def said(**fields: Any) -> list[str]:
    return [str(error) for error in validate_endpointslice(made(**fields))]


def test_defaults() -> None:
    value: dict[str, Any] = {"endpoints": [ADDRESS | {"deprecatedTopology": {"a": "b"}}], "ports": [{"port": 80}]}
    default_endpointslice(value)
    assert value == {
        "endpoints": [{"addresses": ["10.1.0.5"], "conditions": {}}],
        "ports": [{"port": 80, "name": "", "protocol": "TCP"}],
    }


def test_a_slice_may_be_empty() -> None:
    assert faults() == []


def test_ports_of_any_number_and_none_are_taken() -> None:
    assert faults(ports=[{"name": "a", "port": 0}, {"name": "b", "port": 70000}, {"name": "c"}]) == []


def test_ports() -> None:
    ports = [{"port": 1}, {"port": 2}, {"name": "Bad", "protocol": "ICMP"}, {"name": "x", "appProtocol": "h 2"}]
    assert faults(ports=ports) == [
        ("ports[1].name", "Duplicate"),
        ("ports[2].name", "Invalid"),
        ("ports[2].protocol", "Unsupported"),
        ("ports[3].appProtocol", "Invalid"),
    ]


def test_limits() -> None:
    assert faults(endpoints=[ADDRESS] * 1000) == []
    assert said(endpoints=[ADDRESS] * 1001) == ["endpoints: Too many: 1001: must have at most 1000 items"]
    assert said(ports=[{"name": f"p{n}"} for n in range(101)]) == ["ports: Too many: 101: must have at most 100 items"]
    many = {"addresses": [f"10.1.0.{n}" for n in range(1, 102)]}
    assert said(endpoints=[many]) == ["endpoints[0].addresses: Too many: 101: must have at most 100 items"]
    zones = [{"name": f"z{n}"} for n in range(9)]
    hinted = ADDRESS | {"hints": {"forZones": zones}}
    assert said(endpoints=[hinted]) == ["endpoints[0].hints.forZones: Too many: 9: must have at most 8 items"]


def test_a_wrong_family_is_said_of_the_list() -> None:
    assert said(endpoints=[{"addresses": ["10.1.0.5", "2001:db8::5"]}]) == [
        'endpoints[0].addresses: Invalid value: "2001:db8::5": must be an IPv4 address'
    ]
    assert said(addressType="IPv6", endpoints=[ADDRESS]) == [
        'endpoints[0].addresses: Invalid value: "10.1.0.5": must be an IPv6 address'
    ]


def test_addresses_of_an_unknown_type_are_not_looked_at() -> None:
    assert faults(addressType="Hostname", endpoints=[{"addresses": ["?"]}]) == [("addressType", "Unsupported")]


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("db.example.net", None),
        ("db.example.net.", None),
        ("", "Required"),
        ("db", "Invalid"),
        ("Db.example", "Invalid"),
        (f"{'x' * 64}.example", "Invalid"),
    ],
)
def test_domain_names(name: str, fault: str | None) -> None:
    expected = [] if fault is None else [("endpoints[0].addresses[0]", fault)]
    assert faults(addressType="FQDN", endpoints=[{"addresses": [name]}]) == expected


def test_names_in_an_endpoint() -> None:
    endpoint = ADDRESS | {"nodeName": "Node", "hostname": "a.b"}
    assert faults(endpoints=[endpoint]) == [("endpoints[0].nodeName", "Invalid"), ("endpoints[0].hostname", "Invalid")]


def test_hints() -> None:
    hints = {"forZones": [{"name": "a"}, {"name": "a"}, {"name": "b c"}], "forNodes": [{"name": "n"}, {"name": "N"}]}
    assert faults(endpoints=[ADDRESS | {"hints": hints}]) == [
        ("endpoints[0].hints.forZones[1].name", "Duplicate"),
        ("endpoints[0].hints.forZones[2].name", "Invalid"),
        ("endpoints[0].hints.forNodes[1].name", "Invalid"),
    ]


def test_warnings() -> None:
    six = made(addressType="IPv6", endpoints=[{"addresses": ["2001:DB8::5"]}])
    assert endpointslice_warnings(six) == [
        'endpoints[0].addresses[0]: IPv6 address "2001:DB8::5" should be in RFC 5952 canonical format ("2001:db8::5")'
    ]
    assert endpointslice_warnings(made(endpoints=[ADDRESS])) == []
    assert endpointslice_warnings(made(addressType="FQDN")) == ["spec.addressType: FQDN endpoints are deprecated"]
