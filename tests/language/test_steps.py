"""Rules in steps: examples against plain Python, and random programs against their unfolding, in every way to run."""

import os
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_steps import LAST, NAMES, in_steps, step_programs, unfolded
from session_cases import SETTINGS
from step_programs import CDLP, LIFE, MEANS, PAGE_RANK, PATHS, PLAY, QUEUE, cdlp, life, means, page_rank, paths, play, queue

from semi_naive import Program, ProgramError
from semi_naive.graphs.generators import rmat
from semi_naive.io.errors import BadInput

SMALL = st.integers(0, 5)
PAIRS = st.sets(st.tuples(SMALL, SMALL), min_size=1, max_size=14).map(sorted)
LAYOUTS = [
    {},
    {"small_delta": 0},
    {"plan": "balanced", "local_tuples": 0},
    {"plan": "balanced", "local_tuples": 0, "replicate_bytes": 0, "buckets": 4, "run_ahead": 0},
]


def evaluated(text: str, facts: dict, here, layout: dict, *names: str) -> list[set]:
    """The tuples of some relations of a program in one layout."""
    spark = here if layout.get("plan") == "balanced" else None
    with Program(text).run(facts, spark, **layout) as result:
        return [result[name].to_set() for name in names]


def check(here, layout, case) -> None:
    """Compare all examples with their evaluation in Python."""
    edges, weights, points, seeds, payoff, arrivals = case
    (ranks,) = evaluated(PAGE_RANK, {"edge": edges}, here, layout, "rank")
    assert {(k, v): r for k, v, r in ranks} == pytest.approx(page_rank(edges))
    assert evaluated(CDLP, {"edge": edges}, here, layout, "label") == [cdlp(edges)]
    assert evaluated(LIFE, {"start": edges}, here, layout, "alive") == [life(edges)]
    assert evaluated(MEANS, {"point": points, "seed": seeds}, here, layout, "member") == [means(points, seeds)]
    (found,) = evaluated(PATHS, {"edge": weights}, here, layout, "dist")
    assert {(k, y, d) for k, y, d, _ in found} == paths(weights)
    for k, y, d, x in found:
        assert (y, d, x) == (0, 0, 0) or any((y, w) == (v, d - e) for u, v, w in weights if u == x
                                             for j, z, e, _ in found if j < k and z == x)  # fmt: skip
    assert evaluated(PLAY, {"payoff": payoff}, here, layout, "rows", "columns") == [*play(payoff)]
    assert evaluated(QUEUE, {"arrive": arrivals}, here, layout, "waiting", "served") == [*queue(arrivals)]


@st.composite
def cases(draw):
    edges = draw(PAIRS)
    weights = [(x, y, draw(st.integers(1, 4))) for x, y in draw(PAIRS) if x != y]
    points = [(p, float(draw(SMALL)), float(draw(SMALL))) for p in range(draw(st.integers(0, 8)))]
    seeds = [(c, float(draw(SMALL)), float(draw(SMALL))) for c in range(draw(st.integers(1, 3)))]
    payoff = [(i, j, draw(st.integers(-3, 3))) for i in range(3) for j in range(2)]
    arrivals = [(draw(st.sampled_from([0, 1, 5, 30])), job) for job in range(draw(st.integers(0, 6)))]
    return edges, weights, points, seeds, payoff, arrivals


@settings(max_examples=40, **SETTINGS)
@given(case=cases())
def test_examples_in_the_driver(machine, case):
    check(None, {}, case)


@pytest.mark.parametrize("layout", LAYOUTS[1:], ids=str)
@settings(max_examples=2, **SETTINGS)  # of seven programs each: hundreds of jobs
@given(case=cases())
def test_examples_in_other_layouts(here, layout, case):
    check(here, layout, case)


def check_random(here, layout, program, edges) -> None:
    """Compare a random program with its unfolding."""
    kinds, rules = program
    text = in_steps(kinds, rules)
    with Program(unfolded(kinds, rules)).run({"e": edges}) as result:
        wanted = {name: {(n, *row) for n in range(LAST + 1) for row in result[f"{name}_{n}"].to_set()} for name in NAMES}
    found = evaluated(text, {"e": edges}, here, layout, *NAMES)
    assert "@this" in str(Program(text).checked.relations.keys())
    assert dict(zip(NAMES, found, strict=True)) == wanted, text


@settings(max_examples=200, **SETTINGS)
@given(step_programs(), PAIRS)
def test_random_programs_in_the_driver(machine, program, edges):
    check_random(None, {}, program, edges)


