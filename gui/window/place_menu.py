"""The menu of a thing on the topology: what can be done with a client, a node, a Pod or a Service."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QMenu, QWidget

from gui.engine.session import Session, State
from gui.values.picture import Picture
from gui.values.targets import Target
from gui.words.language import Language
from netlab.model.text import Message, Text
from netlab.model.walk import host_of

FROM_HERE = Message("gui.place.from-here", en="Probe from here", zh="从这里探测")
TO_HERE = Message("gui.place.to-here", en="Probe to {target}", zh="探测 {target}")
SHOW_RULES = Message("gui.place.show-rules", en="Show the rules of {node}", zh="显示 {node} 的规则")
KILL_PROXY = Message(
    "gui.place.kill-proxy", en="Kill kube-proxy on {node} (kill -9)", zh="终止 {node} 上的 kube-proxy (kill -9)"
)
RESTART_PROXY = Message("gui.place.restart-proxy", en="Restart kube-proxy on {node}", zh="重启 {node} 上的 kube-proxy")
MOST_TARGETS = 6

Ask = Callable[[str | None, str | None], None]
"""Fill sender and destination into the probe bar."""


class PlaceMenu:
    """Makes and shows the menu; ``say_failed`` is told where the engine refuses."""

    def __init__(
        self,
        parent: QWidget,
        session: Session,
        language: Language,
        ask: Ask,
        show_rules: Callable[[str], None],
        say_failed: Callable[[Text], None],
    ) -> None:
        self.parent, self.session, self.language = parent, session, language
        self._ask, self._show_rules, self._say_failed = ask, show_rules, say_failed

    def show(self, name: str, targets: list[Target], at: QPoint) -> None:
        menu = self.menu(name, targets)
        if not menu.isEmpty():
            menu.popup(at)

    def menu(self, name: str, targets: list[Target]) -> QMenu:
        """``targets``: all that the probe bar offers."""
        menu = QMenu(self.parent)
        if self.session.state is not State.READY:
            return menu
        picture = self.session.picture
        nodes = {node.name for node in picture.nodes}
        if name in sender_names(picture):
            self._add(menu, FROM_HERE(), lambda: self._ask(name, None))
        for target in targets_at(name, picture, targets)[:MOST_TARGETS]:
            label = target.label
            self._add(menu, TO_HERE(target=label), lambda label=label: self._ask(None, label))  # type: ignore[misc]
        if name in nodes:
            menu.addSeparator()
            self._add(menu, SHOW_RULES(node=name), lambda: self._show_rules(name))
            menu.addSeparator()
            self._add(menu, KILL_PROXY(node=name), lambda: self._tell("proxy.kill", name))
            self._add(menu, RESTART_PROXY(node=name), lambda: self._tell("proxy.restart", name))
        return menu

    def _add(self, menu: QMenu, text: Text, run: Callable[[], object]) -> None:
        menu.addAction(self.language.say(text)).triggered.connect(lambda *_: run())

    def _tell(self, method: str, node: str) -> None:
        self.session.ask(method, {"node": node}, lambda _: None, self._say_failed)


def sender_names(picture: Picture) -> set[str]:
    pods = {pod.path for node in picture.nodes for pod in node.pods}
    return pods | {each.name for each in picture.clients} | {node.name for node in picture.nodes}


def targets_at(name: str, picture: Picture, targets: list[Target]) -> list[Target]:
    """Those whose address is the place's or the Service's."""
    addresses: set[str] = set()
    for node in picture.nodes:
        if node.name == name:
            addresses |= set(node.addresses)
        for pod in node.pods:
            if pod.path == name:
                addresses |= set(pod.addresses)
    for service in picture.services:
        if service.path == name:
            addresses |= set(service.addresses)
    return [each for each in targets if host_of(each.address) in addresses]
