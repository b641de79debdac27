"""``kube-netlab gui``: the desktop app, where its library and a display are there."""

from __future__ import annotations

import os
import sys

from netlab.model.errors import MachineCannot
from netlab.model.text import Message

NO_QT = Message(
    "gui-command.no-qt",
    en="the desktop app needs PySide6, which cannot be loaded ({error}): pip install 'kube-netlab[gui]', or ./run in "
    "a checkout on a display",
    zh="桌面应用需要 PySide6，但无法加载 ({error})：请执行 pip install 'kube-netlab[gui]'，"
    "或在有显示器的环境中运行 ./run",
)
NO_DISPLAY = Message(
    "gui-command.no-display",
    en="there is no display to show the app on (neither DISPLAY nor WAYLAND_DISPLAY is set); 'kube-netlab walk' shows "
    "the same on a terminal",
    zh="没有可用的显示器 (DISPLAY 和 WAYLAND_DISPLAY 均未设置)；'kube-netlab walk' 可以在终端上显示同样的内容",
)


def gui_command(file: str | None) -> int:
    """Show the app until its window is closed. Raises :class:`MachineCannot`."""
    check_display(dict(os.environ), sys.platform)
    try:
        from gui.main import run_app
    except ImportError as error:
        raise MachineCannot(NO_QT(error=error)) from error
    return run_app(file)


def check_display(environment: dict[str, str], platform: str) -> None:
    """Qt ends the process where there is none; raises :class:`MachineCannot` before."""
    names = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    if platform.startswith("linux") and not any(environment.get(name) for name in names):
        raise MachineCannot(NO_DISPLAY())
