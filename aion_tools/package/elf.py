"""Removal of debug symbols from Linux shared libraries, for any processor and on any machine.

The program `strip` supports only its own machine's processor, and macOS and Windows have no `strip` for these files.
"""

import struct
from dataclasses import dataclass

# 64-bit little-endian ELF, the format of both Lambda processors.
_MAGIC = b"\x7fELF\x02\x01"
# The formats list the fields of the ELF header, a segment header and a section header in the order of elf(5).
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_IS_LOADED = 0x2
_WITHOUT_BYTES = 8


@dataclass(frozen=True)
class _Layout:
    """Offsets and lengths of the segment and section tables in an ELF file."""

    segments: int
    segment_count: int
    sections: int
    section_count: int


def stripped(library: bytes) -> bytes:
    """Return a shared library without debug symbols and section headers. Return any other file unchanged.

    The loader and the exception unwinder read only segments, so the part of the file after the last segment is cut off.
    A library with loaded sections in that part stays unchanged.
    """
    layout = _layout(library)
    if layout is None:
        return library
    end = max(_HEADER.size, layout.segments + layout.segment_count * _SEGMENT.size)
    for place in range(layout.segment_count):
        _, _, offset, _, _, size, _, _ = _SEGMENT.unpack_from(library, layout.segments + place * _SEGMENT.size)
        end = max(end, offset + size)
    if end >= len(library):
        return library
    for place in range(layout.section_count):
        _, kind, flags, _, offset, _, _, _, _, _ = _SECTION.unpack_from(
            library, layout.sections + place * _SECTION.size
        )
        if flags & _IS_LOADED and kind != _WITHOUT_BYTES and offset > end:
            return library
    header = list(_HEADER.unpack_from(library))
    # Declare that there are no section headers: e_shoff, e_shnum and e_shstrndx are 0.
    header[6], header[12], header[13] = 0, 0, 0
    return _HEADER.pack(*header) + library[_HEADER.size : end]


def _layout(library: bytes) -> _Layout | None:
    if not library.startswith(_MAGIC) or len(library) < _HEADER.size:
        return None
    header = _HEADER.unpack_from(library)
    kind, segments, sections, segment_size, segment_count, section_size, section_count = (
        header[place] for place in (1, 5, 6, 9, 10, 11, 12)
    )
    is_shared_library = kind == 3 and segment_size == _SEGMENT.size and section_size == _SECTION.size
    fits = max(segments + segment_count * _SEGMENT.size, sections + section_count * _SECTION.size) <= len(library)
    return _Layout(segments, segment_count, sections, section_count) if is_shared_library and fits else None
