"""Rules with cyclic bodies: the same answers whichever way they are joined, and a plan that says why."""

import itertools
import re

import numpy as np
import pytest
from test_golden import expected, written

from bench.fuzz.checks import check
from bench.fuzz.random_programs import cyclic_case
from bench.fuzz.rounds import random_cases
from semi_naive import Config, Program, ProgramError
from semi_naive.graphs import generators
from semi_naive.planning.joins import multiway
from semi_naive.planning.joins.order import binary_steps
from semi_naive.planning.joins.trial import run_trial
from semi_naive.ra.by_variable import multiway as step
from semi_naive.ra.ir import Atom, Const, Kind, Var
from semi_naive.ra.multiway import leapfrog
from semi_naive.running.run import ProgramRun
from tests import multiway_cases

NUMBER = Kind.NUMBER
MODES = ("auto", "always", "never")


@pytest.fixture
def interpreted(monkeypatch):
    """Kernels are interpreted, and nothing is too small for them."""
    leapfrog.nest.cache_clear()
    monkeypatch.setattr(leapfrog, "compile_kernel", multiway_cases.interpreted)
    for module, name in (
        (multiway, "MIN_TRIE_BINDINGS"),
        (step, "MIN_TRIE_BINDINGS"),
        (step, "BINDINGS_PER_CALL"),
        (step, "BINDINGS_PER_SEED"),
    ):
        monkeypatch.setattr(module, name, 0)
    monkeypatch.setattr(multiway, "MIN_ACYCLIC_TUPLES", 0)
    yield
    leapfrog.nest.cache_clear()


@random_cases(100, cyclic_case)
def test_cyclic_bodies_agree_with_the_oracle(case, random, interpreted):
    check(case, *(Config(multiway=mode) for mode in MODES))


@random_cases(100)
def test_any_program_can_be_joined_variable_by_variable(case, random, interpreted):
    check(case, Config(multiway="always"))


NEAR = """
.decl edge(x: symbol, y: symbol)
.decl start(x: symbol)
.decl near(x: symbol)
.output near
near(x) :- start(x).
near(t) :- near(x), edge(x, y), edge(y, z), edge(x, z), !start(z), edge(z, t).
.decl corner(x: symbol, z: symbol)
.output corner
corner(x, z) :- edge(x, y), edge(y, z), edge(z, x), edge(z, "b").
"""


def letters() -> dict:
    some = np.random.default_rng(3).integers(0, 12, (70, 2))
    return {"edge": [("abcdefghijkl"[a], "abcdefghijkl"[b]) for a, b in some], "start": [("a",)]}


def test_partitions_share_the_first_variable_and_start_from_their_deltas(here):
    with Program(NEAR).run(letters(), multiway="never") as expected:
        assert min(len(expected["near"]), len(expected["corner"])) > 3
        with Program(NEAR).run(letters(), here, local_tuples=0, partitions=3, multiway="always") as result:
            assert all(result[name].to_set() == expected[name].to_set() for name in expected)
            assert [stratum["plan"] for stratum in result.trace["strata"]] == ["balanced"] * 2
            assert result.explain().count("variable by variable") == 2
            assert "variable by variable, a share on each partition" in result.explain()


def test_the_golden_programs_are_the_same_variable_by_variable(interpreted, tmp_path, capsys):
    for name in ("triangles", "generations", "floats", "shortest", "mutual"):
        (tmp_path / name).mkdir()
        assert written(name, tmp_path / name, capsys, config=Config(multiway="always")) == expected(name)


GRAPH = np.unique(generators.rmat(10, 8 << 10, seed=1), axis=0)
TRIANGLES = """
.decl edge(x: number, y: number)
.decl corner(x: number, t: number)
.output corner
"""


def explained(rule: str, facts=GRAPH, **options) -> str:
    return Program(TRIANGLES + rule).explain({"edge": facts}, config=Config(**options))


