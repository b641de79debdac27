"""A kubeconfig file: which API server, whom to trust, and who one is.

Source: k8s.io/client-go/tools/clientcmd/api/v1. Of the ways to tell who one is, client certificates, tokens and
passwords are known; commands and plugins that fetch credentials are refused.
"""

from __future__ import annotations

import base64
import ssl
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from netlab.model.errors import BadInput
from netlab.model.text import Message
from netlab.objects.yaml_source import Source, documents

MISSING = Message(
    "kubeconfig.missing",
    en="{file}: {path}: required; {what}",
    zh="{file}：{path}：必填；{what}",
)
UNKNOWN_NAME = Message(
    "kubeconfig.unknown-name",
    en='{file}: {path}: there is no {what} "{name}"; the file has {known}',
    zh='{file}：{path}：没有名为 "{name}" 的 {what}；文件中有 {known}',
)
NOT_READABLE = Message("kubeconfig.not-readable", en="{file}: cannot be read: {error}", zh="{file}：无法读取：{error}")
NO_PLUGINS = Message(
    "kubeconfig.no-plugins",
    en="{file}: {path}: credentials from a command or a plugin are not supported; give a certificate or a token",
    zh="{file}：{path}：不支持通过命令或插件获取凭据；请提供证书或令牌",
)
BAD_CERTIFICATE = Message(
    "kubeconfig.bad-certificate", en="{file}: {path}: cannot be used: {error}", zh="{file}：{path}：无法使用：{error}"
)

Json = Mapping[str, Any]


@dataclass(frozen=True)
class ApiServer:
    """How to reach an API server. ``context`` is None without TLS; ``headers`` go with every request."""

    url: SplitResult
    context: ssl.SSLContext | None = None
    headers: dict[str, str] = field(default_factory=dict)


def read_kubeconfig(file: str) -> ApiServer:
    """The API server of the file's current context. Raises :class:`BadInput`."""
    try:
        data = Path(file).read_bytes()
    except OSError as error:
        raise BadInput(NOT_READABLE(file=file, error=error.strerror)) from error
    found = [each.value for each in documents(Source(file, data)) if each.value]
    value: Json = found[0] if found and isinstance(found[0], dict) else {}
    return _Reader(file, value).api_server()


class _Reader:
    def __init__(self, file: str, value: Json) -> None:
        self.file = file
        self.value = value

    def api_server(self) -> ApiServer:
        context = self._named("contexts", "context", self._text(self.value, "current-context", ""))
        cluster = self._named("clusters", "cluster", self._text(context, "cluster", "contexts[].context."))
        user_name = context.get("user")
        user: Json = self._named("users", "user", str(user_name)) if user_name else {}
        for key in ("exec", "auth-provider"):
            if key in user:
                raise BadInput(NO_PLUGINS(file=self.file, path=f"users[{user_name}].user.{key}"))
        url = urlsplit(self._text(cluster, "server", "clusters[].cluster."))
        tls = self._tls(cluster, user) if url.scheme == "https" else None
        return ApiServer(url, tls, self._headers(user))

    def _text(self, value: Json, key: str, path: str) -> str:
        found = value.get(key)
        if not isinstance(found, str) or not found:
            raise BadInput(MISSING(file=self.file, path=f"{path}{key}", what="text"))
        return found

    def _named(self, group: str, what: str, name: str) -> Json:
        entries = [each for each in self.value.get(group) or [] if isinstance(each, dict)]
        for each in entries:
            if each.get("name") == name and isinstance(each.get(what), dict):
                found: Json = each[what]
                return found
        known = ", ".join(str(each.get("name")) for each in entries) or "-"
        raise BadInput(UNKNOWN_NAME(file=self.file, path=group, what=what, name=name, known=known))

    def _headers(self, user: Json) -> dict[str, str]:
        token = user.get("token")
        if not token and user.get("tokenFile"):
            token = self._read(str(user["tokenFile"]), "users[].user.tokenFile").decode().strip()
        if token:
            return {"Authorization": f"Bearer {token}"}
        if user.get("username"):
            pair = f"{user['username']}:{user.get('password', '')}"
            return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
        return {}

    def _tls(self, cluster: Json, user: Json) -> ssl.SSLContext:
        context = ssl.create_default_context()
        if cluster.get("insecure-skip-tls-verify"):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        authority = self._data(cluster, "certificate-authority", "clusters[].cluster.")
        certificate = self._data(user, "client-certificate", "users[].user.")
        key = self._data(user, "client-key", "users[].user.")
        try:
            if authority is not None:
                context.load_verify_locations(cadata=authority.decode())
            if certificate is not None and key is not None:
                with ExitStack() as stack:
                    # OpenSSL takes them from files alone.
                    paths = []
                    for contents in (certificate, key):
                        file = stack.enter_context(tempfile.NamedTemporaryFile(prefix="kube-netlab-"))
                        file.write(contents)
                        file.flush()
                        paths.append(file.name)
                    context.load_cert_chain(*paths)
        except (ssl.SSLError, ValueError) as error:
            raise BadInput(BAD_CERTIFICATE(file=self.file, path="certificate", error=error)) from error
        return context

    def _data(self, value: Json, key: str, path: str) -> bytes | None:
        """What stands in the file itself in base64, or in the file that it names (beside the kubeconfig)."""
        data, file = value.get(f"{key}-data"), value.get(key)
        if data:
            try:
                return base64.b64decode(str(data), validate=True)
            except ValueError as error:
                raise BadInput(BAD_CERTIFICATE(file=self.file, path=f"{path}{key}-data", error=error)) from error
        return self._read(str(file), f"{path}{key}") if file else None

    def _read(self, name: str, path: str) -> bytes:
        try:
            return (Path(self.file).parent / name).read_bytes()
        except OSError as error:
            raise BadInput(BAD_CERTIFICATE(file=self.file, path=path, error=f"{name}: {error.strerror}")) from error
