"""Fonts: the desktop's own where it has one, with faces that have Simplified Chinese forms behind it."""

from __future__ import annotations

from PySide6.QtGui import QFont, QFontDatabase

TEXT_PX = 13
MONO_PX = 12
SMALL_PX = 11

_PREFERRED = ("Inter", "Noto Sans", "Cantarell", "Ubuntu", "Source Sans 3", "Open Sans")
_FALLBACK_FACES = ("DejaVu Sans", "Bitstream Vera Sans", "Sans Serif", "")
"""What a system without a font of its own choice answers with."""
_CHINESE = (
    "Noto Sans CJK SC",
    "Source Han Sans SC",
    "WenQuanYi Micro Hei",
    "Microsoft YaHei",
    "PingFang SC",
    "Droid Sans Fallback",
)
_MONOSPACED = (
    "JetBrains Mono",
    "Cascadia Mono",
    "Source Code Pro",
    "SF Mono",
    "Consolas",
    "Noto Sans Mono",
    "DejaVu Sans Mono",
)


def text_font(pixels: int = TEXT_PX, *, bold: bool = False) -> QFont:
    """What sentences are set in."""
    own = QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont).family()
    known = set(QFontDatabase.families())
    first = [own] if own not in _FALLBACK_FACES else [*[each for each in _PREFERRED if each in known][:1], own]
    return _font([*first, *(each for each in _CHINESE if each in known)], pixels, bold=bold)


def mono_font(pixels: int = MONO_PX, *, bold: bool = False) -> QFont:
    """What addresses, rules and bytes are set in."""
    known = set(QFontDatabase.families())
    own = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont).family()
    faces = [each for each in _MONOSPACED if each in known][:1] or [own]
    font = _font([*faces, *(each for each in _CHINESE if each in known)], pixels, bold=bold)
    font.setStyleHint(QFont.StyleHint.Monospace)
    return font


def has_chinese() -> bool:
    """Whether any installed font has Chinese glyphs."""
    return bool(QFontDatabase.families(QFontDatabase.WritingSystem.SimplifiedChinese))


def _font(families: list[str], pixels: int, *, bold: bool) -> QFont:
    font = QFont(families)
    font.setPixelSize(pixels)
    if bold:
        font.setWeight(QFont.Weight.DemiBold)
    return font
