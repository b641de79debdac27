"""Whatever is wrong with files and words: one message that names the place, exit status 2, and nothing is made."""

from __future__ import annotations

import os
import re
import shlex
import stat
import sys
import threading
from pathlib import Path

import pytest

from netlab.engine.files import LIMIT_BYTES
from netlab.lab.input import read_input
from netlab.lab.resolve import resolve
from netlab.model.errors import BadInput
from netlab.objects import yaml_source
from netlab.objects.yaml_source import Source
from tests.cli.command import KUBE_NETLAB, Machine
from tests.cli.labfiles import FAULTS, GOOD, Fault
from tests.conftest import NODEPORT

pytestmark = pytest.mark.kernel

WALK = ("--from", "client", "--to", "192.168.60.123:30080")
CHINESE = {"LANG": "zh_CN.UTF-8"}
HAN = re.compile("[\u4e00-\u9fff]")
ORDINARY_USER = ("setpriv", "--reuid=1000", "--regid=1000", "--clear-groups")


class TestLabFiles:
    @pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
    def test_fault(self, fault: Fault) -> None:
        with pytest.raises(BadInput) as caught:
            resolve(read_input([Source("lab.yaml", fault.text.encode())]))
        english, chinese = caught.value.text.en, caught.value.text.zh
        assert english.startswith(f"lab.yaml:{fault.line}: ")
        assert chinese.startswith(f"lab.yaml:{fault.line}：")
        assert not [part for part in fault.said if part not in english]
        assert HAN.search(chinese)
        assert "\n" not in english + chinese

    @pytest.mark.parametrize("fault", FAULTS[::5], ids=lambda fault: fault.name)
    def test_fault_as_the_command_tells_it(self, machine: Machine, fault: Fault) -> None:
        lab = machine.lab(fault.text)
        machine.run("walk", "lab.yaml", *WALK, cwd=lab.parent).said(2, f"error: lab.yaml:{fault.line}: ", *fault.said)

    @pytest.mark.parametrize("fault", FAULTS[1::12], ids=lambda fault: fault.name)
    def test_fault_in_chinese(self, machine: Machine, fault: Fault) -> None:
        lab = machine.lab(fault.text)
        result = machine.run("up", "lab.yaml", cwd=lab.parent, environment=CHINESE)
        result.said(2, f"错误：lab.yaml:{fault.line}：")
        assert HAN.search(result.err.removeprefix("错误："))

    @pytest.mark.usefixtures("nothing_left")
    def test_every_fault_is_told_at_once(self, machine: Machine) -> None:
        text = GOOD.replace("nodePort: 30080", "nodePort: 80").replace("nodeName: node-b", "nodeName: node-z")
        result = machine.run("walk", machine.lab(text.replace("10.200.1.3}", "10.200.1.2}")), *WALK)
        result.said(2, "nodePort", "node-z", "10.200.1.2")
        assert len(result.err.splitlines()) == 3

    def test_too_many_faults_are_counted(self, machine: Machine) -> None:
        text = "".join(f"---\napiVersion: v1\nkind: Pod\nmetadata: {{name: A{n}}}\nspec: {{}}\n" for n in range(500))
        result = machine.run("walk", machine.lab(text), *WALK)
        result.said(2, "… and at least 180 more: nothing was read any further")
        assert len(result.err.splitlines()) == 21

    def test_the_file_of_each_fault_is_named(self, machine: Machine) -> None:
        one = machine.lab(GOOD, "one.yaml")
        two = machine.lab(
            "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}", "two.yaml"
        )
        machine.run("walk", one, two, *WALK).said(2, f"{two}:1: Service default/web already exists", f"{one}:22")

    def test_without_a_lab_document_its_defaults_are_named(self, machine: Machine) -> None:
        text = "".join(f"---\napiVersion: v1\nkind: Node\nmetadata: {{name: n{n}}}\n" for n in range(300))
        machine.run("walk", machine.lab(text), *WALK).said(2, "spec.networks.node", "a Lab document can make another")

    def test_a_value_without_end_is_cut(self, machine: Machine) -> None:
        result = machine.run(
            "walk", machine.lab("apiVersion: v1\nkind: Service\nspec: {type: " + "x" * 100_000 + "}"), *WALK
        )
        result.said(2, "lab.yaml:3")
        assert len(result.err) < 5000

    def test_a_value_cannot_steer_the_terminal(self, machine: Machine) -> None:
        text = 'apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {"\\e[2J\\u202e": b}}\nspec: {containers: []}'
        result = machine.run("walk", machine.lab(text), *WALK)
        result.said(2, "metadata.labels")
        assert "\x1b" not in result.err
        assert "\u202e" not in result.err


