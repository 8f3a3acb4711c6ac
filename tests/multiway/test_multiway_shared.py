"""Tries that the processes of a host have in common are built once, and the answers are the same."""

from types import SimpleNamespace

import numpy as np
import pytest
from multiway_cases import interpreted as interpret
from multiway_cases import rows_of
from test_multiway_datalog import interpreted  # noqa: F401

from bench.fuzz.checks import check
from bench.fuzz.jobs_here import ContextHere, JobsAsSpark
from bench.fuzz.oracle import answer
from bench.fuzz.random_programs import cyclic_case
from bench.fuzz.rounds import random_cases
from semi_naive import Config, Program
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.by_variable import multiway as step
from semi_naive.ra.by_variable.multiway import BINDINGS_PER_CALL, MIN_TRIE_BINDINGS, Multiway
from semi_naive.ra.ir import Atom, Kind, Var
from semi_naive.ra.multiway import leapfrog
from semi_naive.ra.multiway import query as joins
from semi_naive.ra.multiway.query import Comparison, ConjunctiveQuery, Constant
from semi_naive.ra.multiway.tries.shared import SharedTries
from semi_naive.ra.multiway.tries.trie import TrieArray
from semi_naive.ra.rules import context
from semi_naive.ra.storage import runs
from semi_naive.running.relations.cluster import Cluster

QUERY = ConjunctiveQuery(
    (
        joins.QueryAtom("b", ("x", "y")),
        joins.QueryAtom("c", ("y", "z")),
        joins.QueryAtom("b", ("x", "z")),
        joins.QueryAtom("d", ("x", "z", "z"), True),
    ),
    (Comparison("<", "x", Constant(1 << 39)),),
)


@pytest.fixture
def builds(monkeypatch):
    """How many tuples each trie has that is built; kernels are interpreted."""
    leapfrog.nest.cache_clear()
    monkeypatch.setattr(leapfrog, "compile_kernel", interpret)
    found, build = [], TrieArray.build
    monkeypatch.setattr(TrieArray, "build", lambda columns, size: (found.append(len(columns[0])), build(columns, size))[1])
    yield found
    leapfrog.nest.cache_clear()


@pytest.mark.parametrize("factor", [1, 1 << 37])  # values that are their own ids, and values that are not
def test_what_one_process_has_built_another_maps(tmp_path, monkeypatch, builds, factor):
    rng = np.random.default_rng(1)
    relations = {name: rng.integers(0, 9, (60, arity)) * factor for name, arity in {"b": 2, "c": 2, "d": 3}.items()}
    expected = answer(QUERY, relations)
    assert not SharedTries.exist(tmp_path)
    first = leapfrog.leapfrog_join(QUERY, SharedTries.open(tmp_path, lambda: relations))
    assert rows_of(first) == sorted(expected) and len(expected) > 5
    built = len(builds)
    assert SharedTries.exist(tmp_path) and built >= 3
    again = leapfrog.leapfrog_join(QUERY, SharedTries.open(tmp_path, lambda: pytest.fail("the relations are there")))
    assert np.array_equal(first, again) and len(builds) == built


@pytest.mark.parametrize("damage", [b"", b"garbage", None])
def test_shared_tries_that_are_damaged_are_built_again(tmp_path, builds, damage):
    """Each file in turn, as another process finds it: the handles, the relations, and every trie."""
    relations = {name: np.random.default_rng(1).integers(0, 9, (60, arity)) for name, arity in {"b": 2, "c": 2, "d": 3}.items()}
    first = leapfrog.leapfrog_join(QUERY, SharedTries.open(tmp_path, lambda: relations))
    for path in list(tmp_path.iterdir()):
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]) if damage is None else damage)
        runs._verified.clear()  # as in another process
        assert np.array_equal(leapfrog.leapfrog_join(QUERY, SharedTries.open(tmp_path, lambda: relations)), first)
        assert path.read_bytes() == data


def test_relations_without_tuples_are_shared(tmp_path):
    for _ in range(2):
        tries = SharedTries.open(tmp_path, lambda: {"b": np.empty((0, 2), np.int64)})
        assert len(tries.trie("b", (1, 0)).values) == 2 and not len(tries.relations["b"][0])


REACH = """
.decl edge(x: number, y: number)
.decl reach(s: number, x: number)
.output reach
reach(x, x) :- edge(x, _), x < 8.
reach(s, z) :- reach(s, x), edge(x, y), edge(y, z), edge(x, z).
"""


