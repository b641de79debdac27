"""Which mode kube-proxy is in, and another one for the whole lab."""

from __future__ import annotations

from PySide6.QtWidgets import QComboBox

from gui.compare.view import MODES
from gui.engine.session import Session, State
from gui.words.language import Language
from netlab.model.text import Message

NAME = Message(
    "gui.mode.name", en="kube-proxy's mode: another one builds the lab anew", zh="kube-proxy 模式：更改后将重新建立实验"
)


class ModeBox(QComboBox):
    """Choosing a mode builds the same lab with it on every node."""

    def __init__(self, session: Session, language: Language) -> None:
        super().__init__()
        self.session = session
        self.addItems(MODES)
        language.bind(self, self.setAccessibleName, NAME)
        language.bind(self, self.setToolTip, NAME)
        self.activated.connect(lambda at: session.change_mode(MODES[at]))
        session.state_changed.connect(self._show)
        self._show()

    def _show(self) -> None:
        session = self.session
        self.setVisible(session.state is not State.EMPTY)
        self.setEnabled(session.state in (State.READY, State.FAILED, State.ENDED))
        mode = session.mode or session.wanted_mode or ""
        self.setCurrentIndex(MODES.index(mode) if mode in MODES else -1)
        self.setPlaceholderText(mode)
