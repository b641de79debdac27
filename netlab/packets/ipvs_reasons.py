"""What kube-proxy's ipvs mode did: its few rules around the kernel's balancer, and the balancer itself."""

from __future__ import annotations

import re
from collections.abc import Callable

from netlab.model.rulebook import ElementEntry, RuleEntry, ServerEntry
from netlab.model.text import Message, Text
from netlab.packets import reasons
from netlab.packets.headers import PROTOCOL_NAMES, Packet

SETS = "ipset"
"""What stands for the table in the place of a set's element."""

BALANCED = Message(
    "ipvs.balanced",
    en="IPVS picked {new}, one of {count} real servers of the virtual server {old} (scheduler {scheduler}); one "
    "translation, straight to the endpoint. It works on packets for the node itself, behind INPUT: kube-ipvs0 has the "
    "Services' addresses.",
    zh="IPVS 从虚拟服务器 {old} 的 {count} 个真实服务器中选中 {new} (调度算法 {scheduler})；一次转换，直接到端点。"
    "它处理发往节点自身的数据包，位于 INPUT 之后：Service 的地址都在 kube-ipvs0 上。",
)
BALANCED_LOCALLY = Message(
    "ipvs.balanced-locally",
    en="IPVS picked {new}, one of {count} real servers of the virtual server {old} (scheduler {scheduler}), in OUTPUT: "
    "the packet is made on the node itself.",
    zh="IPVS 在 OUTPUT 中从虚拟服务器 {old} 的 {count} 个真实服务器中选中 {new} (调度算法 {scheduler})："
    "数据包由节点自身产生。",
)
BY_CONNECTION = Message(
    "ipvs.by-connection",
    en="IPVS sends what is for {old} to {new}, as its connection table says.",
    zh="IPVS 按其连接表把发往 {old} 的数据包送往 {new}。",
)
UNDONE = Message(
    "ipvs.undone",
    en="IPVS undoes its translation: the client sees the answer come from {new}, which it asked.",
    zh="IPVS 撤销其转换：客户端看到应答来自它所请求的 {new}。",
)
NO_REAL_SERVER = Message(
    "ipvs.no-real-server",
    en="The virtual server {virtual} of {service} has no real server: IPVS answers with {answer} at once.",
    zh="{service} 的虚拟服务器 {virtual} 没有真实服务器：IPVS 立即以 {answer} 应答。",
)
TO_SETS = Message(
    "ipvs.to-sets",
    en="In ipvs mode these rules only decide whose source is to change; IPVS picks the endpoint later, behind INPUT.",
    zh="在 ipvs 模式下，这些规则只决定是否改写源地址；端点由 IPVS 稍后在 INPUT 之后选取。",
)
TO_SETS_LOCALLY = Message(
    "ipvs.to-sets-locally",
    en="In ipvs mode these rules only decide whose source is to change; for packets made on the node IPVS picks the "
    "endpoint in OUTPUT.",
    zh="在 ipvs 模式下，这些规则只决定是否改写源地址；对于节点自身产生的数据包，IPVS 在 OUTPUT 中选取端点。",
)
FOR_THE_NODE = Message(
    "ipvs.for-the-node",
    en="The destination is an address of this node: its port is compared with all nodePorts.",
    zh="目标是本节点的地址：将其端口与所有 nodePort 比对。",
)
PASSED_ON = Message(
    "ipvs.passed-on",
    en="The packet is for {service}, so no other rule is to change it; IPVS takes it from here.",
    zh="数据包属于 {service}，不允许其他规则改动它；接下来由 IPVS 处理。",
)
IS_A_SERVICE = Message(
    "ipvs.is-a-service",
    en="The destination is an address and port of {service}: it may pass to IPVS.",
    zh="目标是 {service} 的地址和端口：放行给 IPVS。",
)
NOT_A_PORT = Message(
    "ipvs.not-a-port",
    en="The destination is an address of {service} that kube-ipvs0 carries, but no Service has this port: without this "
    "rule the packet would reach the node's own programs.",
    zh="目标是 kube-ipvs0 上 {service} 的地址，但没有 Service 使用此端口：若无此规则，数据包会到达节点自身的程序。",
)

_MATCH = re.compile(r"--match-set (\S+) (\S+)")


def looked_up(rule: RuleEntry, packet: Packet, find: Callable[[str, str], ElementEntry | None]) -> ElementEntry | None:
    """The element of a set that a rule found for a packet. ``find(set, element)`` knows the elements."""
    match = _MATCH.search(rule.text)
    if match is None:
        return None
    name, directions = match.groups()
    protocol = PROTOCOL_NAMES.get(packet.protocol, "")
    port = f"{protocol}:{packet.destination_port}"
    keys = {
        "dst": (str(packet.destination_port), packet.destination),
        "dst,dst": (f"{packet.destination},{port}",),
        "src,dst": (f"{packet.source},{port}",),
        "dst,dst,src": (f"{packet.destination},{port},{packet.source}",),
    }
    found = (find(name, key) for key in keys.get(directions, ()))
    return next((each for each in found if each is not None), None)


def explain_balancing(server: ServerEntry | None, old: str, new: str, *, locally: bool) -> Text:
    """Why IPVS sends what was for ``old`` to ``new``; ``server`` is its virtual server, where that is known."""
    if server is None:
        return BY_CONNECTION(old=old, new=new)
    message = BALANCED_LOCALLY if locally else BALANCED
    return message(old=old, new=new, count=len(server.reals), scheduler=server.scheduler)


def explain_rule(rule: RuleEntry, target: str, hook: str, element: ElementEntry | None) -> Text | None:
    """Why a rule of ipvs mode matched; None for rules that only lead on, and for those that iptables mode has too."""
    chain = rule.chain
    if target == "KUBE-SERVICES":
        return TO_SETS() if hook == "PREROUTING" else TO_SETS_LOCALLY()
    if target == "KUBE-NODE-PORT" and rule.table == "nat":
        return FOR_THE_NODE()
    service = element.origin.object if element is not None and element.origin is not None else "?"
    if target == "KUBE-MARK-MASQ":
        return _explain_mark(rule)
    if chain == "KUBE-IPVS-FILTER":
        return NOT_A_PORT(service=service) if target == "REJECT" else IS_A_SERVICE(service=service)
    if chain == "KUBE-SERVICES" and target == "ACCEPT":
        return PASSED_ON(service=service)
    if chain == "KUBE-SOURCE-RANGES-FIREWALL":
        return reasons.SOURCE_ALLOWED() if target == "RETURN" else reasons.DROPPED_FIREWALL(service=service)
    if chain in ("KUBE-NODE-PORT", "KUBE-LOAD-BALANCER") and target == "RETURN":
        return reasons.POLICY_CHAIN(which=reasons.POLICY_LOCAL())
    return None


def _explain_mark(rule: RuleEntry) -> Text | None:
    if rule.chain == "KUBE-SERVICES" and "KUBE-CLUSTER-IP" in rule.text.replace("KUBE-6-", "KUBE-"):
        # Who is masqueraded is told as in iptables mode, but for the node that reaches its own kube-ipvs0.
        return reasons.MASQ_LOCAL_SOURCE() if "src,dst" in rule.text else None
    return reasons.MASQ_EXTERNAL()
