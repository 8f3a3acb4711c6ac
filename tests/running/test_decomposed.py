"""Groups that never meet: found in the rules, evaluated one by one, and the same as all together."""

from contextlib import nullcontext
from itertools import product

import numpy as np
import pytest

from bench.fuzz.checks import run, same_relations, solved
from bench.fuzz.jobs_here import on_threads
from bench.fuzz.rounds import in_turn, random_cases
from semi_naive import Config, EvaluationError, Program
from semi_naive.balance.record import checked
from semi_naive.balance.trace import VERSION
from semi_naive.ra.partitions import groups

LAYOUTS = [
    Config(local_tuples=0, partitions=3, buckets=5),
    Config(local_tuples=0, partitions=1, buckets=64),
    Config(local_tuples=0, partitions=2, buckets=2),
    Config(local_tuples=3, partitions=2, buckets=4),  # begun in the driver, handed over
]
LABELLED = """
.decl edge(l: number, x: number, y: number)
.input edge
.decl path(l: number, x: number, y: number)
.output path
path(l, x, y) :- edge(l, x, y).
path(l, x, z) :- path(l, x, y), edge(l, y, z).
"""


def test_every_layout_agrees_with_the_oracle(here, monkeypatch):
    """Random programs whose rules all carry a column; `room`: tuples from which a piece is cut in two."""
    plans = {case: [] for case in product(range(len(LAYOUTS)), (1 << 24, 4), (False, True))}

    @random_cases(40, carrying=True)
    def agrees(case, random):
        iterations = random.choice([None, None, 1, 2, 4])
        expected = solved(case, None, iterations)
        for layout, room, threads in in_turn(case.seed, [*plans]):
            config = LAYOUTS[layout].with_options({"max_iterations": iterations})
            monkeypatch.setattr(groups, "MAX_PIECE_TUPLES", room)
            try:
                with on_threads() if threads else nullcontext(here) as spark:
                    found, trace = run(case, config, spark, plan="decomposed")
            except ValueError as refused:
                assert "carries no column" in str(refused)  # a column of one value is a constant by now
                return
            same_relations(found, expected, f"room {room}, by {config}")
            plans[layout, room, threads] += [stratum["plan"] for stratum in trace["strata"]]

    agrees()
    assert all("decomposed" in made for made in plans.values())


def test_a_stratum_without_tuples_has_a_trace_that_can_be_drawn(here):
    with Program(LABELLED).run({"edge": []}, here, plan="decomposed", local_tuples=0) as result:
        (stratum,) = result.trace["strata"]
        assert checked(result.trace, VERSION) and stratum["trace"]["iterations"][0]["births"] == [0]


def labelled(size: int = 300, labels: int = 9) -> np.ndarray:
    rng = np.random.default_rng(3)
    return np.unique(np.column_stack([rng.integers(0, labels, size), rng.integers(0, 25, (size, 2))]), axis=0)


def stratum_of(result) -> dict:
    (found,) = [stratum for stratum in result.trace["strata"] if stratum["recursive"]]
    return found


@pytest.mark.parametrize("room", [1 << 24, 50])
def test_a_labelled_closure_is_decomposed(here, room, monkeypatch):
    monkeypatch.setattr(groups, "MAX_PIECE_TUPLES", room)
    edges = labelled()
    program = Program(LABELLED)
    with program.run({"edge": edges}) as expected, program.run({"edge": edges}, here, local_tuples=0) as result:
        assert result["path"].to_set() == expected["path"].to_set()
        stratum, relation = stratum_of(result), result.database.on_partitions["path"].relation
    assert stratum["plan"] == "decomposed" and "carry path(l, x) unchanged" in stratum["reason"]
    (iteration,) = stratum["trace"]["iterations"]
    assert sum(iteration["births"]) == sum(iteration["loads"]) == relation.home.sizes.sum() == len(expected["path"])
    assert relation.home.keys == 2
    assert (sum(map(len, relation.home.full)) > len(iteration["loads"])) == (room == 50)


def test_few_groups_and_one_large_one_are_balanced(here):
    """Unless it has been asked for: then a stratum has to be decomposed, or it is said why it cannot be."""
    one = np.array([(0, x, x + 1) for x in range(60)])
    for edges, reason in ((one[:5], "it has 5 groups of path(l, x), too few for 2 cores"), (labelled(), "")):
        with Program(LABELLED).run({"edge": edges}, here, local_tuples=0) as result:
            assert stratum_of(result)["reason"].startswith(reason or "it reads")
            assert stratum_of(result)["plan"] == ("balanced" if reason else "decomposed")
        with Program(LABELLED).run({"edge": edges}, here, local_tuples=0, plan="balanced") as result:
            assert stratum_of(result)["plan"] == "balanced"
        with Program(LABELLED).run({"edge": edges}, here, local_tuples=0, plan="decomposed") as result:
            assert stratum_of(result)["plan"] == "decomposed"


