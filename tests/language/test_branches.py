"""Values of algebraic data types: in Python, in files, in sessions, and in every way to run an iteration.

Programs with expected files are in `tests/language/programs/branches` and `enumerations`, errors in `test_language_checks`.
"""

import pickle
from itertools import product

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from session_cases import SETTINGS

from semi_naive import BadInput, Branch, Program, ProgramError
from semi_naive.cli.show import datalog
from semi_naive.io.values.bits import BUILT_IN
from semi_naive.ra.partitions.fingerprint import Fingerprint
from semi_naive.rules import value, var

NIL = Branch("Nil")
TYPES = """
.type List = Nil {} | Cons {head: symbol, tail: List} | Pair {p: Pair}
.type Pair = [a: number, l: List]
.decl list(x: List, n: number)
.input list
"""
ROWS = {
    (NIL, 1),
    (Branch("Cons", "a, b)", NIL), 2),
    (Branch("Pair", (1, NIL)), 3),
    (Branch("Pair", None), 4),
    (Branch("Cons", '"q"', Branch("Cons", "[x", NIL)), 5),
    (Branch("Cons", "ä", NIL), 6),
}


def lists(*elements):
    made = NIL
    for element in reversed(elements):
        made = Branch("Cons", element, made)
    return made


# -- in Python


def test_a_branch_is_a_tuple_that_prints_as_in_a_fact_file():
    cons = Branch("$Cons", 1, NIL)
    assert (cons.name, cons.fields, cons == ("Cons", 1, ("Nil",))) == ("Cons", (1, NIL), True)
    assert repr(cons) == str(cons) == "$Cons(1, $Nil)"
    assert repr(Branch("P", (None, 1.5), "a", "b)", ())) == '$P([nil, 1.5], a, "b)", [])'
    match cons:
        case ("Cons", head, ("Nil",)):
            assert head == 1
    again = pickle.loads(pickle.dumps(cons))
    assert type(again) is Branch and again == cons and hash(again) == hash(cons)
    with pytest.raises(TypeError, match="expected the name of a branch"):
        Branch(1, "Nil")


def test_a_long_list_prints():
    assert len(repr(lists(*range(50_000)))) == sum(len(str(n)) + len("$Cons(, )") for n in range(50_000)) + len("$Nil")


def test_facts_are_branches_tuples_dicts_or_text():
    program = Program(TYPES + ".output list")
    forms = [
        Branch("Cons", "a", NIL),
        ("Cons", "a", ["Nil"]),
        ["$Cons", "a", NIL],
        {"Cons": {"head": "a", "tail": {"Nil": {}}}},
    ]
    for form in [*forms, {"Cons": ("a", {"Nil": []})}, "$Cons(a, $Nil)", '$Cons( "a" , $Nil() ) ']:
        assert program.run({"list": [(form, 1)]})["list"].to_list() == [(Branch("Cons", "a", NIL), 1)], form
    frame = pd.DataFrame(sorted(ROWS, key=str), columns=["x", "n"])
    assert program.run({"list": frame})["list"].to_set() == ROWS


def test_a_relation_of_one_attribute_takes_bare_branches():
    program = Program(".type T = A {} | B {x: number}  .decl t(x: T)  .input t  .output t")
    assert program.run({"t": [Branch("A"), Branch("B", 1), (Branch("B", 2),)]})["t"].to_set() == {
        (Branch("A"),), (Branch("B", 1),), (Branch("B", 2),),
    }  # fmt: skip


