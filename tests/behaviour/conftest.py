"""One lab for each mode; that of mode ipvs in a microVM, if this kernel has none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.behaviour.cases import in_mode
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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what Kubernetes does not define in a mode, as the mark "modes" or the case itself says."""
    defined = [_is_defined(each) for each in items]
    config.hook.pytest_deselected(items=[each for each, is_in in zip(items, defined, strict=True) if not is_in])
    items[:] = [each for each, is_in in zip(items, defined, strict=True) if is_in]


def _is_defined(item: pytest.Item) -> bool:
    params = item.callspec.params if hasattr(item, "callspec") else {}
    mode = params.get("lab")
    marker = item.get_closest_marker("modes")
    if mode is None:
        return True
    if marker is not None and mode not in marker.args:
        return False
    return "case" not in params or in_mode(params["case"], mode) is not None
