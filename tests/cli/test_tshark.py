"""Capture files as Wireshark's own tools read them, with the profiles of ``assets/wireshark`` and without.

One connection through a NodePort is seen at six interfaces; node-a sees it with both its addresses, before and after
NAT. The packets are made by scapy.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from scapy.layers.dns import DNS, DNSQR, DNSRR
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from netlab.model.records import Direction, Frame, Loss
from netlab.packets.pcapng import Capture, Encoder, Interface, chunks, write

ROOT = Path(__file__).parents[2]
PROFILES = ROOT / "assets" / "wireshark"
ALARMS = (
    "tcp.analysis.retransmission",
    "tcp.analysis.fast_retransmission",
    "tcp.analysis.spurious_retransmission",
    "tcp.analysis.duplicate_ack",
    "tcp.analysis.out_of_order",
)
ANY_ALARM = " || ".join(ALARMS)
WARNING_OR_WORSE = "_ws.expert.severity >= 0x600000"
RUNS_AS_ROOT = re.compile(r"Running as user \"\w+\" and group \"\w+\". This could be dangerous.\n")
UNKNOWN_PREFERENCE = re.compile(r"\n?.*read_prefs_file\(\): No such preference .*\n.*\n")

CLIENT, NODE_PORT = ("192.168.1.100", 43210), ("192.168.60.123", 30080)
NODE, POD = ("192.168.60.123", 50001), ("10.200.2.5", 8080)
RESPONSE = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4000\r\n\r\n" + b"kube-netlab " * 333 + b"end\n"
)
SEGMENT = 1448


class Sighting(NamedTuple):
    """Where a request is seen: which way, with the addresses of before or after NAT, on which link."""

    interface: Interface
    direction: Direction
    changed: bool
    link: int


PATH = (
    Sighting(Interface("client", "eth0"), "out", False, 1),
    Sighting(Interface("router", "eth0"), "in", False, 1),
    Sighting(Interface("router", "eth1", "to the nodes"), "out", False, 2),
    Sighting(Interface("node-a", "eth0"), "in", False, 2),
    Sighting(Interface("node-a", "eth0"), "out", True, 3),
    Sighting(Interface("node-b", "eth0"), "in", True, 3),
    Sighting(Interface("default.web", "eth0"), "in", True, 4),
)
INTERFACES = tuple(dict.fromkeys(sighting.interface for sighting in PATH))
IDLE = Interface("node-c", "eth0")


def segments() -> Iterator[tuple[bool, TCP, bytes]]:
    """A connection, as (whether it goes from the client, header, data): handshake, request, response, end."""
    request = b"GET / HTTP/1.1\r\nHost: web\r\n\r\n"
    ours, theirs = 1000, 9000
    options = [("MSS", 1460), ("SAckOK", b""), ("WScale", 7)]
    yield True, TCP(flags="S", seq=ours, window=64240, options=options), b""
    yield False, TCP(flags="SA", seq=theirs, ack=ours + 1, window=65160, options=options), b""
    ours, theirs = ours + 1, theirs + 1
    yield True, TCP(flags="A", seq=ours, ack=theirs, window=502), b""
    yield True, TCP(flags="PA", seq=ours, ack=theirs, window=502), request
    ours += len(request)
    yield False, TCP(flags="A", seq=theirs, ack=ours, window=509), b""
    for start in range(0, len(RESPONSE), SEGMENT):
        data = RESPONSE[start : start + SEGMENT]
        yield False, TCP(flags="PA", seq=theirs, ack=ours, window=509), data
        theirs += len(data)
        yield True, TCP(flags="A", seq=ours, ack=theirs, window=502), b""
    yield True, TCP(flags="FA", seq=ours, ack=theirs, window=502), b""
    yield False, TCP(flags="FA", seq=theirs, ack=ours + 1, window=509), b""
    yield True, TCP(flags="A", seq=ours + 1, ack=theirs + 1, window=502), b""


def along(path: tuple[Sighting, ...], forward: bool, payload: Packet, identification: int, time_ns: int) -> list[Frame]:
    """One packet at every interface of its ``path``, 7 µs apart; ``payload`` is given its ports."""
    frames: list[Frame] = []
    for hop, sighting in enumerate(path if forward else path[::-1]):
        (source, sport), (destination, dport) = (NODE, POD) if sighting.changed else (CLIENT, NODE_PORT)
        ends = (f"02:00:00:00:{sighting.link:02x}:01", f"02:00:00:00:{sighting.link:02x}:02")
        direction = sighting.direction
        if not forward:
            source, sport, destination, dport = destination, dport, source, sport
            ends = ends[::-1]
            direction = "in" if direction == "out" else "out"
        layer = payload.copy()
        layer.sport, layer.dport = sport, dport
        data = bytes(
            Ether(src=ends[0], dst=ends[1])
            / IP(src=source, dst=destination, id=identification, ttl=64 - sighting.link)
            / layer
        )
        place, name = sighting.interface.place, sighting.interface.name
        moment = time_ns + 7_000 * hop
        frames.append(Frame(f"{identification}:{hop}", place, name, direction, moment, data, len(data)))
    return frames


def connection() -> list[Frame]:
    frames: list[Frame] = []
    for number, (forward, header, data) in enumerate(segments()):
        began = 1_700_000_000_000_000_000 + number * 100_000
        frames += along(PATH, forward, header / Raw(data) if data else header, number, began)
    return frames


def questions() -> list[Frame]:
    """A DNS question and its answer; both ports are those of DNS, so that Wireshark knows it."""
    frames: list[Frame] = []
    question = DNSQR(qname="web.default.svc.cluster.local")
    answer = DNSRR(rrname="web.default.svc.cluster.local", rdata="10.96.0.20")
    for number, (forward, message) in enumerate(
        [(True, DNS(id=7, qd=question)), (False, DNS(id=7, qr=1, qd=question, an=answer))]
    ):
        began = 1_700_000_000_000_000_000 + number * 100_000
        for seen in along(PATH, forward, UDP() / message, number, began):
            packet = Ether(seen.data)
            packet[UDP].sport, packet[UDP].dport = (40000, 53) if forward else (53, 40000)
            frames.append(Frame(seen.id, seen.place, seen.interface, seen.direction, seen.time_ns, bytes(packet), 1))
    return frames


def comments(frames: list[Frame]) -> dict[str, list[str]]:
    """What a walk would say of the first request and its reply."""
    said = {seen.id: [f"seen at {seen.place}/{seen.interface}"] for seen in frames[: 2 * len(PATH)]}
    said["0:4"] += ["DNAT to 10.200.2.5:8080 by KUBE-SEP-ABC", "源地址改为 192.168.60.123:50001"]
    return said


def save(path: Path, frames: list[Frame]) -> Path:
    began, ended = frames[0].time_ns - 1_000_000, frames[-1].time_ns + 1_000_000
    losses = [Loss("node-b", "frame", 12)]
    said = ["A walk from client to 192.168.60.123:30080."]
    capture = Capture((*INTERFACES, IDLE), frames, began, ended, comments(frames), said, losses)
    with path.open("wb") as file:
        write(file, chunks(capture, Encoder("0.1.0", "Linux 6.1.0 x86_64", hardware="x86_64")))
    return path


class Wireshark:
    """Wireshark's command line tools in a home of their own, in which the profiles are installed."""

    def __init__(self, home: Path) -> None:
        for tool in ("tshark", "capinfos"):
            if shutil.which(tool) is None:
                pytest.fail(f"{tool} is missing: apt install tshark")
        self.home = home
        shutil.copytree(PROFILES, home / ".config" / "wireshark" / "profiles")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("WIRESHARK_", "XDG_"))}
        self.environment = {**kept, "HOME": str(home), "LC_ALL": "C.UTF-8"}
        major, minor = re.findall(r"\d+", self.run("tshark", "--version").splitlines()[0])[:2]
        self.profiles = ["kube-netlab", *(["kube-netlab-4.4"] if (int(major), int(minor)) >= (4, 4) else [])]

    def run(self, *command: str, complaints: re.Pattern[str] | None = None) -> str:
        """The output of ``command``, which must succeed and complain of nothing but ``complaints``."""
        done = subprocess.run(command, env=self.environment, cwd=self.home, capture_output=True, text=True, check=False)
        said = RUNS_AS_ROOT.sub("", done.stderr)
        if complaints is not None:
            said = complaints.sub("", said)
        assert (done.returncode, said.strip()) == (0, "")
        return done.stdout

    def read(self, path: Path, *arguments: str, profile: str | None = None) -> list[str]:
        chosen = [] if profile is None else ["-C", profile]
        return self.run("tshark", *chosen, "-r", str(path), *arguments).splitlines()

    def count(self, path: Path, display_filter: str, profile: str | None = None) -> int:
        return len(self.read(path, "-Y", display_filter, profile=profile))


