"""The theme in use, and the application's palette and style sheet made of it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication

from gui.look.fonts import text_font
from gui.look.theme import DARK, LIGHT, Theme

PICTURES = Path(__file__).parent / "pictures"
Choice = Literal["system", "light", "dark"]


class Look(QObject):
    """The theme in use: the user's choice, or what the desktop reports. ``changed`` is emitted with every other one."""

    changed = Signal()

    def __init__(self, app: QApplication, choice: Choice = "system") -> None:
        super().__init__()
        self._app = app
        self.choice: Choice = choice
        app.setStyle("fusion")
        app.setFont(text_font())
        self.theme = self._wanted()
        self._apply()
        app.styleHints().colorSchemeChanged.connect(self._update)

    def choose(self, choice: Choice) -> None:
        self.choice = choice
        self._update()

    def sheet(self) -> str:
        """For each window to set: Qt takes four times as long with one for the whole application."""
        return style_sheet(self.theme)

    def _update(self) -> None:
        wanted = self._wanted()
        if wanted is not self.theme:
            self.theme = wanted
            self._apply()
            self.changed.emit()

    def _wanted(self) -> Theme:
        if self.choice != "system":
            return DARK if self.choice == "dark" else LIGHT
        return DARK if self._app.styleHints().colorScheme() == Qt.ColorScheme.Dark else LIGHT

    def _apply(self) -> None:
        self._app.setPalette(palette(self.theme))


def palette(theme: Theme) -> QPalette:
    """Every role that Fusion draws with: those left out show as white lines in the dark."""
    role = QPalette.ColorRole
    colours = {
        role.Window: theme.window,
        role.WindowText: theme.text,
        role.Base: theme.surface,
        role.AlternateBase: theme.raised,
        role.Text: theme.text,
        role.PlaceholderText: theme.faint,
        role.Button: theme.raised,
        role.ButtonText: theme.text,
        role.BrightText: theme.refused,
        role.Highlight: theme.accent,
        role.HighlightedText: theme.on_accent,
        role.ToolTipBase: theme.raised,
        role.ToolTipText: theme.text,
        role.Link: theme.accent,
        role.Light: theme.raised,
        role.Midlight: theme.raised,
        role.Mid: theme.border,
        role.Dark: theme.border,
        role.Shadow: theme.border,
        role.Accent: theme.accent,
    }
    made = QPalette()
    for each, colour in colours.items():
        made.setColor(each, QColor(colour))
    for each in (role.WindowText, role.Text, role.ButtonText):
        made.setColor(QPalette.ColorGroup.Disabled, each, QColor(theme.faint))
    return made


