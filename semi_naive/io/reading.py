"""Create the sources of facts that an .input directive or a path names."""

import io
import os
from functools import partial

import numpy as np

from semi_naive.io.directives import DEFAULT, STDOUT, Options, check_sandbox, format_of, path_of
from semi_naive.io.errors import BadInput
from semi_naive.io.files import check_fact_file, contents, io_errors, is_pipe, is_uri, standard_input
from semi_naive.io.formats.delimited import read_delimited
from semi_naive.io.formats.layouts import BY_NAME, DELIMITERS, Format, extension_of
from semi_naive.io.formats.lines import located_rows
from semi_naive.io.formats.parquet import is_parquet
from semi_naive.io.patterns import match_files
from semi_naive.io.sources import Files, ParquetFile, TextFile
from semi_naive.io.unread import Given, Source
from semi_naive.io.values.bits import BUILT_IN
from semi_naive.ra.ir import Relation
from semi_naive.ra.values.values import Values


def read(directive, relation: Relation, types: dict, folder: str, values: Values, options: Options = DEFAULT) -> np.ndarray:
    """Read the facts of an .input directive as int64 columns (arity, n). Rows may repeat.

    Relative file names start from `folder`. `values` numbers symbols and records. Raises BadInput, with file, line and column,
    for a field that cannot be read, and for a missing file unless `options.missing_ok`.
    """
    return source_of_directive(directive, relation, types, folder, options).columns(values)


def source_of_directive(directive, relation: Relation, types: dict, folder: str, options: Options = DEFAULT) -> Source:
    """Return the source of the facts of an .input directive. Raises BadInput for a missing file, unless `options.missing_ok`.
    folder: the base of relative file names."""
    form = format_of(directive, relation)
    types = BUILT_IN | types
    if form.io in ("stdin", "json"):
        return Given(relation, types, lambda values: _parse_facts(standard_input(), form, relation, types, values, "<stdin>"))
    path = path_of(directive, form, "." if folder == STDOUT else folder, options.sandbox)  # STDOUT is no folder to read from
    try:
        if form.io != "sqlite" and (files := match_files(path)) is not None:
            check_sandbox(files, directive, options.sandbox)
            return Files(relation, types, path, tuple(file_source(each, form, relation, types) for each in files))
        if not is_uri(path):  # "file:…?…" is a name for SQLite
            check_fact_file(path.removeprefix("file:").partition("?")[0], relation, folders=form.io == "parquet")
    except BadInput as missing:
        if not options.missing_ok:
            raise
        options.warn(f"Warning: {missing.message}; {relation.name} has no facts from there")
        return Given(relation, types, lambda values: np.zeros((relation.arity, 0), np.int64))
    return file_source(path, form, relation, types)


def source_of_path(path: str, relation: Relation, types: dict, header: bool = False) -> Source:
    """Return the source of a file, or of the files of a pattern, by extension: .csv by RFC 4180, .tsv and .facts by Soufflé's
    rules, .txt and .mtx as graphs. header: text begins with a line of names."""
    path = path if "://" in path or is_pipe(path) else os.path.abspath(path)
    if (files := match_files(path)) is not None:
        return Files(relation, types, path, tuple(source_of_path(each, relation, types, header) for each in files))
    if is_parquet(path):
        return file_source(path, Format("parquet"), relation, types)
    extension = extension_of(path)
    if "://" not in path and not is_pipe(path):
        check_fact_file(path, relation)
    if extension in BY_NAME:
        return file_source(path, Format(BY_NAME[extension], relation.name), relation, types)
    if extension in (".txt", ".mtx"):
        from semi_naive.io.formats.sniff import fact_format

        with io_errors(path):
            form, kinds = fact_format(path, relation, header)
        names = (name for name, _ in relation.attributes)
        relation = Relation(relation.name, tuple(zip(names, kinds, strict=True)))
    else:
        delimiter, quoted = DELIMITERS[extension], extension == ".csv"
        form = Format("file", relation.name, delimiter, headers=header, rfc4180=quoted)
    return file_source(path, form, relation, types)


def file_source(path: str, form: Format, relation: Relation, types: dict) -> Source:
    """Return the source of a relation's facts in one file of a known format."""
    if form.io == "parquet":
        return ParquetFile(relation, types, path)
    if form.io == "file":
        return TextFile(relation, types, path, form)
    if form.io == "sqlite":
        from semi_naive.io.formats.sqlite import read_sqlite

        return Given(relation, types, partial(read_sqlite, path, form, relation, types))
    if form.io == "arrow":
        from semi_naive.io.formats.arrow import read_arrow

        return Given(relation, types, partial(read_arrow, path, relation, types))
    return Given(relation, types, lambda values: _parse_facts(contents(path), form, relation, types, values, path))


def _parse_facts(data: bytes, form: Format, relation: Relation, types: dict, values: Values, path: str) -> np.ndarray:
    """Parse the bytes of a file of facts, JSON or delimited text, into columns."""
    if form.io.startswith("json"):
        from semi_naive.io.formats.json_data import columns_of_json, read_json

        return columns_of_json(read_json(data, form.io, path), relation, types, values, path)
    form = located_rows(io.BytesIO(data), form, relation, path)
    return read_delimited(data[form.offset :], form, relation, types, values, path, form.line)