class Elsewhere(ContextHere):
    """Of other hosts, it says."""

    master = "spark://elsewhere:7077"

    def broadcast(self, value):
        return SimpleNamespace(value=value)


@pytest.mark.parametrize("sc", [ContextHere(), Elsewhere()], ids=["here", "elsewhere"])
def test_tasks_have_tries_of_earlier_strata_in_common(monkeypatch, builds, sc):
    """Four partitions and several iterations, each task a process of its own: the relation is sorted in two orders at most."""
    jobs = JobsAsSpark(4, sc)
    monkeypatch.setattr(Cluster, "jobs", jobs)
    monkeypatch.setattr(Cluster, "sc", sc)
    monkeypatch.setattr(context, "_cache_of_stratum", lambda folder: {})
    edges = np.unique(np.random.default_rng(2).integers(0, 200, (2_000, 2)), axis=0)
    with Program(REACH).run({"edge": edges}, multiway="never") as expected:
        answer = expected["reach"].to_set()
    with Program(REACH).run(
        {"edge": edges}, plan="balanced", run_ahead=0, local_tuples=0, partitions=4, multiway="always"
    ) as result:
        assert result["reach"].to_set() == answer
        (stratum,) = (s for s in result.trace["strata"] if s["plan"] == "balanced")
        assert len(stratum["trace"]["iterations"]) > 3
    assert 1 <= builds.count(len(edges)) <= 2


def test_binary_joins_may_make_less_once_there_are_tries(tmp_path):
    """Also those that another process has begun: a build has to be worth it for what a process has joined itself."""
    x, y, z = (Var(name, Kind.NUMBER) for name in "xyz")
    atoms = tuple(Atom("edge", pair) for pair in ((x, y), (y, z), (x, z)))
    step = Multiway(atoms, ("all",) * 3, (), ("y", "z"), frozenset("z"), steps=["joins"], each=2.0)
    edges = Block.of([np.arange(9), np.arange(9)], 9)
    here, other = (
        SimpleNamespace(
            cache={},
            values=None,
            position=(0, 2),
            memory=None,
            host_cache_dir=lambda read: str(tmp_path),
            blocks=lambda *_: [edges],
        )
        for _ in range(2)
    )
    assert step._allowed(here) == MIN_TRIE_BINDINGS
    step._core(other)
    assert step._allowed(here) == step._allowed(other) == BINDINGS_PER_CALL


def test_binary_joins_that_make_more_than_expected_are_stopped(monkeypatch, builds):
    """From a hub, which its neighbours have reached: few bindings are expected, as most vertices have one neighbour."""
    hub = [(n, 0) for n in range(1, 400)] + [(0, n) for n in range(1, 400)]
    edges = np.array([*hub, *((n, n + 1) for n in [*range(10, 60), *range(400, 4_000)])])
    facts = {"edge": edges, "start": [(n,) for n in range(50, 150)]}
    rules = """
    .decl edge(x: number, y: number)
    .decl start(x: number)
    .decl reach(x: number)
    .output reach
    reach(x) :- start(x).
    reach(z) :- reach(x), edge(x, y), edge(y, z), edge(z, x).
    """
    answers, joined, with_bound = [], [], step.Core.with_bound
    monkeypatch.setattr(step.Core, "with_bound", lambda *given: joined.append(given[1].size) or with_bound(*given))
    for worth in (50, MIN_TRIE_BINDINGS):  # stopped, and not
        monkeypatch.setattr(step, "MIN_TRIE_BINDINGS", worth)
        with Program(rules).run(facts, small_delta=0) as result:  # a tuple at a time there are no cores
            answers.append(result["reach"].to_set())
        assert joined == [2]  # the hub, and the vertex before the first
    assert answers == [{(n,) for n in (0, *range(10, 150))}] * 2


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("mode", ["auto", "always"])
def test_cyclic_bodies_on_partitions_agree_with_the_oracle(here, mode):
    """With roll-over, so that a delta comes in many batches."""
    used, call = [], Multiway.__call__

    @random_cases(40, cyclic_case)
    def agrees(case, random):
        check(case, Config(local_tuples=0, partitions=3, buckets=4, rollover_threshold=5, multiway=mode), spark=here)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Multiway, "__call__", lambda *given: used.append(given[2].position) or call(*given))
        agrees()
    assert {(partition, 3) for partition in range(3)} <= set(used)
