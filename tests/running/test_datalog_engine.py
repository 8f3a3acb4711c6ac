"""Datalog programs mean what the oracle says, wherever and however they are evaluated."""

from math import inf

import numpy as np
import pytest

from bench.fuzz.checks import LAYOUTS, check, layouts
from bench.fuzz.oracle import closure
from bench.fuzz.rounds import in_turn, random_cases
from semi_naive import Config, EvaluationError, Program
from semi_naive.__main__ import main
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.table import Table

NONLINEAR = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), path(y, z), x >= 0.
"""


@random_cases(200)
def test_the_driver_agrees_with_the_oracle(case, random, machine, monkeypatch):
    """A block at a time, a tuple at a time, and to and fro between them; recursive atoms read by the columns in use."""
    monkeypatch.setattr("semi_naive.ra.rules.steps.MIN_PAIRED_BINDINGS", random.choice([0, 512]))
    if random.random() < 0.5:
        monkeypatch.setattr("semi_naive.running.relations.database.MIN_INDEXED_TUPLES", 0)
        monkeypatch.setattr("semi_naive.running.relations.database.MIN_REPAYING_BINDINGS", 0)
        monkeypatch.setattr("semi_naive.running.relations.database.distinct_share", lambda table, columns: 0.25)
    check(case, Config(small_delta=random.choice([0, 1, 2, 3, 5, 50_000])))


@random_cases(100)
def test_rules_on_several_cores_agree_with_the_oracle(case, random, monkeypatch, here):
    """In slices, and together, however little there is to cut; a block at a time, and handed over in the middle as well."""
    monkeypatch.setattr("semi_naive.ra.rules.derive.MIN_SLICE_BINDINGS", 1)
    monkeypatch.setattr("semi_naive.running.relations.cluster.Cluster.driver_cores", 3)
    monkeypatch.setattr("semi_naive.ra.rules.steps.MIN_PAIRED_BINDINGS", random.choice([0, 512]))
    config = Config(small_delta=0, local_tuples=random.choice([5, 1_000_000]), buckets=4)
    for least, shared in in_turn(case.seed, [(1 << 60, 1), (0, 1 << 60), (0, 1)]):  # in slices, together, both
        monkeypatch.setattr("semi_naive.running.driver.together.MIN_DELTA_TUPLES", least)
        monkeypatch.setattr("semi_naive.running.driver.together.MIN_SHARED_BINDINGS", shared)
        check(case, config, spark=here)


ROUND = """
.decl edge(x: number, y: number)
.input edge
.decl a(x: number, y: number)
.output a
.decl b(x: number, y: number)
.output b
a(x, y) :- edge(x, y).
a(x, z) :- a(x, y), b(y, z).
a(x, z) :- b(x, y), edge(y, z).
b(y, x) :- a(x, y).
b(x, z) :- b(x, y), b(y, z), x < z.
"""


def test_rules_that_run_together_make_what_they_make_in_turn(monkeypatch):
    """Which of them a tuple is born by does not depend on who is quicker."""
    monkeypatch.setattr("semi_naive.running.driver.together.MIN_DELTA_TUPLES", 0)
    edges, found = np.random.default_rng(0).integers(60, size=(90, 2)), {}
    for cores in (1, 3):
        monkeypatch.setattr("semi_naive.running.relations.cluster.Cluster.driver_cores", cores)
        with Program(ROUND).run({"edge": edges}, small_delta=0) as result:
            kept = ("rule", "made", "tuples", "runs")
            rules = [{key: rule[key] for key in kept} for rule in result.trace["profile"]["rules"]]
            found[cores] = rules, result["a"].to_set(), result["b"].to_set()
    assert found[1] == found[3] and min(rule["tuples"] for rule in found[1][0]) > 0


def test_what_has_no_value_in_rules_that_run_together_is_an_error_of_the_first(monkeypatch):
    monkeypatch.setattr("semi_naive.running.driver.together.MIN_DELTA_TUPLES", 0)
    monkeypatch.setattr("semi_naive.running.relations.cluster.Cluster.driver_cores", 3)
    text = ROUND + "b(x / (y - y), y) :- a(x, y), x > 2.\na(x, y % (x - x)) :- b(x, y), x > 2.\n"
    with pytest.raises(EvaluationError, match=r"b\(x / \(y - y\), y\)"):
        Program(text).run({"edge": [(i, i + 1) for i in range(9)]}, small_delta=0)


def same_generation(parents: np.ndarray) -> np.ndarray:
    """As a matrix of who is of the same generation, from one of whose parent is who."""
    counts, same = parents.astype(np.int64), np.zeros_like(parents)
    first = (counts.T @ counts > 0) & ~np.eye(len(parents), dtype=bool)
    while True:
        more = first | (counts.T @ same.astype(np.int64) @ counts > 0)
        if (more == same).all():
            return same
        same = more


@pytest.mark.parametrize("cores, spread, made", [(1, 1, 1 << 17), (3, 1, 1), (3, 37, 100), (2, 100_000, 1 << 17)])
def test_dense_and_sparse_relations_are_the_same_in_chunks(monkeypatch, tmp_path, cores, spread, made):
    """Joins of pairs make bitmaps, of rows that are full or nearly empty, whatever the relation's values are."""
    monkeypatch.setattr("semi_naive.ra.rules.derive.MIN_SLICE_BINDINGS", 1)
    monkeypatch.setattr("semi_naive.running.relations.cluster.Cluster.driver_cores", cores)
    monkeypatch.setattr("semi_naive.ra.joins.unions.HANDED_OVER_CHUNKS", made)
    monkeypatch.setattr("semi_naive.ra.blocks.unpacking.ROWS", 1000)
    text = """
    .decl edge(parent: number, child: number)
    .input edge
    .decl same(x: number, y: number)
    .output same
    .decl turned(x: number, y: number)
    .output turned
    same(x, y) :- edge(p, x), edge(p, y), x != y.
    same(x, y) :- edge(p, x), same(p, q), edge(q, y).
    turned(y, x) :- same(x, z), edge(z, y), !edge(y, z).
    """
    parents = np.random.default_rng(0).random((200, 200)) < 0.012
    expected = same_generation(parents)
    joined = (expected.astype(np.int64) @ (parents & ~parents.T).astype(np.int64)) > 0
    with Program(text).run({"edge": spread * np.argwhere(parents)}, small_delta=0) as result:
        assert result["same"].to_set() == set(map(tuple, (spread * np.argwhere(expected)).tolist()))
        assert result["turned"].to_set() == set(map(tuple, (spread * np.argwhere(joined.T)).tolist()))
        assert result["same"].count() == expected.sum() > 10_000
        for rows in (result["same"].to_numpy(), result.database.columns("same").T):
            assert np.array_equal(rows[np.lexsort(rows.T[::-1])], spread * np.argwhere(expected))
        result["same"].write(tmp_path / "same.csv")
    lines = (tmp_path / "same.csv").read_text().splitlines()
    assert [tuple(map(int, line.split(","))) for line in lines] == list(map(tuple, (spread * np.argwhere(expected)).tolist()))


