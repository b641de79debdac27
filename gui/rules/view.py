"""The rules of a node, with the path of the walk lit, a search, and the tool's own text beside."""

from __future__ import annotations

from typing import Any

import msgspec
from PySide6.QtCore import QModelIndex, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QComboBox,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QStackedWidget,
    QTreeView,
    QVBoxLayout,
    QWidget,
)

from gui.engine.session import Session, State
from gui.look.fonts import mono_font
from gui.look.style import Look
from gui.rules.model import BECAUSE, RULE, RuleModel
from gui.values.ruletree import NodeRules, RuleTree, passed
from gui.walk.player import Player
from gui.words.language import Language
from netlab.model.text import Message, Text

NODE = Message("gui.rules.node", en="Node", zh="节点")
SEARCH = Message("gui.rules.search", en="Search rules, chains, Services", zh="搜索规则、链、Service")
NAME = Message("gui.rules.name", en="Rules of the node", zh="节点上的规则")
TEXT_NAME = Message("gui.rules.text-name", en="Rules as the tool prints them", zh="工具输出的规则文本")
AS_TEXT = Message("gui.rules.as-text", en="As text", zh="文本")
AS_TREE = Message("gui.rules.as-tree", en="As a tree", zh="树形")
LEGEND = Message("gui.rules.legend", en="● the walk came by", zh="● 旅程经过")
NO_LAB = Message(
    "gui.rules.no-lab",
    en="The rules of a running lab are shown here.",
    zh="这里显示正在运行的实验中的规则。",
)