@pytest.fixture(scope="module")
def wireshark(tmp_path_factory: pytest.TempPathFactory) -> Wireshark:
    return Wireshark(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("captures") / "walk.pcapng", connection())


def test_capinfos_reads_the_whole_file(wireshark: Wireshark, walk: Path) -> None:
    said = wireshark.run("capinfos", str(walk))
    assert re.search(rf"Number of packets: +{len(connection())}\n", said)
    assert re.search(r"File timestamp precision: +nanoseconds", said)
    assert re.search(r"Strict time order: +True", said)
    assert re.search(r"Capture application: +kube-netlab 0\.1\.0", said)
    assert re.search(r"Capture oper-sys: +Linux 6\.1\.0 x86_64", said)
    assert re.search(r"Capture comment: +A walk from client to 192\.168\.60\.123:30080\.", said)
    assert re.search(r"Capture comment: +Frames lost at node-b: 12,", said)
    names = re.findall(r"Name = (\S+)", said)
    assert names == [interface.label for interface in (*INTERFACES, IDLE)]
    assert said.count("Number of stat entries = 1") == len(names)
    counts = [int(count) for count in re.findall(r"Number of packets = (\d+)", said)]
    seen = Counter(f"{each.place}/{each.interface}" for each in connection())
    assert counts == [seen[name] for name in names]


