"""Sessions, case by case: facts, transactions, epochs, subscribers and queries, and what is refused."""

import json
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from session_cases import PATHS, same

from bench import sessions
from semi_naive import BadInput, EvaluationError, Program, ProgramError

pytestmark = pytest.mark.usefixtures("patient")


def test_a_tuple_that_is_derived_and_explicit_stays_until_it_is_neither():
    text = ".decl a(x: number)\n.input a\n.decl b(x: number)\n.input b\n.output b\nb(x) :- a(x)."
    facts = {"a": [(1,), (2,)], "b": [(1,), (2,)]}
    told = same(text, facts, ("delete", "a", [(1,)]), ("delete", "b", [(1,)]), ("delete", "b", [(2,)]), ("delete", "a", [(2,)]))
    assert told == [{}, {"b": [(1, -1)]}, {}, {"b": [(2, -1)]}]


def test_the_last_operation_on_a_tuple_wins():
    with Program(PATHS).session({"edge": [(1, 2)]}) as session:
        with session.transaction() as transaction:
            transaction.insert("edge", [(2, 3), (2, 3)])
            transaction.delete("edge", [(2, 3), (1, 2)])
            transaction.insert("edge", [(1, 2)])
        assert (transaction.epoch, transaction.ignored, dict(transaction.changes)) == (1, 2, {})
        with session.transaction() as transaction:
            transaction.delete("edge", [(2, 3)])
            transaction.insert("edge", [(2, 3)])
        assert transaction.ignored == 0 and sorted(transaction.changes["path"]) == [(1, 3, 1), (2, 3, 1)]
        with session.transaction() as transaction:
            for number in range(5000):  # more operations than wait
                transaction.insert("edge", [(number % 7, 99)])
                transaction.delete("edge", [(number % 7, 99)])
        assert transaction.ignored == 7 and not transaction.changes


def test_one_relation_several_times_in_a_body_all_of_which_change_at_once():
    text = """
    .decl e(x: number, y: number)
    .input e
    .decl triangle(x: number, y: number, z: number)
    .output triangle
    triangle(x, y, z) :- e(x, y), e(y, z), e(x, z).
    """
    three = [(1, 2), (2, 3), (1, 3)]
    again = ("insert", "e", [(1, 2), (2, 3), (2, 2)])
    told = same(text, {"e": [(7, 8)]}, ("insert", "e", three), ("delete", "e", three[:2]), again)
    assert told[0]["triangle"] == [(1, 2, 3, 1)]
    assert told[2]["triangle"] == [(1, 2, 2, 1), (1, 2, 3, 1), (2, 2, 2, 1), (2, 2, 3, 1)]


def test_a_negated_wildcard_and_a_rule_whose_two_parts_flip_together():
    text = """
    .decl e(x: number, y: number)
    .input e
    .decl n(x: number)
    .input n
    .decl sink(x: number)
    .output sink
    sink(x) :- n(x), !e(x, _).
    .decl one(x: number)
    .output one
    one(x) :- e(x, y), !e(y, x).
    """
    facts = {"e": [(1, 2), (1, 3)], "n": [(1,), (2,)]}
    told = same(text, facts, ("delete", "e", [(1, 2)]), ("delete", "e", [(1, 3)]), ("insert", "e", [(5, 6), (6, 5), (6, 7)]))
    assert told == [{}, {"sink": [(1, 1)], "one": [(1, -1)]}, {"one": [(6, 1)]}]


def test_what_a_negated_atom_computes_does_not_tell_which_heads_are_gone():
    text = """
    .decl e(x: number, y: number)
    .input e
    .decl p(x: number, y: number)
    .input p
    .decl free(x: number, y: number)
    .output free
    free(x, y) :- p(x, y), !e(x + 1, y).
    """
    facts = {"e": [], "p": [(1, 4), (2, 4)]}
    told = same(text, facts, ("insert", "e", [(9, 4)]), ("insert", "e", [(3, 4)]), ("delete", "e", [(3, 4)]))
    assert told == [{}, {"free": [(2, 4, -1)]}, {"free": [(2, 4, 1)]}]


