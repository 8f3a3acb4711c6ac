"""User-defined functors: functions of Python, plain, of columns and compiled, wherever rules run."""

import threading

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from session_cases import SETTINGS

from semi_naive import BadInput, Branch, EvaluationError, Libraries, Program, ProgramError, vectorised

G = """
.functor g(x: number): number
.decl in(x: number)
.input in
.decl out(x: number, y: number)
out(x, @g(x)) :- in(x).
.output out
"""


def triple(x):
    return x * 3 + 1


WAYS = {
    "plain": triple,
    "lambda": lambda x: x * 3 + 1,
    "vectorised": vectorised(triple),
    "compiled": numba.njit(triple),
    "of np.vectorize": np.vectorize(triple, otypes=[np.int64]),
    "of ufuncs": vectorised(lambda x: np.add(np.multiply(x, 3), 1)),
}
LAYOUTS = {"driver": {}, "partitions": {"local_tuples": 0}, "buckets": {"local_tuples": 0, "replicate_bytes": 0, "buckets": 3}}
layouts = pytest.mark.parametrize("layout", LAYOUTS)


@layouts
@pytest.mark.parametrize("way", WAYS)
def test_every_kind_of_function(way, layout, here):
    found = Program(G, functors={"g": WAYS[way]}).run({"in": range(-5, 50)}, spark=here, **LAYOUTS[layout])
    assert found["out"].to_set() == {(x, triple(x)) for x in range(-5, 50)}


def test_ufuncs_of_numpy_and_numba_get_columns():
    for ufunc in (np.abs, numba.vectorize(lambda x: abs(x))):
        assert Program(G, functors={"g": ufunc}).run({"in": [-3, 4]})["out"].to_set() == {(-3, 3), (4, 4)}


def test_a_plain_function_is_called_once_for_each_distinct_argument():
    calls = []

    def noted(x):
        calls.append(x)
        return x

    text = G.replace("in(x: number)", "in(x: number, z: number)").replace("in(x).", "in(x, _).")
    Program(text, functors={"g": noted}).run({"in": [(x % 3, x) for x in range(100)]})["out"].count()
    assert sorted(calls) == [0, 1, 2]


def test_a_vectorised_function_is_still_a_function():
    @vectorised
    def double(x):
        """Twice."""
        return x * 2

    assert double(4) == 8 and double.__doc__ == "Twice." and "double" in repr(double)


# -- types

KINDS = """
.type List = [head: symbol, tail: List]
.type Shape = Dot {} | Box {w: float, of: List}
.functor name(number, u: unsigned, f: float, s: symbol): symbol
.functor grow(l: List, s: symbol): List
.functor wide(s: Shape): float
.functor boxed(l: List): Shape
.functor big(u: unsigned): unsigned
.functor one(): number
.decl out(a: symbol, b: List, c: float, d: Shape, e: unsigned, f: number)
out(@name(-1, 18446744073709551615, 0.5, "ä\\"b"), @grow(@grow(nil, "a"), "b"), w, @boxed(["x", nil]), @big(1), @one()) :-
    w = @wide($Box(2.5, nil)).
.output out
"""
PLAIN = {
    "name": lambda n, u, f, s: f"{n} {u} {f} {s}",
    "grow": lambda rest, s: (s, rest),
    "wide": lambda shape: shape.fields[0],
    "boxed": lambda made: Branch("Box", 1, made),
    "big": lambda u: 2**64 - u,
    "one": lambda: np.int64(1),
}
COLUMNS = PLAIN | {
    "name": vectorised(lambda n, u, f, s: [f"{a} {b} {c} {d}" for a, b, c, d in zip(n, u, f, s, strict=True)]),
    "grow": vectorised(lambda rest, s: list(zip(s, rest, strict=True))),
    "wide": vectorised(lambda shapes: np.array([shape.fields[0] for shape in shapes])),
    "big": vectorised(lambda u: np.uint64(0) - u),
}


@layouts
@pytest.mark.parametrize("functors", [PLAIN, COLUMNS])
def test_all_types(functors, layout, here):
    found = Program(KINDS, functors=functors).run(spark=here, **LAYOUTS[layout])["out"].to_list()
    box = Branch("Box", 1.0, ("x", None))
    assert found == [('-1 18446744073709551615 0.5 ä"b', ("b", ("a", None)), 2.5, box, 2**64 - 1, 1)]


def test_arrays_cannot_be_written_to():
    def greedy(x):
        x += 1
        return x

    with pytest.raises(EvaluationError, match="read-only"):
        Program(G, functors={"g": vectorised(greedy)}).run({"in": [1, 2]})


# -- everywhere

PATHS = """
.functor f(x: number, y: number): number
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, y: number) {word}
path(x, y) :- edge(x, y).
path(x, @f(y, z)) :- path(x, y), edge(y, z), @f(x, z) != 3.
.decl out(x: number, y: number)
out(x, y) :- path(x, y), !edge(@f(x, y), y).
.decl many(x: number, n: number)
many(x, n) :- edge(x, _), n = sum @f(y, 1) : {{ path(x, y), @f(y, y) < 6 }}.
.output out, many
"""


