"""Reading the facts that an .input directive names."""

import io
from functools import partial

import numpy as np

from semi_naive.io.directives import DEFAULT, STDOUT, Options, check_sandbox, format_of, path_of
from semi_naive.io.errors import BadInput
from semi_naive.io.files import check_there, contents, is_uri, standard_input
from semi_naive.io.formats.delimited import read_delimited
from semi_naive.io.formats.layouts import Format
from semi_naive.io.formats.lines import located_rows
from semi_naive.io.patterns import match_files
from semi_naive.io.sources import Files, Given, ParquetFile, Source, TextFile
from semi_naive.io.values.bits import BUILT_IN


def read(directive, relation, types: dict, folder: str, values, options: Options = DEFAULT) -> np.ndarray:
    """The facts that an .input directive names, as int64 columns (arity, n); rows may repeat.

    Relative file names start from `folder`; `values` gives symbols and records their ids. BadInput names file, line and
    column of what is wrong; a missing file too, unless `options.missing_ok`.
    """
    return source_of_directive(directive, relation, types, folder, options).columns(values)


def source_of_directive(directive, relation, types: dict, folder: str, options: Options = DEFAULT) -> Source:
    """The source of the facts of an .input directive. Raises BadInput for a missing file, unless `options.missing_ok`."""
    form = format_of(directive, relation)
    types = BUILT_IN | types
    if form.io in ("stdin", "json"):
        return Given(relation, types, lambda values: _parse_facts(standard_input(), form, relation, types, values, "<stdin>"))
    path = path_of(directive, form, "." if folder == STDOUT else folder, options.sandbox)
    try:
        if form.io != "sqlite" and (found := match_files(path)) is not None:
            check_sandbox(found, directive, options.sandbox)
            return Files(relation, types, path, tuple(file_source(each, form, relation, types) for each in found))
        if not is_uri(path):
            check_there(path.removeprefix("file:").partition("?")[0], relation, folders=form.io == "parquet")
    except BadInput as missing:
        if not options.missing_ok:
            raise
        options.warn(f"Warning: {missing.message}; {relation.name} has no facts from there")
        return Given(relation, types, lambda values: np.zeros((relation.arity, 0), np.int64))
    return file_source(path, form, relation, types)


def file_source(path: str, form: Format, relation, types: dict) -> Source:
    """The facts of a relation in one file of a known format."""
    if form.io == "parquet":
        return ParquetFile(relation, types, path)
    if form.io == "file":
        return TextFile(relation, types, path, form)
    if form.io == "sqlite":
        from semi_naive.io.formats.sqlite import read_sqlite

        return Given(relation, types, partial(read_sqlite, path, form, relation, types))
    return Given(relation, types, lambda values: _parse_facts(contents(path), form, relation, types, values, path))


def _parse_facts(data: bytes, form, relation, types: dict, values, path: str) -> np.ndarray:
    if form.io in ("json", "jsonfile"):
        from semi_naive.io.formats.json_data import read_json

        return read_json(data, relation, types, values, path)
    form = located_rows(io.BytesIO(data), form, relation, path)
    return read_delimited(data[form.offset :], form, relation, types, values, path, form.line)
