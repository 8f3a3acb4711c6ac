"""Aggregates before joins, and folded aggregates: random bodies, evaluated plainly by the oracle and in every layout."""

from collections import Counter

import numpy as np
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
from semi_naive.ra.reduce import group_numbers
from semi_naive.ra.rules import aggregated, derive, folding
from semi_naive.running.relations.cluster import Cluster
from semi_naive.running.run import ProgramRun

VALUES = {
    "number": st.sampled_from([-(2**63), -7, -1, 0, 1, 3, 2**62, 2**63 - 1]),
    "unsigned": st.sampled_from([0, 1, 5, 2**63, 2**64 - 1]),
    "float": st.sampled_from([-2.5, -1.0, 0.0, 0.25, 3.0]),  # sums of their products are exact, in any order
}
PAIRS = st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12)
GIVEN = """.decl e(x: number, y: number)
.input e
.decl f(x: number, y: number)
.input f
.decl t(x: number, y: number, z: number)
.input t
.decl w(x: number, v: KIND)
.input w
"""

DIAMONDS = "number", "s(count(a, b, c, d)) :- e(a, b), f(b, d), e(a, c), f(c, d), b < c."
SHAPES = [  # the types of the head, and the rule; KIND is that of the values in w
    ("number KIND", "s(a, sum(v)) :- e(a, b), w(b, v)."),
    ("number KIND", "s(a, sum(v * u)) :- e(a, b), w(b, v), f(a, c), w(c, u)."),
    ("KIND", "s(sum(v)) :- e(a, b), f(b, c), w(c, v), e(c, _)."),
    DIAMONDS,
    ("number number", "s(a, count(b, c, d)) :- e(a, b), f(b, d), e(a, c), f(c, d), b >= c."),
    ("number number number", "s(a, d, count(b, c)) :- e(a, b), f(b, d), e(a, c), f(c, d), b != c."),
    ("number number", "s(a, count(b, c, d)) :- e(a, b), f(b, d), e(a, c), f(c, d)."),
    ("number KIND", "s(a, sum(v)) :- e(a, b), f(b, d), e(a, c), f(c, d), b < c, w(d, v)."),
    ("number number KIND KIND", "s(a, count(b, c), sum(v), min(v)) :- e(a, b), e(a, c), w(a, v), b < c."),
    ("number KIND number", "s(a, max(v), count(b, c, v)) :- e(a, b), f(b, c), w(c, v), !f(c, a)."),
    ("number number number", "s(a, d, count(b, k)) :- t(k, k, 1), k < 2, e(a, b), f(b, d)."),
    ("number", "s(n) :- n = count : { e(a, b), f(b, c), e(c, d), f(d, h) }."),
    ("number", "s(n) :- n = count : { e(a, b), f(b, c), e(c, d), e(c, h), d < h, 0 < a }."),
    ("number KIND", "s(a, n) :- e(a, _), n = sum v : { e(a, b), f(b, c), w(c, v) }."),
    ("number KIND", "s(a, n) :- e(a, _), n = max v : { e(a, b), f(b, c), w(c, v), t(b, _, _) }."),
    ("number", "s(n) :- n = count : { e(a, b), f(b, c), e(a, c) }."),
    ("KIND", "s(sum(v)) :- e(a, b), f(b, c), e(a, c), e(b, d), w(d, v)."),
    ("number KIND", "s(b, sum(v)) :- e(a, b), f(b, c), e(a, c), w(c, v), a != c."),
    ("number number", "s(h, n) :- e(h, _), n = count : { e(a, b), f(b, c), e(a, c), t(a, _, _) }."),
    (
        "number number KIND",
        "s(a, n, m) :- e(a, _), n = sum c : { e(a, b), f(b, c) }, m = sum v : { e(a, b), f(b, c), w(c, v) }.",
    ),
    ("number float", "s(a, sum(to_float(c) * 0.5 / 4.0)) :- e(a, b), f(b, c)."),
    ("number float", "s(a, mean(to_float(c))) :- e(a, b), f(b, c)."),
    ("number number", "s(a, n) :- e(a, _), n = sum 6 / b : { e(a, b), f(b, c), e(c, _), 0 < b }."),
]


def with_head(kinds: list[str], rule: str) -> str:
    columns = ", ".join(f"c{place}: {kind}" for place, kind in enumerate(kinds))
    return f".decl s({columns})\n.output s\n{rule}"


