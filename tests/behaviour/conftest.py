"""One lab for each mode; that of mode ipvs in a microVM, if this kernel has none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.behaviour.running import Running, running

MODES = [
    pytest.param(
        mode,
        marks=[
            pytest.mark.kernel,
            pytest.mark.xdist_group("microvm" if mode == "ipvs" else f"behaviour-{mode}"),
        ],
    )
    for mode in ("iptables", "nftables", "userspace", "ipvs")
]
NOT_USERSPACE = [each for each in MODES if each.values != ("userspace",)]


@pytest.fixture(scope="package", params=MODES)
def lab(request: pytest.FixtureRequest) -> Iterator[Running]:
    """All Services of the folder, in every mode."""
    with running(request.param, "cluster.yaml", "proxy.yaml", "services.yaml") as lab:
        yield lab
