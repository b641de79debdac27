"""A walk in a few words: what came of the probe, what to remember, and what to try when it failed."""

from __future__ import annotations

from collections.abc import Sequence

from netlab.model.text import Message, Text
from netlab.model.walk import Step, Walk, host_of

SAW_OTHER = Message(
    "summary.saw-other",
    en="The Pod saw {seen}, not {source}.",
    zh="Pod 看到的是 {seen}，而不是 {source}。",
)
SAW_CLIENT = Message(
    "summary.saw-client",
    en="The Pod saw its client's own address, {seen}.",
    zh="Pod 看到的是客户端自己的地址 {seen}。",
)
SAW_SAME_HOST = Message(
    "summary.saw-same-host",
    en="The Pod saw its client's own address under another port, {seen}.",
    zh="Pod 看到的是客户端自己的地址，但端口不同：{seen}。",
)
OTHER_SAW = Message(
    "summary.other-saw",
    en="The other end saw {seen} as its client.",
    zh="对端看到的客户端是 {seen}。",
)
COUNTS = Message("summary.counts", en="{dnat} DNAT, {snat} SNAT.", zh="{dnat} 次 DNAT，{snat} 次 SNAT。")
NOTHING_SEEN = Message("summary.nothing", en="The request did not reach an endpoint.", zh="请求没有到达任何端点。")
JOIN = Message("summary.join", en="{one} {other}", zh="{one}{other}")

NO_ENDPOINTS = Message(
    "advice.no-endpoints",
    en="Look at the selector of {service} and at the labels and readiness of the Pods that it should pick.",
    zh="请检查 {service} 的选择算符，以及它应当选中的 Pod 的标签和就绪状态。",
)
LOCAL_POLICY = Message(
    "advice.local-policy",
    en="Send to a node that has an endpoint, or set the Service's traffic policy to Cluster.",
    zh="请发往拥有端点的节点，或者把该 Service 的流量策略设为 Cluster。",
)
SOURCE_RANGES = Message(
    "advice.source-ranges",
    en="Add the client's range to loadBalancerSourceRanges.",
    zh="请把客户端所在的网段加入 loadBalancerSourceRanges。",
)
REFUSED = Message(
    "advice.refused",
    en="Nothing listens on {port} at {place}: compare the Service's targetPort with the ports that the Pod declares.",
    zh="{place} 上没有程序监听 {port}：请比较 Service 的 targetPort 与 Pod 声明的端口。",
)
REFUSED_BY_NODE = Message(
    "advice.refused-by-node",
    en="No Service has this address and port, so the packet went to {place} itself, where nothing listens on {port}.",
    zh="没有 Service 使用该地址和端口，数据包到达了 {place} 自身，而那里没有程序监听 {port}。",
)
NO_ROUTE = Message(
    "advice.no-route",
    en="{place} has no route to {address} and said so.",
    zh="{place} 没有到 {address} 的路由，并作了告知。",
)
PROTOCOL_UNKNOWN = Message(
    "advice.protocol-unknown",
    en="{place} has nothing that speaks this protocol, and said so.",
    zh="{place} 上没有使用该协议的程序，并作了告知。",
)
LAST_SEEN = Message(
    "advice.last-seen",
    en="The packet was last seen at {place}.",
    zh="数据包最后一次出现在 {place}。",
)
REPLY_ASTRAY = Message(
    "advice.reply-astray",
    en="The answer reached {place}, but it comes from {got} and not from {asked}, which was asked, so it is not taken: "
    "it did not pass conntrack on the node that translated the request (see bridgeNetfilter, masqueradeAll).",
    zh="应答到达了 {place}，但它来自 {got} 而不是所请求的 {asked}，因此不被接受："
    "它没有经过转换请求的那个节点上的连接跟踪 (参见 bridgeNetfilter、masqueradeAll)。",
)


def summary(walk: Walk) -> Text:
    """What to remember of a walk: the source that the endpoint saw, and how often addresses were rewritten."""
    request = [step for step in walk.steps if step.direction == "request"]
    dnat = sum("destination" in step.changed for step in request)
    snat = sum("source" in step.changed for step in request)
    counts = COUNTS(dnat=dnat, snat=snat)
    seen = walk.seen_by_pod
    if walk.endpoint is None or not request:
        first = NOTHING_SEEN()
        return first if not (dnat or snat) else JOIN(one=first, other=counts)
    source = request[0].source
    if seen is None:
        first = OTHER_SAW(seen=request[-1].source)
    elif seen == source:
        first = SAW_CLIENT(seen=seen)
    elif host_of(seen) == host_of(source):
        first = SAW_SAME_HOST(seen=seen)
    else:
        first = SAW_OTHER(seen=seen, source=source)
    return JOIN(one=first, other=counts)


def round_trip_us(walk: Walk) -> float | None:
    """From the request's first sighting to the reply's last one, microseconds; None where no reply came back."""
    if walk.verdict not in ("answered", "refused", "rejected", "unreachable"):
        return None
    replies = [step.t_us for step in walk.steps if step.direction == "reply"]
    return replies[-1] if replies else None


def advice(walk: Walk) -> Text | None:
    """What to look at when the probe failed; None where it was answered."""
    if walk.verdict == "answered" or not walk.steps:
        return None
    refusing = next((step for step in walk.steps if step.action in ("reject", "drop")), None)
    if refusing is not None and refusing.reason is not None:
        message = _BY_REASON.get(refusing.reason.id)
        if message is None:
            return refusing.reason
        return message(service=refusing.origin.object if refusing.origin is not None else "?")
    if walk.verdict == "refused":
        return _refused(walk.steps)
    back = [step for step in walk.steps if step.direction == "reply"]
    last = walk.steps[-1]
    if walk.verdict == "unreachable" and back:
        if "/" in back[0].place:
            return PROTOCOL_UNKNOWN(place=back[0].place)
        return NO_ROUTE(place=back[0].place, address=host_of(walk.steps[0].destination))
    seen = LAST_SEEN(place=f"{last.place}/{last.interface}" if last.interface is not None else last.place)
    if last.reason is not None and last.reason.id == "walk.nobody-there":
        return JOIN(one=last.reason, other=seen)
    is_error = bool(back) and back[0].reason is not None and back[0].reason.id == "walk.answers-with-error"
    asked = walk.steps[0].destination
    if walk.verdict == "no-reply" and back and not is_error and last.source != asked:
        return REPLY_ASTRAY(place=last.place, got=last.source, asked=asked)
    return seen


_BY_REASON = {
    "rule.rejected-no-endpoints": NO_ENDPOINTS,
    "rule.dropped-no-local": LOCAL_POLICY,
    "rule.dropped-firewall": SOURCE_RANGES,
}


def _refused(steps: Sequence[Step]) -> Text | None:
    request = [step for step in steps if step.direction == "request"]
    if not request:
        return None
    last = request[-1]
    port = last.destination.rpartition(":")[2]
    if "/" in last.place:
        return REFUSED(place=last.place, port=port)
    return REFUSED_BY_NODE(place=last.place, port=port)
