"""Dictionaries of Python, lines of JSON and files of Arrow data: columns by name, and errors with their place."""

import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather

from semi_naive import BadInput, Program, graphs
from semi_naive.io.columns import inferred_columns

PEOPLE = ".decl p(name: symbol, age: number) .input p\n.decl o(name: symbol, age: number) .output o\no(n, a) :- p(n, a)."
ANN_AND_BOB = {("ann", 31), ("bob", 64)}


@pytest.mark.parametrize(
    "data",
    [
        [{"age": 31, "name": "ann"}, {"age": 64, "name": "bob"}],
        {"age": [31, 64], "name": ["ann", "bob"]},
        {"age": np.array([31, 64]), "name": iter(["ann", "bob"]), "city": ["Ulm", "Bonn"]},
        {"x": ["ann", "bob"], "y": (31, 64)},
    ],
)
def test_dictionaries_of_python_are_read_by_name(data):
    assert set(Program(PEOPLE).run({"p": data})["o"].to_list()) == ANN_AND_BOB


@pytest.mark.parametrize(
    "data, told",
    [
        ({"name": ["ann"], "age": [1, 2]}, "columns of different lengths: name has 1, age has 2 values"),
        ([{"name": "ann"}], "only name is in both lists"),
        ({"name": ["ann"], "age": ["x"]}, "p[0].age: 'x' (str) is not a number"),
        ([{"name": "ann", "age": 1}, ("bob", 2)], "is not a fact of p"),
    ],
)
def test_wrong_dictionaries_are_told(data, told):
    with pytest.raises(BadInput) as caught:
        Program(PEOPLE).run({"p": data})
    assert told in str(caught.value)


@pytest.mark.parametrize("name", ["p.jsonl", "p.ndjson", "p.arrow", "p.feather", "stream.arrow"])
def test_json_lines_and_arrow_files_are_read_by_name(tmp_path, name):
    path, table = tmp_path / name, pa.table({"age": [31, 64], "name": ["ann", "bob"]})
    if name.endswith("json") or name.endswith("l"):
        path.write_text('{"age": 31, "name": "ann"}\n\n["bob", 64]\n')
    elif name.startswith("stream"):
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table)
    elif name.endswith("n"):
        path.write_text('["ann", 31]\n["bob", 64]')
    else:
        feather.write_feather(table, path)
    assert set(Program(PEOPLE).run({"p": str(path)})["o"].to_list()) == ANN_AND_BOB
    form = "jsonlines" if "json" in name else "arrow"
    directed = Program(PEOPLE.replace(".input p", f'.input p(IO={form}, filename="{name}")'))
    assert set(directed.run(tmp_path)["o"].to_list()) == ANN_AND_BOB


def test_a_wrong_line_of_json_is_told_with_its_place(tmp_path):
    (tmp_path / "p.jsonl").write_text('["ann", 31]\n["bob", }\n')
    with pytest.raises(BadInput, match="p.jsonl:2:9: cannot be read as JSON"):
        Program(PEOPLE).run({"p": str(tmp_path / "p.jsonl")})
    (tmp_path / "p.arrow").write_text("no Arrow data")
    with pytest.raises(BadInput, match="p.arrow: cannot be read as Arrow data"):
        Program(PEOPLE).run({"p": str(tmp_path / "p.arrow")})


def test_columns_of_arrow_files_and_json_lines_are_inferred(tmp_path):
    feather.write_feather(pa.table({"d": pa.array([3], pa.date32()), "n": [1]}), tmp_path / "a.feather")
    (tmp_path / "b.jsonl").write_text('{"x": 1, "y": "a"}\n')
    assert inferred_columns(str(tmp_path / "a.feather")) == [("d", "date"), ("n", "number")]
    assert inferred_columns(str(tmp_path / "b.jsonl")) == [("x", "number"), ("y", "symbol")]


@pytest.mark.parametrize("name", ["o.json", "o.jsonl", "o.sqlite"])
def test_results_are_written_by_name_and_read_back(tmp_path, name):
    rows = [(f"n{number}", number) for number in range(7000)] + [('a "b"\n', -1)]  # more than are formatted without kernels
    result = Program(PEOPLE).run({"p": rows})["o"]
    path = str(tmp_path / name)
    result.write(path)
    again = Program(PEOPLE.replace(" p", " o").replace("p(", "o(").replace(".decl o(name: symbol, age: number) .output o", ""))
    assert set(again.run({"o": path})["o"].to_list()) == set(rows)
    if name == "o.jsonl":
        lines = (tmp_path / name).read_text().splitlines()
        assert len(lines) == 7001 and json.loads(lines[-1]).keys() == {"name", "age"}


@pytest.mark.parametrize("pairs", [[(1, 2), (2, 3)], [("a", "b"), ("b", "c")]])
@pytest.mark.parametrize("name", ["o.json", "o.jsonl", "o.sqlite", "o.parquet", "o.arrow", "o.feather", "o.csv"])
def test_graphs_are_read_from_every_format_that_results_have(name, pairs, tmp_path):
    kind = "number" if pairs[0][0] == 1 else "symbol"
    text = f".decl edges(x: {kind}, y: {kind}) .input edges\n.decl o(x: {kind}, y: {kind}) .output o\no(x, y) :- edges(x, y)."
    Program(text).run({"edges": pairs})["o"].write(str(tmp_path / name))
    assert sorted(graphs.as_edges(str(tmp_path / name)).named()) == pairs
