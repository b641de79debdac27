"""Objects change while the lab runs: what new packets do at once, and what becomes of flows that there are."""

from __future__ import annotations

import pytest

from tests.behaviour.running import Answer, Running

PORT = 40001
"""A sender's own port: its datagrams are one flow."""


def service(name: str, ip: str, spec: str, metadata: str = "") -> str:
    return f"""
apiVersion: v1
kind: Service
metadata: {{name: {name}{metadata}}}
spec: {{clusterIP: {ip}, {spec}}}
"""


def pods(answers: list[Answer]) -> set[str]:
    return {each.error or each.pod for each in answers}


def udp(lab: Running, to: str, source: int = PORT) -> str:
    return next(iter(pods(lab.talk("cli1", to, 1, "udp", source))))


def only(lab: Running, *modes: str) -> None:
    if lab.mode not in modes:
        pytest.skip(f"the behaviour is that of {', '.join(modes)}")


KERNEL = ("iptables", "ipvs", "nftables")


class TestFlowsOfDatagrams:
    def test_they_follow_the_endpoints(self, lab: Running) -> None:
        """An entry that leads to an endpoint that is gone is deleted; nothing else is. (In mode userspace the proxy
        goes on with a flow until it has been silent for 250 ms.)"""
        only(lab, *KERNEL)
        ports = "ports: [{protocol: UDP, port: 53, targetPort: 8080}]"
        lab.apply(service("follow", "10.96.1.1", f'selector: {{far: ""}}, {ports}'))
        assert udp(lab, "10.96.1.1:53") == "b1"
        stranger, port = ("10.244.2.8", 8080), PORT + 1
        assert udp(lab, f"{stranger[0]}:{stranger[1]}", port) == "b2"
        kept = [f"sport={port}", f"dst={stranger[0]}"]
        assert lab.conntrack("n1", *kept)
        lab.apply(service("follow", "10.96.1.1", f'selector: {{one: ""}}, {ports}'))
        assert udp(lab, "10.96.1.1:53") == "a2"
        assert lab.conntrack("n1", *kept)
        lab.delete("Service", "follow")

    def test_those_from_before_the_service_follow_too(self, lab: Running) -> None:
        """Datagrams to an address that nobody had made an entry without translation. (Mode userspace leaves that.)"""
        only(lab, *KERNEL)
        assert udp(lab, "10.96.1.2:53") not in ("a2", "b1")
        ports = "ports: [{protocol: UDP, port: 53, targetPort: 8080}]"
        lab.apply(service("late", "10.96.1.2", f'selector: {{far: ""}}, {ports}'))
        assert udp(lab, "10.96.1.2:53") == "b1"
        lab.delete("Service", "late")

    def test_the_first_endpoint_takes_them(self, lab: Running) -> None:
        ports = "ports: [{protocol: UDP, port: 53, targetPort: 8080}]"
        lab.apply(service("first", "10.96.1.3", f'selector: {{nobody: ""}}, {ports}'))
        assert udp(lab, "10.96.1.3:53") not in ("a2", "b1")
        if lab.mode != "userspace":
            assert not lab.conntrack("n1", f"sport={PORT}", "dst=10.96.1.3")
        lab.apply(service("first", "10.96.1.3", f'selector: {{far: ""}}, {ports}'))
        assert udp(lab, "10.96.1.3:53") == "b1"
        lab.delete("Service", "first")

    def test_without_endpoints_they_live_on(self, lab: Running) -> None:
        """As up to 1.36.2 (kubernetes/kubernetes#139628): a Service without serving endpoints is passed over."""
        only(lab, "iptables", "nftables")
        ports = "ports: [{protocol: UDP, port: 53, targetPort: 8080}]"
        lab.apply(service("emptied", "10.96.1.4", f'selector: {{far: ""}}, {ports}'))
        assert udp(lab, "10.96.1.4:53") == "b1"
        lab.apply(service("emptied", "10.96.1.4", f'selector: {{nobody: ""}}, {ports}'))
        assert lab.conntrack("n1", f"sport={PORT}", "dst=10.96.1.4")
        lab.delete("Service", "emptied")

    def test_they_outlive_their_service(self, lab: Running) -> None:
        """As up to 1.36.2 (kubernetes/kubernetes#141371)."""
        only(lab, "iptables", "nftables")
        ports = "ports: [{protocol: UDP, port: 53, targetPort: 8080}]"
        lab.apply(service("deleted", "10.96.1.5", f'selector: {{far: ""}}, {ports}'))
        assert udp(lab, "10.96.1.5:53") == "b1"
        lab.delete("Service", "deleted")
        assert udp(lab, "10.96.1.5:53") == "b1"
        assert udp(lab, "10.96.1.5:53", PORT + 2) != "b1"

    def test_a_node_port_is_known_by_its_number_alone(self, lab: Running) -> None:
        """A stranger's flow to the same number goes, too, and comes back with its next datagram."""
        only(lab, *KERNEL)
        ports = "ports: [{protocol: UDP, port: 53, targetPort: 8080, nodePort: 31053}]"
        lab.apply(service("numbered", "10.96.1.6", f'type: NodePort, selector: {{far: ""}}, {ports}'))
        udp(lab, "172.20.0.9:31053", PORT + 3)
        assert lab.conntrack("n1", f"sport={PORT + 3}", "dst=172.20.0.9")
        lab.apply(service("numbered", "10.96.1.6", f'type: NodePort, selector: {{one: ""}}, {ports}'))
        assert not lab.conntrack("n1", f"sport={PORT + 3}", "dst=172.20.0.9")
        lab.delete("Service", "numbered")


