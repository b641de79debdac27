"""What the API server refuses of a new Pod, in its words, and what it warns of: the parts that a network lab uses.

Not looked at: volumes and their mounts, resources, security contexts, affinity, topology spread, resource claims,
Windows. What admission refuses is not here either.

Source: kubernetes/pkg/apis/core/validation/validation.go (ValidatePodCreate, ValidatePodSpec), pkg/api/pod/warnings.go,
1.36.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from netlab.objects.address_validation import validate_ip
from netlab.objects.container_validation import validate_containers, validate_image_spaces, validate_init_containers
from netlab.objects.field import FieldError, duplicate, forbidden, invalid, required
from netlab.objects.metadata_validation import validate_labels, validate_metadata
from netlab.objects.names import (
    dns1123_label_faults,
    dns1123_subdomain_faults,
    qualified_name_faults,
    search_domain_faults,
)
from netlab.objects.pod import Container, ContainerPort, Pod, PodSpec
from netlab.objects.taint_validation import validate_tolerations
from netlab.objects.value_validation import validate_choice

RESTART_POLICIES = ("Always", "OnFailure", "Never")
DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
NAMESERVERS_MAX = 3
SEARCHES_MAX = 32
SEARCHES_MAX_CHARACTERS = 2048
DEADLINE_MAX_SECONDS = 2**31 - 1
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"


def validate_pod(pod: Pod) -> list[FieldError]:
    """Everything wrong with a new Pod that has been defaulted; empty if it is fine."""
    spec = pod.spec
    errors = validate_metadata(pod.metadata, dns1123_subdomain_faults, namespaced=True)
    mirror = pod.metadata.annotation(MIRROR_ANNOTATION)
    if mirror is not None and not spec.node_name:
        words = "must set spec.nodeName if mirror pod annotation is set"
        errors.append(invalid(f"metadata.annotations[{MIRROR_ANNOTATION}]", mirror, words))
    errors += _validate_spec(spec)
    errors += validate_image_spaces(spec.containers, "spec.containers")
    errors += validate_image_spaces(spec.init_containers, "spec.initContainers")
    if spec.ephemeral_containers:
        errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.node_name and spec.scheduling_gates:
        errors.append(forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    return errors


def pod_warnings(pod: Pod) -> list[str]:
    """The texts of the Warning headers about the ports of a Pod that is valid."""
    warnings = []
    seen: dict[tuple[int, str], list[tuple[str, ContainerPort]]] = {}
    for path, port in _ports(pod.spec, sidecars_only=False):
        if port.host_ip and not port.host_port:
            warnings.append(f"{path}: hostIP set without hostPort: {_as_go_prints(port)}")
        others = seen.setdefault((port.container_port, port.protocol), [])
        for other_path, other in others:
            if clash := _clash(port, other):
                warnings.append(f"{path}: {clash} port definition with {other_path}")
        others.append((path, port))
    names: dict[str, str] = {}
    for path, port in _ports(pod.spec, sidecars_only=True):
        if port.name and (first := names.setdefault(port.name, path)) != path:
            words = f"services and probes that select ports by name will use {first}"
            warnings.append(f'{path}: duplicate port name "{port.name}" with {first}, {words}')
    if (pod.spec.termination_grace_period_seconds or 0) < 0:
        words = "must be >= 0; negative values are invalid and will be treated as 1"
        warnings.append(f"spec.terminationGracePeriodSeconds: {words}")
    return warnings


def _validate_spec(spec: PodSpec) -> list[FieldError]:
    errors = []
    if spec.termination_grace_period_seconds is None:
        errors.append(required("spec.terminationGracePeriodSeconds"))
    errors += validate_containers(spec.containers)
    errors += validate_init_containers(spec.init_containers, spec.containers)
    errors += _validate_host_network(spec)
    errors += validate_choice("spec.restartPolicy", spec.restart_policy, RESTART_POLICIES)
    errors += validate_choice("spec.dnsPolicy", spec.dns_policy, DNS_POLICIES)
    errors += validate_labels("spec.nodeSelector", spec.node_selector)
    errors += _validate_dns_config(spec.dns_config, spec.dns_policy)
    errors += _validate_gates(spec)
    errors += _validate_host_users(spec)
    errors += _faults("spec.serviceAccountName", spec.service_account_name, dns1123_subdomain_faults)
    errors += _faults("spec.nodeName", spec.node_name, dns1123_subdomain_faults)
    deadline = spec.active_deadline_seconds
    if deadline is not None and not 1 <= deadline <= DEADLINE_MAX_SECONDS:
        words = f"must be between 1 and {DEADLINE_MAX_SECONDS}, inclusive"
        errors.append(invalid("spec.activeDeadlineSeconds", deadline, words))
    errors += _faults("spec.hostname", spec.hostname, dns1123_label_faults)
    errors += _faults("spec.subdomain", spec.subdomain, dns1123_label_faults)
    errors += validate_tolerations("spec.tolerations", spec.tolerations or [])
    errors += _validate_host_aliases(spec.host_aliases or [])
    errors += _faults("spec.priorityClassName", spec.priority_class_name, dns1123_subdomain_faults)
    errors += _faults("spec.runtimeClassName", spec.runtime_class_name, dns1123_subdomain_faults)
    if spec.preemption_policy is not None:
        errors += validate_choice("spec.preemptionPolicy", spec.preemption_policy, PREEMPTION_POLICIES)
    return errors


def _faults(path: str, name: str | None, rule: Callable[[str], list[str]]) -> list[FieldError]:
    return [invalid(path, name, fault) for fault in rule(name)] if name else []


def _validate_host_network(spec: PodSpec) -> list[FieldError]:
    if not spec.host_network:
        return []
    words = "must match `containerPort` when `hostNetwork` is true"
    return [
        invalid(f"spec.containers[{i}].ports[{j}].hostPort", port.host_port, words)
        for i, container in enumerate(spec.containers)
        for j, port in enumerate(container.ports)
        if port.host_port != port.container_port
    ]


def _validate_host_users(spec: PodSpec) -> list[FieldError]:
    """A user namespace of its own goes with no namespace of the node's."""
    if spec.host_users is not False:
        return []
    shared = {"hostNetwork": spec.host_network, "HostPID": spec.host_pid, "HostIPC": spec.host_ipc}
    words = "when `pod.Spec.HostUsers` is false"
    return [forbidden(f"spec.{name}", words) for name, is_shared in shared.items() if is_shared]