class RulesView(QWidget):
    """``origin_chosen`` with file and line, for a rule that is double-clicked (or Enter)."""

    origin_chosen = Signal(str, int)

    def __init__(self, session: Session, player: Player, look: Look, language: Language) -> None:
        super().__init__()
        self.session, self.player, self.look, self.language = session, player, look, language
        self._rules: NodeRules | None = None
        self._stale = True
        self.node = QComboBox()
        self.search = QLineEdit()
        self.search.setClearButtonEnabled(True)
        self.switch = QPushButton()
        self.legend = QLabel()
        self.legend.setObjectName("muted")
        self.rules = RuleModel(look, language, self)
        self.tree = QTreeView()
        self.tree.setModel(self.rules)
        self.tree.setUniformRowHeights(True)
        self.tree.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.tree.setExpandsOnDoubleClick(False)
        self.tree.setIndentation(16)
        header = self.tree.header()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(RULE, QHeaderView.ResizeMode.Stretch)
        header.setSectionResizeMode(BECAUSE, QHeaderView.ResizeMode.Interactive)
        self.tree.setColumnWidth(BECAUSE, 250)
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setFont(mono_font())
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.text.setTabChangesFocus(True)
        self.pages = QStackedWidget()
        self.pages.addWidget(self.tree)
        self.pages.addWidget(self.text)
        self._lay_out()
        self.node.activated.connect(self._other_node)
        self.search.textChanged.connect(self._fill)
        self.switch.clicked.connect(self._switch)
        self.tree.activated.connect(self._activated)
        session.picture_changed.connect(self._offer_nodes)
        session.state_changed.connect(self._offer_nodes)
        session.objects_changed.connect(self._outdated)
        player.walk_changed.connect(self._other_walk)
        player.step_changed.connect(self._follow)
        look.changed.connect(self.tree.viewport().update)
        language.changed.connect(self._dress)
        self._dress()

    def _lay_out(self) -> None:
        bind = self.language.bind
        bind(self.node, self.node.setAccessibleName, NODE)
        bind(self.search, self.search.setPlaceholderText, SEARCH)
        bind(self.search, self.search.setAccessibleName, SEARCH)
        bind(self.tree, self.tree.setAccessibleName, NAME)
        bind(self.text, self.text.setAccessibleName, TEXT_NAME)
        bind(self.legend, self.legend.setText, LEGEND)
        row = QHBoxLayout()
        row.setSpacing(8)
        row.addWidget(self.node)
        row.addWidget(self.search, 1)
        row.addWidget(self.legend)
        row.addWidget(self.switch)
        column = QVBoxLayout(self)
        column.setContentsMargins(10, 10, 10, 6)
        column.addLayout(row)
        column.addWidget(self.pages, 1)

    def show_node(self, node: str) -> None:
        """Turn to a node's rules."""
        at = self.node.findText(node)
        if at >= 0 and at != self.node.currentIndex():
            self.node.setCurrentIndex(at)
            self._other_node()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        super().showEvent(event)
        self._refresh()

    # What is shown

    def _offer_nodes(self) -> None:
        names = [node.name for node in self.session.picture.nodes]
        if self.session.state is not State.READY:
            names = []
        if names != [self.node.itemText(at) for at in range(self.node.count())]:
            self.node.clear()
            self.node.addItems(names)
            self._rules = None
            self._fill()
        self._outdated()

    def _other_node(self) -> None:
        self._rules = None
        self._outdated()

    def _other_walk(self) -> None:
        walk = self.player.walk
        nodes = {self.node.itemText(at) for at in range(self.node.count())}
        first = (
            next((step.place for step in walk.steps if step.changed and step.place in nodes), None) if walk else None
        )
        if first is not None and first != self.node.currentText():
            self.show_node(first)
        self._outdated()
        self._light()

    def _outdated(self) -> None:
        self._stale = True
        if self.isVisible():
            self._refresh()

    def _refresh(self) -> None:
        node = self.node.currentText()
        if not self._stale or not node or self.session.state is not State.READY:
            return
        self._stale = False
        self.session.ask("lab.rules", {"node": node}, self._have_rules, self._failed)

    def _have_rules(self, answer: Any) -> None:
        rules = msgspec.convert(answer, NodeRules)
        if rules.node == self.node.currentText() and rules != self._rules:
            self._rules = rules
            self._fill()

    def _failed(self, reason: Text) -> None:
        self._rules = None
        self._fill()
        self.text.setPlainText(self.language.say(reason))

    def _fill(self) -> None:
        rules, wanted = self._rules, self.search.text()
        self.rules.show(RuleTree(rules.items if rules is not None else [], wanted), searching=bool(wanted.strip()))
        self.text.setPlainText(rules.text if rules is not None else self.language.say(NO_LAB))
        self._light()

    # The walk

    def _light(self) -> None:
        walk = self.player.walk
        ways = passed(walk.steps, self.node.currentText()) if walk is not None else set()
        self.rules.light(ways, None)
        self._follow()

    def _follow(self) -> None:
        step = self.player.step
        here = step is not None and step.place == self.node.currentText() and step.rule is not None
        self.rules.current = (
            (step.table or "", step.chain or "", step.rule or "") if here and step is not None else None
        )
        if here and step is not None and self.isVisible() and not self.rules.searching:
            branch = self.rules.tree.find(step, self.rules.passed)
            if branch is not None:
                index = self.rules.index_of(branch)
                above = index.parent()
                while above.isValid():
                    self.tree.expand(above)
                    above = above.parent()
                self.tree.setCurrentIndex(index)
                self.tree.scrollTo(index)
        self.tree.viewport().update()

    def _activated(self, index: QModelIndex) -> None:
        branch = self.rules.branch(index)
        origin = branch.rule.origin if branch is not None and branch.rule is not None else None
        if origin is not None and origin.file is not None and origin.line is not None:
            self.origin_chosen.emit(origin.file, origin.line)

    def _switch(self) -> None:
        self.pages.setCurrentIndex(1 - self.pages.currentIndex())
        self._dress()

    def _dress(self) -> None:
        self.switch.setText(self.language.say(AS_TEXT if self.pages.currentIndex() == 0 else AS_TREE))
        if self._rules is None:
            self.text.setPlainText(self.language.say(NO_LAB))
