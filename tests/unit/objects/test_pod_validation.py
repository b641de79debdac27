from __future__ import annotations

from typing import Any

import pytest

from netlab.objects.decode import decode, typed
from netlab.objects.field import FieldError
from netlab.objects.pod import Pod
from netlab.objects.pod_defaults import default_pod
from netlab.objects.pod_validation import pod_warnings, validate_pod

PLAIN = {"name": "c", "image": "echo"}


def made(annotations: dict[str, str] | None = None, **spec: Any) -> Pod:
    """A defaulted Pod with one container, unless told otherwise."""
    metadata: dict[str, Any] = {"name": "web", "namespace": "lab"}
    if annotations:
        metadata["annotations"] = annotations
    value = decode({"metadata": metadata, "spec": {"containers": [PLAIN]} | spec}, Pod).value
    default_pod(value)
    return typed(value, Pod)


def errors(**made_of: Any) -> list[FieldError]:
    return validate_pod(made(**made_of))


def faults(**made_of: Any) -> list[tuple[str, str]]:
    return [(error.path, error.kind) for error in errors(**made_of)]


def ports(*each: dict[str, Any]) -> dict[str, Any]:
    return {"containers": [PLAIN | {"ports": list(each)}]}


def test_a_pod_is_fine() -> None:
    assert errors() == []


def test_containers_are_required() -> None:
    assert faults(containers=[]) == [("spec.containers", "Required")]


def test_names_and_images_of_containers() -> None:
    containers = [{"image": "a"}, {"name": "C", "image": " a"}, {"name": "d"}, {"name": "d", "image": "a"}]
    assert faults(containers=containers) == [
        ("spec.containers[0].name", "Required"),
        ("spec.containers[1].name", "Invalid"),
        ("spec.containers[2].image", "Required"),
        ("spec.containers[3].name", "Duplicate"),
        ("spec.containers[1].image", "Invalid"),
    ]


def test_init_containers() -> None:
    probe = {"tcpSocket": {"port": 80}}
    hook = {"postStart": {"exec": {"command": ["x"]}}}
    first = {"name": "i", "image": "once", "readinessProbe": probe, "lifecycle": hook}
    second = {"name": "c", "image": "once"}
    assert faults(initContainers=[first, second]) == [
        ("spec.initContainers[0].lifecycle", "Forbidden"),
        ("spec.initContainers[0].readinessProbe", "Forbidden"),
        ("spec.initContainers[1].name", "Duplicate"),
    ]
    assert faults(initContainers=[first | {"restartPolicy": "Always"}]) == []


def test_restart_policies_of_containers() -> None:
    assert faults(initContainers=[{"name": "i", "image": "a", "restartPolicy": "Odd"}]) == [
        ("spec.initContainers[0].restartPolicy", "Unsupported")
    ]
    rules = [{"action": "Restart"}]
    assert faults(containers=[PLAIN | {"restartPolicyRules": rules}]) == [
        ("spec.containers[0].restartPolicy", "Required")
    ]


def test_ports() -> None:
    spec = ports(
        {"containerPort": 80, "name": "web"},
        {"containerPort": 81, "name": "web"},
        {"containerPort": 0},
        {"containerPort": 70000, "hostPort": 70000},
        {"containerPort": 80, "protocol": "ICMP"},
        {"containerPort": 82, "name": "Not_A_Port"},
    )
    at = "spec.containers[0].ports"
    assert faults(**spec) == [
        (f"{at}[1].name", "Duplicate"),
        (f"{at}[2].containerPort", "Required"),
        (f"{at}[3].containerPort", "Invalid"),
        (f"{at}[3].hostPort", "Invalid"),
        (f"{at}[4].protocol", "Unsupported"),
        (f"{at}[5].name", "Invalid"),
    ]


def test_ports_of_the_node_are_taken_once() -> None:
    one = {"containerPort": 80, "hostPort": 8080}
    assert faults(**ports(one, one | {"protocol": "UDP"}, one | {"hostIP": "127.0.0.1"})) == []
    containers = [PLAIN | {"ports": [one]}, {"name": "d", "image": "a", "ports": [one]}]
    (error,) = errors(containers=containers)
    assert str(error) == 'spec.containers[1].ports[0].hostPort: Duplicate value: "TCP//8080"'