@pytest.mark.parametrize(
    "fact, told",
    [
        ("$Nope", "'$Nope': List has the branches $Cons, $Nil, $Pair, not $Nope"),
        (Branch("Nope"), "'Nope' is not a branch of List: $Cons, $Nil, $Pair"),
        (Branch("Cons", "a"), "a $Cons has 2 fields (head, tail), this has 1"),
        ({"Cons": {"head": "a"}}, "a $Cons has the fields head, tail, this has head"),
        (Branch("Cons", 3, NIL), "3 (int) is not a symbol"),
        (Branch("Pair", NIL), "$Nil (Branch) is not a record of type Pair"),
        (None, "None (NoneType) is not a branch of List"),
        (3, "3 (int) is not a branch of List"),
        ([], "[] (list) is not a branch of List"),
        ("nil", "'nil': expected '$', found 'n'"),
        ("$Cons(a", "'$Cons(a': expected ',' or ')' before the end"),
        ("$Cons(a, $Nil, $Nil)", "expected ')', found ','"),
        ("$Nil(", "expected ')', found the end"),
        ("$Nil x", "expected the end of the record at ' x'"),
        ("$Pair([x, $Nil])", "'x' is not a number"),
    ],
)
def test_what_is_no_branch_is_refused(fact, told):
    with pytest.raises(BadInput) as wrong:
        Program(TYPES).run({"list": [(NIL, 0), (fact, 1)]})
    assert told in str(wrong.value) and "list[1].x" in str(wrong.value) and "expected a branch: $Name" in str(wrong.value)


def test_rules_that_are_data_have_branches():
    types = {"List": {"Nil": {}, "Cons": {"head": "number", "tail": "List"}}, "Pair": [("a", "number")]}
    relations = {"list": {"x": "List"}, "sum": {"x": "List", "n": "number"}}
    rules = [
        (("list", lists(1, 2, 3)),),
        (("list", "t"), ("list", Branch("Cons", "_", "t"))),
        (("sum", NIL, 0),),
        (("sum", Branch("Cons", "x", "t"), var("x") + var("n")), ("list", Branch("Cons", "x", "t")), ("sum", "t", "n")),
    ]
    program = Program.from_rules(relations, rules, types=types)
    assert str(program.checked.rules[1]) == "list(t) :- list($Cons(_@1, t))."
    assert program.run()["sum"].to_set() == {(NIL, 0), (lists(3), 3), (lists(2, 3), 5), (lists(1, 2, 3), 6)}
    with pytest.raises(ProgramError, match="Undeclared branch"):
        Program.from_rules(relations, [(("list", Branch("Snoc", value("a"))),)], types=types)
    with pytest.raises(ValueError, match="expected the name of a branch"):
        Program.from_rules(relations, [], types={"List": {"a b": {}}})


# -- in files


@pytest.mark.parametrize(
    "how",
    [
        'filename="x.json", IO=jsonfile',
        'filename="x.json", IO=jsonfile, format=object',
        'dbname="x.sqlite", IO=sqlite',
        'filename="x.parquet", IO=parquet',
        'filename="x.csv", rfc4180=true',
    ],
)
def test_what_is_written_is_read_back(how, tmp_path):
    settings = how.replace('="x', f'="{tmp_path}/x')
    with Program(TYPES + f".output list({settings})").run({"list": list(ROWS)}) as result:
        result.write(tmp_path)
    assert (
        Program(TYPES.replace(".input list", f".input list({settings})") + ".output list").run(tmp_path)["list"].to_set()
        == ROWS
    )


def test_json_says_the_name_of_a_branch_first(tmp_path):
    rows = {"list": [(Branch("Pair", (1, Branch("Cons", "a", NIL))), 1)]}
    text = TYPES + '.output list(IO=jsonfile, filename="l.json")\n.output list(IO=jsonfile, filename="o.json", format=object)'
    Program(text).run(rows).write(tmp_path)
    assert (tmp_path / "l.json").read_text() == '[[["Pair", [1, ["Cons", "a", ["Nil"]]]], 1]]\n'
    inner = '{"Cons": {"head": "a", "tail": {"Nil": {}}}}'
    assert (tmp_path / "o.json").read_text() == f'[{{"x": {{"Pair": {{"p": {{"a": 1, "l": {inner}}}}}}}, "n": 1}}]\n'


