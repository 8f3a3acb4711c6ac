"""Finds the first wrong line of a text that the fast parser refused, field by field. Slow: some microseconds a line."""

from semi_naive.io.dialect import bare, column_at, is_integer, shown
from semi_naive.io.edges import id_fault
from semi_naive.io.errors import BadInput

AS_NAMES = "vertices are read as integers (the first row decides, or strings=False); pass strings=True to read names"
LONGEST_NUMBER = 4000  # digits; int() itself refuses more than 4,300


def first_fault(text, dialect, path, line):
    """The ``BadInput`` of the first faulty line in ``text`` (bytes, ends of line "\\n"), or None.

    ``line`` is the number of its first line in the file.
    """
    for number, row in enumerate(text.split(b"\n"), line):
        if dialect.is_data(row):
            fault = row_fault(row, dialect)
            if fault:
                start, message, hint = fault
                return BadInput(message, path, number, column_at(row, start), hint)
    return None


def row_fault(row, dialect):
    """What is wrong with one line, as (byte it starts at, message, hint); None if nothing is."""
    try:
        row.decode()
    except UnicodeDecodeError as error:
        return error.start, "these bytes are not UTF-8", "convert the file, for example with iconv -t UTF-8"
    fields = dialect.split(row)
    if dialect.quoted and row.count(b'"') % 2 and any(field.startswith(b'"') for _, field in fields):
        return row.rfind(b'"'), "the quote is never closed", 'a " inside a quoted field is written twice'
    if len(fields) != dialect.fields:
        return _ragged(row, fields, dialect)
    if dialect.kind == "strings":
        return None
    faults = (_integer_fault(field, axis, dialect) for axis, (_, field) in enumerate(fields[:2]))
    return next(((fields[axis][0], *fault) for axis, fault in enumerate(faults) if fault), None)


def _ragged(row, fields, dialect):
    want = dialect.fields
    start = fields[want][0] if len(fields) > want else len(row)
    between = {b"\t": "by a tab", b" ": "by white space"}.get(dialect.delimiter, f"by '{dialect.delimiter.decode()}'")
    hint = f"every row must have {want} fields separated {between}"
    if len(fields) > want and not dialect.matrix:
        hint += "; drop the others (weights are not read)"
    return start, f"expected {want} fields, found {len(fields)}", hint


def _integer_fault(field, axis, dialect):
    field = bare(field)
    if not is_integer(field):
        return f"{shown(field)} is not an integer", "" if dialect.matrix else AS_NAMES
    if len(field) > LONGEST_NUMBER:
        return f"{shown(field)} does not fit in 64 bits", "pass strings=True to read vertices as names"
    if dialect.matrix:
        most = (dialect.matrix.rows, dialect.matrix.cols)[axis]
        if not 1 <= int(field) <= most:
            return f"index {int(field)} is outside 1..{most}", f"the size on line {dialect.matrix.line} says so"
    return id_fault(int(field), dialect.any_ids)
