"""Many iterations of linear rules in one job: the same tuples, born in the same iterations, as one job an iteration makes."""

from math import inf

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semi_naive import EvaluationError, Program

DECLARED = """
.decl edge(x: number, y: number)
.decl label(x: number, y: number, kind: number)
.decl near(x: number, y: number)
.output near
.decl far(x: number, y: number, d: number)
.output far
"""
GENERATION = "near(x, y) :- edge(p, x), edge(p, y).\nnear(x, y) :- edge(a, x), near(a, b), edge(b, y)."
LABELLED = "far(x, y, k) :- label(x, y, k).\nfar(x, z, k) :- far(x, y, k), label(y, z, k), !edge(z, x)."
MUTUAL = """
near(x, y) :- edge(x, y).
near(x, z) :- far(x, y, _), edge(y, z).
far(x, z, 0) :- near(x, y), edge(y, z), x != z.
far(y, x, d + 1) :- far(x, y, d), d < 3.
"""
LAYOUTS = [
    {"partitions": 1},
    {"partitions": 3, "buckets": 5},
    {"partitions": 3, "buckets": 3, "refinement_minimum": 1, "tolerance": 1.0, "grain": 0.1, "horizon": inf},
]
nodes = st.integers(0, 12)


def evaluated(here, text, facts, **options):
    """(the relations, tuples born in each iteration, jobs of more steps than one)."""
    with Program(DECLARED + text).run(facts, here, plan="balanced", local_tuples=0, **options) as result:
        traces = [stratum["trace"] for stratum in result.trace["strata"] if "trace" in stratum]
        births = [[born for entry in trace["iterations"] for born in entry["births"]] for trace in traces]
        ahead = sum(entry["steps"] > 1 for trace in traces for entry in trace["iterations"])
        return {name: result[name].to_set() for name in ("near", "far")}, births, ahead


@pytest.mark.parametrize("layout", LAYOUTS, ids=["one partition", "spread", "refined"])
@pytest.mark.parametrize("text", [GENERATION, LABELLED, MUTUAL], ids=["generation", "labelled", "mutual"])
def test_births_are_those_of_a_job_an_iteration(here, text, layout):
    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        st.lists(st.tuples(nodes, nodes), min_size=1, max_size=25),
        st.lists(st.tuples(nodes, nodes, st.integers(0, 1)), min_size=1, max_size=25),
        st.sampled_from([None, 2, 3]),
    )
    def same(edges, labels, most):
        facts = {"edge": np.array(edges), "label": np.array(labels)}
        plain = evaluated(here, text, facts, run_ahead=0, max_iterations=most, **layout)
        ahead = evaluated(here, text, facts, max_iterations=most, **layout)
        assert ahead[:2] == plain[:2]

    same()


def test_a_long_chain_takes_few_jobs(here):
    chain = np.array([(i, i + 1, 7) for i in range(300)])
    found, (births,), ahead = evaluated(here, LABELLED, {"edge": chain[:1, :2], "label": chain}, partitions=2)
    assert len(found["far"]) == 300 * 301 // 2
    assert births == [*range(300, 0, -1), 0]
    assert 1 <= ahead <= 3


def test_an_error_in_a_later_step_is_told_with_its_rule(here):
    text = "far(x, y, 5) :- edge(x, y).\nfar(x, y, 7 / d) :- far(x, y, n), d = n - 4 - n / 7 * 3.\n"
    with pytest.raises(EvaluationError, match=r"far\(x, y, 7 / d\)"):
        evaluated(here, text, {"edge": np.array([(1, 2)]), "label": np.empty((0, 3), np.int64)}, partitions=2)
