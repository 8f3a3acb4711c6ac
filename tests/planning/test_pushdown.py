"""Columns and rows of facts that no rule needs are not read: which those are, and that the answers stay the same."""

import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from semi_naive import BadInput, Program
from semi_naive.io import sources, unread
from semi_naive.ra.ir import Const, Kind
from semi_naive.ra.pushdown import Condition

SALES = """
.decl sale(id: number, customer: symbol, amount: unsigned, day: number, price: float)
.input sale(IO=parquet)
.decl picked(customer: symbol)
.output picked
"""
CASES = {  # a rule, and what is read of the facts
    "picked(c) :- sale(_, c, a, d, _), d >= 90, a > 5.": "without id, price; where amount > 5 and day >= 90",
    "picked(c) :- sale(i, c, 3, _, _), !sale(i, _, 4, _, _).": "without day, price; where amount = 3 or amount = 4",
    "picked(c) :- sale(_, c, a, d, p), p < 2.5, a != 3, 50 > d.": "without id; where amount != 3 and day < 50 and price < 2.5",
    "picked(c) :- sale(i, c, _, _, _), i = max j : { sale(j, _, _, 7, _) }.": "without amount, price",
    'picked("many") :- n = count : { sale(_, "c1", _, d, _), d > 10 }, n > 3.': 'where customer = "c1" and day > 10',
    'picked("some") :- sale(_, _, _, _, _).': "without customer, amount, day, price",
    'picked(c) :- sale(x, c, _, x, _), c != "c1".': 'without amount, price; where customer != "c1"',
    "picked(c) :- sale(_, c, _, _, p), p > 1.5.": "without id, amount, day",
}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A file of 40 row groups, in which `day` ascends."""
    drawn = np.random.default_rng(5)
    columns = {
        "id": np.arange(1000) % 100, "customer": [f"c{each}" for each in drawn.integers(0, 9, 1000)],
        "amount": drawn.integers(0, 9, 1000).astype(np.uint64), "day": np.arange(1000) // 10, "price": drawn.random(1000) * 4,
    }  # fmt: skip
    path = tmp_path_factory.mktemp("sales") / "sale.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=25)
    return path


@pytest.mark.parametrize("rule", CASES)
def test_what_no_rule_needs_is_not_read(file, rule):
    program = Program(SALES + rule)
    with program.run(file.parent, only_outputs=True) as result, program.run(file.parent) as whole:
        assert result["picked"].to_set() == whole["picked"].to_set() != set()
        read = next(line for line in result.explain().splitlines() if line.startswith("  sale("))
        assert read.partition(", read ")[2] == CASES[rule]
        assert "sale" not in result and "sale" in whole


def test_a_rule_that_reads_all_may_come_first_or_last():
    text = ".decl e(x: number, y: number)\n.input e\n.decl a, b(x: number)\n.output a, b\n"
    rules = ["a(x + y) :- e(x, y).", "b(x) :- e(x, 3).", "b(x) :- e(x, _), x > 1."]
    for some, pushed in ((rules, set()), (rules[::-1], set()), (rules[1:], {"e"})):
        assert Program(text + "\n".join(some)).compile(only_outputs=True).pushdown.keys() == pushed


def test_programs_that_count_their_bindings_read_all():
    for rule in (
        "picked(c) :- sale(_, c, _, _, _), autoinc() < 3.",
        "n(sum(d)) :- sale(_, _, _, d, _).\n.decl n(x: number)\n.output n",
    ):
        assert not Program(SALES + rule).compile(only_outputs=True).pushdown


def test_row_groups_without_rows_that_are_needed_are_skipped(file, monkeypatch):
    read = []
    reader = sources.read_batches
    monkeypatch.setattr(
        sources, "read_batches", lambda path, part, groups, source: read.extend(groups) or reader(path, part, groups, source)
    )
    with Program(SALES + "picked(c) :- sale(_, c, a, d, _), d >= 90, a > 5.").run(file.parent, only_outputs=True) as result:
        assert [group for group, _ in read] == [36, 37, 38, 39]
        with pytest.raises(
            ValueError, match=r"no proofs: .*\(sale: without id, price; where amount > 5 and day >= 90\); run without"
        ):
            result.why("picked", ("c1",))


def test_ranges_that_say_nothing_keep_their_rows():
    number, text = Const(3, Kind.NUMBER), Const("m", Kind.SYMBOL)
    for op, held in {"=": (1, 3), "!=": (1, 3), "<": (1, 9), "<=": (3, 4), ">": (3, 4), ">=": (1, 3)}.items():
        assert Condition(0, op, number).may_hold(*held)
    for op, apart in {"=": (4, 9), "!=": (3, 3), "<": (3, 9), "<=": (4, 9), ">": (1, 3), ">=": (1, 2)}.items():
        assert not Condition(0, op, number).may_hold(*apart)
        for odd in ((float("nan"), 1.0), ("1", "2"), (b"1", b"2"), (None, None)):
            assert Condition(0, op, number).may_hold(*odd)
    assert Condition(0, "=", text).may_hold("a", "z") and not Condition(0, "=", text).may_hold("n", "z")
    assert Condition(0, "=", text).may_hold(1, 2)


def test_columns_that_are_not_read_may_hold_anything_but_must_be_there(tmp_path):
    text = ".decl e(x: number, y: number, z: number)\n.input e(IO=parquet)\n.decl f(y: number)\n.output f\n"
    text += "f(y) :- e(_, y, _), y < 9."
    nested = pa.array([{"a": 1, "b": "t"}, None], pa.struct([("a", pa.int64()), ("b", pa.string())]))
    for names in ("xyz", "zxy", ["column 1", "column 2", "column 3"]):
        pq.write_table(
            pa.table({name: nested if name in ("x", "column 1") else [4, 12] for name in names}), tmp_path / "e.parquet"
        )
        assert Program(text).run(tmp_path, only_outputs=True)["f"].to_list() == [(4,)]
        with pytest.raises(BadInput, match=r"column e\.x"):
            Program(text).run(tmp_path)
    for names, error in (("xy", "only x, y are in both lists"), ("ab", "e has 3 attributes"), ("abcd", "found 4 columns")):
        pq.write_table(pa.table({name: [1] for name in names}), tmp_path / "e.parquet")
        with pytest.raises(BadInput, match=error):
            Program(text).run(tmp_path, only_outputs=True)


def drawn_program(drawn: random.Random) -> str:
    """Rules of two relations of facts, with constants, comparisons, negation and aggregates."""
    text = ".decl r(a: number, b: symbol, c: float)\n.decl s(a: number, b: number)\n.input r, s(IO=parquet)\n"
    argument = {"number": ["x", "y", "_", "2", "7"], "symbol": ["u", "v", "_", '"t3"'], "float": ["f", "_", "1.5"]}
    for number in range(drawn.randint(1, 4)):
        atoms = []
        for _ in range(drawn.randint(1, 3)):
            name = drawn.choice("rs")
            kinds = ("number", "symbol", "float") if name == "r" else ("number", "number")
            atoms.append(f"{name}({', '.join(drawn.choice(argument[kind]) for kind in kinds)})")
        held = {each for each in "xyuvf" if any(f"({each}" in atom or f" {each}" in atom for atom in atoms)}
        least = [f"{each} {drawn.choice(('<', '>=', '!=', '>'))} {drawn.randint(0, 9)}" for each in "xy" if each in held]
        least += [f"f {drawn.choice(('<', '<=', '>', '!='))} 2.0"] * ("f" in held) + ['u != "t1"'] * ("u" in held)
        body = atoms + drawn.sample(least, drawn.randint(0, len(least)))
        if held and drawn.random() < 0.3:
            body.append(drawn.choice(["!s(3, _)", "!s(_, x)" if "x" in held else "!s(1, 1)", "n = count : { s(_, 4) }, n > 2"]))
        if drawn.random() < 0.2:
            body = [f"{drawn.choice(('n = count', 'n = max q', 'n = sum q'))} : {{ s(q, {drawn.choice(('_', '5', 'p'))}) }}"]
            text += f".decl o{number}(n: number)\no{number}(n) :- {', '.join(body)}.\n.output o{number}\n"
            continue
        head = [each for each in "xy" if each in held]
        names = ", ".join(f"{each}: number" for each in head) or "z: number"
        text += f".decl o{number}({names})\no{number}({', '.join(head) or 1}) :- {', '.join(body)}.\n.output o{number}\n"
    return text


def random_files(drawn: random.Random, folder) -> None:
    """Facts in small row groups, some in order."""
    rows = drawn.randint(1, 60)
    numbers = [[drawn.randint(0, 9) for _ in range(rows)] for _ in range(3)]
    numbers[0].sort()
    floats = [drawn.choice((0.5, 1.5, 2.0, -0.0, float("nan"), 9.0)) for _ in range(rows)]
    texts = [f"t{drawn.randint(0, 5)}" for _ in range(rows)]
    pq.write_table(pa.table({"a": numbers[0], "b": texts, "c": floats}), folder / "r.parquet", row_group_size=7)
    pq.write_table(pa.table({"a": numbers[1], "b": numbers[2]}), folder / "s.parquet", row_group_size=9)


@pytest.mark.parametrize("seed", range(80))
def test_random_rules_have_the_same_answers(tmp_path, seed):
    drawn = random.Random(seed)
    text = drawn_program(drawn)
    random_files(drawn, tmp_path)
    with Program(text).run(tmp_path, lenient=True) as whole, Program(text).run(tmp_path, only_outputs=True) as result:
        for name in Program(text).outputs:
            assert result[name].to_set() == whole[name].to_set(), text


@pytest.mark.parametrize("seed", range(3))
def test_tasks_and_frames_leave_out_the_same(tmp_path, spark, monkeypatch, seed):
    """Files read by tasks, and Spark's own frames of them."""
    monkeypatch.setattr(unread, "MIN_BYTES_FOR_JOB", 0)
    drawn = random.Random(seed)
    text = drawn_program(drawn)
    random_files(drawn, tmp_path)
    frames = {name: spark.read.parquet(str(tmp_path / f"{name}.parquet")) for name in "rs"}
    with Program(text).run(tmp_path) as whole:
        for facts in (tmp_path, frames):
            with Program(text).run(facts, spark, only_outputs=True, local_tuples=0, partitions=2) as result:
                for name in Program(text).outputs:
                    assert result[name].to_set() == whole[name].to_set(), text
