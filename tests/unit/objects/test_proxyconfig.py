"""KubeProxyConfiguration: what kube-proxy 1.36 takes, its defaults, and durations as Go reads them."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netlab.objects.decode import decode
from netlab.objects.duration import parse_duration
from netlab.objects.field import invalid, unsupported
from netlab.objects.proxyconfig import (
    DETECT_LOCAL_MODES,
    IPVS_SCHEDULERS,
    MODES,
    KubeProxyConfiguration,
    validate,
)
from netlab.objects.yaml_source import Source, documents

KUBEADM = b"""\
apiVersion: kubeproxy.config.k8s.io/v1alpha1
bindAddress: 0.0.0.0
bindAddressHardFail: false
clientConnection:
  acceptContentTypes: ""
  burst: 0
  contentType: ""
  kubeconfig: /var/lib/kube-proxy/kubeconfig.conf
  qps: 0
clusterCIDR: 10.244.0.0/16
configSyncPeriod: 0s
conntrack:
  maxPerCore: null
  min: null
  tcpBeLiberal: false
  tcpCloseWaitTimeout: null
  tcpEstablishedTimeout: null
  udpStreamTimeout: 0s
  udpTimeout: 0s
detectLocal:
  bridgeInterface: ""
  interfaceNamePrefix: ""
detectLocalMode: ""
enableProfiling: false
healthzBindAddress: ""
hostnameOverride: ""
iptables:
  localhostNodePorts: null
  masqueradeAll: false
  masqueradeBit: null
  minSyncPeriod: 0s
  syncPeriod: 0s
ipvs:
  excludeCIDRs: null
  minSyncPeriod: 0s
  scheduler: ""
  strictARP: false
  syncPeriod: 0s
  tcpFinTimeout: 0s
  tcpTimeout: 0s
  udpTimeout: 0s
kind: KubeProxyConfiguration
logging:
  flushFrequency: 0
  options:
    json:
      infoBufferSize: "0"
    text:
      infoBufferSize: "0"
  verbosity: 0
metricsBindAddress: ""
mode: ""
nftables:
  masqueradeAll: false
  masqueradeBit: null
  minSyncPeriod: 0s
  syncPeriod: 0s
nodePortAddresses: null
oomScoreAdj: null
portRange: ""
showHiddenMetricsForVersion: ""
winkernel:
  enableDSR: false
  forwardHealthCheckVip: false
  networkName: ""
  rootHnsEndpointName: ""
  sourceVip: ""
