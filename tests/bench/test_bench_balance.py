"""The benchmarks of balance at toy size: prices are fitted and judged, the record's share is measured, clocks count once."""

import json
import time

import pytest

pytest.importorskip("psutil")

from bench import machine, tracing  # noqa: E402
from semi_naive import (
    graphs,  # noqa: E402
    simulate,  # noqa: E402
)
from semi_naive.balance.machine import FIELDS, Machine  # noqa: E402
from semi_naive.balance.trace import Trace  # noqa: E402


def test_prices_are_fitted_and_judged(spark, tmp_path, capsys):
    out = tmp_path / "machine.json"
    assert machine.main(["--toy", "--repeat", "1", "--out", str(out)]) == 0
    results = json.loads(out.read_text())
    assert tuple(results["prices"]) == FIELDS and min(results["prices"].values()) >= 0
    assert results["defaults"] == Machine().to_json(), "what one host cannot tell, and the defaults, stay"
    assert results["prices"]["message"] == Machine().message
    assert list(results["rows"]) == ["gnp", "rmat", "tree"]
    assert all(row["seconds"] > 0 and row["all"] > 0 and row["unseen"] > 0 for row in results["rows"].values())
    told = capsys.readouterr().out
    assert "Seconds each" in told and "predicted ÷ measured" in told and "Toy inputs" in told


def test_what_a_machine_was_made_of_is_found_again():
    """Runs that cost what the prices say: nothing is left to explain, also of a graph that was not fitted to."""
    true = Machine(receive=1e-8, pair=2e-9, make=3e-8, insert=4e-8, birth=5e-9, byte=0.0, task=0.0, message=0, collective=0)
    shapes = {"gnp": graphs.gnp(200, 0.02, seed=1), "rmat": graphs.rmat(8, 600, seed=2), "tree": graphs.tree(9)}
    traces = {name: [simulate(edges, 2, machine=true, refine=False)] for name, edges in shapes.items()}
    for name in traces:
        row = machine.quality(name, traces, true)
        assert row["all"] == pytest.approx(1) and row["unseen"] == pytest.approx(1, rel=1e-3) and row["defaults"] > 0.9
        assert row["seconds"] == pytest.approx(traces[name][0]["seconds"])


def test_the_record_is_a_part_of_each_run(spark, tmp_path, capsys):
    out = tmp_path / "tracing.json"
    assert tracing.main(["--toy", "--repeat", "1", "--out", str(out)]) == 0
    results = json.loads(out.read_text())
    assert list(results["rows"]) == ["chain", "grid", "rmat", "same generation"]
    for [once] in results["rows"].values():
        assert 0 < once["recording"] < once["seconds"] and once["share"] == once["recording"] / once["seconds"]
        assert once["calls"] >= once["iterations"] > 0 and once["bytes"] > 1000
    assert results["rows"]["chain"][0]["iterations"] == 8, "one entry for each iteration, and the last finds nothing"
    assert "of the record" in capsys.readouterr().out


def test_clocks_count_the_outermost_call_and_are_taken_off_again():
    whole = Trace.event, Trace.finish
    with tracing.clocked() as clock:
        trace = Trace()
        trace.event("refine", 1)
        inner = clock.around(lambda: time.sleep(0.02))
        clock.around(lambda: (inner(), inner()))()
        with pytest.raises(ZeroDivisionError):
            clock.around(lambda: 1 / 0)()
    assert clock.calls == 4 and clock.seconds >= 0.04 and not clock.running
    assert (Trace.event, Trace.finish) == whole and len(trace.record["events"]) == 1
    trace.finish()
    assert clock.calls == 4
