"""The containers of a Pod: what the API server refuses, in its words.

Not looked at: env, volume mounts, resources, security context, HTTP headers of probes.

Source: kubernetes/pkg/apis/core/validation/validation.go (validateContainers, validateInitContainers, validateProbe,
validateHandler), 1.36.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netlab.objects.field import FieldError, duplicate, forbidden, invalid, required, unsupported
from netlab.objects.names import dns1123_label_faults
from netlab.objects.pod import Container, ContainerPort
from netlab.objects.value_validation import (
    validate_choice,
    validate_port_name,
    validate_port_number,
    validate_port_reference,
    validate_protocol,
)

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
TERMINATION_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
RESTART_POLICIES = ("Always", "Never", "OnFailure")
HTTP_SCHEMES = ("HTTP", "HTTPS")

_PROBE_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")


def validate_containers(containers: Sequence[Container]) -> list[FieldError]:
    """spec.containers of a Pod."""
    path = "spec.containers"
    if not containers:
        return [required(path)]
    errors = []
    names: set[str] = set()
    for index, container in enumerate(containers):
        at = f"{path}[{index}]"
        errors += _validate_container(container, at)
        if container.name in names:
            errors.append(duplicate(f"{at}.name", container.name))
        names.add(container.name)
        errors += _validate_running(container, at)
        errors += _validate_restart_policy(container, at)
    return errors + _validate_host_ports(containers, path)


def validate_init_containers(containers: Sequence[Container], regular: Sequence[Container]) -> list[FieldError]:
    """spec.initContainers of a Pod; their names may not be those of the regular containers."""
    path = "spec.initContainers"
    errors = []
    names = {container.name for container in regular}
    for index, container in enumerate(containers):
        at = f"{path}[{index}]"
        errors += _validate_container(container, at)
        errors += _validate_restart_policy(container, at)
        if container.name in names:
            errors.append(duplicate(f"{at}.name", container.name))
        elif container.name:
            names.add(container.name)
        # They run one by one, so only their own ports clash; the API server then counts each as the first.
        errors += _validate_host_ports([container], path)
        if container.restart_policy == "Always":
            errors += _validate_running(container, at)
        else:
            errors += _validate_passing(container, at)
    return errors


def validate_image_spaces(containers: Sequence[Container], path: str) -> list[FieldError]:
    words = "must not have leading or trailing whitespace"
    return [
        invalid(f"{path}[{index}].image", container.image, words)
        for index, container in enumerate(containers)
        if container.image != container.image.strip()
    ]


def _validate_container(container: Container, path: str) -> list[FieldError]:
    """What holds for containers of all sorts."""
    errors = []
    if container.name:
        faults = dns1123_label_faults(container.name)
        errors += [invalid(f"{path}.name", container.name, fault) for fault in faults]
    else:
        errors.append(required(f"{path}.name"))
    if not container.image:
        errors.append(required(f"{path}.image"))
    policy = container.termination_message_policy
    errors += validate_choice(f"{path}.terminationMessagePolicy", policy, TERMINATION_MESSAGE_POLICIES)
    errors += _validate_ports(container.ports, f"{path}.ports")
    errors += validate_choice(f"{path}.imagePullPolicy", container.image_pull_policy, PULL_POLICIES)
    return errors


def _validate_ports(ports: Sequence[ContainerPort], path: str) -> list[FieldError]:
    errors = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        at = f"{path}[{index}]"
        if port.name:
            faults = validate_port_name(f"{at}.name", port.name)
            if not faults and port.name in names:
                faults = [duplicate(f"{at}.name", port.name)]
            errors += faults
            names.add(port.name)
        if port.container_port:
            errors += validate_port_number(f"{at}.containerPort", port.container_port)
        else:
            errors.append(required(f"{at}.containerPort"))
        if port.host_port:
            errors += validate_port_number(f"{at}.hostPort", port.host_port)
        errors += validate_protocol(f"{at}.protocol", port.protocol)
    return errors


def _validate_host_ports(containers: Sequence[Container], path: str) -> list[FieldError]:
    """No two containers may take the same port of the node."""
    errors = []
    seen: set[str] = set()
    for i, container in enumerate(containers):
        for j, port in enumerate(container.ports):
            claim = f"{port.protocol}/{port.host_ip}/{port.host_port}"
            if port.host_port and claim in seen:
                errors.append(duplicate(f"{path}[{i}].ports[{j}].hostPort", claim))
            seen.add(claim)
    return errors


def _validate_restart_policy(container: Container, path: str) -> list[FieldError]:
    policy = container.restart_policy
    if policy is None:
        words = "must specify restartPolicy when restart rules are used"
        return [required(f"{path}.restartPolicy", words)] if container.restart_policy_rules else []
    return [] if policy in RESTART_POLICIES else [unsupported(f"{path}.restartPolicy", policy, RESTART_POLICIES)]


def _validate_passing(container: Container, path: str) -> list[FieldError]:
    """An init container that has to end before the next one starts."""
    words = "may not be set for init containers without restartPolicy=Always"
    fields = {
        "lifecycle": container.lifecycle,
        "livenessProbe": container.liveness_probe,
        "readinessProbe": container.readiness_probe,
        "startupProbe": container.startup_probe,
    }
    return [forbidden(f"{path}.{name}", words) for name, value in fields.items() if value is not None]


def _validate_running(container: Container, path: str) -> list[FieldError]:
    """A container that goes on running: a regular one, or a sidecar (KEP-753)."""
    errors = []
    for name, handler in (container.lifecycle or {}).items():
        if isinstance(handler, dict):
            errors += _validate_handler(handler, f"{path}.lifecycle.{name}")
    errors += _validate_probe(container.liveness_probe, f"{path}.livenessProbe", one_success=True)
    errors += _validate_readiness_probe(container.readiness_probe, f"{path}.readinessProbe")
    errors += _validate_probe(container.startup_probe, f"{path}.startupProbe", one_success=True)
    return errors


def _validate_readiness_probe(probe: dict[str, Any] | None, path: str) -> list[FieldError]:
    errors = _validate_probe(probe, path, one_success=False)
    seconds = (probe or {}).get("terminationGracePeriodSeconds")
    if seconds is not None:
        errors.append(invalid(f"{path}.terminationGracePeriodSeconds", seconds, "must not be set for readinessProbes"))
    return errors


def _validate_probe(probe: dict[str, Any] | None, path: str, *, one_success: bool) -> list[FieldError]:
    if probe is None:
        return []
    errors = _validate_handler(probe, path)
    for name in _PROBE_NUMBERS:
        if probe.get(name, 0) < 0:
            errors.append(invalid(f"{path}.{name}", probe[name], "must be greater than or equal to 0"))
    seconds = probe.get("terminationGracePeriodSeconds")
    if seconds is not None and seconds <= 0:
        errors.append(invalid(f"{path}.terminationGracePeriodSeconds", seconds, "must be greater than 0"))
    successes = probe.get("successThreshold", 1)
    if one_success and successes != 1:
        errors.append(invalid(f"{path}.successThreshold", successes, "must be 1"))
    return errors


def _validate_handler(handler: dict[str, Any], path: str) -> list[FieldError]:
    """The one way in which a probe or a hook does its work."""
    named = [name for name in _HANDLERS if name in handler]
    if not named:
        return [required(path, "must specify a handler type")]
    first, *more = named
    errors = _validate_action(first, handler[first], f"{path}.{first}")
    return errors + [forbidden(f"{path}.{name}", "may not specify more than 1 handler type") for name in more]


def _validate_action(name: str, action: dict[str, Any], path: str) -> list[FieldError]:
    if name == "exec":
        return [] if action.get("command") else [required(f"{path}.command")]
    if name == "sleep":
        return []
    errors = [required(f"{path}.path")] if name == "httpGet" and not action.get("path") else []
    errors += validate_port_reference(f"{path}.port", action.get("port", 0))
    scheme = action.get("scheme", "")
    if name == "httpGet" and scheme not in HTTP_SCHEMES:
        errors.append(unsupported(f"{path}.scheme", scheme, HTTP_SCHEMES))
    return errors
