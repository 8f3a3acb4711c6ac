"""Written files are read back as they were, or not written at all."""

import random
import sqlite3

import numpy as np
import pytest

from semi_naive import BadInput, Branch, Program, transitive_closure
from semi_naive.io import read, write
from semi_naive.io.formats.layouts import Format
from semi_naive.io.python_data import source_of
from semi_naive.io.reading import file_source
from semi_naive.io.values.bits import BUILT_IN
from semi_naive.io.values.fields import columns_of_rows
from semi_naive.ra.ir import Constructor, FileDirective, Kind, Relation, Type
from semi_naive.ra.values.values import Values

PIECES = [
    "a",
    "b",
    "",
    " ",
    "\t",
    "\n",
    "\r",
    "\r\n",
    '"',
    '""',
    "\\",
    ",",
    ":",
    "::",
    "[",
    "]",
    "(",
    ")",
    "$",
    "nil",
    "\ufeff",
    "é",
]
PAIR = Type("Pair", Kind.RECORD, (("left", "number"), ("right", "symbol")))
BOX = Constructor("Box", (("name", "symbol"), ("size", "number")))
SHAPE = Type("Shape", Kind.RECORD, branches=(BOX, Constructor("Point", ())))
TYPES = BUILT_IN | {"Pair": PAIR, "Shape": SHAPE}
RELATIONS = [
    Relation("r", (("s", TYPES["symbol"]), ("n", TYPES["unsigned"]), ("t", TYPES["symbol"]))),
    Relation("r", (("p", PAIR), ("s", TYPES["symbol"]))),
    Relation("r", (("s", TYPES["symbol"]), ("x", SHAPE))),
    Relation("r", (("s", TYPES["symbol"]),)),
]
LAYOUTS = [{}, {"headers": "true"}, {"delimiter": ","}, {"delimiter": "::"}, {"rfc4180": "true"}, {"IO": "jsonfile"},
           {"rfc4180": "true", "headers": "true", "delimiter": ";"}, {"IO": "jsonfile", "format": "object"},
           {"IO": "sqlite"}]  # fmt: skip


def value(type_, choose):
    text = "".join(choose.choices(PIECES, k=choose.randrange(4)))
    if type_.kind == Kind.SYMBOL:
        return text
    if type_.kind == Kind.UNSIGNED:
        return 2**64 - 1 - choose.randrange(3)
    if type_.branches:
        return choose.choice([Branch("Point"), Branch("Box", text, 3)])
    return choose.choice([None, (7, text)])


@pytest.mark.parametrize("few", [5000, 0], ids=["few", "many"])
def test_a_file_is_read_back_or_refused(tmp_path, monkeypatch, few):
    """All layouts, odd characters in symbols, records and branches. RFC 4180, JSON and SQLite hold all of them."""
    monkeypatch.setattr("semi_naive.io.results.order.MIN_ROWS_FOR_ARROW", few)
    refused = 0
    for seed in range(400):
        choose = random.Random(seed)
        relation, layout = choose.choice(RELATIONS), choose.choice(LAYOUTS)
        rows = [tuple(value(type_, choose) for _, type_ in relation.attributes) for _ in range(choose.choice([1, 1, 3]))]
        values = Values()
        columns = np.unique(columns_of_rows(rows, relation, TYPES, values, lambda *given: ValueError(given)), axis=1)
        try:
            write(FileDirective("output", "r", {"filename": "f", **layout}), relation, TYPES, columns, str(tmp_path), values)
        except BadInput as wrong:
            assert "would not be read back" in wrong.message and layout.get("rfc4180") is None and "IO" not in layout, layout
            assert not list(tmp_path.iterdir())
            refused += 1
            continue
        found = read(FileDirective("input", "r", {"filename": "f", **layout}), relation, TYPES, str(tmp_path), values)
        assert set(zip(*found.tolist(), strict=True)) == set(zip(*columns.tolist(), strict=True)), (seed, rows, layout)
        (tmp_path / "f").unlink()
    assert 50 < refused < 200


REFUSED = """
.decl fine(x: number)
.output fine
fine(1).
.decl r(n: number, s: symbol)
.output r{}
r(1, "a b"). r(-7, "a\\{}b").
"""
SAYS = {"t": "a tab, which separates fields", "n": "a line break"}


