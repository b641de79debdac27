"""Mode userspace: the connection that a proxy opened for the one that it accepted, told as one story with it.

Which belongs to which only the proxy knows, and says. Its second connection is found among the frames by the addresses
that the proxy's socket has, and followed like a probe's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from ipaddress import ip_address

from netlab.model.records import ProxyConnection
from netlab.model.text import Message, Text
from netlab.packets.headers import ACK, SYN, TCP, Packet
from netlab.packets.observation import Mark, Observation, Outcome
from netlab.packets.passes import HookPass
from netlab.packets.steplist import StepList
from netlab.packets.translation import texts
from netlab.packets.visits import FrameSighting, Visit

RELAYED = "relayed"
"""The action of a step in which a program, and no rule, goes on with other addresses."""

OPENED = Message(
    "relay.opened",
    en="kube-proxy has taken the connection and opens another one of its own, from {source} to {endpoint}: endpoints "
    "take turns.",
    zh="kube-proxy 接受了连接，并自行打开另一个连接，从 {source} 到 {endpoint}：端点轮流使用。",
)
OPENED_AFTER = Message(
    "relay.opened-after",
    en="kube-proxy has taken the connection and opens another one of its own, from {source} to {endpoint}; before that "
    "it tried {tried}, in vain.",
    zh="kube-proxy 接受了连接，并自行打开另一个连接，从 {source} 到 {endpoint}；此前尝试 {tried} 未成功。",
)
SENT_ON = Message(
    "relay.sent-on",
    en="kube-proxy has received the datagram and sends its contents on, from a socket of its own ({source}) to "
    "{endpoint}: endpoints take turns.",
    zh="kube-proxy 收到数据报，并用自己的套接字 ({source}) 把内容发往 {endpoint}：端点轮流使用。",
)
IN_VAIN = Message(
    "relay.in-vain",
    en="kube-proxy has taken the connection and has nowhere to lead it: {why}. It closes it.",
    zh="kube-proxy 接受了连接，但无处转交：{why}。它关闭该连接。",
)
NO_ENDPOINT = Message("relay.no-endpoint", en="{service} has no ready endpoint", zh="{service} 没有就绪的端点")
NONE_ANSWERED = Message("relay.none-answered", en="{tried} did not answer", zh="{tried} 没有应答")
BACK_TCP = Message(
    "relay.back-tcp",
    en="kube-proxy copies what the endpoint says into the client's connection, which it had taken before it dialled.",
    zh="kube-proxy 把端点的数据复制到客户端的连接中；该连接在它拨号之前就已被接受。",
)
BACK_UDP = Message(
    "relay.back-udp",
    en="kube-proxy sends the contents of the answer to the client, from the socket that the client's datagram came to.",
    zh="kube-proxy 用接收客户端数据报的套接字把应答内容发给客户端。",
)


def relayed_at(seen: Observation, requests: Sequence[Visit]) -> ProxyConnection | None:
    """What a proxy made of the request where it ended; None where it did not end at one."""
    if not requests or not seen.proxied:
        return None
    last = requests[-1]
    packet = last.last_packet()
    for each in seen.proxied:
        here = each.place == last.place and each.protocol == packet.protocol and each.event != "ended"
        if here and _took(each, packet):
            return each
    return None


def _took(joined: ProxyConnection, packet: Packet) -> bool:
    """Whether the proxy's socket took the packet: that of UDP is open on every address and does not say on which."""
    source, destination = texts(joined.accepted)
    if ip_address(joined.accepted.destination).is_unspecified:
        return packet.source_text == source and packet.destination_port == joined.accepted.destination_port
    return packet.addresses == (source, destination)


def second_probe(
    seen: Observation, joined: ProxyConnection, sightings: Sequence[FrameSighting], passes: Sequence[HookPass]
) -> Observation | None:
    """The observation with the proxy's own connection as its probe; None where nothing of it was seen."""
    assert joined.dialled is not None
    addresses = texts(joined.dialled)
    mark = seen.mark
    if joined.protocol == TCP:
        packets = [*(each.packet for each in sightings), *(each.packet for each in passes)]
        first = next(
            (each for each in packets if each.addresses == addresses and each.flags & (SYN | ACK) == SYN), None
        )
        if first is None:
            return None
        mark = Mark(TCP, sequence=first.sequence)
    return replace(seen, origin=joined.place, mark=mark, outcome=Outcome("answered", *addresses))


def tell_opening(found: StepList, joined: ProxyConnection, taken: Packet) -> None:
    """The step in which the proxy goes on with a connection of its own, or gives up. ``taken`` is what it took."""
    source, endpoint = texts(joined.dialled) if joined.dialled is not None else taken.addresses
    found.add(
        direction="request",
        place=joined.place,
        action=RELAYED if joined.dialled is not None else "closed",
        addresses=(source, endpoint),
        changed=("source", "destination") if joined.dialled is not None else (),
        reason=_opening_words(joined, source, endpoint),
        evidence=(joined.id,),
    )


def _opening_words(joined: ProxyConnection, source: str, endpoint: str) -> Text:
    tried = ", ".join(joined.tried)
    if joined.dialled is None:
        service = f"Service {joined.service_port.partition(':')[0]}"
        return IN_VAIN(why=NONE_ANSWERED(tried=tried) if tried else NO_ENDPOINT(service=service))
    if joined.protocol != TCP:
        return SENT_ON(source=source, endpoint=endpoint)
    if tried:
        return OPENED_AFTER(source=source, endpoint=endpoint, tried=tried)
    return OPENED(source=source, endpoint=endpoint)


def tell_return(found: StepList, joined: ProxyConnection, taken: Packet) -> None:
    """The step in which the proxy hands the answer back to where ``taken`` came from."""
    source, destination = taken.addresses
    found.add(
        direction="reply",
        place=joined.place,
        action=RELAYED,
        addresses=(destination, source),
        changed=("source", "destination"),
        reason=BACK_TCP() if joined.protocol == TCP else BACK_UDP(),
        evidence=(joined.id,),
    )
