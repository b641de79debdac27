"""Why a Service's port has no endpoints that may be used: its selector, its targetPort, or Pods that are not ready.

A pure function of the objects, told where a rule refuses a packet because there is nowhere to send it.
"""

from __future__ import annotations

from collections.abc import Sequence

from netlab.cluster.endpointslices import is_managed, is_ready, selects, target_port
from netlab.model.keys import ObjectKey
from netlab.model.text import Message, Text
from netlab.objects.endpointslice import MANAGED_BY_LABEL, SERVICE_NAME_LABEL, EndpointSlice
from netlab.objects.pod import Pod
from netlab.objects.service import Service, ServicePort

SHOWN = 3

NOTHING_SELECTED = Message(
    "unready.nothing-selected",
    en="no Pod has the labels of its selector ({selector})",
    zh="没有 Pod 带有其选择算符的标签 ({selector})",
)
TARGET_PORT = Message(
    "unready.target-port",
    en='its targetPort "{target}" ({protocol}) names no port of the Pods that it selects ({pods})',
    zh='其 targetPort "{target}" ({protocol}) 不是所选 Pod ({pods}) 的任何端口名',
)
NOT_READY = Message(
    "unready.not-ready",
    en="it selects {pods}, and none of them is ready",
    zh="它选中了 {pods}，但没有一个处于就绪状态",
)
ENDING = Message(
    "unready.ending",
    en="it selects {pods}, and all of them have ended or are about to",
    zh="它选中了 {pods}，但它们都已结束或正在终止",
)
NO_SELECTOR = Message(
    "unready.no-selector",
    en="it has no selector, and no EndpointSlice names it",
    zh="它没有选择算符，也没有 EndpointSlice 指向它",
)
SLICES = Message(
    "unready.slices",
    en="its EndpointSlices ({slices}) have no ready endpoint with this port",
    zh="其 EndpointSlice ({slices}) 中没有带有该端口的就绪端点",
)


def unready_key(service: object, number: int | None, protocol: str) -> str:
    """How the reason is looked up, by the Service ("Service default/web") and the port that a packet asks for."""
    return f"{service} {number}/{protocol.lower()}"


def why_unready(services: Sequence[Service], pods: Sequence[Pod], slices: Sequence[EndpointSlice]) -> dict[str, Text]:
    """The reasons by :func:`unready_key`, for the ports that have none ready."""
    found: dict[str, Text] = {}
    by_service: dict[tuple[str, str | None], list[EndpointSlice]] = {}
    for each in slices:
        by_service.setdefault((each.metadata.namespace, each.metadata.label(SERVICE_NAME_LABEL)), []).append(each)
    for service in services:
        own = by_service.get((service.metadata.namespace, service.metadata.name), [])
        for port in service.spec.ports:
            if _has_ready(own, port):
                continue
            name = ObjectKey("Service", service.metadata.namespace, service.metadata.name)
            for number in (port.port, port.node_port):
                found[unready_key(name, number, port.protocol)] = _why(service, port, pods, own)
    return found


def _has_ready(slices: Sequence[EndpointSlice], port: ServicePort) -> bool:
    return any(
        each.conditions.ready is not False
        for endpoint_slice in slices
        if any(
            (found.name or "") == port.name and (found.protocol or "TCP") == port.protocol
            for found in endpoint_slice.ports
        )
        for each in endpoint_slice.endpoints
    )


def _why(service: Service, port: ServicePort, pods: Sequence[Pod], slices: Sequence[EndpointSlice]) -> Text:
    by_hand = any(not each.metadata.label(MANAGED_BY_LABEL) for each in slices)
    if not is_managed(service) or by_hand:
        names = _some([each.metadata.name for each in slices])
        return SLICES(slices=names) if slices else NO_SELECTOR()
    chosen = [pod for pod in pods if selects(service, pod)]
    if not chosen:
        selector = ",".join(f"{name}={value}" for name, value in (service.spec.selector or {}).items())
        return NOTHING_SELECTED(selector=selector)
    with_port = [pod for pod in chosen if target_port(port, pod) is not None]
    if not with_port:
        protocol = port.protocol.lower()
        return TARGET_PORT(target=port.target_port, protocol=protocol, pods=_pods(chosen))
    unready = [pod for pod in with_port if not is_ready(pod) and not _is_ending(pod)]
    return NOT_READY(pods=_pods(unready)) if unready else ENDING(pods=_pods(with_port))


def _is_ending(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None or pod.status.phase in ("Succeeded", "Failed")


def _pods(pods: Sequence[Pod]) -> str:
    return _some([f"Pod {pod.metadata.namespace}/{pod.metadata.name}" for pod in pods])


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (" …" if len(names) > SHOWN else "")
