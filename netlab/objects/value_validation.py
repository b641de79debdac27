"""Single values in objects: one of a fixed list, and the number, name and protocol of a port.

Source: k8s.io/apimachinery/pkg/util/validation (IsValidPortNum, IsValidPortName), kubernetes/pkg/apis/core/validation.
"""

from __future__ import annotations

from collections.abc import Sequence

from netlab.objects.field import FieldError, invalid, required, unsupported
from netlab.objects.names import port_name_faults, port_number_faults

PROTOCOLS = ("SCTP", "TCP", "UDP")


def validate_choice(path: str, value: str | None, allowed: Sequence[str]) -> list[FieldError]:
    """One of a fixed list, which is shown in the given order; nothing and empty text are missing values."""
    if value in allowed:
        return []
    return [unsupported(path, value, allowed) if value else required(path)]


def validate_protocol(path: str, protocol: str | None) -> list[FieldError]:
    return validate_choice(path, protocol, PROTOCOLS)


def validate_port_number(path: str, port: int) -> list[FieldError]:
    return [invalid(path, port, fault) for fault in port_number_faults(port)]


def validate_port_name(path: str, name: str) -> list[FieldError]:
    """The name of a container's port."""
    return [invalid(path, name, fault) for fault in port_name_faults(name)]


def validate_port_reference(path: str, port: int | str) -> list[FieldError]:
    """The number or the name of a container's port: targetPort, the ports of probes."""
    return validate_port_name(path, port) if isinstance(port, str) else validate_port_number(path, port)
