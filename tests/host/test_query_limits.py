"""Limits of an evaluation: a deadline, bytes, and a client that has left. All ways to evaluate end there, with one error."""

import contextvars
import threading
import weakref

import numpy as np
import pytest
from session_cases import PATHS

from semi_naive import Config, LimitExceeded, Program
from semi_naive.host import limits
from semi_naive.host.threads import in_threads
from semi_naive.ra.multiway.leapfrog import Leapfrog
from semi_naive.ra.multiway.query import ConjunctiveQuery, QueryAtom
from semi_naive.ra.spark import aside
from semi_naive.running.driver import growing
from semi_naive.simulated_ranks import SimulatedRanks

ENDLESS = ".decl big(n: number)\n.output big\nbig(0).\nbig(n + 1) :- big(n), n < 1000000000000."
RULE = "in the rule at <program>:4:1, big(n + 1) :- big(n), n < 1000000000000.: it has "
WAYS = {
    "a tuple at a time": {},
    "a block at a time": {"small_delta": 0},
    "on ranks": {"spark": SimulatedRanks(2), "local_tuples": 0, "plan": "balanced"},
}
EDGES = ".decl e(x: number, y: number)\ne(1, 2). e(2, 3). e(3, 1).\n"
BOTH = ("tuples", "blocks")
REGISTERED = {  # rules whose evaluation never ends, and the values of their parameters
    "big": (".decl big(n: number)\nbig(x) :- edge(x, _).\nbig(n + 1) :- big(n), n < 1000000000000.", {}),
    "from": (".decl from(n: number)\nfrom($s) :- edge($s, _).\nfrom(n + 1) :- from(n), n < 1000000000000.", {"s": 1}),
}


@pytest.fixture
def often(monkeypatch):
    """Bytes are measured at every check."""
    monkeypatch.setattr(limits, "MEASURE_SECONDS", 0.0)


