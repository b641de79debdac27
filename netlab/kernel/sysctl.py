"""Settings under /proc/sys/net: each network namespace has its own, and a thread sees those of the one it is in."""

from __future__ import annotations

from pathlib import Path

_ROOT = Path("/proc/sys")


def write(name: str, value: str | int) -> None:
    """Set "net/ipv4/ip_forward" and the like. Raises OSError; FileNotFoundError for a setting that the kernel lacks."""
    with open(_ROOT / name, "w") as file:
        file.write(str(value))


def read(name: str) -> str:
    return (_ROOT / name).read_text().strip()


def exists(name: str) -> bool:
    return (_ROOT / name).exists()
