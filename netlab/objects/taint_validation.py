"""Taints of Nodes and tolerations of Pods: what the API server refuses, in its words.

Source: kubernetes/pkg/apis/core/validation/validation.go (validateNodeTaints, ValidateTolerations), 1.36.
"""

from __future__ import annotations

from typing import Any

from netlab.objects.field import FieldError, invalid, unsupported
from netlab.objects.names import label_value_faults, qualified_name_faults
from netlab.objects.value_validation import validate_choice

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
OPERATORS = ("Equal", "Exists")


def validate_taints(path: str, taints: list[dict[str, Any]]) -> list[FieldError]:
    errors = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        at = f"{path}[{index}]"
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        errors += [invalid(f"{at}.key", key, fault) for fault in qualified_name_faults(key)]
        if faults := label_value_faults(value):
            errors.append(invalid(f"{at}.value", value, ";".join(faults)))
        errors += validate_choice(f"{at}.effect", effect, EFFECTS)
        if (key, effect) in seen:
            found = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            errors.append(FieldError("Duplicate", at, found, "taints must be unique by key and effect pair"))
        seen.add((key, effect))
    return errors


def validate_tolerations(path: str, tolerations: list[dict[str, Any]]) -> list[FieldError]:
    errors = []
    for index, toleration in enumerate(tolerations):
        at = f"{path}[{index}]"
        key, operator = toleration.get("key", ""), toleration.get("operator", "")
        value, effect = toleration.get("value", ""), toleration.get("effect", "")
        if key:
            errors += [invalid(f"{at}.key", key, fault) for fault in qualified_name_faults(key)]
        elif operator != "Exists":
            words = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            errors.append(invalid(f"{at}.operator", operator, words))
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            words = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(invalid(f"{at}.effect", effect, words))
        errors += _validate_operator(f"{at}.operator", operator, value)
        errors += validate_choice(f"{at}.effect", effect, EFFECTS) if effect else []
    return errors


def _validate_operator(path: str, operator: str, value: str) -> list[FieldError]:
    """No operator means Equal. What is wrong with the value is said of the operator, as the API server does."""
    if operator == "Exists":
        return [invalid(path, value, "value must be empty when `operator` is 'Exists'")] if value else []
    if operator not in ("", "Equal"):
        return [unsupported(path, operator, OPERATORS)]
    faults = label_value_faults(value)
    return [invalid(path, value, ";".join(faults))] if faults else []
