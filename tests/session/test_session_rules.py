"""Rules that come while a session runs, and who is told what: whoever subscribes when, the sum of what is told is what a fresh
run of the program and the rules makes."""

import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from session_cases import PATHS, SETTINGS

from semi_naive import BadInput, EvaluationError, Program, ProgramError
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.changes import Change, empty
from semi_naive.session.registered.subscriptions import parts_by_key, rest_of

NODES = range(6)
RULES = {  # the texts, and the values of their parameters
    "near": (".decl near(y: number)\n.decl reach(x: number, y: number)\nreach(x, y) :- edge(x, y).\n"
             "reach(x, z) :- reach(x, y), edge(y, z).\nnear(y) :- reach($src, y).", ["src"]),
    "hop": (".decl hop(y: number)\nhop(y) :- edge($src, y), y != $but.\nhop(z) :- hop(y), edge(y, z), z != $but.\n"
            "hop($but) :- edge($but, $but).", ["src", "but"]),
    "above": (".decl above(x: number, y: number)\nabove(x, y) :- edge(x, y), y > $least, x + y < $sum.", ["least", "sum"]),
    "is": (".decl is()\nis() :- path($x, $y).", ["x", "y"]),
    "last": (".decl last(x: number)\nlast(x) :- path(_, x), !edge(x, _).", []),
    "degree": (".decl degree(x: number, n: number)\ndegree(x, n) :- edge(x, _), n = count : { edge(x, _) }.", []),
    "both": (".decl both(x: number, n: number)\nboth(x, n) :- last(x), degree(y, n), path(y, x).", []),
    "least": (".decl least(n: number)\n.decl some(n: number)\nsome(7). some(n) :- path($src, n).\n"
              "least(min n : { some(n) }).", ["src"]),
    "step": (".decl step(x: number, d: number)\nstep($src, 0) :- edge(_, $src).\n"
             "step(y, min(d + 1)) :- step(x, d), edge(x, y).", ["src"]),
}  # fmt: skip


def fresh(name: str, values: dict, edges: set) -> set:
    """What a run makes of the program with rules whose parameters are values."""
    texts = [RULES[each][0] for each in (["last", "degree", "both"] if name == "both" else [name])]
    text = "\n".join([PATHS, *texts])
    for parameter, value in values.items():
        text = text.replace(f"${parameter}", str(value))
    with Program(text).run({"edge": edges}) as result:
        return result[name].to_set()


class Told:
    """Folds what it is told."""

    def __init__(self):
        self.rows, self.epochs = set(), []

    def __call__(self, changes, epoch):
        self.epochs.append(epoch)
        for *row, diff in changes.to_list():
            assert (tuple(row) in self.rows) == (diff == -1)
            self.rows ^= {tuple(row)}


edges_drawn = st.sets(st.tuples(st.sampled_from(NODES), st.sampled_from(NODES)), max_size=8)


@settings(max_examples=60, **SETTINGS)
@given(edges_drawn, st.data())
def test_whoever_subscribes_when_the_sum_of_what_is_told_is_a_fresh_run(edges, data):
    edges, told = set(edges), []
    with Program(PATHS).session({"edge": edges}) as session:
        for name, (text, _) in RULES.items():
            session.register(name, text)
        begun = len(session.upkeep.relations.tables)
        for _ in range(data.draw(st.integers(1, 6))):
            for _ in range(data.draw(st.integers(0, 3))):
                name = data.draw(st.sampled_from(sorted(RULES)))
                values = {each: data.draw(st.sampled_from(NODES)) for each in RULES[name][1]}
                if data.draw(st.booleans()):
                    listener = Told()
                    told.append((name, values, listener, session.subscribe(name, listener, snapshot=True, **values)))
                else:
                    relation = session.registry.relation(name)
                    names = [each for each, _ in relation.attributes[len(values) :]]
                    assert session.query(f"{name}({', '.join(names)})", **values).to_set() == fresh(name, values, edges)
            if told and data.draw(st.booleans()):
                told.pop(data.draw(st.integers(0, len(told) - 1)))[3].cancel()
            with session.transaction() as transaction:
                gone, come = data.draw(edges_drawn), data.draw(edges_drawn)
                transaction.delete("edge", gone)
                transaction.insert("edge", come)
            edges = edges - gone | come
            for name, values, listener, _ in told:
                assert listener.rows == fresh(name, values, edges), (name, values)
        for *_, subscription in told:
            subscription.cancel()
        assert len(session.upkeep.relations.tables) == begun == 2 and len(session.upkeep.run.strata) == 2
        assert not session.registry._uses


