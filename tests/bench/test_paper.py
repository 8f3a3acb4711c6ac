"""The papers' evaluations: closed forms against closures by brute force, every figure at toy size, its files, bad arguments."""

import csv
import json
import sys
from importlib import import_module
from math import inf

import numpy as np
import pytest

from bench.fuzz.oracle import closure
from bench.paper import boxes, budgets, claims, datasets, fig8, fig12, growth, simulated, skew, trees
from bench.paper.__main__ import NAMES, PAPERS, main
from bench.paper.evaluation import Evaluation
from bench.paper.tables import ResultTable
from semi_naive import Config, graphs, simulate, transitive_closure
from semi_naive.balance.hashing import bucket_of
from semi_naive.balance.machine import Machine
from semi_naive.balance.policy import imbalance_ratio

KINDS = [("up", "T"), ("down", "T"), ("up", "G"), ("down", "G")]


ON_SPARK = "fig12", "skew"  # where memory is measured, and a join has jobs of its own; those of the others run in this process


@pytest.fixture(scope="module")
def paper(spark, here, tmp_path_factory):
    """All figures at toy size: (exit statuses, folder)."""
    folder = tmp_path_factory.mktemp("paper")
    on_spark = main(["--toy", "--only", ",".join(ON_SPARK), "-o", str(folder)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Evaluation, "spark", here)
        others = main(["--toy", "--only", ",".join(name for name in NAMES if name not in ON_SPARK), "-o", str(folder)])
    return (on_spark, others), folder


@pytest.mark.parametrize("direction, relation", KINDS)
def test_bucket_sizes_are_those_of_the_closure(direction, relation):
    counts = trees.depth_counts(7, 12)
    for height in (1, 2, 5, 7):
        for steps in (1, 2, height):
            edges = graphs.tree(height, direction)
            tuples = closure(edges.tolist(), steps) if relation == "T" else edges.tolist()
            keys = np.array([pair[relation == "T"] for pair in tuples], np.uint64)
            expected = np.bincount(bucket_of(keys, np.uint64(12)).astype(int), minlength=12)
            found = trees.bucket_sizes(counts, direction, relation, height, steps)
            assert found.tolist() == expected.tolist(), (height, steps)


def test_bucket_sizes_are_those_of_the_engine(here):
    layout = {"buckets": 24, "partitions": 3, "run_ahead": 0, "replicate_bytes": 0, "refine": False, "consolidate": False}
    with transitive_closure(graphs.tree(6, "down"), here, plan="balanced", **layout) as found:
        entries = found.trace["iterations"]
    counts = trees.depth_counts(6, 24)  # the engine numbers the nodes breadth first from the root, as the heap does
    for entry in entries:
        sizes = trees.bucket_sizes(counts, "down", "T", 6, entry["iteration"])
        assert [sum(subs) for subs in entry["sizes"]] == sizes.tolist()


def test_depths_are_counted_in_chunks(monkeypatch):
    whole = trees.depth_counts(9, 7)
    monkeypatch.setattr(trees, "CHUNK", 100)
    assert (trees.depth_counts(9, 7) == whole).all()
    assert whole.sum(axis=1).tolist() == [2**depth for depth in range(10)]


def test_the_root_alone_is_what_one_bucket_for_the_root_has():
    for height in (2, 5, 11):
        pairs = sum(depth * 2**depth for depth in range(height + 1))
        assert trees.root_alone(height, 64) == pytest.approx(64 * (2 ** (height + 1) - 2) / pairs)
    assert trees.root_alone(25, 1) == pytest.approx(1 / 24, rel=1e-6)


@pytest.mark.parametrize("direction, relation", KINDS)
@pytest.mark.parametrize("buckets", [64, 512])
def test_the_closed_form_is_near_what_is_measured(direction, relation, buckets):
    """Of what is over 1, the heaviest of many by chance: within a factor; of the root's bucket: closely."""
    counts, factor = trees.depth_counts(17, buckets), 1.2 if (direction, relation) == ("up", "T") else 2
    for height in range(14, 18):
        measured = trees.measured(counts, direction, relation, height) - 1
        closed = trees.closed_form(direction, relation, height, buckets) - 1
        assert closed / factor < measured < closed * factor, height


def test_what_the_papers_ratio_needs():
    found = {reading["edges"]: reading for reading in fig8.readings()}
    assert [edges for edges, reading in found.items() if reading["exact"]] == [26]
    assert found[26]["buckets"] == pytest.approx(5120) and found[25]["buckets"] == pytest.approx(4915.2)


def test_the_papers_bow_tie_has_the_papers_pairs():
    width, length = fig12.SIZES["full"][0], fig12.LENGTH
    assert width**2 + 2 * width * (length + 1) + length * (length + 1) // 2 == claims.BOWTIE_PAIRS


@pytest.mark.parametrize("threshold", [7, 20, 75, 500, 5000])
def test_inner_iterations_of_a_bow_tie_are_the_simulators(threshold):
    """The thresholds are not near 60: a rank makes 60 heads of the sources or the sinks, and a few others beside."""
    record = simulate(graphs.bowtie(60, 4), 4, rollover_threshold=threshold, refine=False, buckets=64)
    found = [sum(phase["phase"] == "join" for phase in entry["phases"]) for entry in record["iterations"][1:-1]]
    assert len(found) == 5 and sum(found) == fig12.inner_iterations(60, 5, threshold)


def test_the_papers_inner_iterations_follow_from_an_exceeded_threshold():
    """No bow tie has them all: four are of a string of ten nodes, one of eleven."""
    of_ten, of_eleven = ({t: fig12.inner_iterations(20_000, n, t) for t in claims.BOWTIE_INNER} for n in (10, 11))
    assert {t: n for t, n in of_ten.items() if n != claims.BOWTIE_INNER[t]} == {10_000: 20_018}
    assert of_eleven[10_000] == claims.BOWTIE_INNER[10_000]


def test_claims_are_the_defaults_of_the_paper():
    config = Config.paper()
    assert config.refinement_ratio == claims.REFINEMENT_RATIO and config.refinement_factor == claims.REFINEMENT_FACTOR
    assert config.consolidation_fraction == claims.CONSOLIDATION_FRACTION
    assert config.rollover_threshold == claims.ROLLOVER_THRESHOLD


def test_subbuckets_grow_as_simulated(monkeypatch):
    monkeypatch.setattr(growth, "LEAST", 16)
    data = growth.measure(Evaluation("toy", quiet=True))
    assert data["rows"][-1]["simulated"] > growth.BUCKETS  # there was something to balance
    for row in data["rows"]:
        assert row["simulated"] == pytest.approx(row["closed"], rel=0.1)
    assert data["rows"][-1]["imbalance"] < data["rows"][-1]["without"]


def test_seconds_of_a_simulation_add_up():
    record = simulate(graphs.tree(8), 8, buckets=16, policy="paper", refinement_minimum=8)
    summary = simulated.summary(record, 8)
    assert summary["seconds"] == pytest.approx(record["seconds"])
    assert 0 < summary["bare"] < summary["seconds"] and set(summary["phases"]) >= {"join", "insert", "driver"}


@pytest.mark.parametrize("policy", ["paper", "work"])
def test_seconds_without_jobs_are_those_of_a_machine_where_jobs_cost_nothing(policy):
    given = {"ranks": 16, "buckets": 16, "policy": policy, "refinement_minimum": 8, "check_interval": 1}
    given |= {"refinement_ratio": 1.5, "horizon": inf}
    record, bare = (simulate(graphs.tree(9), machine=machine, **given) for machine in (Machine(), Machine.mpi()))
    assert any(event["event"] in ("refine", "move", "copy") for event in record["events"])
    assert simulated.summary(record, 16)["bare"] == pytest.approx(bare["seconds"])


def test_the_papers_trees_are_ours():
    """A tree of depth 21 is one of height 20."""
    assert all((depth - 2) * 2**depth + 2 == pairs for depth, pairs in claims.TREE_PAIRS.items())


def test_all_figures_are_made(paper):
    statuses, folder = paper
    assert statuses == (0, 0)
    for name in NAMES:
        record = json.loads((folder / f"{name}.json").read_text())
        assert record["figure"] == name and record["size"] == "toy" and record["machine"]["cores"] >= 1
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (folder / f"{name}.svg").read_text()
        rows = list(csv.reader((folder / f"{name}.csv").open()))
        assert len(rows) > 2 and {len(row) for row in rows} == {len(rows[0])}
    page = (folder / "paper.md").read_text()
    assert (page.count("\n## "), page.count("\n### ")) == (len(PAPERS), len(NAMES))


def test_what_was_measured_makes_sense(paper):
    data = {name: json.loads((paper[1] / f"{name}.json").read_text())["data"] for name in NAMES}
    evaluated = [row for row in data["fig8"]["ratios"] if row["engine"] is not None]
    assert evaluated and all(row["engine"] == row["measured"] for row in evaluated if row["direction"] == "down")
    assert {run["pairs"] for run in data["fig10"]["runs"]} == {(h - 1) * 2 ** (h + 1) + 2 for h in (3,)}
    rolling, not_ = data["fig11"]["runs"]["rolling over"], data["fig11"]["runs"]["not"]
    assert rolling["pairs"] == not_["pairs"] and rolling["inner"] > not_["inner"]
    few, many = data["fig12"]["runs"][0]["inner"], data["fig12"]["runs"][-1]["inner"]
    assert few > many
    for graph in data["table1"]["graphs"]:
        assert len({run["pairs"] for run in graph["runs"].values()}) == 1
    for run in data["fig13"]["runs"]:
        assert run["seconds"] > run["bare"] > 0 and run["work"] >= 1
    for run in data["boxes"]["runs"]:
        assert 0 < boxes.covered(run) <= 1 and run["most"] <= run["budget"]
    for searched in data["budgets"]["patterns"]:
        counts = [run["boxes"] for run in searched["runs"]]
        assert counts == sorted(counts, reverse=True) and counts[0] > counts[-1] == 1
        assert {run["matches"] for run in searched["runs"]} == {searched["matches"]}
    for run in data["table5"]["runs"]:  # without symmetry breaking each subgraph is counted once for each of its symmetries
        other = next(each for each in data["table5"]["runs"] if (each["query"], each["variant"]) == (run["query"], "SYM"))
        assert run["answers"] == other["answers"] * (run["each"] if run["variant"] == "plain" else 1) > 0
    for hypercube, bigjoin in zip(*[iter(data["shares"]["runs"])] * 2, strict=True):
        assert hypercube["answers"] == bigjoin["answers"] > 0 and hypercube["rounds"] == 1
        parts = round(hypercube["workers"] ** (1 / 3))
        assert (
            hypercube["sent"] == 3 * data["shares"]["edges"] * parts
        )  # each tuple goes to one cell for each part of a variable
    found = {(run["input"], run["form"]): imbalance_ratio(run["work"]) for run in data["skew"]["runs"]}
    assert all(found[name, "BiGJoin-S"] < skew.LIMIT < found[name, "BiGJoin"] for name in skew.INPUTS)


def test_without_the_benchmarks_there_is_no_competitor(monkeypatch):
    monkeypatch.setitem(sys.modules, "bench", None)
    assert budgets.competitor(None, 10) is None


def test_no_two_texts_of_a_figure_overlap(paper):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    for name in NAMES:
        record = json.loads((paper[1] / f"{name}.json").read_text())
        figure = import_module(f"bench.paper.{name}").draw(record["data"])
        figure.draw_without_rendering()
        renderer = FigureCanvasAgg(figure).get_renderer()
        boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in shown_texts(figure)]
        for number, (one, box) in enumerate(boxes):
            for other, beside in boxes[number + 1 :]:
                assert not box.overlaps(beside), f"{name}: {one!r} covers {other!r}"