BLOCKS = """
.type Pair = [a: number, b: number]
.decl n(x: number)
n(1).
n(x + 1) :- n(x), x < 29.
.decl p(p: Pair)
.output p
p([x, x]) :- n(x).
"""


def test_records_are_numbered_by_one_thread(monkeypatch):
    """The first atom of the last rule has several blocks of tuples, and a record that two threads number has two numbers."""
    monkeypatch.setattr("semi_naive.running.relations.cluster.Cluster.driver_cores", 2)
    monkeypatch.setattr("semi_naive.running.driver.local.in_threads", lambda *_: pytest.fail("threads number records"))
    with Program(BLOCKS).run(small_delta=0) as result:
        assert result["p"].to_set() == {((n, n),) for n in range(1, 30)}


MOVING = """
.type Pair = [a: number, b: number]
.decl e(x: number, y: number)
.decl f(x: number, s: symbol)
e(1, 2). e(2, 3). e(3, 4). e(4, 5).
f(2, "b"). f(3, "c"). f(4, "d"). f(5, "e").
.decl strings(s: symbol, t: symbol)
.output strings
strings(cat(t, u), t) :- e(x, y), s = to_string(x), f(y, a), t = cat(s, a), f(y + 1, u), strlen(t) = 2, x > 1.
.decl records(n: number, p: Pair)
.output records
records(n, p) :- e(x, y), p = [x, y], e(y, z), e(z, _), n = count : { e(a, b), p = [a, b] }.
"""


