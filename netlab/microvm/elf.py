"""The little that has to be read out of ELF files (64 bits, little-endian, see elf(5)): of modules and of programs."""

from __future__ import annotations

import struct

_MAGIC = b"\x7fELF\x02\x01"
_HEADER = struct.Struct("<32xQQ6xHHHHH")
"""Offsets of the program and section headers, size and number of each, number of the section with their names."""
_SECTION = struct.Struct("<II16xQQ")
"""Of a section: its name's offset, its kind, its own offset, its size."""
_SEGMENT_KIND = struct.Struct("<I")
_DYNAMIC = 2


def is_elf(contents: bytes) -> bool:
    return contents.startswith(_MAGIC)


def is_dynamic(contents: bytes) -> bool:
    """Whether the dynamic loader has something to do for it."""
    table, _, size, count, _, _, _ = _HEADER.unpack_from(contents)
    kinds = [_SEGMENT_KIND.unpack_from(contents, table + number * size) for number in range(count)]
    return (_DYNAMIC,) in kinds


def section(contents: bytes, wanted: bytes) -> bytes:
    """The contents of a section. Raises ValueError where there is none."""
    if not is_elf(contents):
        raise ValueError("no ELF file of 64 bits")
    _, table, _, _, size, count, names_number = _HEADER.unpack_from(contents)
    sections = [_SECTION.unpack_from(contents, table + number * size) for number in range(count)]
    _, _, names, _ = sections[names_number]
    for name, _, offset, length in sections:
        if contents.startswith(wanted + b"\0", names + name):
            return contents[offset : offset + length]
    raise ValueError(f"no section {wanted.decode()}")
