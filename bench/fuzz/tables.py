"""Random JSON, SQLite and parquet files of facts: an error has a place, or the rows are what another reader finds there."""

import json
import math
import os
import sqlite3
from dataclasses import dataclass
from unittest.mock import patch

from semi_naive.io import arrow_table, edge_source, source_of_directive
from semi_naive.io.errors import BadInput
from semi_naive.io.parallel import ReadSpan
from semi_naive.io.values.bits import BUILT_IN
from semi_naive.ra.ir import FileDirective, Kind, Relation
from semi_naive.ra.values.values import Values

ODD = [None, "", "a", "é\u2028", "12", "-3", "0x1F", "nan", "1e999", b"", b"12", b"\xff\0", 0, 7, -3, 2**31, 2**63 - 1]
ODD += [-(2**63), 1.5, 3.0, -0.0, math.inf, math.nan, 1e300, True]
GOOD = {Kind.NUMBER: -17, Kind.UNSIGNED: 23, Kind.FLOAT: 2.5, Kind.SYMBOL: "some"}
JSON_ODD = (
    'null true [] {} [1] {"a":1} 1e999 -1e5 1.0 2.5 -0 18446744073709551615 18446744073709551616 9223372036854775808 NaN'
    ' Infinity "" "a" "\\ud800" "\\u0000" "\\ud83d\\ude00" "é" "12" 01 +1 1_0 nul "\\x" ' + "9" * 5000 + " -" + "7" * 4301
).split(" ")
KINDS = (Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT, Kind.SYMBOL)


@dataclass(frozen=True)
class TableFile:
    """Facts of a relation of these `types`, in a file of a `format`; `data` are its bytes, or an SQLite database's rows.
    `graph`: read as edges, of whatever types."""

    format: str
    types: tuple
    data: object
    graph: bool = False


def random_case(random) -> TableFile:
    format = random.choice(["json", "sqlite", "parquet"])
    types = tuple(random.choices(KINDS, k=random.choice([1, 2, 3])))
    data = {"json": _json, "sqlite": _rows, "parquet": _parquet}[format](random, types)
    return TableFile(format, types, data, len(types) == 2 and random.random() < 0.3)


def _json(random, types: tuple) -> bytes:
    def value(kind) -> str:
        return random.choice(JSON_ODD) if random.random() < 0.1 else json.dumps(GOOD[kind])

    def row() -> str:
        width = len(types) + random.choice([0] * 20 + [1, -1])
        found = [value(types[at % len(types)]) for at in range(width)]
        if random.random() < 0.2:
            return "{" + ", ".join(f'"a{at}": {each}' for at, each in enumerate(found)) + "}"
        return "[" + ", ".join(found) + "]"

    text = "[" + ",\n".join(row() for _ in range(random.choice([0, 1, 4]))) + "]"
    return _damaged(random, text.encode(), 0.2)


def _damaged(random, data: bytes, chance: float) -> bytes:
    """The bytes, perhaps cut, or with one that is another."""
    if random.random() >= chance or not data:
        return data
    at = random.randrange(len(data))
    return random.choice(
        [data[:at], data[:at] + bytes([random.randrange(256)]) + data[at + 1 :], data + b"x", b"\xef\xbb\xbf" + data]
    )


def _rows(random, types: tuple) -> list:
    width = max(1, len(types) + random.choice([0] * 8 + [1, -1]))
    odd = random.choice([0, 0.1])
    values = lambda: [random.choice(ODD) if random.random() < odd else GOOD[types[at % len(types)]] for at in range(width)]  # noqa: E731
    return [tuple(values()) for _ in range(random.choice([0, 1, 4]))] or [()] * width


def _parquet(random, types: tuple) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    size, width = random.choice([0, 1, 5]), max(0, len(types) + random.choice([0] * 8 + [1, -1]))
    columns = [_column(random, types[at % len(types)], size) for at in range(width)]
    if random.random() < 0.1:
        random.shuffle(columns)
    table = pa.table(columns, names=[f"{random.choice('aaaaaaab')}{at}" for at in range(width)])
    sink, compression = pa.BufferOutputStream(), random.choice(["snappy", "none"])
    pq.write_table(table, sink, row_group_size=random.choice([1, 2, 100]), compression=compression)
    return _damaged(random, sink.getvalue().to_pybytes(), 0.3)


def _column(random, kind: Kind, size: int):
    import pyarrow as pa

    if random.random() < 0.8:
        return pa.array([GOOD[kind]] * size, random.choice(list(_fitting(kind))))
    odd = [True, b"\xff", -(2**63), 1.5, math.nan, [1], {"a": 1}, "x", "12", 1e300, None]
    arrays = [pa.array([value] * size) for value in odd]
    arrays += [pa.array([7, None] * size)[:size], pa.array(["x", None] * size)[:size]]
    arrays += [pa.array([0] * size, pa.timestamp("us")), pa.array([0] * size, pa.date32())]
    arrays += [pa.array(["x"] * size).dictionary_encode(), pa.array([2**64 - 1] * size, pa.uint64())]
    return random.choice([*arrays, pa.array([None] * size, pa.int64())])