@pytest.mark.parametrize("partitions", [1, 3])
def test_what_rules_make_on_one_partition_is_read_on_another(here, partitions):
    """A worker knows the symbols and records that it has made itself, and those that the driver knew before the iteration."""
    with Program(MOVING).run(spark=here, local_tuples=0, replicate_bytes=0, partitions=partitions) as result:
        assert result["strings"].to_set() == {("2cd", "2c"), ("3de", "3d")}
        assert result["records"].to_set() == {(1, (1, 2)), (1, (2, 3))}


def test_threads_insert_what_needs_a_wider_packing(monkeypatch):
    """While others sort what they have made by the one before; a lattice and an equivalence, too."""
    monkeypatch.setattr("semi_naive.ra.rules.derive.MIN_SLICE_BINDINGS", 1)
    monkeypatch.setattr("semi_naive.running.relations.cluster.Cluster.driver_cores", 4)
    text = """
    .decl given(x: number, y: number)
    .input given
    .decl wide(x: number, y: number)
    .output wide
    .decl least(x: number, y: number)
    .output least
    .decl same(x: number, y: number) eqrel
    .output same
    wide(x * x * x, y) :- given(x, y).
    wide(x, y - 1000000) :- wide(x, y), y > 100, x >= 0.
    least(x % 10, min(y)) :- given(x, y).
    same(x, y) :- given(x, y), x < 50, y < 50.
    """
    rows = np.random.default_rng(0).integers(-(10**6), 10**6, (3000, 2))
    rows[:200] %= 60
    found = {}
    for cores in (1, 4):
        monkeypatch.setattr("semi_naive.running.relations.cluster.Cluster.driver_cores", cores)
        with Program(text).run({"given": rows}, small_delta=0) as result:
            found[cores] = {name: result[name].to_set() for name in ("wide", "least", "same")}
    assert found[1] == found[4] and len(found[1]["wide"]) > 3000


@pytest.mark.parametrize("as_block", [False, True])
@pytest.mark.parametrize("entered", [1, 2])
def test_a_packing_that_a_thread_chooses_has_room_for_what_others_are_about_to_insert(as_block, entered):
    """What is on its way is in no block of the table yet."""
    columns = [np.array([-1, 2]), np.array([-5, 6])]
    table, wide = Table(2), [np.array([1 << 40, 3]), np.array([3, 4])]
    table.insert([np.array([-7]), np.array([-7])], 1)
    block = Block.of(columns, 2, table.packing.ordered(table.home))
    table.new = []

    class Alone:
        """Another thread comes in before this one."""

        times = 0

        def __enter__(self):
            self.times += 1
            if self.times == entered:
                table.insert(wide, 2)

        def __exit__(self, *error):
            pass

    made = table.insert_block(block, Alone()) if as_block else table.insert(columns, 2, Alone())
    rows = set(zip(*(column.tolist() for column in table.columns()), strict=True))
    assert made == 2 and rows == {(-1, -5), (2, 6), (1 << 40, 3), (3, 4)}


@random_cases(30)
def test_every_layout_agrees_with_the_oracle(case, random, here):
    """All relations replicated, some of them, none."""
    check(case, *in_turn(case.seed, layouts(1 << 30, 100, 0)), spark=here)


@random_cases(20)
def test_every_stratum_stops_after_so_many_iterations(case, random, here, machine):
    """Wherever it is evaluated: facts and rules without recursion are the first, each further one applies all rules."""
    config = random.choice([Config(), *LAYOUTS])
    for iterations in range(1, 6):
        check(case, config.with_options({"max_iterations": iterations}), spark=here)


def test_iterations_of_a_closure_are_counted_whichever_plan_runs_it(here):
    """By path-edge, by path-path and with a filter; also where another rule would be better for more of them."""
    edges = [(i, i + 1) for i in range(40)]
    step = "path(x, z) :- path(x, y), path(y, z), x >= 0."
    forms = {"path(x, z) :- path(x, y), edge(y, z).": 4, "path(x, z) :- path(x, y), path(y, z).": 8, step: 8}
    for form, length in forms.items():
        for options in ({}, {"local_tuples": 0, "partitions": 2}, {"local_tuples": 20, "partitions": 3}):
            with Program(NONLINEAR.replace(step, form)).run({"edge": edges}, here, max_iterations=4, **options) as result:
                assert result["path"].count() == sum(41 - steps for steps in range(1, length + 1)), (form, options)


