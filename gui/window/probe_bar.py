"""The probe bar: from whom, to where, by which protocol, Send."""

from __future__ import annotations

from PySide6.QtCore import QStringListModel, Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QComboBox, QCompleter, QHBoxLayout, QLabel, QPushButton, QWidget

from gui.engine.session import ProbeWords, Session, State
from gui.look.fonts import mono_font
from gui.look.icons import icon
from gui.look.style import Look
from gui.values.targets import Target, resolve, senders, targets
from gui.words.language import Language
from netlab.model.text import Message

FROM = Message("gui.probe.from", en="From", zh="从")
TO = Message("gui.probe.to", en="to", zh="到")
FROM_NAME = Message("gui.probe.from-name", en="Sender", zh="发送者")
TO_NAME = Message("gui.probe.to-name", en="Destination", zh="目标")
PROTOCOL_NAME = Message("gui.probe.protocol-name", en="Protocol", zh="协议")
TO_HINT = Message("gui.probe.to-hint", en="address:port, or a Service", zh="地址:端口，或 Service")
SENDING = Message("gui.probe.sending", en="Sending…", zh="正在发送…")
PACKET_HINT = Message(
    "gui.probe.packet-hint",
    en='a packet as scapy layers: IP(dst="10.96.0.1")/TCP(dport=80, flags="S")',
    zh='以 scapy 层表示的数据包：IP(dst="10.96.0.1")/TCP(dport=80, flags="S")',
)
CRAFTED = Message("gui.probe.crafted", en="packet…", zh="数据包…")
PROTOCOLS = ("tcp", "udp", "icmp", "sctp")


class ProbeBar(QWidget):
    """What is asked is kept when the lab changes, as far as it is still there."""

    def __init__(self, session: Session, look: Look, language: Language, send: QAction) -> None:
        super().__init__()
        self.session, self.look, self.language = session, look, language
        self._targets: list[Target] = []
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        self.who = QComboBox()
        self.who.setEditable(True)
        self.who.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        self.who.setMinimumWidth(130)
        self.to = QComboBox()
        self.to.setEditable(True)
        self.to.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        self.to.setMinimumWidth(220)
        self.to.setFont(mono_font())
        self.to.view().setMinimumWidth(420)
        self.protocol = QComboBox()
        for each in PROTOCOLS:
            self.protocol.addItem(each.upper(), each)
        self.send = QPushButton()
        self.send.setObjectName("primary")
        self._action = send
        self._label(FROM, row, self.who)
        row.addWidget(self.who, 1)
        self._label(TO, row, self.to)
        row.addWidget(self.to, 2)
        row.addWidget(self.protocol)
        row.addWidget(self.send)
        for widget, name in ((self.who, FROM_NAME), (self.to, TO_NAME), (self.protocol, PROTOCOL_NAME)):
            language.bind(widget, widget.setAccessibleName, name)
        edit = self.to.lineEdit()
        assert edit is not None
        self.protocol.addItem("")
        language.bind(self.protocol, lambda text: self.protocol.setItemText(len(PROTOCOLS), text), CRAFTED)
        self.protocol.currentIndexChanged.connect(self._craft)
        self.send.clicked.connect(send.trigger)
        edit.returnPressed.connect(send.trigger)
        self._words = QStringListModel(self)
        completer = QCompleter(self._words, self)
        completer.setFilterMode(Qt.MatchFlag.MatchContains)
        completer.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        popup = completer.popup()
        if popup is not None:
            popup.setFont(mono_font())
        completer.activated.connect(self._take)
        self.to.setCompleter(completer)
        self.to.activated.connect(self._chosen)
        session.picture_changed.connect(self._offer)
        session.state_changed.connect(self._enable)
        session.probing_changed.connect(self._enable)
        for signal in (language.changed, look.changed, send.changed):
            signal.connect(self._dress)
        self._dress()
        self._enable()

    def words(self) -> ProbeWords:
        """What is asked, with names turned into addresses."""
        text = self.to.currentText().strip()
        if self.crafting:
            return ProbeWords(self.who.currentText().strip(), "", "tcp", text)
        known = resolve(text.partition("  ")[0], self._targets)
        to = known.address if known is not None else text
        return ProbeWords(self.who.currentText().strip(), to, self.protocol.currentData())

    @property
    def crafting(self) -> bool:
        """Whether a packet is written out instead of a destination."""
        return self.protocol.currentIndex() == len(PROTOCOLS)

    def ask(self, sender: str | None = None, to: str | None = None, protocol: str | None = None) -> None:
        """Fill the bar in."""
        if sender is not None:
            self.who.setCurrentText(sender)
        if to is not None:
            known = resolve(to, self._targets)
            self.to.setCurrentText(known.label if known is not None else to)
            if protocol is None and known is not None:
                protocol = known.protocol
        if protocol is not None and protocol in PROTOCOLS:
            self.protocol.setCurrentIndex(PROTOCOLS.index(protocol))

    def targets(self) -> list[Target]:
        return self._targets

    def _label(self, text: Message, row: QHBoxLayout, buddy: QWidget) -> None:
        label = QLabel()
        label.setObjectName("muted")
        label.setBuddy(buddy)
        self.language.bind(label, label.setText, text)
        row.addWidget(label)

    def _offer(self) -> None:
        """Senders and targets of the lab as it is now."""
        picture = self.session.picture
        self._targets = targets(picture)
        was_sender, was_to = self.who.currentText(), self.to.currentText()
        names = senders(picture)
        self.who.clear()
        self.who.addItems(names)
        self.to.clear()
        for target in self._targets:
            self.to.addItem(f"{target.label}  {target.hint}", target)
        self._words.setStringList([f"{each.label}  {each.hint}" for each in self._targets])
        if was_sender in names:
            self.who.setCurrentText(was_sender)
        if was_to and (resolve(was_to, self._targets) or not self._targets):
            self.to.setCurrentText(was_to)
        elif self._targets:
            self.ask(to=self._targets[0].label)

    def _chosen(self, index: int) -> None:
        target = self.to.itemData(index)
        if isinstance(target, Target):
            self.ask(to=target.label)

    def _craft(self) -> None:
        """An address is no packet, nor the other way round: what does not fit goes."""
        text = self.to.currentText()
        if self.crafting != ("(" in text):
            self.to.setCurrentText("" if self.crafting or not self._targets else self._targets[0].label)
        self._dress()

    def _take(self, text: str) -> None:
        self.ask(to=text.partition("  ")[0])

    def _dress(self) -> None:
        probing = self.session.probing
        self.send.setText(self.language.say(SENDING) if probing else self._action.text())
        self.send.setIcon(icon("send", self.look.theme, self.look.theme.on_accent))
        self.send.setToolTip(self._action.toolTip())
        edit = self.to.lineEdit()
        if edit is not None:
            edit.setPlaceholderText(self.language.say(PACKET_HINT if self.crafting else TO_HINT))

    def _enable(self) -> None:
        ready = self.session.state is State.READY
        for widget in (self.who, self.to, self.protocol):
            widget.setEnabled(ready)
        self._action.setEnabled(ready and not self.session.probing)
        self.send.setEnabled(ready and not self.session.probing)
        self._dress()
