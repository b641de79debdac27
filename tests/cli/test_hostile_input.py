"""Input that nobody writes by hand: mutilated, random. It is read or refused, and nothing else."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from netlab.lab.input import read_input
from netlab.lab.plan import plan_fabric
from netlab.lab.resolve import Resolved, resolve
from netlab.model.errors import BadInput
from netlab.objects.yaml_source import Source, plain_scalar
from netlab.packets.expression import parse_expression
from tests.cli.labfiles import GOOD

Json = Any
Path_ = tuple[str | int, ...]

EXAMPLE = [*yaml.safe_load_all(GOOD)]
MORE: list[Json] = [
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "node-c"},
        "spec": {"podCIDR": "10.200.3.0/24"},
        "status": {"addresses": [{"type": "InternalIP", "address": "192.168.60.125"}]},
    },
    {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "web-x", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "ports": [{"port": 80, "name": "", "protocol": "TCP"}],
        "endpoints": [{"addresses": ["10.200.1.2"], "conditions": {"ready": True}, "nodeName": "node-a"}],
    },
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "lb"},
        "spec": {
            "type": "LoadBalancer",
            "externalIPs": ["5.6.7.8"],
            "externalTrafficPolicy": "Local",
            "sessionAffinity": "ClientIP",
            "ipFamilyPolicy": "PreferDualStack",
            "ports": [{"port": 80, "targetPort": "http", "name": "a"}, {"port": 81, "protocol": "UDP", "name": "b"}],
        },
    },
    {
        "apiVersion": "v1",
        "kind": "PodList",
        "items": [
            {
                "metadata": {"name": "p", "uid": "u"},
                "spec": {"containers": [{"name": "a", "image": "b"}], "novelty": {"of": "a newer version"}},
                "status": {"phase": "Running", "podIPs": [{"ip": "10.200.1.77"}]},
            }
        ],
    },
]
WORDS = (
    "", "a", "A_b", "x" * 300, "10.200.1.2", "10.200.1.0/24", "::1", "fd00::1", "fd00::/64", "fe80::1%eth0",
    "::ffff:1.2.3.4", "255.255.255.255", "0.0.0.0", "0.0.0.0/0", "255.255.255.255/32", "192.168.60.0/31", "1.2.3.4/33",
    "224.0.0.1", "127.0.0.1", "30000-32767", "1-99999", "1s", "-1s", "1e9h", "9" * 400 + "s", "\x00", "日本", "\u2028",
    "node-a", "node-b", "client", "router", "None", "NodePort", "ExternalName", "LoadBalancer", "iptables", "vxlan",
    "ptp", "IPv4", "IPv6", "SCTP", "UDP", "Service", "Pod", "Node", "List", "PodList", "EndpointSlice", "Lab", "v1",
    "netlab/v1alpha1", "discovery.k8s.io/v1", "Local", "Succeeded", "Pending", "10.200.1.2,fd00::2", ",",
)  # fmt: skip
FIELDS = (
    "name", "namespace", "generateName", "uid", "labels", "annotations", "netlab/ips", "finalizers", "spec", "status",
    "items", "kind", "podIP", "podIPs", "phase", "nodeName", "hostNetwork", "clusterIP", "clusterIPs", "ports", "port",
    "nodePort", "podCIDR", "podCIDRs", "addresses", "networks", "client", "node", "serviceCIDRs", "nodePortRange",
    "interNode", "podWiring", "proxy", "mode", "ipFamilies", "ipFamilyPolicy", "selector", "type", "externalName",
    "healthCheckNodePort", "initContainers", "detectLocal", "iptables", "conditions", "endpoints", "externalIPs",
    "loadBalancer", "trafficDistribution", "resources", "capacity", "hostPort", "livenessProbe", "affinity",
)  # fmt: skip

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, -1, 80, 65535, 65536, 2**31, 2**63, 2**64, 10**30, 0.5, 1e300, float("inf")]),
    st.integers(),
    st.sampled_from(WORDS),
    st.text(max_size=10),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.sampled_from(FIELDS), st.text(max_size=5)), inner, max_size=3),
    ),
    max_leaves=5,
)


def accepted(data: bytes) -> Resolved | None:
    """The lab that comes of a file, sound enough to be built and sent over the wire; None where it is refused."""
    try:
        resolved = resolve(read_input([Source("lab.yaml", data)]))
    except BadInput as error:
        msgspec.json.encode(error.text)
        return None
    msgspec.json.encode([resolved.objects, resolved.notes])
    return resolved


def places(value: Json, here: Path_ = ()) -> Iterator[Path_]:
    """The paths of all values in a value."""
    if here:
        yield here
    for key, each in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(each, (*here, key))


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """The example, and objects of other kinds, with a few values replaced, removed, added or moved."""
    documents = copy.deepcopy(EXAMPLE + (MORE if draw(st.booleans()) else []))
    for _ in range(draw(st.integers(1, 2))):
        *parents, last = draw(st.sampled_from(list(places(documents))))
        parent: Json = documents
        for each in parents:
            parent = parent[each]
        match draw(st.sampled_from(["replace", "replace", "remove", "add", "copy"])):
            case "replace":
                parent[last] = draw(values)
            case "remove":
                del parent[last]
            case "add" if isinstance(parent, dict):
                parent[draw(st.sampled_from(FIELDS))] = draw(values)
            case "add":
                parent.append(draw(values))
            case _:
                parent[last] = copy.deepcopy(draw(st.sampled_from(documents)) if documents else None)
    as_json = draw(st.booleans())
    texts = [json.dumps(each) if as_json else yaml.safe_dump(each) for each in documents]
    return "".join(f"---\n{text}\n" for text in texts).encode("utf-8", "replace")


@st.composite
def scribbled(draw: st.DrawFn) -> bytes:
    """The example's text with bytes inserted, removed, replaced."""
    text = bytearray(GOOD.encode())
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 8)))
        text[start:end] = draw(st.one_of(st.binary(max_size=4), st.sampled_from(FRAGMENTS)))
    return bytes(text)