def test_on_the_network_of_the_node_ports_are_the_same() -> None:
    spec = ports({"containerPort": 80}, {"containerPort": 81, "hostPort": 8081})
    (error,) = errors(hostNetwork=True, **spec)
    assert str(error) == (
        "spec.containers[0].ports[1].hostPort: Invalid value: 8081: "
        "must match `containerPort` when `hostNetwork` is true"
    )


def test_a_user_namespace_goes_with_no_namespace_of_the_node() -> None:
    assert faults(hostUsers=False, hostNetwork=True, hostPID=True, hostIPC=True) == [
        ("spec.hostNetwork", "Forbidden"),
        ("spec.HostPID", "Forbidden"),
        ("spec.HostIPC", "Forbidden"),
    ]
    assert faults(hostUsers=True, hostNetwork=True) == []


def test_names_in_a_pod() -> None:
    names = {"nodeName": "N", "hostname": "a.b", "subdomain": "A", "serviceAccountName": "S", "priorityClassName": "P"}
    assert faults(**names) == [
        ("spec.serviceAccountName", "Invalid"),
        ("spec.nodeName", "Invalid"),
        ("spec.hostname", "Invalid"),
        ("spec.subdomain", "Invalid"),
        ("spec.priorityClassName", "Invalid"),
    ]


def test_fixed_lists() -> None:
    assert faults(restartPolicy="Odd", dnsPolicy="Cluster", preemptionPolicy="Odd") == [
        ("spec.restartPolicy", "Unsupported"),
        ("spec.dnsPolicy", "Unsupported"),
        ("spec.preemptionPolicy", "Unsupported"),
    ]
    assert faults(containers=[PLAIN | {"terminationMessagePolicy": "Odd"}]) == [
        ("spec.containers[0].terminationMessagePolicy", "Unsupported")
    ]


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"dnsPolicy": "None"}, ("spec.dnsConfig", "Required")),
        ({"dnsPolicy": "None", "dnsConfig": {}}, ("spec.dnsConfig.nameservers", "Required")),
        ({"dnsConfig": {"nameservers": ["10.0.0.1"] * 4}}, ("spec.dnsConfig.nameservers", "Invalid")),
        ({"dnsConfig": {"nameservers": ["dns.test"]}}, ("spec.dnsConfig.nameservers[0]", "Invalid")),
        ({"dnsConfig": {"options": [{"value": "2"}]}}, ("spec.dnsConfig.options[0]", "Required")),
        ({"dnsConfig": {"searches": ["a.test"] * 33}}, ("spec.dnsConfig.searches", "Invalid")),
        ({"dnsConfig": {"searches": [f"{'a' * 63}." * 3 + "test"] * 11}}, ("spec.dnsConfig.searches", "Invalid")),
        ({"dnsConfig": {"searches": ["A"]}}, ("spec.dnsConfig.searches[0]", "Invalid")),
        ({"dnsConfig": {"searches": [".", "_tcp.a.test."]}}, None),
    ],
)
def test_dns(spec: dict[str, Any], fault: tuple[str, str] | None) -> None:
    assert faults(**spec) == ([] if fault is None else [fault])


@pytest.mark.parametrize(
    ("name", "probe", "fault"),
    [
        ("livenessProbe", {"httpGet": {"port": "web"}}, None),
        ("livenessProbe", {}, ("", "Required")),
        ("livenessProbe", {"httpGet": {"port": 0}}, (".httpGet.port", "Invalid")),
        ("livenessProbe", {"httpGet": {"port": 80, "scheme": "FTP"}}, (".httpGet.scheme", "Unsupported")),
        ("livenessProbe", {"exec": {}}, (".exec.command", "Required")),
        ("livenessProbe", {"exec": {"command": ["a"]}, "tcpSocket": {"port": 1}}, (".tcpSocket", "Forbidden")),
        ("livenessProbe", {"tcpSocket": {"port": 1}, "successThreshold": 2}, (".successThreshold", "Invalid")),
        ("readinessProbe", {"tcpSocket": {"port": 1}, "successThreshold": 2}, None),
        ("readinessProbe", {"grpc": {"port": 70000}}, (".grpc.port", "Invalid")),
        ("startupProbe", {"tcpSocket": {"port": 1}, "periodSeconds": -1}, (".periodSeconds", "Invalid")),
        (
            "readinessProbe",
            {"tcpSocket": {"port": 1}, "terminationGracePeriodSeconds": 5},
            (".terminationGracePeriodSeconds", "Invalid"),
        ),
        (
            "livenessProbe",
            {"tcpSocket": {"port": 1}, "terminationGracePeriodSeconds": 0},
            (".terminationGracePeriodSeconds", "Invalid"),
        ),
    ],
)
def test_probes(name: str, probe: dict[str, Any], fault: tuple[str, str] | None) -> None:
    expected = [] if fault is None else [(f"spec.containers[0].{name}{fault[0]}", fault[1])]
    assert faults(containers=[PLAIN | {name: probe}]) == expected


