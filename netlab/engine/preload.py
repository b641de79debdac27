"""All that an engine ever imports, at once: where it could not read it later, or where nobody is to wait for it."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

_ROOMS = ("model", "kernel", "objects", "cluster", "proxy", "packets", "node", "lab", "engine")
_LATER = ("scapy.layers.all", "scapy.layers.sctp")
"""What the engine imports when it is first asked for."""


def import_all() -> None:
    package = Path(__file__).parents[1]
    for room in _ROOMS:
        for each in pkgutil.walk_packages([str(package / room)], f"netlab.{room}."):
            if not each.name.endswith("__main__"):
                importlib.import_module(each.name)
    for name in _LATER:
        importlib.import_module(name)
