"""Facts of a test's own folder, read and written."""

import os

import pytest
from fact_files import TYPES, relation, rows

from semi_naive.io import as_columns, read, write
from semi_naive.ra.ir import FileDirective
from semi_naive.ra.text.symbols import SymbolTable
from semi_naive.ra.values.values import Values


@pytest.fixture
def values():
    return Values(SymbolTable())


@pytest.fixture
def reader(tmp_path, values):
    """Write a fact file and read it: rows of Python values, in order."""

    def call(text, *kinds, name="r", file=None, **parameters):
        path = tmp_path / (parameters.get("filename") or file or f"{name}.facts")
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        rel = relation(*kinds, name=name)
        return rows(read(FileDirective("input", name, parameters), rel, TYPES, str(tmp_path), values), rel, values)

    return call


@pytest.fixture
def writer(tmp_path, values):
    """Write rows of Python values; the bytes of the file that appears."""

    def call(data, *kinds, name="r", **parameters):
        rel = relation(*kinds, name=name)
        columns = as_columns(data, rel, TYPES, values)
        path = write(FileDirective("output", name, parameters), rel, TYPES, columns, str(tmp_path), values)
        assert [each for each in os.listdir(tmp_path) if each.startswith(".")] == []
        return open(path, "rb").read()

    return call
