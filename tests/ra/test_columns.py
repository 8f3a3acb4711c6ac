"""Columns that are gathered when they are read, beside a dictionary whose columns are gathered in each step."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from semi_naive.ra.blocks.block import Block
from semi_naive.ra.ir import Compare, Const, Kind, Range, Var
from semi_naive.ra.rules.batch import Batch
from semi_naive.ra.rules.columns import BlockColumn, Columns
from semi_naive.ra.rules.steps import Filter, Generate, Join, run_steps
from semi_naive.ra.values.dictionary import Dictionary, Rows

STEPS = st.tuples(st.sampled_from(["pick", "slice", "only", "add", "block", "read", "where", "read"]), st.randoms())
BLOCK = Block.of([np.arange(40) % 7, np.arange(40)], 40)


def changed(columns: Columns, eager: dict, size: int, step: str, random):
    """One operation on both: (columns, dictionary, size)."""
    if step in ("pick", "where"):
        rows = np.array(sorted(random.choices(range(size), k=random.randrange(12))) if size else [], np.int64)
        rows = np.unique(rows) if step == "where" else rows
        mask = np.isin(np.arange(size), rows)
        lazy = columns.picked(rows) if step == "pick" else Batch(size, columns).where(mask).columns
        return lazy, {name: column[rows] for name, column in eager.items()}, rows.size
    if step == "slice":
        begin, end = sorted(random.choices(range(size + 1), k=2))
        return columns.slice(begin, end), {name: column[begin:end] for name, column in eager.items()}, end - begin
    if step == "only":
        names = set(random.sample("abcdef", 4))
        return columns.only(names), {name: column for name, column in eager.items() if name in names}, size
    name = random.choice("abcdef")
    if step == "add":
        column = np.array([random.randrange(99) for _ in range(size)], np.int64)
        return columns | {name: column}, eager | {name: column}, size
    if step == "block" and name not in eager:
        positions = np.array([random.randrange(BLOCK.size) for _ in range(size)], np.int64)
        made = columns.with_rows({name: BlockColumn(BLOCK, 1)}, positions)
        return made, eager | {name: BLOCK.column(1, positions)}, size
    if name in eager:
        assert columns[name].tolist() == eager[name].tolist()
    return columns, eager, size


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=12))
def test_columns_are_those_gathered_at_once(steps):
    eager = {"a": np.arange(9) * 3, "b": np.arange(9)[::-1].copy()}
    columns, size = Columns(dict(eager)), 9
    for step, random in steps:
        columns, eager, size = changed(columns, eager, size, step, random)
        assert set(columns) == set(eager) and len(columns) == len(eager)
        assert all(name in columns for name in eager)
    assert {name: column.tolist() for name, column in columns.items()} == {n: c.tolist() for n, c in eager.items()}


class Here:
    """A context without relations."""

    values, cache, position, exact, unions, batch_size = None, {}, (0, 1), False, False, 1 << 18


def test_a_filtered_range_gathers_what_is_kept():
    """A column that only the kept bindings need is never gathered for the others."""
    n, i = Var("n", Kind.NUMBER), Var("i", Kind.NUMBER)
    numbers = Range(i, Const(0, Kind.NUMBER), n, None)
    steps = [Generate(numbers, frozenset("nx")), Filter(Compare("=", i, Const(7, Kind.NUMBER), Kind.NUMBER))]
    (made,) = run_steps(steps, Batch(2, {"n": np.array([1000, 5]), "x": np.array([70, 80])}), Here())
    assert made.size == 1
    assert made.columns.pending["x"][1].tolist() == [0], "the row that it waits for is one of the first batch"
    assert made.columns["x"].tolist() == [70]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), unique=True), st.lists(st.integers(0, 9), min_size=1))
def test_a_join_by_a_key_gathers_no_column(tuples, keys):
    """If each binding has one partner, the batch's columns are passed on. A join may stop after its batch either way."""
    join = Join("r", "all", (0, 1), (Var("x", Kind.NUMBER),), ((1, "y"),), frozenset("xy"))
    for relation in (tuples, [(number, 100 - number) for number in range(10)]):
        context = Here()
        context.blocks = lambda *index, made=relation: [Block.of(list(np.array(made).reshape(-1, 2).T), len(made))]
        batch = Batch(len(keys), {"x": np.array(keys)})
        (made,) = [*join(batch, context)] or [Batch(0, {"x": np.zeros(0), "y": np.zeros(0)})]
        passed_on = "x" in made.columns.gathered and made.columns["x"] is batch.columns["x"]
        assert passed_on == (made.size > 0 and [sum(key == x for x, _ in relation) for key in keys] == [1] * len(keys))
        pairs = zip(made.columns["x"].tolist(), made.columns["y"].tolist(), strict=True)
        assert sorted(pairs) == sorted((key, y) for key in keys for x, y in relation if x == key)
        assert not made.size or not [*join(batch, context, made.resume_at)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.tuples(st.integers(-3, 3), st.integers(-2, 2)), min_size=1, max_size=30), max_size=5))
def test_records_are_numbered_by_first_appearance(calls):
    dictionary, known = Dictionary(Rows, base=1), {}
    for rows in calls:
        expected = [known.setdefault(row, len(known) + 1) for row in rows]
        assert dictionary.encode(np.array(rows, np.int64).T.copy()).tolist() == expected
