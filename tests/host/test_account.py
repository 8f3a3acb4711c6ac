"""Every second of a run is in one part of its account: nested, in threads, in records, and on the command line."""

import json
import re
import threading
from itertools import count

import pytest
from paths import NAMED_PATHS

from semi_naive import Program, transitive_closure
from semi_naive.balance.trace import VERSION, checked
from semi_naive.host import account
from semi_naive.host.account import PARTS, Account, as_sum, current, open_account, part, spent_between
from semi_naive.host.numbers import summands

PATHS = (
    NAMED_PATHS
    + """.decl ends(x: symbol)
.output ends
ends(x) :- path(x, _), !edge(_, x).
"""
)
EDGES = [(f"n{i}", f"n{i + 1}") for i in range(40)]


@pytest.fixture
def clock(monkeypatch):
    """A second passes at each look."""
    ticks = count()
    monkeypatch.setattr(account.time, "perf_counter", lambda: float(next(ticks)))


def adds_up(record: dict) -> bool:
    return record["seconds"] == pytest.approx(sum(record["account"].values())) and set(record["account"]) <= set(PARTS)


def test_a_part_within_another_is_paid_for_once(clock):
    with open_account() as paid:  # 0
        with part("load"):  # 1
            with part("intern"):  # 2
                pass  # 3
    assert paid.spent == {"other": 2.0, "load": 2.0, "intern": 1.0} and paid.parts() == paid.spent


def test_a_part_of_only_one_part(clock):
    with open_account() as paid:
        with part("intern", of="load"):
            pass
        with part("load"), part("intern", of="load"):
            pass
    assert paid.spent["intern"] == 1.0


def test_an_error_ends_a_part(clock):
    with open_account() as paid:
        with pytest.raises(ValueError, match="no"), part("plan"):
            raise ValueError("no")
        assert paid.paying[0] == "other"
    assert paid.paying is None and current() is None


def test_other_threads_pay_for_nothing(clock):
    @part("load")
    def work():
        assert current() is None

    with open_account() as paid:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        elsewhere = threading.Thread(target=lambda: paid.open("write").__enter__())
        elsewhere.start()
        elsewhere.join()
        assert paid.paying[0] == "other"
    assert set(paid.spent) == {"other"}


def test_who_waits_is_joined_once():
    with open_account("start") as outer:
        with open_account() as inner:
            assert inner is outer and outer.paying[0] == "other"
            inner.claimed = True
        assert outer.paying[0] == "start"
        with open_account() as another:
            assert another is not outer and current() is another
        assert current() is outer


def test_what_is_open_is_told_as_far_as_it_is(clock):
    paid = Account()
    with paid.open("load", since=-9.0):
        assert paid.parts() == {"load": 10.0}
    assert spent_between({"load": 4.0, "plan": 1.0}, {"load": 5.0, "plan": 1.0, "write": 2.0}) == {"load": 1.0, "write": 2.0}


def test_sums_are_those_of_what_is_shown():
    parts = {name: 0.0004 + number / 7 for number, name in enumerate(PARTS)}
    shown = summands(parts)
    assert round(sum(shown.values()), 3) == round(sum(parts.values()), 3)
    assert as_sum({"seconds": 0.5}) == "0.500 s"


@pytest.mark.parametrize("options", [{}, {"small_delta": 0}, {"max_iterations": 3}])
def test_a_run_adds_up(options, tmp_path):
    with Program(PATHS).run({"edge": EDGES}, **options) as result:
        trace = checked(result.trace, VERSION)
        assert adds_up(trace) and adds_up(trace["profile"]) and trace["profile"]["seconds"] == trace["seconds"]
        assert {"load", "intern", "iterate"} <= set(trace["account"]) and "write" not in trace["account"]
        assert all(map(adds_up, trace["strata"]))
        assert sum(stratum["seconds"] for stratum in trace["strata"]) <= trace["seconds"]
        before = trace["seconds"]
        result.write(tmp_path)
        assert adds_up(result.trace) and result.trace["seconds"] > before and result.trace["account"]["write"] > 0
        result["path"].write(tmp_path / "p.csv")
        assert adds_up(result.trace) and as_sum(result.trace) in result.explain()


def test_rounds_of_a_loop_add_up():
    sums = """
.decl part(of: symbol, item: symbol, n: number)
.input part
.decl all(of: symbol, n: number)
.output all
all(x, 0) :- part(_, x, _), !part(x, _, _).
all(x, sum(n + m)) :- part(x, y, n), all(y, m).
"""
    with Program(sums).run({"part": [("a", "b", 2), ("b", "c", 3)]}) as result:
        assert result["all"].to_set() == {("a", 5), ("b", 3), ("c", 0)}
        assert all(map(adds_up, result.trace["strata"])) and adds_up(result.trace)


def test_a_run_within_a_run_has_its_own():
    inner = Program(".decl r(x: number)\n.output r\nr(1).")
    seen = []

    def f(x: int) -> int:
        seen.append(inner.run().trace)
        return x + 1

    outer = Program(".functor f(x: number): number\n.decl s(x: number)\n.output s\ns(@f(1)).\n", functors={"f": f})
    result = outer.run()
    assert result["s"].to_list() == [(2,)] and adds_up(result.trace) and all(map(adds_up, seen))
    assert all(trace["seconds"] < result.trace["seconds"] for trace in seen)


def test_closures_add_up(here, tmp_path):
    for plan in ("auto", "decomposed", "balanced"):
        with transitive_closure(EDGES, None if plan == "auto" else here, plan) as closure:
            assert adds_up(closure.trace) and closure.trace["account"]["load"] > 0
            before = closure.trace["seconds"]
            closure.write(tmp_path / "c.csv")
            assert adds_up(closure.trace) and closure.trace["seconds"] > before
            assert as_sum(closure.trace) in closure.explain()


def test_commands_say_the_same_everywhere(run, tmp_path):
    (tmp_path / "p.dl").write_text(PATHS)
    (tmp_path / "edge.facts").write_text("".join(f"{x}\t{y}\n" for x, y in EDGES))
    status, _, errors = run("run", "p.dl", "-v", "-p", "p.json", "--trace", "t.json", "--report", "r.html")
    assert status == 0
    *strata, closing = [line for line in errors.splitlines() if line.startswith("semi-naive: ")]
    total, *parts = re.findall(r"[\d.]+(?= s = | [a-z]+(?: |$))", closing.partition("strata, ")[2])
    assert round(sum(map(float, parts)), 3) == float(total) and len(strata) == 2
    trace, profile = (json.loads((tmp_path / name).read_text()) for name in ("t.json", "p.json"))
    assert closing.endswith(as_sum(trace)) and as_sum(trace) == as_sum(profile) and adds_up(trace)
    assert {"start", "compile", "load", "iterate", "write"} <= set(trace["account"])
    assert as_sum(trace).split(" = ")[0] in re.sub(r"<[^>]*>", "", (tmp_path / "r.html").read_text())
    assert run("profile", "p.json")[1].startswith(f"p.dl: {as_sum(trace)}")


def test_a_command_is_silent_in_a_script(run, tmp_path):
    (tmp_path / "p.dl").write_text(".decl r(x: number)\n.output r\nr(1).")
    assert run("run", "p.dl") == (0, "", "")
