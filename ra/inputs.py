"""Where relations come from: tuples of this process, and Spark DataFrames, which are read in parallel."""

import pickle
from dataclasses import dataclass

import numpy as np
from semi_naive.ra.evaluation import Plan, build, first_key, label, run
from semi_naive.ra.packing import HIGHEST, LOWEST, Packing, bounds_of, widen
from semi_naive.ra.schema import INT, SYMBOL, Schema
from semi_naive.ra.stored import ROWS, Place, Share, Stored
from semi_naive.ra.symbols import SYMBOLS

WHOLE_NUMBERS = ("tinyint", "smallint", "int", "bigint")


class Local(Plan):
    """Tuples that this process has, as int64 columns (arity, n). Packed and written once; the tasks map the file."""

    at_hand = True

    def __init__(self, columns: np.ndarray):
        self.columns, self.bounds = columns, bounds_of(columns)

    def title(self) -> str:
        return f"{self.columns.shape[1]:,} rows of this process"

    def forecast(self) -> str:
        return "1 job, 1 shuffle, when it is first needed"

    def source(self, stored: Stored) -> Share:
        from semi_naive.ra.replica import Replica

        packing = Packing(self.bounds)
        words = packing.pack(self.columns).reshape(-1)
        return Share(Replica.share(stored.layout.sc, stored.store, "given", words), packing, stored.layout.partitions)

    def evaluate(self, relation, key, view):
        build([(relation, first_key(relation.arity) if key is None else tuple(key))])
        return relation.stored, relation.plan.note


class Frame(Plan):
    """A Spark DataFrame, read in its own partitions; of strings, the distinct ones pass through the driver."""

    def __init__(self, frame, schema: Schema):
        self.frame, self.schema = frame, schema

    def title(self) -> str:
        return f"Spark DataFrame {self.schema}"

    def forecast(self) -> str:
        return "2 jobs: bounds and distinct strings, then 1 shuffle"

    def evaluate(self, relation, key, view):
        from pyspark import StorageLevel
        from semi_naive.ra.shuffle import Combine, Deal

        rdd = self._tables().persist(StorageLevel.MEMORY_AND_DISK)
        try:
            bounds, ids = self._survey(rdd)
            stored = Stored(relation.layout, bounds)
            key = first_key(relation.arity) if key is None else tuple(key)
            place = Place.keyed(key, bounds, relation.layout.deal())
            mover = Deal("read", _Encoded(self.schema.kinds, relation.layout.sc.broadcast(ids) if ids else None), place)
            writer = Combine("read", ("read",), place, stored.store.root, label(place.key))
            run(relation.layout, [[mover]], [writer], [stored], source=rdd)
        finally:
            rdd.unpersist()
        return stored, f"read in parallel and dealt by ({relation.names(place.key)}): 2 jobs, 1 shuffle"

    def _tables(self):
        """An RDD of Arrow tables of about ROWS rows, columns cast to bigint and string."""
        types = ["bigint" if kind == INT else "string" for kind in self.schema.kinds]
        quoted = ["`" + name.replace("`", "``") + "`" for name in self.schema.columns]
        plain = self.frame.selectExpr(
            *(f"cast({name} as {kind}) as c{i}" for i, (name, kind) in enumerate(zip(quoted, types, strict=True)))
        )
        return plain.mapInArrow(_pickled, "tables binary").rdd.map(lambda row: pickle.loads(row[0]))

    def _survey(self, rdd):
        """The bounds of each column, and of symbol columns the distinct strings with their ids."""
        import pyarrow as pa

        found = rdd.map(_Survey(self.schema)).collect()
        for problem in (each for each in found if isinstance(each, str)):
            raise ValueError(problem)
        names = [pa.chunked_array([each[1] for each in found], pa.string()).unique()] if found else []
        ids = (names[0], SYMBOLS.intern(names[0])) if names and len(names[0]) else None
        bounds = ((0, 0),) * self.schema.arity
        for number, (mine, _) in enumerate(each for each in found if each[0] is not None):
            bounds = widen(bounds, mine) if number else mine
        symbols = (0, max(0, len(SYMBOLS) - 1))
        kinds = self.schema.kinds
        return tuple(symbols if kind == SYMBOL else b for kind, b in zip(kinds, bounds, strict=True)), ids


def _pickled(batches):
    """Arrow batches as records of one pickled table of at least ROWS rows each, but for the last."""
    import pyarrow as pa

    waiting, rows = [], 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= ROWS:
            yield _record(pa.Table.from_batches(waiting))
            waiting, rows = [], 0
    if rows:
        yield _record(pa.Table.from_batches(waiting))


def _record(table):
    import pyarrow as pa

    return pa.record_batch([pa.array([pickle.dumps(table, protocol=5)], pa.binary())], names=["tables"])


