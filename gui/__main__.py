"""``python -m gui [FILE]``."""

from __future__ import annotations

import sys

from gui.main import run_app

if __name__ == "__main__":
    sys.exit(run_app(sys.argv[1] if len(sys.argv) > 1 else None))
