"""The labs that come with the product, each with the probe that shows best what it is about."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from netlab.model import text
from netlab.model.text import Message

FOLDER = Path(text.__file__).parents[1] / "scenarios"


@dataclass(frozen=True)
class Example:
    """A lab file of the product."""

    name: str
    title: Message
    about: Message
    sender: str
    to: str
    protocol: str = "tcp"

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.name}.yaml"


EXAMPLES = (
    Example(
        "nodeport",
        Message("gui.example.nodeport", en="A NodePort, from outside", zh="从集群外访问 NodePort"),
        Message(
            "gui.example.nodeport-about",
            en="A client outside the cluster asks a node's port. Which Pod answers, and whom does it see?",
            zh="集群外的客户端访问某个节点的端口。哪个 Pod 会应答？它以为自己在和谁通信？",
        ),
        "client",
        "192.168.60.123:30080",
    ),
)


def example(name: str) -> Example | None:
    return next((each for each in EXAMPLES if each.name == name), None)


def present() -> list[Example]:
    """Those whose files are there."""
    return [each for each in EXAMPLES if each.path.is_file()]
