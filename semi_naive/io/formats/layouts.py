"""The layout of facts in a file: determined by a directive's parameters, the file's name and its first rows."""

import os
from dataclasses import dataclass, field

from semi_naive.io.errors import BadInput
from semi_naive.io.files import COMPRESSED, io_errors, is_pipe, open_binary

Raw = bytes | bytearray  # undecoded text
# The delimiter of each extension; " " stands for any run of spaces and tabs.
DELIMITERS = {".facts": "\t", ".tsv": "\t", ".csv": ",", ".txt": " ", ".mtx": " "}
BY_NAME = {
    ".json": "jsonfile", ".jsonl": "jsonlines", ".ndjson": "jsonlines", ".sqlite": "sqlite", ".db": "sqlite",
    ".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow",
}  # fmt: skip
SEPARATORS = {".tsv": b"\t", ".csv": b",", ".txt": b" "}  # of the text from a pipe; the first that its first line has
SNIFFED_BYTES = 1 << 16
TEXT = (*DELIMITERS, ".json", ".jsonl", ".ndjson")  # these may be compressed
KNOWN = (
    "known are .facts .tsv .csv .txt .mtx .json .jsonl, each also with .gz, .bz2, .xz or .zst, and .sqlite .db .parquet .arrow"
    " .feather"
)


@dataclass(frozen=True)
class Matrix:
    """The banner and size line of a MatrixMarket file. line: the number of the size line."""

    rows: int
    cols: int
    entries: int
    symmetric: bool
    line: int


@dataclass(frozen=True)
class Format:
    """The layout of a relation's tuples in a file.

    io: the value of IO in an .input or .output.
    name: the table, in a database.
    objects: write JSON tuples as objects.
    columns: the attribute that each field of a row becomes; None: field n is attribute n.
    headers, header: the rows follow a line of names; when written, it is `header`.
    width: the number of fields of a row; None: one for each attribute.
    offset, line: the byte (decompressed) and the line at which the rows start.

    For a graph's text: loose: skip blank lines and lines that begin with a byte of `comments`. spaced: any run of white space
    is one delimiter. matrix: the size line of a MatrixMarket file.
    """

    io: str = "file"
    name: str = ""
    delimiter: str = "\t"
    headers: bool = False
    rfc4180: bool = False
    compress: bool = False
    objects: bool = False
    columns: dict | None = field(default=None, hash=False)
    header: str = ""
    loose: bool = False
    comments: bytes = b""
    spaced: bool = False
    width: int | None = None
    matrix: Matrix | None = None
    offset: int = 0
    line: int = 1

    def attribute_of_field(self, arity: int) -> dict:
        """Return {number of a field of a row: attribute} for the fields that are read."""
        return self.columns or {number: number for number in range(arity)}

    def is_data(self, row: Raw) -> bool:
        """True if a line (without its end) is neither blank nor a comment. A line of tabs counts as empty fields if tabs are
        the delimiter."""
        if not self.loose:
            return True
        if not row.strip(b" \t\r"):
            return self.delimiter == "\t" and b"\t" in row
        return row[0] not in self.comments

    def between(self) -> str:
        """Describe how fields are separated, for messages: "by a tab"."""
        return "by white space" if self.spaced else "by a tab" if self.delimiter == "\t" else f"by {self.delimiter!r}"


def extension_of(path: str, allowed=(*DELIMITERS, *BY_NAME)) -> str:
    """Return the extension of a file's name, without that of its compression; of a pipe, the extension that a file with its
    contents would have. Raises BadInput for an unknown one.

    >>> extension_of("edges.csv.gz")
    '.csv'
    """
    if os.path.isdir(path):
        hint = f"a pattern names the files in it: {os.path.join(path, '*.tsv')}"
        raise BadInput("is a directory, a file was expected", path, hint=hint)
    if is_pipe(path):
        return _extension_of_pipe(path)
    stem, extension = os.path.splitext(path.rstrip("/").lower())
    compression = extension if extension in COMPRESSED else ""
    extension = os.path.splitext(stem)[1] if compression else extension
    if extension not in allowed or (compression and extension not in TEXT):
        raise BadInput(f"unknown extension '{extension}{compression}'", path, hint=KNOWN)
    return extension


def _extension_of_pipe(path: str) -> str:
    """Return .json, .jsonl, .tsv, .csv or .txt by the first lines of a pipe."""
    with io_errors(path), open_binary(path) as stream:
        begin = stream.read(SNIFFED_BYTES)
    if begin.startswith((b"PAR1", b"ARROW1", b"SQLite format")):
        raise BadInput("only text is read from a pipe", path, hint="write it to a file, and name that")
    lines = [line.strip() for line in begin.split(b"\n") if line.strip() and not line.startswith(b"#")]
    first, second = [*lines, b"", b""][:2]
    if first[:1] in (b"[", b"{"):  # one value a line, if the first line ends as a value does, and the second begins like it
        return ".jsonl" if first[-1:] in (b"]", b"}") and second[:1] == first[:1] else ".json"
    return next((extension for extension, separator in SEPARATORS.items() if separator in first), ".tsv")
