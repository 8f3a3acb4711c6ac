"""Small deltas: iterations a tuple at a time mean what they mean a block at a time, with their errors and their profile."""

import pickle
from math import inf, nan

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_deltas import agree, grown, machines, used  # noqa: F401

from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.reduce.classes import Classes
from semi_naive.ra.tuple_at_a_time import layout as at
from semi_naive.ra.tuple_at_a_time.described import describe_block

WHOLE = ("+", "-", "*", "/", "%", "band", "bor", "bxor", "bshl", "bshr", "bshru", "land", "lor", "lxor", "min", "max")
OPERATORS = {"number": WHOLE, "unsigned": WHOLE, "float": ("+", "-", "*", "/", "min", "max")}
PREFIXES = {"number": ("-", "bnot ", "lnot "), "unsigned": ("bnot ", "lnot "), "float": ("-",)}
CONVERSIONS = {
    "number": ("to_float", "to_unsigned"),
    "unsigned": ("to_float", "to_number"),
    "float": ("to_number", "to_unsigned"),
}
EDGES = {
    "number": st.sampled_from([0, 1, -1, 2, 7, -7, 63, 64, 2**63 - 1, -(2**63)]) | st.integers(-(2**63), 2**63 - 1),
    "unsigned": st.sampled_from([0, 1, 2, 7, 63, 64, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1),
    "float": st.sampled_from([0.0, -0.0, 1.5, -2.5, 1e300, -1e300, 5e-324, inf, -inf, nan]) | st.floats(-1e20, 1e20),
}
CHAIN = """
.decl given(i: number, a: {kind}, b: {kind})
.input given
.decl at(i: number)
.decl made(i: number, c: {result})
.output made
at(0).
made(i, {term}) :- at(i), given(i, a, b).
at(i + 1) :- made(i, _), i < 100.
"""


@st.composite
def terms(draw):
    """(kind, kind of the result, term)."""
    kind = draw(st.sampled_from(list(OPERATORS)))
    form = draw(st.sampled_from(["two", "one", "conversion", "as", "nested"]))
    if form == "one":
        return kind, kind, f"{draw(st.sampled_from(PREFIXES[kind]))}a"
    if form == "conversion":
        name = draw(st.sampled_from(CONVERSIONS[kind]))
        return kind, name.removeprefix("to_"), f"{name}(a)"
    if form == "as":
        result = draw(st.sampled_from(list(OPERATORS)))
        return kind, result, f"as(a, {result})"
    op = draw(st.sampled_from(OPERATORS[kind]))
    term = f"{op}(a, b)" if op in ("min", "max") else f"(a {op} b)"
    return kind, kind, f"({term} + b)" if form == "nested" else term


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(terms(), st.data())
def test_functors_have_the_same_values_and_the_same_errors(term, data):
    kind, result, written = term
    pairs = data.draw(st.lists(st.tuples(EDGES[kind], EDGES[kind]), min_size=1, max_size=4))
    facts = {"given": [(i, *pair) for i, pair in enumerate(pairs)]}
    agree(CHAIN.format(kind=kind, result=result, term=written), facts)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(list(EDGES)), st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), st.data())
def test_comparisons_agree(kind, op, data):
    pairs = data.draw(st.lists(st.tuples(EDGES[kind], EDGES[kind]), min_size=1, max_size=6))
    text = CHAIN.format(kind=kind, result=kind, term="a") + f".output at\nmade(i, b) :- at(i), given(i, a, b), a {op} b.\n"
    agree(text, {"given": [(i, *pair) for i, pair in enumerate(pairs)]})


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(*[st.integers(-20, 20)] * 2, st.sampled_from([-3, -1, 0, 1, 2, 50])), min_size=1, max_size=5))
def test_ranges_agree(rows):
    text = CHAIN.format(kind="number", result="number", term="range(a, b)").replace("a: number,", "a: number, s: number,")
    text = text.replace("given(i, a, b)", "given(i, a, s, b)") + "made(i, range(a, b, s)) :- at(i), given(i, a, s, b).\n"
    agree(text, {"given": [(i, a, s, b) for i, (a, b, s) in enumerate(rows)]})


def test_a_range_without_end_is_the_same_error():
    text = ".decl a(x: number)\n.output a\na(0).\na(range(0, y)) :- a(x), x = 0, y = 5000000000000.\n"
    assert "more than 1,000,000,000,000 values" in agree(text, {})


def test_an_error_in_the_middle_names_its_rule():
    text = ".decl a(x: number)\n.output a\na(0).\na(x + 1) :- a(x), x < 100.\na(7 / (60 - x)) :- a(x), x > 50.\n"
    said = agree(text, {})
    assert "7 / 0: division by zero" in said and "line 5" in said


