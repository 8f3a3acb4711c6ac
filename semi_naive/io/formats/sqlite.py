"""SQLite databases in Soufflé's layout: a table `_relation` of numbers, one `__SymbolTable` for all symbols, and a view
`relation` with the strings, from which facts are read.
"""

import contextlib
import sqlite3
from math import isnan

import numpy as np

from semi_naive.io.errors import BadInput
from semi_naive.io.files import check_folder
from semi_naive.io.formats.layouts import Format
from semi_naive.io.names import column_places, note_order
from semi_naive.io.results.sorted_rows import Keys, RelationRows, SortedRows
from semi_naive.io.values.bits import HOW_TO_READ, MASK, Mismatch, bits_of_text, to_value
from semi_naive.io.values.fields import columns_of_rows, value_fault
from semi_naive.io.values.record_text import TableStyle
from semi_naive.ra.ir import ENCODED, Kind, Relation
from semi_naive.ra.values.values import Values

SYMBOLS = "__SymbolTable"
MAX_ROW_BYTES_WITHOUT_IDS = 200  # bytes of a row (9 for each value, and 1) from which a table has row ids, by SQLite's advice
INSERTED_ROWS = 1 << 18  # rows inserted by one call
TEXTUAL = (Kind.SYMBOL, Kind.RECORD)


def read_sqlite(path: str, form: Format, relation: Relation, types: dict, values: Values) -> np.ndarray:
    """Return the columns (arity, n) of the table or view `form.name`. Raises BadInput for NULL, except in a record attribute,
    where it is nil."""
    with _open_database(path) as database:
        _check_table(database, path, form.name, relation.name)
        cursor = database.execute(f"SELECT * FROM {_quoted_name(form.name)}")
        rows, names = cursor.fetchall(), [column for column, *_ in cursor.description]
    order = column_places(relation, names, path)
    if order is None:
        note_order(relation, names, path)
        order = list(range(relation.arity))
    if len(names) < relation.arity:
        message = f"{form.name} has {len(names)} columns, {relation.name} has {relation.arity} attributes"
        raise BadInput(message, path, hint="each attribute is read from the column in its place")
    rows = rows if order == list(range(len(names))) else [[row[column] for column in order] for row in rows]

    def fault(attribute: tuple, row: int, wrong: Mismatch) -> BadInput:
        return value_fault(path, f"row {row}, column {attribute[0]}: ", attribute[1], wrong)

    return columns_of_rows(rows, relation, types, values, fault, _python_value)


def only_table(path: str) -> str:
    """Return the name of the table or view with the edges of a database: `edges`, or the only one."""
    with _open_database(path) as database:
        names = _public(_tables(database))
    if "edges" in names or len(names) == 1:
        return "edges" if "edges" in names else names[0]
    hint = "name the one with the edges 'edges'"
    raise BadInput(f"the database has the tables {', '.join(names) or '(none)'}", path, hint=hint)


def sample_table(path: str, name: str, limit: int) -> tuple[list[str], list[str], list[tuple]]:
    """Return (names of a table's or view's columns, their declared types in capitals, first `limit` rows)."""
    with _open_database(path) as database:
        _check_table(database, path, name, name)
        columns = database.execute(f"PRAGMA table_info({_quoted_name(name)})").fetchall()
        rows = database.execute(f"SELECT * FROM {_quoted_name(name)} LIMIT {limit}").fetchall()
    return [column for _, column, *_ in columns], [declared.upper() for _, _, declared, *_ in columns], rows