def _fitting(kind: Kind):
    import pyarrow as pa

    return {
        Kind.NUMBER: (pa.int64(), pa.int32(), pa.int8()),
        Kind.UNSIGNED: (pa.uint64(), pa.uint8(), pa.int64()),
        Kind.FLOAT: (pa.float64(), pa.float32()),
        Kind.SYMBOL: (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())),
    }[kind]


def difference(case: TableFile, folder: str) -> str | None:
    """What is wrong about how a case is read; None if nothing is. Whatever is no `BadInput` is raised."""
    path = os.path.join(folder, f"r.{case.format}")
    _write(path, case)
    attributes = tuple((f"a{at}", BUILT_IN[kind.value]) for at, kind in enumerate(case.types))
    parameters = {"IO": "jsonfile" if case.format == "json" else case.format, "filename": path}
    try:
        if case.graph:
            source = edge_source(path)
        else:
            source = source_of_directive(FileDirective("input", "r", parameters), Relation("r", attributes), {}, folder)
        values = Values()
        columns = source.columns(values)
    except BadInput as fault:
        return None if fault.file and str(fault) else f"no place: {fault}\n{case}"
    table = arrow_table(source.relation, BUILT_IN, columns, values)
    found = [tuple(row.values()) for row in table.to_pylist()]
    kinds = source.relation.kinds
    expected = [
        tuple(map(_meant, row, kinds, [case.format] * len(row)))
        for row in _reference(path, case, [name for name, _ in source.relation.attributes])
    ]
    if repr(found) != repr(expected):
        return f"found {found}\nexpected {expected}\n{case}"
    return _by_tasks(source, found) if source.can_spread else None


def _write(path: str, case: TableFile) -> None:
    if os.path.exists(path):
        os.unlink(path)
    if case.format != "sqlite":
        with open(path, "wb") as file:
            file.write(case.data)
        return
    database = sqlite3.connect(path)
    width = len(case.data[0]) or len(case.data)
    database.execute(f"CREATE TABLE r ({', '.join(f'a{at}' for at in range(width))})")
    database.executemany(f"INSERT INTO r VALUES ({', '.join('?' * width)})", [row for row in case.data if row])
    database.commit()
    database.close()


def _reference(path: str, case: TableFile, names: list) -> list:
    """The rows of the file, as the format's own reader has them."""
    if case.format == "json":
        with open(path, "rb") as file:
            rows = [row if isinstance(row, dict) else dict(enumerate(row)) for row in json.loads(file.read())]
            return [[row[name] for name in names] if set(names) <= set(row) else list(row.values()) for row in rows]
    if case.format == "sqlite":
        return [row[: len(names)] for row in sqlite3.connect(path).execute("SELECT * FROM r").fetchall()]
    import pyarrow.parquet as pq

    table = pq.read_table(path, columns=names if set(names) <= set(pq.read_schema(path).names) else None)
    return [tuple(row.values()) for row in table.rename_columns([str(at) for at in range(table.num_columns)]).to_pylist()]


def _meant(value, kind: Kind, format: str):
    """What a value of a file stands for."""
    if kind == Kind.SYMBOL and format == "sqlite":
        return value.decode() if isinstance(value, bytes) else str(value)
    if kind == Kind.SYMBOL:
        return str(value)  # of a vertex that is a number, too
    if isinstance(value, str):
        return int(value, 0) if kind != Kind.FLOAT else float.fromhex(value) if "x" in value else float(value)
    if kind == Kind.UNSIGNED and format == "sqlite":
        return value % 2**64
    return float(value) if kind == Kind.FLOAT else value


def _by_tasks(source, right: list) -> str | None:
    """How Spark's tasks read the parts of a file differently, if they do."""
    symbols = [at for at, kind in enumerate(source.relation.kinds) if kind == Kind.SYMBOL]
    values, found = Values(), []
    with patch("semi_naive.io.sources.BLOCK_BYTES", 7):
        parts = [part for span in source.spans() for part in ReadSpan(source)(span)]
    if faults := [part.fault[1] for part in parts if part.fault]:
        return f"tasks: {faults[0]}\nthe driver: {right}"
    for part in parts:
        table = arrow_table(source.relation, BUILT_IN, part.numbered(symbols, values), values)
        found += [tuple(row.values()) for row in table.to_pylist()]
    return None if repr(found) == repr(right) else f"tasks: {found}\nthe driver: {right}"