@pytest.mark.parametrize("small", [30, 130, 100_000])
def test_relations_and_their_indexes_grow(small):
    """Two indexes, a delta that grows over the threshold and shrinks again, negation, a join with all of the relation."""
    text = """
    .decl edge(x: number, y: number)
    .input edge
    .decl odd(x: number)
    .input odd
    .decl path(x: number, y: number)
    .output path
    path(x, y) :- edge(x, y).
    path(x, z) :- path(x, y), path(y, z), !odd(y).
    path(y, x) :- path(x, y), path(y, y).
    """
    rng = np.random.default_rng(3)
    facts = {"edge": rng.integers(0, 60, (90, 2)), "odd": [(i,) for i in range(0, 60, 7)]}
    found, _ = agree(text, facts, small_delta=small)
    assert len(found["path"]) > 500


def test_wide_tuples_and_nullary_ones():
    text = """
    .decl wide(a: number, b: number, c: number, d: number, e: number)
    .output wide
    .decl begun()
    .output begun
    wide(0, -9223372036854775808, 9223372036854775807, 5, 0).
    wide(a + 1, b + 1, c - 1, d, e) :- wide(a, b, c, d, e), a < 3000.
    wide(a, b, c, d, 1) :- wide(a, b, c, d, _), begun().
    begun() :- wide(2000, _, _, _, _).
    """
    found, _ = agree(text, {})
    assert len(found["wide"]) > 3001


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(*[st.sampled_from([-(2**63), -5, 0, 3, 2**20, 2**62, 2**63 - 1])] * 4), max_size=40))
def test_keys_are_found_in_the_lanes_that_they_are_in(rows):
    """Rows of several words, searched by one to four columns, by values that are there and that are not."""
    text = """
    .decl row(a: number, b: number, c: number, d: number)
    .input row
    .decl key(k: number)
    .decl found(n: number, a: number, b: number, c: number, d: number)
    .output found
    key(0). key(3). key(7).
    found(1, a, b, c, d) :- key(a), row(a, b, c, d).
    found(1, a, b, c, d) :- found(_, d, a, _, _), row(a, b, c, d).
    found(2, a, b, c, d) :- found(_, a, b, _, _), row(a, b, c, d).
    found(3, a, b, c, d) :- found(_, a, b, c, _), row(a, b, c, d).
    found(4, a, a, a, d) :- found(_, a, _, _, d), row(a, a, a, d).
    found(5, a, b, 0, 0) :- found(_, a, b, c, d), !row(d, c, b, a), a < 5.
    """
    agree(text, {"row": rows + [(3, 7, 1, 0), (0, 3, 3, 3)]})


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(EDGES["number"] | st.integers(0, 300), min_size=1, max_size=30), st.lists(EDGES["number"], max_size=30))
def test_a_block_says_of_each_of_its_first_values_that_it_may_be_there(values, others):
    cells, least, within, count = Block.of([np.array(values, np.int64)], len(values)).present
    assert 0 < count <= 64 * len(cells) and 8 * cells.nbytes <= max(64, 128 * len(values))

    def may_be_there(value):
        place = (value - least) % 2**64 >> within
        return place < count and int(cells[place >> 6]) >> (place & 63) & 1 == 1

    assert all(map(may_be_there, values))
    if within == 0:
        assert not any(may_be_there(value) for value in others if value not in values)


@pytest.mark.parametrize("better", ["min", "max"])
@pytest.mark.parametrize("kind", ["number", "unsigned", "float"])
def test_lattices_supersede(better, kind):
    """So often that what has been superseded is swept."""
    sign = "-" if better == "max" and kind != "unsigned" else ""
    text = f"""
    .decl edge(x: number, y: number, w: {kind})
    .input edge
    .decl dist(x: number, d: {kind})
    .output dist
    dist(0, {better}(w)) :- edge(0, 0, w).
    dist(y, {better}(d + w)) :- dist(x, d), edge(x, y, w).
    """
    made = float if kind == "float" else int
    rows = [(0, 0, made(0))] + [
        (x, y, made((-1 if sign else 1) * (2 * (y - x) ** 2 if better == "min" else 1)))
        for x in range(200) for y in range(x + 1, min(200, x + 40))
    ]  # fmt: skip
    found, _ = agree(text, {"edge": rows})
    assert len(found["dist"]) == 200


@pytest.mark.parametrize("better", ["min", "max"])
@pytest.mark.parametrize("kind", ["number", "unsigned", "float"])
@pytest.mark.parametrize(
    "other", ["", "dist(k, to_number(to_string(y)), {better}(d + w)) :- dist(k, x, d), edge(x, y, w), x % 3 = 0."]
)
def test_rows_of_a_lattice_supersede_what_was_there_before(better, kind, other):
    """In blocks that the machine begins with, and searches by all of the key and by its second column. `other`: a rule that it
    does not know, for which the tables are in each iteration as they are by then."""
    text = f"""
    .decl edge(x: number, y: number, w: {kind})
    .input edge
    .decl dist(k: number, x: number, d: {kind})
    .input dist
    .output dist
    dist(20, x, {better}(w)) :- edge(x, _, w).
    dist(k, y, {better}(d + w)) :- dist(k, x, d), edge(x, y, w).
    dist(k + 10, x, {better}(d + e)) :- dist(k, x, d), dist(j, x, e), j < k, k < 3.
    {other.format(better=better)}
    """
    made, (near, far) = float if kind == "float" else int, (1, 10_000) if better == "min" else (10_000, 1)
    known = [(k, x, made(far + k)) for x in range(0, 600, 3) for k in range(3)]
    edges = [(x, x + 1, made(1)) for x in range(300)] + [(x, x + 7, made(5)) for x in range(0, 300, 5)]
    found, _ = agree(text, {"edge": edges, "dist": [*known, (0, 0, made(near)), (1, 40, made(near))]}, small_delta=30)
    assert any(rows.tuples_in_blocks for machine in used for rows in machine.relations.values() if rows.sort >= at.MIN)
    assert len(found["dist"]) == len({(k, x) for k, x, _ in found["dist"]}) > 1_000


