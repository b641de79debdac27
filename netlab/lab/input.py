"""From files to objects: what the user gave, decoded, defaulted and checked, each object with the place it came from.

Everything that is wrong is collected and told at once, a line a fault: file, line, object, field, what was found, what
is allowed.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from netlab.lab.faults import Faults
from netlab.model.keys import ObjectKey, Origin
from netlab.model.text import Message, Text
from netlab.objects import labspec, proxyconfig
from netlab.objects.decode import WrongType, closest, decode
from netlab.objects.endpointslice import EndpointSlice
from netlab.objects.endpointslice_validation import default_endpointslice, validate_endpointslice
from netlab.objects.field import FieldError
from netlab.objects.labspec import Lab
from netlab.objects.metadata_validation import validate_metadata
from netlab.objects.names import dns1123_label_faults
from netlab.objects.node import Namespace, Node
from netlab.objects.node_validation import default_node, validate_node
from netlab.objects.pod import Pod
from netlab.objects.pod_defaults import default_pod
from netlab.objects.pod_validation import validate_pod
from netlab.objects.proxyconfig import KubeProxyConfiguration
from netlab.objects.service import Service
from netlab.objects.service_defaults import default_service
from netlab.objects.service_validation import validate_service
from netlab.objects.yaml_source import Document, Mapping, Source, documents

Json = dict[str, Any]
T = TypeVar("T", bound=msgspec.Struct)

LIST_DEPTH = 3
LONGEST_VALUE = 100
MOST_UNKNOWN = 10

_INDEX = re.compile(r"\[\d+\]")

NOT_AN_OBJECT = Message(
    "input.not-an-object",
    en="{file}:{line}: a Kubernetes object is expected (a mapping with apiVersion and kind), found {found}",
    zh="{file}:{line}：此处应为 Kubernetes 对象 (含 apiVersion 和 kind 的映射)，却发现 {found}",
)
MISSING = Message(
    "input.missing",
    en="{file}:{line}: {field}: Required value: every object says its {field}",
    zh="{file}:{line}：{field}: Required value：每个对象都必须有 {field}",
)
WRONG_VERSION = Message(
    "input.wrong-version",
    en='{file}:{line}: no matches for kind "{kind}" in version "{version}": it is known in {known}',
    zh='{file}:{line}：版本 "{version}" 中没有类型 "{kind}"：它属于 {known}',
)
UNKNOWN_FIELD = Message(
    "input.unknown-field",
    en='{file}:{line}: {object}: strict decoding error: unknown field "{field}"{hint}',
    zh='{file}:{line}：{object}：strict decoding error: unknown field "{field}" (未知字段){hint}',
)
DID_YOU_MEAN = Message("input.did-you-mean", en=' (did you mean "{name}"?)', zh=' (您是否想写 "{name}"？)')
NOTHING = Message("input.empty", en="", zh="")
WRONG_TYPE = Message(
    "input.wrong-type",
    en="{file}:{line}: {object}: {field}: {message}: found {found}, allowed is {allowed}",
    zh="{file}:{line}：{object}：{field}：{message}：发现 {found}，允许的类型是 {allowed}",
)
SECOND_LAB = Message(
    "input.second-document",
    en="{file}:{line}: a second {kind} document; the first one is at {first}, and there can be one only",
    zh="{file}:{line}：第二个 {kind} 文档；第一个在 {first}，只能有一个",
)
ALREADY_EXISTS = Message(
    "input.already-exists",
    en="{file}:{line}: {object} already exists (it is at {first})",
    zh="{file}:{line}：{object} 已存在 (位于 {first})",
)
NO_ITEMS = Message(
    "input.no-items",
    en="{file}:{line}: {kind}: items: a list of objects is expected, found {found}",
    zh="{file}:{line}：{kind}：items：此处应为对象的列表，却发现 {found}",
)
IGNORED = Message(
    "input.ignored",
    en="ignored: {kinds} (kinds that this lab has no use for)",
    zh="已忽略：{kinds} (本实验不使用的类型)",
)
UNKNOWN_OF_SERVER = Message(
    "input.unknown-fields-of-server",
    en="left out: fields that this version does not know: {fields}",
    zh="已略去本版本不认识的字段：{fields}",
)
HISTORIC = Message(
    "input.historic-mode",
    en="mode userspace is historic: kube-proxy has not had it since Kubernetes 1.26",
    zh="userspace 模式已成历史：自 Kubernetes 1.26 起 kube-proxy 不再支持",
)


@dataclass(frozen=True)
class Given:
    """One object as the lab takes it: decoded and defaulted, and the document it stands in (None: made by the lab)."""

    value: Json
    document: Document | None

    @property
    def key(self) -> ObjectKey:
        metadata = self.value["metadata"]
        return ObjectKey(self.value["kind"], metadata.get("namespace", ""), metadata["name"])

    @property
    def from_server(self) -> bool:
        """Whether an API server wrote the object (``kubectl get -o yaml``): then it has been through its checks."""
        metadata = self.value["metadata"]
        return any(metadata.get(name) for name in ("uid", "resourceVersion", "creationTimestamp"))


@dataclass
class LabInput:
    """All that the user gave. ``notes`` are worth telling and stop nothing."""

    lab: Lab = field(default_factory=Lab)
    lab_document: Document | None = None
    config: KubeProxyConfiguration = field(default_factory=KubeProxyConfiguration)
    config_document: Document | None = None
    objects: list[Given] = field(default_factory=list)
    notes: list[Text] = field(default_factory=list)

    def of_kind(self, kind: str) -> list[Given]:
        return [each for each in self.objects if each.value["kind"] == kind]


@dataclass(frozen=True)
class _Kind:
    """How one kind is read: its API version, type, defaults, checks."""

    version: str
    type: type[msgspec.Struct]
    namespaced: bool
    default: Callable[[Json], None]
    validate: Callable[[Any], list[FieldError]]


def _validate_namespace(namespace: Namespace) -> list[FieldError]:
    return validate_metadata(namespace.metadata, dns1123_label_faults, namespaced=False)


_KINDS = {
    "Service": _Kind("v1", Service, True, default_service, validate_service),
    "Pod": _Kind("v1", Pod, True, default_pod, validate_pod),
    "Node": _Kind("v1", Node, False, default_node, validate_node),
    "Namespace": _Kind("v1", Namespace, False, lambda _: None, _validate_namespace),
    "EndpointSlice": _Kind("discovery.k8s.io/v1", EndpointSlice, True, default_endpointslice, validate_endpointslice),
}
_LAB = "Lab"
_CONFIG = "KubeProxyConfiguration"


def read_input(sources: Sequence[Source]) -> LabInput:
    """Read all files. Raises :class:`BadInput` with every fault that was found."""
    return _Reader().read(sources)


class _Reader:
    def __init__(self) -> None:
        self.input = LabInput()
        self.faults = Faults()
        self.ignored: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()
        self.places: dict[ObjectKey, str] = {}

    def read(self, sources: Sequence[Source]) -> LabInput:
        for source in sources:
            for document in documents(source):
                self._take(document, 0)
        self.faults.raise_any()
        if self.ignored:
            kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.ignored.items()))
            self.input.notes.append(IGNORED(kinds=kinds))
        if self.unknown:
            most = [field for field, _ in self.unknown.most_common(MOST_UNKNOWN)]
            more = ["…"] if len(self.unknown) > MOST_UNKNOWN else []
            self.input.notes.append(UNKNOWN_OF_SERVER(fields=", ".join(most + more)))
        return self.input

    def _take(self, document: Document, depth: int) -> None:
        value = document.value
        if not isinstance(value, dict):
            found = kind_of(value)
            self.faults.add(NOT_AN_OBJECT(file=document.source, line=document.line, found=found))
            return
        for name in ("apiVersion", "kind"):
            if not isinstance(value.get(name), str) or not value[name]:
                self.faults.add(MISSING(file=document.source, line=document.locate(name), field=name))
                return
        version, kind = value["apiVersion"], value["kind"]
        if kind.endswith("List") and "items" in value and depth < LIST_DEPTH:
            self._take_list(document, version, kind, depth)
        elif kind == _LAB:
            self._take_lab(document, version)
        elif kind == _CONFIG:
            self._take_config(document, version)
        elif kind in _KINDS:
            self._take_object(document, version, _KINDS[kind])
        else:
            group = version.rpartition("/")[0]
            self.ignored[f"{kind}{f' ({group})' if group else ''}"] += 1

    def _take_list(self, document: Document, version: str, kind: str, depth: int) -> None:
        assert isinstance(document.value, dict)
        listed = document.value["items"]
        if not isinstance(listed, list | None):
            line = document.locate("items")
            self.faults.add(NO_ITEMS(file=document.source, line=line, kind=kind, found=kind_of(listed)))
            return
        for index, value in enumerate(listed or ()):
            item = Document(document.source, document.locate(f"items[{index}]"), _with_kind(value, version, kind))
            self._take(item, depth + 1)

    def _take_lab(self, document: Document, version: str) -> None:
        if not self._right_version(document, _LAB, version, labspec.API_VERSION):
            return
        if self.input.lab_document is not None:
            self._second(document, _LAB, self.input.lab_document)
            return
        lab = self._decode(document, Lab, _LAB, strict=True)
        self.input.lab_document = document
        if lab is not None:
            self.input.lab = lab[0]
            for fault in labspec.validate(lab[0]):
                self.faults.add_field(document, _LAB, fault)

    def _take_config(self, document: Document, version: str) -> None:
        if not self._right_version(document, _CONFIG, version, proxyconfig.API_VERSION):
            return
        if self.input.config_document is not None:
            self._second(document, _CONFIG, self.input.config_document)
            return
        config = self._decode(document, KubeProxyConfiguration, _CONFIG, strict=True)
        self.input.config_document = document
        if config is not None:
            self.input.config = config[0]
            for fault in proxyconfig.validate(config[0]):
                self.faults.add_field(document, _CONFIG, fault)
            if config[0].mode == "userspace":
                self.input.notes.append(HISTORIC())

    def _take_object(self, document: Document, version: str, kind: _Kind) -> None:
        name = kind.type.__name__
        if not self._right_version(document, name, version, kind.version):
            return
        metadata = (
            document.value["metadata"] if isinstance(document.value, dict) and "metadata" in document.value else {}
        )
        metadata = metadata if isinstance(metadata, dict) else {}
        label = f"{name} {_text(metadata.get('namespace')) or 'default'}/{_text(metadata.get('name'))}"
        if not kind.namespaced:
            label = f"{name} {_text(metadata.get('name'))}"
        from_server = any(metadata.get(each) for each in ("uid", "resourceVersion", "creationTimestamp"))
        decoded = self._decode(document, kind.type, label, strict=not from_server)
        if decoded is None:
            return
        value = decoded[1]
        if kind.namespaced:
            value.setdefault("metadata", {}).setdefault("namespace", "default")
        kind.default(value)
        faults = kind.validate(msgspec.convert(value, kind.type))
        # Allocated before the API server validates; here it is the other way round.
        faults = [fault for fault in faults if (fault.kind, fault.path) != ("Required", "spec.healthCheckNodePort")]
        if from_server:
            # Refused on create only: debug containers come into being later.
            faults = [fault for fault in faults if fault.path != "spec.ephemeralContainers"]
        for fault in faults:
            self.faults.add_field(document, label, fault)
        if faults:
            return
        given = Given(value, document)
        place = f"{document.source}:{document.line}"
        if given.key in self.places:
            self.faults.add(
                ALREADY_EXISTS(file=document.source, line=document.line, object=given.key, first=self.places[given.key])
            )
            return
        self.places[given.key] = place
        self.input.objects.append(given)

    def _decode(self, document: Document, type_: type[T], label: str, *, strict: bool) -> tuple[T, Json] | None:
        """The typed view and the plain value; None (and a fault) where the document does not fit the type."""
        try:
            decoded = decode(document.value, type_)
        except WrongType as error:
            self.faults.add(
                WRONG_TYPE(
                    file=document.source,
                    line=document.locate(error.path),
                    object=label,
                    field=error.path,
                    message=error.message,
                    found=error.found,
                    allowed=error.allowed,
                )
            )
            return None
        if decoded.unknown and strict:
            for path in decoded.unknown:
                near = closest(path, type_)
                hint = DID_YOU_MEAN(name=near) if near is not None else NOTHING()
                line = document.locate(path)
                self.faults.add(UNKNOWN_FIELD(file=document.source, line=line, object=label, field=path, hint=hint))
            return None
        self.unknown.update(f"{type_.__name__} {_INDEX.sub('[]', path)}" for path in decoded.unknown)
        return decoded.object, decoded.value

    def _right_version(self, document: Document, kind: str, version: str, known: str) -> bool:
        if version == known:
            return True
        line = document.locate("apiVersion")
        self.faults.add(WRONG_VERSION(file=document.source, line=line, kind=kind, version=version, known=known))
        return False

    def _second(self, document: Document, kind: str, first: Document) -> None:
        self.faults.add(
            SECOND_LAB(file=document.source, line=document.line, kind=kind, first=f"{first.source}:{first.line}")
        )


def kind_of(value: object) -> str:
    """A value in few words."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a mapping"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"


def _with_kind(value: object, version: str, kind: str) -> object:
    """Items of a typed list (PodList) may leave their kind out."""
    if kind == "List" or not isinstance(value, Mapping) or value.get("kind"):
        return value
    item = Mapping(value.line)
    item.update(value, apiVersion=version, kind=kind.removesuffix("List"))
    item.lines = {"apiVersion": value.line, "kind": value.line, **value.lines}
    return item


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


class Locator:
    """Finds the file and line of an object's field, for objects that the user gave."""

    def __init__(self, given: LabInput) -> None:
        self._documents: dict[str, Document] = {
            str(each.key): each.document for each in given.objects if each.document is not None
        }
        if given.config_document is not None:
            self._documents[_CONFIG] = given.config_document
        if given.lab_document is not None:
            self._documents[_LAB] = given.lab_document

    def learn(self, given: LabInput) -> None:
        """Objects were given anew: they are where they are now."""
        self._documents |= Locator(given)._documents

    def locate(self, origin: Origin) -> Origin:
        """The origin with file and line; without them where the object is the lab's own."""
        document = self._documents.get(origin.object)
        if document is None:
            return origin
        return Origin(origin.object, origin.field, document.source, document.locate(origin.field))
