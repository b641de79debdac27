"""The names of the guest's ports, and what host and guest tell each other over the one that carries notes.

A note is a JSON-RPC notification. It has a port of its own: whether the guest is alive can be told, however much the
frontends have to say.
"""

from __future__ import annotations

import os
from pathlib import Path

STREAMS, NOTES = "netlab.streams", "netlab.notes"

PING = "guest.ping"
"""To the guest: are you alive? ``time_ns`` is the host's clock; ``entropy`` (base64) comes once after a restart."""
PONG = "guest.pong"
READY = "guest.ready"
"""The engine waits for its first frontend: the moment for a snapshot."""
FAILED = "guest.failed"
"""The engine could not be brought so far; the parameters are an error."""
ENDED = "guest.ended"
"""The engine has ended: ``status``, and the end of its ``log`` (base64)."""

FIRST, FURTHER = "first", "further"
"""What a stream is for: the engine's first frontend, or another one."""

_PORTS = Path("/sys/class/virtio-ports")


def open_port(name: str) -> int:
    """In the guest: the descriptor of a port."""
    for each in _PORTS.iterdir():
        if (each / "name").read_text().strip() == name:
            return os.open(f"/dev/{each.name}", os.O_RDWR | os.O_CLOEXEC)
    raise FileNotFoundError(f"the guest has no port {name}")
