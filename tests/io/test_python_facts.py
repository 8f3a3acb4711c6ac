"""Facts from Python: rows, arrays, frames, tables, paths; and what they are not."""

import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from fact_files import FLOAT, LIST, NAMED, NUMBER, SYMBOL, TREE, TYPES, UNSIGNED, relation, rows

from semi_naive.io import as_columns
from semi_naive.io.errors import BadInput


def test_python_data(values, tmp_path):
    rel = relation(NUMBER, SYMBOL)
    (tmp_path / "x.csv").write_text('1,"a"\n2,b\n')
    (tmp_path / "x.tsv.gz").write_bytes(gzip.compress(b"1\ta\n2\tb\n"))
    expected = [(1, "a"), (2, "b")]
    frame = pd.DataFrame({"b": ["a", "b"], "a": [1, 2]}, index=[7, 8])
    given = [
        expected, iter(expected), [[1, "a"], (2, "b")], frame, pa.table({"x": pa.array([1, 2], pa.int8()), "y": ["a", "b"]}),
        pa.table({"a": [1, 2], "b": pa.array(["a", "b"]).dictionary_encode()}).to_batches()[0],
        np.array(expected, object), str(tmp_path / "x.csv"), tmp_path / "x.tsv.gz",
    ]  # fmt: skip
    for data in given:
        assert rows(as_columns(data, rel, TYPES, values), rel, values) == expected
    assert as_columns(np.array([[1, 2], [3, 4]], np.int32), relation(NUMBER, NUMBER), TYPES, values).tolist() == [
        [1, 3],
        [2, 4],
    ]
    assert as_columns([5, 6], relation(NUMBER), TYPES, values).tolist() == [[5, 6]]
    assert as_columns([()], relation(), TYPES, values).shape == (0, 1)
    assert as_columns([np.int64(5)], relation(FLOAT), TYPES, values).view(np.float64).tolist() == [[5.0]]


def test_python_records(values):
    rel = relation(TREE)
    data = [((None, ("a", 1.0), (None, None, None)),), (None,)]
    assert rows(as_columns(data, rel, TYPES, values), rel, values) == data
    frame = pd.DataFrame({"a": [{"name": "x", "weight": 2.0}, None]})
    assert rows(as_columns(frame, relation(NAMED), TYPES, values), relation(NAMED), values) == [(("x", 2.0),), (None,)]


PYTHON_FAULTS = {
    "kind": ([(1, 2), (1, "x")], (NUMBER, NUMBER), r"r\[1\]\.b: 'x' \(str\) is not a number"),
    "bool": ([(True,)], (NUMBER,), r"r\[0\]\.a: True \(bool\)"),
    "none": ([("a",), (None,)], (SYMBOL,), r"r\[1\]\.a: None"),
    "float": ([(1.5,)], (NUMBER,), r"1.5 \(float\) is not a number"),
    "range": ([(2**63,)], (NUMBER,), "out of range"),
    "negative": ([(-1,)], (UNSIGNED,), "out of range of unsigned"),
    "width": ([(1, 2), (3,)], (NUMBER, NUMBER), r"r\[1\]: \(3,\) is not a fact of r\(a: number, b: number\)"),
    "string": (["ab"], (SYMBOL, SYMBOL), "is not a fact"),
    "record": ([((1, 2),)], (LIST,), r"r\[0\]\.a: 2 \(int\) is not a record of type List"),
    "record's width": ([((1, None, 3),)], (LIST,), "has 2 fields"),
    "record's field": ([(("x", None),)], (LIST,), "'x'"),
    "shape": (np.zeros((2, 3)), (NUMBER, NUMBER), "shape"),
    "pandas": (pd.DataFrame({"a": [1.5]}), (NUMBER,), "column r.a has type double"),
    "null": (pd.DataFrame({"a": [1, None]}), (FLOAT,), "row 1: the value is null"),
    "bools": (pa.table({"a": [True]}), (NUMBER,), "has type bool"),
    "arrow": (pa.table({"a": pa.array([-1])}), (UNSIGNED,), r"column r\.a"),
    "wide": (pa.table({"x": [1], "b": [2]}), (NUMBER,), "1 attribute"),
    "mapping": ({"a": 1}, (NUMBER,), "r: the column 'a' is an int"),
    "nothing": (7, (NUMBER,), "an int holds no facts"),
    "extension": ("facts.xlsx", (NUMBER,), "'.xlsx'"),
}


@pytest.mark.parametrize("data, kinds, expected", PYTHON_FAULTS.values(), ids=PYTHON_FAULTS)
def test_python_faults(values, data, kinds, expected):
    with pytest.raises(BadInput, match=expected):
        as_columns(data, relation(*kinds), TYPES, values)


def test_spark_data(spark, values):
    rel = relation(NUMBER, SYMBOL, NAMED)
    frame = spark.createDataFrame(
        [(1, "x", ("a", 1.0)), (2, "y", None)], "a int, b string, c struct<name: string, weight: double>"
    )
    assert sorted(rows(as_columns(frame, rel, TYPES, values), rel, values)) == [(1, "x", ("a", 1.0)), (2, "y", None)]
    assert sorted(rows(as_columns(frame, relation(NUMBER), TYPES, values), relation(NUMBER), values)) == [(1,), (2,)]  # by name
    with pytest.raises(BadInput, match="r has 1 attribute"):
        as_columns(frame.toDF("x", "y", "z"), relation(NUMBER), TYPES, values)
    with pytest.raises(BadInput, match=r"column r\.a, row \d: the value is null"):
        as_columns(spark.createDataFrame([(1,), (None,)], "a int"), relation(NUMBER), TYPES, values)