def _validate_dns_config(config: dict[str, Any] | None, policy: str) -> list[FieldError]:
    path = "spec.dnsConfig"
    if policy == "None":
        if config is None:
            return [required(path, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not config.get("nameservers"):
            words = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [required(f"{path}.nameservers", words)]
    if config is None:
        return []
    errors = []
    servers, searches = config.get("nameservers", []), config.get("searches", [])
    if len(servers) > NAMESERVERS_MAX:
        words = f"must not have more than {NAMESERVERS_MAX} nameservers"
        errors.append(invalid(f"{path}.nameservers", servers, words))
    for index, text in enumerate(servers):
        errors += validate_ip(f"{path}.nameservers[{index}]", text)
    errors += _validate_searches(f"{path}.searches", searches)
    for index, option in enumerate(config.get("options", [])):
        if not option.get("name"):
            errors.append(required(f"{path}.options[{index}]", "must not be empty"))
    return errors


def _validate_searches(path: str, searches: list[str]) -> list[FieldError]:
    errors = []
    if len(searches) > SEARCHES_MAX:
        errors.append(invalid(path, searches, f"must not have more than {SEARCHES_MAX} search paths"))
    if len(" ".join(searches)) > SEARCHES_MAX_CHARACTERS:
        words = f"must not have more than {SEARCHES_MAX_CHARACTERS} characters (including spaces) in the search list"
        errors.append(invalid(path, searches, words))
    for index, search in enumerate(searches):
        domain = search.removesuffix(".")
        if search != ".":
            errors += [invalid(f"{path}[{index}]", domain, fault) for fault in search_domain_faults(domain)]
    return errors


def _validate_gates(spec: PodSpec) -> list[FieldError]:
    errors = []
    for index, gate in enumerate(spec.readiness_gates or []):
        path, name = f"spec.readinessGates[{index}].conditionType", gate.get("conditionType", "")
        errors += [invalid(path, name, fault) for fault in qualified_name_faults(name)]
    seen: set[str] = set()
    for index, gate in enumerate(spec.scheduling_gates or []):
        path, name = f"spec.schedulingGates[{index}]", gate.get("name", "")
        errors += [invalid(path, name, fault) for fault in qualified_name_faults(name)]
        if name in seen:
            errors.append(duplicate(path, name))
        seen.add(name)
    return errors


def _validate_host_aliases(aliases: list[dict[str, Any]]) -> list[FieldError]:
    errors = []
    for i, alias in enumerate(aliases):
        path = f"spec.hostAliases[{i}]"
        errors += validate_ip(f"{path}.ip", alias.get("ip", ""))
        for j, name in enumerate(alias.get("hostnames", [])):
            errors += [invalid(f"{path}.hostnames[{j}]", name, fault) for fault in dns1123_subdomain_faults(name)]
    return errors


def _ports(spec: PodSpec, *, sidecars_only: bool) -> Iterator[tuple[str, ContainerPort]]:
    """All ports with their paths; of init containers those of sidecars only, if so wanted."""
    groups: tuple[tuple[str, list[Container]], ...] = (
        ("initContainers", spec.init_containers),
        ("containers", spec.containers),
    )
    for name, containers in groups:
        for i, container in enumerate(containers):
            if name == "initContainers" and sidecars_only and container.restart_policy != "Always":
                continue
            for j, port in enumerate(container.ports):
                yield f"spec.{name}[{i}].ports[{j}]", port


def _clash(port: ContainerPort, other: ContainerPort) -> str | None:
    """How two definitions of one container port get into each other's way."""
    if (port.host_ip, port.host_port) == (other.host_ip, other.host_port):
        return "duplicate"
    if not port.host_port or not other.host_port:
        return "overlapping"
    if port.host_port == other.host_port and (not port.host_ip) != (not other.host_ip):
        return "dangerously ambiguous"
    return None


def _as_go_prints(port: ContainerPort) -> str:
    fields = f"Name:{port.name} HostPort:{port.host_port} ContainerPort:{port.container_port}"
    return f"{{{fields} Protocol:{port.protocol} HostIP:{port.host_ip}}}"
