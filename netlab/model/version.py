"""Which kube-netlab this is."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

PRODUCT = "kube-netlab"


def product_version() -> str:
    try:
        return version(PRODUCT)
    except PackageNotFoundError:
        return "unknown"