@pytest.fixture
def soon(monkeypatch):
    """A recursion is looked at from its first iteration on."""
    monkeypatch.setattr(growing, "FIRST_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(growing, "CONFIRMING_SECONDS", 0.0)
    monkeypatch.setattr("semi_naive.running.driver.small.SLICE_INSTRUCTIONS", 1000)


@pytest.mark.parametrize("way", WAYS)
def test_a_deadline_ends_a_recursion_that_never_would(machine, way):
    with pytest.raises(LimitExceeded) as told:
        Program(ENDLESS).run(**WAYS[way], query_seconds=0.3)
    assert RULE + "taken 0.3 seconds, which is the limit (query_seconds); big has " in str(told.value)
    assert "a larger query_seconds lets it go on" in str(told.value)


@pytest.mark.parametrize("way", WAYS)
def test_bytes_end_it_too(machine, often, way):
    with pytest.raises(LimitExceeded) as told:
        Program(ENDLESS).run(**WAYS[way], query_bytes="4K")
    text = str(told.value)
    assert RULE + "made " in text and "and the limit is 4,096 (query_bytes); big has " in text
    assert told.value.place.startswith("iteration ")
    with Program(ENDLESS.replace("1000000000000", "50")).run(**WAYS[way], query_bytes="1M", query_seconds=600) as result:
        assert result["big"].count() == 51


@pytest.mark.parametrize(
    "rules",
    [
        '.decl s(x: symbol)\n.output s\ns("a").\ns(cat(x, x)) :- s(x), strlen(x) < 1000000000.',
        ".type List = [head: number, tail: List]\n.decl s(x: List)\n.output s\ns(nil).\ns([1, x]) :- s(x).\ns([2, x]) :- s(x).",
        ".decl s(x: number)\n.output s\ns(x) :- x = range(0, 100000000000).",
        ".decl r(x: number)\n.decl s(x: number, y: number)\n.output s\nr(x) :- x = range(0, 30000).\ns(x, y) :- r(x), r(y).",
    ],
    ids=["symbols", "records", "a range", "a product"],
)
def test_whatever_is_made_counts(often, rules):
    with pytest.raises(LimitExceeded, match=r"in the rule at .*, s\(.*and the limit is 1,000,000 \(query_bytes\); s has "):
        Program(rules).run(query_bytes=1_000_000)


@pytest.mark.parametrize("multiway", ["always", "never"])
def test_joins_that_make_no_head_end_as_well(multiway):
    """A deadline that has passed before the joins begin: they check it between two batches."""
    edges = [(x, y) for x in range(60) for y in range(60)]
    text = """
        .decl e(x: number, y: number)
        .input e
        .decl none(x: number)
        .output none
        none(x) :- e(x, y), e(y, z), e(z, x), x + y + z < 0.
    """
    program = Program(text)
    with program.run({"e": edges}, multiway=multiway) as result:  # what is compiled is compiled before
        assert result["none"].count() == 0
    with limits.within() as limit:
        limit.cancel("there was no need of it")
        with pytest.raises(LimitExceeded, match="^evaluation stopped.*: there was no need of it"):
            program.run({"e": edges}, multiway=multiway)


def test_a_leapfrog_join_is_cut_into_pieces_where_it_may_have_to_end():
    values = np.arange(200)
    pairs = [np.repeat(values, 200), np.tile(values, 200)]
    query = ConjunctiveQuery((QueryAtom("e", ("x", "y")), QueryAtom("e", ("y", "z")), QueryAtom("e", ("x", "z"))))

    def pieces():
        return len(list(Leapfrog.of(query, {"e": pairs}).loops(0).pieces(1)))

    assert pieces() == 1
    with limits.within():
        assert pieces() > 1


def test_threads_that_share_the_work_have_its_limits():
    with limits.within(), limits.within() as limit:
        assert list(in_threads(lambda _: [*limits.in_force()][0] is limit, range(5), 2)) == [True] * 5
        limit.cancel("enough")
        with pytest.raises(LimitExceeded, match="enough"):
            list(in_threads(lambda _: limits.check_limits(), range(5), 2))
        with limits.lifted():
            assert list(in_threads(lambda _: limits.check_limits(), range(5), 2)) == [None] * 5
    limits.check_limits()


def test_an_evaluation_is_cancelled_from_another_thread(machine):
    found, begun, given = [], threading.Event(), []

    def evaluate():
        with limits.within() as limit, pytest.raises(LimitExceeded) as told:
            given.append(limit)
            Program(ENDLESS).run(progress=lambda *_: begun.set())
        found.append(str(told.value))

    thread = threading.Thread(target=evaluate)
    thread.start()
    assert begun.wait(60)
    given[0].cancel("its client has left")
    thread.join()
    assert "big(n + 1) :- big(n), n < 1000000000000.: its client has left; big has " in found[0]


@pytest.mark.parametrize("main", [True, False], ids=["main thread", "another one"])
def test_a_job_of_spark_is_cancelled(monkeypatch, main):
    """A call that does not end by itself: its limits are looked at meanwhile."""
    monkeypatch.setattr(aside, "POLL_SECONDS", 0.01)
    ended = threading.Event()

    def job():
        ended.wait(60)
        raise RuntimeError("the job was cancelled")

    def wait():
        with limits.within() as limit, pytest.raises(LimitExceeded, match="its client has left"):
            limit.cancel("its client has left")
            aside.call_interruptibly(job, ended.set, limits.check_limits)

    if main:
        wait()
        return
    thread = threading.Thread(target=wait)
    thread.start()
    thread.join()
    assert ended.is_set()


@pytest.mark.parametrize("value", [0, -1, "soon", float("nan"), float("inf"), True])
def test_what_is_no_number_of_seconds(value):
    with pytest.raises(ValueError, match="query_seconds.*expected a number"):
        Config().with_options({"query_seconds": value})


def test_limits_as_options():
    config = Config().with_options({"query_seconds": "1.5", "query_bytes": "2M"})
    assert (config.query_seconds, config.query_bytes) == (1.5, 2 << 20)
    assert config.with_options({"query_seconds": "none", "query_bytes": "none"}) == Config()


# -- sessions


@pytest.fixture
def session(request):
    with Program(PATHS).session({"edge": [(1, 2)]}, **getattr(request, "param", {})) as session:
        for name, (text, _) in REGISTERED.items():
            session.register(name, text)
        yield session


@pytest.mark.parametrize("session", [{"query_seconds": 0.3}, {"query_bytes": "1M"}], indirect=True, ids=["seconds", "bytes"])
@pytest.mark.parametrize("name", REGISTERED)
def test_queries_and_subscriptions_that_never_end(session, machine, name):
    given = REGISTERED[name][1]
    tables = set(session.upkeep.relations.tables)
    for ask in (lambda: session.query(f"{name}(n)", **given), lambda: session.subscribe(name, print, **given)):
        with pytest.raises(LimitExceeded, match=rf"in the rule at <{name}>:3:1, .*; {name} has "):
            ask()
    assert set(session.upkeep.relations.tables) == tables and not session.registry.rules[name].users
    session.insert("edge", [(2, 3)])
    assert session["path"].to_set() == {(1, 2), (1, 3), (2, 3)}
    session.unregister(name)


@pytest.mark.parametrize("session", [{"query_seconds": 0.3}], indirect=True)
def test_a_transaction_that_never_ends_is_rolled_back(session, machine):
    told = []
    session.clear("edge")
    session.subscribe("big", lambda changes, epoch: told.append(changes.to_list()))
    with pytest.raises(LimitExceeded, match="in the rule at <big>:3:1"):
        session.insert("edge", [(1, 2)])
    assert session.epoch == 1 and not session["path"].count() and told == []
    session.insert("edge", [(1000000000000, 2)])  # whose recursion ends at once
    assert session.epoch == 2 and told == [[(1000000000000, 1)]]


@pytest.mark.parametrize("session", [{"query_seconds": 0.2}], indirect=True)
def test_a_query_waits_no_longer_for_a_transaction_and_readers_do_not_wait(session):
    session.register("last", ".decl last(x: number)\nlast(x) :- path(_, x).")
    session.subscribe("last", print)
    found = []

    def ask():
        found.append((session.query("path(1, y)").to_list(), session.query("last(x)").to_list()))
        with pytest.raises(LimitExceeded, match="another transaction or query was being evaluated"):
            session.query("big(n)")

    with session.transaction() as transaction:
        transaction.insert("edge", [(7, 8)])
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
    assert found == [([(2,)], [(2,)])] and session.epoch == 1


def test_limits_neither_end_what_has_happened_nor_what_is_given_back(session):
    """The evaluation is cancelled by a subscriber, who is told after the transaction has happened."""
    with limits.within() as limit:
        session.subscribe("path", lambda changes, epoch: limit.cancel("too late"))
        session.register("near", ".decl near(y: number)\nnear(y) :- path($x, y).")
        first, second = (session.subscribe("near", print, x=x) for x in (1, 2))
        assert session.insert("edge", [(2, 3)]).epoch == 1
        with pytest.raises(LimitExceeded, match="too late"):
            session.insert("edge", [(3, 4)])
    first.cancel()
    second.cancel()
    assert session["path"].to_set() == {(1, 2), (1, 3), (2, 3)} and not session.registry.rules["near"].users


# -- what only grows


@pytest.mark.parametrize("way", BOTH)
@pytest.mark.parametrize(
    "rules, name",
    [
        ("c(0). c(n + 1) :- c(n).", "c"),
        ("c(1). c(y) :- c(x), y = x * 3.", "c"),
        ("w(x, y, 1) :- e(x, y). w(x, z, d + 1) :- w(x, y, d), e(y, z).", "w"),
        ("w(1, x, y) :- e(x, y). w(d + 1, x, z) :- w(d, x, y), e(y, z).", "w"),
        ("m(x, max(0)) :- e(x, _). m(y, max(d + 1)) :- m(x, d), e(x, y).", "m"),
        ("a(0). a(n) :- b(n). b(n + 1) :- a(n).", "b"),
    ],
)
def test_a_recursion_that_only_makes_new_values_is_told(machine, soon, caplog, way, rules, name):
    arity = {"c": 1, "w": 3, "m": 2, "a": 1, "b": 1}
    declared = "".join(
        f".decl {each}({', '.join(f'x{n}: number' for n in range(arity[each]))})\n" for each in arity if f"{each}(" in rules
    )
    options = {"small_delta": 1000 if way == "tuples" else 0}
    with Program(f"{EDGES}{declared}.output {name}\n{rules}", "p.dl").run(max_iterations=1000, **options):
        (told,) = [record.getMessage() for record in caplog.records]
    assert f"{name} only grows by making new values, and may never end (max_iterations, query_seconds, " in told
    assert f".limitsize limits it): the rule at p.dl:{4 + declared.count('.decl')}:" in told
    assert f", {rules.rpartition('. ')[2]}" in told


@pytest.mark.parametrize("way", BOTH)
def test_what_grows_by_other_tuples_is_not_told(machine, soon, caplog, way):
    text = """
        .decl e(x: number, y: number)
        .input e
        .decl p(x: number, y: number)
        .decl d(x: number, n: number)
        .output p, d
        p(x, y) :- e(x, y).
        p(x, z) :- p(x, y), e(y, z).
        d(0, 0).
        d(y, n + 1) :- d(x, n), e(x, y).
    """
    chain = [(x, x + 1) for x in range(300)]
    with Program(text).run({"e": chain}, small_delta=1000 if way == "tuples" else 0) as result:
        assert result["d"].count() == 301 and result["p"].count() == 301 * 150
    assert not caplog.records


def test_it_is_told_of_the_partitions(soon, caplog):
    with Program(ENDLESS.replace("1000000000000", "20")).run(
        spark=SimulatedRanks(2), local_tuples=0, run_ahead=0, plan="balanced"
    ):
        (told,) = [record.getMessage() for record in caplog.records]
    assert "big only grows by making new values" in told


# -- the command line


def test_the_commands_have_limits(run, tmp_path, monkeypatch, machine):
    (tmp_path / "p.dl").write_text(ENDLESS)
    for option in ("--query-seconds=0.2", "--query-bytes=1M"):
        status, out, errors = run("run", "p.dl", "-D", "-", option)
        assert status == 1 and not out and errors.startswith("semi-naive: evaluation stopped in iteration ")
        assert "in the rule at p.dl:4:1" in errors
    status, _, errors = run("run", "p.dl", "--query-bytes", "much")
    assert status == 2 and "query_bytes=much: expected a number of bytes, such as 500000, 64M or 2G" in errors
    status, _, errors = run("run", "p.dl", "--query-seconds", "soon")
    assert status == 2 and "query_seconds=soon: expected a number, or none" in errors


def test_a_limit_ends_with_its_block_even_if_an_interrupt_prevents_the_reset():
    def interrupted() -> tuple:
        with limits.within(seconds=1000) as around, limits.budget(100) as work:
            for variable, value in ((limits._work, limits.Work(5)), (limits._limits, limits.Limits(0.0, None, around))):
                inner = variable._variable  # as a block leaves it that did not come to its last line
                inner.set((value, weakref.ref(limits.Block()), inner.get()))
            limits.visit(6)
            limits.check_limits()
            return list(limits.in_force()) == [around], work.bindings, limits.bindings_left()

    assert contextvars.copy_context().run(interrupted) == (True, 6, 94)