@pytest.mark.parametrize("layout", LAYOUTS[1:], ids=str)
@settings(max_examples=20, **SETTINGS)
@given(program=step_programs(), edges=PAIRS)
def test_random_programs_in_other_layouts(here, layout, program, edges):
    check_random(here, layout, program, edges)


# -- other ways to run


@pytest.mark.parametrize("most", [1, 2, 4])
def test_max_iterations_is_a_number_of_steps(most):
    edges = [(1, 2), (2, 3), (3, 4)]
    with Program(CDLP).run({"edge": edges}, max_iterations=most) as result:
        assert result["label"].to_set() == {each for each in cdlp(edges) if each[0] < most}


def test_a_limitsize_ends_the_steps():
    edges = [(1, 2), (2, 3), (3, 4)]
    with Program(CDLP + ".limitsize label(n=5)").run({"edge": edges}) as result:
        assert result["label"].to_set() == {each for each in cdlp(edges) if each[0] < 2}


@settings(max_examples=30, **SETTINGS)
@given(PAIRS, st.randoms(use_true_random=False))
def test_sessions_compute_all_steps_anew(edges, chance):
    present = set(edges)
    with Program(CDLP).session({"edge": edges}) as session:
        for _ in range(3):
            before, edge = session["label"].to_set(), (chance.randrange(6), chance.randrange(6))
            change = (session.delete if edge in present else session.insert)("edge", [edge])
            present ^= {edge}
            assert session["label"].to_set() == cdlp(present)
            told = change.changes["label"].to_list() if "label" in change.changes else []
            after = (before - {row[:-1] for row in told if row[-1] < 0}) | {row[:-1] for row in told if row[-1] > 0}
            assert after == cdlp(present)
        assert "in a session: a change of what it reads computes all steps anew" in session.explain()
        assert "computed anew, in rounds" in session.explain("label", changes=True)


def test_sessions_on_partitions(here):
    present = {(1, 2), (2, 3), (4, 5)}
    options = {"local_tuples": 0, "replicate_bytes": 0}
    with Program(CDLP).session({"edge": sorted(present)}, spark=here, **options) as session:
        for edge in [(3, 4), (1, 2), (0, 5)]:
            (session.delete if edge in present else session.insert)("edge", [edge])
            present ^= {edge}
            assert session["label"].to_set() == cdlp(present)


class Killed(Exception):
    """What stands for the death of a process."""


@pytest.mark.parametrize("first, second", [({}, {}), ({"local_tuples": 0}, {}), ({}, {"local_tuples": 0})], ids=str)
@pytest.mark.parametrize("after", [1, 3, 6])
def test_a_killed_run_goes_on_with_the_step_that_was_due(here, processes, tmp_path, after, first, second):
    """With symbols, which the second process numbers otherwise."""
    text = CDLP.replace("v: number, l: number", "v: symbol, l: number").replace(
        "edge(x: number, y: number)", "edge(x: symbol, y: symbol)"
    )
    text = text.replace(
        "label(0, v, v) :- edge(v, _) ; edge(_, v).", "label(0, v, ord(v) - ord(v) + strlen(v)) :- edge(v, _) ; edge(_, v)."
    )
    text = text.replace("l: number, n: number)", "l: number, n: number)").replace(
        "most(k: number, v: number", "most(k: number, v: symbol"
    )
    edges = [
        ("a" * (1 + x % 4) + str(x), "a" * (1 + y % 4) + str(y)) for x, y in [(1, 2), (2, 3), (3, 4), (4, 5), (1, 5), (2, 6)]
    ]
    with Program(text).run({"edge": edges}) as result:
        wanted = result["label"].to_set()
    options = {"checkpoint_dir": str(tmp_path / "kept"), "checkpoint_interval": 1}
    told: list = []

    def dying(name, *_):
        if name.startswith("step "):
            told.append(name)
            if len(told) == after:
                raise Killed

    with pytest.raises(Killed):
        Program(text).run({"edge": edges}, here, progress=dying, **first, **options)
    told.clear()
    with Program(text).run({"edge": edges}, here, progress=lambda name, *_: told.append(name), **second, **options) as result:
        assert result["label"].to_set() == wanted
    assert [name for name in told if name.startswith("step ")][0].startswith(f"step {after - 1} ")