def style_sheet(theme: Theme) -> str:
    """What a palette cannot say: room, corners, and borders."""
    t = theme
    check = (PICTURES / f"check-{'dark' if theme.dark else 'light'}.svg").as_posix()
    chevron = (PICTURES / f"chevron-{'dark' if theme.dark else 'light'}.svg").as_posix()
    return f"""
QMainWindow, QDialog {{ background: {t.window}; }}
QMenuBar {{ background: {t.window}; padding: 2px 6px; border: none; }}
QMenuBar::item {{ padding: 4px 10px; border-radius: 4px; background: transparent; }}
QMenuBar::item:selected {{ background: {t.selection}; color: {t.text}; }}
QMenu {{ background: {t.surface}; border: 1px solid {t.border}; padding: 4px; }}
QMenu::item {{ padding: 5px 24px 5px 22px; border-radius: 4px; }}
QMenu::item:selected {{ background: {t.selection}; color: {t.text}; }}
QMenu::item:disabled {{ color: {t.faint}; }}
QMenu::separator {{ height: 1px; background: {t.border}; margin: 4px 8px; }}
QToolTip {{ background: {t.raised}; color: {t.text}; border: 1px solid {t.border}; padding: 4px; }}
QFrame#card {{ background: {t.surface}; border: 1px solid {t.border}; border-radius: 8px; }}
QLabel#muted, QToolButton#muted {{ color: {t.muted}; }}
QLabel#section {{ color: {t.muted}; font-weight: 600; }}
QLabel#title {{ font-size: 15px; font-weight: 600; }}
QLabel#hero {{ font-size: 22px; font-weight: 600; }}
QStatusBar {{ background: {t.window}; color: {t.muted}; }}
QStatusBar::item {{ border: none; }}
QSplitter::handle {{ background: {t.window}; }}
QSplitter::handle:hover {{ background: {t.border}; }}
QLineEdit, QComboBox, QSpinBox {{
    background: {t.surface}; border: 1px solid {t.border}; border-radius: 6px; padding: 0 8px; min-height: 28px;
    selection-background-color: {t.accent}; selection-color: {t.on_accent}; }}
QLineEdit:focus, QComboBox:focus, QComboBox:on, QSpinBox:focus {{ border: 1px solid {t.accent}; }}
QLineEdit:disabled, QComboBox:disabled {{ color: {t.faint}; background: {t.window}; }}
QComboBox QLineEdit {{ border: none; padding: 0; min-height: 20px; background: transparent; }}
QComboBox::drop-down {{ border: none; width: 22px; }}
QComboBox::down-arrow {{ image: url("{chevron}"); width: 12px; height: 12px; }}
QComboBox QAbstractItemView {{ background: {t.surface}; border: 1px solid {t.border}; outline: none;
    selection-background-color: {t.selection}; selection-color: {t.text}; }}
QPushButton {{ background: {t.surface}; border: 1px solid {t.border}; border-radius: 6px; padding: 0 14px;
    min-height: 28px; }}
QPushButton:hover {{ border-color: {t.accent}; }}
QPushButton:focus {{ border-color: {t.accent}; }}
QPushButton:disabled {{ color: {t.faint}; background: {t.window}; }}
QPushButton#primary {{ background: {t.accent}; color: {t.on_accent}; border: 1px solid {t.accent}; font-weight: 600; }}
QPushButton#primary:disabled {{ background: {t.border}; border-color: {t.border}; color: {t.muted}; }}
QPushButton#primary:focus {{ border: 2px solid {t.text}; }}
QPushButton#link {{ background: transparent; border: none; color: {t.accent}; padding: 0; text-align: left; }}
QPushButton#link:hover, QPushButton#link:focus {{ text-decoration: underline; }}
QCheckBox {{ spacing: 6px; }}
QCheckBox::indicator {{ width: 14px; height: 14px; border: 1px solid {t.faint}; border-radius: 4px;
    background: {t.surface}; }}
QCheckBox::indicator:checked {{ background: {t.accent}; border-color: {t.accent}; image: url("{check}"); }}
QCheckBox::indicator:focus {{ border-color: {t.text}; }}
QToolButton {{ border: 1px solid transparent; border-radius: 6px; padding: 4px; background: transparent; }}
QToolButton:hover {{ background: {t.selection}; }}
QToolButton:focus {{ border-color: {t.accent}; }}
QToolButton:checked {{ background: {t.selection}; color: {t.text}; }}
QTabWidget::pane {{ border: 1px solid {t.border}; border-radius: 8px; background: {t.surface}; top: -1px; }}
QTabWidget::tab-bar {{ left: 4px; }}
QTabBar {{ background: transparent; }}
QTabBar::tab {{ background: transparent; color: {t.muted}; padding: 6px 14px; border: none;
    border-bottom: 2px solid transparent; }}
QTabBar::tab:hover {{ color: {t.text}; }}
QTabBar::tab:selected {{ color: {t.text}; border-bottom: 2px solid {t.accent}; font-weight: 600; }}
QTabBar::tab:focus {{ color: {t.accent}; }}
QTableView, QTreeView, QListView, QPlainTextEdit, QTextEdit {{ background: {t.surface}; border: none; outline: none;
    selection-background-color: {t.selection}; selection-color: {t.text}; }}
QTableView::item, QTreeView::item, QListView::item {{ padding: 2px 6px; border: none; }}
QTreeView::item {{ min-height: 18px; padding: 1px 4px; }}
QTableView::item:selected, QTreeView::item:selected, QListView::item:selected {{ background: {t.selection};
    color: {t.text}; }}
QHeaderView {{ background: {t.surface}; border: none; }}
QHeaderView::section {{ background: {t.surface}; color: {t.muted}; border: none; border-bottom: 1px solid {t.border};
    padding: 4px 6px; font-weight: 500; }}
QScrollBar:vertical {{ background: transparent; width: 11px; margin: 2px; }}
QScrollBar:horizontal {{ background: transparent; height: 11px; margin: 2px; }}
QScrollBar::handle {{ background: {t.border}; border-radius: 3px; min-height: 28px; min-width: 28px; }}
QScrollBar::handle:hover {{ background: {t.faint}; }}
QScrollBar::add-line, QScrollBar::sub-line, QScrollBar::add-page, QScrollBar::sub-page {{
    background: transparent; border: none; width: 0; height: 0; }}
QScrollArea {{ border: none; background: transparent; }}
QScrollArea > QWidget > QWidget#page {{ background: {t.surface}; }}
"""
