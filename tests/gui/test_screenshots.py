"""The pictures of the docs can be made: so that they do not rot."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtGui import QImage

CHECKOUT = Path(__file__).parents[2]
DOCS = CHECKOUT / "docs" / "pictures"

pytestmark = [pytest.mark.kernel, pytest.mark.slow]


def test_the_docs_pictures(tmp_path: Path) -> None:
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "PYTHONPATH": str(CHECKOUT)}
    script = CHECKOUT / "scripts" / "screenshots.py"
    ran = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], env=environment, capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stderr
    made = sorted(path.name for path in tmp_path.glob("*.png"))
    assert made == sorted(path.name for path in DOCS.glob("app*.png"))
    for name in made:
        image = QImage(str(tmp_path / name))
        assert (image.width(), image.height()) == (1280, 800)
        colours = {image.pixel(x, y) for x in range(0, 1280, 7) for y in range(0, 800, 7)}
        assert len(colours) > 60