def test_what_cannot_be_decomposed_is_refused(here):
    swapped = LABELLED + "path(l, y, x) :- path(l, x, y).\npath(y, l, x) :- path(l, x, y).\n"
    with pytest.raises(ValueError, match=r"path cannot be evaluated by the decomposed plan: it carries no column.*path\(y"):
        Program(swapped).run({"edge": labelled()}, here, plan="decomposed")
    for refused, line in (("limitsize", ".limitsize path(n=3)\n"), ("expected one of auto", "")):
        with pytest.raises(ValueError, match=refused):
            Program(LABELLED + line).run({"edge": labelled()}, here, plan="decomposed" if line else "groups")


FORMS = [f"path(x, z) :- {body}." for body in ("path(x, y), edge(y, z)", "edge(x, y), path(y, z)", "path(x, y), path(y, z)")]
PAIRS = """
.decl edge(x: number, y: number)
.decl start(x: number, y: number)
.decl path(x: number, y: number)
.output path
"""
READER = """
.decl far(y: number, n: number)
.output far
far(y, n) :- start(y, _), n = count : {{ path(y, _) }}, !path(y, {}).
"""


@pytest.mark.parametrize("read", [False, True], ids=["made again", "written"])
@pytest.mark.parametrize("base", ["edge", "start"])
@pytest.mark.parametrize("form", FORMS, ids=["path-edge", "edge-path", "path-path"])
def test_pairs_that_follow_edges(here, form, base, read):
    """By the bit-set kernel, from any base, whether or not another rule reads them, and for so many iterations."""
    text = PAIRS + f"path(x, y) :- {base}(x, y).\n{form}\n" + READER.format(7) * read
    rng = np.random.default_rng(4)
    facts = {"edge": rng.integers(0, 200, (220, 2)), "start": rng.integers(-50, 1 << 33, (90, 2))}
    facts["start"][::2, 1] = facts["edge"][:45, 0]
    for iterations in (None, 1, 3):
        if form == FORMS[2] and (base == "start" or iterations):
            continue
        options = {"max_iterations": iterations}
        with Program(text).run(facts, **options) as expected:
            for plan in {"local_tuples": 0}, {"local_tuples": 30}, {"plan": "decomposed"}:
                with Program(text).run(facts, here, partitions=3, **plan, **options) as result:
                    assert all(result[name].to_set() == expected[name].to_set() for name in result)
                    stratum = stratum_of(result)
                    assert stratum["plan"] == "decomposed"
                    births = stratum["trace"]["iterations"][0]["births"]
                    assert sum(births) == len(result["path"])
                    assert plan == {"local_tuples": 30} or len(births) <= (iterations or len(births))


def test_what_a_task_makes_and_what_it_raises(here):
    """Strings and records made inside of groups are known afterwards; an error names its rule."""
    text = """
    .type Cell = [head: symbol, tail: Cell]
    .decl letter(g: number, x: symbol)
    .decl word(g: number, x: symbol, cell: Cell)
    .output word
    word(g, "", nil) :- letter(g, _).
    word(g, cat(w, l), [l, c]) :- word(g, w, c), letter(g, l), strlen(w) < 3.
    """
    facts = {"letter": [(g, letter) for g in range(12) for letter in "abé"[: 1 + g % 3]]}
    with Program(text).run(facts) as expected, Program(text).run(facts, here, local_tuples=0) as result:
        assert stratum_of(result)["plan"] == "decomposed"
        assert result["word"].to_set() == expected["word"].to_set()
    text = text.replace("strlen(w) < 3", "strlen(w) < 6 / (2 - strlen(w))")
    with pytest.raises(EvaluationError, match=r"(?s)division by zero.*word\(g, cat"):
        Program(text).run(facts, here, local_tuples=0)


def test_shortest_paths_by_source_on_spark(spark):
    """A lattice with a carried key, read by another rule, and as a DataFrame."""
    text = """
    .decl edge(x: number, y: number, w: number)
    .decl far(y: number, x: number, d: number)
    .output far
    far(x, x, 0) :- edge(x, _, _).
    far(z, x, min(d + w)) :- far(y, x, d), edge(y, z, w).
    .decl eccentric(x: number, d: number)
    .output eccentric
    eccentric(x, d) :- edge(x, _, _), d = max e : { far(_, x, e) }.
    """
    rng = np.random.default_rng(2)
    facts = {"edge": np.column_stack([rng.integers(0, 60, (150, 2)), rng.integers(1, 9, 150)])}
    with Program(text).run(facts) as expected, Program(text).run(facts, spark, local_tuples=0) as result:
        assert stratum_of(result)["plan"] == "decomposed" and "far(x)" in stratum_of(result)["reason"]
        assert all(result[name].to_set() == expected[name].to_set() for name in result)
        assert {tuple(row) for row in result["far"].to_df().collect()} == expected["far"].to_set()
