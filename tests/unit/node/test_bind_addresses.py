"""Where healthz and metrics listen."""

from __future__ import annotations

import pytest

from netlab.node.proxy_servers import bind_addresses
from netlab.objects.proxyconfig import KubeProxyConfiguration


@pytest.mark.parametrize(
    ("config", "healthz", "metrics"),
    [
        (KubeProxyConfiguration(), ("0.0.0.0", 10256), ("127.0.0.1", 10249)),
        (KubeProxyConfiguration(bind_address="::"), ("::", 10256), ("::1", 10249)),
        (
            KubeProxyConfiguration(healthz_bind_address="10.0.0.1", metrics_bind_address="[fd00::1]:9000"),
            ("10.0.0.1", 10256),
            ("fd00::1", 9000),
        ),
        (
            KubeProxyConfiguration(healthz_bind_address="fd00::2", metrics_bind_address="0.0.0.0:10250"),
            ("fd00::2", 10256),
            ("0.0.0.0", 10250),
        ),
    ],
)
def test_defaults_and_ports(config: KubeProxyConfiguration, healthz: tuple[str, int], metrics: tuple[str, int]) -> None:
    assert bind_addresses(config) == (healthz, metrics)