def mixed(x, y):
    return (x * 5 + y * 3) % 7


def paths(edges):
    """What PATHS means, by plain loops."""
    path = set(edges)
    while True:
        more = {(x, mixed(y, z)) for x, y in path for w, z in edges if w == y and mixed(x, z) != 3} - path
        if not more:
            break
        path |= more
    many = {(x, sum(mixed(y, 1) for w, y in path if w == x and mixed(y, y) < 6)) for x, _ in edges}
    return {(x, y) for x, y in path if (mixed(x, y), y) not in edges}, many


small = st.integers(0, 6)
edges_of = st.sets(st.tuples(small, small), max_size=12)


@settings(max_examples=15, **SETTINGS)
@given(edges_of)
@pytest.mark.parametrize(
    "options", [{}, {"small_delta": 10**6}, {"local_tuples": 0}, {"local_tuples": 0, "replicate_bytes": 0}]
)
@pytest.mark.parametrize("word", ["", "magic", "no_inline"])
def test_in_recursion_negation_and_aggregates(word, options, machine, here, edges):
    found = Program(PATHS.format(word=word), functors={"f": mixed}).run({"edge": list(edges)}, spark=here, **options)
    assert (found["out"].to_set(), found["many"].to_set()) == paths(edges)


@settings(max_examples=10, **SETTINGS)
@given(st.lists(st.tuples(st.booleans(), small, small), max_size=10))
def test_a_session_follows(steps):
    facts = set()
    with Program(PATHS.format(word=""), functors={"f": numba.njit(mixed)}).session({"edge": []}) as s:
        for insert, x, y in steps:
            (s.insert if insert else s.delete)("edge", [(x, y)])
            (facts.add if insert else facts.discard)((x, y))
            assert (s["out"].to_set(), s["many"].to_set()) == paths(facts)


def test_registered_rules_have_the_functors_of_the_program():
    with Program(G, functors={"g": triple}).session({"in": [1, 2]}) as s:
        s.register("more", ".decl more(y: number)  more(@g(y)) :- out(_, y).")
        changes = []
        s.subscribe("more", changes.append)
        assert s["more"].to_set() == {(13,), (22,)}


def test_components_inlined_relations_and_facts():
    text = """
        .functor f(x: number, y: number): number
        .comp Of {
            .decl a(x: number)
            .decl b(x: number) inline
            b(@f(x, 1)) :- a(x).
            .decl c(x: number)
            c(x) :- b(x), @f(x, x) > 0.
        }
        .init of = Of
        of.a(@f(1, 2)).
        .output of.c
    """
    program = Program(text, functors={"f": mixed})
    assert program.run()["of.c"].to_list() == [(mixed(mixed(1, 2), 1),)]


def test_a_proof_calls_the_function_again():
    result = Program(PATHS.format(word=""), functors={"f": mixed}).run({"edge": [(0, 1), (1, 2)]})
    proof = result.why("path", (0, mixed(1, 2)))
    assert proof.rule == "path(x, @f(y, z)) :- path(x, y), edge(y, z), @f(x, z) != 3."
    assert [premise.tuple for premise in proof.premises] == [(0, 1), (1, 2)]
    assert proof.conditions == ("@f(0, 2) != 3",)


# -- on Spark's workers

TRANSLATION = {1: "one"}
MINE = """
import numba
STEP = 4
def helped(x):
    return x + STEP
def g(x):
    return helped(x)
@numba.njit
def h(x):
    return x + 5
"""


@pytest.mark.parametrize("function", [lambda x: TRANSLATION.get(x, str(x)), vectorised(lambda x: [f"<{n}>" for n in x])])
def test_functions_travel_to_the_workers(function, spark):
    text = G.replace("): number", "): symbol").replace("y: number", "y: symbol")
    found = Program(text, functors={"g": function}).run({"in": range(3)}, spark=spark, local_tuples=0)
    expected = function(np.arange(3)) if hasattr(function, "function") else [function(x) for x in range(3)]
    assert found["out"].to_set() == set(enumerate(expected))


