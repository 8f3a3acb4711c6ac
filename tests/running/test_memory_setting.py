"""Config.memory: a stratum leaves the driver once its tables take more, with the same answer; or one error says why not."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semi_naive import Config, OutOfMemory, Program
from semi_naive.host import memory
from semi_naive.ra.tuple_at_a_time import stratum
from semi_naive.running.driver import small

COUNTING = ".decl a(x: number)\n.output a\na(0).\na(x + 1) :- a(x), x < 2000."
RANGE = ".decl a(x: number)\n.output a\na(x) :- x = range(0, 2000)."
MUTUAL = """
.decl edge(x: number, y: number)
.input edge
.decl odd(x: number, y: number)
.output odd
.decl even(x: number, y: number)
.output even
.decl least(x: number, y: number)
.output least
odd(x, y) :- edge(x, y).
even(x, z) :- odd(x, y), edge(y, z).
odd(x, z) :- even(x, y), edge(y, z).
least(x, min(y)) :- edge(x, y).
least(x, min(z)) :- edge(x, y), least(y, z).
"""
STAYING = {
    "classes": (".decl s(x: number, y: number) eqrel\n.output s\ns(x, x + 1) :- x = range(0, 40).", "equivalence relation"),
    "numbers": (".decl s(x: number, y: number)\n.output s\ns(x, autoinc()) :- x = range(0, 2000).", "autoinc"),
}


@pytest.mark.parametrize("text", [COUNTING, RANGE], ids=["recursive", "not recursive"])
@pytest.mark.parametrize("small", [0, 250], ids=["a block at a time", "a tuple at a time"])
def test_a_stratum_leaves_the_driver_beyond_it(here, machine, text, small):
    with Program(text).run(spark=here, memory=4000, small_delta=small) as result:
        assert result["a"].count() >= 2000
        (stratum,) = [each for each in result.trace["strata"] if each["relations"] == ["a"]]
        assert stratum["plan"] == "balanced" and "bytes, and memory is set to 4,000 in iteration " in stratum["reason"]
        (entry,) = result.trace["profile"]["relations"]
        assert "bytes" not in entry, "it is no longer in the driver"


def test_the_machine_leaves_too(here, machine, monkeypatch):
    """It takes several times as much for a tuple: there is room again, until the tables themselves have no more."""
    left = []
    monkeypatch.setattr(memory, "check_is_due", lambda: True)
    monkeypatch.setattr(small, "SLICE_INSTRUCTIONS", 1000)  # instructions between two looks
    stop = stratum.Interpreter.stop_after_iteration
    monkeypatch.setattr(stratum.Interpreter, "stop_after_iteration", lambda self: left.append(self) or stop(self))
    with Program(COUNTING.replace("2000", "8000")).run(spark=here, memory=60_000) as result:
        assert result["a"].count() == 8001 and result.trace["strata"][-1]["plan"] == "balanced"
    assert len(left) >= 1


@pytest.mark.parametrize("text", [COUNTING, RANGE], ids=["recursive", "not recursive"])
def test_within_it_a_stratum_stays(text):
    with Program(text).run(memory="1M") as result:
        assert {stratum["plan"] for stratum in result.trace["strata"]} == {"local"}
        (entry,) = result.trace["profile"]["relations"]
        assert 8 * entry["tuples"] <= entry["bytes"] <= 1 << 20


@pytest.mark.parametrize("text, why", STAYING.values(), ids=STAYING)
def test_what_cannot_leave_says_which_setting_to_raise(text, why):
    with pytest.raises(OutOfMemory) as told:
        Program(text).run(memory=4000)
    assert "memory is set to 4,000" in str(told.value) and why in str(told.value)
    assert "a larger memory lets it go on" in str(told.value) and "local_tuples" not in str(told.value)
    with Program(text).run(memory="1M") as result:
        assert result["s"].count() >= 1600


@settings(max_examples=25, deadline=None)
@given(edges=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=25), memory=st.integers(1, 3000))
def test_the_answer_does_not_depend_on_it(here, edges, memory):
    def answer(**options):
        with Program(MUTUAL).run({"edge": edges}, here, **options) as result:
            return {name: result[name].to_set() for name in ("odd", "even", "least")}

    assert answer(memory=memory, partitions=2, buckets=4) == answer()


@pytest.mark.parametrize("text, expected", [("2g", 2 << 30), ("64M", 64 << 20), ("1000", 1000), ("none", None)])
def test_a_unit_may_be_given(text, expected):
    assert Config().with_options({"memory": text}).memory == expected


@pytest.mark.parametrize("text", ["much", "0", "-5", "2x", ""])
def test_what_is_no_number_of_bytes(text):
    with pytest.raises(ValueError, match="memory.*expected a "):
        Config().with_options({"memory": text})
    assert Config().with_options({"replicate_bytes": "1G"}) == Config()
