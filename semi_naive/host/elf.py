"""Read object files of ELF for x86-64, so that `host.native` can load them without LLVM.

Numba compiles for the large code model of LLVM: code refers to everything by 64-bit absolute addresses (`R_X86_64_64`). Linking
is to copy sections into memory and to add addresses: 0.1 ms for a kernel. An object with any other relocation has no
`ObjectLayout`, and is left to LLVM.
"""

import mmap
import struct
from collections.abc import Iterator
from typing import NamedTuple

from semi_naive.host.native import ObjectLayout

HEADER, SECTION, SYMBOL, RELOCATION = map(struct.Struct, ("<16sHHIQQQIHHHHHH", "<IIQQQQIIQQ", "<IBBHQQ", "<QQq"))
IDENTITY = b"\x7fELF\x02\x01\x01"  # 64 bits, little-endian, version 1
RELOCATABLE_X86_64 = IDENTITY.ljust(16, b"\0"), 1, 62  # a relocatable file for this processor
SYMBOLS, RELOCATIONS, NO_BITS, UNWINDING = 2, 4, 8, 0x70000001  # types of sections
WRITABLE, ALLOCATED = 1, 2  # flags of sections
UNDEFINED, COMMON = 0, 0xFFF2  # in place of a symbol's section: it is elsewhere; a variable that has no place yet
ABSOLUTE = 1  # R_X86_64_64


class _Section(NamedTuple):
    """A section's header, as the file has it."""

    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


class _Symbol(NamedTuple):
    """A symbol. section: the number of its section. value: its offset there, or its alignment if it is `COMMON`."""

    name: str
    section: int
    value: int
    size: int


def layout(code: bytes) -> ObjectLayout | None:
    """Return the layout in memory of an object file, without unwinding tables; None if it cannot be loaded without LLVM."""
    header = HEADER.unpack_from(code.ljust(HEADER.size))
    if header[:3] != RELOCATABLE_X86_64:
        return None
    begin, size, count = header[6], header[11], header[12]  # of the table of sections
    sections = [_Section(*SECTION.unpack_from(code, begin + size * number)) for number in range(count)]
    loaded = {n: section for n, section in enumerate(sections) if section.flags & ALLOCATED and section.type != UNWINDING}
    if any(section.flags & WRITABLE or section.type == NO_BITS for section in loaded.values()):
        return None  # variables are `COMMON`: numba makes no others
    offsets, end = {}, 0
    for number, section in loaded.items():
        offsets[number] = _aligned(end, section.alignment)
        end = offsets[number] + section.size
    variables = end = _aligned(end, mmap.PAGESIZE)
    symbols = [symbol for table in sections if table.type == SYMBOLS for symbol in _symbols(code, sections, table)]
    places: list[int | None] = []  # the offset of each symbol in memory; None if it is elsewhere
    for symbol in symbols:
        place = offsets[symbol.section] + symbol.value if symbol.section in offsets else None
        if symbol.section == COMMON:
            place = _aligned(end, symbol.value)
            end = place + symbol.size
        places.append(place)
    inner: list[tuple[int, int]] = []  # relocations to symbols of this file
    outer: dict[str, list[tuple[int, int]]] = {}  # relocations to symbols elsewhere
    for offset, kind, number, addend in _relocations(code, sections, offsets):
        place, symbol = places[number], symbols[number]
        if kind != ABSOLUTE or (place is None and symbol.section != UNDEFINED):
            return None
        if place is None:
            outer.setdefault(symbol.name, []).append((offset, addend))
        else:
            inner.append((offset, place + addend))
    parts = [(section.offset, section.size, offsets[number]) for number, section in loaded.items()]
    named = {symbol.name: place for symbol, place in zip(symbols, places, strict=True) if place is not None and symbol.name}
    return ObjectLayout(end, variables, parts, named, inner, outer)


def _symbols(code: bytes, sections: list[_Section], table: _Section) -> Iterator[_Symbol]:
    """Yield the symbols of a symbol table, in its order."""
    names = sections[table.link].offset
    for name, _, _, section, value, size in SYMBOL.iter_unpack(code[table.offset : table.offset + table.size]):
        yield _Symbol(code[names + name : code.index(0, names + name)].decode(), section, value, size)


def _relocations(code: bytes, sections: list[_Section], offsets: dict[int, int]) -> Iterator[tuple[int, int, int, int]]:
    """Yield (offset, type, number of the symbol, addend) for each relocation of the sections with offsets."""
    for table in sections:
        if table.type == RELOCATIONS and table.info in offsets:
            for place, info, addend in RELOCATION.iter_unpack(code[table.offset : table.offset + table.size]):
                yield offsets[table.info] + place, info & 0xFFFFFFFF, info >> 32, addend


def _aligned(offset: int, alignment: int) -> int:
    """Return the least multiple of an alignment from an offset on; 0 aligns nothing."""
    return -(-offset // max(1, alignment)) * max(1, alignment)
