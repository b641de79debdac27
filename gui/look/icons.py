"""Icons: our own, drawn on a grid of 16, tinted with the theme's colours when they are loaded."""

from __future__ import annotations

from PySide6.QtCore import QByteArray, QRectF, Qt
from PySide6.QtGui import QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

from gui.look.theme import Theme

_LINE = 'fill="none" stroke="{c}" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round"'
_SHAPES = {
    "play": '<path fill="{c}" d="M4.5 2.6v10.8a.7.7 0 0 0 1.1.6l8-5.4a.7.7 0 0 0 0-1.2l-8-5.4a.7.7 0 0 0-1.1.6z"/>',
    "pause": '<rect fill="{c}" x="3.5" y="2.5" width="3.2" height="11" rx="1"/>'
    '<rect fill="{c}" x="9.3" y="2.5" width="3.2" height="11" rx="1"/>',
    "next": f'<path {_LINE} d="M6 3l5 5-5 5"/>',
    "previous": f'<path {_LINE} d="M10 3L5 8l5 5"/>',
    "next-change": f'<path {_LINE} d="M3 3l5 5-5 5M8.500 3l5 5-5 5"/>',
    "previous-change": f'<path {_LINE} d="M13 3L8 8l5 5M7.500 3l-5 5 5 5"/>',
    "start": f'<path {_LINE} d="M12.500 3l-5 5 5 5M4 3v10"/>',
    "fit": f'<path {_LINE} d="M2.500 6V2.500H6M10 2.500h3.500V6M13.500 10v3.500H10M6 13.500H2.500V10"/>',
    "plus": f'<path {_LINE} d="M8 3v10M3 8h10"/>',
    "minus": f'<path {_LINE} d="M3 8h10"/>',
    "send": f'<path {_LINE} d="M14 2L7 9M14 2l-4.500 12L7 9 2 6.500z"/>',
    "open": f'<path {_LINE} d="M2 12.500V4a1 1 0 0 1 1-1h3.500l1.500 2h4a1 1 0 0 1 1 1v1M2 12.500L4 7h11l-2 5.500z"/>',
    "restart": f'<path {_LINE} d="M13.200 9A5.300 5.300 0 1 1 12 4.300L13.500 6M13.500 2.500V6H10"/>',
    "search": f'<circle {_LINE} cx="7" cy="7" r="4.300"/><path {_LINE} d="M10.300 10.300L14 14"/>',
    "palette": f'<path {_LINE} d="M3 4l4 4-4 4M9 12.500h5"/>',
    "close": f'<path {_LINE} d="M4 4l8 8M12 4l-8 8"/>',
    "done": f'<path {_LINE} d="M3 8.500l3.300 3.300L13 4.700"/>',
    "failed": f'<path {_LINE} d="M4 4l8 8M12 4l-8 8"/>',
    "unknown": f'<path {_LINE} d="M5.500 6A2.500 2.500 0 1 1 8 8.500V10"/>'
    f'<circle fill="{{c}}" cx="8" cy="12.700" r="1"/>',
    "file": f'<path {_LINE} d="M4 2h5l3.500 3.500V13a1 1 0 0 1-1 1H4a1 1 0 0 1-1-1V3a1 1 0 0 1 1-1zM9 2v4h3.500"/>',
    "lab": f'<rect {_LINE} x="1.800" y="5.500" width="4" height="5" rx="1"/>'
    f'<rect {_LINE} x="10.200" y="1.800" width="4" height="4.500" rx="1"/>'
    f'<rect {_LINE} x="10.200" y="9.700" width="4" height="4.500" rx="1"/>'
    f'<path {_LINE} d="M5.800 8H8M8 4v8M8 4h2.200M8 12h2.200"/>',
    "walk": f'<circle {_LINE} cx="3.500" cy="12" r="1.700"/><circle {_LINE} cx="12.500" cy="4" r="1.700"/>'
    f'<path {_LINE} d="M5.200 12H10a2 2 0 0 0 0-4H6a2 2 0 0 1 0-4h4.800"/>',
    "copy": f'<rect {_LINE} x="5.500" y="5.500" width="8" height="8" rx="1.200"/>'
    f'<path {_LINE} d="M10.500 5.500V3.200a1 1 0 0 0-1-1H3.200a1 1 0 0 0-1 1v6.300a1 1 0 0 0 1 1h2.300"/>',
    "warning": f'<path {_LINE} d="M8 2L14.500 13.500h-13zM8 6.500v3.200"/>'
    f'<circle fill="{{c}}" cx="8" cy="11.700" r=".9"/>',
    "delete": f'<path {_LINE} d="M3 4.500h10M6 4.500V3h4v1.500M4.200 4.500L5 13.500h6l.8-9"/>',
    "save": f'<path {_LINE} d="M8 2v8M4.500 7L8 10.500 11.500 7M2.500 13.500h11"/>',
}
SIZE = 16


def icon(name: str, theme: Theme, colour: str | None = None) -> QIcon:
    """The icon in the theme's text colour (or another one), and fainter where it is disabled."""
    made = QIcon()
    for mode, ink in ((QIcon.Mode.Normal, colour or theme.text), (QIcon.Mode.Disabled, theme.faint)):
        for scale in (1, 2):
            made.addPixmap(pixmap(name, ink, SIZE * scale), mode)
    return made


def pixmap(name: str, colour: str, pixels: int = SIZE) -> QPixmap:
    shape = _SHAPES[name].replace("{c}", colour)
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">{shape}</svg>'
    picture = QPixmap(pixels, pixels)
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    QSvgRenderer(QByteArray(svg.encode())).render(painter, QRectF(0, 0, pixels, pixels))
    painter.end()
    return picture


def names() -> list[str]:
    return list(_SHAPES)
