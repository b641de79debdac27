"""The labs that come with the product, each with the probe that shows best what it is about."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from netlab.model import text
from netlab.model.text import Message

FOLDER = Path(text.__file__).parents[1] / "scenarios"


@dataclass(frozen=True)
class Example:
    """A lab file of the product (``file``, without its suffix), and a probe in it."""

    name: str
    title: Message
    about: Message
    sender: str
    to: str
    protocol: str = "tcp"
    file: str = "nodeport"

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.file}.yaml"


EXAMPLES = (
    Example(
        "nodeport",
        Message("gui.example.nodeport", en="A NodePort, from outside", zh="从集群外访问 NodePort"),
        Message(
            "gui.example.nodeport-about",
            en="A client outside the cluster asks a node's port. Which Pod answers, and whom does it see?",
            zh="集群外的客户端访问某个节点的端口。哪个 Pod 会应答？它看到的客户端又是谁？",
        ),
        "client",
        "192.168.60.123:30080",
    ),
    Example(
        "clusterip",
        Message("gui.example.clusterip", en="A ClusterIP, from a Pod", zh="从 Pod 访问 ClusterIP"),
        Message(
            "gui.example.clusterip-about",
            en="A Pod asks a Service by its address, which is on no wire. Is the Pod's own address rewritten too?",
            zh="Pod 通过 Service 的地址访问它，而这个地址不在任何线路上。Pod 自己的地址也会被改写吗？",
        ),
        "curl",
        "10.96.0.1:80",
    ),
    Example(
        "local-policy",
        Message("gui.example.local-policy", en="A packet that is lost", zh="丢失的数据包"),
        Message(
            "gui.example.local-policy-about",
            en="externalTrafficPolicy is Local, and the node that is asked has no endpoint. Where does the packet end?",
            zh="externalTrafficPolicy 为 Local，而被访问的节点上没有端点。数据包会在哪里消失？",
        ),
        "client",
        "192.168.60.123:30080",
        file="local-policy",
    ),
)


def example(name: str) -> Example | None:
    return next((each for each in EXAMPLES if each.name == name), None)


def present() -> list[Example]:
    """Those whose files are there."""
    return [each for each in EXAMPLES if each.path.is_file()]
