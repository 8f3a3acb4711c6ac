"""What is no trace, or was one: refused with the file, the place and what was expected there."""

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plot_traces import REFINED, SPREAD, program, stratum

from semi_naive.__main__ import main
from semi_naive.balance.trace import VERSION, read_trace
from semi_naive.plots.figures import figures


def broken(path: str, value) -> str:
    """The refined run with one thing in it changed, or taken out."""
    record = copy.deepcopy(REFINED)
    *holders, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    holder = record
    for part in holders:
        holder = holder[part]
    if value is None:
        del holder[last]
    else:
        holder[last] = value
    return json.dumps(record)


def with_profile(**facts) -> str:
    return json.dumps(SPREAD | {"profile": facts})


WRONG = {
    "empty": ("", "is not a trace"),
    "truncated": (json.dumps(REFINED)[:-100], "cut short.*record the run again"),
    "not text": (b"\xff\xfe\x00", "is not a trace"),
    "no trace": ('{"rules": []}', "'iterations' or 'strata'"),
    "another version": (json.dumps(REFINED | {"version": 7}), f"expected version {VERSION}, got version 7"),
    "nested too deep": ("[" * 100_000, "is not a trace"),
    "iterations of another kind": (broken("iterations", {}), "iterations: expected a list"),
    "an iteration without loads": (broken("iterations.1.loads", None), r"iterations\[1\].loads is missing: expected a list"),
    "an iteration of no partitions": (broken("iterations.1.loads", []), r"iterations\[1\] has no partitions"),
    "a load that is a text": (broken("iterations.2.loads.0", "9"), r"iterations\[2\].loads holds '9': expected numbers"),
    "a number that is a truth": (broken("iterations.2.full", True), r"iterations\[2\].full is True: expected a whole number"),
    "a load below 0": (broken("iterations.2.loads.0", -1), r"loads holds -1: expected numbers from 0"),
    "a time that is none": (broken("iterations.0.phases.0.seconds.1", float("nan")), r"seconds holds nan"),
    "a bucket less": (broken("iterations.1.sizes.2", None), "differ in their number of buckets"),
    "sizes without lists": (broken("iterations.0.sizes.1", 3), r"iterations\[0\].sizes\[1\] is 3"),
    "a phase without seconds": (broken("iterations.0.phases.0.seconds", None), r"phases\[0\].seconds is missing"),
    "bytes that are texts": (broken("iterations.0.phases.0.bytes.0", "x"), r"phases\[0\].bytes holds 'x'"),
    "an event without a kind": (broken("events.0.event", None), r"events\[0\].event is missing"),
    "a stratum of no relations": (json.dumps(program([stratum("a", 1.0) | {"relations": []}])), r"strata\[0\].relations"),
    "a stratum without its time": (json.dumps(program([{"relations": ["a"], "plan": "local"}])), r"strata\[0\].seconds is"),
    "a stratum's trace": (json.dumps(program([stratum("a", 1.0, {"iterations": [{}]})])), r"strata\[0\].trace.iterations\[0\]"),
    "a rule without a text": (json.dumps(SPREAD | {"profile": {"rules": [{}]}}), r"profile.rules\[0\].rule is missing"),
    "bytes of a relation": (with_profile(relations=[{"relation": "a", "tuples": 1, "bytes": "8"}]), r"\[0\].bytes is '8'"),
    "memory below 0": (with_profile(memory={"peak": -1}), r"profile.memory.peak holds -1: expected numbers from 0"),
}  # fmt: skip


@pytest.mark.parametrize("content, expected", WRONG.values(), ids=WRONG)
def test_a_file_that_is_no_trace_is_named_with_the_place(content, expected, tmp_path, capsys):
    path = tmp_path / "bad.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=expected) as wrong:
        read_trace(path)
    assert str(path) in str(wrong.value)
    with pytest.raises(SystemExit) as stopped:
        main(["plot", str(path), "-o", str(tmp_path / "figures")])
    assert stopped.value.code == 2 and capsys.readouterr().err.count("\n") == 1 and not (tmp_path / "figures").exists()


def places(value, path=()):
    """Every place in a record; of lists the beginning."""
    inside = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, item in inside:
        yield (*path, key)
        yield from places(item, (*path, key))


PLACES = [(name, place) for name, record in (("closure", REFINED), ("program", SPREAD)) for place in places(record)]
ODD_VALUES = [None, "x", [], {}, -1, 0, 1e300, float("nan"), True, [1, [2]], ["x"], [{}]]


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(PLACES), st.sampled_from(ODD_VALUES))
def test_a_changed_record_is_drawn_or_refused(changed, value):
    """Never anything but the one error, wherever a record is damaged."""
    name, (*holders, last) = changed
    record = copy.deepcopy({"closure": REFINED, "program": SPREAD}[name])
    holder = record
    for key in holders:
        holder = holder[key]
    holder[last] = value
    try:
        found = figures(record, ["balance", "bytes", "strata", "rules"])
    except ValueError as refused:
        assert "expected" in str(refused) or "nothing of this run" in str(refused)
    else:
        assert found
