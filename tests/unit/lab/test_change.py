"""What a change of objects comes to, worked out without a lab."""

from __future__ import annotations

from typing import Any

import pytest

from netlab.cluster.store import Store
from netlab.lab.change import Change, plan_change, plan_deletion
from netlab.lab.input import read_input
from netlab.lab.resolve import Resolved, resolve
from netlab.model.errors import BadInput
from netlab.model.keys import ObjectKey
from netlab.objects.yaml_source import Source

LAB = """
apiVersion: netlab/v1alpha1
kind: Lab
spec:
  serviceCIDRs: [10.96.0.0/16, "fd00:96::/112"]
  nodes: [{name: n1, podCIDRs: [10.200.1.0/24]}, {name: n2, podCIDRs: [10.200.2.0/24]}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: NodePort, selector: {app: web}, ports: [{name: a, port: 80}, {name: b, port: 81, nodePort: 30081}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web-1, labels: {app: web}}
spec: {nodeName: n1, containers: [{name: c, image: x}]}
"""


class Cluster:
    """A resolved lab and its store, which changes go into."""

    def __init__(self, text: str = LAB) -> None:
        self.lab: Resolved = resolve(read_input([Source("lab.yaml", text.encode())]))
        self.store = Store()
        for value in self.lab.objects:
            self.store.put(value)

    def plan(self, text: str) -> Change:
        return plan_change(read_input([Source("change.yaml", text.encode())]), self.lab, self.store)

    def apply(self, text: str) -> Change:
        return self.do(self.plan(text))

    def do(self, change: Change) -> Change:
        self.lab.allocators, self.lab.addresses = change.allocators, change.addresses
        for value in change.objects:
            self.store.put(value)
        for key in change.deleted:
            self.store.delete(key)
        return change

    def spec(self, name: str = "web", kind: str = "Service") -> dict[str, Any]:
        value = self.store.get(ObjectKey(kind, "default", name))
        assert value is not None
        spec: dict[str, Any] = value["spec"]
        return spec


def service(name: str, spec: str) -> str:
    return f"apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"


def test_what_is_not_said_stays() -> None:
    cluster = Cluster()
    before = cluster.spec()
    cluster.apply(
        service("web", "type: NodePort, selector: {app: web}, ports: [{name: a, port: 80}, {name: b, port: 82}]")
    )
    after = cluster.spec()
    assert after["clusterIPs"] == before["clusterIPs"]
    assert [port["nodePort"] for port in after["ports"]] == [port["nodePort"] for port in before["ports"]]


def test_ports_are_the_same_where_their_names_are() -> None:
    cluster = Cluster()
    before = cluster.spec()
    cluster.apply(service("web", "type: NodePort, ports: [{name: z, port: 80}, {name: b, port: 81}]"))
    ports = {port["name"]: port["nodePort"] for port in cluster.spec()["ports"]}
    assert ports["b"] == 30081
    assert ports["z"] != before["ports"][0]["nodePort"]


def test_what_a_service_gives_up_can_be_had() -> None:
    cluster = Cluster()
    cluster.apply(service("web", "selector: {app: web}, ports: [{port: 80}]"))
    assert "nodePort" not in cluster.spec()["ports"][0]
    cluster.apply(service("other", "type: NodePort, ports: [{port: 80, nodePort: 30081}]"))
    cluster.do(plan_deletion(ObjectKey("Service", "default", "other"), cluster.lab, cluster.store))
    cluster.apply(service("third", "type: NodePort, ports: [{port: 80, nodePort: 30081}]"))


def test_two_services_swap_their_ports() -> None:
    cluster = Cluster()
    first = "type: NodePort, ports: [{port: 80, nodePort: 30001}]"
    second = "type: NodePort, ports: [{port: 80, nodePort: 30002}]"
    cluster.apply(f"{service('one', first)}---\n{service('two', second)}")
    cluster.apply(f"{service('one', second)}---\n{service('two', first)}")
    assert [cluster.spec(name)["ports"][0]["nodePort"] for name in ("one", "two")] == [30002, 30001]


def test_a_refused_change_takes_nothing() -> None:
    cluster = Cluster()
    taken = service("new", "type: NodePort, ports: [{port: 80, nodePort: 30500}]")
    with pytest.raises(BadInput, match="already allocated"):
        cluster.plan(f"{taken}---\n{service('bad', 'type: NodePort, ports: [{port: 80, nodePort: 30081}]')}")
    cluster.apply(taken)


@pytest.mark.parametrize(
    ("policy", "families"), [("PreferDualStack", ["IPv4", "IPv6"]), ("RequireDualStack", ["IPv4", "IPv6"])]
)
def test_a_second_family_comes_and_goes(policy: str, families: list[str]) -> None:
    cluster = Cluster()
    first = cluster.spec()["clusterIPs"]
    cluster.apply(service("web", f"ipFamilyPolicy: {policy}, selector: {{app: web}}, ports: [{{port: 80}}]"))
    assert cluster.spec()["ipFamilies"] == families
    assert cluster.spec()["clusterIPs"][:1] == first
    assert len(cluster.spec()["clusterIPs"]) == 2
    cluster.apply(service("web", "ipFamilyPolicy: SingleStack, selector: {app: web}, ports: [{port: 80}]"))
    assert cluster.spec()["clusterIPs"] == first


def test_pods_are_placed_and_keep_their_place() -> None:
    cluster = Cluster()
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: NAME}\nspec: {containers: [{name: c, image: x}]}\n"
    change = cluster.apply(pod.replace("NAME", "new"))
    # n1 has a Pod already.
    assert [plan.node for plan in change.pods] == ["n2"]
    again = cluster.plan(pod.replace("NAME", "new"))
    assert again.pods == []
    assert list(again.actions.values()) == ["unchanged"]


def test_an_address_of_a_pod_that_is_gone_is_free() -> None:
    cluster = Cluster()
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: NAME, annotations: {netlab/ips: 10.200.1.50}}\n"
        "spec: {nodeName: n1, containers: [{name: c, image: x}]}\n"
    )
    cluster.apply(pod.replace("NAME", "one"))
    with pytest.raises(BadInput, match="default/one has this address"):
        cluster.plan(pod.replace("NAME", "two"))
    cluster.do(plan_deletion(ObjectKey("Pod", "default", "one"), cluster.lab, cluster.store))
    cluster.apply(pod.replace("NAME", "two"))


def test_the_whole_file_again_changes_nothing() -> None:
    assert set(Cluster().plan(LAB).actions.values()) == {"unchanged"}