@pytest.mark.parametrize("letter", SAYS)
def test_the_error_names_the_tuple_and_the_ways_out(run, tmp_path, letter):
    (tmp_path / "p.dl").write_text(REFUSED.format("", letter))
    status, out, errors = run("run", "p.dl", "-D", "out")
    assert (status, out) == (2, "") and f'r(-7, "a\\{letter}b") would not be read back: s has {SAYS[letter]}' in errors
    assert "rfc4180=true" in errors and "IO=jsonfile" in errors and "parquet" in errors
    assert not list((tmp_path / "out").iterdir())
    assert run("run", "p.dl", "-D", "-")[0] == 0, "as Soufflé prints it"
    for layout in ("(rfc4180=true)", "(IO=jsonfile)", "(IO=parquet)"):
        (tmp_path / "p.dl").write_text(REFUSED.format(layout, letter))
        assert run("run", "p.dl", "-D", "out")[0] == 0


def test_results_in_python(tmp_path):
    """An answer, a closure and a session's relation; quotes are no reason to refuse."""
    program = Program(
        ".decl edge(x: symbol, y: symbol)\n.input edge\n.decl r(x: symbol, y: symbol)\n.output r\nr(x, y) :- edge(x, y)."
    )
    for bad in ("a\tb", "a\nb", "a\r"):
        facts = {"edge": [('q"', "x"), ("x", bad)]}
        with program.run(facts) as result, program.session(facts) as session, transitive_closure(facts["edge"]) as closure:
            for found in (result["r"], session["r"], closure):
                for name in ("f.tsv", "f.txt.gz", "f.facts"):
                    with pytest.raises(BadInput, match=r"(r|path)\(.*\) would not be read back: y has a (tab|line break)"):
                        found.write(tmp_path / name)
                assert not list(tmp_path.iterdir())
                found.write(tmp_path / "f.csv")
                values, relation = Values(), Relation("r", (("x", TYPES["symbol"]), ("y", TYPES["symbol"])))
                read_back = [values.strings(one) for one in source_of(tmp_path / "f.csv", relation, {}).columns(values)]
                assert set(zip(*read_back, strict=True)) == found.to_set()
                (tmp_path / "f.csv").unlink()
    with transitive_closure([('q"', "x")]) as closure:
        closure.write(tmp_path / "f.tsv")
    assert (tmp_path / "f.tsv").read_text() == 'q"\tx\n'


def test_results_that_tasks_write(here, tmp_path, monkeypatch):
    monkeypatch.setattr("semi_naive.running.results.files.MIN_TASK_WRITTEN_TUPLES", 0)
    program = Program(
        ".decl fact(s: symbol, n: number)\n.input fact\n.decl r(s: symbol, n: number)\n.output r\nr(s, n) :- fact(s, n)."
    )
    facts = {"fact": [(f"s{n}", n) for n in range(99)] + [("x\ty", 5)]}
    with program.run(facts, spark=here, local_tuples=0, partitions=3) as result:
        assert result["r"].on_partitions
        with pytest.raises(BadInput, match=r'r\("x\\ty", 5\) would not be read back: s has a tab'):
            result.write(tmp_path)
        assert not list(tmp_path.iterdir())
        result["r"].write(tmp_path / "r.csv")
        assert '"x\ty",5\n' in (tmp_path / "r.csv").read_text()


# SQLite


def test_null_and_the_empty_string_of_sqlite(tmp_path):
    """The empty string stays empty. NULL is an error with its place; as a record it is nil."""
    database = sqlite3.connect(tmp_path / "d.sqlite")
    relation = Relation("r", (("s", TYPES["symbol"]), ("p", PAIR)))

    def table(*rows):
        database.execute("DROP TABLE IF EXISTS r")
        database.execute("CREATE TABLE r (s, p)")
        database.executemany("INSERT INTO r VALUES (?, ?)", rows)
        database.commit()
        values = Values()
        return values, file_source(str(tmp_path / "d.sqlite"), Format("sqlite", "r"), relation, TYPES).columns(values)

    values, columns = table(("", None), (b"", "[1, ]"))
    assert values.strings(columns[0]) == ["", ""] and columns[1][0] == 0
    with pytest.raises(BadInput, match=r"d.sqlite: row 1, column s: the value is NULL"):
        table(("x", None), (None, None))
    database.close()
