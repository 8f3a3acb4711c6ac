"""The traces of multiway joins: their figures, no two texts of which overlap; where they come from; and what is none."""

import copy
import json
import warnings

import pytest
from plot_texts import outside, overlapping, seen
from plot_traces import BOXED, JOINS, REFINED, SPREAD_JOIN

from semi_naive import graphs, subgraphs
from semi_naive.__main__ import main
from semi_naive.balance.trace import VERSION, read_trace, write_trace
from semi_naive.graphs.adversaries import one_heavy_list
from semi_naive.plots.figures import figures
from semi_naive.plots.joins import join_figures
from semi_naive.ra.multiway.query import ConjunctiveQuery, QueryAtom
from semi_naive.simulated_ranks import SimulatedRanks
from semi_naive.subgraph_queries.partitioned import PartitionedGraph


@pytest.mark.parametrize("name", JOINS)
def test_no_texts_overlap(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (figure,) = join_figures([JOINS[name]], [name]).values()
        assert not overlapping(figure) and not outside(figure)


def test_boxes_are_drawn_where_they_are():
    figure = join_figures([BOXED], ["run"])["boxes"]
    shown = seen(figure)
    for expected in ("Bytes copied for boxes, by a and b", "4.0 kB of memory (44% of the input)", "55 boxes", "165 tuples"):
        assert expected in shown
    bytes_copied, time = (axes.collections[0] for axes in figure.axes[:2])
    assert len(bytes_copied.get_paths()) == len(time.get_paths()) == 55 and time.get_array().max() == 0.091
    assert bytes_copied.get_paths()[0].get_extents().extents.tolist() == [0, 0, 10, 10]


def test_work_is_drawn_side_by_side_on_the_same_axis():
    heavier = SPREAD_JOIN | {"work": [900, 4, 3]}
    figure = join_figures([SPREAD_JOIN, heavier], ["a.json", "b.json"])["work"]
    assert not overlapping(figure) and not outside(figure)
    assert "b.json: BiGJoin, order a, b, c" in seen(figure) and "c: visit" in seen(figure) and "imbalance 2.78" in seen(figure)
    assert figure.axes[0].get_ylim() == figure.axes[2].get_ylim()


def test_a_real_trace_of_each_kind_is_drawn(tmp_path, capsys):
    """As the command line makes them; BiGJoin on partitions that are here."""
    edges, boxed, spread = str(graphs.bundled("p2p-gnutella09")), str(tmp_path / "boxed.json"), str(tmp_path / "spread.json")
    main(["subgraphs", edges, "--pattern", "triangle", "--plan", "boxed", "--memory", "100000", "--trace", boxed])
    assert capsys.readouterr().out == "2354\n"
    atoms = tuple(QueryAtom(name, tuple(terms)) for name, terms in (("r", "xy"), ("s", "yz"), ("t", "xz")))
    graph = PartitionedGraph({name: rows.T for name, rows in one_heavy_list(400, 2000).items()}, SimulatedRanks(4))
    write_trace(graph.run(ConjunctiveQuery(atoms, order=tuple("xyz")), False)[2], spread)
    graph.close()
    main(["plot", boxed, "-o", str(tmp_path / "out")])
    main(["plot", spread, "-o", str(tmp_path / "out"), "--only", "work"])
    drawn = ["boxed-boxes.png", "boxed-boxes.svg", "spread-work.png", "spread-work.svg"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == drawn


def test_who_asks_is_given_the_trace_of_a_search():
    found = []
    rows = subgraphs([(1, 2), (2, 3), (1, 3)], "triangle", memory=1000, count=False, trace=found.append)
    assert rows.count() == 1 and found[0]["result"]["tuples"] == 1 and json.loads(json.dumps(found)) == found
    with pytest.raises(ValueError, match="plan='leapfrog' keeps no trace: use plan='boxed'"):
        subgraphs([(1, 2)], "triangle", trace=found.append)


@pytest.mark.parametrize("asked, said", [
    (["boxed", "spread"], "some of these joins were boxed and some were not"),
    (["boxed", "closure"], "some of these runs are multiway joins and some are not"),
    (["boxed", "--only", "heat"], "no figure 'heat' of a multiway join: expected some of boxes, work"),
    (["boxed", "--only", "work"], "boxed.json: no work to draw: of these joins there is boxes"),
    (["boxed", "spread", "--report", "page.html"], "got that of a multiway join, which `semi-naive plot` draws"),
])  # fmt: skip
def test_what_cannot_be_drawn(asked, said, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    records = {"boxed": BOXED, "spread": SPREAD_JOIN, "closure": REFINED}
    for name, record in records.items():
        write_trace(record, f"{name}.json")
    with pytest.raises(SystemExit) as stop:
        main(["plot", *(f"{word}.json" if word in records else word for word in asked)])
    assert stop.value.code == 2 and said in capsys.readouterr().err
    assert len(list(tmp_path.iterdir())) == len(records)


def changed(record: dict, **facts) -> dict:
    return copy.deepcopy(record) | facts


BOX, STEP = BOXED["boxes"][0], SPREAD_JOIN["steps"][0]
WRONG = {
    "another version": (changed(BOXED, version=9), f"expected version {VERSION}, got version 9"),
    "no order": (changed(BOXED, order="abc"), "order is 'abc': expected a list"),
    "no count": (changed(BOXED, result={}), "result.tuples is missing"),
    "a box without bytes": (changed(BOXED, boxes=[BOX, {"ranges": BOX["ranges"]}]), r"boxes\[1\].bytes is missing"),
    "a range less": (changed(BOXED, boxes=[BOX | {"ranges": [[0, 1]]}]), r"boxes\[0\].ranges is .*two numbers for each"),
    "a range that ends before it begins": (changed(BOXED, boxes=[BOX | {"ranges": [[1, 0]] * 3}]), r"boxes\[0\].ranges"),
    "neither boxes nor work": ({key: BOXED[key] for key in BOXED if key != "boxes"}, "work is missing"),
    "no partitions": (changed(SPREAD_JOIN, work=[]), "work is .*expected a list of numbers"),
    "a partition less": (changed(SPREAD_JOIN, steps=[STEP | {"sent": [1, 2]}]), r"steps\[0\].sent is .*for each partition"),
    "a stage that is none": (changed(SPREAD_JOIN, steps=[STEP | {"stage": 3}]), r"steps\[0\].stage is 3"),
}  # fmt: skip


@pytest.mark.parametrize("record, expected", WRONG.values(), ids=WRONG)
def test_a_trace_that_is_none_is_named_with_the_place(record, expected, tmp_path):
    (tmp_path / "bad.json").write_text(json.dumps(record))
    with pytest.raises(ValueError, match=f"bad.json is not a trace: {expected}"):
        read_trace(tmp_path / "bad.json", joins=True)


def test_who_expects_iterations_says_what_it_was_given():
    with pytest.raises(ValueError, match="expected a trace: .* got that of a multiway join"):
        figures(BOXED)