def _tables(database) -> list[str]:
    return [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")]


def _public(names: list[str]) -> list[str]:
    """Return the tables and views that are not part of Soufflé's layout."""
    return [name for name in names if not name.startswith(("_", "sqlite_"))]


def _check_table(database, path: str, name: str, relation: str) -> None:
    """Raise BadInput unless the database has a table or view."""
    if name not in (tables := _tables(database)):
        hint = f"the database has {', '.join(_public(tables)) or 'nothing'}; name= in the .input says which one is read"
        raise BadInput(f"Required table or view does not exist for relation {relation}: {name}", path, hint=hint)


def _python_value(value, kind: Kind):
    """Convert a value of a table for `bits_of_values`. Symbols and records are stored as text, and numbers may be, too. SQLite
    has no unsigned numbers: from 2^63 on they are stored as the negative number with the same bits."""
    if value is None and kind != Kind.RECORD:
        raise Mismatch("the value is NULL", HOW_TO_READ)
    if kind in TEXTUAL:
        return value if value is None else _text(value)
    if kind == Kind.BOOL and type(value) is int and value in (0, 1):  # SQLite has no truth values
        return bool(value)
    if isinstance(value, str):
        return to_value(bits_of_text(value, kind), kind)
    return value & MASK if kind == Kind.UNSIGNED and isinstance(value, int) else value


def _text(value) -> str:
    """Return a value of SQLite that is not null as a string. Raises Mismatch for bytes that are not UTF-8."""
    try:
        return value.decode() if isinstance(value, bytes) else str(value)
    except UnicodeDecodeError as error:
        hint = "a blob, or a text, is read as UTF-8; store other bytes by hex(…), say"
        raise Mismatch(f"byte {value[error.start]:#04x} is not UTF-8", hint) from None


def write_sqlite(path: str, shown: RelationRows, form: Format) -> None:
    """Replace the relation's table in the database at `path`, in one transaction; other tables are not changed."""
    relation = shown.relation
    ordered = SortedRows(shown, TableStyle(readable=True), INSERTED_ROWS) if relation.arity else None
    if not path.startswith(("file:", ":memory:")):
        check_folder(path)
    with _open_database(path) as database:
        database.execute("BEGIN")
        _create(database, relation, form.name)
        if ordered:
            stored = [_stored_values(database, keys) for keys in ordered.keys]
            marks = ", ".join("?" * relation.arity)
            for piece in ordered.pieces(np.ndarray.tolist):
                columns = [
                    [value_of_key[key] for key in column] if value_of_key else column
                    for value_of_key, column in zip(stored, piece, strict=True)
                ]
                insert = f"INSERT INTO {_quoted_name('_' + form.name)} VALUES ({marks})"
                database.executemany(insert, zip(*columns, strict=True))
        database.execute("COMMIT")


def _stored_values(database, keys: Keys) -> list | None:
    """Return the value that the table stores for each key of a column; None for whole numbers. Truth values are numbers, and
    other encoded values are text. Symbols, and records as text, are stored by their number in the symbol table, to which they
    are added."""
    if keys.bits is None:
        return None
    texts = keys.texts if isinstance(keys.texts, list) else keys.texts.to_pylist()
    if keys.kind in ENCODED:
        return keys.bits.tolist() if keys.kind == Kind.BOOL else texts
    if keys.kind == Kind.FLOAT:
        return ["nan" if isnan(value) else value for value in texts]  # SQLite would store NULL
    rows = [(text,) for text in texts]
    database.executemany(f"INSERT OR IGNORE INTO {SYMBOLS} VALUES (NULL, ?)", rows)
    find = f"SELECT id FROM {SYMBOLS} WHERE symbol = ?"
    return [database.execute(find, row).fetchone()[0] for row in rows]


def _create(database, relation: Relation, name: str) -> None:
    """Create the table, the view and the symbol table of a relation, and delete the table's rows."""
    table, arity = _quoted_name("_" + name), max(1, relation.arity)  # SQLite has no tables without columns
    fields = ", ".join(f"'{number}' INTEGER" for number in range(arity))
    narrow = arity * 9 + 1 < MAX_ROW_BYTES_WITHOUT_IDS
    key = f", PRIMARY KEY ({', '.join(_quoted_name(str(number)) for number in range(arity))})" if narrow else ""
    database.execute(f"CREATE TABLE IF NOT EXISTS {table} ({fields}{key}){' WITHOUT ROWID' * narrow}")
    database.execute(f"DELETE FROM {table}")
    database.execute(f"CREATE TABLE IF NOT EXISTS {_quoted_name(SYMBOLS)} (id INTEGER PRIMARY KEY, symbol TEXT UNIQUE)")
    shown, sources, links = [], [table], []
    for number, (attribute, type_) in enumerate(relation.attributes):
        column = f"{table}.{_quoted_name(str(number))}"
        if type_.kind in TEXTUAL:
            symbols = _quoted_name(f"_symtab_{number}")
            sources.append(f"{_quoted_name(SYMBOLS)} AS {symbols}")
            links.append(f"{column} = {symbols}.id")
            column = f"{symbols}.symbol"
        shown.append(f"{column} AS {_quoted_name(attribute)}")
    where = f" WHERE {' AND '.join(links)}" if links else ""
    query = f"SELECT {', '.join(shown) or '*'} FROM {', '.join(sources)}{where}"
    database.execute(f"CREATE VIEW IF NOT EXISTS {_quoted_name(name)} AS {query}")


def _quoted_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text_or_bytes(raw: bytes):
    """Decode a text of a database; return its bytes if it is not UTF-8, so that the error can name the place."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


@contextlib.contextmanager
def _open_database(path: str):
    """Open a connection whose changes are committed explicitly. Its errors are translated to `BadInput`."""
    try:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None, uri=path.startswith("file:"))) as database:
            database.text_factory = _text_or_bytes
            yield database
    except sqlite3.Error as error:
        raise BadInput(f"SQLite: {error}", path, hint="is it an SQLite database, and not in use by another program?") from None
