"""The engine's side of the protocol: sessions, methods, and when the engine ends.

A frontend's session keeps the engine alive; when the last one goes, the engine ends, and the lab with it, unless it was
detached. A proxy's session does not count.
"""

from __future__ import annotations

import asyncio
import base64
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from netlab.cluster.store import Event, RevisionGone
from netlab.engine.export import capture_file
from netlab.engine.faults import as_error
from netlab.kernel import ipvs
from netlab.lab.lab import Lab, Zygotes
from netlab.lab.proxies import ProxyProcess
from netlab.model import jsonrpc
from netlab.model.errors import EXIT_MACHINE, BadInput, LabFailed
from netlab.model.keys import ObjectKey
from netlab.model.text import Message
from netlab.objects.yaml_source import Source

IPVS = "ipvs"
CHUNK = 512 * 1024
LOG_LIMIT = 1024 * 1024
STATUS_S = 1.0
"""How long the fork server may take to tell that a proxy has ended, seconds."""
BACKLOG_LIMIT = 64 * 1024 * 1024
"""Bytes that may wait for a slow peer before its session is closed."""

NO_SUCH_METHOD = Message(
    "engine.no-such-method",
    en="the engine has no method {method}",
    zh="引擎没有方法 {method}",
)
BAD_PARAMETERS = Message(
    "engine.bad-parameters",
    en="bad parameters for {method}: {what}",
    zh="{method} 的参数有误：{what}",
)
NO_LAB = Message("engine.no-lab", en="the engine has no lab yet", zh="引擎中还没有实验")
HAS_LAB = Message("engine.has-lab", en="the engine has a lab already", zh="引擎中已有实验")
NO_CAPTURE = Message("engine.no-capture", en="there is no capture of a walk yet", zh="还没有抓包记录")

Method = Callable[["Session", Mapping[str, Any]], Awaitable[Any]]


