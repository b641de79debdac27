"""A walk in a few words: what came of the probe, what to remember, and what to try when it failed."""

from __future__ import annotations

from collections.abc import Sequence

from netlab.model.text import Message, Text
from netlab.model.walk import Endpoint, Step, Verdict, host_of

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
NOBODY_THERE = Message(
    "advice.nobody-there",
    en="Nobody has the address {address}: {place} asked for it (ARP) and got no answer.",
    zh="没有主机拥有地址 {address}：{place} 发出了 ARP 询问，但没有得到应答。",
)
NO_ROUTE = Message(
    "advice.no-route",
    en="{place} has no route to {address} and said so.",
    zh="{place} 没有到 {address} 的路由，并作了告知。",
)
LAST_SEEN = Message(
    "advice.last-seen",
    en="The packet was last seen at {place}.",
    zh="数据包最后一次出现在 {place}。",
)
REPLY_ASTRAY = Message(
    "advice.reply-astray",
    en="The answer reached {place}, but it comes from {got} and not from {asked}, which was asked, so it is not taken. On "
    "its way it did not pass conntrack on the node that translated the request (see bridgeNetfilter, masqueradeAll).",
    zh="应答到达了 {place}，但它来自 {got} 而不是所请求的 {asked}，因此不被接受。它在途中没有经过转换请求的那个节点上的连接跟踪 "
    "(参见 bridgeNetfilter、masqueradeAll)。",
)


def summary_for(
    verdict: Verdict, request: Sequence[Step], endpoint: Endpoint | None, seen: str | None, source: str
) -> Text:
    """What to remember of a walk: the source that the endpoint saw, and how often addresses were rewritten."""
    dnat = sum("destination" in step.changed for step in request)
    snat = sum("source" in step.changed for step in request)
    counts = COUNTS(dnat=dnat, snat=snat)
    if endpoint is None or seen is None:
        first = NOTHING_SEEN()
        return first if not (dnat or snat) else JOIN(one=first, other=counts)
    if seen == source:
        first = SAW_CLIENT(seen=seen)
    elif seen.rpartition(":")[0] == source.rpartition(":")[0]:
        first = SAW_SAME_HOST(seen=seen)
    else:
        first = SAW_OTHER(seen=seen, source=source)
    return JOIN(one=first, other=counts)


def advice_for(
    verdict: Verdict,
    steps: Sequence[Step],
    destination: str,
    last_seen: tuple[str, str | None] | None,
    unanswered_arp: tuple[str, str] | None,
) -> Text | None:
    """What to look at when the probe failed; None where it was answered.

    ``last_seen``: place and interface; ``unanswered_arp``: who asked for which address in vain.
    """
    if verdict == "answered":
        return None
    refusing = next((step for step in steps if step.action in ("reject", "drop")), None)
    if refusing is not None and refusing.reason is not None:
        by_reason = {
            "rule.rejected-no-endpoints": NO_ENDPOINTS,
            "rule.dropped-no-local": LOCAL_POLICY,
            "rule.dropped-firewall": SOURCE_RANGES,
        }
        message = by_reason.get(refusing.reason.id)
        if message is not None:
            service = refusing.origin.object if refusing.origin is not None else "?"
            return message(service=service)
        return refusing.reason
    where = _place_text(last_seen)
    if verdict == "refused":
        return _refused(steps)
    if verdict == "unreachable":
        answering = next((step for step in steps if step.direction == "reply"), None)
        if answering is not None:
            return NO_ROUTE(place=answering.place, address=host_of(destination))
    if unanswered_arp is not None:
        nobody = NOBODY_THERE(place=unanswered_arp[0], address=unanswered_arp[1])
        return JOIN(one=nobody, other=LAST_SEEN(place=where))
    back = [step for step in steps if step.direction == "reply"]
    if verdict == "no-reply" and back and back[-1].source != destination:
        return REPLY_ASTRAY(place=back[-1].place, got=back[-1].source, asked=destination)
    return LAST_SEEN(place=where)


def _refused(steps: Sequence[Step]) -> Text | None:
    request = [step for step in steps if step.direction == "request"]
    if not request:
        return None
    last = request[-1]
    port = last.destination.rpartition(":")[2]
    if "/" in last.place:
        return REFUSED(place=last.place, port=port)
    return REFUSED_BY_NODE(place=last.place, port=port)


def _place_text(last_seen: tuple[str, str | None] | None) -> str:
    if last_seen is None:
        return "-"
    place, interface = last_seen
    return f"{place}/{interface}" if interface is not None else place