@pytest.fixture
def session():
    with Program(PATHS).session({"edge": [(0, 1), (1, 2)]}, retain=4) as session:
        yield session


def test_nothing_is_evaluated_before_somebody_subscribes(session, monkeypatch):
    monkeypatch.setattr(session.upkeep.recomputation, "compute", lambda number: pytest.fail("evaluated"))
    for number in range(100):
        session.register(f"r{number}", f".decl r{number}(x: number)\nr{number}(x) :- path({number}, x).")
    assert list(session) == ["edge", "path"] and list(session.upkeep.relations.tables["path"].full) == [(0, 1)]
    session.insert("edge", [(2, 3)])


def test_tenants_share_one_dataflow(session):
    session.register("near", RULES["near"][0])
    listeners = [Told() for _ in range(20)]
    subscriptions = [session.subscribe("near", each, src=number % 2) for number, each in enumerate(listeners)]
    assert session.upkeep.relations.tables["near.parameters"].count == 2
    t = session.insert("edge", [(2, 3)])
    assert all(each.rows == {(3,)} for each in listeners)
    assert t.changes["near"].to_set() == {(0, 3, 1), (1, 3, 1)}  # with the values of the parameters
    for each in subscriptions[:19]:
        each.cancel()
    assert session.upkeep.relations.tables["near.parameters"].count == 1
    answer = session["near"]
    subscriptions[19].cancel()
    subscriptions[19].cancel()
    assert answer.to_set() == {(1, 2), (1, 3)}
    assert "near" not in session and "near" not in session.upkeep.relations.tables


def test_an_index_that_rules_make_is_the_sessions(session):
    session.register("into", ".decl into(x: number)\ninto(x) :- path(x, $y).")
    subscription = session.subscribe("into", Told(), y=2)
    assert (1, 0) in session.upkeep.relations.tables["path"].full
    subscription.cancel()


def test_changes_are_told_together_and_in_the_background(session):
    every, slow, waiting = Told(), Told(), threading.Event()
    session.subscribe("path", every, epochs=3, snapshot=True)
    for number in range(2, 8):
        session.insert("edge", [(number, number + 1)])
    assert every.epochs == [2, 5] and len(every.rows) == 28
    session.delete("edge", [(7, 8)])
    session.insert("edge", [(7, 8)])
    session.clear("edge")
    assert every.epochs == [2, 5, 8] and len(every.rows) == 36

    def sleeps(changes, epoch):
        waiting.wait(60)
        slow(changes, epoch)

    subscription = session.subscribe("edge", sleeps, background=True)
    for number in range(5):
        session.insert("edge", [(number, 0)])  # which waits for nobody
    waiting.set()
    until = time.monotonic() + 60
    while slow.rows != session["edge"].to_set():
        assert time.monotonic() < until
        time.sleep(0.001)
    assert len(slow.epochs) <= 2 and slow.epochs[-1] == session.epoch
    subscription.cancel()
    session.insert("edge", [(9, 9)])
    assert (9, 9) not in slow.rows


def test_now_and_then_and_what_is_left(session):
    told = Told()
    subscription = session.subscribe("edge", told, seconds=3600)
    session.insert("edge", [(5, 5)])
    until = time.monotonic() + 60
    while not told.epochs:  # the first time at once
        assert time.monotonic() < until
        time.sleep(0.001)
    session.insert("edge", [(6, 6)])
    session.insert("edge", [(7, 7)])
    assert told.rows == {(5, 5)}
    subscription.flush()
    assert told.rows == {(5, 5), (6, 6), (7, 7)} and told.epochs == [1, 3]
    subscription.cancel()


def test_since_an_epoch_that_is_retained(session):
    session.insert("edge", [(2, 3)])
    session.insert("edge", [(5, 5)])
    session.delete("edge", [(5, 5)])
    told = Told()
    session.subscribe("edge", told, since=0)
    assert told.rows == {(2, 3)} and told.epochs == [3]
    session.register("last", RULES["last"][0])
    with pytest.raises(ValueError, match="last was not evaluated at epoch 0: its first use was later"):
        session.subscribe("last", told, since=0)
    with pytest.raises(ValueError, match="there is no epoch 9"):
        session.subscribe("edge", told, since=9)
    assert "last" not in session


