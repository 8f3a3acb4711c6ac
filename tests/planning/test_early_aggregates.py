"""Aggregates before joins, and aggregates that are folded: random bodies, evaluated plainly by the oracle and in every layout."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.fuzz.checks import layouts
from bench.fuzz.jobs_here import in_this_process
from bench.fuzz.operators import canonical
from bench.fuzz.oracle import solve
from semi_naive import Config, Program
from semi_naive.language import compile_text
from semi_naive.planning.rewriting.early_aggregates import aggregate_early
from semi_naive.ra.rules import aggregated, derive, folding
from semi_naive.running.relations.cluster import Cluster
from semi_naive.running.run import ProgramRun

KINDS = {
    "number": st.sampled_from([-(2**63), -7, -1, 0, 1, 3, 2**62, 2**63 - 1]),
    "unsigned": st.sampled_from([0, 1, 5, 2**63, 2**64 - 1]),
    "float": st.sampled_from([-1e300, -2.5, 0.0, 0.25, 3.0, 1e300]),  # few of the large ones add up without rounding
}
SMALL_FLOATS = st.sampled_from([-2.5, -1.0, 0.0, 0.25, 3.0])  # every order of adding and multiplying gives the same sum
VARIABLES = "abcdgh"
PAIRS = st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12)


def declared(kind: str) -> str:
    columns = {"e": "x: number, y: number", "f": "x: number, y: number", "w": f"x: number, v: {kind}", "t": "x: number, y: number, z: number"}
    return "".join(f".decl {name}({columns[name]})\n.input {name}\n" for name in columns)


@st.composite
def bodies(draw, kind: str):
    """(literals, the variables of numbers that they bind, the variables of the other kind)."""
    names, literals, weights = draw(st.lists(st.sampled_from(VARIABLES), min_size=2, max_size=5, unique=True)), [], []
    for number in range(draw(st.integers(1, 4))):
        relation = draw(st.sampled_from("eeffwt"))
        terms = [draw(st.sampled_from(names)) if draw(st.integers(0, 9)) else draw(st.sampled_from(["_", "2"])) for _ in range(3)]
        if relation == "w":
            weights.append(f"v{number}")
            literals.append(f"w({terms[0]}, v{number})")
        else:
            literals.append(f"{relation}({', '.join(terms[: 3 if relation == 't' else 2])})")
    bound = [name for name in names if any(name in literal.partition("(")[2].replace(")", "").split(", ") for literal in literals)]
    if len(bound) > 1 and draw(st.booleans()):
        one, other = draw(st.permutations(bound))[:2]
        literals.append(f"{one} {draw(st.sampled_from(['<', '<=', '>', '>=', '!=']))} {other}")
    if bound and not draw(st.integers(0, 4)):
        literals.append(f"!f({draw(st.sampled_from(bound))}, {draw(st.sampled_from([*bound, '1']))})")
    if draw(st.booleans()) and len(bound) > 1:  # the same with another name for one variable: pairs
        one = draw(st.sampled_from(bound))
        literals += [again for literal in literals if (again := renamed(literal, one)) != literal and "<" not in literal and ">" not in literal and "!" not in literal]
        literals += [f"{one} {draw(st.sampled_from(['<', '>=', '!=']))} z"] * draw(st.integers(0, 1))
    return [*dict.fromkeys(literals)], bound, weights


def renamed(literal: str, name: str) -> str:
    relation, _, terms = literal.partition("(")
    return f"{relation}({', '.join('z' if term == name else term for term in terms[:-1].split(', '))})"


@st.composite
def programs(draw, kind: str):
    literals, bound, weights = draw(bodies(kind))
    body, whole = ", ".join(literals), draw(st.booleans())
    keys = draw(st.lists(st.sampled_from(bound), max_size=2, unique=True)) if bound else []
    ops = ["count", *(["sum", "min", "max"] if weights or bound else [])]
    wanted = []
    for _ in range(draw(st.integers(1, 2)) if whole else 1):
        op = draw(st.sampled_from(ops))
        of = draw(st.sampled_from([None, *weights] if weights else [None])) if op != "count" else None
        inner = [name for name in bound if name not in keys]
        target, made = (of, kind) if of else (draw(st.sampled_from(inner)), "number") if inner else (None, "number")
        if op != "count" and target and made != "float" and draw(st.booleans()):
            target = f"{target} * {draw(st.sampled_from(weights if made == kind and weights else [target]))}"
        if op != "count" and target is None:
            op = "count"
        wanted.append((op, target, "number" if op == "count" else made))
    columns = [f"{key}: number" for key in keys] + [f"r{place}: {made}" for place, (_, _, made) in enumerate(wanted)]
    relation = f".decl s({', '.join(columns)})\n.output s\n"
    if whole:
        every = ", ".join(dict.fromkeys([*bound, *(["z"] if "z" in body.replace("!", "").split("(", 1)[1] else []), *weights]))
        shown = [f"count({every or 1})" if op == "count" else f"{op}({target})" for op, target, _ in wanted]
        return f"{relation}s({', '.join([*keys, *shown])}) :- {body}."
    (op, target, _), = wanted
    outer = "".join(f"e({key}, _), " for key in keys)
    return f"{relation}s({', '.join([*keys, 'r'])}) :- {outer}r = {op} {target if op != 'count' else ''} : {{ {body} }}."


SHAPES = [
    "s(a, sum(v)) :- e(a, b), w(b, v).",
    "s(a, sum(v * u)) :- e(a, b), w(b, v), f(a, c), w(c, u).",
    "s(sum(v)) :- e(a, b), f(b, c), w(c, v), e(c, _).",
    "s(count(a, b, c, d)) :- e(a, b), f(b, d), e(a, c), f(c, d), b < c.",
    "s(a, count(b, c, d)) :- e(a, b), f(b, d), e(a, c), f(c, d), b >= c.",
    "s(a, d, count(b, c)) :- e(a, b), f(b, d), e(a, c), f(c, d), b != c.",
    "s(a, count(b, c, d)) :- e(a, b), f(b, d), e(a, c), f(c, d).",
    "s(a, sum(v)) :- e(a, b), f(b, d), e(a, c), f(c, d), b < c, w(d, v).",
    "s(a, count(b, c), sum(v), min(v)) :- e(a, b), e(a, c), w(a, v), b < c.",
    "s(a, max(v), count(b, c, v)) :- e(a, b), f(b, c), w(c, v), !f(c, a).",
    "s(n) :- n = count : { e(a, b), f(b, c), e(c, d), f(d, h) }.",
    "s(n) :- n = count : { e(a, b), f(b, c), e(c, d), e(c, h), d < h, 0 < a }.",
    "s(a, n) :- e(a, _), n = sum v : { e(a, b), f(b, c), w(c, v) }.",
    "s(a, n) :- e(a, _), n = max v : { e(a, b), f(b, c), w(c, v), t(b, _, _) }.",
    "s(a, mean(to_float(c))) :- e(a, b), f(b, c).",
    "s(a, n) :- e(a, _), n = sum 6 / b : { e(a, b), f(b, c), e(c, _), 0 < b }.",
]  # fmt: skip


@st.composite
def shaped(draw, kind: str):
    """One of the shapes, with the types of its head."""
    rule = draw(st.sampled_from(SHAPES))
    args = rule.partition("s(")[2].partition(") :-")[0].replace("count(a, b, c, d)", "n").replace("count(b, c, d)", "n").replace("count(b, c, v)", "n").replace("count(b, c)", "n")
    columns = []
    for place, arg in enumerate(args.split(", ")):
        made = kind if "(v" in arg or arg == "n" and " v :" in rule else "number"
        columns.append(f"c{place}: {'float' if 'mean' in arg else made}")
    return f".decl s({', '.join(columns)})\n.output s\n{rule}"


@st.composite
def cases(draw):
    kind = draw(st.sampled_from(sorted(KINDS)))
    values = SMALL_FLOATS if kind == "float" else KINDS[kind]
    facts = {
        "e": draw(PAIRS), "f": draw(PAIRS), "w": draw(st.sets(st.tuples(st.integers(0, 4), values), max_size=8)),
        "t": draw(st.sets(st.tuples(*[st.integers(0, 2)] * 3), max_size=8)),
    }  # fmt: skip
    return declared(kind) + draw(st.one_of(programs(kind), shaped(kind))), facts


@settings(max_examples=400, deadline=None)
@given(cases())
def test_the_pass_keeps_the_meaning(case):
    text, facts = case
    before = compile_text(text)
    after = aggregate_early(before)
    assert solve(after, facts)["s"] == solve(before, facts)["s"], "\n".join(map(str, after.rules))


@pytest.fixture(params=["dense", "hashed", "alone"])
def folding_by(request, monkeypatch):
    """How aggregates are folded: by small numbers or a hash table, on several threads or one."""
    monkeypatch.setattr(derive, "MIN_SLICE_BINDINGS", 1)
    monkeypatch.setattr(aggregated, "MIN_SLICE_GROUPS", 1)
    monkeypatch.setattr(Cluster, "here", 1 if request.param == "alone" else 3)
    if request.param == "hashed":
        monkeypatch.setattr(folding, "MAX_DENSE_KEY", 2)
        monkeypatch.setattr(folding, "MAX_COUNTED_VALUE", 2)
        monkeypatch.setattr(folding, "FIRST_ROWS", 1)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cases())
def test_every_way_to_fold_gives_the_same(folding_by, case):
    text, facts = case
    program = Program(text)
    wanted = canonical(solve(program.checked, facts)["s"])
    for early in (True, False):
        compiled = program.compile(facts, early=early)
        with ProgramRun(program, compiled, Config()).run(facts, False) as result:
            assert canonical(result["s"].to_set()) == wanted, "\n".join(map(str, compiled.program.rules))


@settings(max_examples=60, deadline=None)
@given(cases(), st.sampled_from(layouts(1 << 30, 100, 0)))
def test_partitions_give_the_same(case, config):
    text, facts = case
    program = Program(text)
    with in_this_process() as here, program.run(facts, here, config) as result:
        assert canonical(result["s"].to_set()) == canonical(solve(program.checked, facts)["s"])


@settings(max_examples=40, deadline=None)
@given(cases(), st.lists(st.tuples(st.booleans(), st.sampled_from("ef"), st.tuples(st.integers(0, 4), st.integers(0, 4))), max_size=4))
def test_a_session_follows_to_the_same(case, changes):
    text, facts = case
    program = Program(text)
    with program.session(facts) as session:
        for insert, name, row in changes:
            (session.insert if insert else session.delete)(name, [row])
            facts[name] = facts[name] | {row} if insert else facts[name] - {row}
            assert canonical(session["s"].to_set()) == canonical(solve(program.checked, facts)["s"])