@st.composite
def random_rules(draw):
    """A rule whose head aggregates, or with an aggregate in its body, over one to six literals."""
    names = draw(st.lists(st.sampled_from("abcdgh"), min_size=2, max_size=4, unique=True))
    term = st.one_of(*[st.sampled_from(names)] * 5, st.sampled_from(["_", "2"]))
    atoms = []
    for number in range(draw(st.integers(1, 4))):
        relation, arity = draw(st.sampled_from([("e", 2), ("e", 2), ("f", 2), ("f", 2), ("t", 3), ("w", 1)]))
        terms = draw(st.lists(term, min_size=arity, max_size=arity)) + [f"v{number}"] * (relation == "w")
        atoms.append((relation, *terms))
    if draw(st.booleans()):  # two parts that differ in one variable
        one = draw(st.sampled_from(names))
        atoms += [again for atom in atoms if (again := tuple("z" if each == one else each for each in atom)) != atom]
    used = {each for _, *terms in atoms for each in terms}
    bound, values = sorted(used & {*names, "z"}), sorted(each for each in used if each[0] == "v")
    body = [f"{relation}({', '.join(terms)})" for relation, *terms in dict.fromkeys(atoms)]
    if len(bound) > 1 and draw(st.booleans()):
        one, other = draw(st.permutations(bound))[:2]
        body.append(f"{one} {draw(st.sampled_from(['<', '<=', '>', '>=', '!=']))} {other}")
    if bound and not draw(st.integers(0, 4)):
        body.append(f"!f({draw(st.sampled_from(bound))}, {draw(st.sampled_from([*bound, '1']))})")
    keys = draw(st.lists(st.sampled_from(bound), max_size=2, unique=True)) if bound else []
    inner, op = [name for name in bound if name not in keys], draw(st.sampled_from(["count", "sum", "min", "max"]))
    if not values and not inner:
        op = "count"
    target = draw(st.sampled_from(values or inner)) if op != "count" else ""
    kinds = ["number"] * len(keys) + ["KIND" if op != "count" and values else "number"]
    factors = values or inner
    target += f" * {draw(st.sampled_from(factors))}" if target and draw(st.booleans()) else ""
    if draw(st.booleans()):
        counted = ", ".join(sorted(used - {"_", "2"})) or "1"
        return with_head(kinds, f"s({', '.join([*keys, f'{op}({target or counted})'])}) :- {', '.join(body)}.")
    outer = "".join(f"e({key}, _), " for key in keys)
    return with_head(kinds, f"s({', '.join([*keys, 'r'])}) :- {outer}r = {op} {target} : {{ {', '.join(body)} }}.")


@st.composite
def cases(draw):
    """(the text of a program, facts)."""
    kind = draw(st.sampled_from(sorted(VALUES)))
    shapes = st.sampled_from(SHAPES).map(lambda one: with_head(one[0].split(), one[1]))
    facts = {
        "e": draw(PAIRS), "f": draw(PAIRS), "w": draw(st.sets(st.tuples(st.integers(0, 4), VALUES[kind]), max_size=8)),
        "t": draw(st.sets(st.tuples(*[st.integers(0, 2)] * 3), max_size=8)),
    }  # fmt: skip
    return (GIVEN + draw(st.one_of(random_rules(), shapes))).replace("KIND", kind), facts


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
    monkeypatch.setattr(Cluster, "driver_cores", 1 if request.param == "alone" else 3)
    if request.param == "hashed":
        monkeypatch.setattr(group_numbers, "MAX_DENSE_KEY", 2)
        monkeypatch.setattr(folding, "MAX_COUNTED_VALUE", 2)
        monkeypatch.setattr(group_numbers, "INITIAL_GROUPS", 1)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cases())
def test_every_way_to_fold_gives_the_same(folding_by, case):
    text, facts = case
    program = Program(text)
    wanted = canonical(solve(program.checked, facts)["s"])
    for early, multiway in ((True, "auto"), (True, "always"), (False, "auto"), (False, "always")):
        compiled = program.compile(facts, once=early)
        with ProgramRun(program, compiled, Config(multiway=multiway)).run(facts, False) as result:
            assert canonical(result["s"].to_set()) == wanted, "\n".join(map(str, compiled.program.rules))


@settings(max_examples=60, deadline=None)
@given(cases(), st.sampled_from(layouts(1 << 30, 100, 0)))
def test_partitions_give_the_same(case, config):
    text, facts = case
    program = Program(text)
    with in_this_process() as here, program.run(facts, here, config) as result:
        assert canonical(result["s"].to_set()) == canonical(solve(program.checked, facts)["s"])


@settings(max_examples=40, deadline=None)
@given(cases(), st.lists(st.tuples(st.booleans(), st.sampled_from("ef"), st.tuples(*[st.integers(0, 4)] * 2)), max_size=4))
def test_a_session_follows_to_the_same(case, changes):
    text, facts = case
    program = Program(text)
    with program.session(facts) as session:
        for insert, name, row in changes:
            (session.insert if insert else session.delete)(name, [row])
            facts[name] = facts[name] | {row} if insert else facts[name] - {row}
            assert canonical(session["s"].to_set()) == canonical(solve(program.checked, facts)["s"])


