"""The Python API: a lab as a context manager. Everything the command can do, this can do too."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any

from netlab.engine.client import EngineClient
from netlab.engine.files import OutputFile, read_files
from netlab.microvm.start import loaded_engine
from netlab.model.changes import Changes
from netlab.model.text import Text
from netlab.model.walk import Walk

if TYPE_CHECKING:
    from scapy.packet import Packet as ScapyPacket

PathLike = str | os.PathLike[str]


def open_lab(*files: PathLike, mode: str | None = None, vm: bool = False) -> Lab:
    """A lab made of lab files; enter it with ``with``. ``mode`` overrides kube-proxy's mode on every node.

    ``vm``: in a microVM. Without it, the lab is in one where this kernel lacks what it needs; then a note says so.
    """
    return Lab(files, mode=mode, vm=vm)


class Lab:
    """One lab, up while its ``with`` block lasts.

    Entering raises :class:`netlab.model.errors.BadInput` for files that cannot be used, and
    :class:`netlab.model.errors.MachineCannot` where the machine lacks what a lab needs.
    """

    def __init__(self, files: Sequence[PathLike], mode: str | None = None, *, vm: bool = False) -> None:
        self.files = [os.fspath(each) for each in files]
        self.mode = mode
        self.vm = vm
        self.name = ""
        self.notes: list[Text] = []
        self._client: EngineClient | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Lab:
        sources = read_files(self.files)
        with ExitStack() as stack:
            notes: list[Text] = []
            engine = loaded_engine(sources, self.mode, notes.append, vm=self.vm)
            client, loaded = stack.enter_context(engine)
            self.name, self.notes = loaded.name, [*notes, *loaded.notes]
            client.start()
            self._client = client
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client = None
        self._stack.close()

    @property
    def client(self) -> EngineClient:
        """The connection to the lab's engine."""
        if self._client is None:
            raise RuntimeError("the lab is not up: use it within its 'with' block")
        return self._client

    def describe(self) -> dict[str, Any]:
        """What the lab consists of."""
        result: dict[str, Any] = self.client.call("lab.describe")
        return result

    def run(self, place: str, *command: str, stdin: bytes = b"") -> tuple[int, bytes, bytes]:
        """Run a command in the network namespace of a client, a node, a Pod ("[namespace/]pod") or the "router".

        Returns its exit status and what it wrote to standard output and standard error.
        """
        return self.client.execute(place, command, stdin)

    def apply(self, *what: PathLike) -> Changes:
        """Create or change objects, given as YAML text or as files; returns when every node has its rules.

        Services, EndpointSlices, Pods and the labels of nodes can change; what an object does not say of itself stays
        as it is. Raises :class:`netlab.model.errors.BadInput`, and then nothing has changed.
        """
        sources: list[tuple[str, bytes]] = []
        for each in what:
            if isinstance(each, str) and "\n" in each:
                sources.append(("text", each.encode()))
            else:
                sources += read_files([os.fspath(each)])
        return self.client.apply(sources)

    def delete(self, kind: str, name: str, namespace: str = "default") -> None:
        """Take a Service, an EndpointSlice or a Pod away; returns when every node has its rules."""
        self.client.delete(kind, name, namespace)

    def kill_proxy(self, node: str) -> None:
        """End a node's kube-proxy with SIGKILL; what it programmed stays until :meth:`restart_proxy`."""
        self.client.call("proxy.kill", node=node)

    def restart_proxy(self, node: str, mode: str | None = None) -> None:
        """Start a node's kube-proxy anew, in another mode if one is given; returns when it has programmed its node."""
        self.client.call("proxy.restart", node=node, mode=mode)

    def walk(
        self,
        sender: str,
        destination: str | None = None,
        *,
        protocol: str | None = None,
        packet: str | ScapyPacket | None = None,
        timeout: float = 2.0,
        pcap: PathLike | None = None,
        language: str = "en",
    ) -> Walk:
        """Send one probe and return its walk.

        ``sender``: a client, a node, or "[namespace/]pod". ``destination``: "ADDR:PORT", or "ADDR" for icmp.
        ``protocol``: "tcp" (if not given), "udp", "sctp" or "icmp"; that of a ``packet`` is what its layers say.
        ``packet``: scapy layers instead of a connection, as an object or as an expression. ``timeout``: seconds.
        ``pcap``: where to write the capture file, with comments in ``language`` ("en" or "zh").
        """
        expression = packet if packet is None or isinstance(packet, str) else packet.command()
        with ExitStack() as stack:
            file = OutputFile(os.fspath(pcap), self.files) if pcap is not None else None
            if file is not None:
                stack.callback(file.close)
            walk, capture = self.client.walk(
                sender, destination, protocol, expression, timeout, capture=file is not None, language=language
            )
            if file is not None:
                file.write(capture)
        return walk