def test_a_rule_joined_by_halves_has_its_iterations_counted_as_written(here):
    """A half of its own would take an iteration of its own."""
    text = """
    .decl load(x: number, y: number)
    .decl to(x: number, o: number)
    .output to
    to(x, o) :- load(x, o).
    to(x, o) :- load(x, y), to(y, z), to(z, o).
    """
    program = Program(text)
    assert "half@1" in program.compile({"load": []}).program.relations
    with program.run({"load": [(i, i + 1) for i in range(9)]}, here, max_iterations=2) as result:
        assert {o - x for x, o in result["to"].to_set()} == {1, 3}


@random_cases(5)
def test_layouts_agree_with_the_oracle_on_spark(case, random, spark):
    check(case, random.choice(LAYOUTS).with_options({"replicate_bytes": random.choice([0, 1 << 30])}), spark=spark)


def skewed(size: int = 60) -> np.ndarray:
    """A few nodes with most edges, so that buckets differ."""
    rng = np.random.default_rng(5)
    return np.unique(np.minimum(rng.geometric(0.08, (size * 3, 2)), size), axis=0)


@pytest.mark.parametrize(("balance", "policy"), [(True, "work"), (True, "paper"), (False, "work")])
def test_buckets_are_refined_in_the_middle_of_joins_with_themselves(here, balance, policy):
    """A refined bucket's deltas go to every subbucket; nothing is lost, nothing is found that is not there."""
    options = {"local_tuples": 0, "partitions": 3, "buckets": 4, "refinement_minimum": 1, "policy": policy, "grain": 0.1}
    options["horizon"] = inf  # cost is ignored
    options |= {"refinement_ratio": 1.1, "tolerance": 1.0, "refine": balance, "consolidate": balance}
    edges = skewed()
    with Program(NONLINEAR).run({"edge": edges}, here, **options) as result:
        assert result["path"].to_set() == closure([tuple(edge) for edge in edges.tolist()])
        (trace,) = [stratum["trace"] for stratum in result.trace["strata"] if "trace" in stratum]
    events = {event["event"] for event in trace["events"]}
    assert ("refine" in events) == balance
    for iteration in trace["iterations"]:
        assert sum(map(sum, iteration["sizes"])) == sum(iteration["loads"])


def test_the_driver_goes_on_with_what_earlier_strata_left_on_the_partitions(here):
    text = (
        NONLINEAR
        + """
    .decl back(x: number, y: number)
    .output back
    back(x, y) :- path(y, x), x > y.
    back(x, z) :- back(x, y), path(z, y), z >= 0.
    .decl some()
    .output some
    some() :- some(), again().
    .decl again()
    again() :- path(_, _).
    again() :- again(), some().
    some() :- back(5, _).
    """
    )
    edges = np.array([(i, i + 1) for i in range(12)])
    for options in ({"local_tuples": 3, "partitions": 2}, {"local_tuples": 0, "partitions": 3}):
        with Program(text).run({"edge": edges}, here, **options) as result:
            assert result["back"].to_set() == {(y, x) for x, y in closure([tuple(edge) for edge in edges.tolist()])}
            assert result["some"].to_list() == [()]


def test_a_threshold_makes_inner_iterations(here):
    edges = np.array([(i, i + 1) for i in range(12)])
    with Program(NONLINEAR).run({"edge": edges}, here, local_tuples=0, rollover_threshold=1, partitions=2) as result:
        assert result["path"].count() == 12 * 13 // 2
        (trace,) = [stratum["trace"] for stratum in result.trace["strata"] if "trace" in stratum]
    assert "roll-over" in {event["event"] for event in trace["events"]}


def test_symbols_and_records_are_made_on_the_partitions(spark):
    """By several workers at once, over several iterations: the same content has the same id."""
    text = """
    .type Cell = [head: symbol, tail: Cell]
    .decl letter(x: symbol)
    .decl word(x: symbol, cell: Cell)
    .output word
    word("", nil).
    word(cat(w, l), [l, c]) :- word(w, c), letter(l), strlen(w) < 3.
    .decl length(n: number)
    .output length
    length(n) :- n = count : { word(_, _) }.
    """
    facts = {"letter": [("a",), ("b",), ("é",)]}
    with Program(text).run(facts) as here, Program(text).run(facts, spark, local_tuples=0, partitions=3) as there:
        assert there["word"].to_set() == here["word"].to_set()
        assert there["length"].to_list() == [(len(here["word"]),)]
        assert any(stratum["plan"] == "balanced" for stratum in there.trace["strata"])


