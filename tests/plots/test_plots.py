"""The figures: of every kind of run and of odd ones, no two texts of which overlap; side by side; and of what is no trace."""

import re
import subprocess
import sys
import warnings

import numpy as np
import pytest
from plot_texts import outside, overlapping, seen
from plot_traces import GROUPS, NOT_REFINED, REFINE, REFINED, SIMULATED, SPREAD, entry, program, stratum, trace

from semi_naive import graphs, transitive_closure
from semi_naive.__main__ import main
from semi_naive.balance.trace import VERSION, write_trace
from semi_naive.plots.command import draw
from semi_naive.plots.figures import PANELS, comparison, figures, overview
from semi_naive.plots.labels import labels
from semi_naive.plots.panels import duplicates, heat_map, imbalance, shuffled_bytes, times, tuples
from semi_naive.plots.run import RecordedRun, lasting
from semi_naive.plots.style import new_figure, save_figure, svg

ODD = {
    "one iteration": trace([entry(1, [[3]])]),
    "two iterations of one partition": trace([entry(k, [[k], [k]], partitions=1) for k in range(1, 3)]),
    "no tuples, no phases": trace([entry(1, [[0], [0]], births=[0], born=0, full=0, phases=[])]),
    "2000 iterations": trace(
        [entry(k + 1, [[k + 1], [2 * k]], inner=1 + k % 5) for k in range(2000)],
        [{"event": "roll-over", "iteration": k, "inner": 0} for k in range(1, 2000)],
    ),
    "run ahead": trace([entry(1, [[3], [1]]), entry(400, [[9], [9]], steps=399)]),
    "200 partitions": trace([entry(1, [[5]] * 400, partitions=200), entry(2, [[k] for k in range(400)], partitions=200)]),
    "4096 buckets, one in 4096": trace(
        [entry(k, [list(range(4 ** (2 * k)))] + [[b % 9] for b in range(4095)]) for k in range(1, 4)],
        [{"event": "refine", "iteration": 2, "buckets": [{"bucket": b, "before": [], "after": []} for b in range(999)]}],
    ),
    "32768 ranks": trace([entry(k, None, partitions=32768) for k in range(1, 4)], **SIMULATED),
    "huge numbers": trace([entry(k, [[10 ** (3 * k)], [1]], full=10**14, born=10**13, births=[10**13]) for k in range(1, 5)]),
    "far from balance": trace([entry(k, [[k]], imbalance={"partitions": 4.0**k, "subbuckets": 99}) for k in range(1, 9)]),
    "refined": REFINED,
    "decomposed": GROUPS,
    "300 tasks": trace([{**GROUPS["iterations"][0], "loads": list(range(300))}], plan="decomposed"),
    "300 rules": program([stratum(f"r{k}", k) for k in range(300)], 300, "head{}(x) :- " + "a_long_name(x, $), " * 9),
    "several strata": SPREAD,
    "long names": program([stratum("r" * 300, 1.0, REFINED)], 1),
}  # fmt: skip


def test_overlapping_texts_are_found():
    figure = new_figure(4, 3)
    figure.text(0.5, 0.5, "one text")
    figure.text(0.52, 0.5, "another")
    assert overlapping(figure) == [("one text", "another")]
    figure.text(0.95, 0.1, "a text that is too long")
    assert outside(figure) == ["a text that is too long"]


