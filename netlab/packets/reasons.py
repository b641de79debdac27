"""Why each step happened, in words that name a cause a person can change.

One sentence each, present tense. Articles tell some of this differently (two DNATs by way of the ClusterIP, INPUT
before PREROUTING, SNAT whenever nodes differ): the texts say what the kernel did instead.
"""

from __future__ import annotations

import re

from netlab.model.rulebook import RuleEntry
from netlab.model.text import Message, Text
from netlab.model.walk import Changed, host_of

SENT = Message(
    "walk.sent",
    en="{place} sends the packet.",
    zh="{place} 发出数据包。",
)
SENT_TO = Message(
    "walk.sent-to",
    en="{place} sends the packet to {address}, {what}.",
    zh="{place} 把数据包发往 {address}，即 {what}。",
)
CLUSTER_IP_OF = Message(
    "address.cluster-ip",
    en="the clusterIP of {service}, which exists in rules only",
    zh="{service} 的 clusterIP，它只存在于规则中",
)
NODE_PORT_OF = Message(
    "address.node-port",
    en="the nodePort of {service} on {node}",
    zh="{service} 在 {node} 上的 nodePort",
)
EXTERNAL_IP_OF = Message(
    "address.external-ip",
    en="an external IP of {service}, which exists in rules only",
    zh="{service} 的 externalIP，它只存在于规则中",
)
LOAD_BALANCER_IP_OF = Message(
    "address.load-balancer-ip",
    en="a load balancer IP of {service}",
    zh="{service} 的负载均衡器 IP",
)
ARRIVED = Message("walk.arrived", en="The packet arrives at {place}.", zh="数据包到达 {place}。")
ARRIVED_AT_POD = Message(
    "walk.arrived-at-pod",
    en="The packet arrives at the Pod; the Pod sees {source} as its client.",
    zh="数据包到达 Pod；Pod 看到的客户端是 {source}。",
)
ARRIVED_BACK = Message("walk.arrived-back", en="The answer is back at {place}.", zh="应答回到 {place}。")
ACCEPTS = Message("walk.accepts", en="{place} accepts the connection (SYN-ACK).", zh="{place} 接受连接 (SYN-ACK)。")
RESETS = Message(
    "walk.resets",
    en="{place} refuses the connection (RST): nothing listens on port {port}.",
    zh="{place} 拒绝连接 (RST)：没有程序监听端口 {port}。",
)
ANSWERS = Message("walk.answers", en="{place} answers.", zh="{place} 作出应答。")
ANSWERS_WITH_ERROR = Message(
    "walk.answers-with-error",
    en="{place} answers with an error: {error}.",
    zh="{place} 以错误应答：{error}。",
)
HOPS_USED_UP = Message(
    "walk.hops-used-up",
    en="{place} answers with an error ({error}): the packet has no hops left. It went round, or began with too few.",
    zh="{place} 以错误应答 ({error})：数据包的跳数已用尽。它可能陷入环路，或初始跳数过小。",
)
NOBODY_SPEAKS_IT = Message(
    "walk.nobody-speaks-it",
    en="{place} answers with an error ({error}): nothing there speaks this protocol.",
    zh="{place} 以错误应答 ({error})：那里没有使用该协议的程序。",
)
LEAVES = Message("walk.leaves", en="The packet leaves by {interface}.", zh="数据包从 {interface} 离开。")
NOBODY_THERE = Message(
    "walk.nobody-there",
    en="{place} asks who has {address}, and nobody answers.",
    zh="{place} 询问谁拥有 {address}，没有主机应答。",
)
IN_VXLAN = Message(
    "walk.in-vxlan",
    en="The packet travels inside VXLAN, from node {outer_source} to node {outer_destination}.",
    zh="数据包封装在 VXLAN 中，从节点 {outer_source} 到节点 {outer_destination}。",
)