def test_a_comma_in_brackets_does_not_end_a_field(tmp_path):
    """Soufflé cannot read what it writes so."""
    (tmp_path / "list.facts").write_text("$Cons(a, $Nil),1\n$Pair([1, $Cons([, $Nil)]),2\n")
    program = Program(TYPES.replace(".input list", '.input list(delimiter=",")') + ".output list")
    with pytest.raises(BadInput, match="Unbalanced record parenthesis"):
        program.run(tmp_path)
    (tmp_path / "list.facts").write_text("$Cons(a, $Nil),1\n$Pair([1, $Cons(b, $Nil)]),2\n")
    assert program.run(tmp_path)["list"].to_set() == {
        (Branch("Cons", "a", NIL), 1),
        (Branch("Pair", (1, Branch("Cons", "b", NIL))), 2),
    }


def test_tables_have_text():
    with Program(TYPES + ".output list").run({"list": [(lists("a, b", "c"), 1)]}) as result:
        table = result["list"].to_arrow()
        assert table.column("x").to_pylist() == ['$Cons("a, b", $Cons(c, $Nil))']
        assert Program(TYPES + ".output list").run({"list": table})["list"].to_set() == {(lists("a, b", "c"), 1)}


def test_a_program_is_shown_with_its_branches():
    checked = Program(".type T = B {x: number, y: T} | A {}  .decl t(x: T)  .output t  t($B(1, $A())).").checked
    assert datalog(checked).splitlines()[0] == ".type T = A {} | B {x: number, y: T}"
    assert "t($B(1, $A()))." in datalog(checked)


# -- in sessions

WALKS = """
.type List = Nil {} | Cons {head: number, tail: List}
.decl given(x: List)
.input given
.decl part(x: List)
.output part
part(x) :- given(x).
part(x) :- part($Cons(_, x)).
.decl length(x: List, n: number)
.output length
length($Nil(), 0) :- part($Nil()).
length(x, n + 1) :- part(x), x = $Cons(_, t), length(t, n).
.decl turn(x: List, left: List, done: List)
turn(x, x, $Nil()) :- given(x).
turn(x, t, $Cons(h, done)) :- turn(x, $Cons(h, t), done).
.decl reversed(x: List, y: List)
.output reversed
reversed(x, y) :- turn(x, $Nil(), y).
.decl lonely(x: List)
.output lonely
lonely(x) :- part(x), !reversed(_, x), x != $Nil().
.decl pairs(n: number)
.output pairs
pairs(n) :- n = count : { part($Cons(_, $Cons(_, $Nil()))) }.
.decl double(x: List)
.output double
double(x) :- part(x), x = $Cons(h, $Cons(h, _)).
"""
ELEMENTS = st.lists(st.integers(0, 2), max_size=4).map(tuple)


def expected(facts: set[tuple]) -> dict[str, set[tuple]]:
    """The relations of WALKS, by Python's own tuples."""
    parts = {xs[at:] for xs in facts for at in range(len(xs) + 1)}
    return {
        "part": {(lists(*xs),) for xs in parts},
        "length": {(lists(*xs), len(xs)) for xs in parts},
        "reversed": {(lists(*xs), lists(*xs[::-1])) for xs in facts},
        "lonely": {(lists(*xs),) for xs in parts if xs and xs[::-1] not in facts},
        "pairs": {(sum(len(xs) == 2 for xs in parts),)},
        "double": {(lists(*xs),) for xs in parts if len(xs) > 1 and xs[0] == xs[1]},
    }


@settings(max_examples=15, **SETTINGS)
@given(st.sets(ELEMENTS, max_size=6))
@pytest.mark.parametrize("options", [{"small_delta": 0}, {"small_delta": 10**6}], ids=["blocks", "a tuple at a time"])
def test_the_driver_agrees_with_lists_of_python(machine, options, facts):
    with Program(WALKS).run({"given": [(lists(*xs),) for xs in facts]}, **options) as result:
        for name, tuples in expected(facts).items():
            assert result[name].to_set() == tuples, name


