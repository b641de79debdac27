"""A small API server: lists and watches as a real one answers, of objects that a test gives it."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

PATHS = {
    "/api/v1/services": "Service",
    "/api/v1/nodes": "Node",
    "/apis/discovery.k8s.io/v1/endpointslices": "EndpointSlice",
}
"""ServiceCIDR is left out, as in servers of before 1.31: it answers 404."""


class ApiServer(ThreadingHTTPServer):
    """Serves on a free port of loopback. ``token``: what clients have to show."""

    daemon_threads = True

    def __init__(self, objects: list[dict[str, Any]], token: str) -> None:
        self.token = token
        self.changed = threading.Condition()
        self.revision = 10
        self.oldest = 0
        self.history: list[tuple[int, str, dict[str, Any]]] = []
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.queries: list[Mapping[str, list[str]]] = []
        super().__init__(("127.0.0.1", 0), _Handler)
        for each in objects:
            self.put(each)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def put(self, value: dict[str, Any]) -> None:
        key = (value["kind"], value["metadata"].get("namespace", ""), value["metadata"]["name"])
        self._happened("MODIFIED" if key in self.objects else "ADDED", key, value)

    def delete(self, kind: str, namespace: str, name: str) -> None:
        self._happened("DELETED", (kind, namespace, name), self.objects[kind, namespace, name])

    def forget(self) -> None:
        """What has happened until now cannot be watched any more."""
        with self.changed:
            self.oldest = self.revision
            self.changed.notify_all()

    def _happened(self, event: str, key: tuple[str, str, str], value: dict[str, Any]) -> None:
        with self.changed:
            self.revision += 1
            value = {**value, "metadata": {**value["metadata"], "resourceVersion": str(self.revision)}}
            if event == "DELETED":
                del self.objects[key]
            else:
                self.objects[key] = value
            self.history.append((self.revision, event, value))
            self.changed.notify_all()


class _Handler(BaseHTTPRequestHandler):
    server: ApiServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        kind = PATHS.get(url.path)
        self.server.queries.append(query)
        if self.headers["Authorization"] != f"Bearer {self.server.token}":
            self._answer(401, {"kind": "Status", "message": "Unauthorized"})
        elif kind is None:
            self._answer(404, {"kind": "Status", "message": "the server could not find the requested resource"})
        elif "watch" in query:
            self._watch(kind, int(query["resourceVersion"][0]))
        else:
            self._list(kind)

    def log_message(self, *_: object) -> None:
        """Quiet."""

    def _answer(self, status: int, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _list(self, kind: str) -> None:
        with self.server.changed:
            items = [
                {name: part for name, part in value.items() if name != "kind"}
                for (of_kind, _, _), value in self.server.objects.items()
                if of_kind == kind
            ]
            revision = self.server.revision
        self._answer(200, {"kind": f"{kind}List", "metadata": {"resourceVersion": str(revision)}, "items": items})

    def _watch(self, kind: str, since: int) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            while True:
                with self.server.changed:
                    while self.server.revision <= since and self.server.oldest <= since:
                        self.server.changed.wait()
                    if self.server.oldest > since:
                        self._event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"})
                        self.wfile.write(b"0\r\n\r\n")
                        return
                    events = [each for each in self.server.history if each[0] > since]
                    since = self.server.revision
                for _, event, value in events:
                    if value["kind"] == kind:
                        self._event(event, value)
        except OSError:
            self.close_connection = True

    def _event(self, event: str, value: Any) -> None:
        line = json.dumps({"type": event, "object": value}).encode() + b"\n"
        self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        self.wfile.flush()