TO_SERVICES = Message(
    "rule.to-services",
    en="The first packet of a connection is compared with all Services before routing decides; INPUT comes later, and "
    "not at all for packets that go on to a Pod.",
    zh="连接的第一个数据包在路由决策之前与所有 Service 比对；INPUT 在其后，且转发给 Pod 的数据包根本不经过 INPUT。",
)
TO_SERVICES_LOCAL = Message(
    "rule.to-services-local",
    en="The packet is made on the node itself, so it meets the Services in OUTPUT instead of PREROUTING.",
    zh="数据包由节点自身产生，因此在 OUTPUT 而不是 PREROUTING 中与 Service 比对。",
)
TO_NODEPORTS = Message(
    "rule.to-nodeports",
    en="No Service address matched, and the destination is an address of this node: nodePorts are compared next.",
    zh="没有匹配的 Service 地址，而目标是本节点的地址：接下来比对 nodePort。",
)
NODE_PORT = Message(
    "rule.node-port",
    en="{port} is the nodePort of {service}.",
    zh="{port} 是 {service} 的 nodePort。",
)
CLUSTER_IP = Message(
    "rule.cluster-ip",
    en="The destination is the clusterIP and port of {service}.",
    zh="目标是 {service} 的 clusterIP 和端口。",
)
EXTERNAL_IP = Message(
    "rule.external-ip",
    en="The destination is an external IP and port of {service}.",
    zh="目标是 {service} 的 externalIP 和端口。",
)
LOAD_BALANCER_IP = Message(
    "rule.load-balancer-ip",
    en="The destination is a load balancer IP and port of {service}.",
    zh="目标是 {service} 的负载均衡器 IP 和端口。",
)
MASQ_EXTERNAL = Message(
    "rule.masq-external",
    en="Marked for SNAT because externalTrafficPolicy is Cluster: the endpoint may be on any node, and its answer has "
    "to come back through this one. This does not depend on where the endpoint is.",
    zh="因为 externalTrafficPolicy 为 Cluster 而打上 SNAT 标记：端点可能在任何节点上，应答必须经由本节点返回。"
    "这与端点在哪个节点无关。",
)
MASQ_LOCAL_SOURCE = Message(
    "rule.masq-local-source",
    en="Marked for SNAT because the packet comes from the node itself, whose source may be the Service's own address.",
    zh="因为数据包来自节点自身 (其源地址可能就是 Service 的地址) 而打上 SNAT 标记。",
)
MASQ_NOT_LOCAL = Message(
    "rule.masq-not-local",
    en="Marked for SNAT because the source {source} is not {local} ({field}): the answer might take another way back.",
    zh="因为源地址 {source} 不属于 {local} ({field}) 而打上 SNAT 标记：否则应答可能走另一条路返回。",
)
MASQ_ALL = Message(
    "rule.masq-all",
    en="Marked for SNAT because masqueradeAll is true: all traffic to a clusterIP is masqueraded.",
    zh="因为 masqueradeAll 为 true 而打上 SNAT 标记：所有发往 clusterIP 的流量都做源地址改写。",
)
MASQ_HAIRPIN = Message(
    "rule.masq-hairpin",
    en="Marked for SNAT because the chosen endpoint is the sender itself: without it the Pod would get a packet from "
    "its own address.",
    zh="因为选中的端点就是发送者自己而打上 SNAT 标记：否则 Pod 会收到来自自身地址的数据包。",
)
SETS_MARK = Message(
    "rule.sets-mark",
    en="The mark {mark} is set; the source changes only later, in POSTROUTING.",
    zh="设置标记 {mark}；源地址要到后面的 POSTROUTING 才改写。",
)
PICKED = Message(
    "rule.picked",
    en="One of {count} endpoints, each picked with the same chance ({chance}).",
    zh="{count} 个端点之一，各端点被选中的概率相同 ({chance})。",
)
ONLY_ENDPOINT = Message(
    "rule.only-endpoint",
    en="The only endpoint of the Service that this node uses.",
    zh="该 Service 在本节点上可用的唯一端点。",
)
STICKY = Message(
    "rule.sticky",
    en="The client was sent to this endpoint before, and sessionAffinity is ClientIP.",
    zh="该客户端之前被发往此端点，且 sessionAffinity 为 ClientIP。",
)
POLICY_CHAIN = Message(
    "rule.policy-chain",
    en="externalTrafficPolicy decides which endpoints may be chosen: {which}.",
    zh="externalTrafficPolicy 决定可选哪些端点：{which}。",
)
POLICY_ALL = Message("rule.policy-all", en="all of the cluster's", zh="整个集群的端点")
POLICY_LOCAL = Message("rule.policy-local", en="this node's own only", zh="仅本节点的端点")
SHORT_CIRCUIT = Message(
    "rule.short-circuit",
    en="Traffic from inside the cluster takes the short way to all endpoints, whatever externalTrafficPolicy is.",
    zh="来自集群内部的流量直接到达所有端点，与 externalTrafficPolicy 无关。",
)
SOURCE_ALLOWED = Message(
    "rule.source-allowed",
    en="The source is in loadBalancerSourceRanges.",
    zh="源地址属于 loadBalancerSourceRanges。",
)
DNAT = Message(
    "rule.dnat",
    en="One DNAT, straight from {old} to the endpoint {new}; the clusterIP is no stop on the way.",
    zh="一次 DNAT，从 {old} 直接改写为端点 {new}；中途不经过 clusterIP。",
)
NOT_MARKED = Message(
    "rule.not-marked",
    en="The packet has no mark, so its source stays as it is.",
    zh="数据包没有标记，因此源地址保持不变。",
)
CLEARS_MARK = Message(
    "rule.clears-mark",
    en="The mark has served its purpose and is cleared.",
    zh="标记已完成使命，被清除。",
)
MASQUERADE = Message(
    "rule.masquerade",
    en="SNAT to {new}, the address of the interface by which the packet leaves ({interface}).",
    zh="SNAT 为 {new}，即数据包离开时所经接口 ({interface}) 的地址。",
)
MASQUERADE_UNCHANGED = Message(
    "rule.masquerade-unchanged",
    en="Masqueraded, but the source already is the address of the interface by which the packet leaves.",
    zh="做了源地址改写，但源地址本来就是数据包离开时所经接口的地址。",
)
USER_DNAT = Message(
    "rule.user-dnat",
    en="The rule sends what was for {old} to {new}.",
    zh="该规则把发往 {old} 的数据包改为发往 {new}。",
)
REDIRECTED = Message(
    "rule.redirected",
    en="The rule turns what was for {old} to the node itself ({new}).",
    zh="该规则把发往 {old} 的数据包转向节点自身 ({new})。",
)
USER_SNAT = Message(
    "rule.user-snat",
    en="The rule sets the source to {new}.",
    zh="该规则把源地址改为 {new}。",
)
TRANSLATES = Message(
    "rule.translates",
    en="The rule translates the address; what it became was not observed.",
    zh="该规则转换地址；没有观察到转换的结果。",
)
FORWARD_MARKED = Message(
    "rule.forward-marked",
    en="Packets marked for SNAT are let through, whatever the policy of FORWARD is.",
    zh="带有 SNAT 标记的数据包一律放行，与 FORWARD 的默认策略无关。",
)
FORWARD_ESTABLISHED = Message(
    "rule.forward-established",
    en="The packet belongs to a connection that is known already.",
    zh="数据包属于已有的连接。",
)
DROPPED_INVALID = Message(
    "rule.dropped-invalid",
    en="conntrack takes the packet for invalid, so its addresses would not be translated; it is dropped to protect the "
    "connection.",
    zh="连接跟踪认为该数据包无效，其地址不会被转换；为保护连接将其丢弃。",
)
REJECTED_NO_ENDPOINTS = Message(
    "rule.rejected-no-endpoints",
    en="{service} has no endpoints: the node answers with {answer} at once.",
    zh="{service} 没有端点：节点立即以 {answer} 应答。",
)
DROPPED_NO_LOCAL = Message(
    "rule.dropped-no-local",
    en="{service} has endpoints, but none on this node, and its traffic policy is Local: the packet is dropped, so "
    "that a load balancer tries another node.",
    zh="{service} 有端点，但本节点上没有，且其流量策略为 Local：丢弃数据包，让负载均衡器尝试其他节点。",
)
DROPPED_FIREWALL = Message(
    "rule.dropped-firewall",
    en="The source is not in loadBalancerSourceRanges of {service}.",
    zh="源地址不在 {service} 的 loadBalancerSourceRanges 中。",
)
DROPPED_LOCALNET = Message(
    "rule.dropped-localnet",
    en="A packet to 127.0.0.0/8 came from elsewhere: this guard closes what route_localnet would open.",
    zh="发往 127.0.0.0/8 的数据包来自别处：这条防护规则堵住 route_localnet 打开的口子。",
)
DROPPED_BY_RULE = Message("rule.dropped", en="The rule drops the packet.", zh="该规则丢弃数据包。")
REJECTED_BY_RULE = Message("rule.rejected", en="The rule rejects the packet.", zh="该规则拒绝数据包。")
DROPPED_BY_POLICY = Message(
    "rule.dropped-policy",
    en="No rule of the chain decided, and its policy is DROP.",
    zh="链中没有规则做出决定，而其默认策略为 DROP。",
)

