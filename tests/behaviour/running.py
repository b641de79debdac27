"""A lab for the tests of behaviour, in a microVM where this kernel lacks what its mode needs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from netlab.engine.client import EngineClient
from netlab.microvm.start import loaded_engine
from netlab.model import jsonrpc
from netlab.model.changes import Changes
from netlab.model.walk import Walk
from tests.conftest import ROOT

LABS = ROOT / "tests" / "labs" / "behaviour"
PYTHON = os.path.realpath(sys.executable)
"""The machine's own, which a guest has as well."""
POOL_ROUTE = ("ip", "route", "add", "203.0.113.0/24", "via", "192.168.50.11")
"""The addresses of load balancers and externalIPs are n1's business, as the router has it."""

TALK = """
import json, socket, sys
def talk(host, port, count, protocol, source):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    kind = socket.SOCK_STREAM if protocol == "tcp" else socket.SOCK_DGRAM
    said = []
    for _ in range(count):
        with socket.socket(family, kind) as talker:
            talker.settimeout(2)
            if source:
                talker.bind(("", source))
            try:
                talker.connect((host, port))
                own = talker.getsockname()[0]
                talker.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
                data = b""
                while piece := talker.recv(65536):
                    data += piece
                    if protocol == "udp":
                        break
                answer = json.loads(data.rstrip().rpartition(b"\\n")[2])
                said.append({**answer, "own": own})
            except (OSError, ValueError) as error:
                return [*said, {"error": type(error).__name__}]
    return said
print(json.dumps([talk(*each) for each in json.loads(sys.argv[1])]))
"""
"""Says who answered each of many connections (or datagrams, each from a socket of its own), until one fails."""

HOLD = """
import socket, sys
held = socket.create_connection((sys.argv[1], int(sys.argv[2])), 2)
ears = socket.create_server(("127.0.0.1", int(sys.argv[3])))
while True:
    asking, _ = ears.accept()
    with asking:
        if asking.recv(100) == b"end":
            break
        try:
            held.sendall(b"hello\\n")
            asking.sendall(held.recv(100))
        except OSError as error:
            asking.sendall(type(error).__name__.encode())
"""
ASK = """
import socket, sys
while True:
    try:
        with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5) as asking:
            asking.sendall(sys.argv[2].encode())
            print(asking.recv(100).decode().strip())
            break
    except ConnectionRefusedError:
        pass
"""

Target = tuple[str, int, str, int]
"""ADDR:PORT, how many connections, protocol, source port (0: any)."""


@dataclass(frozen=True)
class Answer:
    """What one connection came to: the Pod that answered, what it saw as the client, the sender's own address, the port
    it was asked at; or the kind of error."""

    pod: str = ""
    seen: str = ""
    own: str = ""
    port: int = 0
    error: str = ""


class Running:
    """A lab that is up, in one mode."""

    def __init__(self, client: EngineClient, mode: str) -> None:
        self.client = client
        self.mode = mode
        self.answers: dict[tuple[str, Target], list[Answer]] = {}
        """Who answered whom: all that one sender is to send is sent by one process."""

    def walk(self, sender: str, to: str, protocol: str = "tcp", timeout: float = 2.0) -> Walk:
        return self.client.walk(sender, to, protocol, None, timeout)[0]

    def run(self, place: str, *command: str) -> str:
        """What a command prints; it has to succeed."""
        status, out, err = self.client.execute(place, command)
        assert status == 0, (command, out, err)
        return out.decode()

    def talk(self, sender: str, to: str, count: int = 40, protocol: str = "tcp", source: int = 0) -> list[Answer]:
        """Who answers each of many connections."""
        return self.talk_all(sender, [(to, count, protocol, source)])[0]

    def talk_all(self, sender: str, targets: Sequence[Target]) -> list[list[Answer]]:
        """The same for several targets, in one process."""
        words = []
        for to, count, protocol, source in targets:
            host, _, port = to.rpartition(":")
            words.append((host.strip("[]"), int(port), count, protocol, source))
        said = json.loads(self.run(sender, PYTHON, "-IS", "-c", TALK, json.dumps(words)))
        return [[_answer(each) for each in one] for one in said]

    def hold(self, place: str, host: str, port: int, control: int) -> None:
        """Open a TCP connection in a place and keep it open; see :meth:`ask`."""
        command = [PYTHON, "-IS", "-c", HOLD, host, str(port), str(control)]
        params = {"place": place, "command": command, "stdin": ""}
        # Its answer comes when the connection is let go; nobody waits for it.
        self.client.connection.sendall(jsonrpc.request(1_000_000 + control, "lab.exec", params))

    def ask(self, place: str, control: int, word: str = "echo") -> str:
        """What comes back over a connection that is held, or the kind of error."""
        return self.run(place, PYTHON, "-IS", "-c", ASK, str(control), word).strip()

    def rules(self, node: str) -> str:
        """All that kube-proxy has programmed on a node, as its tools print it."""
        text: str = self.client.call("lab.rules", node=node)["text"]
        return text

    def conntrack(self, node: str, *words: str) -> list[str]:
        """The entries of a node's connection tracking table that have all these words in them."""
        listed = self.run(node, "conntrack", "-L").splitlines()
        return [line for line in listed if all(word in line.split() for word in words)]

    def get(self, place: str, host: str, port: int, path: str = "/") -> tuple[int, dict[str, str], Any]:
        """Status, headers and JSON of an HTTP answer."""
        script = (
            "import json, sys, http.client as h\n"
            "c = h.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout=2)\n"
            "c.request('GET', sys.argv[3]); r = c.getresponse()\n"
            "print(json.dumps([r.status, dict(r.getheaders()), r.read().decode()]))"
        )
        status, headers, body = json.loads(self.run(place, PYTHON, "-IS", "-c", script, host, str(port), path))
        return status, headers, json.loads(body)

    def objects(self, kind: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.client.call("objects.list", kinds=[kind])["objects"]
        return found

    def apply(self, text: str) -> Changes:
        return self.client.apply([("change.yaml", text.encode())])

    def delete(self, kind: str, name: str) -> None:
        self.client.delete(kind, name, "default")


def _answer(said: dict[str, str]) -> Answer:
    if "error" in said:
        return Answer(error=said["error"])
    port = int(said["server"].rpartition(":")[2])
    pod = said["pod"].rpartition("/")[2]
    return Answer(pod, said["client"].rpartition(":")[0].strip("[]"), said["own"], port)


@contextmanager
def running(mode: str, *files: str, changes: dict[str, str] | None = None) -> Iterator[Running]:
    """A lab made of files of the folder of behaviour, as long as the block lasts; ``changes`` to their text."""
    sources = []
    for name in files:
        text = (LABS / name).read_text() if name.endswith(".yaml") else name
        for old, new in (changes or {}).items():
            text = text.replace(old, new)
        sources.append((name if name.endswith(".yaml") else "text.yaml", text.encode()))
    with loaded_engine(sources, mode, lambda _: None) as (client, _):
        client.start()
        lab = Running(client, mode)
        lab.run("router", *POOL_ROUTE)
        yield lab


def verdicts(walk: Walk) -> str:
    """A walk in few words, for a failed comparison."""
    steps = [f"{step.place} {step.chain or step.hook or step.interface} {step.action}" for step in walk.steps]
    return msgspec.json.encode({"verdict": walk.verdict, "endpoint": walk.endpoint, "steps": steps}).decode()