windowsRunAsService: false
"""


def config(**fields: Any) -> KubeProxyConfiguration:
    return msgspec.convert(fields, KubeProxyConfiguration)


def test_the_configuration_that_kubeadm_writes_means_the_defaults() -> None:
    (document,) = documents(Source("config.conf", KUBEADM))
    decoded = decode(document.value, KubeProxyConfiguration)
    assert decoded.unknown == []
    found = decoded.object
    assert validate(found) == []
    assert found.proxy_mode == "iptables"
    assert found.cluster_cidrs == ["10.244.0.0/16"]
    defaults = KubeProxyConfiguration()
    for mode in ("iptables", "ipvs", "nftables"):
        assert getattr(found, mode).sync_period == getattr(defaults, mode).sync_period == "30s"
        assert getattr(found, mode).min_sync_period == getattr(defaults, mode).min_sync_period == "1s"
    assert found.config_sync_period == "15m0s"


def test_nothing_is_a_valid_configuration() -> None:
    assert validate(KubeProxyConfiguration()) == []


@pytest.mark.parametrize(("given_period", "kept"), [("0", "30s"), ("0h0m", "30s"), ("10s", "10s"), ("x", "x")])
def test_a_period_of_zero_is_none_that_is_given(given_period: str, kept: str) -> None:
    assert config(iptables={"syncPeriod": given_period}).iptables.sync_period == kept


@pytest.mark.parametrize(
    ("fields", "cidrs"),
    [
        ({}, []),
        ({"clusterCIDR": "10.244.0.0/16"}, ["10.244.0.0/16"]),
        ({"clusterCIDR": "10.244.0.0/16, fd00::/48,"}, ["10.244.0.0/16", "fd00::/48"]),
        ({"clusterCIDR": "10.1.0.0/16", "detectLocal": {"clusterCIDRs": ["10.2.0.0/16"]}}, ["10.2.0.0/16"]),
    ],
)
def test_the_ranges_of_pods(fields: dict[str, Any], cidrs: list[str]) -> None:
    assert config(**fields).cluster_cidrs == cidrs


CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
TWO_CIDRS = "only one CIDR allowed or a valid DualStack CIDR (e.g. 10.100.0.0/16,fde4:8dba:82e1::/48)"
IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
AT_LEAST_ZERO = "must be greater than or equal to 0"
BIT = "must be within the range [0, 31]"


@pytest.mark.parametrize(
    ("fields", "path", "value", "detail"),
    [
        ({"detectLocalMode": "BridgeInterface"}, "detectLocal.bridgeInterface", "", "must not be empty"),
        ({"detectLocalMode": "InterfaceNamePrefix"}, "detectLocal.interfaceNamePrefix", "", "must not be empty"),
        ({"clusterCIDR": "10.244.0.0"}, "clusterCIDR", "10.244.0.0", CIDR),
        ({"clusterCIDR": "10.0.0.0/255.0.0.0"}, "clusterCIDR", "10.0.0.0/255.0.0.0", CIDR),
        ({"clusterCIDR": "10.1.0.0/16,10.2.0.0/16"}, "clusterCIDR", "10.1.0.0/16,10.2.0.0/16", TWO_CIDRS),
        ({"iptables": {"masqueradeBit": 32}}, "iptables.masqueradeBit", 32, BIT),
        ({"nftables": {"masqueradeBit": -1}}, "nftables.masqueradeBit", -1, BIT),
        ({"configSyncPeriod": "-1s"}, "configSyncPeriod", "-1s", "must be greater than 0"),
        ({"iptables": {"minSyncPeriod": "-1s"}}, "iptables.minSyncPeriod", "-1s", AT_LEAST_ZERO),
        (
            {"nftables": {"minSyncPeriod": "1m"}},
            "nftables.syncPeriod",
            "30s",
            "must be greater than or equal to nftables.minSyncPeriod",
        ),
        ({"iptables": {"syncPeriod": "30"}}, "iptables.syncPeriod", "30", 'time: missing unit in duration "30"'),
        ({"ipvs": {"excludeCIDRs": ["10.0.0.0/8", "x"]}}, "ipvs.excludeCIDRs[1]", "x", CIDR),
        ({"ipvs": {"tcpTimeout": "-5s"}}, "ipvs.tcpTimeout", "-5s", AT_LEAST_ZERO),
        (
            {"nodePortAddresses": ["primary", "10.0.0.0/8"]},
            "nodePortAddresses[0]",
            "primary",
            "may not be combined with other values",
        ),
        ({"nodePortAddresses": ["192.168.60.11"]}, "nodePortAddresses[0]", "192.168.60.11", CIDR),
        ({"conntrack": {"maxPerCore": -1}}, "conntrack.maxPerCore", -1, AT_LEAST_ZERO),
        ({"conntrack": {"min": -1}}, "conntrack.min", -1, AT_LEAST_ZERO),
        ({"conntrack": {"udpTimeout": "-1h"}}, "conntrack.udpTimeout", "-1h", AT_LEAST_ZERO),
        ({"bindAddress": "0.0.0.0:80"}, "bindAddress", "0.0.0.0:80", IP),
    ],
)
def test_a_fault(fields: dict[str, Any], path: str, value: object, detail: str) -> None:
    assert validate(config(**fields)) == [invalid(path, value, detail)]


@pytest.mark.parametrize(
    ("fields", "path", "allowed"),
    [
        ({"mode": "x"}, "mode", MODES),
        ({"detectLocalMode": "x"}, "detectLocalMode", DETECT_LOCAL_MODES),
        ({"ipvs": {"scheduler": "x"}}, "ipvs.scheduler", IPVS_SCHEDULERS),
    ],
)
def test_a_value_outside_its_list(fields: dict[str, Any], path: str, allowed: tuple[str, ...]) -> None:
    assert validate(config(**fields)) == [unsupported(path, "x", allowed)]


@pytest.mark.parametrize(
    "fields",
    [
        {"mode": "nftables"},
        {"mode": "userspace"},
        {"detectLocalMode": "NodeCIDR"},
        {"detectLocalMode": "BridgeInterface", "detectLocal": {"bridgeInterface": "cni0"}},
        {"clusterCIDR": "fd00::/48,10.244.0.0/16"},
        {"iptables": {"masqueradeBit": 0, "minSyncPeriod": "0s", "syncPeriod": "1s"}},
        {"nodePortAddresses": ["primary"]},
        {"nodePortAddresses": ["127.0.0.0/8", "::1/128"]},
        {"conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s"}},
        {"bindAddress": "::"},
    ],
)
def test_what_is_taken(fields: dict[str, Any]) -> None:
    assert validate(config(**fields)) == []


def test_every_fault_is_told() -> None:
    found = validate(config(mode="x", bindAddress="y", iptables={"syncPeriod": "z"}))
    assert [each.path for each in found] == ["mode", "bindAddress", "iptables.syncPeriod"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("-0", 0),
        ("+0s", 0),
        ("30s", 30),
        ("1m30s", 90),
        ("15m0s", 900),
        ("2h22m", 8520),
        ("500ms", 0.5),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("1.s", 1),
        ("-1.5h", -5400),
        ("+5s", 5),
        ("1us", 1e-6),
        ("1\u00b5s", 1e-6),
        ("1\u03bcs", 1e-6),
        ("5ns", 5e-9),
        ("1h1h", 7200),
        ("2562047h", 2562047 * 3600),
    ],
)
def test_a_duration(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 'time: invalid duration ""'),
        ("-", 'time: invalid duration "-"'),
        ("s", 'time: invalid duration "s"'),
        (".s", 'time: invalid duration ".s"'),
        (" 1s", 'time: invalid duration " 1s"'),
        ("--1s", 'time: invalid duration "--1s"'),
        ("\u0663s", 'time: invalid duration "\u0663s"'),
        ("3000000h", 'time: invalid duration "3000000h"'),
        ("30", 'time: missing unit in duration "30"'),
        ("1h30", 'time: missing unit in duration "1h30"'),
        ("1.2.3s", 'time: missing unit in duration "1.2.3s"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        ("1S", 'time: unknown unit "S" in duration "1S"'),
        ("1s ", 'time: unknown unit "s " in duration "1s "'),
        ("1h-5m", 'time: unknown unit "h-" in duration "1h-5m"'),
    ],
)
def test_what_is_no_duration(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        parse_duration(text)
    assert str(caught.value) == words


@given(parts=st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from(["ms", "s", "m", "h"])), min_size=1, max_size=4))
def test_the_parts_of_a_duration_add_up(parts: list[tuple[int, str]]) -> None:
    worth = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
    text = "".join(f"{number}{unit}" for number, unit in parts)
    total = sum(number * worth[unit] for number, unit in parts)
    if total < 2**63 / 1e9:
        assert parse_duration(text) == pytest.approx(total)
        assert parse_duration(f"-{text}") == pytest.approx(-total)


@given(text=st.text("0123456789.smhnuµ +-e", max_size=8))
def test_any_text_is_a_duration_or_a_value_error(text: str) -> None:
    with suppress(ValueError):
        assert isinstance(parse_duration(text), float)