UNDO_SNAT = Message(
    "conntrack.undo-snat",
    en="conntrack undoes the SNAT of the request: the answer goes on to {new}. No rule is consulted.",
    zh="连接跟踪撤销请求的 SNAT：应答继续发往 {new}。不再查询任何规则。",
)
UNDO_DNAT = Message(
    "conntrack.undo-dnat",
    en="conntrack undoes the DNAT of the request: the client sees the answer come from {new}, which it asked.",
    zh="连接跟踪撤销请求的 DNAT：客户端看到应答来自它所请求的 {new}。",
)
BY_ENTRY = Message(
    "conntrack.by-entry",
    en="conntrack translates as the connection's entry says.",
    zh="连接跟踪按照该连接的条目进行转换。",
)
UNEXPLAINED = Message(
    "conntrack.unexplained",
    en="The address changed here, but what changed it was not observed.",
    zh="地址在这里发生了变化，但没有观察到是什么改变了它。",
)

_TARGET = re.compile(r"(?:^| )-[jg] (\S+)")
_COMMENT = re.compile(r'--comment (?:"((?:[^"\\]|\\.)*)"|(\S+))')
_SERVICE_COMMENT = re.compile(r"^(\S+/\S+?)(?: .*)?$")


def rule_target(text: str) -> str | None:
    """What follows -j or -g in a rule."""
    match = _TARGET.search(_COMMENT.sub("", text))
    return match.group(1) if match else None


