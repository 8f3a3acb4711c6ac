"""Leapfrog triejoin by tasks that share the first variable's values: what they find together is what one process finds."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from multiway_cases import arrays, interpreted, rows_of

from bench.fuzz.jobs_here import ContextHere, JobsAsSpark
from bench.fuzz.oracle import answer
from bench.fuzz.random_queries import random_query
from bench.fuzz.rounds import random_cases
from semi_naive import subgraphs
from semi_naive.graphs import generators
from semi_naive.ra.multiway import leapfrog, shares
from semi_naive.ra.multiway.query import ConjunctiveQuery, QueryAtom
from semi_naive.ra.multiway.tries.trie import Tries

TRIANGLE = ConjunctiveQuery((QueryAtom("e", ("x", "y")), QueryAtom("e", ("y", "z")), QueryAtom("e", ("x", "z"))))


class Cluster(ContextHere):
    """Of other hosts, it says; `made`: its fabrics."""

    master = "spark://elsewhere:7077"

    def __init__(self):
        self.made = []

    def broadcast(self, value):
        return SimpleNamespace(value=value)


def test_on_spark(spark):
    edges = np.unique(np.sort(generators.rmat(9, 4 << 9), axis=1), axis=0)
    rows = shares.run_shares(TRIANGLE, {"e": edges}, spark.sparkContext)
    assert rows_of(rows) == rows_of(leapfrog.leapfrog_join(TRIANGLE, {"e": edges}))
    assert shares.run_shares(TRIANGLE, {"e": edges}, spark.sparkContext, count=True) == len(rows) > 1000


@pytest.fixture(scope="module")
def cluster():
    """Tasks in this process, their kernels interpreted."""
    leapfrog.nest.cache_clear()
    sc = Cluster()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leapfrog, "compile_kernel", interpreted)
        patch.setattr(leapfrog, "LEAST_PIECE", 3)
        patch.setattr(leapfrog, "LEAST_FINE_PIECE", 3)
        patch.setattr(shares, "PartitionedJobs", lambda sc, tasks: sc.made.append(JobsAsSpark(tasks, sc)) or sc.made[-1])
        yield sc
    leapfrog.nest.cache_clear()


@random_cases(60, random_query)
def test_any_query_equals_the_oracle(case, random, cluster):
    query, expected, tries = case.query, sorted(answer(case.query, case.facts)), Tries.of(arrays(case.facts))
    assert rows_of(shares.run_shares(query, tries, cluster)) == expected
    assert shares.run_shares(query, tries, cluster, count=True) == len(expected)


def test_every_task_has_a_share_and_leaves_nothing_behind(cluster, monkeypatch, tmp_path):
    found = {}
    call = shares.Share.__call__

    def noted(self, partition, records):
        made = list(call(self, partition, records))
        found[partition] = sum(count for count, _ in made)
        return made

    monkeypatch.setattr(shares.Share, "__call__", noted)
    edges = np.unique(np.sort(generators.gnp(60, 0.3, seed=1), axis=1), axis=0)
    total = shares.run_shares(TRIANGLE, {"e": edges}, cluster, count=True, local_dir=str(tmp_path))
    assert sum(found.values()) == total and len(found) == cluster.made[-1].partitions == 8
    assert 0 < max(found.values()) < total / 2
    assert not list(Path(tmp_path).iterdir())


def test_a_session_of_other_hosts_is_used(cluster):
    square, before = [(1, 2), (2, 3), (3, 4), (1, 4), (1, 3)], len(cluster.made)
    assert subgraphs(square, "triangle", spark=cluster, plan="leapfrog") == 2
    rows = subgraphs(square, "triangle", spark=cluster, count=False).to_numpy()
    assert sorted(map(sorted, rows.tolist())) == [[1, 2, 3], [1, 3, 4]]
    assert len(cluster.made) == before + 2
    assert subgraphs(square, "triangle", spark=ContextHere()) == 2 and len(cluster.made) == before + 2
