"""Objects from a Kubernetes API server: list and watch over HTTP, a thread for each kind, as client-go's reflectors do.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts (list, watch, bookmarks, 410 Gone).
"""

from __future__ import annotations

import http.client
import os
import random
import threading
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from netlab.model.keys import ObjectKey, key_of
from netlab.model.text import Message, Text
from netlab.node.kubeconfig import ApiServer
from netlab.node.objectsource import Changed, Listed

FAILED = Message(
    "apiserver.failed",
    en="{kind}: the API server {server} did not answer as expected: {error}",
    zh="{kind}：API 服务器 {server} 的应答异常：{error}",
)

WATCH_S = 300
"""The shortest time (s) after which the server is to end a watch; up to twice that: not all are to end at once."""
TIMEOUT_S = 30.0
FIRST_RETRY_S, LAST_RETRY_S = 0.8, 30.0
GONE = 410

Json = dict[str, Any]


@dataclass(frozen=True)
class Resource:
    """A kind, its path below the server's root, and which of its objects are wanted."""

    kind: str
    path: str
    selector: str = ""
    optional: bool = False
    """Servers of before may not have it."""


def resources_of(node: str) -> tuple[Resource, ...]:
    """What a kube-proxy needs. Source: kubernetes/cmd/kube-proxy/app/server.go (headless Services are left out)."""
    headless = "!service.kubernetes.io/headless,!service.kubernetes.io/service-proxy-name"
    return (
        Resource("Service", "/api/v1/services", _query(labelSelector=headless)),
        Resource("EndpointSlice", "/apis/discovery.k8s.io/v1/endpointslices", _query(labelSelector=headless)),
        Resource("Node", "/api/v1/nodes", _query(fieldSelector=f"metadata.name={node}")),
        Resource("ServiceCIDR", "/apis/networking.k8s.io/v1/servicecidrs", optional=True),
    )


def _query(**values: str) -> str:
    return urllib.parse.urlencode(values)


class ApiServerSource:
    """Implements :class:`netlab.node.objectsource.ObjectSource`. ``report`` gets what the proxy reports; ``complain``
    is told when the server cannot be reached, and it is tried again."""

    def __init__(
        self,
        server: ApiServer,
        resources: Sequence[Resource],
        report: Callable[[str, Any], None],
        complain: Callable[[Text], None],
    ) -> None:
        self._report = report
        self._event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._lock = threading.Lock()
        self._listed: dict[str, list[Json]] = {}
        self._wanted = {each.kind for each in resources}
        self._complete = False
        self._events: list[Listed | Changed] = []
        self._revision = 0
        self._reflectors = [_Reflector(server, each, self._take, complain) for each in resources]
        for each in self._reflectors:
            each.start()

    def fileno(self) -> int:
        return self._event

    def read(self) -> list[Listed | Changed]:
        with self._lock:
            try:
                os.eventfd_read(self._event)
            except BlockingIOError:
                return []
            events, self._events = self._events, []
            return events

    def report(self, method: str, params: Any) -> None:
        self._report(method, params)

    def _take(self, kind: str, found: list[Json] | tuple[Literal["ADDED", "MODIFIED", "DELETED"], Json]) -> None:
        """From a reflector's thread: its first list, or a change. Nothing is told before every kind has its list."""
        with self._lock:
            self._revision += 1
            if isinstance(found, tuple):
                self._events.append(Changed(found[0], found[1], self._revision))
            else:
                self._listed[kind] = found
            if not self._complete:
                if self._listed.keys() != self._wanted:
                    return
                self._complete = True
                everything = [value for values in self._listed.values() for value in values]
                self._events.insert(0, Listed(everything, self._revision))
                self._listed = {}
            os.eventfd_write(self._event, 1)


