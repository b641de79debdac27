"""All commands in one registry: menus, toolbar, palette, shortcuts and the list of keys come from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from PySide6.QtCore import QObject, QSize, Qt
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QToolButton

from gui.look.icons import icon
from gui.look.style import Look
from gui.words.language import Language
from netlab.model.text import Message


@dataclass(frozen=True)
class Command:
    """What a command is called, by which key, and with which icon; ``id`` begins with its menu."""

    id: str
    title: Message
    keys: tuple[str, ...] = ()
    icon: str | None = None
    checkable: bool = False


class Commands(QObject):
    """The registry: every command as one QAction."""

    def __init__(self, look: Look, language: Language, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.look, self.language = look, language
        self._commands: dict[str, Command] = {}
        self._actions: dict[str, QAction] = {}
        look.changed.connect(self._tint)

    def add(self, command: Command, run: Callable[..., object]) -> QAction:
        """Register a command. A checkable one is run with its new state."""
        action = QAction(self)
        action.setCheckable(command.checkable)
        action.setShortcuts([QKeySequence(each) for each in command.keys])
        action.setShortcutContext(Qt.ShortcutContext.WindowShortcut)
        if command.checkable:
            action.toggled.connect(run)
        else:
            action.triggered.connect(lambda *_: run())
        self._commands[command.id] = command
        self._actions[command.id] = action
        self._set_icon(command.id)
        self.reword(command.id, command.title)
        return action

    def __getitem__(self, name: str) -> QAction:
        return self._actions[name]

    def __iter__(self) -> Iterator[tuple[Command, QAction]]:
        for name, command in self._commands.items():
            yield command, self._actions[name]

    def of_menu(self, menu: str) -> list[QAction]:
        return [action for command, action in self if command.id.split(".")[0] == menu]

    def reword(self, name: str, title: Message) -> None:
        """What the command is called (from now on)."""
        action = self._actions[name]

        def show(text: str) -> None:
            action.setText(text)
            keys = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
            action.setToolTip(f"{text} ({keys})" if keys else text)

        self.language.bind(action, show, title)

    def set_icon(self, name: str, picture: str) -> None:
        command = self._commands[name]
        self._commands[name] = Command(command.id, command.title, command.keys, picture, command.checkable)
        self._set_icon(name)

    def _set_icon(self, name: str) -> None:
        picture = self._commands[name].icon
        if picture is not None:
            self._actions[name].setIcon(icon(picture, self.look.theme))

    def _tint(self) -> None:
        for name in self._commands:
            self._set_icon(name)


def command_button(action: QAction, *, with_text: bool = False) -> QToolButton:
    """A button for a command."""
    button = QToolButton()
    button.setDefaultAction(action)
    button.setIconSize(QSize(16, 16))
    button.setAutoRaise(True)
    button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
    if with_text:
        button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)

    def name() -> None:
        button.setAccessibleName(action.text())

    action.changed.connect(name)
    name()
    return button
