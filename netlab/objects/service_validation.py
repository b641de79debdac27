"""What the API server refuses of a new Service, in its words, and what it warns of.

Source: kubernetes/pkg/apis/core/validation/validation.go (ValidateService), pkg/api/service/warnings.go, 1.36.
"""

from __future__ import annotations

from netlab.objects.address_validation import (
    cidr_warnings,
    ip_family,
    ip_warnings,
    is_dual_stack,
    validate_cidr,
    validate_endpoint_ip,
    validate_ip,
)
from netlab.objects.field import FieldError, duplicate, forbidden, invalid, required, unsupported
from netlab.objects.metadata_validation import validate_labels, validate_metadata
from netlab.objects.names import (
    dns1123_label_faults,
    dns1123_subdomain_faults,
    qualified_name_faults,
)
from netlab.objects.service import Service, ServicePort, ServiceSpec
from netlab.objects.value_validation import (
    validate_choice,
    validate_port_number,
    validate_port_reference,
    validate_protocol,
)

TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
AFFINITIES = ("ClientIP", "None")
TRAFFIC_POLICIES = ("Cluster", "Local")
TRAFFIC_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
IP_FAMILIES = ("IPv4", "IPv6")
IP_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
AFFINITY_TIMEOUT_MAX_SECONDS = 86400
SOURCE_RANGES_ANNOTATION = "service.beta.kubernetes.io/load-balancer-source-ranges"
TOPOLOGY_HINTS_ANNOTATION = "service.kubernetes.io/topology-aware-hints"
TOPOLOGY_MODE_ANNOTATION = "service.kubernetes.io/topology-mode"

_LOAD_BALANCER_ONLY = "may only be used when `type` is 'LoadBalancer'"
_NOT_FOR_EXTERNAL_NAME = "may not be set for ExternalName services"


def validate_service(service: Service) -> list[FieldError]:
    """Everything wrong with a new Service that has been defaulted and has its allocations; empty if it is fine."""
    spec = service.spec
    errors = validate_metadata(service.metadata, dns1123_label_faults, namespaced=True)
    errors += _validate_topology_annotations(service)
    if not spec.ports and not is_headless(spec) and spec.type != "ExternalName":
        errors.append(required("spec.ports"))
    errors += _validate_type_combination(spec)
    names: set[str] = set()
    for index, port in enumerate(spec.ports):
        errors += _validate_port(port, f"spec.ports[{index}]", names, name_required=len(spec.ports) > 1)
    errors += validate_labels("spec.selector", spec.selector)
    errors += _validate_affinity(spec)
    errors += validate_cluster_ips(spec)
    for index, text in enumerate(spec.external_ips):
        path = f"spec.externalIPs[{index}]"
        errors += validate_ip(path, text) or validate_endpoint_ip(path, text)
    errors += validate_choice("spec.type", spec.type, TYPES)
    errors += _validate_port_combinations(spec)
    errors += _validate_source_ranges(service)
    errors += _validate_load_balancer_fields(spec)
    errors += _validate_external_traffic_policy(spec)
    errors += _validate_internal_traffic_policy(spec)
    if spec.traffic_distribution is not None and spec.traffic_distribution not in TRAFFIC_DISTRIBUTIONS:
        errors.append(unsupported("spec.trafficDistribution", spec.traffic_distribution, TRAFFIC_DISTRIBUTIONS))
    return errors


def validate_cluster_ips(spec: ServiceSpec) -> list[FieldError]:
    """Whether clusterIP, clusterIPs, ipFamilies and ipFamilyPolicy fit together; asked before allocation as well."""
    if spec.type == "ExternalName":
        return []
    path = "spec.clusterIPs"
    errors = _validate_primary(spec)
    errors += _validate_families(spec)
    faulty = [error for index in range(len(spec.cluster_ips)) for error in _validate_cluster_ip(spec, index)]
    errors += faulty
    if len(spec.cluster_ips) > 2:
        errors.append(invalid(path, spec.cluster_ips, "may only hold up to 2 values"))
    if faulty:
        return errors
    if len(spec.cluster_ips) > 1 and not is_dual_stack(spec.cluster_ips):
        errors.append(invalid(path, spec.cluster_ips, "may specify no more than one IP for each IP family"))
    if not is_headless(spec):
        for index, (text, family) in enumerate(zip(spec.cluster_ips, spec.ip_families, strict=False)):
            if family in IP_FAMILIES and ip_family(text) != family:
                words = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
                errors.append(invalid(f"{path}[{index}]", text, words))
    return errors