def shown_texts(figure) -> list:
    import matplotlib.text

    ticks = {id(label) for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)
             for tick in (*axis.majorTicks, *axis.minorTicks) for label in (tick.label1, tick.label2)}  # fmt: skip
    found = [text for text in figure.findobj(matplotlib.text.Text) if id(text) not in ticks]
    for axes in figure.axes:  # ticks outside the limits are not drawn
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            found += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    return [text for text in found if text.get_text().strip() and text.get_visible()]


def test_redraw_measures_nothing(paper, tmp_path, monkeypatch):
    kept = (paper[1] / "fig12.json").read_text()
    (tmp_path / "fig12.json").write_text(kept)
    monkeypatch.setattr(fig12, "measure", lambda evaluation: pytest.fail("measured"))
    assert main(["--redraw", "--only", "fig12", "-o", str(tmp_path)]) == 0
    assert (tmp_path / "fig12.svg").read_text() == (paper[1] / "fig12.svg").read_text()
    assert (tmp_path / "fig12.md").read_text() == (paper[1] / "fig12.md").read_text()
    assert (tmp_path / "fig12.json").read_text() == kept


def test_one_failing_figure_does_not_lose_the_others(tmp_path, monkeypatch, capsys):
    def fails(evaluation):
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(fig8, "measure", fails)
    monkeypatch.setattr(fig12, "measure", lambda e: {"width": 1, "length": 10, "partitions": 1, "runs": [
        {"threshold": 10, "pairs": 78, "iterations": 12, "inner": 12, "seconds": 1.5, "memory": None},
        {"threshold": 100, "pairs": 78, "iterations": 12, "inner": 11, "seconds": 1.0, "memory": None},
    ]})  # fmt: skip
    assert main(["--only", "fig8,fig12", "-o", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "fig8: failed: on purpose" in said and said.strip().endswith("bench.paper: failed: fig8")
    assert (tmp_path / "fig12.png").exists() and not (tmp_path / "fig8.json").exists()


@pytest.mark.parametrize("content, said", [
    (None, "measure it first"), ("{", "measure it again"), ("[]", "of version 1"),
    ('{"version": 0, "figure": "fig12"}', "of version 1"),
])  # fmt: skip
def test_what_cannot_be_redrawn(tmp_path, capsys, content, said):
    if content is not None:
        (tmp_path / "fig12.json").write_text(content)
    assert main(["--redraw", "--only", "fig12", "-o", str(tmp_path)]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["--only", "fig9"], ["--only", ","], ["--quick", "--full"], ["--cores", "0"], ["--cores", "x"]]
)
def test_wrong_arguments(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2 and "bench.paper: error" in capsys.readouterr().err


def test_folders_that_are_none(tmp_path, capsys):
    assert main(["--data", str(tmp_path / "none"), "-o", str(tmp_path)]) == 2
    assert "is not a folder" in capsys.readouterr().err
    assert main(["--data", str(tmp_path), "-o", str(tmp_path)]) == 2  # before hours are spent
    assert "ol-cedge.tsv.gz is not there" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert main(["--only", "fig8", "-o", str(tmp_path / "file")]) == 2
    with pytest.raises(ValueError, match="expected one of toy, quick, full"):
        Evaluation("huge")


def test_graphs_of_table_1(tmp_path):
    with pytest.raises(ValueError, match="ol-cedge.tsv.gz is not there: expected ol-cedge.tsv.gz, tg-cedge"):
        datasets.chosen(tmp_path, "full")
    for dataset in datasets.REAL:
        if dataset.file:
            (tmp_path / dataset.file).touch()
    assert [len(datasets.chosen(folder, size)) for folder in (None, tmp_path) for size in ("quick", "full")] == [8] * 4
    assert datasets.GNUTELLA.edges(None, "quick").shape == (26013, 2)
    (tmp_path / "rim.mtx").write_text("%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n")
    (tmp_path / "lhr34.mtx.gz").touch()
    given = datasets.chosen(tmp_path, "quick")
    assert [dataset.name for dataset in given] == ["lhr34", "rim"] and given[1].edges(tmp_path, "quick").tolist() == [[1, 2]]


def test_the_orders_of_a_join_are_those_of_the_reversed_graph(paper):
    """G ⋈ T of a tree that points up makes what T ⋈ G of the tree that points down makes, in as many tuples a rank."""
    data = json.loads((paper[1] / "settings.json").read_text())["data"]
    found = {(each["graph"], each["order"], each["balancing"]): each for each in data["orders"]}
    for balancing in ("off", "paper's"):
        up, down = found["tree up", "G ⋈ T", balancing], found["tree down", "T ⋈ G", balancing]
        assert up["pairs"] == down["pairs"] and up["path"] < 2 < found["tree up", "T ⋈ G", balancing]["path"]
    assert all(each["fused"] >= each["pairs"] for each in data["fused"])
    rolling, at_once = (run["free"] for run in data["memory"])
    assert rolling["pairs"] == at_once["pairs"] and rolling["inner"] > at_once["inner"]


def test_tables():
    table = ResultTable("T", ["a|b", "n"], [["x|y", 1.5], ["z", None]], ["A note."])
    lines = table.markdown().splitlines()
    assert lines[2:6] == ["| a/b | n |", "|---|---:|", "| x/y | 1.500 |", "| z | – |"] and lines[-1] == "A note."
    assert table.csv() == "a|b,n\nx|y,1.5\nz,\n"