def test_shortest_paths_end_on_cycles_in_every_layout(here):
    text = """
    .decl edge(x: number, y: number, w: number)
    .decl far(x: number, d: number)
    .output far
    far(0, 0).
    far(y, min(d + w)) :- far(x, d), edge(x, y, w).
    """
    rng = np.random.default_rng(2)
    edges = np.column_stack([rng.integers(0, 40, (160, 2)), rng.integers(1, 9, 160)])
    best = {0: 0}
    for _ in range(40):
        for x, y, w in edges.tolist():
            if x in best and best[x] + w < best.get(y, 1 << 60):
                best[y] = best[x] + w
    for options in ({}, {"local_tuples": 0, "partitions": 3}, {"local_tuples": 5, "partitions": 2}):
        with Program(text).run({"edge": edges}, here, **options) as result:
            assert dict(result["far"].to_list()) == best


def test_the_least_vertex_of_each_component_in_every_layout(here):
    """Heads are folded to one of each key before they are sorted, and before they are sent."""
    text = """
    .decl edge(x: number, y: number)
    .decl component(x: number, c: number)
    .output component
    component(x, min(x)) :- edge(x, _) ; edge(_, x).
    component(y, min(c)) :- component(x, c), edge(x, y).
    component(x, min(c)) :- component(y, c), edge(x, y).
    """
    edges = np.random.default_rng(5).integers(-3000, 3000, (5000, 2))
    least: dict[int, int] = {vertex: vertex for vertex in edges.ravel().tolist()}
    for _ in range(len(least)):
        before = dict(least)
        for x, y in edges.tolist():
            least[x] = least[y] = min(least[x], least[y])
        if least == before:
            break
    for options in ({}, {"local_tuples": 0, "partitions": 3}, {"local_tuples": 4000, "partitions": 2}):
        with Program(text).run({"edge": edges}, here, **options) as result:
            assert dict(result["component"].to_list()) == least
    assert "fused" not in Program(text).explain({"edge": edges})


def test_a_closure_written_in_datalog_is_decomposed(here):
    edges = np.array([(i, i + 1) for i in range(5000)])
    text = NONLINEAR.replace(", x >= 0", "")
    with Program(text).run({"edge": edges}, here) as result:
        assert [stratum["plan"] for stratum in result.trace["strata"]][-1] == "decomposed"
        assert result["path"].count() == 5000 * 5001 // 2


def test_an_error_in_a_worker_names_the_rule(spark):
    text = ".decl a(x: number)\n.decl b(x: number)\n.output b\nb(10 / x) :- a(x).\n"
    for options in ({}, {"local_tuples": 0}):
        with pytest.raises(EvaluationError, match=r"(?s)division by zero.*line 4, column 1.*b\(10 / x\)"):
            Program(text).run({"a": [(1,), (0,)]}, spark, **options)


def test_nothing_is_left_on_disk(here, tmp_path):
    edges = skewed()
    with Program(NONLINEAR).run({"edge": edges}, here, local_tuples=0, local_dir=str(tmp_path)) as result:
        assert any(tmp_path.iterdir())
        assert result["path"].count()
    assert not any(tmp_path.iterdir())


def test_spark_is_not_started_for_what_is_small():
    def never():
        raise AssertionError("Spark was asked for")

    with Program(NONLINEAR).run({"edge": [(1, 2), (2, 3)]}, never) as result:
        assert result["path"].to_set() == {(1, 2), (1, 3), (2, 3)}


def test_the_balance_of_a_program_is_drawn(spark, tmp_path, capsys):
    """`run --trace`, then `plot`: a picture of each stratum that was on the partitions; where none was, of its time."""
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "edge.facts").write_text("".join(f"{x}\t{y}\n" for x, y in skewed(30).tolist()))
    (tmp_path / "path.dl").write_text(NONLINEAR + ".input edge\n")
    command = ["run", str(tmp_path / "path.dl"), "-F", str(tmp_path / "facts"), "-D", str(tmp_path), "-q"]
    for options, name in (["--set", "local_tuples=0"], "spread"), ([], "local"):
        record = str(tmp_path / f"{name}.json")
        main([*command, *options, "--trace", record])
        main(["plot", record, "-o", str(tmp_path)])
        assert (tmp_path / f"{name}-rules.png").stat().st_size > 10_000
    assert not (tmp_path / "local-path-balance.png").exists()
    assert (tmp_path / "spread-path-balance.png").stat().st_size > 10_000
    assert "local_tuples=0 spreads them all" in capsys.readouterr().err
