"""Make the pictures in docs/pictures from the real program: ``python scripts/pictures.py [FOLDER]``.

Each is what the command prints on a terminal of 80 columns, drawn as SVG.
"""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

CHECKOUT = Path(__file__).parents[1]
COMMAND = Path(sys.executable).with_name("kube-netlab")
COLUMNS, ROWS = 80, 60
LAB = "netlab/scenarios/nodeport.yaml"
WALK = ("walk", LAB, "--from", "client", "--to", "192.168.60.123:30080")
PICTURES = {
    "walk.svg": ("C.UTF-8", WALK),
    "walk-zh.svg": ("zh_CN.UTF-8", WALK),
}
ANOTHER_NODE = "node-b"
TRIES = 50


def on_terminal(arguments: tuple[str, ...], locale: str) -> str:
    """What the command prints on a terminal, colours included. Raises CalledProcessError where it fails."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "LC_ALL": locale}
    with subprocess.Popen(
        [COMMAND, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, cwd=CHECKOUT, env=environment
    ) as process:
        os.close(theirs)
        pieces: list[bytes] = []
        while piece := _read(ours):
            pieces.append(piece)
    os.close(ours)
    text = b"".join(pieces).decode().replace("\r\n", "\n")
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, arguments, text)
    return text


def _read(descriptor: int) -> bytes:
    """The next bytes; nothing once the last process has closed the terminal (EIO, see pty(7))."""
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""


def picture(arguments: tuple[str, ...], printed: str) -> str:
    """A terminal with the command and what it printed, as SVG."""
    with open(os.devnull, "w") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True, color_system="truecolor")
        command, *options = arguments[:2], " ".join(arguments[2:])
        console.print(Text(f"$ kube-netlab {' '.join(command)} \\\n    {' '.join(options)}\n", style="bold"))
        console.print(Text.from_ansi(printed.rstrip()))
        return console.export_svg(title="kube-netlab", theme=MONOKAI)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, (locale, arguments) in PICTURES.items():
        # The endpoint is the kernel's choice; the picture is to show the longer way, over both nodes.
        for _ in range(TRIES):
            printed = on_terminal(arguments, locale)
            if ANOTHER_NODE in printed.split("\n")[1]:
                break
        (folder / name).write_text(picture(arguments, printed))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else CHECKOUT / "docs" / "pictures")