class TestConnections:
    def test_an_open_one_survives_the_loss_of_all_endpoints(self, lab: Running) -> None:
        only(lab, *KERNEL)
        lab.apply(service("held", "10.96.1.10", 'selector: {alone: ""}, ports: [{port: 80, targetPort: 8080}]'))
        lab.hold("cli1", "10.96.1.10", 80, 9001)
        assert lab.ask("cli1", 9001) == "hello"
        lab.apply(change_of("False"))
        try:
            assert lab.ask("cli1", 9001) == "hello"
            assert lab.walk("cli1", "10.96.1.10:80").verdict == "rejected"
        finally:
            lab.apply(change_of("True"))
            lab.ask("cli1", 9001, "end")
        assert pods(lab.talk("cli1", "10.96.1.10:80", 3)) == {"a1"}
        lab.delete("Service", "held")

    def test_an_endpoint_that_goes_gets_no_new_ones(self, lab: Running) -> None:
        lab.apply(service("two", "10.96.1.11", 'selector: {near: ""}, ports: [{port: 80, targetPort: 8080}]'))
        assert pods(lab.talk("cli1", "10.96.1.11:80")) == {"a1", "b1"}
        lab.apply(service("two", "10.96.1.11", 'selector: {far: ""}, ports: [{port: 80, targetPort: 8080}]'))
        assert pods(lab.talk("cli1", "10.96.1.11:80", 10)) == {"b1"}
        lab.delete("Service", "two")
        assert not {"a1", "b1"} & pods(lab.talk("cli1", "10.96.1.11:80", 1))

    def test_ipvs_lets_a_connection_end(self, lab: Running) -> None:
        """The real server stays with weight 0 while a connection is open to it."""
        only(lab, "ipvs")
        ports = "ports: [{port: 80, targetPort: 8080}]"
        lab.apply(service("graceful", "10.96.1.12", f'selector: {{near: ""}}, {ports}'))
        lab.hold("cli2", "10.96.1.12", 80, 9002)
        lab.hold("cli2", "10.96.1.12", 80, 9003)
        assert [lab.ask("cli2", port) for port in (9002, 9003)] == ["hello", "hello"]
        lab.apply(service("graceful", "10.96.1.12", f'selector: {{far: ""}}, {ports}'))
        reals = [line for line in lab.rules("n2").splitlines() if line.startswith("-a -t 10.96.1.12:80 ")]
        assert [line.split()[4:] for line in reals] == [
            ["10.244.1.5:8080", "-m", "-w", "0"],
            ["10.244.2.7:8080", "-m", "-w", "1"],
        ]
        assert pods(lab.talk("cli2", "10.96.1.12:80", 10)) == {"b1"}
        assert [lab.ask("cli2", port) for port in (9002, 9003)] == ["hello", "hello"]
        for port in (9002, 9003):
            lab.ask("cli2", port, "end")
        lab.delete("Service", "graceful")