def test_tshark_reads_interfaces_directions_times_and_comments(wireshark: Wireshark, walk: Path) -> None:
    fields = ("frame.interface_name", "frame.packet_flags_direction", "frame.time_epoch", "frame.comment")
    output = wireshark.read(walk, "-T", "fields", "-E", "aggregator=|", *(f"-e{name}" for name in fields))
    frames = connection()
    said = comments(frames)
    for line, seen in zip(output, frames, strict=True):
        interface, direction, moment, comment = line.split("\t")
        assert interface == f"{seen.place}/{seen.interface}"
        assert int(direction, 16) == {"in": 1, "out": 2}[seen.direction]
        assert moment == f"{seen.time_ns // 10**9}.{seen.time_ns % 10**9:09d}"
        assert comment == "|".join(said.get(seen.id, []))
    described = wireshark.read(walk, "-Y", "frame.interface_description", "-T", "fields", "-eframe.interface_name")
    assert set(described) == {"router/eth1"}


def test_without_a_profile_sightings_count_as_sent_again(wireshark: Wireshark, walk: Path) -> None:
    assert wireshark.count(walk, "tcp.analysis.retransmission") > 20
    assert wireshark.count(walk, "tcp.analysis.duplicate_ack") > 10


def test_with_a_profile_no_sighting_counts_as_sent_again(wireshark: Wireshark, walk: Path) -> None:
    for profile in wireshark.profiles:
        for alarm in ALARMS:
            assert wireshark.count(walk, alarm, profile) == 0, (profile, alarm)
        assert wireshark.read(walk, "-Y", WARNING_OR_WORSE, profile=profile) == []


def test_with_a_profile_requests_are_read_at_every_interface(wireshark: Wireshark, walk: Path) -> None:
    for profile in wireshark.profiles:
        assert wireshark.count(walk, "http.request", profile) == len(PATH)
        assert wireshark.count(walk, "http.response.code == 200", profile) == len(PATH)


def test_the_profile_for_newer_versions_still_finds_what_was_sent_again(wireshark: Wireshark, tmp_path: Path) -> None:
    frames = connection()
    again = along(
        PATH, True, TCP(flags="PA", seq=1001, ack=9001, window=502) / Raw(b"G" * 29), 99, 1_700_000_001 * 10**9
    )
    path = save(tmp_path / "again.pcapng", frames + again)
    found = wireshark.count(path, ANY_ALARM, wireshark.profiles[-1])
    assert found == (len(PATH) if "kube-netlab-4.4" in wireshark.profiles else 0)


def test_an_older_version_reads_with_the_newer_profile_all_the_same(wireshark: Wireshark, walk: Path) -> None:
    command = ("tshark", "-C", "kube-netlab-4.4", "-r", str(walk), "-Y", "frame.comment")
    assert len(wireshark.run(*command, complaints=UNKNOWN_PREFERENCE).splitlines()) == 2 * len(PATH)


