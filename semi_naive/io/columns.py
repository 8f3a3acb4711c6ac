"""Infer the columns of a file of facts, for relations that are not declared: names, if the file has any, and types."""

import re
from itertools import islice

from semi_naive.io.errors import BadInput
from semi_naive.io.files import contents, io_errors, numbered_lines, open_binary, skip_mark
from semi_naive.io.formats.layouts import BY_NAME, DELIMITERS, Format, extension_of
from semi_naive.io.formats.parquet import empty_table, is_parquet
from semi_naive.io.formats.sniff import USUAL, fields_of
from semi_naive.io.names import identifiers
from semi_naive.io.patterns import match_files
from semi_naive.io.values.bits import DECIMAL
from semi_naive.io.values.fields import kind_of_arrow
from semi_naive.ra.ir import Kind

JSON = ("jsonfile", "jsonlines")
SAMPLED_ROWS = 1000  # rows of a text from which types are inferred
FLOAT = re.compile(r"\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[-+]?[0-9]+)?\s*", re.IGNORECASE | re.ASCII)
# The type of a column of SQLite that has no values, by a part of its declared type.
AFFINITY = {"INT": "number", "REAL": "float", "FLOA": "float", "DOUB": "float"}
DECLARE = "declare the relation with the types that you want: .decl edge(x: symbol, y: number)"


def inferred_columns(path: str, header: bool = False, table: str = "") -> list[tuple[str, str]]:
    """Return the (name, type) of each column of a file, or of a pattern's first file; the name is "" if the file has none.

    Parquet has both. The types of text are inferred from the first 1,000 rows: number if all fields are decimal integers, float
    if all are numbers, else symbol. header: the first line has the names. The types of a `table` of SQLite are also inferred
    from values, as SQLite does not enforce types. Raises BadInput if there is nothing to infer from.
    """
    path = (match_files(path) or [path])[0]
    if is_parquet(path):
        return _columns_of_schema(empty_table(path).schema, path)
    extension = extension_of(path)
    if BY_NAME.get(extension) == "arrow":
        from semi_naive.io.formats.arrow import arrow_schema

        return _columns_of_schema(arrow_schema(path), path)
    if BY_NAME.get(extension) == "sqlite":
        from semi_naive.io.formats.sqlite import sample_table

        names, declared, sample = sample_table(path, table, SAMPLED_ROWS)
        columns = [[row[number] for row in sample if row[number] is not None] for number in range(len(names))]
        return list(zip(identifiers(names), map(_type_in_sqlite, declared, columns), strict=True))
    with io_errors(path):
        is_json = BY_NAME.get(extension) in JSON
        names, rows = _json_sample(path, BY_NAME[extension]) if is_json else _text_sample(path, extension, header)
    width = max(map(len, rows), default=len(names))
    if not width:
        raise BadInput("there is no row to infer the columns from", path, hint=DECLARE)
    type_of = _type_of_values if is_json else _type_of_texts
    types = [type_of([row[number] for row in rows if len(row) == width]) for number in range(width)]
    return list(zip([*identifiers(names), *[""] * width], types, strict=False))


def _type_in_sqlite(declared: str, values: list) -> str:
    """Return the type of a column by its values; if there are none, by its declared type.

    >>> _type_in_sqlite("INTEGER", [1, 2.5]), _type_in_sqlite("", [1, "x"]), _type_in_sqlite("BIGINT", [])
    ('float', 'symbol', 'number')
    """
    if not values:
        return next((type_ for part, type_ in AFFINITY.items() if part in declared), "symbol")
    return _type_of_values(values)


def _text_sample(path: str, extension: str, header: bool) -> tuple[list[str], list[list[str]]]:
    """Return (names, first rows) of a text file; the names only with `header`."""
    loose = extension in (".txt", ".mtx")
    with open_binary(path) as stream:
        numbered = numbered_lines(stream, path, skip_mark(stream))
        data = (line for _, _, line in numbered if not loose or line.strip() and line[:1] not in b"#%")
        lines = [line.decode(errors="replace") for line in islice(data, SAMPLED_ROWS + 1 + header)]
    if loose:
        delimiter = next((usual for usual in USUAL if lines and usual in lines[0].strip()), " ")
    else:
        delimiter = DELIMITERS[extension]
    form = Format(delimiter=delimiter, rfc4180=extension == ".csv", spaced=delimiter == " ")
    lines = lines[extension == ".mtx" :]  # the first line of a matrix has its size
    rows = [[text for _, text in fields_of(line, form)] for line in lines]
    if header:
        return (rows[0] if rows else []), rows[1:]
    # only names in the first row, and only numbers in the last column below it: a header that was not announced
    if len(rows) > 1 and not any(map(FLOAT.fullmatch, rows[0])) and "symbol" != _type_of_texts([row[-1] for row in rows[1:]]):
        names = ", ".join(rows[0])
        raise BadInput(
            f"the first row has names, and others have numbers: {names}", path, 1, 1, "--header takes it as a header"
        )
    return [], rows


def _columns_of_schema(schema, path: str) -> list[tuple[str, str]]:
    """Return the (name, type) of each column of an Arrow schema."""
    types = []
    for name, type_ in zip(schema.names, schema.types, strict=True):
        kind = Kind.UNSIGNED if str(type_) == "uint64" else kind_of_arrow(type_)  # which takes all integers for numbers
        if kind is None:
            hint = "declare the relation with the columns that you want"
            raise BadInput(f"column {name!r} has type {type_}", path, hint=hint)
        types.append(kind.value)
    return list(zip(identifiers(schema.names), types, strict=True))


def _json_sample(path: str, form: str) -> tuple[list[str], list[list]]:
    """Return (names, first rows) of a file of JSON, "jsonfile" or "jsonlines"; no names if its rows are lists."""
    from semi_naive.io.formats.json_data import read_json

    rows = read_json(contents(path), form, path)[:SAMPLED_ROWS]
    if rows and all(isinstance(row, dict) for row in rows):
        return list(rows[0]), [[row.get(name) for name in rows[0]] for row in rows]
    return [], [row for row in rows if isinstance(row, list)]


def _type_of_values(values: list) -> str:
    """Return the type of a column with some values of JSON or SQLite, of which None says nothing.

    >>> _type_of_values([1, None]), _type_of_values([1, 2.5]), _type_of_values([True, False]), _type_of_values([1, "x"])
    ('number', 'float', 'bool', 'symbol')
    """
    kinds = set(map(type, values)) - {type(None)}
    if kinds in ({int}, {float}, {int, float}, {bool}):
        return "float" if float in kinds else "number" if int in kinds else "bool"
    return "symbol"


def _type_of_texts(fields: list[str]) -> str:
    """Return the type of a column with some fields.

    >>> _type_of_texts(["1", "-2"]), _type_of_texts(["1", "2.5"]), _type_of_texts(["1", "x"])
    ('number', 'float', 'symbol')
    """
    if all(map(DECIMAL.fullmatch, fields)):
        return "number"
    return "float" if all(map(FLOAT.fullmatch, fields)) else "symbol"