@settings(max_examples=6, **SETTINGS)
@given(st.sets(ELEMENTS, max_size=6))
def test_the_partitions_agree_with_lists_of_python(here, facts):
    options = {"local_tuples": 0, "replicate_bytes": 0, "buckets": 4, "partitions": 2}
    with Program(WALKS).run({"given": [(lists(*xs),) for xs in facts]}, here, **options) as result:
        for name, tuples in expected(facts).items():
            assert result[name].to_set() == tuples, name


@settings(max_examples=15, **SETTINGS)
@given(st.lists(st.tuples(st.booleans(), st.sets(ELEMENTS, min_size=1, max_size=3)), min_size=1, max_size=5))
def test_branches_come_and_go(steps):
    facts: set[tuple] = set()
    with Program(WALKS).session({"given": []}) as session:
        seen = {name: session[name].to_set() for name in expected(set())}
        for inserts, some in steps:
            rows = [(lists(*xs),) for xs in some]
            done = session.insert("given", rows) if inserts else session.delete("given", rows)
            facts = facts | some if inserts else facts - some
            for name, change in done.changes.items():
                for *row, sign in change.to_list():
                    (seen[name].add if sign > 0 else seen[name].remove)(tuple(row))
            for name, tuples in expected(facts).items():
                assert session[name].to_set() == tuples == seen[name], name


def test_branches_come_and_go_on_the_partitions(here):
    facts = {(1, 2, 2), (2,), ()}
    options = {"local_tuples": 0, "partitions": 2, "buckets": 4}
    with Program(WALKS).session({"given": [(lists(*xs),) for xs in facts]}, spark=here, **options) as session:
        for more in ({(0, 1, 2, 2), (1, 1)}, {(2, 0)}):
            session.insert("given", [(lists(*xs),) for xs in more])
            facts |= more
            for name, tuples in expected(facts).items():
                assert session[name].to_set() == tuples, name
        assert session.query("reversed($Cons(x, t), $Cons(x, _))").to_set() == {(2, NIL), (1, lists(1))}
        session.delete("given", [(lists(1, 2, 2),), (lists(1, 1),)])
        for name, tuples in expected(facts - {(1, 2, 2), (1, 1)}).items():
            assert session[name].to_set() == tuples, name


def test_a_session_of_branches_is_found_again(tmp_path):
    with Program(WALKS).session({"given": [(lists(1, 2),)]}, path=tmp_path / "state") as session:
        session.insert("given", [(lists(2, 1, 1),)])
    with Program(WALKS).session(path=tmp_path / "state") as session:
        for name, tuples in expected({(1, 2), (2, 1, 1)}).items():
            assert session[name].to_set() == tuples
        session.delete("given", [(lists(1, 2),)])
        assert session["reversed"].to_set() == {(lists(2, 1, 1), lists(1, 1, 2))}


QUERIED = """
.type List = Nil {} | Cons {head: number, tail: List}
.type Pair = [a: number, l: List]
.decl has(x: List, p: Pair)
.input has
"""


@pytest.mark.parametrize(
    "query, columns, answers",
    [
        ("has($Cons(x, _), p)", ("x", "p"), {(1, (1, NIL)), (3, None)}),
        ("has(_, [n, $Cons(m, _)])", ("n", "m"), {(2, 7)}),
        ("has($Cons(x, t), [x, t])", ("x", "t"), {(1, NIL)}),
        ("has($Cons(3, $Cons(x, $Nil())), _)", ("x",), {(4,)}),
        ("has($Cons(5, t), _)", ("t",), set()),
        ("has($Nil(), [n, _])", ("n",), {(2,)}),
        ("has(x, nil)", ("x",), {(lists(3, 4),)}),
        ("has($Cons(_, $Cons(_, _)), _)", (), {()}),
        ("has($Cons(_, $Cons(_, $Cons(_, _))), _)", (), set()),
    ],
)
def test_a_query_is_a_pattern(query, columns, answers):
    rows = [(lists(1), (1, NIL)), (NIL, (2, lists(7))), (lists(3, 4), None)]
    with Program(QUERIED).session({"has": rows}) as session:
        found = session.query(query)
        assert (found.columns, found.to_set()) == (columns, answers)