class _Reflector(threading.Thread):
    """Keeps one kind: lists, watches from there, and lists again where the server has forgotten that far back."""

    def __init__(
        self,
        server: ApiServer,
        resource: Resource,
        tell: Callable[[str, Any], None],
        complain: Callable[[Text], None],
    ) -> None:
        super().__init__(name=f"reflector-{resource.kind}", daemon=True)
        self.server = server
        self.resource = resource
        self.tell = tell
        self.complain = complain
        self.known: dict[ObjectKey, Json] | None = None
        self._pause = threading.Event()

    def run(self) -> None:
        delay = FIRST_RETRY_S
        while True:
            try:
                revision: str | None = self._list()
                delay = FIRST_RETRY_S
                while revision is not None:
                    revision = self._watch(revision)
            except (OSError, http.client.HTTPException, msgspec.DecodeError, _Refused) as error:
                self.complain(FAILED(kind=self.resource.kind, server=self.server.url.netloc, error=error))
                self._pause.wait(delay * random.uniform(1, 2))
                delay = min(2 * delay, LAST_RETRY_S)

    def _list(self) -> str:
        """Lists all objects, tells them (or, if it is not the first list, how they differ); returns the revision."""
        connection = self._connect(TIMEOUT_S)
        try:
            response = self._get(connection, self.resource.selector)
            if response.status == http.client.NOT_FOUND and self.resource.optional:
                self._replace({})
                raise _Refused("404: not served")
            value = msgspec.json.decode(_checked(response))
        finally:
            connection.close()
        objects = [{**each, "kind": self.resource.kind} for each in value.get("items") or []]
        self._replace({key_of(each): each for each in objects})
        return str(value["metadata"]["resourceVersion"])

    def _replace(self, found: dict[ObjectKey, Json]) -> None:
        if self.known is None:
            self.tell(self.resource.kind, list(found.values()))
        else:
            for key, value in found.items():
                if key not in self.known:
                    self.tell(self.resource.kind, ("ADDED", value))
                elif _revision(self.known[key]) != _revision(value):
                    self.tell(self.resource.kind, ("MODIFIED", value))
            for key in self.known.keys() - found.keys():
                self.tell(self.resource.kind, ("DELETED", self.known[key]))
        self.known = found

    def _watch(self, revision: str) -> str | None:
        """Tells changes until the server ends the watch; returns the revision to go on from, None: list again."""
        assert self.known is not None
        seconds = int(WATCH_S * random.uniform(1, 2))
        query = _query(watch="true", resourceVersion=revision, allowWatchBookmarks="true", timeoutSeconds=str(seconds))
        connection = self._connect(seconds + TIMEOUT_S)
        try:
            response = self._get(connection, "&".join(filter(None, (self.resource.selector, query))))
            if response.status == GONE:
                return None
            if response.status != http.client.OK:
                _checked(response)
            for line in response:
                event = msgspec.json.decode(line)
                if event["type"] == "ERROR":
                    return None
                value = {**event["object"], "kind": self.resource.kind}
                revision = _revision(value)
                if event["type"] != "BOOKMARK":
                    self._change(event["type"], value)
        finally:
            connection.close()
        return revision

    def _change(self, kind: Literal["ADDED", "MODIFIED", "DELETED"], value: Json) -> None:
        assert self.known is not None
        if kind == "DELETED":
            self.known.pop(key_of(value), None)
        else:
            self.known[key_of(value)] = value
        self.tell(self.resource.kind, (kind, value))

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        host, port = self.server.url.hostname or "", self.server.url.port
        if self.server.context is not None:
            return http.client.HTTPSConnection(host, port, timeout=timeout, context=self.server.context)
        return http.client.HTTPConnection(host, port, timeout=timeout)

    def _get(self, connection: http.client.HTTPConnection, query: str) -> http.client.HTTPResponse:
        path = self.server.url.path.rstrip("/") + self.resource.path
        headers = {"Accept": "application/json", "User-Agent": "kube-netlab", **self.server.headers}
        connection.request("GET", f"{path}?{query}" if query else path, headers=headers)
        return connection.getresponse()


class _Refused(Exception):
    """The server answered, with something else than what was asked for."""


def _checked(response: http.client.HTTPResponse) -> bytes:
    body = response.read()
    if response.status == http.client.OK:
        return body
    try:
        words = msgspec.json.decode(body)["message"]
    except (msgspec.DecodeError, KeyError, TypeError):
        words = response.reason
    raise _Refused(f"{response.status}: {words}")


def _revision(value: Mapping[str, Any]) -> str:
    return str(value["metadata"].get("resourceVersion", ""))
