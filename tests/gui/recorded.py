"""Values that a real engine gave: a lab with its objects, and walks in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from gui.values.picture import Picture, picture_of_lab
from netlab.model.topology import Topology
from netlab.model.walk import Walk

FOLDER = Path(__file__).parent / "recordings"
EXAMPLE = Path(__file__).parents[2] / "netlab" / "scenarios" / "nodeport.yaml"


def walk_file(name: str) -> Path:
    return FOLDER / f"walk-{name}.json"


def walk(name: str) -> Walk:
    """ "far", "near", "pod" or "refused"."""
    return msgspec.json.decode(walk_file(name).read_bytes(), type=Walk)


def lab() -> dict[str, Any]:
    """What lab.describe, lab.topology and objects.list answered."""
    loaded: dict[str, Any] = json.loads((FOLDER / "nodeport-lab.json").read_text())
    return loaded


def node_a() -> dict[str, Any]:
    """What lab.rules and conntrack.list answered for node-a."""
    loaded: dict[str, Any] = json.loads((FOLDER / "nodeport-node-a.json").read_text())
    return loaded


def picture() -> Picture:
    values = lab()
    return picture_of_lab(msgspec.convert(values["topology"], Topology), values["objects"]["objects"], "iptables")
