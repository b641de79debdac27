"""Why each step happened, in words that name a cause a person can change.

One sentence each, present tense. Articles tell some of this differently (two DNATs by way of the ClusterIP, INPUT
before PREROUTING, SNAT whenever nodes differ): the texts say what the kernel did instead.
"""

from __future__ import annotations

from netlab.model.text import Message

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
SENT_TO_BALANCED = Message(
    "walk.sent-to-balanced",
    en="{place} sends the packet to {address}, {what}.",
    zh="{place} 把数据包发往 {address}，即 {what}。",
)
SENT_TO_NO_PORT = Message(
    "walk.sent-to-no-port",
    en="{place} sends the packet to {address}; {what}.",
    zh="{place} 把数据包发往 {address}；{what}。",
)
NO_SUCH_PORT = Message(
    "address.no-such-port",
    en="{service} has no port {port}; it has {have}",
    zh="{service} 没有端口 {port}；它有 {have}",
)
NO_SUCH_PROTOCOL = Message(
    "address.no-such-protocol",
    en="{service} has no port for {protocol}; it has {have}",
    zh="{service} 没有用于 {protocol} 的端口；它有 {have}",
)
CLUSTER_IP_OF = Message(
    "address.cluster-ip",
    en="the clusterIP of {service}, which exists in rules only",
    zh="{service} 的 clusterIP，它只存在于规则中",
)
CLUSTER_IP_ON_NODES = Message(
    "address.cluster-ip-on-nodes",
    en="the clusterIP of {service}, which every node has on kube-ipvs0",
    zh="{service} 的 clusterIP，每个节点的 kube-ipvs0 上都有它",
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
RESETS_STRAY = Message(
    "walk.resets-stray",
    en="{place} answers with RST: the packet acknowledges something, and belongs to no connection there. That tells "
    "nothing about whether a program listens on port {port}.",
    zh="{place} 以 RST 应答：该数据包带有确认号，却不属于那里的任何连接。这并不说明是否有程序监听端口 {port}。",
)
RESETS_BY_RULE = Message(
    "walk.resets-by-rule",
    en="{place} answers with RST, as its rule says.",
    zh="{place} 按照其规则以 RST 应答。",
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
    en="Marked for SNAT because the source {source} is not in {local} ({field}): the answer might take another way "
    "back.",
    zh="因为源地址 {source} 不在 {local} 中 ({field}) 而打上 SNAT 标记：否则应答可能走另一条路返回。",
)
MASQ_NOT_BY_INTERFACE = Message(
    "rule.masq-not-by-interface",
    en="Marked for SNAT because the packet did not come in by {interface} ({field}), so it is not from a Pod of this "
    "node: the answer might take another way back.",
    zh="因为数据包不是从 {interface} 进入 ({field})，即并非来自本节点的 Pod，而打上 SNAT 标记："
    "否则应答可能走另一条路返回。",
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
REJECTED_UNREADY = {
    which: Message(
        f"rule.rejected-{which}",
        en="{told} The cause: {why}.",
        zh="{told}原因：{why}。",
    )
    for which in ("nothing-selected", "target-port", "not-ready", "ending", "no-selector", "slices")
}
"""The same where it is known why."""
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
REMEMBERED = Message(
    "rule.remembered",
    en="sessionAffinity is ClientIP: the client is noted down, so that it comes to this endpoint again.",
    zh="sessionAffinity 为 ClientIP：记下该客户端，以便它下次仍到达此端点。",
)
PICKED_AND_TRANSLATED = Message(
    "rule.picked-and-translated",
    en="One of {count} endpoints, each picked with the same chance ({chance}), and one DNAT, straight from {old} to "
    "{new}; the clusterIP is no stop on the way.",
    zh="{count} 个端点之一，各端点被选中的概率相同 ({chance})；一次 DNAT，从 {old} 直接改写为 {new}，"
    "中途不经过 clusterIP。",
)
HAIRPIN_MASQUERADED = Message(
    "rule.masq-hairpin-now",
    en="SNAT to {new}, because the chosen endpoint is the sender itself: without it the Pod would get a packet from "
    "its own address.",
    zh="SNAT 为 {new}，因为选中的端点就是发送者自己：否则 Pod 会收到来自自身地址的数据包。",
)
TO_FIREWALL = Message(
    "rule.to-firewall",
    en="{service} has loadBalancerSourceRanges: the source is compared with them next.",
    zh="{service} 设置了 loadBalancerSourceRanges：接下来比对源地址。",
)
TO_REJECT = Message(
    "rule.to-reject",
    en="{service} has no endpoints that may be used for this: the packet is refused next.",
    zh="{service} 没有可用于此流量的端点：接下来拒绝该数据包。",
)
REJECTED_WRONG_PORT = Message(
    "rule.rejected-wrong-port",
    en="The destination is a clusterIP, but its Service has no such port: the node answers with {answer} at once.",
    zh="目标是 clusterIP，但其 Service 没有此端口：节点立即以 {answer} 应答。",
)
DROPPED_NO_SERVICE = Message(
    "rule.dropped-no-service",
    en="The destination is in the cluster's range for Services, and no Service has it.",
    zh="目标属于集群的 Service 网段，但没有任何 Service 使用该地址。",
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
    en="conntrack undoes the SNAT of the request: the answer goes on to {new}. No rule of the table nat is consulted.",
    zh="连接跟踪撤销请求的 SNAT：应答继续发往 {new}。不再查询 nat 表的任何规则。",
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
