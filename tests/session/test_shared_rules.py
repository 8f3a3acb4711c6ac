"""Readers of shared rules: what their constants and parameters ask for is computed, once for all of them; and it is what the
whole relation has."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from session_cases import PATHS, SETTINGS
from test_session_rules import NODES, Told, edges_drawn

from bench.fuzz.checks import canonical, commit, solved
from bench.fuzz.rounds import random_cases
from semi_naive import Program, ProgramError
from semi_naive.io.values.bits import BUILT_IN
from semi_naive.ra.ir import Kind

EDGES = ".decl edge(x: number, y: number)\n.input edge\n"
KNOWS = """
.decl knows(x: number, y: number)
knows(x, y) :- edge(x, y).
knows(x, z) :- knows(x, y), edge(y, z).
"""
RIGHT = KNOWS.replace("knows(x, y), edge(y, z)", "edge(x, y), knows(y, z)")
ALICE = ".decl alice(y: number)\nalice(y) :- knows(795, y)."
BOB = ".decl bob(y: number)\nbob(y) :- knows($who, y), !knows(798, y)."
CHAIN = [(i, i + 1) for i in range(800)]


def tuples(session) -> dict[str, int]:
    """The number of tuples of each relation that is evaluated."""
    return {name: count for name, count, _ in session["sys.memory"].to_list()}


def test_a_subscriber_keeps_what_it_asks_for_and_readers_share_it():
    """`knows` has 320,400 pairs. Subscribed by a constant, 815 tuples are kept, and followed through changes."""
    with Program(EDGES).session({"edge": CHAIN}) as s:
        for name, text in {"knows": KNOWS, "alice": ALICE, "bob": BOB}.items():
            s.register(name, text)
        alice, bob = Told(), Told()
        s.subscribe("alice", alice, snapshot=True)
        assert alice.rows == {(y,) for y in range(796, 801)} and sum(tuples(s).values()) < 1_000
        s.insert("edge", [(800, 801), (3, 797)])
        s.delete("edge", [(797, 798)])
        assert alice.rows == {(796,), (797,)}
        visited = [made for epoch, _, _, _, _, made, _ in s["sys.work"].to_list() if epoch]
        assert sum(visited) < 100  # no more than what changes
        first = s.subscribe("bob", bob, who=795, snapshot=True)
        assert tuples(s)["knows@by_x.parameters"] == 2  # 795 for both, 798 for bob
        s.insert("edge", [(797, 798)])
        assert bob.rows == {(796,), (797,), (798,)} and alice.rows == {(y,) for y in range(796, 802)}
        first.cancel()
        assert tuples(s)["knows@by_x"] == 6
        [subscription] = s.registry.subscribers.active
        subscription.cancel()
        assert tuples(s) == {"edge": 802}


@pytest.mark.parametrize("share, whole_first, keeps_whole", [
    (None, False, False), (None, True, True), (False, True, False), (True, False, True),
])  # fmt: skip
def test_share_chooses_and_explain_tells(share, whole_first, keeps_whole):
    with Program(EDGES).session({"edge": CHAIN[:40]}) as s:
        s.register("knows", KNOWS, share=share)
        s.register("one", ".decl one(y: number)\none(y) :- knows(35, y).")
        if whole_first:
            s.subscribe("knows", lambda *_: None)
        s.subscribe("one", lambda *_: None)
        assert ("knows@by_x" in tuples(s)) is not keeps_whole
        assert s["one"].to_set() == {(y,) for y in range(36, 41)}
        told = s.explain("one")
        assert ("knows: as a whole" in told) is keeps_whole and ("knows: for x = 35 only" in told) is not keeps_whole
        assert (f"registered with share={share}" in told) is (share is True)
        assert "edge(39, 40)   [fact]" in str(s.why("one", (40,)))
        assert "there is no knows(35, 41)" in str(s.why_not("one", (41,)))


def test_a_part_that_asks_for_most_values_is_replaced_by_the_whole():
    """By a right-linear rule each value asks for all that it reaches."""
    with Program(EDGES).session({"edge": CHAIN}) as s:
        s.register("knows", RIGHT)
        s.register("early", ".decl early(y: number)\nearly(y) :- knows(5, y).")
        s.register("late", ".decl late(y: number)\nlate(y) :- knows(795, y).")
        s.subscribe("late", lambda *_: None)
        assert "knows" not in tuples(s)
        subscription = s.subscribe("early", lambda *_: None)
        assert tuples(s)["knows"] == 320_400 and s["early"].count() == 795
        assert tuples(s)["knows@by_x"] == 15  # for `late` still
        subscription.cancel()
        assert "knows" not in tuples(s)
        assert s.query("early(y)").count() == 795  # one answer needs no whole relation
        with pytest.raises(ValueError, match="share is 'no': expected True, False, or None, which chooses"):
            s.register("other", KNOWS.replace("knows", "other"), share="no")


def test_an_atom_without_a_constant_and_a_bound_end_that_tells_nothing_take_the_whole():
    with Program(EDGES).session({"edge": CHAIN[:40]}) as s:
        s.register("knows", KNOWS)
        s.register("to", ".decl to(x: number)\nto(x) :- knows(x, 39).")
        s.register("far", ".decl far(x: number)\nfar(y) :- knows(1, y), !knows(y, _).")
        for name, count in {"to": 39, "far": 1}.items():
            subscription = s.subscribe(name, lambda *_: None)
            assert tuples(s)["knows"] == 820 and s[name].count() == count and "knows: as a whole" in s.explain(name)
            subscription.cancel()


def test_share_and_parts_survive_reopening(tmp_path):
    for number in range(3):
        with Program(EDGES).session({"edge": CHAIN[:40]}, path=tmp_path / "s") as s:
            if not number:
                s.register("knows", KNOWS)
                s.register("trunk", KNOWS.replace("knows", "trunk"), share=True)
                s.register("one", ".decl one(y: number)\none(y) :- knows(35, y), trunk($x, y).")
                s.subscribe("one", lambda *_: None, name="n", x=36)
            counts = tuples(s)
            assert counts["trunk"] == 820 + number and "knows" not in counts and "trunk@by_x" not in counts
            assert s.registry.rules["trunk"].share is True and s.registry.rules["knows"].share is None
            s.insert("edge", [(100 + number, 1000)])
            if number == 1:
                s.commits.make_snapshot(s.commits.directory)


def test_a_failed_subscription_leaves_no_part():
    text = ".decl part(x: number, y: number)\npart(x, 10 / y) :- path(x, y)."
    with Program(PATHS).session({"edge": [(1, 0), (2, 3)]}) as s:
        s.register("part", text)
        s.register("of", ".decl of(y: number)\nof(y) :- part($x, y).")
        told = Told()
        s.subscribe("of", told, x=2, snapshot=True)
        before = tuples(s)
        with pytest.raises(Exception, match="division by zero"):
            s.subscribe("of", print, x=1)
        assert told.rows == {(3,)} and tuples(s) == before
        s.insert("edge", [(2, 5)])
        assert told.rows == {(3,), (2,)}
        s.delete("edge", [(1, 0)])
        s.subscribe("of", told, x=1)
        s.insert("edge", [(1, 10)])
        assert told.rows == {(3,), (2,), (1,)}


@random_cases(60)
def test_readers_of_all_kinds_of_relations_are_told_what_the_whole_has(case, random):
    """Rules with a constant and with a parameter for each relation of random programs, through random changes."""
    facts = {name: canonical(case.facts.get(name, ())) for name in case.changed}
    outputs = set(random.sample(sorted(case.checked.relations), 1))
    directives = [each for each in case.checked.directives if each.kind != "output" or each.relation in outputs]
    with Program.from_checked(replace(case.checked, directives=directives)).session(
        facts, **random.choice([{}, {"follow": 0}, {"local_tuples": 3, "partitions": 2}])
    ) as s:
        readers = []
        for name in s:
            types = [type_ for _, type_ in s.declared[name].attributes]
            if not types or types[0].kind != Kind.NUMBER or not {type_.name for type_ in types} <= BUILT_IN.keys():
                continue
            rest = [f"v{place}" for place in range(1, len(types))]
            declared = ", ".join(f"{each}: {type_.name}" for each, type_ in zip(rest, types[1:], strict=True))
            for kind, first in (("c", random.randint(-2, 4)), ("p", "$p")):
                reader = f"{name}__{kind}"
                body = f"{name}({', '.join(map(str, [first, *rest]))})"
                s.register(reader, f".decl {reader}({declared})\n{reader}({', '.join(rest)}) :- {body}.")
                readers.append((name, reader, first))
        told = []
        for step in [None, *case.steps]:
            if step is not None:
                commit(s, case, facts, step)
            whole = solved(case, facts)
            for name, reader, value, rows in told:
                assert canonical(rows) == canonical({row[1:] for row in whole[name] if row[0] == value}), (reader, value)
            for name, reader, first in random.sample(readers, min(3, len(readers))):
                value = random.randint(-2, 4) if first == "$p" else first
                rows = set()

                def fold(changes, epoch, rows=rows):
                    for *row, diff in changes.to_list():
                        (rows.add if diff > 0 else rows.discard)(tuple(row))

                s.subscribe(reader, fold, snapshot=True, **({"p": value} if first == "$p" else {}))
                told.append((name, reader, value, rows))


REACH = """
.decl reach(y: number)
reach(y) :- edge($src, y), y < $most.
reach(z) :- reach(y), edge(y, z), z < $most.
"""


def reached(edges: set, source: int, most: int) -> set:
    found, waiting = set(), {source}
    while waiting:
        x = waiting.pop()
        new = {z for y, z in edges if x == y and z < most} - found
        found |= new
        waiting |= new
    return found


@settings(max_examples=20, **SETTINGS)
@given(edges_drawn, st.data())
def test_rules_with_parameters_are_read_with_values_and_parameters(edges, data):
    edges = set(edges)
    with Program(EDGES).session({"edge": edges}) as s:
        s.register("reach", REACH)
        s.register("two", ".decl two(y: number)\ntwo(y) :- reach(1, 5, y), !reach($other, 4, y).")
        over = ".decl over($other: number, $but: number, n: number)\nover(n) :- n = count : { two($other, y), y != $but }."
        s.register("over", over)
        told = {}
        for _ in range(data.draw(st.integers(1, 4))):
            other, but = data.draw(st.sampled_from(NODES)), data.draw(st.sampled_from(NODES))
            if (other, but) not in told:
                told[other, but] = Told(), Told()
                s.subscribe("two", told[other, but][0], other=other, snapshot=True)
                s.subscribe("over", told[other, but][1], other=other, but=but, snapshot=True)
            gone, come = data.draw(edges_drawn), data.draw(edges_drawn)
            with s.transaction() as transaction:
                transaction.delete("edge", gone)
                transaction.insert("edge", come)
            edges = edges - gone | come
            for (other, but), (two, over) in told.items():
                expected = reached(edges, 1, 5) - reached(edges, other, 4)
                assert two.rows == {(y,) for y in expected} and over.rows == {(len(expected - {but}),)}
        for y in sorted(expected):
            assert f"reach(1, 5, {y})" in str(s.why("two", (y,), other=other))
        assert s.query("reach(1, $most, y), y > 2", most=5).to_set() == {(y,) for y in reached(edges, 1, 5) if y > 2}
        for each in list(s.registry.subscribers.active):
            each.cancel()
        assert tuples(s) == {"edge": len(edges)} and not s.registry._uses


def test_a_part_of_rules_that_read_rules_with_parameters():
    with Program(EDGES).session({"edge": CHAIN[:9]}) as s:
        s.register("reach", REACH)
        s.register("pair", ".decl pair(x: number, y: number)\npair(x, y) :- reach(1, 5, x), edge(x, y), !reach(3, 7, y).")
        s.register("of", ".decl of(y: number)\nof(y) :- pair($x, y).")
        assert s.query("of(y)", x=2).to_set() == {(3,)} and not s.query("of(y)", x=3).count()
        told = Told()
        s.subscribe("of", told, x=4, snapshot=True)
        s.delete("edge", [(3, 4)])
        s.insert("edge", [(1, 4)])
        assert told.rows == {(5,)} and tuples(s)["reach.parameters"] == 2 and "pair" not in tuples(s)


def test_rules_with_parameters_need_values(tmp_path):
    with Program(EDGES).session({"edge": CHAIN[:9]}, path=tmp_path / "s") as s:
        s.register("far", ".decl far(y: number)\nfar(y) :- reach(-1, $most, y), reach(3, 7, y).")  # waits for reach
        s.register("reach", REACH)
        for body in ("reach(x, 7, y), edge(x, _)", "reach(_, 7, y)"):
            told = "reach gets no value for its parameter [$]src in file <bad> at line 2, column 11"
            with pytest.raises(ProgramError, match=told):
                s.register("bad", f".decl bad(y: number)\nbad(y) :- {body}.")
        with pytest.raises(ProgramError) as error:
            s.register("bad", ".decl bad(y: number)\n.output bad\nbad(y) :- reach(_, 7, y), reach(1, y, y).")
        assert sorted(each.span.line for each in error.value.problems) == [2, 3, 3]  # all of them at once
        s.insert("edge", [(-1, 5)])
        assert s.query("far(y)", most=7).to_set() == {(5,), (6,)}
        assert "reach: for src = 3, most = 7 only" in s.explain("far") and "src = -1, most = $most" in s.explain("far")
        s.subscribe("far", print, name="n", most=6)
        with pytest.raises(ValueError, match="reach is read by far: unregister what reads it first"):
            s.unregister("reach")
    with Program(EDGES).session(path=tmp_path / "s") as s:
        assert s["far"].to_set() == {(6, 5)} and s["reach"].count() == 4


@pytest.mark.parametrize("text, values, rows", [
    (".decl r($lim: number, n: number)\nr(n) :- n = count : { edge(x, y), x < $lim }.", {"lim": 3}, {(3,)}),
    (".decl r(n: float, $lim: float)\nr($lim).", {"lim": 0.5}, {(0.5,)}),
    (".decl r($b: number, $a: number, y: number)\nr(y) :- edge($a, y).", {"a": 1, "b": 7}, {(2,)}),
    (".decl r($u: Node, x: number)\n.type Node <: number\nr(x) :- edge(x, y), y < $u.", {"u": 2}, {(0,)}),
])  # fmt: skip
def test_a_parameter_may_have_a_declared_type(text, values, rows):
    with Program(EDGES).session({"edge": CHAIN[:9]}) as s:
        s.register("r", text)
        assert list(s.registry.rules["r"].parameters) == [name for name in ("lim", "b", "a", "u") if name in values]
        assert s.query("r(x)", **values).to_set() == rows


def test_errors_of_declared_parameters():
    with Program(EDGES).session() as s:
        for text, told in {
            ".decl r($n: symbol, y: number)\nr(y) :- edge($n, y).": "<r> at line 2",
            ".decl r($n: nothing, y: number)\nr(y) :- edge(y, _), y < $n.": "Undefined type .*nothing in file <r> at line 1",
            ".decl r(y: number)\nr(y) :- edge(y, _), $n = $m.": "The type of [$]n is not known(.|\n)*it: .decl r[(][$]n: type",
            ".decl r(y: R)\n.type R = [$n: number]\nr(nil).": "A field is no parameter, as [$]n is",
        }.items():
            with pytest.raises(ProgramError, match=told):
                s.register("r", text)
    with pytest.raises(ProgramError, match="A program has no parameter [$]n in file <program> at line 1"):
        Program(".decl a($n: number) a(1).")


@pytest.mark.parametrize("more, kept", [("", False), (", x > 2", True)])
def test_only_selective_joins_of_several_rules_are_kept(more, kept):
    """A join that two rules have in common is a relation of its own only if it has a constant or a filter."""
    rules = f".decl a(x: number)\n.output a\n.decl b(x: number)\n.output b\n.decl red(x: number)\n.input red\n" \
            f"a(z) :- edge(x, y), edge(y, z), red(x){more}.\nb(x) :- edge(x, y), edge(y, z), red(z){more}."  # fmt: skip
    edges = {(x, y) for x in range(9) for y in range(x)}
    with Program(EDGES + rules).session({"edge": edges, "red": [(1,), (5,)]}) as s:
        assert ("shared.1" in tuples(s)) is kept
        for step in range(3):
            s.insert("red", [(step + 6,)])
            s.delete("edge", [(6, step), (5, 4)])
            with Program(EDGES + rules).run({"edge": s["edge"].to_set(), "red": s["red"].to_set()}) as result:
                assert result["a"].to_set() == s["a"].to_set() and result["b"].to_set() == s["b"].to_set()


def test_a_name_gets_further_rules(tmp_path, caplog):
    s = Program(EDGES).session({"edge": CHAIN[:9]}, path=tmp_path / "s")
    s.register("near", ".decl near(y: number)\nnear(y) :- edge(3, y).")
    s.register("both", ".decl both(y: number)\nboth(y) :- near(y), edge(_, y).")
    s.register("late", ".decl late(y: number)\nlate(y) :- later(y).")  # waits for `later`
    s.register("near", "near(x) :- edge(x, 3).  near(y) :- two(y).\n.decl two(x: number)\ntwo(7).", add=True)
    s.register("late", "late(5).", add=True)
    for reader in ("near", "both"):
        assert s.query(f"{reader}(y)").to_set() == {(4,), (2,), (7,)}
    told = Told()
    subscription = s.subscribe("both", told, snapshot=True)
    for name in ("near", "both"):
        with pytest.raises(ValueError, match="both is evaluated, for subscriptions: cancel these before rules are added to"):
            s.register(name, f"{name}(1).", add=True)
    s.insert("edge", [(8, 3), (5, 9)])
    assert told.rows == {(4,), (2,), (7,), (8,)}
    subscription.cancel()
    for name, text, error, match in [
        ("near", "near(x) :- edge(x, $n).", ProgramError, "near(.|\n)*in file <both> at line 2"),  # `both` gives no value
        ("near", "near(y) :- both(y).", ValueError, "near would read both, which reads near: register rules that need each"),
        ("near", "near(x) :- edge(x, y), y < z.", ProgramError, "Ungrounded variable z in file <near> at line 6"),
        ("edge", "edge(1, 2).", ValueError, "edge is not registered, so no rules can be added to it"),
    ]:
        with pytest.raises(error, match=match):
            s.register(name, text, add=True)
        assert s.query("both(y)").to_set() == {(4,), (2,), (7,), (8,)} and list(s.registry.waiting) == ["late"]
    s.close()
    for number in range(2):
        with Program(EDGES).session(path=tmp_path / "s") as s:
            if not number:
                s.register("near", "near(0). near(9).", add=True, share=True)
                s.register("later", ".decl later(y: number)\nlater(6).")
                s.commits.make_snapshot(s.commits.directory)
            assert s.query("both(y)").to_set() == {(4,), (2,), (7,), (8,), (9,)}
            assert s.query("late(y)").to_set() == {(5,), (6,)} and s.registry.rules["near"].share is True


def test_an_inline_relation_gets_further_rules():
    with Program(EDGES).session({"edge": CHAIN[:9]}) as s:
        s.register("near", ".decl near(y: number) inline\nnear(y) :- edge(3, y).")
        s.register("all", ".decl all(y: number)\nall(y) :- near(y).")
        assert s.query("all(y)").to_set() == {(4,)}
        s.register("near", "near(y) :- edge(5, y).", add=True)
        assert s.query("all(y)").to_set() == s.query("near(y)").to_set() == {(4,), (6,)}


def test_a_best_value_of_a_computed_key_without_a_body():
    text = ".decl r(a: symbol, b: number)\n.output r\nr(to_string(3), max(0)).\nr(to_string(3), max(4))."
    with Program(text).run() as result, Program(text).session() as s:
        s.register("of", ".decl of(b: number)\nof(b) :- r($a, b).")
        assert result["r"].to_set() == s["r"].to_set() == {("3", 4)} and s.query("of(b)", a="3").to_set() == {(4,)}


GUESTS = ".decl guest(x: number)\n.input guest\n"
MET = {  # rules that join `knows` with few values, in any order, and with another reader's part
    "met": (".decl met(y: number)\nmet(y) :- knows(x, y), guest(x).", {}),
    "friends": (".decl friends(z: number)\nfriends(z) :- knows(y, z), edge($who, y), z != 3.", {"who": 790}),
    "twice": (".decl twice(x: number, z: number)\ntwice(x, z) :- knows(y, z), knows(x, y), guest(x).", {}),
}


@pytest.mark.parametrize("name", MET)
@pytest.mark.parametrize("knows", [KNOWS, RIGHT], ids=["left", "right"])
def test_values_of_other_atoms_reach_shared_rules(name, knows):
    """`knows` has 320,400 pairs; those that few values ask for are evaluated for the reader alone, and follow changes."""
    text, given = MET[name]
    with Program(EDGES + GUESTS).session({"edge": CHAIN, "guest": [(790,), (796,)]}) as s:
        s.register("knows", knows)
        s.register(name, text)
        told = Told()
        subscription = s.subscribe(name, told, snapshot=True, **given)
        assert sum(
            tuples(s).values()
        ) < 1_100 and f"knows: for values that other atoms have only, evaluated for {name}" in s.explain(name)
        changes = [("insert", "guest", (785,)), ("delete", "edge", (797, 798)), ("insert", "edge", (796, 800)),
                   ("delete", "guest", (790,)), ("insert", "edge", (800, 790))]  # fmt: skip
        for operation, relation, row in changes:
            getattr(s, operation)(relation, [row])
            with Program(EDGES + GUESTS).session({"edge": s["edge"].to_set(), "guest": s["guest"].to_set()}) as whole:
                whole.register("knows", knows, share=True)
                whole.register(name, text)
                atom = f"{name}({', '.join(each for each, _ in s.registry.rules[name].relation.attributes[len(given) :])})"
                assert told.rows == whole.query(atom, **given).to_set() and "whole" in whole.explain(name)
        assert sum(tuples(s).values()) < 1_200
        for row in list(told.rows)[:1]:
            assert "fact" in str(s.why(name, row, **given))
        subscription.cancel()
        assert tuples(s) == {"edge": s["edge"].count(), "guest": 2}


def test_values_that_are_not_few_or_not_known_take_the_whole():
    with Program(EDGES + GUESTS).session({"edge": CHAIN[:60], "guest": [(x,) for x in range(30)]}) as s:
        s.register("knows", KNOWS)
        s.register("many", ".decl many(y: number)\nmany(y) :- guest(x), knows(x, y).")
        s.register("none", ".decl none(x: number)\nnone(x) :- guest(x), !knows(x, _).")
        s.register("apart", ".decl apart(y: number)\napart(y) :- guest(7), knows(_, y).")
        for name in ("many", "none", "apart"):
            s.subscribe(name, lambda *_: None)
            assert "knows: as a whole" in s.explain(name) and tuples(s)["knows"] == 1_830
