"""Rules as a tree: jumps followed, the walk's way lit, searched."""

from __future__ import annotations

import msgspec
from PySide6.QtTest import QAbstractItemModelTester
from pytestqt.qtbot import QtBot

from gui.engine.session import State
from gui.rules.model import RULE, RuleModel
from gui.values.ruletree import NodeRules, RuleItem, RuleTree, passed
from gui.window.window import MainWindow
from netlab.model.walk import Walk
from tests.gui.fake_link import FakeLink
from tests.gui.recorded import node_a
from tests.gui.test_window import up


def rules() -> NodeRules:
    return msgspec.convert(node_a()["lab.rules"], NodeRules)


def test_base_chains_come_first_and_jumps_are_followed() -> None:
    tree = RuleTree(rules().items)
    assert (tree.roots[0].table, tree.roots[0].chain) == ("nat", "PREROUTING")
    branch = tree.roots[0].children[0]
    assert branch.rule is not None
    assert branch.rule.text == "-j KUBE-SERVICES"
    assert {each.chain for each in branch.children} == {"KUBE-SERVICES"}


def test_the_way_of_a_walk_is_found_where_it_went(far: Walk) -> None:
    tree = RuleTree(rules().items)
    ways = passed(far.steps, "node-a")
    assert len(ways) > 8
    dnat = next(step for step in far.steps if step.action == "DNAT")
    branch = tree.find(dnat, ways)
    assert branch is not None
    chains = []
    while branch is not None:
        chains.append(branch.chain)
        branch = branch.parent
    assert chains[::-1][:3] == ["PREROUTING", "PREROUTING", "KUBE-SERVICES"]
    assert "KUBE-NODEPORTS" in chains


def test_a_search_is_a_flat_list() -> None:
    tree = RuleTree(rules().items, "dnat 10.200.2.20")
    assert len(tree.roots) == 1
    assert RuleTree(rules().items, "no such thing").roots == []


def test_chains_that_seem_to_call_themselves_end() -> None:
    items = [RuleItem("ip", "nat", "A", 1, "-j B", 1), RuleItem("ip", "nat", "B", 2, "-j A", 1)]
    tree = RuleTree([*items, RuleItem("ip", "nat", "PREROUTING", 3, "-j A", 1)])
    depth, within = 0, tree.roots
    while within:
        within = within[0].children
        depth += 1
    assert depth < 6


def test_the_model_is_sound(window: MainWindow) -> None:
    model = RuleModel(window.look, window.language)
    QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Fatal)
    model.show(RuleTree(rules().items), searching=False)
    model.show(RuleTree(rules().items, "KUBE-MARK-MASQ"), searching=True)
    assert model.rowCount() > 3


def test_the_view_follows_the_step(window: MainWindow, qtbot: QtBot, links: list[FakeLink], far: Walk) -> None:
    up(window, qtbot)
    window.commands["view.rules"].trigger()
    view = window.workspace.rules
    qtbot.waitUntil(lambda: view.rules.rowCount() > 0)
    assert view.node.currentText() == "node-a"
    at = next(index for index, step in enumerate(far.steps) if step.action == "DNAT")
    window.player.go_to(at)
    index = view.tree.currentIndex()
    assert f"--to-destination {far.steps[at].destination}" in str(index.siblingAtColumn(RULE).data())
    assert str(index.data()).startswith("● ")
    view.search.setText("masquerade")
    assert view.rules.rowCount() >= 1
    view.switch.click()
    assert "KUBE-SERVICES" in view.text.toPlainText()


def test_enter_on_a_rule_leads_to_its_yaml(window: MainWindow, qtbot: QtBot) -> None:
    up(window, qtbot)
    window.commands["view.rules"].trigger()
    view = window.workspace.rules
    qtbot.waitUntil(lambda: view.rules.rowCount() > 0)
    file = next(each.origin.file for each in rules().items if each.origin is not None and each.origin.file)
    window.session.sources = [(file, window.session.sources[0][1])]
    window.workspace.yaml._follow()
    view.search.setText("--dport 30080")
    view.tree.activated.emit(view.rules.index(0, 0))
    assert window.workspace.centre.currentWidget() is window.workspace.yaml
    assert "nodePort: 30080" in window.workspace.yaml.editor.textCursor().block().text()


def test_without_a_lab_there_is_a_word(window: MainWindow) -> None:
    assert window.session.state is State.EMPTY
    assert "running lab" in window.workspace.rules.text.toPlainText()