_TRANSLATING: dict[str, Changed] = {
    "DNAT": "destination",
    "REDIRECT": "destination",
    "SNAT": "source",
    "MASQUERADE": "source",
}


def translated_part(rule: RuleEntry) -> Changed | None:
    """Which address a rule rewrites, if it is one that does."""
    return _TRANSLATING.get(rule_target(rule.text) or "")


def promised_destination(text: str) -> str | None:
    """Where a DNAT rule leads, if its text leaves no choice."""
    match = re.search(r"--to-destination (\S+)(?: |$)(?!.*--random)", text)
    if match is None or "-" in match.group(1):
        return None
    return match.group(1)


def mark_of(text: str) -> str:
    """What a MARK rule sets."""
    match = re.search(r"--set-x?mark (\S+)", text)
    return match.group(1) if match else "?"


def explain_translation(rule: RuleEntry, part: Changed, old: str, new: str | None, interface: str | None) -> Text:
    """What a rule did that made ``new`` of ``old`` (None: not observed), the packet leaving by ``interface``."""
    target = rule_target(rule.text)
    if new is None:
        return TRANSLATES()
    if part == "destination":
        if target == "REDIRECT":
            return REDIRECTED(old=old, new=new)
        return DNAT(old=old, new=new) if rule.chain.startswith("KUBE-SEP-") else USER_DNAT(old=old, new=new)
    if target == "SNAT":
        return USER_SNAT(new=new)
    if host_of(new) == host_of(old):
        return MASQUERADE_UNCHANGED()
    return MASQUERADE(new=host_of(new), interface=interface or "?")


def service_of_rule(rule: RuleEntry) -> str:
    """The Service that a rule is about: from its cause, else from its comment, else the chain's name."""
    if rule.origin is not None and rule.origin.object.startswith("Service "):
        return rule.origin.object
    match = _COMMENT.search(rule.text)
    if match and (name := _SERVICE_COMMENT.match(match.group(1) or match.group(2))):
        return f"Service {name.group(1).partition(':')[0]}"
    return rule.chain