class Session(asyncio.Protocol):
    """One connection. ``node`` is set for the session of a node's proxy, and ``process`` is that proxy."""

    def __init__(self, engine: Engine, node: str | None = None) -> None:
        self.engine = engine
        self.node = node
        self.process: ProxyProcess | None = None
        self.transport: asyncio.Transport | None = None
        self._lines = jsonrpc.LineBuffer()
        self._tasks: set[asyncio.Task[None]] = set()
        self._end_watch: list[Callable[[], None]] = []

    def belongs_to(self, node: str) -> None:
        """The node's proxy of this moment has the other end."""
        self.process = self.engine.lab.proxies.processes.get(node)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.engine.session_opened(self)

    def data_received(self, data: bytes) -> None:
        try:
            for line in self._lines.feed(data):
                self._take(jsonrpc.decode(line))
        except (ValueError, msgspec.DecodeError):
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        for end in self._end_watch:
            end()
        for task in self._tasks:
            task.cancel()
        self.engine.session_closed(self)

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()

    def send(self, line: bytes) -> None:
        """Queue a message; a peer that does not read is cut off rather than waited for."""
        if self.transport is None or self.transport.is_closing():
            return
        self.transport.write(line)
        if self.transport.get_write_buffer_size() > BACKLOG_LIMIT:
            self.transport.abort()

    def on_close(self, end: Callable[[], None]) -> None:
        self._end_watch.append(end)

    def _take(self, message: jsonrpc.Message) -> None:
        if message.method is None:
            return
        task = asyncio.get_running_loop().create_task(self._answer(message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, message: jsonrpc.Message) -> None:
        assert message.method is not None
        try:
            result = await self.engine.call(self, message.method, message.params or {})
            line = jsonrpc.answer(message.id, result) if message.id is not None else b""
        except RevisionGone:
            line = self._failure(message, jsonrpc.Error(jsonrpc.GONE, "Expired: too old resource version"))
        except Exception as error:
            line = self._failure(message, jsonrpc.error_from(as_error(error, message.method)))
        if line:
            self.send(line)

    def _failure(self, message: jsonrpc.Message, error: jsonrpc.Error) -> bytes:
        return jsonrpc.failure(message.id, error) if message.id is not None else b""


class Engine:
    """Owns the lab and the sessions. :meth:`run` returns when the engine is to end."""

    def __init__(self, zygotes: Zygotes, limits: Mapping[str, int], directory: int | None) -> None:
        self.lab = Lab(zygotes, self._connect_proxy, limits)
        self.loaded = False
        self.started = False
        self.detached = False
        self.directory = directory
        self.socket_name: str | None = None
        self._frontends: set[Session] = set()
        self._ending = asyncio.Event()
        self._capture: bytes = b""
        self.methods: dict[str, Method] = {
            "engine.detach": self._detach,
            "engine.log": self._log,
            "engine.named": self._named,
            "engine.stop": self._stop,
            "lab.load": self._load,
            "lab.start": self._start,
            "lab.apply": self._apply,
            "lab.delete": self._delete,
            "lab.describe": self._describe,
            "lab.exec": self._exec,
            "lab.rules": self._rules,
            "lab.topology": self._topology,
            "lab.walk": self._walk,
            "capture.read": self._read_capture,
            "conntrack.list": self._connections,
            "conntrack.delete": self._forget_connection,
            "objects.list": self._list,
            "objects.watch": self._watch,
            "proxy.kill": self._kill_proxy,
            "proxy.restart": self._restart_proxy,
            "proxy.synced": self._proxy_synced,
            "proxy.failed": self._proxy_failed,
            "proxy.complaint": self._proxy_complaint,
            "proxy.connection": self._proxy_connection,
        }

    async def run(self, first: socket.socket, listener: socket.socket | None) -> None:
        """Serve the first frontend, and all others that connect."""
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(lambda: Session(self), first)
        server = None
        if listener is not None:
            server = await loop.create_unix_server(lambda: Session(self), sock=listener)
        await self._ending.wait()
        # While somebody listens, nobody else can take the name.
        self._forget_socket()
        if server is not None:
            server.close()

    def session_opened(self, session: Session) -> None:
        if session.node is None:
            self._frontends.add(session)

    def session_closed(self, session: Session) -> None:
        self._frontends.discard(session)
        if session.node is not None:
            asyncio.get_running_loop().call_later(STATUS_S, self._proxy_left, session)
        elif not self._frontends and not self.detached:
            self._ending.set()

    def _proxy_left(self, session: Session) -> None:
        """A proxy's connection has closed: the fork server has told by now with which status, or has died itself."""
        process = session.process
        if process is not None and process.ended is None:
            self.lab.proxies.exited(process, EXIT_MACHINE)

    async def call(self, session: Session, method: str, params: Mapping[str, Any]) -> Any:
        """Run a method. Raises :class:`NetlabError`."""
        known = self.methods.get(method)
        if known is None:
            raise BadInput(NO_SUCH_METHOD(method=method))
        if not isinstance(params, Mapping):
            raise BadInput(BAD_PARAMETERS(method=method, what="an object is expected"))
        try:
            return await known(session, params)
        except KeyError as error:
            raise BadInput(BAD_PARAMETERS(method=method, what=f"{error} is missing")) from error

    # Life

    async def _detach(self, session: Session, params: Mapping[str, Any]) -> None:
        self.detached = True

    async def _named(self, session: Session, params: Mapping[str, Any]) -> None:
        """The frontend has given the engine's socket a name in the folder of sockets."""
        self.socket_name = params["name"]

    async def _stop(self, session: Session, params: Mapping[str, Any]) -> None:
        asyncio.get_running_loop().call_soon(self.end)

    def end(self) -> None:
        """Have :meth:`run` return, as somebody wants it to: frontends are told that this is no failure."""
        for session in self._frontends:
            session.send(jsonrpc.notification("engine.ending", {}))
        self._ending.set()

    async def _log(self, session: Session, params: Mapping[str, Any]) -> str:
        """What the engine has written to standard error so far (its frontend gave it a file), in base64."""
        with suppress(OSError):
            return base64.b64encode(os.pread(2, LOG_LIMIT, max(0, os.fstat(2).st_size - LOG_LIMIT))).decode()
        return ""

    def _forget_socket(self) -> None:
        """Take the socket's name away. Where another user made it (root did), whoever lists labs next does that."""
        if self.directory is not None and self.socket_name is not None:
            with suppress(PermissionError, FileNotFoundError):
                os.unlink(self.socket_name, dir_fd=self.directory)

    # The lab

    async def _load(self, session: Session, params: Mapping[str, Any]) -> Any:
        """Read the files; nothing is made yet."""
        if self.loaded:
            raise BadInput(HAS_LAB())
        sources = _sources(params)
        self.lab.load(sources, params.get("mode"))
        self.loaded = True
        modes = {config.proxy_mode for config in self.lab.configs.values()}
        lacking = [mode for mode in modes if mode == IPVS and not ipvs.works()]
        return {"name": self.lab.name, "notes": self.lab.notes, "lacking": lacking}

    async def _start(self, session: Session, params: Mapping[str, Any]) -> Any:
        """Build and start what was read; answers when all of it is up."""
        if not self.loaded or self.started:
            raise BadInput(HAS_LAB() if self.started else NO_LAB())
        self.started = True
        try:
            await self.lab.start()
        except LabFailed as error:
            if self.lab.failed is not None:
                raise LabFailed(self.lab.failed) from error
            raise
        return self.lab.describe()

    async def _describe(self, session: Session, params: Mapping[str, Any]) -> Any:
        self._need_lab()
        return self.lab.describe()

    async def _connections(self, session: Session, params: Mapping[str, Any]) -> Any:
        self._need_lab()
        return self.lab.connections(params["node"])

    async def _forget_connection(self, session: Session, params: Mapping[str, Any]) -> bool:
        self._need_lab()
        return self.lab.forget_connection(params["node"], int(params["entry"]))

    async def _topology(self, session: Session, params: Mapping[str, Any]) -> Any:
        self._need_lab()
        return self.lab.topology

    async def _apply(self, session: Session, params: Mapping[str, Any]) -> Any:
        """Create or change objects: {"sources": [{"name", "data" in base64}]}; all of them or none."""
        self._need_lab()
        return await self.lab.apply(_sources(params))

    async def _delete(self, session: Session, params: Mapping[str, Any]) -> Any:
        """Take an object away: {"kind", "name", "namespace"}."""
        self._need_lab()
        return await self.lab.delete(ObjectKey(params["kind"], params.get("namespace", "default"), params["name"]))

    async def _exec(self, session: Session, params: Mapping[str, Any]) -> Any:
        """Run a command in a place; its outputs come in base64. A frontend that goes takes the command with it."""
        self._need_lab()
        stdin = base64.b64decode(params.get("stdin", ""))
        running = asyncio.ensure_future(self.lab.execute(params["place"], params["command"], stdin))

        def stop() -> None:
            running.cancel()

        session.on_close(stop)
        done = await running
        outputs = {"stdout": base64.b64encode(done.stdout).decode(), "stderr": base64.b64encode(done.stderr).decode()}
        return {"status": done.status, **outputs}

    async def _rules(self, session: Session, params: Mapping[str, Any]) -> Any:
        self._need_lab()
        return await self.lab.rules(params["node"])

    async def _walk(self, session: Session, params: Mapping[str, Any]) -> Any:
        self._need_lab()
        walk = await self.lab.walk(
            params["from"],
            params.get("to"),
            params.get("protocol"),
            params.get("packet"),
            float(params.get("timeout", 2.0)),
        )
        if params.get("capture"):
            assert self.lab.captured is not None
            self._capture = capture_file(self.lab.captured, self.lab.topology, params.get("language", "en"))
        return {"walk": walk, "capture_bytes": len(self._capture) if params.get("capture") else 0}

    async def _read_capture(self, session: Session, params: Mapping[str, Any]) -> Any:
        """A piece of the last walk's capture file, from ``offset``, in base64."""
        if not self._capture:
            raise BadInput(NO_CAPTURE())
        begin = int(params["offset"])
        return base64.b64encode(self._capture[begin : begin + CHUNK]).decode()

    def _need_lab(self) -> None:
        if not self.started:
            raise BadInput(NO_LAB())
        if self.lab.failed is not None:
            raise LabFailed(self.lab.failed)

    # Objects, for proxies and frontends

    async def _list(self, session: Session, params: Mapping[str, Any]) -> Any:
        objects, revision = self.lab.list_objects(params["kinds"])
        self._told(session, revision)
        return {"objects": objects, "revision": revision}

    async def _watch(self, session: Session, params: Mapping[str, Any]) -> Any:
        """Send "objects.event" for every change of the kinds after a revision, until the session ends."""

        def tell(event: Event) -> None:
            session.send(jsonrpc.notification("objects.event", event._asdict()))
            self._told(session, event.revision)

        session.on_close(self.lab.watch_objects(params["kinds"], int(params["revision"]), tell))
        return {}

    def _told(self, session: Session, revision: int) -> None:
        if session.process is not None:
            session.process.told = max(session.process.told, revision)

    # Proxies

    def _connect_proxy(self, node: str) -> socket.socket:
        """The end of a new connection to the engine that the node's proxy gets."""
        ours, theirs = socket.socketpair()
        loop = asyncio.get_running_loop()
        ours.setblocking(False)
        session = Session(self, node)
        # The process that gets the other end is in the list when this runs.
        loop.call_soon(session.belongs_to, node)
        task = loop.create_task(loop.connect_accepted_socket(lambda: session, ours))
        task.add_done_callback(lambda done: done.exception())
        return theirs

    async def _kill_proxy(self, session: Session, params: Mapping[str, Any]) -> None:
        self._need_lab()
        await self.lab.kill_proxy(params["node"])

    async def _restart_proxy(self, session: Session, params: Mapping[str, Any]) -> None:
        self._need_lab()
        await self.lab.restart_proxy(params["node"], params.get("mode"))

    async def _proxy_synced(self, session: Session, params: Mapping[str, Any]) -> None:
        self.lab.proxies.synced(params)

    async def _proxy_complaint(self, session: Session, params: Mapping[str, Any]) -> None:
        self.lab.proxies.complained(params)

    async def _proxy_connection(self, session: Session, params: Mapping[str, Any]) -> None:
        self.lab.proxies.connected(params)

    async def _proxy_failed(self, session: Session, params: Mapping[str, Any]) -> None:
        self.lab.proxies.failed(params)


def _sources(params: Mapping[str, Any]) -> list[Source]:
    return [Source(each["name"], base64.b64decode(each["data"])) for each in params["sources"]]