def test_groups_become_empty_and_appear_and_sums_of_floats_come_back():
    text = """
    .decl pays(who: symbol, what: number, much: float)
    .input pays
    .decl total(who: symbol, much: float, items: number)
    .output total
    total(w, s, n) :- pays(w, _, _), s = sum m : { pays(w, _, m) }, n = count : { pays(w, _, _) }.
    """
    facts = {"pays": [("Ann", 1, 0.1), ("Ann", 2, 1e16), ("Bob", 1, 0.5)]}
    steps = [
        ("delete", "pays", [("Ann", 2, 1e16)]), ("insert", "pays", [("Cid", 1, 0.25)]), ("delete", "pays", [("Bob", 1, 0.5)]),
    ]  # fmt: skip
    told = same(text, facts, *steps)
    assert told[0]["total"] == [("Ann", 0.1, 1, 1), ("Ann", 1e16, 2, -1)]
    assert told[1:] == [{"total": [("Cid", 0.25, 1, 1)]}, {"total": [("Bob", 0.5, 1, -1)]}]


def test_records_and_strings_of_deleted_facts():
    text = """
    .type List = [head: symbol, tail: List]
    .decl word(w: symbol)
    .input word
    .decl list(l: List)
    .output list
    list([w, nil]) :- word(w).
    .decl two(l: List)
    .output two
    two([w, l]) :- word(w), list(l), l = [v, nil], v != w.
    """
    told = same(
        text, {"word": [("a",)]}, ("insert", "word", [("b",)]), ("delete", "word", [("a",)]), ("insert", "word", [("a",)])
    )
    assert told[0]["two"] == told[2]["two"] == [(("a", ("b", None)), 1), (("b", ("a", None)), 1)]


def test_relations_that_are_inlined_shared_or_computed_on_demand():
    text = """
    .decl e(x: number, y: number)
    .input e
    .decl two(x: number, y: number) inline
    two(x, z) :- e(x, y), e(y, z).
    .decl path(x: number, y: number) magic
    path(x, y) :- e(x, y).
    path(x, z) :- path(x, y), e(y, z).
    .decl from1(y: number)
    .output from1
    from1(y) :- path(1, y).
    .decl three(x: number, y: number)
    .output three
    three(x, w) :- two(x, z), e(z, w).
    .decl four(x: number, y: number)
    .output four
    four(x, v) :- two(x, z), two(z, v).
    """
    facts = {"e": [(1, 2), (2, 3)]}
    told = same(text, facts, ("insert", "e", [(3, 4), (4, 5)]), ("delete", "e", [(2, 3)]))
    assert told[0] == {"from1": [(4, 1), (5, 1)], "three": [(1, 4, 1), (2, 5, 1)], "four": [(1, 5, 1)]}
    assert told[1]["from1"] == [(3, -1), (4, -1), (5, -1)]