def explain_rule(rule: RuleEntry, hook: str, source: str) -> Text | None:
    """Why kube-proxy's rule matched a packet from ``source``; None for rules that are not kube-proxy's.

    Rules that change addresses are explained where the change is known (:data:`DNAT`, :data:`MASQUERADE`).
    """
    target = rule_target(rule.text) or ""
    chain = rule.chain
    if target in ("DROP", "REJECT"):
        return _explain_refusal(rule, target)
    if target == "KUBE-SERVICES" and rule.table == "nat":
        return TO_SERVICES() if hook == "PREROUTING" else TO_SERVICES_LOCAL()
    if target == "KUBE-NODEPORTS" and rule.table == "nat":
        return TO_NODEPORTS()
    if chain == "KUBE-SERVICES":
        return _explain_dispatch(rule)
    if chain == "KUBE-NODEPORTS" and rule.table == "nat":
        match = re.search(r"--dport (\d+)", rule.text)
        return NODE_PORT(port=match.group(1) if match else "?", service=service_of_rule(rule))
    if target == "KUBE-MARK-MASQ":
        return _explain_mark(rule, source)
    if chain == "KUBE-MARK-MASQ":
        return SETS_MARK(mark=mark_of(rule.text).partition("/")[0])
    if chain.startswith("KUBE-FW-") and target:
        return SOURCE_ALLOWED()
    if chain.startswith("KUBE-EXT-"):
        if "--src-type LOCAL" in rule.text or " -s " in f" {rule.text}" or " -i " in f" {rule.text}":
            return SHORT_CIRCUIT()
        return POLICY_CHAIN(which=POLICY_LOCAL() if target.startswith("KUBE-SVL-") else POLICY_ALL())
    if target.startswith("KUBE-SEP-"):
        return _explain_choice(rule)
    if chain == "KUBE-POSTROUTING":
        return NOT_MARKED() if target == "RETURN" else CLEARS_MARK() if target == "MARK" else None
    if chain == "KUBE-FORWARD":
        return FORWARD_MARKED() if "-m mark" in rule.text else FORWARD_ESTABLISHED()
    return None


def _explain_dispatch(rule: RuleEntry) -> Text | None:
    service = service_of_rule(rule)
    for words, message in (
        ("cluster IP", CLUSTER_IP),
        ("external IP", EXTERNAL_IP),
        ("loadbalancer IP", LOAD_BALANCER_IP),
    ):
        if words in rule.text:
            return message(service=service)
    return None


def _explain_mark(rule: RuleEntry, source: str) -> Text | None:
    if rule.chain.startswith("KUBE-SEP-"):
        return MASQ_HAIRPIN()
    if rule.chain.startswith("KUBE-EXT-"):
        return MASQ_LOCAL_SOURCE() if "--src-type LOCAL" in rule.text else MASQ_EXTERNAL()
    match = re.match(r"! -s (\S+)|.*! -i (\S+)", rule.text)
    if match is None:
        return MASQ_ALL()
    field = rule.origin.field if rule.origin is not None else "detectLocalMode"
    return MASQ_NOT_LOCAL(source=source, local=match.group(1) or match.group(2), field=field)


def _explain_choice(rule: RuleEntry) -> Text:
    if "-m recent" in rule.text:
        return STICKY()
    return ONLY_ENDPOINT() if rule.choices <= 1 else PICKED(count=rule.choices, chance=f"1/{rule.choices}")


def _explain_refusal(rule: RuleEntry, target: str) -> Text:
    if "has no endpoints" in rule.text:
        match = re.search(r"--reject-with (\S+)", rule.text)
        return REJECTED_NO_ENDPOINTS(service=service_of_rule(rule), answer=match.group(1) if match else "RST")
    if "has no local endpoints" in rule.text:
        return DROPPED_NO_LOCAL(service=service_of_rule(rule))
    if rule.chain == "KUBE-PROXY-FIREWALL":
        return DROPPED_FIREWALL(service=service_of_rule(rule))
    if rule.chain == "KUBE-FIREWALL":
        return DROPPED_LOCALNET()
    if "--ctstate INVALID" in rule.text:
        return DROPPED_INVALID()
    return DROPPED_BY_RULE() if target == "DROP" else REJECTED_BY_RULE()
