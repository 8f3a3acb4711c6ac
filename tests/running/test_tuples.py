"""The one face of results: closures, answers, subgraphs and relations are read in the same ways, with pandas or without."""

import os
import subprocess
import sys
from threading import Barrier, get_ident

import numpy as np
import pyarrow as pa
import pytest

from semi_naive import Program, Relation, subgraphs, transitive_closure
from semi_naive.host.threads import WAITING_RESULTS_A_THREAD, cpus, in_threads

EDGES = [("a", "b"), ("b", "c"), ("a", "c")]
PATH = ".decl edge(x: symbol, y: symbol)\n.decl path(x: symbol, y: symbol)\npath(x, y) :- edge(x, y).\n"
FOUND = {
    "closure": lambda spark: transitive_closure(EDGES, spark),
    "answer": lambda spark: Program(PATH).run({"edge": EDGES}, spark)["path"],
    "answer on partitions": lambda spark: Program(PATH).run({"edge": EDGES}, spark, local_tuples=0)["path"],
    "relation": lambda spark: Relation.from_tuples(EDGES, ["x", "y"], spark=spark),
    "relation on partitions": lambda spark: Relation.from_tuples(EDGES * 2, "xy", None, spark, local_tuples=0).select(),
    "subgraphs": lambda spark: subgraphs(EDGES, ["xy"], directed=True, count=False, memory=10_000),
}


@pytest.mark.parametrize("make", FOUND.values(), ids=FOUND)
def test_every_result_shows_one_face(make, spark, tmp_path):
    with make(spark) as found:
        assert found.count() == len(found) == 3 and found.columns == ("x", "y")
        assert found.to_set() == set(found.to_list()) == set(EDGES)
        assert found.to_arrow().schema == pa.schema([("x", pa.string()), ("y", pa.string())])
        assert {tuple(row.values()) for batch in found.to_batches() for row in batch.to_pylist()} == set(EDGES)
        assert set(map(tuple, found.to_numpy().tolist())) == set(EDGES) and found.to_numpy().dtype == object
        assert set(found.to_pandas().itertuples(index=False, name=None)) == set(EDGES)
        assert set(map(tuple, found.to_df().collect())) == set(EDGES)
        found.write(tmp_path / "out.tsv")
        assert sorted((tmp_path / "out.tsv").read_text().splitlines()) == ["a\tb", "a\tc", "b\tc"]
        assert found.explain() and found.trace["seconds"] > 0
        assert found.report(tmp_path / "page.html").startswith("<!") and (tmp_path / "page.html").exists()


def test_what_was_not_recorded_is_not_reported(tmp_path):
    found = subgraphs(EDGES, ["xy"], directed=True, count=False)
    assert found.trace is None and "plan leapfrog\nmatch(a is x, b is y) :- edge(a, b)." in found.explain()
    with pytest.raises(ValueError, match="plan='leapfrog' keeps no trace to report"):
        found.report()


def test_a_closure_is_drawn_in_one_figure(here, tmp_path):
    with transitive_closure([(1, 2), (2, 3)], here) as closure:
        assert closure.to_numpy().dtype == np.int64
        closure.plot(tmp_path / "closure.svg")
    assert (tmp_path / "closure.svg").stat().st_size > 1000


WITHOUT = """
from semi_naive import Program, Relation, transitive_closure
edge = Relation.from_tuples([("a", "b"), ("b", "c")], ["x", "y"], local_tuples=0)
assert edge.join(edge.rename(x="y", y="z")).to_df().count() == 1
with transitive_closure([("a", "b"), ("b", "c")]) as found:
    assert found.to_set() == {("a", "b"), ("b", "c"), ("a", "c")} and len(found.to_numpy()) == 3
    assert found.to_df().count() == 3
    try:
        found.to_pandas()
    except ImportError as error:
        print(error)
found = Program(".decl p(x: number)\\np(1). p(2).\\n.decl q(x: number)\\nq(x + 1) :- p(x).").run(local_tuples=0)["q"]
assert found.on_partitions and found.to_df().count() == 2 and found.to_set() == {(2,), (3,)}
"""


def test_what_is_here_becomes_arrow_without_a_spark_session(tmp_path):
    code = (
        "from semi_naive import transitive_closure; found = transitive_closure([(1, 2), (2, 3)]); found.to_arrow()\n"
        "from pyspark.sql import SparkSession; print(SparkSession._instantiatedSession)"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert made.stdout == "None\n", made.stderr


def test_without_pandas_only_pandas_is_missing(tmp_path):
    (tmp_path / "pandas.py").write_text("raise ImportError('there is no pandas here')")
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{WITHOUT}"]
    made = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert "to_pandas() needs the package pandas, which is not installed: pip install pandas" in made.stdout, made.stderr
    assert made.returncode == 0, made.stderr


def test_threads_stay_for_whoever_is_next():
    """But not for who is called by them, and not in a process that is forked."""
    both = Barrier(2, timeout=60)

    def meet(number):
        both.wait()
        return get_ident()

    first, again = set(in_threads(meet, range(2), 2)), set(in_threads(meet, range(2), 2))
    assert len(first) == 2 and again == first
    inner = list(in_threads(lambda number: sum(in_threads(abs, range(-number, 1), 2)), range(20), 2))
    assert inner == [number * (number + 1) // 2 for number in range(20)]
    child = os.fork()
    if child == 0:
        os._exit(list(in_threads(str, [1, 2], 2)) != ["1", "2"])
    assert os.waitpid(child, 0)[1] == 0


def test_batches_wait_for_who_takes_them():
    """However many there are, threads make a few ahead; whoever stops in the middle leaves none running."""
    made = []
    batches = in_threads(lambda number: made.append(number) or number, iter(range(1000)))
    assert [next(batches), next(batches)] == [0, 1]
    batches.close()
    assert len(made) <= 2 + WAITING_RESULTS_A_THREAD * cpus() + cpus()
    assert list(in_threads(str, range(50))) == list(map(str, range(50)))
    with pytest.raises(ZeroDivisionError):
        list(in_threads(lambda number: 1 // number, [1, 0]))


def test_a_relation_without_attributes_has_no_batches():
    with pytest.raises(ValueError, match="yes has no attributes, so it has no batches"):
        Program(".decl yes()\n.output yes\nyes().").run()["yes"].to_batches()