def test_explain_says_what_is_joined_variable_by_variable_and_why(monkeypatch):
    monkeypatch.setattr(multiway, "MIN_TRIE_BINDINGS", 100_000)
    rule = "corner(x, t) :- edge(x, y), edge(y, z), edge(x, z), x < y, edge(z, t)."
    text = explained(rule)
    found = re.search(r"1\. edge\(x, y\), edge\(y, z\), edge\(x, z\)\s+variable by variable → [\d,]+ bindings; (.*)\n", text)
    assert re.fullmatch(r"the cyclic core: binary joins are expected to make [\d,]+ bindings", found[1])
    assert "     within: x < y\n" in text
    assert "2. edge(z, t)" in text and "the last atom" in text
    assert "the body is cyclic; binary joins as Config.multiway asks" in explained(rule, multiway="never")
    monkeypatch.undo()
    few = re.search("the body is cyclic; (binary joins all the same: .* make [0-9,]+ bindings)\n", explained(rule, GRAPH[:50]))
    assert few


def test_explain_of_recursion():
    static = "corner(x, t) :- edge(x, t), x < 5.\ncorner(x, z) :- corner(x, y), edge(y, z), edge(x, z)."
    text = explained(static)
    assert re.search(r"2\. edge\(y, z\), edge\(x, z\)\s+variable by variable → [\d,]+ bindings; the cyclic core\n", text)
    assert re.search(r"by binary joins as long as they are expected to make few bindings, [\d,]+ of each\n", text)
    growing = "corner(x, t) :- edge(x, t).\ncorner(x, z) :- corner(x, y), corner(y, z), edge(x, z), x < 9."
    assert "the body is cyclic; binary joins all the same, as corner grows in each iteration" in explained(growing)


def test_acyclic_bodies_are_joined_atom_by_atom():
    chain = "corner(x, t) :- edge(x, y), edge(y, z), edge(z, t)."
    assert "variable by variable" not in explained(chain)
    assert "1. edge(x, y), edge(y, z), edge(z, t)" in explained(chain, multiway="always")


def test_a_plan_is_an_order_of_binary_joins():
    text = explained("corner(x, z) :- edge(x, y), edge(y, z), edge(x, z).\n.plan 0: (3, 1, 2)", multiway="always")
    assert "the body is cyclic; binary joins as .plan asks" in text and "given by .plan" in text


def test_a_rule_may_say_how_it_is_joined(interpreted):
    chain, triangle = "edge(x, y), edge(y, z), edge(z, t).", "edge(x, y), edge(y, z), edge(x, z)."
    text = explained(f"corner(x, t) :- {chain} .join multiway", multiway="never")
    assert "1. edge(x, y), edge(y, z), edge(z, t)" in text and "all atoms, as .join asks" in text
    text = explained(f"corner(x, z) :- {triangle} .join binary", multiway="always")
    assert "the body is cyclic; binary joins as .join asks" in text and "variable by variable" not in text
    facts = {"edge": np.random.default_rng(2).integers(0, 9, (40, 2))}
    for body in (chain.replace("t", "z2"), triangle):
        answers = []
        for hint in (".join multiway", ".join binary", ""):
            with Program(TRIANGLES + f"corner(x, z) :- {body} {hint}").run(facts) as result:
                answers.append(result["corner"].to_set())
        assert answers[0] == answers[1] == answers[2] != set()
    with pytest.raises(ProgramError, match="the kind of join leapfrog is unknown"):
        Program(TRIANGLES + f"corner(x, z) :- {triangle} .join leapfrog")


def test_nothing_is_shared_out_of_a_cycle():
    """Two edges of each triangle are alike; all of them would be many more than there are triangles."""
    declared, wedge = ".decl near(x: number, z: number) .input edge, near", "corner(x, z) :- edge(x, y), edge(y, z)"
    for rest in ("near(x, z)", "near(z, x)"), ("x < 5", "z < 5"):
        text = Program(TRIANGLES + declared + "".join(f"\n{wedge}, {last}." for last in rest)).explain()
        assert ("shared.1(x, z) :- edge(x, y), edge(y, z)" in text) == ("near(x, z)" not in rest)


def test_config_knows_the_ways():
    with pytest.raises(ValueError, match="Config.multiway is 'sometimes': expected one of auto, always, never"):
        Config(multiway="sometimes")


