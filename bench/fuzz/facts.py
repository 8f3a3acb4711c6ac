"""Random text files of facts, read in every way there is: all ways give the same tuples, or the same error at the same place.

    case = random_case(random.Random(seed)); finding = difference(case, folder)

The reference is `read_lines`, which knows Soufflé's rules to the letter and is slow. The others: the driver's reader (a kernel
where the text is plain, Arrow where that means the same), both in pieces, and Spark's tasks on ranges of a few bytes, whose
borders fall everywhere.
"""

import gzip
import os
from dataclasses import dataclass, field
from itertools import groupby
from unittest.mock import patch

import numpy as np

from semi_naive.io import arrow_table, edge_source, source_of_directive
from semi_naive.io.errors import BadInput
from semi_naive.io.files import contents
from semi_naive.io.formats.lines import read_lines
from semi_naive.io.parallel import ReadSpan, check_reports
from semi_naive.io.python_data import source_of
from semi_naive.io.values.bits import BUILT_IN
from semi_naive.ra.ir import FileDirective, Kind, Relation, Type
from semi_naive.ra.values.values import Values

PAIR = Type("Pair", Kind.RECORD, (("left", "number"), ("right", "symbol")))
TYPES = {**BUILT_IN, "Pair": PAIR}
INTEGERS = (
    b"0 1 7 -3 +5 -0 -7 007 0x1F 0X1f -0x1f +0x1 0xFFFFFFFFFFFFFFFF 0x8000000000000000 0x 0b101 -0b1 0b2 4294967296"
    b" 4294967297 9223372036854775807 9223372036854775808 -9223372036854775808 -9223372036854775809 18446744073709551615"
    b" 18446744073709551616 -1 1.0 1e5 1_000 1,5 ++1 +-1 - + u 3u \xd9\xa3 " + b"9" * 70
).split(b" ")
FLOATS = (
    b"0 1 -0 +1.5 1. .5 . 1e5 1E5 1e+5 1e-5 1e 1e999 -1e999 1e-999 5e-324 nan NaN -nan nan(1) inf -inf +inf Infinity infinite"
    b" 0x1p3 0x1.8 1f 1d 1_0 1,5 0.1 1e22 123456789012345678901234567890 0.30000000000000004 2.2250738585072011e-308 "
    + b"1"
    * 70
).split(b" ")
SYMBOLS = rb'''a b 1 x#y #x %x " "" "a" "a""b" a"b "a"b "a""b"c ""x """" "a [ ] [1,a] ]a[ a,b a;b nil n/a \ \" ' null'''.split(
    b" "
)
SYMBOLS += ["é".encode(), "日本".encode(), "\u2028".encode(), b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc2\xa0", b"\x85"]
SYMBOLS += [b"\0", b"a\0b", b"\xef\xbb\xbf", b"", b" a", b"a ", b"NULL", b"NA", b"true"]
RECORDS = b'nil [1,a] [1,"a"] [1,"a,b"] [1,a,b] [1] [ 1,a] [1,"a] [1,a]] [x,a] [nil,a] 1 [ ] [1,nil]'.split(b" ")
TOKENS = {Kind.NUMBER: INTEGERS, Kind.UNSIGNED: INTEGERS, Kind.FLOAT: FLOATS, Kind.SYMBOL: SYMBOLS, Kind.RECORD: RECORDS}
GOOD = {Kind.NUMBER: b"-17", Kind.UNSIGNED: b"23", Kind.FLOAT: b"2.5", Kind.SYMBOL: b"some", Kind.RECORD: b"[1,a]"}
ODD_BYTES = [
    b"\n",
    b"\r",
    b"\r\n",
    b"\n\n",
    b"\t",
    b" ",
    b"\0",
    b'"',
    b'""',
    b",",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\v",
    b"\f",
    b"[",
    b"#",
    b"\\",
]
DELIMITERS = ["\t", ",", " ", ";", "|", "::", "é", "\r", '"', "-", "e", ", ", "\t\t", "\n", "1", "[", "x"]


@dataclass(frozen=True)
class FactFile:
    """A file `name` with `data`, facts of a relation of these `types`. `parameters`: of its .input; None for a file that Python
    passes, or, where `types` is None, for a graph read with `options`."""

    name: str
    data: bytes
    types: tuple | None
    parameters: dict | None
    options: dict = field(default_factory=dict)


def random_case(random) -> FactFile:
    """One of the ways that text files are read."""
    way = random.choice(["input", "input", "input", "python", "graph", "graph"])
    packed = ".gz" if random.random() < 0.1 else ""
    if way == "graph":
        extension = random.choice([".facts", ".tsv", ".csv", ".txt", ".mtx"])
        options = {
            "header": random.random() < 0.15,
            "strings": random.choice([None, None, True, False]),
            "any_ids": random.random() < 0.3,
        }
        kind = random.choice([Kind.NUMBER, Kind.SYMBOL])
        lines = _lines(random, (kind, kind), _usual(extension), quotes=extension == ".csv", loose=True)
        data = _banner(random) + lines if extension == ".mtx" else lines
        return FactFile("edges" + extension + packed, _packed(random, data, packed), None, None, options)
    types = tuple(
        random.choices(
            [Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT, Kind.SYMBOL, Kind.SYMBOL, Kind.RECORD], k=random.choice([1, 2, 2, 3])
        )
    )
    if way == "python":
        extension = random.choice([".facts", ".tsv", ".csv", ".txt", ".mtx"])
        lines = _lines(random, types, _usual(extension), quotes=extension == ".csv", loose=extension in (".txt", ".mtx"))
        data = _banner(random) + lines if extension == ".mtx" else lines
        return FactFile("r" + extension + packed, _packed(random, data, packed), types, None)
    parameters = _parameters(random, len(types))
    delimiter = parameters.get("delimiter", "," if "rfc4180" in parameters else "\t")
    order = random.sample(range(len(types)), len(types))
    head, kinds = b"", types
    if "headers" in parameters and random.random() < 0.7:  # by name, or with a name that fits nothing
        names = [f"a{at}" for at in order] + random.choice([[], [], ["more"]])
        head = random.choice([b"", b"\xef\xbb\xbf"]) + delimiter.join(names).encode() + random.choice([b"\n", b"\r\n"])
        kinds = tuple(types[at] for at in order)
    data = head + _lines(random, kinds, delimiter.encode(), quotes="rfc4180" in parameters, loose=False)
    return FactFile("r.facts" + packed, _packed(random, data, packed), types, parameters | {"filename": "r.facts" + packed})


def _usual(extension: str) -> bytes:
    return {".csv": b",", ".txt": b" ", ".mtx": b" "}.get(extension, b"\t")


def _banner(random) -> bytes:
    field, symmetry = random.choice(["pattern", "real", "integer", "complex"]), random.choice(["general", "symmetric", "skew"])
    sizes = random.choice(["9 9 3", "9 9 1", "9 9 0", "0 0 0", "9 9", "x", "9 9 -1", "9999999999999999999 9 3"])
    return f"%%MatrixMarket matrix coordinate {field} {symmetry}\n% c\n{sizes}\n".encode()


def _parameters(random, arity: int) -> dict:
    parameters = {}
    if random.random() < 0.3:
        parameters["rfc4180"] = "true"
    if random.random() < 0.4:
        parameters["delimiter"] = random.choice([each for each in DELIMITERS if each != '"' or "rfc4180" not in parameters])
    if random.random() < 0.15:
        parameters["headers"] = "true"
    if random.random() < 0.2:
        parameters["columns"] = ":".join(map(str, random.sample(range(arity + 1), arity)))
    return parameters


def _lines(random, kinds: tuple, delimiter: bytes, quotes: bool, loose: bool) -> bytes:
    """Some lines, of which many are right; then perhaps some odd bytes anywhere."""
    oddness = random.choice([0, 0.1, 0.5])
    end = random.choice([b"\n", b"\n", b"\r\n"])
    extra = random.choice([0, 0, 0, 1])
    out = []
    for _ in range(random.choice([0, 1, 2, 5, 12])):
        width = len(kinds) + extra
        if random.random() < oddness / 3:
            width = random.randrange(0, 5)
        fields = [_field(random, kinds[at] if at < len(kinds) else Kind.SYMBOL, oddness, quotes) for at in range(width)]
        out.append(delimiter.join(fields))
        if random.random() < oddness / 3:
            out.append(random.choice([b"", b" ", b"\t", b"# c", b"\r", delimiter, b'""'] + [b"", b"#c"] * loose))
    data = end.join(out) + (end if random.random() < 0.8 else b"")
    for _ in range(random.choice([0, 0, 0, 1, 2])):
        at = random.randrange(0, len(data) + 1)
        data = data[:at] + random.choice(ODD_BYTES) + data[at + random.choice([0, 1]) :]
    return random.choice([b"\xef\xbb\xbf", b"\n", b"\xff\xfe"]) + data if random.random() < 0.05 else data


def _field(random, kind: Kind, oddness: float, quotes: bool) -> bytes:
    if random.random() >= oddness:
        text = GOOD[kind]
    else:
        text = random.choice(TOKENS[kind])
        text = (
            random.choice([b"", b"", b"", b" ", b"\t", b"\v"]) + text + random.choice([b"", b"", b"", b" ", b"\f", b"\xc2\xa0"])
        )
    if quotes and random.random() < 0.3:
        return b'"' + text.replace(b'"', b'""') + random.choice([b"", b"", b"", b"\n", b",", b"\r\n", b"\n\n"]) + b'"'
    return text


def _packed(random, data: bytes, packed: str) -> bytes:
    """The bytes of a gzip file, perhaps a damaged one."""
    if not packed:
        return data
    half = random.randrange(0, len(data) + 1)
    whole = gzip.compress(data[:half], mtime=0) + gzip.compress(data[half:], mtime=0)
    at = random.randrange(0, len(whole))
    return random.choice(
        [whole, whole, whole[:at], whole + b"garbage", whole + b"\0\0", whole[:at] + b"\x55" + whole[at + 1 :], data]
    )


def difference(case: FactFile, folder: str, small=(1, 3, 7, 64)) -> str | None:
    """How the readers differ on a case, and what each says; None if they agree. Whatever is no `BadInput` is raised."""
    path = os.path.join(folder, case.name)
    with open(path, "wb") as file:
        file.write(case.data)
    try:
        source = _source(case, folder)
    except BadInput as fault:
        return None if fault.file else f"no place: {fault}"
    ways = {
        "driver": lambda: _by_driver(source),
        "in pieces": lambda: _in_pieces(source, 9),
        "not as plain text": lambda: _by_rules(source, 9),
    }
    if source.can_spread:
        ways |= {f"ranges of {size} bytes": lambda size=size: _by_tasks(source, size) for size in small}
    right = _outcome(lambda: _by_lines(source))
    for name, read in ways.items():
        found = _outcome(read)
        if not _same(found, right):
            return f"by lines: {right}\n{name}: {found}\n{case}"
    return None


def _same(found, right) -> bool:
    """Whether two outcomes agree. Of a gzip file that ends in garbage, tasks may see a wrong line before the garbage."""
    broken = any(isinstance(each, tuple) and ("gzip" in each[-1]) for each in (found, right))
    return found == right or (broken and isinstance(found, tuple) and isinstance(right, tuple))


def _source(case: FactFile, folder: str):
    path = os.path.join(folder, case.name)
    if case.types is None:
        return edge_source(path, **case.options)
    attributes = [(f"a{at}", PAIR if kind == Kind.RECORD else BUILT_IN[kind.value]) for at, kind in enumerate(case.types)]
    relation = Relation("r", tuple(attributes))
    if case.parameters is None:
        return source_of(path, relation, TYPES)
    return source_of_directive(FileDirective("input", "r", case.parameters), relation, TYPES, folder)


def _outcome(read):
    """What a reader gives: its rows in order, each as text, and once where it stands several times in a row, as a relation is a
    set; or the place of an error, and what it says."""
    try:
        relation, columns, values = read()
    except BadInput as fault:
        return fault.file, fault.line, fault.column, fault.message
    rows = zip(*(column.to_pylist() for column in arrow_table(relation, TYPES, columns, values).columns), strict=True)
    return [row for row, _ in groupby(map(repr, rows))]


def _by_lines(source):
    values, begin, line = Values(), source.layout.offset, source.layout.line
    data = contents(source.path)[begin:]
    columns = read_lines(data, source.layout, source.relation, source.types, values, source.path, line)
    if source.matrix:
        check_reports(source, [(columns.shape[1], None)])
    return source.relation, source.with_mirrored(columns), values


def _by_driver(source):
    values = Values()
    return source.relation, source.columns(values), values


def _in_pieces(source, size: int):
    """Plain text too, by several threads."""
    with (
        patch("semi_naive.io.formats.delimited.ARROW_PIECE_BYTES", size),
        patch("semi_naive.io.sources.PARSED_PIECE_BYTES", size),
    ):
        return _by_driver(source)


def _by_rules(source, size: int):
    with patch("semi_naive.io.sources.read_plain", lambda *given: None):
        return _in_pieces(source, size)


def _by_tasks(source, size: int):
    """As Spark's tasks read it, in this process."""
    values, parts = Values(), []
    symbols = [at for at, kind in enumerate(source.relation.kinds) if kind == Kind.SYMBOL]
    with patch("semi_naive.io.sources.SPAN_BYTES", size):
        for span in source.spans():
            parts += ReadSpan(source)(span)
        check_reports(source, [(part.rows, part.fault) for part in parts])
    found = [part.numbered(symbols, values) for part in parts]
    return source.relation, np.concatenate([np.empty((source.relation.arity, 0), np.int64), *found], axis=1), values
