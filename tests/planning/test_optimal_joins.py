"""Rules with a cyclic body are joined worst-case optimally: proposals are counted, and compared with the AGM bound."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from session_cases import SETTINGS

from semi_naive import Program
from semi_naive.ra.by_variable import bigjoin, extend
from semi_naive.ra.multiway.agm import agm_bound
from semi_naive.ra.multiway.query import ConjunctiveQuery, QueryAtom
from semi_naive.ra.rules import steps
from semi_naive.simulated_ranks import SimulatedRanks

PARTITIONED = {"local_tuples": 0, "replicate_bytes": 0, "partitions": 3, "buckets": 8, "multiway": "always"}


def cycle(length: int) -> str:
    """A program that lists the cycles r1(x1, x2), r2(x2, x3), … of so many relations."""
    names = [f"x{i}" for i in range(length)]
    declared = "".join(f".decl r{i}(x: number, y: number)\n.input r{i}\n" for i in range(length))
    body = ", ".join(f"r{i}({names[i]}, {names[(i + 1) % length]})" for i in range(length))
    head = ", ".join(names)
    return f"{declared}.decl found({': number, '.join(names)}: number)\n.output found\nfound({head}) :- {body}."


def cycles(relations: list[set]) -> set:
    """The same cycles, by nested loops over what fits."""
    paths = {pair for pair in relations[0]}
    for pairs in relations[1:-1]:
        after: dict = {}
        for x, y in pairs:
            after.setdefault(x, []).append(y)
        paths = {(*path, y) for path in paths for y in after.get(path[-1], ())}
    return {path for path in paths if (path[-1], path[0]) in relations[-1]}


def bound(sizes: list[int]) -> float:
    query = ConjunctiveQuery(tuple(QueryAtom(f"r{i}", (f"x{i}", f"x{(i + 1) % len(sizes)}")) for i in range(len(sizes))))
    return agm_bound(query, {f"r{i}": size for i, size in enumerate(sizes)})


def star(size: int) -> list[tuple[int, int]]:
    """A hub with neighbours after it and before it."""
    return [(0, i) for i in range(size - size // 2)] + [(i, 0) for i in range(1, size // 2 + 1)]


@pytest.fixture
def proposals(monkeypatch):
    """Counts the bindings that joins of rules make, and the values that are proposed to them."""
    counted = {"made": 0}

    def counting(owner, step):
        call = owner.__call__

        def spy(self, batch, context, resume_at=steps.START):
            for made in call(self, batch, context, resume_at) if step else call(self, batch, context):
                counted["made"] += made.size if step else 0
                yield made

        monkeypatch.setattr(owner, "__call__", spy)

    def offered(self, find=extend.Intersection._proposals):
        counted["made"] += int(np.array([side.counts for side in self.sides]).min(axis=0).sum())
        return find(self)

    counting(bigjoin.Proposal, True)
    counting(steps.Join, True)
    monkeypatch.setattr(extend.Intersection, "_proposals", offered)
    return counted


def test_small_relations_around_a_cycle_propose_before_they_are_reached(proposals):
    """Six relations: joined along the cycle, the large ones make a million bindings; the worst case of the answer is 512."""
    small, large = [(i, j) for i in range(2) for j in range(4)], star(49_998)
    facts = {f"r{i}": large if i % 2 else small for i in range(6)}
    with Program(cycle(6)).run(facts, SimulatedRanks(3), **PARTITIONED) as result:
        near = {*small, *star(10)}  # all that a cycle through the small relations can reach
        assert result["found"].to_set() == cycles([near.intersection(facts[f"r{i}"]) for i in range(6)])
    assert round(bound([len(facts[f"r{i}"]) for i in range(6)])) == 512 and proposals["made"] <= 512


def test_one_label_for_many_triangles(proposals):
    text = """
    .decl edge(x: number, y: number)
    .decl label(z: number)
    .input edge, label
    .decl found(x: number, y: number, z: number)
    .output found
    found(x, y, z) :- edge(x, y), edge(y, z), edge(x, z), label(z).
    """
    edges = [(x, z) for x in (0, 1) for z in range(2, 1500)]
    with Program(text).session({"edge": edges, "label": [(7,)]}) as session:
        proposals["made"] = 0
        session.insert("edge", [(0, 1)])
        assert session["found"].to_list() == [(0, 1, 7)] and proposals["made"] < 10


def test_changes_of_a_cycle_with_one_small_relation(proposals):
    """Without a proposal of the one tuple, each new edge meets the hub: two million bindings."""
    far = [(5000 + i, 5000 + i) for i in range(50_000)]
    with Program(cycle(4)).session({"r0": far, "r1": star(3000), "r2": [(0, 0)], "r3": star(3000)}) as session:
        proposals["made"] = 0
        session.insert("r0", [(i, 0) for i in range(1500)])
        assert session["found"].count() == 1500 and proposals["made"] <= 4 * 1500


SIZES = st.lists(st.sampled_from([1, 2, 8, 60, 400]), min_size=3, max_size=5)
SHAPES = st.sampled_from(["star", "grid", "random"])


def relation(shape: str, size: int, seed: int) -> list[tuple[int, int]]:
    if shape == "star":
        return star(size)
    if shape == "grid":
        side = int(size**0.5)
        return list(itertools.product(range(side), range(max(1, size // side))))
    return [(int(x), int(y)) for x, y in np.unique(np.random.default_rng(seed).integers(0, size, (size, 2)), axis=0)]


@settings(max_examples=25, **SETTINGS)
@given(st.data(), SIZES)
def test_proposals_stay_within_the_bound(proposals, data, sizes):
    """On partitions, and from the changes of a session, whatever the sizes and the skew of the relations are."""
    given = [relation(data.draw(SHAPES), size, seed) for seed, size in enumerate(sizes)]
    facts, expected = {f"r{i}": rows for i, rows in enumerate(given)}, cycles([set(rows) for rows in given])
    proposals["made"] = 0
    with Program(cycle(len(sizes))).run(facts, SimulatedRanks(3), **PARTITIONED) as result:
        assert result["found"].to_set() == expected
    assert proposals["made"] <= 2 * len(sizes) * bound([len(rows) for rows in given])

    changed = data.draw(st.sampled_from(sorted(facts)))
    some = facts[changed][:3]
    far = [(-1 - i, -1 - i) for i in range(100 * len(some))]  # so that the change is small
    with Program(cycle(len(sizes))).session(facts | {changed: facts[changed][3:] + far}, multiway="always") as session:
        proposals["made"] = 0
        session.insert(changed, some)
        assert session["found"].to_set() == expected
    delta = [len(some) if f"r{i}" == changed else len(rows) for i, rows in enumerate(given)]
    assert proposals["made"] <= 2 * len(sizes) * bound(delta)


def test_wide_tuples_propose_each_value_once():
    """A column that follows the variable repeats its values; where bindings are counted, each is counted once."""
    far = 1 << 40
    text = """
    .decl t(a: number, b: number, c: number)
    .input t
    .decl n(k: number)
    .output n
    n(k) :- k = count : { t(x, y, u), t(y, z, v), t(z, x, w) }.
    """
    some = np.unique(np.random.default_rng(1).integers(0, 5, (60, 3)), axis=0) * far
    rows = [tuple(row) for row in some.tolist()]

    def count(rows) -> int:
        return sum(a[1] == b[0] and b[1] == c[0] and c[1] == a[0] for a, b, c in itertools.product(rows, repeat=3))

    with Program(text).session({"t": rows}) as session:
        for gone in rows[:4]:
            session.delete("t", [gone])
            rows = [row for row in rows if row != gone]
            assert session["n"].to_list() == [(count(rows),)]