@pytest.mark.parametrize("replicate_bytes", [0, 1 << 20])
def test_files_of_steps_that_no_rule_reads_are_removed(here, tmp_path, replicate_bytes):
    """On the partitions: the number of files does not grow with the steps."""
    sizes, edges = [], [(n, n + 1) for n in range(8)]
    text = CDLP.replace(".output label", ".decl last(v: number, l: number)\n.output last\nlast(v, l) :- label(6, v, l).")

    def files(name, *_):
        if name.startswith("step "):
            sizes.append(sum(len(found) for _, _, found in os.walk(tmp_path)))

    options = {"local_tuples": 0, "local_dir": str(tmp_path), "replicate_bytes": replicate_bytes}
    with Program(text).run({"edge": edges}, here, progress=files, only_outputs=True, **options) as result:
        assert result["last"].to_set() == {(v, own) for k, v, own in cdlp(edges) if k == 6}
    assert sizes[3] == sizes[4] == sizes[5]


def test_magic_sets_leave_a_component_in_steps_whole():
    text = (
        CDLP
        + """
    .pragma "magic-transform" "*"
    .decl asked(l: number)
    .output asked
    asked(l) :- label(3, 2, l).
    """
    )
    edges = [(1, 2), (2, 3)]
    with Program(text).run({"edge": edges}, only_outputs=True) as result:
        assert result["asked"].to_set() == {(own,) for k, v, own in cdlp(edges) if (k, v) == (3, 2)}
        assert "on demand: no, as a step is evaluated whole" in result.explain()


# -- steps that are kept


@pytest.mark.parametrize(
    ("rule", "kept", "wanted"),
    [
        ("last(v, l) :- label(4, v, l).", "step 4", lambda k, end: k == 4),
        ("last(v, l) :- label(4, v, l) ; label(0, v, l).", "step 0 and 4", lambda k, end: k in (0, 4)),
        ("last(v, l) :- label(k, v, l), k = max j : { label(j, _, _) }.", "its last step", lambda k, end: k == end),
        ("last(v, l) :- label(k, v, l), k > 2.", "all its steps", lambda k, end: k > 2),
        ("last(v, l) :- label(4, v, l), 6 = max j : { label(j, _, _) }.", "all its steps", lambda k, end: k == 4),
    ],
)
@pytest.mark.parametrize("layout", [{}, {"local_tuples": 0}], ids=str)
def test_only_the_steps_that_are_read_are_kept(here, rule, kept, wanted, layout):
    text = CDLP.replace(".output label", f".decl last(v: number, l: number)\n.output last\n{rule}")
    edges = [(1, 2), (2, 3), (4, 4)]
    with Program(text).run({"edge": edges}, here, only_outputs=True, **layout) as result:
        labels = cdlp(edges)
        assert result["last"].to_set() == {(v, own) for k, v, own in labels if wanted(k, max(labels)[0])}
        assert f"kept of label: {kept}" in result.explain()
    with Program(text).run({"edge": edges}) as result:
        assert result["label"].to_set() == labels


# -- what is told


def test_explain_and_the_record_tell_steps():
    edges, told = [(1, 2), (2, 3)], []
    with Program(CDLP).run({"edge": edges}, progress=lambda *each: told.append(each)) as result:
        said = result.explain()
        rounds = {entry["relations"][0]: entry.get("rounds") for entry in result.trace["profile"]["strata"]}
    assert "In steps: label, votes, most, 8 steps done" in said
    assert "@" not in said, [line for line in said.splitlines() if "@" in line]
    assert rounds["label@this"] == 8
    assert [each[0] for each in told] == [f"step {n} of label, votes, most" for n in range(8)]
    assert [each[3] for each in told] == [*range(1, 9)]
    expected = Program(CDLP).explain({"edge": edges})
    assert "In steps: label, votes, most\n  each step evaluates strata 1 to 8, in this order" in expected


def test_why_a_tuple_of_a_step_is_there():
    with Program(CDLP).run({"edge": [(1, 2), (2, 3)]}) as result:
        said = str(result.why("label", (2, 3, 1)))
        assert "@" not in said and "votes(2, 3, 1, 1)" in said and "label(0, 1, 1)" in said
        with pytest.raises(ValueError, match="is not there"):
            result.why("label", (2, 3, 3))
    with Program(MEANS).run({"point": [(0, 1.0, 1.0)], "seed": [(0, 0.0, 0.0)]}) as result:
        said = str(result.why("member", (1, 0, 0)))
        assert "@" not in said and "changed(0)   [fact]" in said
    with Program(QUEUE).run({"arrive": [(3, 1), (3, 2)]}) as result:
        assert "!served(3, 2)" in str(result.why("served", (4, 2)))


