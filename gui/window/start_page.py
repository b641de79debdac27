"""Where the app begins: labs that come with it, files that were opened lately, and how to bring one's own."""

from __future__ import annotations

import os

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QScrollArea, QVBoxLayout, QWidget

from gui.engine.link import running_labs
from gui.look.fonts import mono_font
from gui.look.icons import icon
from gui.look.style import Look
from gui.settings import Settings
from gui.values.examples import Example, present
from gui.window.commands import Commands
from gui.words.language import Language
from netlab.model.text import Message

HEADLINE = Message("gui.start.headline", en="See the packet go", zh="看见数据包的旅程")
INTRODUCTION = Message(
    "gui.start.introduction",
    en="A lab with real nodes, Pods and rules in this machine's kernel. Send a packet, and watch where its addresses "
    "change, by which rule, and because of which line of YAML.",
    zh="在本机内核中建立真实的节点、Pod 和规则。"
    "发送一个数据包，观察它的地址在哪里改写、由哪条规则改写、以及背后是哪一行 YAML。",
)
EXAMPLES = Message("gui.start.examples", en="Start with an example", zh="从示例开始")
RUNNING = Message("gui.start.running", en="Labs that are running", zh="正在运行的实验")
RECENT = Message("gui.start.recent", en="Recent files", zh="最近打开的文件")
NO_RECENT = Message(
    "gui.start.no-recent",
    en="Files that you open are listed here.",
    zh="您打开的文件会列在这里。",
)
YOURS = Message("gui.start.yours", en="Or bring your own", zh="或使用您自己的文件")
YOURS_ABOUT = Message(
    "gui.start.yours-about",
    en="A lab file, what kubectl printed, or a walk saved as JSON. Drop it anywhere on this window.",
    zh="实验文件、kubectl 的输出，或保存为 JSON 的旅程。将文件拖放到此窗口的任意位置即可。",
)
OPEN_EXAMPLE = Message("gui.start.open-example", en="Open and send", zh="打开并发送")
WIDEST = 780
KUBECTL = "kubectl get nodes,pods,services,endpointslices -A -o yaml > cluster.yaml"


class StartPage(QScrollArea):
    """``example_chosen`` with an :class:`Example`, ``file_chosen`` with a path, ``lab_chosen`` with a running lab."""

    example_chosen = Signal(object)
    file_chosen = Signal(str)
    lab_chosen = Signal(str)

    def __init__(self, look: Look, language: Language, settings: Settings, commands: Commands) -> None:
        super().__init__()
        self.look, self.language, self.settings = look, language, settings
        self._icons: list[tuple[QPushButton, str]] = []
        self.setWidgetResizable(True)
        page = QWidget()
        self.setWidget(page)
        outer = QHBoxLayout(page)
        outer.addStretch(1)
        middle = QWidget()
        middle.setMaximumWidth(WIDEST)
        column = QVBoxLayout(middle)
        column.setSpacing(8)
        column.setContentsMargins(24, 40, 24, 40)
        outer.addWidget(middle, 20)
        outer.addStretch(1)
        self._label(HEADLINE, "hero", column)
        self._label(INTRODUCTION, "muted", column)
        column.addSpacing(20)
        self._label(EXAMPLES, "section", column)
        self.examples = [self._card(example, column) for example in present()]
        column.addSpacing(20)
        self._label(YOURS, "section", column)
        self._label(YOURS_ABOUT, "muted", column)
        self._command_line(column)
        row = QHBoxLayout()
        open_button = QPushButton()
        action = commands["file.open"]
        language.bind(open_button, lambda _: open_button.setText(action.text()), HEADLINE)
        open_button.clicked.connect(action.trigger)
        self._icons.append((open_button, "open"))
        row.addWidget(open_button)
        row.addStretch(1)
        column.addLayout(row)
        column.addSpacing(20)
        self.running_title = self._label(RUNNING, "section", column)
        self.running = QVBoxLayout()
        column.addLayout(self.running)
        column.addSpacing(20)
        self._label(RECENT, "section", column)
        self.recent = QVBoxLayout()
        column.addLayout(self.recent)
        column.addStretch(1)
        look.changed.connect(self._tint)
        language.changed.connect(self.show_recent)
        self._tint()

    def show_recent(self) -> None:
        """The files that were opened lately."""
        _empty(self.recent)
        paths = self.settings.recent
        for path in paths:
            button = QPushButton(f"{os.path.basename(path)}   {os.path.dirname(path)}")
            button.setObjectName("link")
            button.setIcon(icon("file", self.look.theme, self.look.theme.muted))
            button.clicked.connect(lambda _=False, path=path: self.file_chosen.emit(path))
            self.recent.addWidget(button)
        if not paths:
            label = QLabel(self.language.say(NO_RECENT))
            label.setObjectName("muted")
            self.recent.addWidget(label)

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        super().showEvent(event)
        self.show_running(running_labs())

    def show_running(self, names: list[str]) -> None:
        """Labs that run already, to look into."""
        _empty(self.running)
        self.running_title.setVisible(bool(names))
        for name in names:
            button = QPushButton(name)
            button.setObjectName("link")
            button.setIcon(icon("lab", self.look.theme, self.look.theme.muted))
            button.clicked.connect(lambda _=False, name=name: self.lab_chosen.emit(name))
            self.running.addWidget(button)

    def _label(self, text: Message, kind: str, column: QVBoxLayout) -> QLabel:
        label = QLabel()
        label.setObjectName(kind)
        label.setWordWrap(True)
        self.language.bind(label, label.setText, text)
        column.addWidget(label)
        return label

    def _command_line(self, column: QVBoxLayout) -> None:
        label = QLabel(KUBECTL)
        label.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        label.setFont(mono_font())
        column.addWidget(label)

    def _card(self, example: Example, column: QVBoxLayout) -> QPushButton:
        card = QFrame()
        card.setObjectName("card")
        row = QHBoxLayout(card)
        row.setContentsMargins(16, 12, 16, 12)
        words = QVBoxLayout()
        title = QLabel()
        title.setObjectName("title")
        about = QLabel()
        about.setObjectName("muted")
        about.setWordWrap(True)
        self.language.bind(title, title.setText, example.title)
        self.language.bind(about, about.setText, example.about)
        words.addWidget(title)
        words.addWidget(about)
        row.addLayout(words, 1)
        button = QPushButton()
        button.setObjectName("primary")
        button.setIconSize(QSize(14, 14))
        self.language.bind(button, button.setText, OPEN_EXAMPLE)
        self.language.bind(button, button.setAccessibleName, example.title)
        button.clicked.connect(lambda: self.example_chosen.emit(example))
        row.addWidget(button, 0, Qt.AlignmentFlag.AlignVCenter)
        column.addWidget(card)
        return button

    def _tint(self) -> None:
        for button, name in self._icons:
            button.setIcon(icon(name, self.look.theme))
        for button in self.examples:
            button.setIcon(icon("play", self.look.theme, self.look.theme.on_accent))
        self.show_recent()


def _empty(layout: QVBoxLayout) -> None:
    while (item := layout.takeAt(0)) is not None:
        widget = item.widget()
        if widget is not None:
            widget.deleteLater()