def test_one_interface_saved_alone_needs_no_profile(wireshark: Wireshark, walk: Path, tmp_path: Path) -> None:
    alone = tmp_path / "node-a.pcapng"
    wireshark.run("tshark", "-r", str(walk), "-Y", 'frame.interface_name == "node-a/eth0"', "-w", str(alone))
    assert wireshark.count(alone, "tcp") == len(connection()) // len(PATH) * 2
    assert wireshark.count(alone, ANY_ALARM) == 0
    assert wireshark.count(alone, "tcp.analysis.ack_rtt") > 0


def test_dns_is_quiet_too(wireshark: Wireshark, tmp_path: Path) -> None:
    path = save(tmp_path / "dns.pcapng", questions())
    assert wireshark.count(path, "dns") == 2 * len(PATH)
    assert wireshark.count(path, WARNING_OR_WORSE) > 0
    for profile in wireshark.profiles:
        assert wireshark.count(path, WARNING_OR_WORSE, profile) == 0


def test_a_profile_shows_interface_and_comment_as_columns(wireshark: Wireshark, walk: Path) -> None:
    for profile in wireshark.profiles:
        lines = wireshark.read(walk, "-Y", "frame.comment contains DNAT", profile=profile)
        assert len(lines) == 1
        assert re.match(r" +5 +\S+ node-a/eth0 +192\.168\.60\.123 → 10\.200\.2\.5 +TCP ", lines[0])
        assert "DNAT to 10.200.2.5:8080 by KUBE-SEP-ABC" in lines[0]
        assert "源地址改为 192.168.60.123:50001" in lines[0]


def test_a_profile_colours_what_has_a_comment(wireshark: Wireshark, walk: Path) -> None:
    for profile in wireshark.profiles:
        rules = wireshark.read(walk, "--color", "-T", "fields", "-eframe.coloring_rule.name", profile=profile)
        assert rules[: 2 * len(PATH)] == ["A packet of a walk"] * (2 * len(PATH))
        assert set(rules[2 * len(PATH) :]) == {"TCP", "TCP begins or ends"}


def test_every_colour_and_button_has_a_filter_that_wireshark_knows(wireshark: Wireshark, walk: Path) -> None:
    lines = (PROFILES / "kube-netlab" / "colorfilters").read_text().splitlines()
    filters = [line.split("@")[2] for line in lines if not line.startswith("#")]
    buttons = (PROFILES / "kube-netlab" / "dfilter_buttons").read_text().splitlines()
    filters += [line.split('","')[2] for line in buttons if not line.startswith("#")]
    assert len(filters) > 5
    for display_filter in filters:
        wireshark.count(walk, display_filter)


def test_the_profiles_differ_in_their_preferences_for_tcp_alone() -> None:
    older, newer = PROFILES / "kube-netlab", PROFILES / "kube-netlab-4.4"
    names = {path.name for path in older.iterdir()}
    assert names == {path.name for path in newer.iterdir()}
    for name in names - {"preferences"}:
        assert (older / name).read_bytes() == (newer / name).read_bytes()
    settings = [
        {line for line in (profile / "preferences").read_text().splitlines() if line and not line.startswith("#")}
        for profile in (older, newer)
    ]
    assert settings[0] ^ settings[1] == {
        "tcp.analyze_sequence_numbers: FALSE",
        "tcp.desegment_tcp_streams: FALSE",
        "protocols.conversation_deinterlacing_key: .MI",
    }


def documented_commands() -> list[str]:
    """The commands in ``docs/captures.md`` for tshark and its files: those of kube-netlab are run with all
    documentation."""
    found = re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / "captures.md").read_text(), re.DOTALL)
    lines = [line for block in found for line in block.splitlines()]
    return [line for line in lines if not line.startswith(("wireshark ", "kube-netlab "))]


def test_the_commands_of_the_documentation_run(wireshark: Wireshark, walk: Path, tmp_path: Path) -> None:
    commands = documented_commands()
    assert len(commands) > 10
    shutil.copy(walk, tmp_path / "walk.pcapng")
    (tmp_path / "assets").symlink_to(ROOT / "assets")
    environment = {**wireshark.environment, "HOME": str(tmp_path / "home")}
    for command in commands:
        done = subprocess.run(
            ["sh", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert (done.returncode, RUNS_AS_ROOT.sub("", done.stderr).strip()) == (0, ""), command
        assert done.stdout or command.startswith(("mkdir", "cp")) or " -w " in command, command