NEARLY = """.decl e(x: number, y: number)
.input e
.decl a(k: number, x: number)
.output a
.decl b(k: number, x: number)
a(0, x) :- e(x, _).
b(k, x) :- a(k, x), e(x, 1).
"""


@pytest.mark.parametrize(
    ("rule", "message", "hint"),
    [
        (
            "a(k + 2, x) :- a(k, x), !b(k, x).",
            "skips from a step of a to the step of a that is 2 later",
            "a(k + 1, …) :- a(k, …)",
        ),
        ("a(k + 1, x) :- a(k, x), !b(k + 2, x).", "reads a later step of b than it makes of a", "a(k + 1, …) :- b(k, …)"),
        ("a(k + 1, x) :- a(k, x), !b(k + 1, x).", "a negates b of its own step", "a(k + 1, …) :- !b(k, …)"),
        (
            "a(k + 1, x) :- a(k, x), 2 < count : { b(k + 1, _) }.",
            "a aggregates over b of its own step",
            "a(k + 1, …) :- b(k, …)",
        ),
        ("a(k + 1, x) :- a(k, x), !b(_, x).", "reads b at all steps", "write the step: b(k, …)"),
        ("a(k + 1, x) :- a(k, x), e(j, _), !b(j, x).", "the step of b is neither that of the head a", "a(k + 1, …) :- b(k, …)"),
        ("a(k + 1, x) :- e(x, _), !b(k, x).", "nothing binds the step of a", "bind k by an atom of a"),
    ],
)
def test_programs_that_are_nearly_in_steps(rule, message, hint):
    with pytest.raises(ProgramError) as error:
        Program(NEARLY + rule, "near.dl")
    said = str(error.value)
    assert (
        f"Unable to evaluate a, b in steps of k: {message}".replace(": skips", ": the rule skips").replace(
            ": reads", ": the rule reads"
        )
        in said
    )
    assert rule in said and hint in said and "at line 8" in said and "@" not in said


def test_steps_are_whole_numbers_and_no_facts():
    rule = "a(k + 1, x) :- a(k, x), !b(k, x), k < 3."
    with pytest.raises(ProgramError, match="the step k of a is a float, and steps are whole numbers"):
        Program(NEARLY.replace("k: number", "k: float").replace("a(0,", "a(0.0,") + rule)
    with pytest.raises(ProgramError, match="a is evaluated in steps, and cannot be read"):
        Program(NEARLY + ".input a\n" + rule)
    with pytest.raises(BadInput, match="a is evaluated in steps and takes no facts"):
        Program(NEARLY + rule).run({"e": [], "a": [(0, 1)]})
    text = NEARLY.replace(".decl a(k: number, x: number)", ".decl a(k: number, x: number) choice-domain x")
    with pytest.raises(ProgramError, match="a choice-domain of a does not have the step k"):
        Program(text + rule)


# -- more forms


def test_a_choice_is_made_within_each_step():
    text = """
    .decl likes(x: number, y: number)
    .input likes
    .decl pair(k: number, x: number, y: number) choice-domain (k, x), (k, y)
    .output pair
    .decl taken(k: number, x: number)
    taken(0, -1).
    pair(k, x, y) :- taken(k, -1), likes(x, y), !taken(k, x), !taken(k, y).
    taken(k + 1, x) :- taken(k, x), pair(k, _, _).
    taken(k + 1, x) :- pair(k, x, _).
    taken(k + 1, y) :- pair(k, _, y).
    """
    chance = random.Random(3)
    likes = sorted({(chance.randrange(8), 10 + chance.randrange(8)) for _ in range(20)})
    with Program(text).run({"likes": likes}) as result:
        pairs = result["pair"].to_set()
    first = {(x, y) for k, x, y in pairs if k == 0}
    assert len({x for x, _ in first}) == len({y for _, y in first}) == len(first)
    assert all({x, y} & {each for pair in first for each in pair} for x, y in likes)  # no pair is left to be chosen
    assert {k for k, _, _ in pairs} == {0}


def test_older_steps_are_read_and_unsigned_steps_counted():
    text = """
    .decl f(k: unsigned, v: number)
    .output f
    f(0, 0).
    f(1, 1).
    f(k + 2, sum(a)) :- f(k + 1, _), a = x, f(k, x), k < 20.
    f(k + 1, sum(a)) :- f(k, a), k > 0, k < 21.
    """
    values = [0, 1]
    while len(values) <= 21:
        values.append(values[-1] + values[-2])
    with Program(text).run({}) as result:
        assert result["f"].to_set() == set(enumerate(values))