@pytest.mark.parametrize(
    ("atoms", "core"),
    [
        (["xy", "yz", "xz"], [0, 1, 2]),
        (["xy", "yz", "xz", "zt", "x"], [0, 1, 2, 4]),
        (["xyz", "xy", "yz", "xz"], []),  # one edge has them all
        (["xy", "yz", "zt", "tx", "tu"], [0, 1, 2, 3]),
        (["xy", "xz", "xt", "zu"], []),
        (["xy", "yz", "zx", "xt", "uv", "vw", "wz", "zu"], [0, 1, 2, 4, 5, 6, 7]),  # a triangle and a square at one corner
        (["ab", "bc", "ca", "xy", "yz", "zt", "tx"], [3, 4, 5, 6]),  # the larger of two that nothing connects
        ([], []),
    ],
)
def test_what_is_left_without_ears(atoms, core):
    body = [Atom("e", tuple(Var(name, NUMBER) for name in names)) for names in atoms]
    assert sorted(multiway.core_of(dict(enumerate(body)))) == core


def test_an_aggregate_counts_what_loops_find(interpreted):
    rule = "corner(n, 0) :- n = count : { edge(x, y), edge(y, z), edge(x, z), x != 5 }."
    program = Program(TRIANGLES + rule)
    facts = {"edge": np.random.default_rng(1).integers(0, 9, (40, 2))}
    edges = set(map(tuple, facts["edge"].tolist()))
    found = sum((x, z) in edges and x != 5 for x, y in edges for other, z in edges if other == y)
    for mode in MODES:
        with program.run(facts, multiway=mode) as result:
            assert result["corner"].to_list() == [(found, 0)]
    text = program.explain(facts, multiway="always")
    assert re.search(r"each edge\(.*\), edge\(.*\), edge\(.*\), variable by variable", text)
    bound = TRIANGLES + "corner(x, n) :- edge(x, _), n = count : { edge(x, y), edge(y, z), edge(x, z) }."
    assert "variable by variable" not in Program(bound).explain(facts, multiway="always")


CHAIN = """
.decl a(x: number, y: number)
.decl b(x: number, y: number)
.decl c(x: number, y: number)
.decl out(x: number, y: number, w: number)
.input a, b, c
.output out
out(x, y, w) :- a(x, y), b(y, z), c(z, w).
"""


def hubs(many: int, few: int) -> dict:
    """All of a lead to a hub of b, and all of c start from another; of what the first leads to, one is the second."""
    b = [(0, z) for z in range(many)] + [(y, 0) for y in range(many)]
    return {"a": [(x, 0) for x in range(few)], "b": b, "c": [(0, w) for w in range(few)]}


def test_a_chain_that_makes_bindings_which_lead_nowhere(interpreted):
    """Binary joins make 40 × 1000 bindings of two atoms, whichever come first, and there are 40 × 40 answers."""
    facts = hubs(1000, 40)
    reason = r"variable by variable.*binary joins are expected to make 4\d,\d+ bindings, of which 1,600 last"
    assert re.search(reason, Program(CHAIN).explain(facts))
    with Program(CHAIN).run(facts) as result:
        assert result["out"].to_set() == {(x, 0, w) for x in range(40) for w in range(40)}


def test_a_chain_whose_bindings_last_is_joined_atom_by_atom(interpreted):
    facts = hubs(1000, 40)
    assert "variable by variable" not in Program(CHAIN).explain({**facts, "c": [(z, z) for z in range(1000)]})


KINDS = """
.decl friend(x: number, y: number)
.decl kind(x: number, k: symbol)
.decl same(x: number, y: number, z: number)
.input friend, kind
.output same
same(x, y, z) :- friend(x, y), friend(y, z), friend(x, z), kind(x, "KIND"), kind(y, "KIND"), kind(z, "KIND").
"""


def people(share: float, many: int = 60) -> dict:
    """All are friends of all; so large a part is of kind "most", the others are of as many kinds as there are people."""
    most = int(share * many)
    kinds = [(person, "most" if person < most else f"rare {person}") for person in range(many)]
    return {"friend": [(x, y) for x in range(many) for y in range(many) if x < y], "kind": kinds}


