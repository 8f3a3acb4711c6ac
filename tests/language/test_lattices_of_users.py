"""Lattices that the user defines: of each key one tuple, with the least upper bound; against an oracle that knows intervals."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from session_cases import SETTINGS

from semi_naive import Branch, EvaluationError, Program, ProgramError

EMPTY = (0, -1)
LOW, HIGH = -8, 8

INTERVALS = """
.type Interval = [low: number, high: number]
.functor lub(a: Interval, b: Interval): Interval stateful
.functor glb(a: Interval, b: Interval): Interval stateful
.functor shift(a: Interval, k: number): Interval stateful
.lattice Interval<> { Bottom -> [0, -1], Top -> [-8, 8], Lub -> @lub(_, _), Glb -> @glb(_, _) }

.decl node(n: number)
.decl start(n: number, i: Interval)
.decl edge(n: number, m: number, k: number)
.decl cut(n: number, i: Interval<>)
.input node, start, edge, cut

.decl value(n: number, i: Interval<>)
value(n, i) :- start(n, i).
value(m, @shift(i, k)) :- value(n, i), edge(n, m, k).

.decl kept(n: number, i: Interval<>)
kept(n, i) :- start(n, i).
kept(m, i) :- kept(n, i), edge(n, m, _), cut(m, i).

