"""Walks on real kernels: the NodePort example, and what else can become of a packet."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import jsonschema
import msgspec
import pytest

import netlab
from netlab.model.errors import BadInput
from netlab.model.summaries import advice, summary
from netlab.model.walk import Step, Walk
from tests.cli.command import run
from tests.conftest import NODEPORT, ROOT

pytestmark = [pytest.mark.kernel, pytest.mark.xdist_group("walks")]

LABS = ROOT / "tests" / "labs"
SCHEMA = json.loads((ROOT / "netlab" / "model" / "walk.schema.json").read_text())
HASH = "LOLE4ISW44XBNF3G"


@pytest.fixture(scope="module")
def lab() -> Iterator[netlab.Lab]:
    with netlab.open_lab(NODEPORT, LABS / "services.yaml") as lab:
        yield lab


def until(probe: Callable[[], Walk], wanted: Callable[[Walk], bool], tries: int = 60) -> Walk:
    """Probe again until chance has picked what is wanted: an endpoint is one of three."""
    for _ in range(tries):
        walk = probe()
        if wanted(walk):
            return walk
    raise AssertionError(f"not in {tries} tries")


def reached(pod: str) -> Callable[[Walk], bool]:
    return lambda walk: walk.endpoint is not None and walk.endpoint.pod == f"default/{pod}"


def changes(walk: Walk) -> list[tuple[str, str, str | None, tuple[str, ...]]]:
    return [(step.direction, step.place, step.hook, step.changed) for step in walk.steps if step.changed]


def chains(walk: Walk, place: str, hook: str) -> list[str]:
    """The chains of the nat table that the request went through, each once, in order."""
    found: list[str] = []
    for step in walk.steps:
        if step.direction == "request" and (step.place, step.hook, step.table) == (place, hook, "nat"):
            assert step.chain is not None
            if step.chain not in found:
                found.append(step.chain)
    return found


def check(walk: Walk) -> None:
    """What is true of every walk."""
    plain = json.loads(msgspec.json.encode(walk))
    jsonschema.validate(plain, SCHEMA)
    assert [step.n for step in walk.steps] == list(range(1, len(walk.steps) + 1))
    assert {each for step in walk.steps for each in step.evidence} == set(walk.records)
    times = [step.t_us for step in walk.steps]
    assert times == sorted(times)
    for before, after in zip(walk.steps, walk.steps[1:], strict=False):
        if before.direction == after.direction:
            assert before.source == after.source or "source" in after.changed
            assert before.destination == after.destination or "destination" in after.changed
    for text in (
        summary(walk),
        advice(walk),
        *(step.reason for step in walk.steps),
        *(gap.reason for gap in walk.gaps),
    ):
        if text is not None:
            assert text.en
            assert text.zh
            assert "{" not in text.en + text.zh


def step_with(walk: Walk, action: str) -> Step:
    return next(step for step in walk.steps if step.action == action)


class TestNodePortFromOutside:
    def walk(self, lab: netlab.Lab, pod: str, node_ip: str = "192.168.60.123") -> Walk:
        walk = until(lambda: lab.walk("client", f"{node_ip}:30080"), reached(pod))
        check(walk)
        assert walk.verdict == "answered"
        assert walk.gaps == ()
        return walk

    def test_endpoint_on_the_other_node(self, lab: netlab.Lab) -> None:
        walk = self.walk(lab, "web-3")
        assert walk.seen_by_pod is not None
        assert walk.seen_by_pod.startswith("192.168.60.123:")
        assert changes(walk) == [
            ("request", "node-a", "PREROUTING", ("destination",)),
            ("request", "node-a", "POSTROUTING", ("source",)),
            ("reply", "node-a", "PREROUTING", ("destination",)),
            ("reply", "node-a", "POSTROUTING", ("source",)),
        ]
        assert [step.place for step in walk.steps if step.interface == "eth0" and step.hook is None] == [
            "client",
            "node-a",
            "node-a",
            "node-b",
            "default/web-3",
            "default/web-3",
            "node-b",
            "node-a",
            "node-a",
            "client",
        ]

    def test_endpoint_on_the_same_node_is_masqueraded_too(self, lab: netlab.Lab) -> None:
        walk = self.walk(lab, "web-1")
        assert walk.seen_by_pod is not None
        assert walk.seen_by_pod.startswith("10.200.1.1:")
        snat = step_with(walk, "SNAT")
        assert snat.reason is not None
        assert "the address of the interface by which the packet leaves (cni0)" in snat.reason.en

    def test_the_path_through_the_chains(self, lab: netlab.Lab) -> None:
        walk = self.walk(lab, "web-3")
        path = chains(walk, "node-a", "PREROUTING")
        assert path[:-1] == [
            "PREROUTING",
            "KUBE-SERVICES",
            "KUBE-NODEPORTS",
            f"KUBE-EXT-{HASH}",
            "KUBE-MARK-MASQ",
            f"KUBE-SVC-{HASH}",
        ]
        assert path[-1].startswith("KUBE-SEP-")
        assert chains(walk, "node-a", "POSTROUTING") == ["POSTROUTING", "KUBE-POSTROUTING"]
        dnats = [step for step in walk.steps if step.action == "DNAT"]
        assert [(step.source.rpartition(":")[0], step.destination) for step in dnats] == [
            ("192.168.1.100", "10.200.2.20:80")
        ]

    def test_causes_lead_to_lines_of_the_file(self, lab: netlab.Lab) -> None:
        walk = self.walk(lab, "web-3")
        lines = NODEPORT.read_text().splitlines()
        ext = next(step for step in walk.steps if step.chain == "KUBE-NODEPORTS")
        assert ext.origin is not None
        assert (ext.origin.object, ext.origin.field) == ("Service default/web", "spec.ports[0].nodePort")
        assert ext.origin.line is not None
        assert lines[ext.origin.line - 1].strip() == "nodePort: 30080"
        marked = next(step for step in walk.steps if step.action == "jump KUBE-MARK-MASQ")
        assert marked.origin is not None
        assert marked.origin.field == "spec.externalTrafficPolicy"

    def test_conntrack_knows_both_sides(self, lab: netlab.Lab) -> None:
        walk = self.walk(lab, "web-3")
        entry = next(each for each in walk.conntrack if each.node == "node-a")
        assert entry.original.destination == "192.168.60.123:30080"
        assert entry.reply.source == "10.200.2.20:80"
        assert entry.reply.destination == walk.seen_by_pod
        assert {"SNAT", "DNAT"} <= set(entry.status)
        undone = [step for step in walk.steps if step.action.endswith("undone")]
        assert all(any(each.startswith("conntrack:node-a#") for each in step.evidence) for step in undone)

    def test_the_other_node(self, lab: netlab.Lab) -> None:
        walk = self.walk(lab, "web-3", "192.168.60.124")
        assert walk.seen_by_pod is not None
        assert walk.seen_by_pod.startswith("10.200.2.1:")

    def test_back_over_the_node_of_the_sender(self, lab: netlab.Lab) -> None:
        """A Pod of node-a asks node-b, and the endpoint is on node-a: node-a is passed twice."""
        walk = until(lambda: lab.walk("curl", "192.168.60.124:30080"), reached("web-1"))
        check(walk)
        assert walk.verdict == "answered"
        assert walk.seen_by_pod is not None
        assert walk.seen_by_pod.startswith("192.168.60.124:")
        assert [change[1] for change in changes(walk)] == ["node-b", "node-b", "node-b", "node-b"]

    def test_datagrams(self, lab: netlab.Lab) -> None:
        walk = until(lambda: lab.walk("client", "192.168.60.123:30053", protocol="udp"), reached("web-3"))
        check(walk)
        assert walk.verdict == "answered"
        assert [change[2] for change in changes(walk)] == ["PREROUTING", "POSTROUTING", "PREROUTING", "POSTROUTING"]


class TestClusterIp:
    @pytest.mark.parametrize("pod", ["web-2", "web-3"])
    def test_a_pods_source_is_kept(self, lab: netlab.Lab, pod: str) -> None:
        walk = until(lambda: lab.walk("curl", "10.96.0.1:80"), reached(pod))
        check(walk)
        assert walk.verdict == "answered"
        assert walk.seen_by_pod == walk.steps[0].source
        assert [change[:3] for change in changes(walk)] == [
            ("request", "node-a", "PREROUTING"),
            ("reply", "node-a", "POSTROUTING"),
        ]
        kept = next(step for step in walk.steps if step.reason is not None and step.reason.id == "rule.not-marked")
        assert kept.chain == "KUBE-POSTROUTING"

    def test_hairpin_is_masqueraded_and_answered(self, lab: netlab.Lab) -> None:
        walk = lab.walk("curl", "10.96.0.8:80")
        check(walk)
        assert walk.verdict == "answered"
        assert reached("curl")(walk)
        assert walk.seen_by_pod is not None
        assert walk.seen_by_pod.startswith("10.200.1.1:")
        assert len(changes(walk)) == 4
        mark = next(step for step in walk.steps if step.action == "jump KUBE-MARK-MASQ")
        assert mark.reason is not None
        assert mark.reason.id == "rule.masq-hairpin"

    def test_from_the_node_itself_through_output(self, lab: netlab.Lab) -> None:
        walk = until(lambda: lab.walk("node-a", "10.96.0.1:80"), reached("web-1"))
        check(walk)
        assert walk.verdict == "answered"
        assert (walk.steps[0].place, walk.steps[0].hook) == ("node-a", "OUTPUT")
        assert walk.steps[0].destination == "10.96.0.1:80"
        assert [(change[0], change[2]) for change in changes(walk)] == [
            ("request", "OUTPUT"),
            ("request", "POSTROUTING"),
            ("reply", "PREROUTING"),
            ("reply", "INPUT"),
        ]

    def test_from_outside_there_is_no_route(self, lab: netlab.Lab) -> None:
        walk = lab.walk("client", "10.96.0.1:80")
        check(walk)
        assert walk.verdict == "unreachable"
        assert walk.endpoint is None

    def test_a_pod_on_its_nodes_network(self, lab: netlab.Lab) -> None:
        walk = lab.walk("curl", "10.96.0.4:80")
        check(walk)
        assert walk.verdict == "answered"
        assert walk.endpoint is not None
        assert (walk.endpoint.pod, walk.endpoint.ip, walk.endpoint.node) == (
            "default/on-host",
            "192.168.60.124",
            "node-b",
        )


class TestRefusals:
    def test_no_endpoints_are_rejected_at_once(self, lab: netlab.Lab) -> None:
        begin = time.monotonic()
        walk = lab.walk("client", "192.168.60.123:30099")
        assert time.monotonic() - begin < 1.0
        check(walk)
        assert walk.verdict == "rejected"
        reject = step_with(walk, "reject")
        assert (reject.place, reject.hook, reject.chain) == ("node-a", "INPUT", "KUBE-EXTERNAL-SERVICES")
        assert walk.steps[-1].place == "client"
        assert walk.steps[-1].source == "192.168.60.123"
        told = advice(walk)
        assert told is not None
        assert "selector of Service default/none" in told.en

    @pytest.mark.parametrize(("sender", "hook"), [("curl", "FORWARD"), ("node-a", "OUTPUT")])
    def test_no_endpoints_behind_a_cluster_ip(self, lab: netlab.Lab, sender: str, hook: str) -> None:
        walk = lab.walk(sender, "10.96.0.9:80")
        check(walk)
        assert walk.verdict == "rejected"
        assert (step_with(walk, "reject").hook, step_with(walk, "reject").chain) == (hook, "KUBE-SERVICES")

    def test_udp_is_rejected_too(self, lab: netlab.Lab) -> None:
        walk = lab.walk("client", "192.168.60.123:30099", protocol="udp")
        check(walk)
        assert walk.verdict == "refused"

    def test_local_policy_without_a_local_endpoint_drops(self, lab: netlab.Lab) -> None:
        walk = lab.walk("client", "192.168.60.123:30111", timeout=0.3)
        check(walk)
        assert walk.verdict == "dropped"
        assert (step_with(walk, "drop").place, step_with(walk, "drop").chain) == ("node-a", "KUBE-EXTERNAL-SERVICES")
        answered = lab.walk("client", "192.168.60.124:30111")
        assert answered.verdict == "answered"
        assert answered.seen_by_pod == answered.steps[0].source

    def test_a_closed_port_of_the_endpoint_is_refused(self, lab: netlab.Lab) -> None:
        walk = lab.walk("curl", "10.96.0.6:80")
        check(walk)
        assert walk.verdict == "refused"
        assert walk.endpoint is not None
        assert walk.endpoint.port == 81

    def test_a_port_of_the_node_that_nobody_has(self, lab: netlab.Lab) -> None:
        walk = lab.walk("client", "192.168.60.123:9999")
        check(walk)
        assert walk.verdict == "refused"
        assert walk.endpoint is None

    @pytest.mark.parametrize(
        ("sender", "to", "protocol", "asking"),
        [
            ("client", "192.168.60.99:80", "tcp", "router"),
            ("client", "192.168.60.99:80", "udp", "router"),
            ("node-a", "192.168.60.99:80", "tcp", "node-a"),
            ("node-a", "192.168.60.99", "icmp", "node-a"),
            ("curl", "10.200.1.99:80", "tcp", "default/curl"),
            ("curl", "10.200.2.99:80", "udp", "node-b"),
        ],
    )
    def test_an_address_on_the_wire_that_nobody_has(
        self, lab: netlab.Lab, sender: str, to: str, protocol: str, asking: str
    ) -> None:
        """The same each time: who asks in vain says so, before the time-out."""
        for _ in range(2):
            walk = lab.walk(sender, to, protocol=protocol)
            check(walk)
            assert walk.verdict == "unreachable"
            assert walk.gaps == ()
            assert step_with(walk, "unanswered").place == asking
            back = next(step for step in walk.steps if step.direction == "reply")
            assert back.place == asking
            assert back.reason is not None
            assert "host unreachable" in back.reason.en
            told = advice(walk)
            assert told is not None
            assert f"{asking} asks who has {to.partition(':')[0]}, and nobody answers." in told.en
            assert walk.steps[-1].t_us > 100_000

    def test_no_time_to_learn_that_nobody_has_an_address(self, lab: netlab.Lab) -> None:
        walk = lab.walk("client", "192.168.60.97:80", timeout=0.3)
        check(walk)
        assert walk.verdict == "no-reply"
        assert (walk.steps[-1].place, walk.steps[-1].interface) == ("router", "nodes0")
        told = advice(walk)
        assert told is not None
        assert "router asks who has 192.168.60.97, and nobody answers." in told.en
        assert "last seen at router/nodes0" in told.en

    def test_an_address_without_a_route(self, lab: netlab.Lab) -> None:
        walk = lab.walk("curl", "10.99.9.9:80")
        check(walk)
        assert walk.verdict == "unreachable"
        assert next(step for step in walk.steps if step.direction == "reply").place == "router"

    def test_an_endpoint_without_a_pod_gets_rules_and_answers_nothing(self, lab: netlab.Lab) -> None:
        assert any("10.200.2.77" in note.en for note in lab.notes)
        walk = lab.walk("curl", "10.96.0.3:80", timeout=0.3)
        check(walk)
        assert walk.verdict == "no-reply"
        assert any(step.action == "DNAT" and step.destination == "10.200.2.77:80" for step in walk.steps)

    @pytest.mark.parametrize("who", ["nobody", "other/curl", "web-9", ""])
    def test_an_unknown_sender(self, lab: netlab.Lab, who: str) -> None:
        with pytest.raises(BadInput, match="is no client, node or Pod"):
            lab.walk(who, "10.96.0.1:80")

    @pytest.mark.parametrize(
        "to", ["", "web:80", "10.96.0.1", "10.96.0.1:0", "10.96.0.1:99999", "fd00::1:80", "1.2.3:4"]
    )
    def test_a_bad_destination(self, lab: netlab.Lab, to: str) -> None:
        with pytest.raises(BadInput, match="--to"):
            lab.walk("client", to)


class TestWhatIsToBlame:
    def test_loopback_is_the_senders_own(self, lab: netlab.Lab) -> None:
        walk = lab.walk("node-a", "127.0.0.1:30080")
        assert walk.steps[0].reason is not None
        assert "the nodePort of Service default/web on node-a" in walk.steps[0].reason.en

    def test_a_segment_of_no_connection(self, lab: netlab.Lab) -> None:
        walk = lab.walk("curl", packet='IP(dst="10.96.0.1")/TCP(dport=80, flags="A")')
        check(walk)
        told = advice(walk)
        assert told is not None
        assert walk.verdict == "refused"
        assert "belongs to no connection there" in told.en

    @pytest.mark.parametrize(
        ("to", "why", "what"),
        [
            ("10.96.0.60:80", 'its targetPort "http" (tcp) names no port of the Pods', "Compare the targetPort"),
            ("10.96.0.61:80", "it selects Pod default/sick, and none of them is ready", "are not ready"),
            ("10.96.0.62:80", "it has no selector, and no EndpointSlice names it", "Look at the EndpointSlices"),
            ("10.96.0.9:80", "no Pod has the labels of its selector (app=nothing)", "Compare the selector"),
        ],
    )
    @pytest.mark.parametrize("sender", ["curl", "node-a"])
    def test_why_there_are_no_endpoints(self, lab: netlab.Lab, sender: str, to: str, why: str, what: str) -> None:
        walk = lab.walk(sender, to)
        check(walk)
        assert walk.verdict == "rejected"
        reject, told = step_with(walk, "reject"), advice(walk)
        assert reject.reason is not None
        assert told is not None
        assert why in reject.reason.en
        assert what in told.en

    @pytest.mark.parametrize(
        ("to", "words"),
        [
            ("10.200.2.20:81", "Nothing listens on 81 at default/web-3."),
            ("[::1]:80", "Nothing listens on 80 at default/curl."),
            ("10.96.0.6:80", "compare the Service's targetPort"),
        ],
    )
    def test_nothing_listens(self, lab: netlab.Lab, to: str, words: str) -> None:
        walk = lab.walk("curl", to)
        check(walk)
        told = advice(walk)
        assert walk.verdict == "refused"
        assert told is not None
        assert words in told.en

    @pytest.mark.parametrize(
        ("to", "protocol", "words"),
        [
            ("10.96.0.1:81", "tcp", "has no port 81/tcp; it has 80/tcp."),
            ("10.96.0.1:80", "udp", "has no port 80/udp; it has 80/tcp."),
            ("10.96.0.1", "icmp", "has no port for icmp; it has 80/tcp."),
        ],
    )
    def test_a_port_that_the_service_does_not_have(self, lab: netlab.Lab, to: str, protocol: str, words: str) -> None:
        walk = lab.walk("curl", to, protocol=protocol, timeout=0.3)
        check(walk)
        told = advice(walk)
        assert walk.verdict != "answered"
        assert told is not None
        assert f"Service default/web {words}" in told.en

    @pytest.mark.parametrize("address", ["172.18.255.200", "198.51.100.1"])
    def test_an_address_that_only_rules_know(self, lab: netlab.Lab, address: str) -> None:
        walk = lab.walk("client", f"{address}:80")
        check(walk)
        told = advice(walk)
        assert walk.verdict == "unreachable"
        assert told is not None
        assert f"router found no way to {address}: nothing in the lab routes this address to a node" in told.en
        assert lab.walk("curl", f"{address}:80").verdict == "answered"


def test_a_port_without_hairpin(tmp_path: Path) -> None:
    """It matters where the bridge sends the packet back, and nowhere else."""
    text = NODEPORT.read_text()
    for settings, verdict in (("  hairpin: false\n", "no-reply"), ("  hairpin: false\n  podWiring: ptp\n", "answered")):
        file = tmp_path / "lab.yaml"
        file.write_text(text.replace("  clients:\n", f"{settings}  clients:\n"))
        with netlab.open_lab(file, LABS / "services.yaml") as lab:
            walk = lab.walk("curl", "10.96.0.8:80", timeout=0.3)
        check(walk)
        assert walk.verdict == verdict
        assert [gap.reason.id for gap in walk.gaps] == ["gap.hairpin-off"] * (verdict == "no-reply")


def test_the_node_tells_again_and_again_that_there_is_no_way(lab: netlab.Lab) -> None:
    assert [lab.walk("client", "10.77.0.1:80").verdict for _ in range(4)] == ["unreachable"] * 4


class TestPings:
    def test_a_pod_answers(self, lab: netlab.Lab) -> None:
        walk = lab.walk("curl", "10.200.2.20", protocol="icmp")
        check(walk)
        assert walk.verdict == "answered"
        assert reached("web-3")(walk)

    def test_a_cluster_ip_is_no_ones_address(self, lab: netlab.Lab) -> None:
        walk = lab.walk("curl", "10.96.0.1", protocol="icmp")
        check(walk)
        assert walk.verdict == "unreachable"


class TestCraftedPackets:
    def test_a_syn_and_no_reset_in_its_way(self, lab: netlab.Lab) -> None:
        walk = until(lambda: lab.walk("client", "192.168.60.123:30080", packet='IP()/TCP(flags="S")'), reached("web-3"))
        check(walk)
        assert walk.verdict == "answered"
        assert len(changes(walk)) == 4

    def test_from_a_node(self, lab: netlab.Lab) -> None:
        walk = lab.walk("node-a", "10.96.0.1:80", packet='IP()/TCP(flags="S", options=[("MSS", 1460)])')
        check(walk)
        assert walk.verdict == "answered"

    def test_as_an_object(self, lab: netlab.Lab) -> None:
        from scapy.layers.inet import ICMP, IP

        walk = lab.walk("curl", packet=IP(dst="10.200.2.20", ttl=9) / ICMP() / b"hello")
        check(walk)
        assert walk.verdict == "answered"
        assert walk.probe.protocol == "icmp"

    def test_a_ttl_that_is_too_small(self, lab: netlab.Lab) -> None:
        walk = lab.walk("client", "192.168.60.123:30080", packet="IP(ttl=1)/TCP()")
        check(walk)
        assert walk.verdict == "unreachable"
        assert next(step for step in walk.steps if step.direction == "reply").place == "router"

    @pytest.mark.parametrize("payload", ["", '/b"x"', '/b"hello"'])
    @pytest.mark.parametrize(
        ("sender", "to"), [("client", "192.168.60.123:30053"), ("curl", "10.96.0.7:53"), ("node-a", "10.96.0.7:53")]
    )
    def test_a_datagram_with_little_to_know_it_by(self, lab: netlab.Lab, sender: str, to: str, payload: str) -> None:
        begin = time.monotonic()
        walk = lab.walk(sender, to, packet=f"IP()/UDP(){payload}")
        assert time.monotonic() - begin < 1.0
        check(walk)
        assert walk.verdict == "answered"
        assert walk.gaps == ()
        back = {(step.place, step.action) for step in walk.steps if step.direction == "reply"}
        assert ("node-a", "DNAT undone") in back

    @pytest.mark.parametrize("ping", ["ICMP()", "ICMP(id=0)", 'ICMP(seq=7)/b"x"', 'ICMP(id=77)/b"abcdefghijklmnop"'])
    @pytest.mark.parametrize(
        ("sender", "to"), [("client", "192.168.60.123"), ("curl", "10.200.2.20"), ("node-a", "192.168.60.123")]
    )
    def test_pings(self, lab: netlab.Lab, sender: str, to: str, ping: str) -> None:
        walk = lab.walk(sender, packet=f'IP(dst="{to}")/{ping}')
        check(walk)
        assert walk.verdict == "answered"
        assert walk.gaps == ()
        told = summary(walk)
        assert "0 DNAT, 0 SNAT." in told.en

    @pytest.mark.parametrize("flags", ["R", "RA"])
    def test_a_reset_is_sent_and_not_answered(self, lab: netlab.Lab, flags: str) -> None:
        walk = lab.walk("client", packet=f'IP(dst="10.200.1.2")/TCP(dport=80, flags="{flags}")', timeout=0.3)
        check(walk)
        assert walk.verdict in ("no-reply", "dropped")
        assert walk.steps[0].place == "client"
        assert any(step.place == "node-a" for step in walk.steps)

    @pytest.mark.parametrize("protocol", ["UDP(dport=53)", "ICMP()"])
    def test_a_packet_that_is_too_long_for_the_link_is_cut(self, lab: netlab.Lab, protocol: str) -> None:
        to = "10.96.0.7" if protocol.startswith("UDP") else "10.200.2.20"
        walk = lab.walk("curl", packet=f'IP(dst="{to}")/{protocol}/b"{"0123456789" * 300}"')
        check(walk)
        assert walk.verdict == "answered"
        assert walk.gaps == ()

    def test_a_packet_that_is_too_long_and_must_not_be_cut(self, lab: netlab.Lab) -> None:
        packet = f'IP(dst="10.96.0.7", flags="DF")/UDP(dport=53)/b"{"0123456789" * 300}"'
        with pytest.raises(BadInput, match=r"to 10\.96\.0\.7:53 could not be sent: Message too long"):
            lab.walk("curl", packet=packet)

    @pytest.mark.parametrize(
        ("packet", "to", "said"),
        [
            ('IP(dst="255.255.255.255")/UDP(dport=80)', None, "is no address of one host"),
            ('IP(dst="10.96.0.1", frag=5)/TCP(dport=80)', None, "other than the first has no transport header"),
            ('IP(dst="10.96.0.1", ihl=4)/TCP(dport=80)', None, "its IP header is none"),
            ("IP()/TCP()", "www.example.com:80", "names are not supported yet"),
            ("IP()/TCP()", "[fd00::1]:80", "has an IPv4 header, but --to says"),
            ("IP()/TCP()", None, "needs an IP or IPv6 layer with a destination"),
        ],
    )
    def test_packets_that_cannot_be_followed(self, lab: netlab.Lab, packet: str, to: str | None, said: str) -> None:
        with pytest.raises(BadInput, match=said):
            lab.walk("curl", to, packet=packet)

    def test_a_protocol_that_the_packet_does_not_have(self, lab: netlab.Lab) -> None:
        with pytest.raises(BadInput, match="--packet is tcp, but --proto says udp"):
            lab.walk("curl", packet='IP(dst="10.96.0.1")/TCP(dport=80)', protocol="udp")
        assert lab.walk("curl", packet='IP(dst="10.200.2.20")/ICMP()', protocol="icmp").verdict == "answered"

    def test_a_broadcast_to_a_network_of_the_sender_is_refused_by_the_kernel(self, lab: netlab.Lab) -> None:
        with pytest.raises(BadInput, match=r"192\.168\.1\.255:80 could not be sent: Permission denied"):
            lab.walk("client", "192.168.1.255:80", protocol="udp")

    def test_sctp_reaches_a_pod_that_does_not_speak_it(self, lab: netlab.Lab) -> None:
        walk = lab.walk("client", "10.200.1.2:80", protocol="sctp")
        check(walk)
        assert walk.verdict == "unreachable"


def test_masquerade_all(tmp_path: Path) -> None:
    text = NODEPORT.read_text().replace("mode: iptables\n", "mode: iptables\niptables: {masqueradeAll: true}\n")
    file = tmp_path / "all.yaml"
    file.write_text(text)
    with netlab.open_lab(file) as lab:
        for pod, seen in (("web-1", "10.200.1.1:"), ("web-3", "192.168.60.123:")):
            walk = until(lambda: lab.walk("curl", "10.96.0.1:80"), reached(pod))
            check(walk)
            assert walk.seen_by_pod is not None
            assert walk.seen_by_pod.startswith(seen)
            mark = next(step for step in walk.steps if step.action == "jump KUBE-MARK-MASQ")
            assert mark.origin is not None
            assert mark.origin.field == "iptables.masqueradeAll"
            assert mark.origin.line == text[: text.index("masqueradeAll")].count("\n") + 1


def test_walks_side_by_side_do_not_mix(lab: netlab.Lab) -> None:
    """Other connections to the same Service, all the time, change nothing in a walk."""
    from netlab.api import Lab

    assert isinstance(lab, Lab)
    first = until(lambda: lab.walk("client", "192.168.60.123:30080"), reached("web-3"))
    second = until(lambda: lab.walk("client", "192.168.60.123:30080"), reached("web-3"))
    strip = [(s.place, s.interface, s.hook, s.chain, s.action) for s in first.steps]
    assert strip == [(s.place, s.interface, s.hook, s.chain, s.action) for s in second.steps]


class TestCommand:
    def test_the_table_fits_80_columns(self) -> None:
        from rich.cells import cell_len

        for language in ("C.UTF-8", "zh_CN.UTF-8"):
            result = run("walk", str(NODEPORT), "--from", "client", "--to", "192.168.60.123:30080", LANG=language)
            assert result.returncode == 0, result.stderr
            assert result.stderr == ""
            assert max(cell_len(line) for line in result.stdout.splitlines()) <= 80
            assert "\x1b" not in result.stdout
            for word in (
                "DNAT",
                "SNAT",
                "KUBE-SERVICES › KUBE-NODEPORTS",
                "»",
                "conntrack" if "C." in language else "连接跟踪",
            ):
                assert word in result.stdout

    @pytest.mark.parametrize("output", ["json", "yaml"])
    def test_machine_readable(self, output: str) -> None:
        import yaml

        result = run("walk", str(NODEPORT), "--from", "curl", "--to", "10.96.0.1:80", "-o", output)
        value = json.loads(result.stdout) if output == "json" else yaml.safe_load(result.stdout)
        jsonschema.validate(value, SCHEMA)
        assert value["probe"] == {"from": "curl", "to": "10.96.0.1:80", "protocol": "tcp"}

    def test_verbose_shows_every_step_and_its_evidence(self) -> None:
        result = run("walk", str(NODEPORT), "--from", "client", "--to", "192.168.60.123:30080", "-v")
        assert result.returncode == 0
        assert "frame:client/eth0#" in result.stdout
        assert "trace:node-a#" in result.stdout
        assert "-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000" in result.stdout

    def test_exit_status_tells_the_answer(self) -> None:
        result = run("walk", str(NODEPORT), str(LABS / "services.yaml"), "--from", "curl", "--to", "10.96.0.9:80")
        assert result.returncode == 1
        assert "rejected by a rule on node-a" in result.stdout

    def test_from_standard_input(self) -> None:
        command: list[str | Path] = [
            ROOT / ".venv/bin/kube-netlab",
            "walk",
            "-",
            "--from",
            "curl",
            "--to",
            "10.96.0.1:80",
            "-o",
            "json",
        ]
        result = subprocess.run(command, input=NODEPORT.read_bytes(), capture_output=True, check=False, timeout=60)
        assert json.loads(result.stdout)["verdict"] == "answered"

    def test_the_capture_tells_the_story(self, tmp_path: Path) -> None:
        file = tmp_path / "walk.pcapng"
        result = run("walk", str(NODEPORT), "--from", "client", "--to", "192.168.60.123:30080", "--pcap", str(file))
        assert result.returncode == 0
        fields = ["-T", "fields", "-e", "frame.interface_name", "-e", "frame.comment"]
        shown = subprocess.run(
            ["tshark", "-r", file, "-Y", "frame.comment", *fields], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        names = [line.partition("\t")[0] for line in shown]
        assert names[0] == "client/eth0"
        assert names[-1] == "client/eth0"
        assert "node-a/eth0" in names
        comments = " ".join(shown)
        assert "DNAT in node-a PREROUTING by KUBE-SEP-" in comments
        assert "SNAT in node-a POSTROUTING by KUBE-POSTROUTING (-j MASQUERADE --random-fully)" in comments
        assert "DNAT undone in node-a POSTROUTING" in comments