class TestWhatChanges:
    def test_readiness_and_preference(self, lab: Running) -> None:
        """With no ready endpoint in the preferred place, the preference is dropped."""
        only(lab, *KERNEL)
        spec = 'trafficDistribution: PreferSameNode, selector: {prefer: ""}, ports: [{port: 80, targetPort: 8080}]'
        lab.apply(service("prefers", "10.96.1.20", spec))
        assert pods(lab.talk("cli1", "10.96.1.20:80", 5)) == {"a1"}
        lab.apply(change_of("False"))
        assert pods(lab.talk("cli1", "10.96.1.20:80")) == {"b1", "b2"}
        lab.apply(change_of("True"))
        assert pods(lab.talk("cli1", "10.96.1.20:80", 5)) == {"a1"}
        lab.delete("Service", "prefers")

    def test_another_proxys_service_becomes_ours(self, lab: Running) -> None:
        spec = 'selector: {one: ""}, ports: [{port: 80, targetPort: 8080}]'
        label = ", labels: {service.kubernetes.io/service-proxy-name: custom}"
        lab.apply(service("given-away", "10.96.1.21", spec, label))
        assert lab.walk("cli1", "10.96.1.21:80", timeout=0.3).verdict != "answered"
        lab.apply(service("given-away", "10.96.1.21", spec))
        assert pods(lab.talk("cli1", "10.96.1.21:80", 2)) == {"a2"}
        lab.apply(service("given-away", "10.96.1.21", spec, label))
        assert lab.walk("cli1", "10.96.1.21:80", timeout=0.3).verdict != "answered"
        lab.delete("Service", "given-away")

    def test_ip_mode(self, lab: Running) -> None:
        only(lab, *KERNEL)
        spec = 'type: LoadBalancer, selector: {one: ""}, ports: [{port: 80, targetPort: 8080, nodePort: 31022}]'
        status = "status: {loadBalancer: {ingress: [{ip: 203.0.113.50, ipMode: MODE}]}}\n"
        lab.apply(service("moded", "10.96.1.22", spec) + status.replace("MODE", "Proxy"))
        assert "203.0.113.50" not in lab.rules("n1")
        assert pods(lab.talk("x1", "192.168.50.11:31022", 1)) == {"a2"}
        lab.apply(service("moded", "10.96.1.22", spec) + status.replace("MODE", "VIP"))
        assert "203.0.113.50" in lab.rules("n1")
        assert pods(lab.talk("x1", "203.0.113.50:80", 1)) == {"a2"}
        lab.delete("Service", "moded")
        assert "203.0.113.50" not in lab.rules("n1")

    def test_ranges_of_sources(self, lab: Running) -> None:
        only(lab, *KERNEL)
        spec = (
            "type: LoadBalancer, loadBalancerSourceRanges: [RANGE], "
            'selector: {one: ""}, ports: [{port: 80, targetPort: 8080, nodePort: 31023}]'
        )
        status = "status: {loadBalancer: {ingress: [{ip: 203.0.113.51}]}}\n"
        for network, sender in (("172.20.0.0/16", "x1"), ("172.21.0.0/16", "x2")):
            lab.apply(service("ranged", "10.96.1.23", spec.replace("RANGE", network)) + status)
            other = {"x1": "x2", "x2": "x1"}[sender]
            assert pods(lab.talk(sender, "203.0.113.51:80", 1)) == {"a2"}
            assert lab.walk(other, "203.0.113.51:80", timeout=0.3).verdict == "dropped"
        lab.delete("Service", "ranged")

    def test_types(self, lab: Running) -> None:
        """ClusterIP, NodePort and back; the address stays."""
        ports = "ports: [{port: 80, targetPort: 8080NODEPORT}]"
        plain = f'selector: {{one: ""}}, {ports.replace("NODEPORT", "")}'
        opened = f'type: NodePort, selector: {{one: ""}}, {ports.replace("NODEPORT", ", nodePort: 31024")}'
        for spec, verdict in ((plain, "refused"), (opened, "answered"), (plain, "refused")):
            lab.apply(service("typed", "10.96.1.24", spec))
            assert lab.walk("x1", "192.168.50.12:31024").verdict == verdict
            assert pods(lab.talk("cli1", "10.96.1.24:80", 1)) == {"a2"}
        lab.delete("Service", "typed")

    def test_labels_of_a_node(self, lab: Running) -> None:
        """n1 moves to the zone where the endpoints are not, and back: hints follow, for endpoints and for senders."""
        only(lab, *KERNEL)
        spec = 'trafficDistribution: PreferSameZone, selector: {spread: ""}, ports: [{port: 80, targetPort: 8080}]'
        lab.apply(service("zoned", "10.96.1.25", spec))
        assert pods(lab.talk("cli1", "10.96.1.25:80", 5)) == {"a1"}
        lab.apply(NODE.replace("ZONE", "zb"))
        assert pods(lab.talk("cli1", "10.96.1.25:80")) == {"a1", "b1", "c1"}
        lab.apply(NODE.replace("ZONE", "za"))
        assert pods(lab.talk("cli1", "10.96.1.25:80", 5)) == {"a1"}
        lab.delete("Service", "zoned")


class TestPods:
    def test_one_comes_and_goes(self, lab: Running) -> None:
        lab.apply(service("growing", "10.96.1.30", 'selector: {growing: ""}, ports: [{port: 80, targetPort: 8080}]'))
        for _ in range(1 if lab.mode == "ipvs" else 2):
            lab.apply(NEW_POD)
            assert pods(lab.talk("cli1", "10.96.1.30:80", 3)) == {"grown"}
            assert lab.walk("grown", "10.96.1.30:80").verdict == "answered"
            lab.delete("Pod", "grown")
            assert pods(lab.talk("cli1", "10.96.1.30:80", 1)) != {"grown"}
        lab.delete("Service", "growing")


NEW_POD = """
apiVersion: v1
kind: Pod
metadata: {name: grown, labels: {growing: ""}}
spec: {nodeName: n3, containers: [{name: c, image: echo, ports: [{containerPort: 8080}]}]}
"""


NODE = """
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {topology.kubernetes.io/zone: ZONE}}
"""


def change_of(status: str) -> str:
    """The Pod a1 of the cluster, ready or not."""
    ports = "ports: [{name: http, containerPort: 8080}, {containerPort: 8081}, {containerPort: 8082}]"
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: a1, labels: {{near: "", spread: "", prefer: "", alone: "", local: ""}}}}
spec: {{nodeName: n1, containers: [{{name: c, image: echo, {ports}}}]}}
status: {{conditions: [{{type: Ready, status: "{status}"}}]}}
"""