@dataclass
class _Survey:
    """(bounds or None of no rows, distinct strings) of a table, or what is wrong with it."""

    schema: Schema

    def __call__(self, table):
        import pyarrow as pa

        bounds, names = [], []
        for name, kind, column in zip(self.schema.columns, self.schema.kinds, table.columns, strict=True):
            if column.null_count:
                return f"DataFrame: column {name!r} has nulls: drop those rows (df.dropna()) or fill them (df.fillna)"
            if kind == SYMBOL:
                names += column.unique().chunks if isinstance(column.unique(), pa.ChunkedArray) else [column.unique()]
            values = column.to_numpy() if kind == INT and len(column) else np.zeros(1, np.int64)
            bounds.append((int(values.min()), int(values.max())))
        return (tuple(bounds) if table.num_rows else None), pa.chunked_array(names, pa.string()).unique()


@dataclass
class _Encoded:
    """A source of int64 columns, made of Arrow tables."""

    kinds: tuple[str, ...]
    ids: object  # a broadcast of (strings, ids), or None

    def blocks(self, partition: int, records=()):
        import pyarrow.compute as pc

        for table in records:
            columns = np.empty((len(self.kinds), table.num_rows), np.int64)
            for row, (kind, column) in enumerate(zip(self.kinds, table.columns, strict=True)):
                if kind == SYMBOL:
                    names, ids = self.ids.value
                    columns[row] = ids[pc.index_in(column, value_set=names).to_numpy()]
                else:
                    columns[row] = column.to_numpy()
            yield columns


def frame_schema(frame, columns=None) -> Schema:
    """The schema of a Spark DataFrame; `columns`: other names."""
    kinds = []
    for name, kind in frame.dtypes:
        if kind not in WHOLE_NUMBERS and kind != "string":
            raise ValueError(f"DataFrame: column {name!r} has type {kind}: cast it to bigint or string, or drop it")
        kinds.append(SYMBOL if kind == "string" else INT)
    return Schema(tuple(columns or frame.columns), tuple(kinds))


def from_arrow_columns(names, arrays, kinds=None) -> tuple[Schema, np.ndarray]:
    """Schema and int64 columns of pyarrow arrays: integers as they are, strings interned."""
    given, found, rows = kinds or {}, [], []
    for name, array in zip(names, arrays, strict=True):
        kind, row = _arrow_column(name, array, given.get(name))
        found.append(kind)
        rows.append(row)
    schema = Schema(tuple(names), tuple(found))
    return schema, np.stack(rows) if rows else np.empty((0, 0), np.int64)


def _arrow_column(name, array, kind):
    import pyarrow as pa
    import pyarrow.types as is_

    if array.null_count:
        raise ValueError(f"column {name!r} has {array.null_count} nulls: drop those rows or fill them first")
    plain = array.type.value_type if is_.is_dictionary(array.type) else array.type
    if is_.is_null(plain) or not len(array) and kind:
        return kind or INT, np.empty(0, np.int64)
    if is_.is_string(plain) or is_.is_large_string(plain) or is_.is_string_view(plain):
        return SYMBOL, SYMBOLS.intern(array.cast(pa.string()))
    if not is_.is_integer(plain):
        raise ValueError(f"column {name!r} has type {array.type}: expected integers or strings; cast it first")
    try:
        return INT, array.cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid:
        raise ValueError(f"column {name!r} has values beyond {LOWEST} … {HIGHEST}: read it as strings") from None


def from_array(array, columns, kinds=None) -> tuple[Schema, np.ndarray]:
    """Schema and int64 columns of a numpy array (n, arity), of integers or, column by column, of strings."""
    array, columns = np.asarray(array), tuple(columns)
    if array.ndim == 1 and len(columns) == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] != len(columns):
        raise ValueError(f"the array has shape {array.shape}: expected (n, {len(columns)}) for columns {columns}")
    if array.dtype.kind == "i":
        return Schema(columns, (INT,) * len(columns)), np.ascontiguousarray(array.T, np.int64)
    if array.dtype.kind == "u":
        if array.size and int(array.max()) > HIGHEST:
            raise ValueError(f"the array has values beyond {HIGHEST}: expected 64-bit signed integers")
        return Schema(columns, (INT,) * len(columns)), np.ascontiguousarray(array.T, np.int64)
    if array.dtype.kind not in "UOT" and array.size:
        raise ValueError(f"the array has dtype {array.dtype}: expected integers or strings; convert it first")
    if not columns:
        return Schema((), ()), np.empty((0, len(array)), np.int64)
    return from_lists(columns, [column.tolist() for column in array.T], kinds)


def from_lists(columns, lists, kinds=None) -> tuple[Schema, np.ndarray]:
    """Schema and int64 columns of Python values, each list all integers or all strings."""
    import pyarrow as pa

    arrays = []
    for name, values in zip(columns, lists, strict=True):
        kind = str if values and isinstance(values[0], str) else int
        odd = next((v for v in values if not isinstance(v, (str,) if kind is str else (int, np.integer))
                    or isinstance(v, bool)), None)  # fmt: skip
        if odd is not None or None in values:
            raise ValueError(f"column {name!r} has {odd!r} among {kind.__name__}s: a column holds integers or strings")
        try:
            arrays.append(pa.array(values, pa.string() if kind is str else pa.int64()))
        except (OverflowError, pa.ArrowInvalid):
            raise ValueError(f"column {name!r} has values beyond {LOWEST} … {HIGHEST}: give them as strings") from None
    return from_arrow_columns(columns, arrays, kinds)