@pytest.mark.parametrize("name", ODD)
def test_no_texts_of_an_odd_run_overlap(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = figures(ODD[name], None if name == "refined" else ["balance", "strata", "rules"])
        assert found
        for figure in found.values():
            assert not overlapping(figure) and not outside(figure)
            assert all(len(axes.get_yticks()) <= 22 for axes in figure.axes)


BESIDE = {
    "balanced or not": [REFINED, NOT_REFINED],
    "plans": [REFINED, GROUPS, NOT_REFINED],
    "programs": [SPREAD, program([stratum("path", 1.0, ODD["two iterations of one partition"])])],
    "lengths": [ODD["one iteration"], ODD["2000 iterations"]],
    "four": [trace(NOT_REFINED["iterations"], config=REFINE | {"buckets": k, "local_dir": f"/{k}"}) for k in range(4)],
    "machines": [ODD["32768 ranks"], REFINED],
}


@pytest.mark.parametrize("name", BESIDE)
def test_no_texts_of_a_comparison_overlap(name):
    only = ["balance", "strata", "rules"] if name == "programs" else ["heat", "times", "partitions"]
    names = [f"run {number}.json" for number in range(len(BESIDE[name]))]
    for figure in comparison(BESIDE[name], names, only).values():
        assert not overlapping(figure) and not outside(figure)


def test_side_by_side_means_on_the_same_axes_and_colours():
    found = comparison([REFINED, NOT_REFINED])
    for name in ("imbalance", "tuples", "times", "bytes", "duplicates", "partitions"):
        first, second = found[name].axes[:2]
        assert first.get_ylim() == second.get_ylim() and first.get_xlim() == second.get_xlim()
    maps = [axes.images[0] if axes.images else axes.collections[0] for axes in found["heat"].axes[:2]]
    assert maps[0].norm.vmax == maps[1].norm.vmax == 300
    assert "refine on" in seen(found["heat"]) and "refine off" in seen(found["heat"])


def test_labels_tell_what_had_an_effect():
    other = trace([], config=REFINE | {"refine": False, "refinement_ratio": 9.0})
    assert labels([REFINED, other]) == ["refine on", "refine off"]
    assert labels([REFINED, GROUPS]) == ["balanced", "decomposed"]
    assert labels([REFINED, REFINED, GROUPS], ["a", "b", "c"]) == ["a: balanced", "b: balanced", "c: decomposed"]
    assert labels([REFINED, REFINED]) == ["run 1", "run 2"]
    many = [{"plan": "balanced", "config": {f"tunable_{n}": n + d for n in range(20)}} for d in (0, 1)]
    assert labels(many, ["ours", "theirs"]) == [
        "ours: tunable_0 0, tunable_1 1, tunable_2 2, tunable_3 3, …",
        "theirs: tunable_0 1, tunable_1 2, tunable_2 3, tunable_3 4, …"
    ]  # fmt: skip
    many[1]["config"] |= {f"tunable_{n}": n for n in range(19)}
    assert labels(many) == ["tunable_19 19", "tunable_19 20"]
    several = [*many, many[0] | {"config": many[0]["config"] | {f"tunable_{n}": 7 for n in range(10, 20)}}]
    assert len(set(labels(several))) == 3, "cut short they would be alike"
    assert labels([trace([entry(1, None, partitions=p)], **SIMULATED) for p in (3, 2048)]) == ["ranks 3", "ranks 2,048"]


def test_a_refined_run_shows_what_was_done_and_what_it_changed():
    found = figures(REFINED)
    assert list(found) == ["balance", *PANELS]
    shown = seen(found["balance"])
    for expected in ("Tuples in each subbucket", "heaviest ÷ average", "refine: 1×", "roll-over: 1×", "driver: 90.0 ms",
                     "before refine after iteration 2: imbalance 1.88", "partitions: 1.20 at the end", "something new: 1×",
                     "inner iterations: 6", "dropped by the insert: 12 (24%)", "dropped by the join: 24 (47%)"):  # fmt: skip
        assert expected in shown, shown
    heat = found["heat"].axes[0].images[0].get_array()
    assert heat.shape == (12, 3)  # three buckets, the finest in four
    assert heat[:, 2].tolist() == [9, 9, 9, 9, 2, 2, 2, 2, 1, 1, 1, 1]


def test_the_steps_of_a_run_ahead_are_told_apart():
    run = RecordedRun(trace([entry(1, [[5]], births=[5], delta=0), entry(4, [[9]], births=[3, 2, 1], delta=5, full=11)]))
    assert run.spans.tolist() == [0.5, 1.5, 4.5]
    assert run.steps["iteration"].tolist() == [1, 2, 3, 4]
    assert run.steps["delta"].tolist() == [0, 5, 3, 2] and run.steps["new"].tolist() == [5, 3, 2, 1]
    assert run.steps["full"].tolist() == [5, 8, 10, 11]


def test_what_is_heaviest_stays_seen_where_rows_are_fewer_than_subbuckets():
    sizes = [[1] for _ in range(4096)]
    sizes[2077] = [10**6]
    figure = figures(trace([entry(1, sizes)]), only=["heat"])["heat"]
    heat = figure.axes[0].images[0].get_array()
    assert heat.shape[0] <= 512 and heat.max() == 10**6


def test_bytes_are_counted_once():
    run = RecordedRun(REFINED)
    assert run.shuffled("join").sum() == 0  # what the joins wrote is what the all-to-all carried
    assert run.shuffled("all-to-all").tolist() == [16, 48, 32]
    figure = figures(trace([entry(1, [[3]], phases=[{"inner": 0, "phase": "join", "seconds": [1.0], "bytes": [7]}])]))["bytes"]
    assert "join: 7 B" in seen(figure)


def test_a_decomposed_run_shows_its_tasks_and_its_steps():
    found = figures(GROUPS)
    assert list(found) == ["balance", "times", "tuples", "partitions"]
    shown = seen(found["balance"])
    assert "Tuples of each task" in shown and "2 tasks: imbalance 1.33" in shown and "full: 15 at the end" in shown
    figure = new_figure(6, 4)
    for panel in (heat_map, imbalance, shuffled_bytes, duplicates):
        panel(figure.add_subplot(), RecordedRun(GROUPS))  # by itself it says why it has nothing to show
    assert "this plan moves nothing" in seen(figure)


def test_a_program_has_its_strata_and_rules():
    found = figures(SPREAD)
    assert list(found)[:4] == ["strata", "rules", "path-balance", "path-heat"] and "reach-times" in found
    assert "half, half_2" in seen(found["strata"]) and "0 :- " not in seen(found["rules"])
    assert "2: r2(x, z) :- r(x, y), s(y, z)." in seen(found["rules"])
    assert list(figures(program([stratum("half", 0.1)]))) == ["strata", "rules"]
    with pytest.raises(ValueError, match="one stratum, got those of path, reach"):
        overview(SPREAD)


def test_panels_draw_on_the_axes_they_are_given():
    figure = new_figure(10, 4)
    left, right = figure.subplots(1, 2)
    times(left, RecordedRun(REFINED))
    tuples(right, RecordedRun(REFINED))
    assert left.get_title(loc="left") == "Time, slowest of each phase" and right.lines
    assert not overlapping(figure)


def test_dollars_are_no_formulas():
    assert "$f(x), $" in seen(figures(program([stratum("$a$", 1.0)], 1, "r{}(x) :- s($f(x), $)."))["rules"]).replace("\\", "")


def test_a_run_without_iterations_says_so():
    assert "No iterations" in seen(figures(trace([]))["balance"])


def test_iterations_made_again_after_a_restart_count_once():
    entries = [entry(1, [[1]]), entry(2, [[2]]), entry(3, [[3]]), entry(2, [[20]]), entry(3, [[30]])]
    assert [e["sizes"] for e in lasting(entries)] == [[[1]], [[20]], [[30]]]
    assert "30" not in labels([trace(entries)])
    assert RecordedRun(trace(entries)).loads == {"at the end": [30, 0]}


@pytest.mark.parametrize("thing", [None, [], {}, {"version": VERSION}, {"version": 99, "iterations": []}])
def test_what_is_no_trace_is_refused(thing):
    for draw_it in (figures, overview):
        with pytest.raises(ValueError, match="expected a trace"):
            draw_it(thing)


def test_runs_that_cannot_be_compared_are_refused():
    with pytest.raises(ValueError, match="no stratum on the partitions in common.*path, reach.*a closure"):
        comparison([SPREAD, REFINED])
    with pytest.raises(ValueError, match="two traces or more"):
        comparison([REFINED])
    with pytest.raises(ValueError, match="no figure 'hot': expected some of balance, heat"):
        figures(REFINED, only=["hot"])


def test_saving_goes_by_the_name_and_leaves_no_parts(tmp_path):
    save_figure(overview(GROUPS), tmp_path / "a.png")
    save_figure(overview(GROUPS), tmp_path / "a.svg")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG") and "<svg" in (tmp_path / "a.svg").read_text()
    with pytest.raises(ValueError, match="expected a name ending in .png"):
        save_figure(overview(GROUPS), tmp_path / "a.gif")
    assert len(list(tmp_path.iterdir())) == 2


def test_svgs_are_the_same_each_time_and_their_text_is_text():
    first, second = (svg(figures(REFINED, only=["times"])["times"], transparent=True) for _ in range(2))
    assert first == second and ">inner iterations</text>" in first
    assert not re.search("fill: *(#fff|white)", first, re.IGNORECASE)  # nothing hides the page
    assert set(re.findall("stroke: (#[0-9a-f]{6})", first)) == {"#000000"}


def test_the_command_draws_one_run_or_several(tmp_path, capsys):
    spread = program([stratum("path", 1.0, GROUPS), stratum("reach" * 60, 1.0, GROUPS)])
    records = {"a": REFINED, "b": NOT_REFINED, "p": spread, "local": program([stratum("r", 1.0)])}
    for name, record in records.items():
        write_trace(record, tmp_path / f"{name}.json")
    one = [str(tmp_path / "a.json")]
    found = [path.rpartition("/")[2] for path in draw(one, str(tmp_path / "one"), "heat, times")]
    assert found == ["a-heat.png", "a-heat.svg", "a-times.png", "a-times.svg"]
    main(["plot", *one, str(tmp_path / "b.json"), "-o", str(tmp_path / "two"), "--only", "imbalance"])
    assert sorted(path.name for path in (tmp_path / "two").iterdir()) == ["a-vs-b-imbalance.png", "a-vs-b-imbalance.svg"]
    names = {path.rpartition("/")[2] for path in draw([str(tmp_path / "p.json")], str(tmp_path))}
    assert {"p-strata.png", "p-rules.svg", "p-path-balance.png"} <= names and len(names) == 8
    main(["plot", str(tmp_path / "local.json"), "-o", str(tmp_path / "local")])
    assert "local_tuples=0 spreads them all" in capsys.readouterr().err and (tmp_path / "local" / "local-rules.png").exists()
    with pytest.raises(ValueError, match="local.json: no heat to draw. .*local_tuples=0"):
        list(draw([str(tmp_path / "local.json")], str(tmp_path), "heat"))


def test_importing_is_cheap_and_drawing_leaves_pyplot_alone():
    code = (
        "import sys, plots.figures, plots.command, plots.panels; assert not {'matplotlib', 'pyspark'} & set(sys.modules); "
        f"plots.figures.overview({trace([])!r}); assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("plan", ["balanced", "decomposed"])
def test_real_traces_are_drawn(here, plan, tmp_path):
    options = {"run_ahead": 0, "partitions": 4, "refinement_minimum": 64} if plan == "balanced" else {}
    with transitive_closure(graphs.tree(8), here, plan, **options) as closure:
        loads = np.array(closure.trace["iterations"][-1]["loads"])
        assert loads.sum() == closure.count() == 3586
        figure = overview(closure.trace)
        assert not overlapping(figure) and not outside(figure)
        save_figure(overview(closure.trace), tmp_path / "run.png")
        assert (tmp_path / "run.png").stat().st_size > 10_000


@pytest.mark.parametrize(("sizes", "scale"), [([900, 1000], (900, 1000)), ([1, 10_000], (1, 10_000)), ([5, 5], (4, 5))])
def test_a_heat_map_uses_its_colours_for_the_numbers_there_are(sizes, scale):
    figure = figures(trace([entry(1, [[size] for size in sizes]), entry(2, [[size] for size in sizes])]), ["heat"])["heat"]
    (image,) = [image for axes in figure.axes for image in axes.images if axes.get_title(loc="left")]
    assert image.get_clim() == pytest.approx(scale)


def test_the_limit_is_drawn_where_the_policy_of_the_paper_ran():
    for policy, expected in (("paper", 3.0), ("work", None)):
        assert RecordedRun(trace([], config=REFINE | {"policy": policy})).limit == expected