def test_what_is_told_to_a_name_is_kept_until_it_is_acknowledged(session):
    session.register("near", RULES["near"][0])
    told = []
    first = session.subscribe("near", lambda changes, epoch: told.append((epoch, changes.to_list())), src=0, name="n")
    session.insert("edge", [(2, 3)])
    with pytest.raises(ValueError, match="the subscription 'n' is in use"):
        session.subscribe("near", told.append, src=0, name="n")
    first.cancel()
    session.insert("edge", [(3, 4)])
    session.insert("edge", [(8, 8)])
    session.insert("edge", [(4, 5)])
    assert told == [(1, [(3, 1)])]
    first.ack(1)
    second = session.subscribe("near", lambda changes, epoch: told.append((epoch, changes.to_list())), src=0, name="n")
    assert told[1:] == [(2, [(4, 1)]), (4, [(5, 1)])]
    second.ack(2)
    second.cancel()
    with pytest.raises(ValueError, match="epochs up to 2 have been acknowledged"):
        session.subscribe("near", told.append, src=0, name="n", since=1)
    with pytest.raises(ValueError, match="is one to near"):
        session.subscribe("near", told.append, src=1, name="n")
    third = session.subscribe("near", lambda changes, epoch: told.append((epoch, changes.to_list())), src=0, name="n", since=3)
    assert told[3:] == [(4, [(5, 1)])]
    with pytest.raises(ValueError, match="needed by 2 subscriptions:"):
        session.unregister("near")
    session.end_subscription("n")
    third.cancel()
    session.unregister("near")
    assert "near" not in session.upkeep.relations.tables
    with pytest.raises(ValueError, match="only a subscription with a name"):
        session.subscribe("path", told.append).ack(1)
    with pytest.raises(KeyError, match="no subscription with the name 'n'"):
        session.end_subscription("n")


