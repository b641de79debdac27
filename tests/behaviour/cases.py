"""The cases of cases.yaml, and what each of them says of a mode."""

from __future__ import annotations

from typing import Any

import yaml

from tests.behaviour.running import LABS

NOT_USERSPACE = ("iptables", "ipvs", "nftables")

CASES: list[dict[str, Any]] = yaml.safe_load((LABS / "cases.yaml").read_text())


def in_mode(case: dict[str, Any], mode: str) -> dict[str, Any] | None:
    """What a case says of a mode; None where Kubernetes does not define it there."""
    modes = case.get("modes", NOT_USERSPACE)
    if modes != "all" and mode not in modes:
        return None
    changed = (case.get("but") or {}).get(mode, {})
    merged = {**case, **changed}
    if "verdict" in changed:
        merged.pop("pods", None)
        merged.pop("seen", None)
    return merged
