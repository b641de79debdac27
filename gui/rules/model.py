"""The tree of rules for Qt."""

from __future__ import annotations

from PySide6.QtCore import QAbstractItemModel, QModelIndex, QObject, QPersistentModelIndex, Qt
from PySide6.QtGui import QColor

from gui.look.fonts import mono_font
from gui.look.style import Look
from gui.values.ruletree import Branch, RuleTree
from gui.words.language import Language
from netlab.model.text import Message

COLUMNS = (
    Message("gui.rules.rule", en="Chains and rules", zh="链与规则"),
    Message("gui.rules.because", en="Because of", zh="来源"),
)
RULE, BECAUSE = range(2)
WAY_ROLE = Qt.ItemDataRole.UserRole + 1

Index = QModelIndex | QPersistentModelIndex
Key = tuple[str, str, str]


class RuleModel(QAbstractItemModel):
    """``passed``: what the walk came by; ``current``: the rule of the step that is shown."""

    def __init__(self, look: Look, language: Language, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.look, self.language = look, language
        self.tree = RuleTree([])
        self.passed: set[Key] = set()
        self.current: Key | None = None
        self.searching = False
        self._mono, self._bold = mono_font(), mono_font(bold=True)

    def show(self, tree: RuleTree, *, searching: bool) -> None:
        self.beginResetModel()
        self.tree, self.searching = tree, searching
        self.endResetModel()

    def light(self, passed: set[Key], current: Key | None) -> None:
        self.passed, self.current = passed, current

    def branch(self, index: Index) -> Branch | None:
        found = index.internalPointer() if index.isValid() else None
        return found if isinstance(found, Branch) else None

    def index_of(self, branch: Branch) -> QModelIndex:
        return self.createIndex(branch.row, 0, branch)

    def index(self, row: int, column: int, parent: Index | None = None) -> QModelIndex:
        above = self.branch(parent) if parent is not None else None
        siblings = above.children if above is not None else self.tree.roots
        if 0 <= row < len(siblings) and 0 <= column < len(COLUMNS):
            return self.createIndex(row, column, siblings[row])
        return QModelIndex()

    def parent(self, index: Index) -> QModelIndex:  # type: ignore[override]
        branch = self.branch(index)
        if branch is None or branch.parent is None:
            return QModelIndex()
        return self.index_of(branch.parent)

    def rowCount(self, parent: Index | None = None) -> int:  # noqa: N802
        if parent is None or not parent.isValid():
            return len(self.tree.roots)
        branch = self.branch(parent)
        return len(branch.children) if branch is not None and parent.column() == 0 else 0

    def hasChildren(self, parent: Index | None = None) -> bool:  # noqa: N802
        """Without making the branches below."""
        if parent is None or not parent.isValid():
            return bool(self.tree.roots)
        branch = self.branch(parent)
        return branch is not None and parent.column() == 0 and branch.target is not None

    def columnCount(self, parent: Index | None = None) -> int:  # noqa: N802
        return len(COLUMNS)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> object:  # noqa: N802
        if role == Qt.ItemDataRole.DisplayRole and orientation == Qt.Orientation.Horizontal:
            return self.language.say(COLUMNS[section])
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        branch = self.branch(index)
        if branch is None:
            return None
        column = index.column()
        if role == Qt.ItemDataRole.DisplayRole:
            return self._words(branch, column)
        if role == Qt.ItemDataRole.ToolTipRole:
            return branch.rule.text if branch.rule is not None and column == RULE else None
        on_way = branch.key in self.passed if branch.rule is not None else self._leads_there(branch)
        if role == WAY_ROLE:
            return on_way
        if role == Qt.ItemDataRole.FontRole and column == RULE:
            return self._bold if on_way else self._mono
        theme = self.look.theme
        if role == Qt.ItemDataRole.ForegroundRole:
            return QColor(
                theme.muted if column == BECAUSE else theme.text if on_way or branch.rule is None else theme.muted
            )
        if role == Qt.ItemDataRole.BackgroundRole and branch.key == self.current:
            return QColor(theme.changed_back)
        return None

    def _words(self, branch: Branch, column: int) -> str:
        if column == BECAUSE:
            origin = branch.rule.origin if branch.rule is not None else None
            return f"{origin.object} {origin.field}" if origin is not None else ""
        if branch.rule is None:
            family = "" if branch.family == "ip" else f"{branch.family} "
            return f"{family}{branch.table} {branch.chain}"
        way = "● " if branch.key in self.passed else ""
        chain = f"{branch.table} {branch.chain}: " if self.searching else ""
        return f"{way}{chain}{branch.rule.text}"

    def _leads_there(self, branch: Branch) -> bool:
        return any(table == branch.table and chain == branch.chain for table, chain, _ in self.passed)