@pytest.mark.usefixtures("nothing_left")
class TestFiles:
    def test_none(self, machine: Machine) -> None:
        machine.run("walk", "nowhere.yaml", *WALK).said(2, "nowhere.yaml: cannot be read: No such file or directory")

    def test_a_folder(self, machine: Machine) -> None:
        machine.run("walk", machine.work, *WALK).said(2, "cannot be read: Is a directory")

    def test_one_that_may_not_be_read(self, machine: Machine, tmp_path: Path) -> None:
        lab = machine.lab(GOOD)
        lab.chmod(0o000)
        wrapper = ORDINARY_USER if os.getuid() == 0 else ()
        machine.run("walk", lab, *WALK, wrapper=wrapper).said(2, f"{lab}: cannot be read: Permission denied")

    def test_a_name_that_is_no_text(self, machine: Machine) -> None:
        machine.run("walk", b"\xff.yaml", *WALK).said(2, "cannot be read: No such file")
        lab = machine.work / os.fsdecode(b"\xff.yaml")
        lab.write_text("{")
        machine.run("walk", os.fsencode(lab), *WALK).said(2, "\ufffd.yaml:2: not readable as YAML")

    def test_a_pipe(self, machine: Machine) -> None:
        pipe = machine.work / "pipe"
        os.mkfifo(pipe)
        writer = threading.Thread(target=pipe.write_text, args=(GOOD,))
        writer.start()
        result = machine.run("walk", pipe, *WALK, "-o", "json")
        writer.join()
        result.done()

    def test_standard_input(self, machine: Machine) -> None:
        machine.run("walk", "-", *WALK, input=GOOD.encode()).done()
        machine.run("walk", "-", *WALK, input=b"kind: [").said(2, "error: -:2: not readable as YAML")

    def test_standard_input_is_closed(self, machine: Machine) -> None:
        result = machine.run("walk", "-", *WALK, before=lambda: os.close(0))
        result.said(2, "standard input is closed; - reads the lab from there")

    def test_nothing_in_it_is_the_default_lab(self, machine: Machine) -> None:
        result = machine.run("walk", "/dev/null", "--from", "client", "--to", "10.96.0.99:80", "--timeout", "0.2")
        assert result.status == 1

    def test_without_end(self, machine: Machine) -> None:
        machine.run("walk", "/dev/zero", *WALK).said(2, f"/dev/zero: the input is larger than {LIMIT_BYTES} bytes")

    def test_too_large_together(self, machine: Machine) -> None:
        half = machine.lab("# " + "x" * (LIMIT_BYTES * 2 // 3))
        machine.run("walk", half, half, *WALK).said(2, "larger than")

    def test_the_limit_is_that_of_the_engine(self) -> None:
        assert LIMIT_BYTES == yaml_source.LIMIT_BYTES

    def test_no_text(self, machine: Machine) -> None:
        lab = machine.work / "lab.yaml"
        lab.write_bytes(b"kind: \xff")
        machine.run("walk", lab, *WALK).said(2, f"{lab}: not UTF-8 text (byte 6)")


@pytest.mark.usefixtures("nothing_left")
class TestWords:
    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["walk", *WALK], "LAB.yaml…|NAME is missing; see 'kube-netlab walk --help'"),
            (["walk", "LAB", "--to", "10.0.0.1:80"], "--from is missing; see 'kube-netlab walk --help'"),
            (["walk", "LAB", "--from", "client"], "--to ADDR:PORT is needed"),
            (["walk", "LAB", "--from"], "--from needs a value"),
            (["walk", "LAB", "--verbose=yes", *WALK], "--verbose takes no value"),
            (["walk", "LAB", "--form", "client"], "there is no option --form (there is --from"),
            (["walk", "LAB", *WALK, "-o", "xml"], '-o: "xml" is none of table, json, yaml'),
            (["walk", "LAB", *WALK, "--timeout", "0"], '--timeout: "0": must be a number greater than 0'),
            (["walk", "LAB", *WALK, "--timeout", "nan"], "--timeout"),
            (["walk", "LAB", *WALK, "--timeout", "soon"], '--timeout: "soon"'),
            (["walk", "LAB", *WALK, "--timeout", "1e9"], "at most 3600"),
            (["walk", "LAB", *WALK, "--mode", "ebpf"], 'mode: "ebpf" is none of iptables, ipvs, nftables, userspace'),
            (["walk", "LAB", *WALK, "--mode", ""], 'mode: "" is none of'),
            (["walk", "LAB", *WALK, "--proto", "quic"], '--proto: "quic" is none of tcp, udp, sctp, icmp'),
            (["walk", "LAB", "--from", "nobody", "--to", "10.0.0.1:80"], "client, node-a, node-b, default/curl"),
            (["walk", "LAB", "--from", "", "--to", "10.0.0.1:80"], '--from: "" is no client, node or Pod'),
            (["walk", "LAB", "--from", b"\xff", "--to", "10.0.0.1:80"], "the words given for from are not UTF-8 text"),
            (["walk", "LAB", "--from", "router", "--to", "10.0.0.1:80"], '--from: "router" is no client, node or Pod'),
            (["walk", "LAB", "--from", "client", "--to", "web"], '--to: "web": names are not supported yet'),
            (["walk", "LAB", "--from", "client", "--to", "www.example.com:80"], "names are not supported yet"),
            (["walk", "LAB", "--from", "client", "--to", "224.0.0.1:80"], "is no address of one host"),
            (
                ["walk", "LAB", "--from", "client", "--proto", "udp", "--packet", 'IP(dst="10.0.0.1")/TCP(dport=80)'],
                "--packet is tcp, but --proto says udp",
            ),
            (["walk", "LAB", *WALK, "--packet", "IP()/TCP(dport=99999)"], "TCP: dport=99999 is not possible"),
            (["walk", "LAB", "--from", "client", "--to", "10.0.0.1"], "ADDR:PORT is expected"),
            (["walk", "LAB", "--from", "client", "--to", "10.0.0.1:0"], "ADDR:PORT is expected"),
            (["walk", "LAB", "--from", "client", "--to", "10.0.0.1:65536"], "ADDR:PORT is expected"),
            (["walk", "LAB", "--from", "client", "--to", "10.0.0.1:80", "--proto", "icmp"], "ADDR is expected"),
            (["walk", "LAB", *WALK, "--packet", "system('id')"], "scapy has no layer system"),
            (["walk", "LAB", *WALK, "--packet", "IP("], "--packet: column"),
            (["walk", "LAB", *WALK, "--packet", "TCP()"], "needs an IP or IPv6 layer"),
            (
                ["walk", "LAB", *WALK, "--pcap", "/nowhere/x.pcapng"],
                "/nowhere/x.pcapng: cannot be written: No such file",
            ),
            (["walk", "LAB", *WALK, "--pcap", "/tmp"], "/tmp: cannot be written: Is a directory"),
            (["walk", "LAB", *WALK, "--pcap", "/tmp/no-such-file/"], "cannot be written: Is a directory"),
            (["walk", "LAB", *WALK, "--pcap", "/proc/x.pcapng"], "/proc/x.pcapng: cannot be written"),
            (["walk", "LAB", *WALK, "--pcap", "x" * 300], "cannot be written: File name too long"),
            (["walk", "nobody", *WALK], 'no lab named "nobody" is running; none is running'),
            (["up"], "LAB.yaml… is missing; see 'kube-netlab up --help'"),
            (["up", "LAB", "--name", "My Lab"], '"My Lab" cannot be a lab\'s name'),
            (["up", "LAB", "--name", ""], '"" cannot be a lab\'s name'),
            (["up", "LAB", "--name", "../x"], '"../x" cannot be a lab\'s name'),
            (["up", "LAB", "--name", "x" * 64], "at most 63 characters"),
            (["up", "LAB", "-o", "csv"], '-o: "csv" is none of'),
            (["down"], "no lab is running"),
            (["down", "nobody"], 'no lab named "nobody" is running'),
            (["down", "a", "b"], "too many words: b"),
            (["ls", "all"], "too many words: all"),
            (["frob"], "there is no command \"frob\"; see 'kube-netlab --help'"),
        ],
        ids=lambda value: " ".join(str(each) for each in value)[:60] if isinstance(value, list) else "",
    )
    def test_words(self, machine: Machine, words: list[str | bytes], said: str) -> None:
        result = machine.run(*[str(NODEPORT) if word == "LAB" else word for word in words])
        result.said(2, said)
        assert len(result.err.splitlines()) == 1

    @pytest.mark.parametrize(
        "words",
        [
            ["walk", *WALK],
            ["walk", "LAB", "--form", "client"],
            ["walk", "LAB", "--from"],
            ["walk", "LAB", *WALK, "-o", "xml"],
            ["walk", "LAB", "--from", "nobody", "--to", "10.0.0.1:80"],
            ["ls", "all"],
            ["frob"],
            ["down", "nobody"],
        ],
        ids=" ".join,
    )
    def test_words_in_chinese(self, machine: Machine, words: list[str]) -> None:
        result = machine.run(*[str(NODEPORT) if word == "LAB" else word for word in words], environment=CHINESE)
        result.said(2)
        assert HAN.search(result.err.removeprefix("错误："))

    def test_no_words_are_answered_with_help(self, machine: Machine) -> None:
        result = machine.run()
        assert result.status == 2
        assert result.out == ""
        assert "walk" in result.err

    def test_help(self, machine: Machine) -> None:
        for words in (["--help"], ["walk", "--help"], ["up", "--help"]):
            result = machine.run(*words)
            result.done()
            assert "--help" in result.out

    def test_an_ambiguous_sender(self, machine: Machine) -> None:
        spec = "spec: {containers: [{name: a, image: b}]}"
        lab = machine.lab(f"{GOOD}---\napiVersion: v1\nkind: Pod\nmetadata: {{name: curl, namespace: other}}\n{spec}\n")
        machine.run("walk", lab, "--from", "curl", "--to", "10.96.0.1:80").said(
            2, "ambiguous", "default/curl, other/curl"
        )

    def test_an_ambiguous_lab(self, machine: Machine) -> None:
        for name in ("one", "two"):
            machine.run("up", NODEPORT, "--detach", "--name", name).done()
        machine.run("down").said(2, "several labs run: one, two; say which one")
        machine.run("walk", "three", *WALK).said(2, 'no lab named "three" is running; running: one, two')
        machine.run("walk", "one", *WALK, "--mode", "nftables").said(2, "--mode cannot be given for a running lab")
        for name in ("one", "two"):
            machine.run("down", name).done()

    def test_a_capture_file_is_made_only_when_there_is_something_in_it(self, machine: Machine) -> None:
        new, old = machine.work / "new.pcapng", machine.work / "old.pcapng"
        old.write_bytes(b"as it was")
        for path in (new, old):
            machine.run("walk", NODEPORT, "--from", "nobody", "--to", "10.0.0.1:80", "--pcap", path).said(2, "nobody")
        assert not new.exists()
        assert old.read_bytes() == b"as it was"

    def test_a_capture_file_replaces_what_was_there(self, machine: Machine) -> None:
        old = machine.work / "old.pcapng"
        old.write_bytes(b"x" * 10_000_000)
        machine.run("walk", NODEPORT, *WALK, "--pcap", old, "-o", "json").done()
        assert old.read_bytes()[:4] == b"\x0a\x0d\x0d\x0a"
        assert old.stat().st_size < 1_000_000

    @pytest.mark.parametrize("other", ["itself", "another name", "hard link", "symbolic link", "standard input"])
    def test_a_capture_file_is_never_the_lab_file(self, machine: Machine, other: str) -> None:
        lab = machine.lab(GOOD)
        second = machine.work / "second"
        if other == "hard link":
            os.link(lab, second)
        elif other == "symbolic link":
            second.symlink_to(lab)
        elif other == "another name":
            second = machine.work / ".." / machine.work.name / lab.name
        else:
            second = lab
        given = "-" if other == "standard input" else lab
        with lab.open("rb") as stdin:
            command = machine.start("walk", NODEPORT, given, *WALK, "--pcap", second, stdin=stdin.fileno())
            machine.result(command).said(2, f"{second}: is {given}, which the lab is read from")
        assert lab.read_text() == GOOD
        walk = f"lab.walk('client', '10.0.0.1:80', pcap={str(second)!r})"
        api = f"import netlab\nwith netlab.open_lab({str(lab)!r}) as lab: {walk}"
        result = machine.run("-c", api, program=(sys.executable,))
        assert "netlab.model.errors.BadInput" in result.err
        assert lab.read_text() == GOOD

    def test_a_capture_to_standard_output(self, machine: Machine) -> None:
        with (machine.work / "capture").open("wb") as file:
            walk = machine.start("walk", NODEPORT, *WALK, "--pcap", "-", stdout=file.fileno(), cwd=machine.work)
            result = machine.result(walk)
        assert (machine.work / "capture").read_bytes()[:4] == b"\x0a\x0d\x0d\x0a"
        assert result.status == 0
        assert "answered by" in result.err
        assert [path.name for path in machine.work.iterdir()] == ["capture"]

    def test_a_capture_to_a_reader_who_leaves(self, machine: Machine) -> None:
        command = shlex.join([str(KUBE_NETLAB), "walk", str(NODEPORT), *WALK, "--pcap", "-"])
        result = machine.run("-c", f"set -o pipefail; {command} | true", program=("bash",))
        assert result.status == 0
        assert "answered by" in result.err
        with open("/dev/full", "wb") as full:
            walk = machine.start("walk", NODEPORT, *WALK, "--pcap", "-", stdout=full.fileno())
            machine.result(walk).said(3, "standard output cannot be written: No space left on device")

    def test_a_capture_and_a_value_on_standard_output(self, machine: Machine) -> None:
        for form in ("json", "yaml"):
            result = machine.run("walk", NODEPORT, *WALK, "--pcap", "-", "-o", form)
            result.said(2, f"-o {form} would go too: give --pcap a file")

    def test_a_capture_on_a_terminal(self, machine: Machine) -> None:
        ours, theirs = os.openpty()
        walk = machine.start("walk", NODEPORT, *WALK, "--pcap", "-", stdout=theirs)
        os.close(theirs)
        machine.result(walk).said(2, "standard output is a terminal")
        os.close(ours)

    @pytest.mark.parametrize(
        "words",
        [
            ("walk", "LAB", *WALK, "--mode", "ebpf"),
            ("up", "LAB", "--mode", "ebpf"),
            ("compare", "LAB", *WALK, "--modes", "iptables,ebpf"),
            ("rules", "LAB", "--node", "node-a", "--dry-run", "--mode", "ebpf"),
            ("explain", "LAB", "web", "--node", "node-a", "--mode", "ebpf"),
        ],
    )
    def test_no_such_mode(self, machine: Machine, words: tuple[str, ...]) -> None:
        named = [str(NODEPORT) if word == "LAB" else word for word in words]
        machine.run(*named).said(2, '"ebpf" is none of iptables, ipvs, nftables, userspace')

    def test_a_capture_goes_into_a_pipe(self, machine: Machine) -> None:
        read, write = os.pipe()
        walk = machine.start("walk", NODEPORT, *WALK, "--pcap", f"/proc/{os.getpid()}/fd/{write}", "-o", "json")
        data = os.read(read, 4)
        os.close(read)
        machine.result(walk)
        os.close(write)
        assert data == b"\x0a\x0d\x0d\x0a"

    def test_a_capture_file_in_a_full_place(self, machine: Machine) -> None:
        result = machine.run("walk", NODEPORT, *WALK, "--pcap", "/dev/full")
        result.said(2, "/dev/full: cannot be written: No space left on device")

    def test_a_link_to_nothing_is_written_through(self, machine: Machine) -> None:
        link, there = machine.work / "link", machine.work / "there.pcapng"
        link.symlink_to(there)
        machine.run("walk", NODEPORT, *WALK, "--pcap", link, "-o", "json").done()
        assert stat.S_ISREG(there.stat().st_mode)
        assert link.is_symlink()