BY_SQL = {  # with the same meaning as the rule
    "s(a, sum(c)) :- e(a, b), f(b, c).": "select e.x, sum(f.y) from e join f on e.y = f.x group by e.x",
    "s(a, count(b, c)) :- e(a, b), f(b, c), c < b.": """select e.x, count(*) from e join f on e.y = f.x where f.y < e.y
        group by e.x""",
    "s(a, max(c)) :- e(a, b), f(b, c).": "select e.x, max(f.y) from e join f on e.y = f.x group by e.x",
    "s(a, count(b, c, d)) :- e(a, b), f(b, d), e(a, c), f(c, d), b < c.": """select p.x, count(*) from e p
        join f q on p.y = q.x join e r on r.x = p.x join f t on t.x = r.y and t.y = q.y where p.y < r.y group by p.x""",
    "s(0, n) :- n = count : { e(a, b), f(b, c), e(c, d), f(d, h) }.": """select 0, count(*) from e p join f q on p.y = q.x
        join e r on r.x = q.y join f t on t.x = r.y""",
    "s(a, n) :- e(a, a), n = sum c * d : { e(a, b), f(b, c), f(b, d) }.": """select p.x, sum(q.y * r.y) from e p
        join f q on p.y = q.x join f r on r.x = p.y
        where exists (select 1 from e where e.x = p.x and e.y = p.x) group by p.x""",
}  # fmt: skip


@pytest.mark.parametrize("rule", BY_SQL)
@pytest.mark.parametrize("most", [40, 3000, 2**40])
def test_many_bindings_are_aggregated_as_by_duckdb(rule, most):
    """Small numbers are counted in arrays, larger ones in hash tables."""
    duckdb, random = pytest.importorskip("duckdb"), np.random.default_rng(5)
    rows = {name: np.unique(random.integers(0, 400, (8000, 2)) ** 3 % most, axis=0) for name in "ef"}
    program = Program(f"{GIVEN.replace('KIND', 'number')}.decl s(a: number, n: number)\n.output s\n{rule}")
    with duckdb.connect() as database, program.run(rows | {"t": [], "w": []}) as result:
        for name, pairs in rows.items():
            x, y = pairs.T
            database.register("given", {"x": x, "y": y})
            database.execute(f"create table {name} as select * from given")
        wanted = {(a, (n + 2**63) % 2**64 - 2**63) for a, n in database.execute(BY_SQL[rule]).fetchall()}
        assert result["s"].to_set() == wanted


@pytest.mark.parametrize("edges, guarded", [([(1, 2)], True), ([(x, x % 50) for x in range(3000)], False)])
def test_groups_that_few_bindings_need_are_the_only_ones_made(edges, guarded):
    """The planner keeps the guards of a partial aggregate if they are few, and leaves them out if there are many."""
    text = GIVEN.replace("KIND", "number") + ".decl s(a: number, n: number)\n.output s\ns(a, sum(c)) :- e(a, b), f(b, c)."
    facts = {"e": edges, "f": [(b, c) for b in range(50) for c in range(60)], "t": [], "w": []}
    with Program(text).run(facts) as result:
        assert result["s"].to_set() == {(a, sum(range(60))) for a, _ in edges}
        made = {entry["relations"][0]: entry["tuples"] for entry in result.trace["strata"]}
        assert made["early@1"] == (1 if guarded else 50)


@pytest.mark.parametrize("parameters, counted", [([], 0), ([1], 1), ([1, 2], 2)])
def test_pairs_are_counted_by_rows_for_each_binding_of_parameters(parameters, counted, monkeypatch):
    """Parameters that are only counted multiply the counts of pairs."""
    head = with_head(["number"] * 3, "s(a, d, count(b, k)) :- p(k), e(a, b), f(b, d).")
    text = GIVEN.replace("KIND", "number") + f".decl p(k: number)\n.input p\n{head}"
    edges, made = [(x, y) for x in range(9) for y in range(x)], []
    monkeypatch.setattr(folding.Pairs, "of", lambda *given, of=folding.Pairs.of: made.append(of(*given)) or made[-1])
    facts = {"e": edges, "f": edges, "t": [], "w": [], "p": [(k,) for k in parameters]}
    with Program(text).run(facts) as result:
        paths = Counter((a, d) for a, b in edges for c, d in edges if b == c)
        assert result["s"].to_set() == {(a, d, n * counted) for (a, d), n in paths.items() if counted}
    assert [pairs.weight for pairs in made] == [max(counted, 1)]


def test_a_relation_whose_groups_one_rule_folds_has_no_table():
    text = GIVEN.replace("KIND", "number") + with_head(
        ["number"], "s(count(a, b, c, d)) :- e(a, b), f(b, d), e(a, c), f(c, d), b < c."
    )
    edges = [(x, y) for x in range(9) for y in range(9)]
    facts = {"e": edges, "f": edges, "t": [], "w": []}
    for config, tuples in ((Config(), 0), (Config(local_tuples=0, partitions=2), 81)):
        with in_this_process() as here, Program(text).run(facts, here, config) as result:
            assert result["s"].to_list() == [(81 * 36,)]
            assert {entry["relations"][0]: entry["tuples"] for entry in result.trace["strata"]}["early@1"] == tuples


def test_an_error_of_a_value_that_no_binding_needs_is_not_raised():
    """A part is summed before the join only if its operators have a value for all numbers."""
    text = GIVEN.replace("KIND", "number") + ".decl s(a: number, n: number)\n.output s\ns(a, sum(6 / c)) :- e(a, b), f(b, c)."
    facts = {"e": [(x, 1) for x in range(9)], "f": [(1, 2), (2, 0)], "t": [], "w": []}
    with Program(text).run(facts) as result:
        assert result["s"].to_set() == {(x, 3) for x in range(9)}