def test_an_aggregate_in_a_head_reads_an_older_step():
    text = """
    .decl seen(k: number, n: number)
    .output seen
    seen(0, 1). seen(0, 2).
    seen(k + 2, count : { seen(k, _) }) :- seen(k + 1, _), k < 4.
    """
    steps = [{1, 2}]
    for k in range(-1, 4):
        steps.append({len(steps[k]) if k >= 0 else 0})
    with Program(text).run({}) as result:
        assert result["seen"].to_set() == {(k, n) for k, counts in enumerate(steps) for n in counts}


def test_a_step_with_recursion_within_it():
    """What is reached in a graph that loses its sinks step by step."""
    text = """
    .decl edge(x: number, y: number)
    .input edge
    .decl left(k: number, x: number, y: number)
    .decl reached(k: number, x: number, y: number)
    .output reached
    left(0, x, y) :- edge(x, y).
    reached(k, x, y) :- left(k, x, y).
    reached(k, x, z) :- reached(k, x, y), left(k, y, z).
    left(k + 1, x, y) :- left(k, x, y), reached(k, y, _).
    """
    edges, wanted, k = {(n, n + 1) for n in range(6)} | {(0, 3)}, set(), 0
    left = set(edges)
    while left:
        reached, more = set(left), True
        while more:
            made = {(x, z) for x, y in reached for u, z in left if u == y} - reached
            reached, more = reached | made, bool(made)
        wanted |= {(k, x, y) for x, y in reached}
        left, k = {(x, y) for x, y in left if any(u == y for u, _ in reached)}, k + 1
    with Program(text + "left(k, x, y) :- left(k, x, y), !edge(x, y).").run({"edge": sorted(edges)}) as result:
        assert result["reached"].to_set() == wanted


def test_two_components_in_a_row_and_many_facts():
    text = (
        "".join(f"on({n % 3}, {n}).\n" for n in range(300))
        + """
    .decl on(k: number, x: number)
    .output on
    .decl size(k: number, n: number)
    .output size
    .decl total(k: number, n: number)
    .output total
    on(k + 1, x + 1000) :- on(k, x), !on(k, x + 1), k < 4.
    size(k, n) :- on(k, _), n = count : { on(k, _) }.
    total(0, n) :- size(0, n).
    total(k + 1, m + n) :- total(k, m), size(k + 1, n), !total(k, -1).
    """
    )
    on = {(n % 3, n) for n in range(300)}
    for k in range(4):
        on |= {(k + 1, x + 1000) for j, x in on if j == k and (k, x + 1) not in on}
    sizes = {k: sum(j == k for j, _ in on) for k in {j for j, _ in on}}
    with Program(text).run({}) as result:
        assert result["on"].to_set() == on and result["size"].to_set() == set(sizes.items())
        assert result["total"].to_set() == {(k, sum(n for j, n in sizes.items() if j <= k)) for k in sizes}


def test_a_sum_of_floats_has_one_result_for_each_key_on_the_partitions(here):
    """Batches add up a key in different orders: two vertices of this graph had two ranks in step 3."""
    edges = rmat(15, 420_000, seed=1)
    edges = np.unique(edges[edges[:, 0] != edges[:, 1]], axis=0)
    edges = edges[np.random.default_rng(1).permutation(len(edges))[:345_319]]
    text = """
    .decl edge(x: number, y: number)
    .input edge
    .decl degree(x: number, n: number)
    degree(x, count(y)) :- edge(x, y).
    .decl rank(k: number, x: number, r: float)
    .output rank
    rank(0, v, 1.0) :- edge(v, _) ; edge(_, v).
    rank(k + 1, v, sum(p / to_float(d))) :- rank(k, u, p), degree(u, d), edge(u, v), k < 3.
    """
    degree, ranks = np.bincount(edges[:, 0], minlength=1 << 15), np.zeros(1 << 15)
    ranks[np.unique(edges)] = 1.0
    for _ in range(3):
        ranks = np.bincount(edges[:, 1], (ranks / np.maximum(degree, 1))[edges[:, 0]], 1 << 15)
    options = {"plan": "balanced", "local_tuples": 0, "partitions": 2}
    with Program(text).run({"edge": edges}, here, **options) as result:
        rows = [row for row in result["rank"].to_list() if row[0] == 3]
    assert len({x for _, x, _ in rows}) == len(rows)
    assert {x: r for _, x, r in rows if r} == pytest.approx({x: ranks[x] for x in np.flatnonzero(ranks).tolist()})