.decl both(n: number, i: Interval<>)
both(n, i) :- value(n, i), cut(n, i).
.decl has(n: number)
has(n) :- value(n, [2, 3]).
.decl apart(n: number)
apart(n) :- node(n), !value(n, [2, 3]).
.decl within(n: number, i: Interval)
within(n, i) :- start(n, i), cut(n, i).
.decl every(i: Interval<>)
every(i) :- value(_, i).
.decl two(n: number, i: Interval<>, j: Interval<>)
two(n, i, j) :- value(n, i), value(m, j), edge(n, m, _).
two(n, j, i) :- two(n, i, j).
.output value, kept, both, has, apart, within, every, two, cut
"""


def lub(a, b):
    return b if a == EMPTY else a if b == EMPTY else (min(a[0], b[0]), max(a[1], b[1]))


def glb(a, b):
    low, high = max(a[0], b[0]), min(a[1], b[1])
    return EMPTY if low > high or EMPTY in (a, b) else (low, high)


def shift(a, k):
    return EMPTY if a == EMPTY else (max(LOW, min(HIGH, a[0] + k)), max(LOW, min(HIGH, a[1] + k)))


FUNCTORS = {"lub": lub, "glb": glb, "shift": shift}


def put(known: dict, made) -> dict:
    known = dict(known)
    for key, value in made:
        known[key] = lub(known[key], value) if key in known else value
    return known


def fixpoint(step) -> dict:
    known: dict = {}
    while (more := put(known, step(known))) != known:
        known = more
    return known


def oracle(facts: dict) -> dict[str, set]:
    """The relations of INTERVALS, by loops over all tuples, again and again until nothing grows."""
    start, edges, cut = facts["start"], facts["edge"], put({}, facts["cut"])
    value = fixpoint(lambda known: [*start, *((m, shift(known[n], k)) for n, m, k in edges if n in known)])
    passed = lambda known: [(m, glb(known[n], cut[m])) for n, m, _ in edges if n in known and m in cut]  # noqa: E731
    kept = fixpoint(lambda known: [*start, *(pair for pair in passed(known) if pair[1] != EMPTY)])
    pairs = [(n, (value[n], value[m])) for n, m, _ in edges if n in value and m in value]
    two: dict = {}
    for n, (i, j) in [*pairs, *((n, (j, i)) for n, (i, j) in pairs)]:
        two[n] = (lub(two[n][0], i), lub(two[n][1], j)) if n in two else (i, j)
    both = {n: glb(value[n], cut[n]) for n in value.keys() & cut.keys()}
    return {
        "value": set(value.items()),
        "kept": set(kept.items()),
        "both": {(n, i) for n, i in both.items() if i != EMPTY},
        "has": {(n,) for n, i in value.items() if glb(i, (2, 3)) == (2, 3)},
        "apart": {(n,) for (n,) in facts["node"] if n not in value or glb(value[n], (2, 3)) == EMPTY},
        "within": {(n, i) for n, i in start if n in cut and glb(cut[n], i) == i},
        "every": {(i,) for i in put({}, [((), i) for i in value.values()]).values()},
        "two": {(n, i, j) for n, (i, j) in two.items()},
        "cut": set(cut.items()),
    }


def contents(found) -> dict[str, set]:
    return {name: found[name].to_set() for name in ("value", "kept", "both", "has", "apart", "within", "every", "two", "cut")}


numbers = st.integers(0, 4)
intervals = st.one_of(
    st.just(EMPTY), st.tuples(st.integers(LOW, HIGH), st.integers(0, 6)).map(lambda pair: (pair[0], min(HIGH, sum(pair))))
)
everything = st.fixed_dictionaries(
    {
        "node": st.just([(n,) for n in range(5)]),
        "start": st.lists(st.tuples(numbers, intervals), max_size=4),
        "edge": st.lists(st.tuples(numbers, numbers, st.integers(-2, 2)), max_size=8),
        "cut": st.lists(st.tuples(numbers, intervals), max_size=6),
    }
)


@settings(max_examples=60, **SETTINGS)
@given(everything)
def test_intervals(facts):
    assert contents(Program(INTERVALS, functors=FUNCTORS).run(facts)) == oracle(facts)


@settings(max_examples=4, **SETTINGS)
@given(facts=everything)
def test_intervals_on_partitions(here, facts):
    found = Program(INTERVALS, functors=FUNCTORS).run(facts, spark=here, local_tuples=0, buckets=3)
    assert contents(found) == oracle(facts)


@settings(max_examples=15, **SETTINGS)
@given(everything, everything)
def test_intervals_in_sessions(before, after):
    with Program(INTERVALS, functors=FUNCTORS).session(before) as session:
        assert contents(session) == oracle(before)
        for name in ("edge", "start", "cut"):
            session.delete(name, before[name])
            session.insert(name, after[name])
        assert contents(session) == oracle(after)


MASKS = """
.type Mask = number
.functor or(a: Mask, b: Mask): Mask
.functor and(a: Mask, b: Mask): Mask
.lattice Mask<> { Bottom -> 0, Lub -> @or(_, _), Glb -> @and(_, _) }
"""
BITS = {"or": lambda a, b: a | b, "and": lambda a, b: a & b}


def test_values_of_many_tuples_of_a_key_are_joined_at_once():
    text = MASKS + ".decl p(k: number, v: number)  .input p  .decl m(k: number, v: Mask<>)  .output m  m(k, v) :- p(k, v)."
    calls = []

    def either(a, b):
        calls.append((a, b))
        return a | b

    rows = [(k, 1 << at) for k in range(3) for at in range(20)]
    assert Program(text, functors=BITS | {"or": either}).run({"p": rows})["m"].to_set() == {(k, 2**20 - 1) for k in range(3)}
    assert len(calls) <= 19  # pairs that several keys have are asked for once


def test_facts_of_a_session_are_joined_and_come_apart():
    text = MASKS + ".decl m(k: number, v: Mask<>)  .input m  .decl q(k: number)  .output m, q  q(k) :- m(k, 6)."
    with Program(text, functors=BITS).session({"m": [(1, 2), (1, 4)]}) as session:
        assert (session["m"].to_set(), session["q"].to_set()) == ({(1, 6)}, {(1,)})
        session.insert("m", [(1, 8), (2, 6)])
        assert (session["m"].to_set(), session["q"].to_set()) == ({(1, 14), (2, 6)}, {(1,), (2,)})
        session.delete("m", [(1, 4)])
        assert (session["m"].to_set(), session["q"].to_set()) == ({(1, 10), (2, 6)}, {(2,)})


def test_registered_rules_know_the_lattices_of_the_session():
    text = MASKS + ".decl p(k: number, v: number)  .input p  .decl m(k: number, v: Mask<>)  .output m  m(k, v) :- p(k, v)."
    with Program(text, functors=BITS).session({"p": [(1, 2), (1, 4), (2, 4)]}) as session:
        session.register("all", ".decl all(v: Mask<>)  all(v) :- m(k, v), p(k, $n), m(_, 4).")
        assert session.query("all(v)", n=2).to_set() == {(6,)}


def test_what_is_less_is_there_as_well():
    rules = """
    .decl m(k: number, v: Mask<>)
    m(1, 5). m(1, 8). m(2, 4). m(3, 0).
    .decl q(k: number)   q(k) :- m(k, 12).
    .decl e(k: number)   e(k) :- m(k, v), v = 13.
    .decl n(k: number)   n(k) :- m(k, _), !m(k, 4).
    .decl c(n: number)   c(n) :- n = count : { m(_, 4) }.
    .output m, q, e, n, c
    """
    found = Program(MASKS + rules, functors=BITS).run()
    wanted = {"m": {(1, 13), (2, 4), (3, 0)}, "q": {(1,)}, "e": {(1,)}, "n": {(3,)}, "c": {(1,)}}
    assert {name: found[name].to_set() for name in wanted} == wanted


def test_branches_in_components():
    text = """
    .type Sign = Bottom {} | Negative {} | Zero {} | Positive {} | Top {}
    .functor lub(a: Sign, b: Sign): Sign
    .functor glb(a: Sign, b: Sign): Sign
    .lattice Sign<> { Bottom -> $Bottom(), Top -> $Top(), Lub -> @lub(_, _), Glb -> @glb(_, _) }
    .comp Signs {
        .decl of(n: number, s: Sign<>)
        of(n, $Zero()) :- n = range(-2, 3), n = 0.
        of(n, $Positive()) :- n = range(-2, 3), n > 0.
        of(n, $Negative()) :- n = range(-2, 3), n < 0.
        .decl total(what: symbol, s: Sign<>)
        .output total
        total("all", s) :- of(_, s).
        total("up", s) :- of(n, s), n > 0.
        total("none", s) :- of(1, s), of(-1, s).
    }
    .init signs = Signs
    """
    bottom, top = Branch("Bottom"), Branch("Top")
    functors = {
        "lub": lambda a, b: b if a in (b, bottom) else a if b == bottom else top,
        "glb": lambda a, b: b if a in (b, top) else a if b == top else bottom,
    }
    found = Program(text, functors=functors).run()
    assert found["signs.total"].to_set() == {("all", top), ("up", Branch("Positive"))}


def test_proofs():
    rules = ".decl p(k: number, v: number) .input p .decl m(k: number, v: Mask<>) .output m m(k, v) :- p(k, v)."
    found = Program(MASKS + rules, functors=BITS).run({"p": [(1, 4), (2, 1), (2, 2)]})
    assert "p(1, 4)" in str(found.why("m", (1, 4)))
    with pytest.raises(ValueError, match="least upper bound of several"):
        found.why("m", (2, 3))
    assert "of tuples with the same k there is one, and that is m(2, 3)" in str(found.why_not("m", (2, 1)))


def test_a_functor_that_fails_says_of_what():
    text = MASKS + ".decl m(k: number, v: Mask<>)  .output m  m(1, 1). m(1, 2)."
    with pytest.raises(EvaluationError, match=r"@or\(1, 2\)"):
        Program(text, functors=BITS | {"or": lambda a, b: 1 // 0}).run()


M = MASKS.strip()
GOOD = ".lattice Mask<> { Bottom -> 0, Lub -> @or(_, _), Glb -> @and(_, _) }"
WRONG = {
    "no Lub": (M.replace("Lub -> @or(_, _), ", ""), "Lattice Mask<> does not define Lub", 4),
    "unknown bound": (M.replace("Bottom ->", "Botom -> 0, Bottom ->"), "Botom is no bound of a lattice", 4),
    "twice": (M.replace("Bottom ->", "Bottom -> 0, Bottom ->"), "Lattice Mask<> defines Bottom more than once", 4),
    "two lattices": (M + "\n" + GOOD, "Redefinition of lattice Mask<>", 5),
    "no type": (M.replace(".lattice Mask<>", ".lattice Masks<>"), "Undefined type Masks", 4),
    "no functor": (M.replace("@or(_, _)", "3"), "Lub of lattice Mask<> is no functor", 4),
    "undeclared functor": (M.replace("@or(_, _)", "@nor(_, _)"), "Undefined user-defined functor nor", 4),
    "wrong types": (M.replace("or(a: Mask", "or(a: symbol"), "Functor or cannot be Lub of lattice Mask<>", 4),
    "Leq": (M.replace("Bottom ->", "Leq -> @or(_, _), Bottom ->"), "Functor or cannot be Leq of lattice Mask<>", 4),
    "wrong Bottom": (M.replace("Bottom -> 0", 'Bottom -> "0"'), "Symbol constant (type mismatch)", 4),
    "computed Bottom": (M.replace("Bottom -> 0", "Bottom -> x"), "Bottom of lattice Mask<> is not constant", 4),
    "no lattice": (M + "\n.decl m(v: number<>)", "There is no lattice number<>", 5),
    "order": (M + "\n.decl m(v: Mask<>, k: number)", "Attribute k comes after one of a lattice", 5),
    "eqrel": (
        M + "\n.decl m(v: Mask<>, w: Mask<>) eqrel",
        "Relation m has the qualifier eqrel and an attribute of a lattice",
        5,
    ),
    "inline": (M + "\n.decl m(v: Mask<>) inline", "Relation m has the qualifier inline and an attribute of a lattice", 5),
    "choice": (
        M + "\n.decl m(k: number, v: Mask<>) choice-domain k",
        "Relation m has an attribute of a lattice and a choice-domain",
        5,
    ),
    "subsumption": (
        M + "\n.decl m(k: number, v: Mask<>)\nm(k, v) <= m(k, w) :- v < w.",
        "Relation m has an attribute of a lattice and subsumptive rules",
        5,
    ),
    "head": (
        M + "\n.decl m(k: number, v: Mask<>)\nm(k, max(v)) :- m(k, v).",
        "Relation m has an attribute of a lattice and max in its heads",
        6,
    ),
    "field": (M + "\n.type P = [a: number, v: Mask<>]", "Field v cannot be of a lattice", 5),
    "not grounded": (
        M + "\n.decl m(v: Mask<>)\n.decl n(x: number)\nn(x) :- m(x + 1).",
        "Lattice argument is not grounded",
        7,
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_errors(case):
    text, message, line = WRONG[case]
    with pytest.raises(ProgramError) as error:
        Program(text, functors=BITS)
    assert (message, line) in [(problem.message, problem.span.line) for problem in error.value.problems]


def test_other_functors_are_not_stateful():
    with pytest.raises(ProgramError, match="functor f is stateful"):
        Program(MASKS + ".functor f(x: number): number stateful", functors=BITS)
    Program(MASKS + ".functor f(x: Mask): number stateful", functors=BITS)


IN_COMPONENTS = """
.comp Own<T> {
  .type Known = None {} | One {v: T} | Many {}
  .lattice Known<> { Bottom -> $None(), Lub -> @either(_, _), Glb -> @both(_, _) }
  .decl known(x: symbol, v: Known<>)
  .output known
}
.comp Flow<L> : Start<L> {
  .decl edge(x: symbol, y: symbol)
  value(y, v) :- value(x, v), edge(x, y).
  .decl common(v: L<>)
  common(v) :- value("b", v), value("c", v).
  .output common
}
.comp Start<L> {
  .lattice L<> { Bottom -> $own.None(), Lub -> @either(_, _), Glb -> @both(_, _) }
  .decl value(x: symbol, v: L<>)
  .output value
}
.functor either(a: own.Known, b: own.Known): own.Known stateful
.functor both(a: own.Known, b: own.Known): own.Known stateful
.init own = Own<number>
own.known("a", $own.One(1)).
own.known("a", $own.One(2)).
own.known("b", $own.One(2)).
"""
FLOWS = (
    IN_COMPONENTS.replace(".lattice Known<> { Bottom -> $None(), Lub -> @either(_, _), Glb -> @both(_, _) }", "")
    .replace("v: Known<>", "v: Known")
    .replace("own.Known", "Value")
    + ".type Value = own.Known"
)


def either(a, b):
    return b if a.name == "own.None" else a if b.name == "own.None" or a == b else Branch("own.Many")


def both(a, b):
    return b if a.name == "own.Many" else a if b.name == "own.Many" or a == b else Branch("own.None")


def test_a_component_has_a_lattice_of_its_own_type():
    with Program(IN_COMPONENTS, functors={"either": either, "both": both}).run() as result:
        assert result["own.known"].to_set() == {("a", Branch("own.Many")), ("b", Branch("own.One", 2))}


def test_a_component_has_a_lattice_of_its_parameter_once_for_all_instances():
    text = """
    .init one = Flow<Value>
    .init two = Flow<Value>
    one.edge("a", "b"). one.edge("b", "c").
    one.value("a", $own.One(1)). one.value("c", $own.One(2)).
    two.edge("a", "b").
    two.value("a", $own.One(7)).
    """
    with Program(FLOWS + text, functors={"either": either, "both": both}).run() as result:
        values = {("a", Branch("own.One", 1)), ("b", Branch("own.One", 1)), ("c", Branch("own.Many"))}
        assert result["one.value"].to_set() == values and result["one.common"].to_set() == {(Branch("own.One", 1),)}
        assert result["two.value"].to_set() == {("a", Branch("own.One", 7)), ("b", Branch("own.One", 7))}


def test_two_lattices_of_one_type_are_an_error_in_components_too():
    text = """
    .comp Other<L> { .lattice L<> { Bottom -> $own.None(), Lub -> @both(_, _), Glb -> @both(_, _) } }
    .init one = Flow<Value>
    .init two = Other<Value>
    """
    with pytest.raises(ProgramError, match="Redefinition of lattice Value<>"):
        Program(FLOWS + text)


@pytest.mark.parametrize("missing", ["Bottom -> [0, -1],", "Glb -> @glb(_, _),"])
def test_without_bottom_or_glb_values_are_compared_as_they_are(missing):
    text = """
    .type Interval = [low: number, high: number]
    .functor lub(a: Interval, b: Interval): Interval stateful
    .functor glb(a: Interval, b: Interval): Interval stateful
    .comp Ranges {
      .type Range = Interval
      .lattice Range<> { Bottom -> [0, -1], Glb -> @glb(_, _), Lub -> @lub(_, _) }
      .decl value(x: symbol, v: Range<>)
      value("a", [1, 3]). value("a", [5, 10]). value("b", [2, 4]). value("c", [2, 4]).
      value("grown", [low, high + 1]) :- value("grown", [low, high]), high < 20 ; low = 0, high = 9.
      .decl same(x: symbol, y: symbol)
      same(x, y) :- value(x, v), value(y, v), x != y.
      .decl one(x: symbol)
      one(x) :- value(x, [2, 4]).
      one(cat("not ", x)) :- value(x, _), !value(x, [2, 4]).
      .output value, same, one
    }
    .init r = Ranges
    """.replace(missing, "")
    program = Program(text, functors={"lub": lub, "glb": glb})
    assert f"does not define {missing.split(' ')[0]}" in program.checked.warnings[0].message
    with program.run() as result:
        values = {("a", (1, 10)), ("b", (2, 4)), ("c", (2, 4)), ("grown", (0, 20))}
        assert result["r.value"].to_set() == values and result["r.same"].to_set() == {("b", "c"), ("c", "b")}
        assert result["r.one"].to_set() == {("b",), ("c",), ("not a",), ("not grown",)}
