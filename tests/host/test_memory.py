"""Memory that is used up is one error: by what, of which limit, what helps; it comes before the system kills anything."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from semi_naive import EvaluationError, OutOfMemory, Program
from semi_naive.cli import ending
from semi_naive.host import memory, memory_limits
from semi_naive.host.memory_limits import VERSION_1, VERSION_2, Room
from semi_naive.ra.expressions.ranges import range_values
from semi_naive.ra.rules import steps
from semi_naive.ra.spark import java
from semi_naive.ra.spark.failures import failure, job_failure

COUNTING = ".decl a(x: number)\n.output a\na(0).\na(x + 1) :- a(x), x < 1000000."


@pytest.fixture
def full(monkeypatch):
    """A machine of 2 GB of which 5 MB are left."""
    room = Room((2 << 30) - (5 << 20), 2 << 30, "this container's memory (control group)")
    monkeypatch.setattr(memory, "rooms", lambda: [room])
    monkeypatch.setattr(memory, "_last_check", [0.0])


def test_a_run_stops_before_memory_is_used_up(full):
    with pytest.raises(OutOfMemory) as told:
        Program(COUNTING).run(small_delta=0)  # the machine needs less time than there is between two looks
    text = str(told.value)
    assert text.startswith("out of memory in iteration ")
    assert "in the rule at <program>:4:1, a(x + 1) :- a(x), x < 1000000.: " in text
    assert "2.0 GB of this container's memory (control group), which has 2.0 GB, are used" in text and "local_tuples" in text


@pytest.mark.parametrize("small", [0, 250], ids=["a block at a time", "a tuple at a time"])
def test_a_stratum_leaves_a_driver_that_has_too_much(here, machine, monkeypatch, small):
    monkeypatch.setattr(memory, "scarce", lambda: True)
    monkeypatch.setattr(memory, "check_is_due", lambda: True)
    monkeypatch.setattr("semi_naive.running.driver.small.SLICE_INSTRUCTIONS", 50)  # instructions between two looks
    with Program(COUNTING.replace("1000000", "100")).run(spark=here, small_delta=small) as result:
        assert result["a"].count() == 101
        assert result.trace["strata"][-1]["plan"] == "balanced"


def test_a_range_without_end_is_refused_and_a_long_one_made_in_batches(monkeypatch):
    with pytest.raises(EvaluationError, match=r"range\(0, 9000000000000000000, 1\): it has more than .* line 3, column 1"):
        Program(".decl a(x: number)\n.output a\na(x) :- x = range(0, 9000000000000000000).").run()
    sizes, made = [], range_values
    monkeypatch.setattr(steps, "range_values", lambda *given: sizes.append(given[-1].size) or made(*given))
    longest = 3 * steps.MAX_BATCH_BINDINGS
    program = f".decl a(x: number)\n.output a\na(x) :- x = range(0, {longest}), x % {steps.MAX_BATCH_BINDINGS} = 7."
    with Program(program).run() as result:
        assert result["a"].to_set() == {(7,), (7 + steps.MAX_BATCH_BINDINGS,), (7 + 2 * steps.MAX_BATCH_BINDINGS,)}
    assert max(sizes) <= steps.MAX_BATCH_BINDINGS and sum(sizes) == longest


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        ValueError("array is too big; `arr.size * arr.dtype.itemsize` is larger than the maximum possible size."),
        OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
    ],
)
def test_errors_of_memory_are_told_alike(error):
    assert isinstance(failure(error), OutOfMemory)
    assert failure(ValueError("something else")) is None


def test_what_tasks_say_of_memory():
    text = "Py4J…\nnumpy._core._exceptions._ArrayMemoryError: Unable to allocate 7.45 GiB for an array\n\tat java.lang…"
    assert "Unable to allocate 7.45 GiB" in str(job_failure(RuntimeError(text)))
    assert isinstance(job_failure(RuntimeError("java.lang.OutOfMemoryError: Java heap space")), OutOfMemory)


def test_a_java_that_gets_no_memory_is_not_missing(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "java"
    fake.write_text("#!/bin/sh\necho 'Error: Could not reserve enough space for object heap' >&2; exit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(OutOfMemory, match="in the start of Java: Error: Could not reserve"):
        java.check_java()


def test_java_gets_a_share_of_a_small_limit(monkeypatch):
    monkeypatch.setattr(java, "limit", lambda: 2 << 30)
    assert java.heap_bytes() == 512 << 20
    monkeypatch.setattr(java, "limit", lambda: 64 << 30)
    assert java.heap_bytes() == 2 << 30


def test_a_peak_stays_when_memory_is_given_back():
    held = np.ones(8 << 20)
    before = memory_limits.peak()
    del held
    assert memory_limits.peak() > 0.99 * before and before >= 64 << 20  # the kernel counts in batches of pages
    assert memory_limits.peaks() > 0.99 * before and memory_limits._peak_by_getrusage() > 0.99 * before


def test_control_groups_are_read(tmp_path):
    """Of both versions; what can be read from disk again is not used up."""

    def files(**texts):
        for name, text in texts.items():
            Path(tmp_path, name.replace("__", ".")).write_text(f"{text}\n")

    files(memory__max="1000", memory__high="max", memory__current="900")
    files(memory__stat="anon 300\nfile 600\nshmem 100\nslab_reclaimable 50")
    assert min(VERSION_2.limits(tmp_path)) == 1000 and VERSION_2.used(tmp_path) == 350
    files(memory__limit_in_bytes="2000", memory__usage_in_bytes="800", memory__stat="cache 1\ntotal_cache 500")
    assert VERSION_1.limits(tmp_path) == [2000] and VERSION_1.used(tmp_path) == 300
    assert memory_limits.limit() > 1 << 20 and memory_limits.kills() >= 0


def test_a_command_ends_before_the_system_kills_it(monkeypatch):
    left = iter([1 << 30, 400 << 20, 1 << 20])
    monkeypatch.setattr(memory, "rooms", lambda: [Room((2 << 30) - next(left), 2 << 30, "this container's memory")])
    said = []

    def end(told):
        said.append((told.status, str(told)))
        raise SystemExit

    monkeypatch.setattr(ending, "end_now", end)
    with memory.working_on(lambda: "the search for gold", "dig elsewhere"), pytest.raises(SystemExit):
        ending.watch_memory()
    assert next(left, "none") == "none"
    used = "2.0 GB of this container's memory, which has 2.0 GB, are used"
    assert said == [(1, f"out of memory in the search for gold: {used}\n  dig elsewhere")]


def test_the_address_space_and_what_others_use_are_no_reason_to_end(monkeypatch):
    full = [Room(99, 100, memory_limits.ADDRESSES), Room(99, 100, memory_limits.MACHINE)]
    monkeypatch.setattr(memory, "rooms", lambda: full)
    monkeypatch.setattr(memory, "ours", lambda: 1)
    assert memory.bytes_before_kill() == (float("inf"), None)


def test_what_helps_is_what_helps_there():
    with (
        pytest.raises(OutOfMemory, match="out of memory in the innermost: ") as found,
        memory.working_on(lambda: "here", "that"),
    ):
        with memory.working_on(lambda: "the innermost", "this"):
            raise MemoryError
    assert found.value.helps == "this"
