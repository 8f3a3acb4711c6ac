"""One equality of floats: 0.0 is stored for -0.0, and one NaN for all, which is greater than every other float. This holds of
facts in every form, of what rules compute, wherever they run, and of what a result or a session is asked."""

import json
import math
import sqlite3
import struct

import numba
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from bench.fuzz.oracle import solve
from semi_naive import Program, Relation, vectorised
from semi_naive.ra.ir import Kind
from semi_naive.ra.values.kinds import order_of_values
from semi_naive.relation import max_, min_

NAN = math.nan
ODD = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000123))[0]  # a NaN with a sign and a payload
GIVEN = [-0.0, 0.0, 1.5, NAN, -NAN, ODD, -math.inf]
STORED = {(0.0,), (1.5,), (NAN,), (-math.inf,)}

F = ".decl f(x: float)\n.input f\n.output f\n"
RULES = (
    F
    + """
.decl v(i: number, x: float)
.output v
v(0, x) :- f(x).
v(i + 1, -x) :- v(i, x), i < 3.
v(i + 1, x / 0.0) :- v(i, x), i < 3.
v(i + 1, x * y) :- v(i, x), f(y), x = -y, i < 3.
v(i + 1, min(x, y)) :- v(i, x), f(y), x < y, i < 3.
v(i + 1, max(x, y) - 1.0) :- v(i, x), f(y), x >= y, i < 3.
v(i + 1, as(as(-9223372036854775808, float), float)) :- v(i, _), i < 3.
.decl same, other, less(i: number, x: float, y: float)
.output same, other, less
same(i, x, y) :- v(i, x), f(y), x = y.
other(i, x, y) :- v(i, x), f(y), x != y.
less(i, x, y) :- v(i, x), f(y), !(x >= y).
.decl cyclic(x: float, y: float, z: float)
.output cyclic
cyclic(x, y, z) :- same(0, x, y), same(0, y, z), same(0, z, x).
.decl gone(x: float)
.output gone
gone(x) :- v(_, x), !f(x).
.decl few(i: number, n: number, least: float, most: float)
.output few
few(i, n, a, b) :- v(i, _), n = count : { v(i, _) }, a = min x : { v(i, x) }, b = max x : { v(i, x) }.
.decl low, high(i: number, x: float)
.output low, high
low(i, min(x)) :- v(i, x).
low(i + 1, min(x * 0.5)) :- low(i, x), i < 9.
high(i, max(x)) :- v(i, x).
high(i + 1, max(x + 0.0)) :- high(i, x), i < 9.
"""
)
APART = {"local_tuples": 0, "replicate_bytes": 0, "buckets": 4, "partitions": 2}
LAYOUTS = {
    "a tuple at a time": {"small_delta": 10**6},
    "a block at a time": {"small_delta": 0},
    "joined at once": {"small_delta": 0, "multiway": "always"},
    "partitions": APART | {"plan": "balanced"},
    "groups": APART,
}


def bits(relation) -> list[int]:
    return sorted(relation.encoded()[0].view(np.uint64).tolist())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rules_compare_join_and_compute_floats_alike(machine, here, layout):
    program = Program(RULES)
    expected = solve(program.checked, {"f": {(x,) for x in GIVEN}})
    with program.run({"f": [(x,) for x in GIVEN]}, here, **LAYOUTS[layout]) as result:
        for name in program.outputs:
            assert result[name].to_set() == expected[name] and result[name].count() == len(expected[name]), name


def written(tmp_path, form: str):
    """The given floats in a form that facts have."""
    path, rows, array = tmp_path / f"f.{form}", [(x,) for x in GIVEN], np.array(GIVEN)
    if form in ("facts", "hex.facts"):
        path.write_text("".join(f"{x.hex() if form == 'hex.facts' and math.isfinite(x) else x}\n" for x in GIVEN))
    elif form == "csv":
        path.write_text("".join(f'"{x}"\n' for x in GIVEN))
    elif form == "json":
        path.write_text(json.dumps([[x] for x in GIVEN]))
    elif form == "parquet":
        parquet.write_table(pa.table({"x": array}), path)
    elif form == "sqlite":
        with sqlite3.connect(path) as database:
            database.execute("CREATE TABLE f (x)")
            database.executemany("INSERT INTO f VALUES (?)", [(str(x),) for x in GIVEN])
    others = {
        "tuples": rows,
        "array": array[:, None],
        "small": array[:, None].astype(np.float32),
        "arrow": pa.table({"x": array}),
    }
    return others.get(form, str(path))


FORMS = ["facts", "hex.facts", "csv", "json", "parquet", "sqlite", "tuples", "array", "small", "arrow"]


@pytest.mark.parametrize("form", FORMS)
def test_facts_of_every_form(tmp_path, form):
    with Program(F).run({"f": written(tmp_path, form)}) as result:
        assert result["f"].to_set() == STORED and len(bits(result["f"])) == len(STORED)


