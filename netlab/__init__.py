"""kube-netlab: a network lab in which Kubernetes Services are real and visible.

>>> import netlab
>>> with netlab.open_lab("lab.yaml") as lab:          # doctest: +SKIP
...     walk = lab.walk("client", "192.168.60.123:30080")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netlab.api import Lab, open_lab

__all__ = ["Lab", "open_lab"]


def __getattr__(name: str) -> object:
    """The public names load when they are first used: other parts of the package cost nothing then."""
    if name in __all__:
        from netlab import api

        return getattr(api, name)
    raise AttributeError(f"module 'netlab' has no attribute {name!r}")