def test_a_callback_that_cancels_or_fails(session, caplog):
    session.register("last", RULES["last"][0])
    told = []

    def once(changes, epoch):
        told.append(epoch)
        subscription.cancel()

    subscription = session.subscribe("last", once)
    failing = session.subscribe("last", lambda changes, epoch: 1 // 0)
    session.insert("edge", [(2, 3)])
    session.insert("edge", [(3, 4)])
    assert told == [1] and session["last"].to_set() == {(4,)}
    assert caplog.text.count("a subscriber to last has failed") == 2
    failing.cancel()
    assert "last" not in session


def test_callbacks_are_called_in_the_order_of_subscription(session):
    called, order = [], ["path", "hop", "edge", "near", "degree", "is"]
    for name in ("hop", "last", "near", "degree", "is"):
        session.register(name, RULES[name][0])
    given = {"hop": [{"src": 2, "but": 9}, {"src": 2, "but": 8}], "near": [{"src": 0}], "is": [{"x": 1, "y": 3}]}
    expected = [(name, place) for name in order for place in range(len(given.get(name, [{}])))]
    for name, place in expected:
        callback = lambda changes, epoch, each=(name, place): called.append(each)  # noqa: E731
        session.subscribe(name, callback, **given.get(name, [{}])[place])
    session.insert("edge", [(2, 3)])
    assert called == expected


def test_a_callback_begins_no_transaction_and_waits_for_none(session, caplog):
    for call in (lambda: session.insert("edge", [(7, 7)]), lambda: session.subscribe("path", print)):
        subscription = session.subscribe("edge", lambda changes, epoch, call=call: call(), snapshot=True)
        session.insert("edge", [(5, session.epoch)])
        assert ["let it end" in str(record.exc_info[1]) for record in caplog.records] == [True, True]
        caplog.clear()
        subscription.cancel()
    other = threading.Thread(target=session.insert, args=("edge", [(8, 8)]))  # another thread's waits, and is not refused
    with session.transaction() as transaction:
        other.start()
        transaction.insert("edge", [(9, 9)])
    other.join(60)
    assert {(8, 8), (9, 9)} <= session["edge"].to_set() and (7, 7) not in session["edge"].to_set()


def test_rules_that_are_wrong_say_where(session):
    for text, told in {
        ".decl other(x: number)": "These rules declare no relation bad",
        ".decl bad(x: number)\nbad(x) :- nothing(x), y < x.": "Undefined relation nothing in file <bad> at line 2, column 11",
        ".decl bad(x: number)\n.decl path(x: number)\nbad(x) :- edge(x, _).": "The session has a relation path already",
        ".decl bad(x: number)\n.output bad\nbad(x) :- edge(x, _).": "Registered rules have no .output",
        ".decl bad(x: number)\nbad(autoinc()) :- edge(_, _).": "autoinc.. gives other numbers each time",
        ".decl bad(x: number)\nbad(x) :- edge(x, _), $n = $m.": "The type of [$]n is not known.* at line 2, column 23",
        ".decl bad(x: symbol)\nbad(x) :- edge($n, y), x = y.": "<bad> at line 2",
        ".decl bad(x: number)\nbad(x) :- !bad(x), edge(x, _).": "stratif",
        ".decl bad(x: number) bad(x) :-": "syntax error",
    }.items():
        with pytest.raises(ProgramError, match=told) as error:
            session.register("bad", text)
        assert "<program>" not in str(error.value)
    session.register("last", RULES["last"][0])
    session.register("both", ".decl both(x: number)\nboth(x) :- last(x).")
    with pytest.raises(ValueError, match="last is registered already: unregister it first, or add rules to it with add=True"):
        session.register("last", RULES["last"][0])
    with pytest.raises(ValueError, match="last is read by both"):
        session.unregister("last")
    with pytest.raises(KeyError, match="registered are both, last"):
        session.unregister("nothing")
    session.register("near", RULES["near"][0])
    for call in (lambda: session.subscribe("near", print), lambda: session.query("near(y)", src=1, dst=2)):
        with pytest.raises(ValueError, match=r"near has the parameters src=…, and .* (is|are) given"):
            call()
    with pytest.raises(BadInput, match="found 'a'|expected"):
        session.query("near(y)", src="a")
    with pytest.raises(KeyError, match="nowhere"):
        session.subscribe("nowhere", print)
    for options, wrong in {"epochs": 0, "seconds": -1}.items():
        with pytest.raises(ValueError, match=options):
            session.subscribe("path", print, **{options: wrong})
    with session.transaction(), pytest.raises(ValueError, match="a transaction is open in this thread"):
        session.subscribe("near", print, src=1)
    with pytest.raises(ProgramError, match=r"A program has no parameter \$n in file <program> at line 1, column 39"):
        Program(".decl a(x: number) a(x) :- a(x), x != $n.")


def test_an_error_of_a_rule_leaves_nothing(session):
    session.register(
        "bad",
        ".decl bad(x: number)\n.decl some(x: number)\nsome(x) :- edge(x, _).\nbad(10 / x) :- some(x), x != $n, edge($n, _).",
    )
    strata, tables = list(session.upkeep.run.strata), set(session.upkeep.relations.tables)
    with pytest.raises(EvaluationError):
        session.subscribe("bad", print, n=1)
    assert (
        session.upkeep.run.strata == strata
        and session.upkeep.relations.tables.keys() == tables
        and not session.registry.subscribers.active
    )
    assert session.query("bad(x)", n=0).to_set() == {(10,)}
    subscription = session.subscribe("bad", print, n=0)
    with pytest.raises(EvaluationError):
        session.subscribe("bad", print, n=1)
    assert session["bad"].to_set() == {(0, 10)}
    subscription.cancel()
    assert session.upkeep.relations.tables.keys() == tables


def test_symbols_and_types_of_the_program(tmp_path):
    text = """
    .type Name <: symbol
    .type Pair = [a: Name, b: number]
    .decl likes(x: Name, p: Pair)
    .input likes
    """
    with Program(text).session({"likes": [("Ann", ("tea", 3)), ("Bob", ("tea", 2))]}, path=tmp_path / "s") as session:
        two = "who(x, n) :- likes(x, [$what, n]), n >= 2.\nwho(x, n) :- likes(x, p), p = [$what, n]."
        session.register("who", f".decl who(x: Name, n: number)\n{two}")
        assert session.query("who(x, n)", what="tea").to_set() == {("Ann", 3), ("Bob", 2)}
        two = "of(w) :- likes(_, [w, _]).\nfans(x) :- of($what), likes(x, [$what, _])."
        session.register("fans", f".decl fans(x: Name)\n.decl of(what: Name)\n{two}")
        told = Told()
        session.subscribe("fans", told, snapshot=True, what="tea")
        assert "likes" in session.explain("fans")  # whatever the type of its parameter
        session.insert("likes", [("Cyd", ("tea", 1)), ("Cyd", ("milk", 1))])
        assert told.rows == {("Ann",), ("Bob",), ("Cyd",)}
    with Program(text).session(path=tmp_path / "s") as session:
        assert session["likes"].count() == 4 and list(session) == ["likes"]


def test_explain_tells_of_the_rules_alone(session):
    session.register("near", RULES["near"][0])
    assert "near.reach@bf" in session.explain("near") and "edge(x, y): 2 tuples" in session.explain("near")
    assert "path" in session.explain("path") and session.explain() == session.explain("path")
    assert "edge(x, y): 2 tuples" in session.explain()
    with pytest.raises(KeyError):
        session.explain("nothing")


def test_what_a_session_knows_of_itself(session):
    session.register("near", RULES["near"][0])
    epochs, memory = Told(), Told()
    session.subscribe("sys.epoch", epochs)
    session.subscribe("sys.memory", memory, snapshot=True)
    assert memory.rows == session["sys.memory"].to_set()
    first = session.subscribe("near", Told(), src=1, name="n")
    session.insert("edge", [(2, 3), (0, 1)])
    assert epochs.rows == session["sys.epoch"].to_set() and memory.rows == session["sys.memory"].to_set()
    [(epoch, at, seconds, facts, tuples)] = epochs.rows
    assert (epoch, facts) == (1, 1) and tuples == 1 + 3 + 1 + 1 and abs(at - time.time()) < 600 and 0 < seconds < 600
    assert session.query('sys.memory("path", n, b)').to_set() == {(6, session.upkeep.relations.tables["path"].nbytes)}
    assert session.query('sys.index("edge", a, 3, _)').to_set() == {("x, y",)}
    symbols = session.upkeep.values.mark()
    with session.transaction() as transaction:  # a reader numbers no symbol of the session's, as the transaction may yet fail
        found = session["sys.rule"].to_set()
        transaction.abort()
    assert session.upkeep.values.mark() == symbols
    rules = {rule for _, rule, _ in found}
    assert "path(x, y) :- edge(x, y)." in rules and any(rule.startswith("near.reach@bf(x, z)") for rule in rules)
    assert {("near", "n", "src=1", 1), ("sys.epoch", "", "", 1)} <= session["sys.subscription"].to_set()
    first.cancel()
    assert "near" not in {name for name, *_ in session["sys.subscription"].to_set()}
    assert "sys.epoch" not in session and list(session)[:2] == ["edge", "path"]
    with pytest.raises(KeyError, match="sys.nothing"):
        session["sys.nothing"]
    with pytest.raises(KeyError, match="sys.epoch"):
        session.insert("sys.epoch", [(1, 1.0, 1.0, 1, 1)])


INLINED = """
.decl edge(x: number, y: number)
.input edge
.decl succ(x: number, y: number) inline
succ(x, y) :- y = x + 1.
.decl twice(x: number, y: number) inline
twice(x, z) :- succ(x, y), succ(y, z).
.decl start(x: number) inline
.decl path(x: number, y: number)
start(x), path(x, x) :- edge(x, _), !edge(_, x).
path(x, z) :- path(x, y), edge(y, z), start(x).
"""
ENDS = ".decl ends(x: number) inline\n.decl end(x: number)\nend(x) :- edge(_, x).\nends(x) :- end(x), !start(x)."


def test_inline_relations_are_read_by_registered_rules_and_are_asked_for():
    edges = {(1, 2), (2, 3)}
    with Program(INLINED).session({"edge": edges}) as session:
        texts = {
            "ends": ENDS,
            "double": ".decl double(x: number, y: number) inline\ndouble(x, y) :- y = x * 2.",
            "of": ".decl of(y: number) inline\nof(y) :- edge($s, y), start($s).",
            "all": ".decl all(x: number, y: number, z: number)\nall(x, y, z) :- ends(x), twice(x, y), double(x, z), !start(y).",
            "above": ".decl above(x: number)\nabove(x) :- all(_, x, _), double($x, x).",
        }
        for name, text in texts.items():
            session.register(name, text)
        assert session.query("ends(x)").to_set() == {(2,), (3,)}
        assert session.query("all(x, y, z)").to_set() == {(2, 4, 4), (3, 5, 6)}
        assert session.query("of(y)", s=1).to_set() == {(2,)} and not session.query("of(y)", s=2).count()
        assert session.query("above(x)", x=2).to_set() == {(4,)}
        told, ends = Told(), Told()
        session.subscribe("all", told, snapshot=True)
        session.subscribe("ends", ends, snapshot=True)
        session.insert("edge", [(3, 9)])
        session.delete("edge", [(1, 2)])
        with Program(INLINED + "\n".join(texts[each] for each in ("ends", "double", "all")) + "\n.output all").run(
            {"edge": edges ^ {(1, 2), (3, 9)}}
        ) as result:
            assert told.rows == result["all"].to_set() == {(3, 5, 6), (9, 11, 18)}
        assert ends.rows == session.query("ends(x)").to_set() == {(3,), (9,)}
        assert "end(9)" in str(session.why("all", (9, 11, 18)))
        with pytest.raises(ValueError, match="ends is read by all: unregister what reads it first"):
            session.unregister("ends")


def test_an_inline_relation_that_binds_nothing_is_for_other_rules_alone():
    with Program(INLINED).session({"edge": [(1, 2)]}) as session:
        session.register("half", ".decl half(x: number, y: number) inline\nhalf(x, y) :- x = y * 2.")
        session.register("two", ".decl two(x: number)\ntwo(x) :- edge(_, y), half(x, y).")
        assert session.query("two(x)").to_list() == [(4,)]
        with pytest.raises(ProgramError, match="Ungrounded variable y in file <half> at line 2"):
            session.query("half(x, y)")
        with pytest.raises(ProgramError, match="Ungrounded variable y in file <wrong> at line 2"):
            session.register("wrong", ".decl wrong(y: number)\nwrong(y) :- edge(x, _), succ(y, z), half(z, x).")
        session.register("same", ".decl same(x: number)\nsame(x) :- edge(_, y), half(x, y).")  # of a shape that is known
        assert session.query("same(x)").to_list() == [(4,)]


def test_inline_relations_after_the_session_was_opened_again(tmp_path):
    for _ in range(2):
        with Program(INLINED).session({"edge": [(1, 2)]}, path=tmp_path / "s") as session:
            if "ends" not in session.registry.rules:
                session.register("ends", ENDS)
                session.register("next", ".decl next(x: number)\nnext(y) :- ends(x), succ(x, y).")
            assert session.query("next(x)").to_list() == [(3,)]


@pytest.mark.parametrize(
    "rules",
    [
        "steps(x, 0) :- edge(x, _).  steps(y, k + 1) :- steps(x, k), edge(x, y), !steps(y, k), k < 3.",
        "steps(x, sum(n)) :- edge(x, y), steps(y, n).  steps(9, 1).",
    ],
)
def test_registered_rules_recur_in_no_rounds(session, rules):
    with pytest.raises(ProgramError, match="Registered rules for steps recur in steps, through sums or through negation"):
        session.register("steps", f".decl steps(x: number, k: number)\n{rules}")


def test_a_change_is_divided_by_key():
    """In one pass, as a search for each key divides it."""
    random = np.random.default_rng(1)
    for _ in range(200):
        arity = int(random.integers(1, 5))
        width, size, most = int(random.integers(1, arity + 1)), int(random.integers(0, 200)), [6, 1 << 62][random.integers(2)]
        columns = [random.integers(-3, 9 if place < width else most, size) for place in range(arity)]
        block = Block.of(columns, size) if size else empty(arity)
        keys = {tuple(map(int, random.integers(-3, 9, width))) for _ in range(9)}
        parts = parts_by_key(Change(block, empty(arity)), keys)
        for key in keys:
            expected = rest_of(block, key)
            found = parts[key].born if key in parts else empty(arity - width)
            assert found.size == expected.size and np.array_equal(found.columns(), expected.columns())


def test_subscriptions_are_cancelled_by_any_threads_at_once():
    """Each is released once, whichever threads cancel others meanwhile."""
    with Program(".decl edge(x: number, y: number)\n.input edge").session({"edge": [(x, x + 1) for x in range(50)]}) as session:
        session.register("near", ".decl near(y: number)\nnear(y) :- edge($x, y).")
        for _ in range(5):
            subscriptions = [session.subscribe("near", lambda *_: None, x=x % 7) for x in range(32)]
            start, errors = threading.Barrier(8), []

            def cancel(mine, start=start, errors=errors):
                start.wait()
                try:
                    for subscription in mine:
                        subscription.cancel()
                except Exception as error:
                    errors.append(error)

            threads = [threading.Thread(target=cancel, args=[subscriptions[place::8]]) for place in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            subscribers = session.registry.subscribers
            assert not errors and not subscribers.active and not subscribers.leaving
            assert not session.registry.rules["near"].users