@pytest.mark.parametrize(
    "query, told",
    [
        ("has($Nil(x), _)", "x is a List, and this is none"),
        ("has($Snoc(x), _)", "x is a List, and this is none"),
        ("has([x, y], _)", "x is a List, and this is none"),
        ("has(_, $Cons(x, y))", "p is a Pair, and this is none"),
        ("has(_, [x])", "p is a Pair, and this is none"),
        ("has($Snoc(), _)", "'Snoc' is not a branch of List"),
    ],
)
def test_a_query_that_fits_no_type_is_refused(query, told):
    with Program(QUERIED).session({"has": []}) as session, pytest.raises(BadInput) as wrong:
        session.query(query)
    assert told in str(wrong.value)


def test_parameters_of_registered_rules_stand_in_branches():
    with Program(QUERIED).session({"has": [(lists(1, 2), None), (lists(3), None)]}) as session:
        session.register("after", ".decl after(t: List)\nafter(t) :- has($Cons($head, t), _).")
        assert session.query("after(t)", head=1).to_list() == [(lists(2),)]


def test_a_page_has_branches_as_lists():
    pytest.importorskip("starlette")
    from semi_naive.session.served.as_json import _json_rows

    assert _json_rows([(lists(1), 2, float("inf"))]) == [[["Cons", 1, ["Nil"]], 2, "inf"]]


# -- what a pattern must not meet


def test_payloads_of_other_branches_are_not_taken_for_records():
    """A number that is the payload of one branch may be no record, where another branch has one."""
    text = """
    .type T = N {x: number} | S {x: symbol} | P {x: number, y: number} | Q {t: T} | E {}
    .decl t(x: T)
    .input t
    .decl sums(n: number)
    .output sums
    sums(a + b) :- t($P(a, b)).
    sums(a) :- t($Q($P(a, _))).
    .decl same(x: T, y: T)
    .output same
    same(x, y) :- t(x), t(y), x = $Q(z), y = $Q(w), z != w.
    .decl other(n: number)
    .output other
    other(n) :- t(x), x = $N(n).
    other(n) :- x = $P(n, _), x = $N(n), t(x).
    """
    values = [Branch("N", 2**62), Branch("S", "a"), Branch("P", 3, 4), Branch("E"), Branch("N", -1)]
    values += [Branch("Q", each) for each in values]
    with Program(text).run({"t": [(each,) for each in values]}) as result:
        assert result["sums"].to_set() == {(7,), (3,)}
        assert result["other"].to_set() == {(2**62,), (-1,)}
        wrapped = values[5:]
        assert result["same"].to_set() == {(x, y) for x, y in product(wrapped, wrapped) if x != y}


def test_plans_and_fingerprints_know_branches():
    text = TYPES + ".output list\n.decl heads(x: symbol)\n.output heads\nheads(x) :- list($Cons(x, _), _)."
    assert "take list.x apart into $Cons of x and _" in Program(text).explain({"list": list(ROWS)})
    found = []
    for rows in (sorted(ROWS, key=str), sorted(ROWS, key=str)[::-1], sorted(ROWS, key=str)[1:]):
        with Program(text).run({"list": rows}) as result:
            of = Fingerprint(result["list"].relation, BUILT_IN | result.types, result.values)
            found.append(of(result["list"].encoded()))
    assert found[0] == found[1] != found[2]
    other = Program(text).run({"list": [(Branch("Cons", "other", NIL) if row[1] == 2 else row[0], row[1]) for row in ROWS]})
    assert Fingerprint(other["list"].relation, BUILT_IN | other.types, other.values)(other["list"].encoded()) != found[0]