def test_a_value_in_a_rule_counts_as_often_as_it_is_there(interpreted):
    """Of 7 kinds one is that of nine in ten people: by the average of the kinds, binary joins would be the better ones."""
    facts = people(0.9)
    assert "cyclic core: binary joins are expected to make" in Program(KINDS.replace("KIND", "most")).explain(facts)
    assert "binary joins all the same" in Program(KINDS.replace("KIND", "rare 59")).explain(facts)
    assert "binary joins all the same" in Program(KINDS.replace("KIND", "no such kind")).explain(facts)
    with Program(KINDS.replace("KIND", "most")).run(facts) as result:
        assert result["same"].to_set() == set(itertools.combinations(range(54), 3))


@pytest.mark.parametrize("many", [1_000, 200_000])
def test_how_many_tuples_have_a_value(many):
    """Whether all tuples are looked at or some; two values of one tuple are looked for together."""
    number = np.arange(many)
    facts = {"edge": np.column_stack([np.where(number % 10 < 9, 7, number), np.where(number % 5 < 4, -number - 1, 1)])}
    rows, sizes = np.unique(facts["edge"], axis=0), loaded("out(x, y) :- edge(x, y).", facts).database

    def expected(*wanted):
        there = np.logical_and.reduce([rows[:, column] == value for column, value in wanted]).sum()
        found = sizes.matching("edge", tuple((column, Const(value, NUMBER)) for column, value in wanted))
        return found == pytest.approx(there, rel=0.1, abs=many / 10_000)

    assert expected((0, 7)) and expected((1, 1)) and expected((0, 7), (1, 1)) and expected((0, 3)) and expected((0, 7), (1, -4))


def loaded(rule: str, facts: dict) -> ProgramRun:
    """A program of one rule with its facts, before it runs."""
    program = Program(TRIANGLES.replace("corner", "out").replace(".output", ".input edge\n.output") + rule)
    run = ProgramRun(program, program.compile(facts), Config())
    run.load(facts, lenient=False)
    for table in run.database.tables.values():
        table.settle()
    return run


def trial_of(rule: str, facts: dict):
    """What a trial says of the rule's joins, in the order in which they would be made."""
    run = loaded(rule, facts)
    (compiled,) = [rule for rule in run.program.rules if rule.body]
    return run_trial(binary_steps(compiled, run.database, run.indexes.arities, compiled.body), run.database)


@pytest.mark.parametrize(
    ("rule", "made", "found"),
    [
        ("out(x, t) :- edge(x, y), edge(y, z), edge(z, t), x < 200000, !edge(t, x).", [100_000, 400_000, 1_600_000], 1_600_000),
        ("out(x, z) :- edge(x, y), edge(y, z), x < 12500.", [100_000, 200_000], 200_000),
        ("out(x, y) :- edge(x, y), edge(_, x).", [100_000, 100_000], 100_000),
    ],
)
def test_a_trial_knows_what_joins_make(rule, made, found):
    """Each of 25,000 numbers has 4 after it and 4 before."""
    some = np.repeat(np.arange(25_000), 4)
    facts = {"edge": np.column_stack([some, (some * 7 + np.tile(np.arange(4) * 1_000, 25_000)) % 25_000])}
    trial = trial_of(rule, facts)
    assert [round(one) for one, _ in trial.made] == pytest.approx(made, rel=0.25)
    assert trial.found == pytest.approx(found, rel=0.25)


def test_tables_of_the_same_keys_are_not_drawn_alike():
    same = {"edge": np.column_stack([np.arange(300_000)] * 2)}
    trial = trial_of("out(x, z) :- edge(x, y), edge(x, z), edge(x, 7).", same)
    assert max(one for one, _ in trial.made) < 10


def test_there_is_no_trial_of_what_is_not_known():
    assert trial_of("out(x, y) :- edge(x, _), y = range(0, x).", {"edge": [(1, 2)]}) is None
    assert trial_of("out(x, z) :- edge(x, y), edge(y + 1, z).", {"edge": [(1, 2)]}) is None
    assert trial_of("out(x, y + 1) :- edge(x, y), edge(y, _), 1 / x = 0.", {"edge": [(0, 0)]}).found == 1