def is_headless(spec: ServiceSpec) -> bool:
    return spec.cluster_ips == ["None"]


def is_externally_accessible(spec: ServiceSpec) -> bool:
    """Whether externalTrafficPolicy means something."""
    return spec.type in ("LoadBalancer", "NodePort") or (spec.type == "ClusterIP" and bool(spec.external_ips))


def needs_health_check(spec: ServiceSpec) -> bool:
    """Whether nodes answer on healthCheckNodePort."""
    return spec.type == "LoadBalancer" and spec.external_traffic_policy == "Local"


def service_warnings(service: Service) -> list[str]:
    """The texts of the Warning headers for a Service that is valid."""
    spec = service.spec
    headless = spec.type == "ClusterIP" and spec.cluster_ip == "None"
    warnings = []
    if service.metadata.annotation(TOPOLOGY_HINTS_ANNOTATION) is not None:
        words = f"is deprecated, please use {TOPOLOGY_MODE_ANNOTATION} instead"
        warnings.append(f"annotation {TOPOLOGY_HINTS_ANNOTATION} {words}")
    if spec.cluster_ip not in ("", "None"):
        for index, text in enumerate(spec.cluster_ips):
            warnings += ip_warnings(f"spec.clusterIPs[{index}]", text)
    if headless:
        warnings += _headless_warnings(spec)
    for index, text in enumerate(spec.external_ips):
        warnings += ip_warnings(f"spec.externalIPs[{index}]", text)
    if spec.external_ips and not headless and spec.type != "ExternalName":
        warnings.append("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
    if spec.load_balancer_ip:
        warnings += ip_warnings("spec.loadBalancerIP", spec.load_balancer_ip)
    for index, text in enumerate(spec.load_balancer_source_ranges):
        warnings += cidr_warnings(f"spec.loadBalancerSourceRanges[{index}]", text)
    if spec.type == "ExternalName" and spec.external_ips:
        warnings.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    if spec.type != "ExternalName" and spec.external_name:
        warnings.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    if spec.traffic_distribution == "PreferClose":
        warnings.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
    return warnings


def _headless_warnings(spec: ServiceSpec) -> list[str]:
    set_fields = {
        "loadBalancerIP": bool(spec.load_balancer_ip),
        "externalIPs": bool(spec.external_ips),
        "SessionAffinity": spec.session_affinity != "None",
    }
    return [f"spec.{name} is ignored for headless services" for name, is_set in set_fields.items() if is_set]


def _validate_topology_annotations(service: Service) -> list[FieldError]:
    hints = service.metadata.annotation(TOPOLOGY_HINTS_ANNOTATION)
    mode = service.metadata.annotation(TOPOLOGY_MODE_ANNOTATION)
    if hints is None or mode is None or hints == mode:
        return []
    words = f"must match annotations[{TOPOLOGY_HINTS_ANNOTATION}] when both are specified"
    return [invalid(f"metadata.annotations[{TOPOLOGY_MODE_ANNOTATION}]", mode, words)]


def _validate_type_combination(spec: ServiceSpec) -> list[FieldError]:
    if spec.type in ("LoadBalancer", "NodePort"):
        words = f"may not be set to 'None' for {spec.type} services"
        return [invalid("spec.clusterIPs[0]", "None", words)] if is_headless(spec) else []
    if spec.type != "ExternalName":
        return []
    errors = []
    if spec.cluster_ips:
        errors.append(forbidden("spec.clusterIPs", _NOT_FOR_EXTERNAL_NAME))
    if spec.ip_families:
        errors.append(forbidden("spec.ipFamilies", _NOT_FOR_EXTERNAL_NAME))
    if spec.ip_family_policy is not None:
        errors.append(forbidden("spec.ipFamilyPolicy", _NOT_FOR_EXTERNAL_NAME))
    name = spec.external_name.removesuffix(".")
    if name:
        errors += [invalid("spec.externalName", name, fault) for fault in dns1123_subdomain_faults(name)]
    else:
        errors.append(required("spec.externalName"))
    return errors


def _validate_port(port: ServicePort, path: str, names: set[str], *, name_required: bool) -> list[FieldError]:
    """One port; ``names`` are those of the ports before it, and get its own."""
    errors = []
    if name_required and not port.name:
        errors.append(required(f"{path}.name"))
    elif port.name:
        errors += [invalid(f"{path}.name", port.name, fault) for fault in dns1123_label_faults(port.name)]
        if port.name in names:
            errors.append(duplicate(f"{path}.name", port.name))
        names.add(port.name)
    errors += validate_port_number(f"{path}.port", port.port)
    errors += validate_protocol(f"{path}.protocol", port.protocol)
    errors += validate_port_reference(f"{path}.targetPort", port.target_port or 0)
    if port.app_protocol is not None:
        faults = qualified_name_faults(port.app_protocol)
        errors += [invalid(f"{path}.appProtocol", port.app_protocol, fault) for fault in faults]
    return errors


def _validate_affinity(spec: ServiceSpec) -> list[FieldError]:
    path = "spec.sessionAffinityConfig"
    config = spec.session_affinity_config
    if spec.session_affinity not in AFFINITIES:
        return validate_choice("spec.sessionAffinity", spec.session_affinity, AFFINITIES)
    if spec.session_affinity == "None":
        words = "must not be set when session affinity is None"
        return [forbidden(path, words)] if config is not None else []
    words = "when session affinity type is ClientIP"
    if config is None:
        return [required(path, words)]
    if config.client_ip is None:
        return [required(f"{path}.clientIP", words)]
    timeout = config.client_ip.timeout_seconds
    if timeout is None:
        return [required(f"{path}.clientIP.timeoutSeconds", words)]
    if 0 < timeout <= AFFINITY_TIMEOUT_MAX_SECONDS:
        return []
    words = f"must be greater than 0 and less than {AFFINITY_TIMEOUT_MAX_SECONDS}"
    return [invalid(f"{path}.clientIP.timeoutSeconds", timeout, words)]


def _validate_primary(spec: ServiceSpec) -> list[FieldError]:
    path = "spec.clusterIPs"
    if not spec.cluster_ip:
        words = "must be empty when `clusterIP` is not specified"
        return [invalid(path, spec.cluster_ips, words)] if spec.cluster_ips else []
    if not spec.cluster_ips:
        return [required(path)]
    if spec.cluster_ips[0] != spec.cluster_ip:
        return [invalid(path, spec.cluster_ips, "first value must match `clusterIP`")]
    return []


def _validate_families(spec: ServiceSpec) -> list[FieldError]:
    errors = []
    for index, family in enumerate(spec.ip_families):
        if family not in IP_FAMILIES:
            errors.append(unsupported(f"spec.ipFamilies[{index}]", family, IP_FAMILIES))
        if family in spec.ip_families[:index]:
            errors.append(duplicate(f"spec.ipFamilies[{index}]", family))
    if spec.ip_family_policy is not None and spec.ip_family_policy not in IP_FAMILY_POLICIES:
        errors.append(unsupported("spec.ipFamilyPolicy", spec.ip_family_policy, IP_FAMILY_POLICIES))
    return errors


def _validate_cluster_ip(spec: ServiceSpec, index: int) -> list[FieldError]:
    text = spec.cluster_ips[index]
    if index == 0 and text == "None":
        words = "'None' must be the first and only value"
        return [invalid("spec.clusterIPs", spec.cluster_ips, words)] if len(spec.cluster_ips) > 1 else []
    return validate_ip(f"spec.clusterIPs[{index}]", text)


def _validate_port_combinations(spec: ServiceSpec) -> list[FieldError]:
    errors = []
    if spec.type == "ClusterIP":
        words = "may not be used when `type` is 'ClusterIP'"
        errors += [
            forbidden(f"spec.ports[{index}].nodePort", words) for index, port in enumerate(spec.ports) if port.node_port
        ]
    seen: set[tuple[str, str, int]] = set()
    for index, port in enumerate(spec.ports):
        key = ("nodePort", port.protocol, port.node_port)
        if port.node_port and key in seen:
            errors.append(duplicate(f"spec.ports[{index}].nodePort", port.node_port))
        seen.add(key)
    for index, port in enumerate(spec.ports):
        key = ("port", port.protocol, port.port)
        if key in seen:
            errors.append(duplicate(f"spec.ports[{index}]", _as_go_prints(port)))
        seen.add(key)
    return errors


def _as_go_prints(port: ServicePort) -> dict[str, object]:
    """A port, cut down to protocol and number, as the API server's own (unversioned) type looks in JSON."""
    found: dict[str, object] = {"Name": "", "Protocol": port.protocol, "AppProtocol": None}
    return found | {"Port": port.port, "TargetPort": 0, "NodePort": 0}


def _validate_source_ranges(service: Service) -> list[FieldError]:
    """The field, or else the annotation that it replaced. (The field's path has a capital letter in Kubernetes.)"""
    spec = service.spec
    annotation = service.metadata.annotation(SOURCE_RANGES_ANNOTATION)
    path = "spec.LoadBalancerSourceRanges"
    ranges = [(f"{path}[{index}]", text.strip()) for index, text in enumerate(spec.load_balancer_source_ranges)]
    if not ranges:
        if annotation is None:
            return []
        path = f"metadata.annotations[{SOURCE_RANGES_ANNOTATION}]"
        ranges = [(path, text.strip()) for text in annotation.split(",")] if annotation.strip() else []
    errors = [] if spec.type == "LoadBalancer" else [forbidden(path, _LOAD_BALANCER_ONLY)]
    for range_path, text in ranges:
        errors += validate_cidr(range_path, text)
    return errors


def _validate_load_balancer_fields(spec: ServiceSpec) -> list[FieldError]:
    errors = []
    is_load_balancer = spec.type == "LoadBalancer"
    if spec.allocate_load_balancer_node_ports is not None and not is_load_balancer:
        errors.append(forbidden("spec.allocateLoadBalancerNodePorts", _LOAD_BALANCER_ONLY))
    if spec.allocate_load_balancer_node_ports is None and is_load_balancer:
        errors.append(required("allocateLoadBalancerNodePorts"))
    path, name = "spec.loadBalancerClass", spec.load_balancer_class
    if name is not None and is_load_balancer:
        errors += [invalid(path, name, fault) for fault in qualified_name_faults(name)]
    elif name is not None:
        errors.append(forbidden(path, _LOAD_BALANCER_ONLY))
    return errors


def _validate_external_traffic_policy(spec: ServiceSpec) -> list[FieldError]:
    path, policy = "spec.externalTrafficPolicy", spec.external_traffic_policy
    errors = []
    if not is_externally_accessible(spec):
        if policy:
            errors.append(invalid(path, policy, "may only be set for externally-accessible services"))
    else:
        errors += validate_choice(path, policy, TRAFFIC_POLICIES)
    return errors + _validate_health_check_node_port(spec)


def _validate_health_check_node_port(spec: ServiceSpec) -> list[FieldError]:
    path, port = "spec.healthCheckNodePort", spec.health_check_node_port
    if not needs_health_check(spec):
        words = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        return [invalid(path, port, words)] if port else []
    if not port:
        return [required(path)]
    return validate_port_number(path, port)


def _validate_internal_traffic_policy(spec: ServiceSpec) -> list[FieldError]:
    path, policy = "spec.internalTrafficPolicy", spec.internal_traffic_policy
    if policy is None:
        return [required(path)] if spec.type in ("ClusterIP", "LoadBalancer", "NodePort") else []
    return [] if policy in TRAFFIC_POLICIES else [unsupported(path, policy, TRAFFIC_POLICIES)]
