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
SAW = Message("summary.saw", en="The Pod saw {seen} as its client.", zh="Pod 看到的客户端是 {seen}。")
SAW_UNKNOWN = Message(
    "summary.saw-unknown",
    en="What the endpoint saw as its client was not observed.",
    zh="没有观察到端点看到的客户端地址。",
)
COUNTS_AT_LEAST = Message(
    "summary.counts-at-least",
    en="At least {dnat} DNAT and {snat} SNAT: not all was observed.",
    zh="至少 {dnat} 次 DNAT 和 {snat} 次 SNAT：并非全部过程都被观察到。",
)
COUNTS = Message("summary.counts", en="{dnat} DNAT, {snat} SNAT.", zh="{dnat} 次 DNAT，{snat} 次 SNAT。")
NOTHING_SEEN = Message("summary.nothing", en="The request did not reach an endpoint.", zh="请求没有到达任何端点。")
JOIN = Message("summary.join", en="{one} {other}", zh="{one}{other}")

NO_SUCH_PORT = Message(
    "advice.no-such-port",
    en="{told} Rules take care of a Service's own ports alone.",
    zh="{told}规则只处理 Service 自己的端口。",
)
NO_BALANCER = Message(
    "advice.no-balancer",
    en="{place} found no way to {address}: nothing in the lab routes this address to a node, as a load balancer or a "
    "route would (see loadBalancer in the Lab document). Send from a Pod or a node: their rules know the address.",
    zh="{place} 找不到通往 {address} 的路径：实验中没有负载均衡器或路由把该地址引向节点"
    " (参见 Lab 文档的 loadBalancer)。请从 Pod 或节点发送：它们的规则认识该地址。",
)
HAIRPIN = Message(
    "advice.hairpin",
    en="Set hairpin: true in the Lab document (hairpinMode of the CNI bridge plugin), so that a Pod can reach itself "
    "through a Service.",
    zh="请在 Lab 文档中设置 hairpin: true (即 CNI bridge 插件的 hairpinMode)，使 Pod 能通过 Service 访问自己。",
)
TARGET_PORT = Message(
    "advice.target-port",
    en="Compare the targetPort of {service} with the names of the Pods' ports.",
    zh="请比较 {service} 的 targetPort 与 Pod 的端口名。",
)
NOT_READY = Message(
    "advice.not-ready",
    en="Look at why the Pods of {service} are not ready (status.conditions), or set publishNotReadyAddresses.",
    zh="请查明 {service} 的 Pod 为何未就绪 (status.conditions)，或设置 publishNotReadyAddresses。",
)
SELECTOR = Message(
    "advice.selector",
    en="Compare the selector of {service} with the labels of the Pods that it should pick.",
    zh="请比较 {service} 的选择算符与它应当选中的 Pod 的标签。",
)
SLICES = Message(
    "advice.slices",
    en="Look at the EndpointSlices of {service}: addresses, conditions, ports.",
    zh="请检查 {service} 的 EndpointSlice：地址、状态、端口。",
)
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
NOTHING_LISTENS = Message(
    "advice.nothing-listens",
    en="Nothing listens on {port} at {place}.",
    zh="{place} 上没有程序监听 {port}。",
)
REFUSED_BY_NODE = Message(
    "advice.refused-by-node",
    en="No Service has this address and port, so the packet went to {place} itself, where nothing listens on {port}.",
    zh="没有 Service 使用该地址和端口，数据包到达了 {place} 自身，而那里没有程序监听 {port}。",
)
NO_ROUTE = Message(
    "advice.no-route",
    en="{place} found no way to {address} and said so.",
    zh="{place} 找不到通往 {address} 的路径，并作了告知。",
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
    translated = [step for step in request if step.action != "relayed"]
    dnat = sum("destination" in step.changed for step in translated)
    snat = sum("source" in step.changed for step in translated)
    in_part = any(gap.after <= len(request) for gap in walk.gaps) and walk.endpoint is not None
    counts = (COUNTS_AT_LEAST if in_part else COUNTS)(dnat=dnat, snat=snat)
    if walk.endpoint is None or not request:
        first = NOTHING_SEEN()
        return first if not (dnat or snat) else JOIN(one=first, other=counts)
    return JOIN(one=_seen(walk, request), other=counts)


def _seen(walk: Walk, request: Sequence[Step]) -> Text:
    seen, source = walk.seen_by_pod, request[0].source
    if seen is None:
        known = walk.endpoint is not None and walk.endpoint.pod is None
        return OTHER_SAW(seen=request[-1].source) if known else SAW_UNKNOWN()
    if not _starts_at_sender(walk):
        return SAW(seen=seen)
    if seen == source:
        return SAW_CLIENT(seen=seen)
    if host_of(seen) == host_of(source):
        return SAW_SAME_HOST(seen=seen)
    return SAW_OTHER(seen=seen, source=source)


def _starts_at_sender(walk: Walk) -> bool:
    """Whether the walk's first step is the sending, so that its addresses are the sender's own."""
    return all(gap.reason.id != "gap.no-request" for gap in walk.gaps)


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
    begin = walk.steps[0].reason
    if begin is not None and begin.id == "walk.sent-to-no-port":
        return NO_SUCH_PORT(told=begin)
    refusing = next((step for step in walk.steps if step.action in ("reject", "drop")), None)
    if refusing is not None and refusing.reason is not None:
        message = _BY_REASON.get(refusing.reason.id)
        if message is None:
            return refusing.reason
        return message(service=refusing.origin.object if refusing.origin is not None else "?")
    request = [step for step in walk.steps if step.direction == "request"]
    back = [step for step in walk.steps if step.direction == "reply"]
    answer = back[0].reason.id if back and back[0].reason is not None else ""
    if walk.verdict == "refused" and answer == "walk.resets-stray":
        return back[0].reason
    if walk.verdict == "refused":
        return _refused(request, back) if answer in _REFUSALS else None
    last = walk.steps[-1]
    if walk.verdict == "unreachable" and back:
        if answer in ("walk.hops-used-up", "walk.nobody-speaks-it"):
            return back[0].reason
        if request and request[-1].action == "unanswered":
            return request[-1].reason
        if answer == "walk.answers-with-error" and request:
            outside = begin is not None and begin.id == "walk.sent-to-balanced"
            message = NO_BALANCER if outside and not _translated(request) else NO_ROUTE
            return message(place=back[0].place, address=host_of(request[-1].destination))
    seen = LAST_SEEN(place=f"{last.place}/{last.interface}" if last.interface is not None else last.place)
    if last.reason is not None and last.reason.id == "walk.nobody-there":
        return JOIN(one=last.reason, other=seen)
    if any(gap.reason.id == "gap.hairpin-off" for gap in walk.gaps):
        return HAIRPIN()
    if walk.verdict == "no-reply" and _came_astray(walk, back) and answer not in _ERRORS:
        return REPLY_ASTRAY(place=last.place, got=last.source, asked=walk.steps[0].destination)
    return seen


def _translated(request: Sequence[Step]) -> bool:
    return any("destination" in step.changed for step in request)


def _by_service(request: Sequence[Step]) -> bool:
    """Whether kube-proxy's rules chose the destination."""
    chosen = [step for step in request if step.action == "DNAT"]
    return any(step.origin is not None or (step.chain or "").startswith("KUBE-") for step in chosen)


def _came_astray(walk: Walk, back: Sequence[Step]) -> bool:
    """Whether an answer was seen to come back to the sender, from somebody else than it asked."""
    if not back or not _starts_at_sender(walk):
        return False
    first, last = walk.steps[0], back[-1]
    return last.place == first.place and last.action == "received" and last.source != first.destination


_ERRORS = ("walk.answers-with-error", "walk.hops-used-up", "walk.nobody-speaks-it")
_REFUSALS = ("walk.resets", "walk.answers-with-error")
_BY_REASON = {
    "rule.rejected-no-endpoints": NO_ENDPOINTS,
    "ipvs.no-real-server": NO_ENDPOINTS,
    "rule.rejected-nothing-selected": SELECTOR,
    "rule.rejected-target-port": TARGET_PORT,
    "rule.rejected-not-ready": NOT_READY,
    "rule.rejected-ending": NOT_READY,
    "rule.rejected-no-selector": SLICES,
    "rule.rejected-slices": SLICES,
    "rule.dropped-no-local": LOCAL_POLICY,
    "rule.dropped-firewall": SOURCE_RANGES,
}


def _refused(request: Sequence[Step], back: Sequence[Step]) -> Text | None:
    """``back`` begins where the refusal was made."""
    place = back[0].place
    if not request or request[-1].place != place:
        return None
    port = request[-1].destination.rpartition(":")[2]
    if _translated(request):
        return (REFUSED if _by_service(request) else NOTHING_LISTENS)(place=place, port=port)
    if "/" in place or host_of(request[-1].destination) in ("127.0.0.1", "::1"):
        return NOTHING_LISTENS(place=place, port=port)
    return REFUSED_BY_NODE(place=place, port=port)