def test_hooks_have_a_handler() -> None:
    hooks = {"preStop": {}, "postStart": {"sleep": {"seconds": 1}}}
    assert faults(containers=[PLAIN | {"lifecycle": hooks}]) == [("spec.containers[0].lifecycle.preStop", "Required")]


def test_gates() -> None:
    gates = [{"name": "example.net/wait"}, {"name": "example.net/wait"}]
    assert faults(schedulingGates=gates, readinessGates=[{"conditionType": "b a d"}]) == [
        ("spec.readinessGates[0].conditionType", "Invalid"),
        ("spec.schedulingGates[1]", "Duplicate"),
    ]
    assert faults(schedulingGates=gates[:1], nodeName="n") == [("spec.nodeName", "Forbidden")]


def test_host_aliases() -> None:
    aliases = [{"ip": "10.0.0.1", "hostnames": ["a.test"]}, {"ip": "x", "hostnames": ["A"]}]
    assert faults(hostAliases=aliases) == [
        ("spec.hostAliases[1].ip", "Invalid"),
        ("spec.hostAliases[1].hostnames[0]", "Invalid"),
    ]


def test_the_rest() -> None:
    assert faults(activeDeadlineSeconds=0) == [("spec.activeDeadlineSeconds", "Invalid")]
    assert faults(nodeSelector={"a b": "c"}) == [("spec.nodeSelector", "Invalid")]
    assert faults(ephemeralContainers=[{"name": "debug"}]) == [("spec.ephemeralContainers", "Forbidden")]
    assert faults(tolerations=[{"key": "a", "operator": "Like"}]) == [("spec.tolerations[0].operator", "Unsupported")]
    mirror = {"kubernetes.io/config.mirror": "abc"}
    assert faults(annotations=mirror, nodeName="n") == []


def test_warnings_about_ports() -> None:
    here = "spec.containers[0].ports"
    udp = {"containerPort": 80, "protocol": "UDP"}
    pod = made(
        **ports(
            udp | {"hostPort": 80, "hostIP": "10.0.0.1"},
            udp | {"hostPort": 80},
            udp | {"hostIP": "10.0.0.1"},
            {"containerPort": 80},
        )
    )
    assert pod_warnings(pod) == [
        f"{here}[1]: dangerously ambiguous port definition with {here}[0]",
        f"{here}[2]: hostIP set without hostPort: {{Name: HostPort:0 ContainerPort:80 Protocol:UDP HostIP:10.0.0.1}}",
        f"{here}[2]: overlapping port definition with {here}[0]",
        f"{here}[2]: overlapping port definition with {here}[1]",
    ]


def test_warnings_about_names_of_ports() -> None:
    web = {"containerPort": 80, "name": "web"}
    other = {"containerPort": 81, "name": "web"}
    init = {"name": "i", "image": "a", "ports": [other | {"containerPort": 82}]}
    pod = made(initContainers=[init], containers=[PLAIN | {"ports": [web]}, PLAIN | {"name": "d", "ports": [other]}])
    first = "spec.containers[0].ports[0]"
    assert pod_warnings(pod) == [
        f'spec.containers[1].ports[0]: duplicate port name "web" with {first}, '
        f"services and probes that select ports by name will use {first}"
    ]


def test_a_negative_grace_period_is_remarked() -> None:
    assert pod_warnings(made(terminationGracePeriodSeconds=-1)) == [
        "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
    ]
