"""A walk's capture as a pcapng file."""

from __future__ import annotations

import os

from netlab.lab.lab import Captured
from netlab.model.summaries import summary
from netlab.model.text import Message
from netlab.model.topology import Interface, Topology
from netlab.model.version import product_version
from netlab.packets import pcapng
from netlab.packets.comments import frame_comments

TITLE = Message(
    "capture.title",
    en="walk of {sender} to {to}, {protocol}, mode {mode}: {verdict}. {summary}",
    zh="{sender} 到 {to} 的数据包旅程，{protocol}，{mode} 模式：{verdict}。{summary}",
)
PORT_OF = Message("capture.port-of", en="port of {master}, to {peer}", zh="{master} 的端口，通向 {peer}")
LINK_TO = Message("capture.link-to", en="link to {peer}", zh="通向 {peer} 的链路")


def capture_file(captured: Captured, topology: Topology, language: str) -> bytes:
    """The whole file: every interface of the lab, every frame, and the walk's story as comments."""
    walk = captured.walk
    interfaces = [
        pcapng.Interface(place.name, interface.name, _description(interface, language))
        for place in topology.places.values()
        for interface in place.interfaces
    ]
    title = TITLE(
        sender=walk.probe.from_,
        to=walk.probe.to,
        protocol=walk.probe.protocol,
        mode=walk.mode,
        verdict=walk.verdict,
        summary=summary(walk),
    )
    system = os.uname()
    capture = pcapng.Capture(
        interfaces=interfaces,
        frames=captured.recorded.frames,
        began_ns=captured.began_ns,
        ended_ns=captured.ended_ns,
        packet_comments=frame_comments(walk, language),
        comments=[title.in_language(language)],
        losses=captured.recorded.losses,
    )
    encoder = pcapng.Encoder(
        product_version(), f"{system.sysname} {system.release}", hardware=system.machine, language=language
    )
    return b"".join(pcapng.chunks(capture, encoder))


def _description(interface: Interface, language: str) -> str:
    peer = f"{interface.peer.place}/{interface.peer.interface}" if interface.peer is not None else ""
    if interface.master is not None:
        return PORT_OF(master=interface.master, peer=peer).in_language(language)
    if peer:
        return LINK_TO(peer=peer).in_language(language)
    return interface.kind