def test_nullary_and_wide_relations():
    wide = ", ".join(f"a{i}: number" for i in range(12))
    names = ", ".join(f"a{i}" for i in range(12))
    text = f"""
    .decl on()
    .input on
    .decl row({wide})
    .input row
    .decl kept({wide})
    .output kept
    kept({names}) :- row({names}), on().
    .decl off()
    .output off
    off() :- !on().
    """
    large = tuple(range(-(2**62), 2**62, 2**63 // 12))[:12]
    told = same(text, {"row": [large]}, ("insert", "on", [()]), ("insert", "row", [large[::-1]]), ("clear", "on", []))
    assert told[0] == {"kept": [(*large, 1)], "off": [(-1,)]} and told[2]["off"] == [(1,)] and len(told[2]["kept"]) == 2


def test_an_error_of_a_rule_leaves_the_session_as_it_was():
    text = """
    .decl n(x: number, s: symbol)
    .input n
    .decl half(x: number, s: symbol)
    .output half
    half(12 / x, cat(s, "!")) :- n(x, s).
    .decl order(s: symbol, o: number)
    .output order
    order(s, ord(s)) :- n(_, s).
    """
    program, seen = Program(text), []
    with program.session({"n": [(1, "a")]}) as session, program.session({"n": [(1, "a")]}) as other:
        session.subscribe("half", lambda changes, epoch: seen.append(epoch))
        before = {name: session[name].to_set() for name in session}
        with pytest.raises(EvaluationError, match="division by zero"):
            session.insert("n", [(2, "unheard of"), (0, "nor this")])
        with pytest.raises(RuntimeError, match="changed my mind"), session.transaction() as transaction:
            transaction.insert("n", [(3, "never")])
            raise RuntimeError("changed my mind")
        assert {name: session[name].to_set() for name in session} == before
        assert (session.epoch, seen, transaction.epoch) == (0, [], None)
        assert session.query('n(x, "never")').count() == 0
        for each in (session, other):
            each.insert("n", [(4, "b")])
        assert session["order"].to_set() == other["order"].to_set()  # ids and all
        assert session["half"].to_set() == {(12, "a!"), (3, "b!")} and seen == [1]


def test_records_of_a_transaction_that_is_rolled_back_are_forgotten():
    text = """
    .type Pair = [a: number, b: Pair]
    .decl n(x: number)
    .input n
    .decl p(p: Pair, o: number)
    .output p
    p(q, as(q, number)) :- n(x), q = [x, nil].
    """
    with Program(text).session({"n": [(1,)]}) as session, Program(text).session({"n": [(1,)]}) as other:
        with pytest.raises(RuntimeError), session.transaction() as transaction:
            transaction.insert("n", [(2,)])
            transaction._session.upkeep.values.pack(np.array([[7], [0]]))
            raise RuntimeError
        for each in (session, other):
            each.insert("n", [(3,)])
        assert session["p"].to_set() == other["p"].to_set()


def test_what_is_written_in_the_program_cannot_be_deleted():
    text = '.decl a(x: number, y: symbol)\n.input a\n.output a\na(1, "one").\na(2, "two").\n'
    with Program(text, "here.dl").session({"a": [(1, "one"), (3, "three")]}) as session:
        for change in (lambda: session.delete("a", [(1, "one")]), lambda: session.upsert("a", [(2, "zwei")], key="x")):
            with pytest.raises(BadInput, match=r"(?s)is written in the program.*line [45] of here.dl"):
                change()
        assert session.insert("a", [(2, "two")]).changes == {}
        assert sorted(session.clear("a").changes["a"]) == [(3, "three", -1)]
        assert session["a"].to_set() == {(1, "one"), (2, "two")}


def test_upsert_replaces_what_has_the_same_key():
    text = ".decl speed(device: symbol, at: number, v: float)\n.input speed\n.output speed"
    with Program(text).session({"speed": [("a", 1, 0.5), ("a", 2, 1.5), ("b", 1, 2.0)]}) as session:
        with session.transaction() as transaction:
            transaction.insert("speed", [("c", 1, 9.0)])
            transaction.upsert("speed", [("a", 1, 7.0), ("a", 1, 8.0), ("c", 1, 4.0)], key=["at", "device"])
        expected = [("a", 1, 0.5, -1), ("a", 1, 8.0, 1), ("c", 1, 4.0, 1)]
        assert sorted(transaction.changes["speed"]) == expected
        assert sorted(session.upsert("speed", [("a", 1, 8.0)], key=["device"]).changes["speed"]) == [("a", 2, 1.5, -1)]
        with pytest.raises(ValueError, match="the key names 'when': speed has the attributes device, at, v"):
            session.upsert("speed", [("a", 1, 8.0)], key=["when"])


@pytest.mark.parametrize("of", [list, np.array, pd.DataFrame, lambda rows: pa.table(pd.DataFrame(rows, columns=["x", "y"]))])
def test_rows_are_whatever_a_run_takes_as_facts(of, tmp_path):
    (tmp_path / "more.facts").write_text("7\t8\n")
    with Program(PATHS).session() as session:
        session.insert("edge", of([(1, 2), (2, 3)]))
        session.delete("edge", of([(2, 3)]))
        session.insert("edge", tmp_path / "more.facts")
        session.insert("edge", (pair for pair in [(8, 9)]))
        assert session["edge"].to_set() == {(1, 2), (7, 8), (8, 9)} and session["path"].count() == 4
        with pytest.raises(BadInput, match=r"edge\[0\].y"):
            session.insert("edge", [(1, "a")])


def test_facts_begin_from_a_folder_or_empty(tmp_path):
    (tmp_path / "edge.facts").write_text("1\t2\n")
    text = PATHS + ".decl more(x: number)\n.input more\npath(x, x) :- more(x)."
    with Program(text).session(tmp_path) as session:
        assert session["path"].to_set() == {(1, 2)} and session["more"].count() == 0
    with Program(text).session({"more": [(3,)]}) as session:
        assert session["path"].to_set() == {(3, 3)}
    with pytest.raises(BadInput, match="nowhere does not exist"):
        Program(text).session(tmp_path / "nowhere")


def test_epochs_that_are_retained_and_those_that_are_not():
    with Program(PATHS).session({"edge": [(1, 2)]}, retain=1) as session:
        shown = session["path"]
        for number in (2, 3, 4):
            session.insert("edge", [(number, number + 1)])
        assert shown.to_set() == {(1, 2)}
        assert session.at(3)["edge"].count() == session["edge"].count() == 4 and session.at(2)["edge"].count() == 3
        with pytest.raises(ValueError, match="epoch 1 is gone: epochs 2 to 3 are kept"):
            session.at(1)
        with pytest.raises(ValueError, match="there is no epoch 4: the last one is 3"):
            session.at(4)


def test_one_transaction_at_a_time_and_readers_of_whole_epochs():
    waited = []
    with Program(PATHS).session() as session:

        def other():
            waited.append(session.insert("edge", [(2, 3)]).epoch)

        with session.transaction() as transaction:
            transaction.insert("edge", [(1, 2)])
            with pytest.raises(ValueError, match="a transaction is open in this thread"):
                session.insert("edge", [(5, 6)])
            thread = threading.Thread(target=other)
            thread.start()
            assert session["edge"].count() == 0 and not waited
        thread.join()
        assert waited == [2] and session["path"].to_set() == {(1, 2), (2, 3), (1, 3)}
        with pytest.raises(ValueError, match="this transaction is over"):
            transaction.insert("edge", [(1, 2)])
    with pytest.raises(ValueError, match="this session has been closed"):
        session["path"]


def test_a_subscriber_is_told_once_an_epoch_and_until_it_cancels(caplog):
    text = PATHS.replace(".output path", "")
    seen = []
    with Program(text).session() as session:
        assert session.insert("edge", [(1, 2)]).changes == {}
        subscription = session.subscribe("path", lambda changes, epoch: seen.append((epoch, sorted(changes))))
        session.insert("edge", [(2, 3)])
        assert session.insert("edge", [(2, 3)]).changes == {}
        failing = session.subscribe("path", lambda changes, epoch: 1 / 0)
        assert list(session.delete("edge", [(1, 2)]).changes) == ["path"]
        subscription.cancel()
        failing.cancel()
        assert session.insert("edge", [(4, 5)]).changes == {}
    assert seen == [(2, [(1, 3, 1), (2, 3, 1)]), (4, [(1, 2, -1), (1, 3, -1)])]
    assert "a subscriber to path has failed; epoch 4 stands" in caplog.text


def test_queries():
    text = """
    .type Pair = [a: number, b: number]
    .decl r(x: number, y: number, s: symbol, p: Pair, f: float)
    .input r
    """
    rows = [(1, 2, "a", (1, 2), 0.5), (1, 1, "b", None, 1.0), (-2, 1, "a", None, 2.0)]
    with Program(text).session({"r": rows}) as session:
        asked = {
            "r(1, y, _, _, _)": {(2,), (1,)}, "r(x, x, s, _, _).": {(1, "b")}, 'r(_, _, "a", _, f)': {(0.5,), (2.0,)},
            "r(x, _, _, [1, 2], _)": {(1,)}, "r(x, _, _, nil, 2)": {(-2,)}, "r(-2, _, _, _, _)": {()},
            "r(3 - 2, _, _, _, _)": {()},
            "r(3, _, _, _, _)": set(), 'r(x, _, "unheard of", _, _)': set(), "r(x, _, _, [7, 7], _)": set(),
        }  # fmt: skip
        assert {atom: session.query(atom).to_set() for atom in asked} == asked
        assert session.query("r(1, why, _, _, _)").columns == ("why",)
        wrong = {
            "r(1)": "has 5 attributes, and the query has 1", "q(x)": "unknown relation 'q'", "r(x) :- q(x)": "syntax error",
            "r(1 + x, _, _, _, _)": "Ungrounded variable x", 'r("a", _, _, _, _)': "r.x",
        }  # fmt: skip
        for atom, why in wrong.items():
            with pytest.raises((BadInput, ProgramError), match=why):
                session.query(atom)


def test_changes_in_all_forms():
    with Program(PATHS).session() as session:
        changes = session.insert("edge", [(1, 2)]).changes["path"]
    # also when the session is closed
    assert changes.columns == ("x", "y", "diff") and changes.to_list() == list(changes) == [(1, 2, 1)]
    assert changes.to_arrow().to_pylist() == changes.to_pandas().to_dict("records") == [{"x": 1, "y": 2, "diff": 1}]


def test_what_a_session_cannot_do_is_refused_with_advice():
    counted = ".decl a(x: number)\n.input a\n.decl b(x: number, n: number)\n.output b\nb(x, autoinc()) :- a(x)."
    for text, advice in {counted: "use a record", PATHS + ".limitsize path(n=3)": "bound the recursion"}.items():
        with pytest.raises(ValueError, match=advice):
            Program(text).session()
    with Program(PATHS).session() as session:
        with pytest.raises(ValueError, match=r"path cannot be changed, as it has no .input: declare .input path, or name it"):
            session.insert("path", [(1, 2)])
        with pytest.raises(KeyError, match="nowhere"):
            session.insert("nowhere", [(1, 2)])
    with Program(PATHS).session({"path": []}) as session:
        assert session.insert("path", [(1, 2)]).changes["path"].to_list() == [(1, 2, 1)]


def test_strata_on_the_partitions_come_to_the_session(here):
    config = {"local_tuples": 0, "partitions": 2, "buckets": 4}
    edges = {(i, (7 * i + 3) % 40) for i in range(40)}
    with Program(PATHS).session({"edge": edges}, spark=here, **config) as session:
        for change in (session.delete, session.insert, session.delete):
            change("edge", [(5, 38), (6, 5), (1, 9)])
            with Program(PATHS).run({"edge": session["edge"].to_list()}) as result:
                assert session["path"].to_set() == result["path"].to_set()


def test_the_benchmark_at_toy_size(capsys):
    assert sessions.main(["--quick", "--rows", "join,cspa,diamonds", "--repeat", "1"]) == 0
    shown = capsys.readouterr().out
    assert (
        "cspa" in shown
        and "diamonds" in shown
        and "half in" in shown
        and all(f" {size} " in shown for size in sessions.SIZES.split(","))
    )


def test_the_benchmark_replays_edits(capsys, tmp_path):
    (tmp_path / "crdt" / "facts").mkdir(parents=True)
    (tmp_path / "crdt" / "crdt.dl").write_text(EDITED)
    for name, columns in (("Insert_input", 4), ("Remove_input", 2)):
        rows = np.repeat(np.arange(1500)[:, None], columns, axis=1)
        np.savetxt(tmp_path / "crdt" / "facts" / f"{name}.csv.gz", rows, "%d", ",")
    out = tmp_path / "out.json"
    asked = ["--rows", "crdt", "--data", str(tmp_path), "--changes", "2", "--repeat", "1", "--out", str(out)]
    assert sessions.main(asked) == 0 and "1000 edits" in capsys.readouterr().out
    row = json.loads(out.read_text())["rows"]["crdt"]
    assert row["counts"] == {"result": 0} and len(row["changes"]["delete 1000 edits"]) == 2


EDITED = """
.decl Insert_input(a: number, b: number, c: number, d: number)
.input Insert_input(IO="file", filename="Insert_input.csv", delimiter=",")
.decl Remove_input(a: number, b: number)
.input Remove_input(IO="file", filename="Remove_input.csv", delimiter=",")
.decl result(a: number, b: number)
.printsize result
result(a, b) :- Insert_input(a, b, _, _), !Remove_input(a, b).
"""