TOKENS = (
    "IP", "IPv6", "TCP", "UDP", "ICMP", "Raw", "DNS", "(", ")", "/", "=", ",", "dst", "dport", "flags", "load",
    "²", " ", '"10.96.0.1"', "'S'", "b'x'", "80", "-1", "0x10", "1e5", "None", "[", "]", "{", "}", "lambda:0", "*",
    "**", "...", "__import__('os')", "x if y else z", "1+2", "1j", "f'{1}'", "()", "10**10",
)  # fmt: skip
FRAGMENTS = (
    b"\t", b"\n", b": ", b"- ", b"&a ", b"*a", b"<<: ", b"!!int ", b"!!str ", b"? ", b"[", b"{", b"'", b'"', b"%",
    b"---", b"...", b"0x_", b"0b_", b"0o", b"1e999", b"9" * 5000, b"0x" + b"f" * 5000, b".", b"|\n", b">-\n",
    b"\xef\xbb\xbf", b"\xc2\x85", b'"\\ud800"', b'"\\u0000"', b"#", b"@", b"`", b"~", b"=", b"<<: [*a, *a]",
)  # fmt: skip


class TestAnything:
    @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
    @given(mutated())
    def test_a_mutated_lab(self, data: bytes) -> None:
        resolved = accepted(data)
        if resolved is not None:
            plan_fabric(resolved.nodes, resolved.clients, resolved.declared, resolved.wiring)

    @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
    @given(scribbled())
    def test_a_scribbled_lab(self, data: bytes) -> None:
        accepted(data)

    @settings(max_examples=300, deadline=None)
    @given(st.binary(max_size=200))
    def test_random_bytes(self, data: bytes) -> None:
        accepted(data)

    @settings(max_examples=300, deadline=None)
    @given(st.text(max_size=200))
    def test_random_text(self, text: str) -> None:
        accepted(text.encode("utf-8", "replace"))

    @given(st.from_regex(r"[-+]?(0[xbo])?[0-9a-fA-F_.eE+-]{0,30}", fullmatch=True))
    def test_numbers(self, text: str) -> None:
        value = plain_scalar(text)
        assert value is None or isinstance(value, str | int | float)
        msgspec.json.encode(value)

    @settings(max_examples=300, deadline=None)
    @given(st.lists(st.sampled_from(TOKENS), max_size=12).map("".join))
    def test_a_packet_expression(self, text: str) -> None:
        with suppress(BadInput):
            assert parse_expression(text).layers()