@pytest.mark.parametrize("layout", ["a block at a time", "partitions"])
def test_floats_in_the_text_in_records_and_of_functors(here, layout):
    text = """
    .type P = [x: float]
    .type T = A {x: float} | B {p: P}
    .functor plain(x: float): float
    .functor columns(x: float): float
    .functor compiled(x: float): float
    .functor record(x: float): P
    .functor first(x: float, y: float): float
    .decl f(x: float)
    .output f
    f(0.0). f(-0.0). f(0.0 / 0.0). f(-(0.0 / 0.0)). f(to_float("-nan")). f(to_float("-0")).
    .decl p, made(p: P)
    .input p
    .output made
    made([x]) :- f(x).
    made(p) :- p(p), p = [x], f(x).
    made(@record(x)) :- f(x).
    .decl t(t: T)
    .output t
    t($A(x)) :- f(x).
    t($B(p)) :- p(p).
    .decl g(x: float)
    .output g
    g(@plain(x)), g(@columns(x)), g(@compiled(x)) :- f(x).
    g(y) :- y = @@first x : 1.0, { f(x) }.
    .decl met(x: float)
    .output met
    met(x) :- g(x), f(x), made([x]).
    """
    functors = {"plain": lambda x: -x, "columns": vectorised(np.negative), "compiled": numba.njit(lambda x: -x)}
    functors |= {"record": lambda x: (-x,), "first": lambda x, y: -y}
    given = [(None,), ((NAN,),), ((ODD,),), ((-0.0,),), ((0.0,),)]
    with Program(text, functors=functors).run({"p": given}, here, **LAYOUTS[layout]) as result:
        assert result["f"].to_set() == result["g"].to_set() == result["met"].to_set() == {(0.0,), (NAN,)}
        assert result["made"].to_set() == {((0.0,),), ((NAN,),)}
        assert result["t"].count() == 5 and len(bits(result["g"])) == 2


def test_a_session_finds_a_zero_and_a_nan_by_any_of_their_forms():
    with Program(F + ".decl g(x: float)\n.output g\ng(x) :- f(x), x >= 0.0.\n").session({"f": [-0.0, 1.5]}) as session:
        assert session.insert("f", [0.0, NAN]).changes["g"].to_set() == {(NAN, 1)}
        assert not session.insert("f", [-NAN, ODD, -0.0]).changes
        assert session.query("g(-0.0)").count() == session.query("g(0.0)").count() == 1
        session.register("asked", ".decl asked(x: float)\nasked(x) :- g(x), f($x), x = $x.")
        assert [session.query("asked(x)", x=x).to_list() for x in (-0.0, ODD)] == [[(0.0,)], [(NAN,)]]
        assert session.why("g", (-0.0,)).tuple == (0.0,) and session.why("g", (ODD,)).height == 1
        assert session.delete("f", [-0.0]).changes["g"].to_set() == {(0.0, -1)}
        assert session.delete("f", [ODD]).changes["g"].to_set() == {(NAN, -1)}
        assert session["f"].to_set() == {(1.5,)}


@pytest.mark.parametrize("layout", ["a block at a time", "partitions"])
def test_a_session_follows_changes_of_zeros_and_nans(here, layout):
    program, facts = Program(RULES), set()
    with program.session(
        {"f": []}, spark=here, **{"a block at a time": {"small_delta": 0}, "partitions": APART}[layout]
    ) as session:
        for operation, row in [
            ("insert", -0.0),
            ("insert", ODD),
            ("insert", 1.5),
            ("delete", 0.0),
            ("delete", -NAN),
            ("insert", NAN),
        ]:
            getattr(session, operation)("f", [(row,)])
            facts = facts | {row} if operation == "insert" else {x for x in facts if x != row and not (x != x and row != row)}
            expected = solve(program.checked, {"f": {(x,) for x in facts}})
            assert {name: session[name].to_set() for name in program.outputs} == {
                name: expected[name] for name in program.outputs
            }


def test_relations_of_python():
    left = Relation.from_tuples([(-0.0, 1), (NAN, 2), (2.0, 3)], ["x", "n"])
    right = Relation.from_numpy(np.array([[0.0], [ODD]]), ["x"])
    assert left.join(right).to_set() == {(0.0, 1), (NAN, 2)}
    assert [left.select(x=x).to_set() for x in (-0.0, ODD)] == [{(0.0, 1)}, {(NAN, 2)}]
    assert left.aggregate(most=max_("x"), least=min_("x")).to_list() == [(NAN, 0.0)]


READ = (
    F
    + """
.decl same(x: float, y: float)
same(x, y) :- f(x), f(y), x = y.
.decl cyclic(x: float, y: float, z: float)
.output cyclic
cyclic(x, y, z) :- same(x, y), same(y, z), same(z, x).
"""
)


def test_facts_that_sparks_tasks_read(spark, tmp_path):
    path = tmp_path / "f.facts"
    path.write_text("".join(f"{x}\n" for x in GIVEN))
    frame = spark.createDataFrame([(x,) for x in GIVEN], "x double")
    for facts in (str(path), frame):
        with Program(READ).run({"f": facts}, spark, **APART) as result:
            assert result["f"].to_set() == STORED and result["cyclic"].count() == len(STORED)


def test_the_order_of_a_written_result(tmp_path):
    with Program(F).run({"f": GIVEN}) as result:
        result.write(tmp_path)
        assert (tmp_path / "f.csv").read_text() == "-inf\n0\n1.5\nnan\n"


def test_ordered_bits_are_in_the_order_of_floats():
    values = np.array([-math.inf, -1e308, -1.5, -5e-324, 0.0, 5e-324, 2.0, math.inf, NAN])
    keys = order_of_values(values.view(np.int64), Kind.FLOAT)
    assert (np.diff(keys.astype(object)) > 0).all() and (order_of_values(keys, Kind.FLOAT) == values.view(np.int64)).all()
