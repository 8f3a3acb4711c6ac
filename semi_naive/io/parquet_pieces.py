"""One parquet file of many: row groups are made by any thread or task as files of their own, and their bytes are copied.

What says where things are is the footer, a structure of Thrift's compact protocol. Only the offsets in it change. The numbers
of its fields are those of `parquet.thrift` in github.com/apache/parquet-format.
"""

import io
import shutil
import struct
from collections.abc import Callable
from typing import Any, BinaryIO

MAGIC = b"PAR1"
ROWS, GROUPS = 3, 4  # fields of FileMetaData
COLUMNS, GROUP_OFFSET, ORDINAL = 1, 5, 7  # of RowGroup
CHUNK_OFFSETS, META = (2, 4, 6), 3  # of ColumnChunk
META_OFFSETS = (9, 10, 11, 14)  # of ColumnMetaData
TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, STRUCT = 1, 2, 3, 7, 8, 9, 10, 12  # types; 4, 5 and 6 are integers
INTEGERS = (4, 5, 6)

Fields = dict[int, tuple[int, Any]]  # of a structure: by number the type and the value


class Joined:
    """A parquet file that is written to a stream, group after group; `close` writes the footer."""

    def __init__(self, file: BinaryIO):
        self.file, self.size = file, 0
        self.footer: Fields = {}
        self._write(MAGIC)

    def append(self, piece: BinaryIO) -> None:
        """Copy the row groups of another file, which has the same schema, and was written by the same library."""
        end = piece.seek(-8, io.SEEK_END)
        footer_size, magic = struct.unpack("<I4s", piece.read(8))
        assert magic == MAGIC, magic
        piece.seek(end - footer_size)
        footer = Reader(piece.read(footer_size)).fields()
        shift = self.size - len(MAGIC)
        piece.seek(len(MAGIC))
        body = end - footer_size - len(MAGIC)
        shutil.copyfileobj(_Beginning(piece, body), self.file, 1 << 20)
        self.size += body
        for group in footer[GROUPS][1][1]:
            _move(group, shift)
        if not self.footer:
            self.footer = footer
        else:
            self.footer[GROUPS][1][1].extend(footer[GROUPS][1][1])
            self.footer[ROWS] = self.footer[ROWS][0], self.footer[ROWS][1] + footer[ROWS][1]

    def close(self) -> None:
        """Nothing may have been appended but what has no rows, but something has to be: it has the schema."""
        footer = io.BytesIO()
        write_fields(footer, self.footer)
        self._write(footer.getvalue() + struct.pack("<I4s", footer.tell(), MAGIC))

    def _write(self, data: bytes) -> None:
        self.file.write(data)
        self.size += len(data)


class _Beginning:
    """So many bytes of a stream."""

    def __init__(self, stream: BinaryIO, size: int):
        self.stream, self.left = stream, size

    def read(self, size: int) -> bytes:
        data = self.stream.read(min(size, self.left))
        self.left -= len(data)
        return data


def _move(group: Fields, shift: int) -> None:
    """The bytes of a row group are elsewhere; its number, which may be left out, is another."""
    group.pop(ORDINAL, None)
    _shift(group, (GROUP_OFFSET,), shift)
    for chunk in group[COLUMNS][1][1]:
        _shift(chunk, CHUNK_OFFSETS, shift)
        _shift(chunk[META][1], META_OFFSETS, shift)


def _shift(fields: Fields, offsets: tuple, shift: int) -> None:
    for number in offsets:
        if number in fields and fields[number][1]:  # 0 stands for none
            fields[number] = fields[number][0], fields[number][1] + shift


class Reader:
    """Thrift's compact protocol, read.

    >>> Reader(bytes([0x15, 0x05, 0x19, 0x25, 0x02, 0x04, 0x11, 0x00])).fields()
    {1: (5, -3), 2: (9, (5, [1, 2])), 3: (1, True)}
    """

    def __init__(self, data: bytes):
        self.data, self.at = data, 0
        self.of: dict[int, Callable] = dict.fromkeys(INTEGERS, self.integer) | {
            TRUE: lambda: True, FALSE: lambda: False, BYTE: self.byte, DOUBLE: lambda: self.raw(8), STRUCT: self.fields,
            BINARY: lambda: self.raw(self.varint()), LIST: self.items, SET: self.items,
        }  # fmt: skip

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def raw(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    def varint(self) -> int:
        value = shift = 0
        while (byte := self.byte()) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
        return value | byte << shift

    def integer(self) -> int:
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def fields(self) -> Fields:
        found: Fields = {}
        number = 0
        while head := self.byte():
            number = number + (head >> 4) if head >> 4 else self.integer()
            found[number] = head & 15, self.of[head & 15]()
        return found

    def items(self) -> tuple[int, list]:
        head = self.byte()
        size = head >> 4 if head >> 4 < 15 else self.varint()
        one = self.byte if head & 15 in (TRUE, FALSE) else self.of[head & 15]
        return head & 15, [one() for _ in range(size)]


def write_fields(out: io.BytesIO, fields: Fields) -> None:
    """Write a structure as `Reader.fields` gives it.

    >>> fields = {1: (5, -3), 40: (9, (12, [{1: (8, b"x")}] * 16)), 41: (2, False)}
    >>> write_fields(out := io.BytesIO(), fields); Reader(out.getvalue()).fields() == fields
    True
    """
    before = 0
    for number, (kind, value) in sorted(fields.items()):
        if number - before < 16:
            out.write(bytes([number - before << 4 | kind]))
        else:
            out.write(bytes([kind]))
            _write_varint(out, number << 1)
        before = number
        if kind not in (TRUE, FALSE):
            _write(out, kind, value)
    out.write(b"\0")


def _write(out: io.BytesIO, kind: int, value) -> None:
    if kind in INTEGERS:
        _write_varint(out, value << 1 ^ value >> 63)
    elif kind == STRUCT:
        write_fields(out, value)
    elif kind in (LIST, SET):
        of, items = value
        out.write(bytes([min(len(items), 15) << 4 | of]))
        if len(items) >= 15:
            _write_varint(out, len(items))
        for item in items:
            _write(out, of, item)
    elif kind in (TRUE, FALSE, BYTE):  # of a list
        out.write(bytes([value]))
    else:
        if kind == BINARY:
            _write_varint(out, len(value))
        out.write(value)


def _write_varint(out: io.BytesIO, value: int) -> None:
    while value > 0x7F:
        out.write(bytes([value & 0x7F | 0x80]))
        value >>= 7
    out.write(bytes([value]))