def test_equivalences_grow_by_whole_classes():
    text = """
    .decl next(x: number, y: number)
    .input next
    .decl same(x: number, y: number) eqrel
    .output same
    .decl at(x: number)
    at(0).
    at(y) :- at(x), next(x, y).
    same(x % 7, x) :- at(x), x < 150.
    at(y + 1000) :- same(x, y), y > 140, y < 1000.
    """
    found, _ = agree(text, {"next": [(i, i + 1) for i in range(160)]})
    assert len(found["same"]) > 3000


def test_what_the_machine_does_not_know_is_done_by_blocks_between():
    """Strings are made, and tuples are aggregated, in iterations whose other rules run a tuple at a time."""
    text = """
    .decl word(i: number, s: symbol)
    .output word
    .decl size(i: number, n: number)
    .output size
    .decl score(i: number, n: number)
    .input score
    word(0, "a").
    word(i + 1, cat(s, "b")) :- word(i, s), i < 60.
    size(i, strlen(s)) :- word(i, s).
    size(i + 100, n) :- size(i, n), i < 60.
    size(i, n) :- size(i, _), i < 100, n = sum v : { score(i, v) }.
    """
    found, _ = agree(text, {"score": [(i % 60, i) for i in range(200)]})
    assert len(found["word"]) == 61


def test_a_limit_of_tuples_ends_a_stratum_at_the_same_iteration():
    found, _ = agree(grown(10_000) + ".limitsize a(n=5000)\n", {})
    assert len(found["a"]) == 5000


def test_the_delta_is_sifted_by_facts_that_it_is_joined_with_but_not_past_what_has_no_value():
    """Few of the rows meet any fact. Those that meet none are divided by all the same, where the division comes first."""
    text = """
    .decl at(x: number, y: number)
    .output at
    .decl some(y: number, z: number)
    .input some
    .decl more(z: number, y: number)
    .input more
    .decl met(z: number, y: number)
    .output met
    at(0, 300).
    at(x + 1, y - 1) :- at(x, y), x < 290.
    met(z, x) :- at(x, y), some(y, z), more(z, y).
    met(z, x + 1) :- at(x, y), more(x, y), some(y, z).
    at(z, x) :- met(z, x), x < 5.
    """
    facts = {"some": [(y, y % 7) for y in range(0, 300, 50)], "more": [(y % 7, y) for y in range(0, 300, 20)]}
    found, _ = agree(text, facts)
    assert 0 < len(found["met"]) < 20
    assert any(entry >= 0 for machine in used for entry in sieves(machine))
    said = agree(text.replace("some(y, z), more(z, y)", "z = 7 / (y - 101), some(y, z)"), facts)
    assert "7 / 0: division by zero" in said


def sieves(machine) -> list[int]:
    """Of the first instruction of each version, which scans a delta, where its sieve is; -1 if it has none."""
    return [int(machine.code[entry + at.SIEVE]) for entry in machine.versions[:, at.ENTRY].tolist()]


def test_an_equivalence_without_pairs_comes_back_from_the_machine():
    table, none = Table(2, reduction=Classes()), np.empty((0, 2), np.int64)
    table.from_machine(none, none)
    assert table.count == 0 and table.insert([np.array([1]), np.array([2])], 1) == 4


def test_a_block_is_described_once_and_its_addresses_stay_in_this_process():
    block = Block.of([np.arange(100), np.arange(100) % 7], 100)
    assert describe_block(block, 1) is describe_block(block, 1) is not describe_block(block, 2)
    copied = pickle.loads(pickle.dumps(block))
    assert copied.described == {} and describe_block(copied, 1).words[at.WORDS] != describe_block(block, 1).words[at.WORDS]


def test_rows_of_a_key_that_are_older_than_the_delta_are_found_behind_many_newer_ones():
    text = """
    .decl p(t: number, i: number)
    .output p
    .decl pair(t: number, i: number, j: number)
    .output pair
    p(t, i) :- t = range(0, 3), i = range(0, 40).
    p(t, i + 40) :- p(t, i), p(t, (i * 7 + 3) % 11), p(t, j), j = i % 5, i < 200.
    pair(t, i, j) :- p(t, i), p(t, j), i < 20, j < 20.
    p(t, i + j + 300) :- pair(t, i, j).
    """
    agree(text, {})