def test_functions_of_a_module_and_compiled_ones_travel_too(spark, tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    functions = Libraries([tmp_path / "mine.py"])
    for name, more in (("g", 4), ("h", 5)):
        found = Program(G, functors={"g": functions[name]}).run({"in": range(3)}, spark=spark, local_tuples=0)
        assert found["out"].to_set() == {(x, x + more) for x in range(3)}


def test_an_error_on_a_worker_is_the_same_error(spark):
    with pytest.raises(EvaluationError) as caught:
        Program(G, file="p.dl", functors={"g": lambda x: 1 // (x - 2)}).run({"in": range(3)}, spark=spark, local_tuples=0)
    assert str(caught.value).startswith("@g(2): ZeroDivisionError: ") and "p.dl at line 6" in str(caught.value)


def test_what_cannot_travel_is_told(spark):
    lock = threading.Lock()
    with pytest.raises(BadInput, match="functor g cannot be sent to Spark's workers: TypeError"):
        Program(G, functors={"g": lambda x: x + lock.locked()}).run({"in": range(3)}, spark=spark, local_tuples=0)


# -- errors


@pytest.mark.parametrize(
    "function, told",
    [
        (lambda x: {}[x], "@g(4): KeyError: 4"),
        (lambda x: x / 2, "the result of @g(4): 2.0 (float) is not a number; expected a number"),
        (lambda x: None, "the result of @g(4): None (NoneType) is not a number"),
        (lambda x: 2**63, "the result of @g(4): 9223372036854775808 is out of range of number"),
        (lambda x: True, "the result of @g(4): True (bool) is not a number"),
        (vectorised(lambda x: x / 2), "the result of @g(4): 2.0 (float) is not a number"),
        (
            vectorised(lambda x: x.astype(np.uint64) + np.uint64(2**63)),
            "the result of @g(4): 9223372036854775812 is out of range",
        ),
        (vectorised(lambda x: x[:0]), "@g gives 0 values for 1 tuple of arguments"),
        (vectorised(lambda x: 5), "@g gives a int for 1 tuple of arguments"),
        (vectorised(lambda x: {}[int(x[0])]), "@g(4): KeyError: 4"),
        (numba.njit(lambda x: x / 2), "the result of @g(4): 2.0 (float) is not a number"),
        (numba.njit(lambda x: 1 // (x - 4)), "@g(4): ZeroDivisionError"),
    ],
)
def test_one_error_names_the_functor_its_arguments_and_the_rule(function, told):
    with pytest.raises(EvaluationError) as caught:
        Program(G, file="p.dl", functors={"g": function}).run({"in": [4]})
    first, second = str(caught.value).split("\n")
    assert first.startswith(told) and first.endswith(" in file p.dl at line 6, column 1, in the rule"), first
    assert second == "  out(x, @g(x)) :- in(x)."


def test_a_compiled_function_fails_at_its_row():
    with pytest.raises(EvaluationError, match=r"@g\(7\): ZeroDivisionError"):
        Program(G, functors={"g": numba.njit(lambda x: 1 // (x - 7))}).run({"in": range(20)})


def test_an_unsigned_result_is_not_negative():
    text = G.replace("): number", "): unsigned").replace("y: number", "y: unsigned")
    for function in (lambda x: x - 1, vectorised(lambda x: x - 1), numba.njit(lambda x: x - 1)):
        with pytest.raises(EvaluationError, match=r"the result of @g\(0\): -1 is out of range of unsigned"):
            Program(text, functors={"g": function}).run({"in": [0, 5]})


@pytest.mark.parametrize(
    "functors, told",
    [
        ({}, "There is no function for functor g"),
        ({"g": 5}, "5 is given for functor g, and is no function"),
        ({"g": lambda: 1}, "Functor g has 1 argument, its function takes ()"),
        ({"g": np.add}, "Functor g has 1 argument, its function takes 2"),
        ({"g": vectorised(lambda a, b: a)}, "Functor g has 1 argument, its function takes (a, b)"),
        ({"g": numba.njit(lambda a, b: a)}, "Functor g has 1 argument, its function takes (a, b)"),
    ],
)
def test_a_function_that_is_missing_or_takes_other_arguments(functors, told):
    with pytest.raises(ProgramError) as caught:
        Program(G, functors=functors)
    [problem] = caught.value.problems
    assert (problem.message, problem.span.line) == (told, 2)


def test_a_functor_that_is_not_used_needs_no_function():
    assert Program(".functor f(x: number): number\n.decl a(x: number)\na(1).\n.output a").run()["a"].to_list() == [(1,)]


@pytest.mark.parametrize(
    "statements, line, told",
    [
        (".functor f(x: number): number", 3, "Redefinition of functor f"),
        (".functor h(x: nope): number", 3, "Undefined type in attribute x:nope"),
        (".functor h(number): nope", 3, "Undefined type nope in return type"),
        (".functor h(number): number stateful", 3, "functor h is stateful"),
        (".comp C {\n.functor h(number): number\n}", 4, "syntax error, unexpected functor declaration"),
        ("a(@h(1)).", 3, "Undefined user-defined functor h"),
        ("a(@f(1, 2)).", 3, "Functor arity mismatch: Got 2 arguments, expecting 1"),
        ('a(@f("a")).', 3, "Unable to determine type for positional parameter 0 ('x')"),
        (".decl s(x: symbol)\ns(@f(1)).", 4, "Invalid use of functor returning number"),
        (".type S <: number\n.decl s(x: S)\ns(@f(1)).", 5, "Atom's argument type is not a subtype of its declared type"),
        (".type S <: number\n.decl s(x: S)\na(x) :- x = @f(x), s(x).", 5, "Invalid conversion of return type number to S"),
        ("a(@f(z)) :- a(_).", 3, "Ungrounded variable z"),
    ],
)
def test_errors_of_programs_are_those_of_souffle(statements, line, told):
    with pytest.raises(ProgramError) as caught:
        Program(f".functor f(x: number): number\n.decl a(x: number)\n{statements}", functors={"f": triple})
    found = [(problem.span.line, problem.message) for problem in caught.value.problems]
    assert any(at == line and told in message for at, message in found), found
