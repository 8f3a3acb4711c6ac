"""Why tuples are there in sessions, at each epoch that is kept, and on the partitions."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import NAMED_PATHS as PATHS
from proof_oracle import EDGES, check, least_heights
from session_cases import SETTINGS

from bench.fuzz.oracle import solve
from semi_naive import Program

AFTER = """
.decl far(x: symbol, n: number)
.output far
far(x, n) :- path(x, _), n = count : { path(x, _) }, !edge(x, "d"), n > 1.
.decl pair(x: symbol, y: symbol)
pair(y, x) :- path(x, y), !path(y, x).
"""


def test_what_is_on_the_partitions_has_proofs(here):
    checked = Program(PATHS + AFTER).checked
    tuples = solve(checked, {"edge": set(EDGES["edge"])})
    heights = least_heights(checked, {"edge": EDGES["edge"]}, tuples)
    with Program(PATHS + AFTER).run(EDGES, here, local_tuples=0) as result:
        assert result["path"].on_partitions
        for name, row in heights:
            proof = result.why(name, row)
            check(proof, checked, EDGES, tuples)
            assert proof.height == heights[name, row]
        assert "there is path" in str(result.why_not("pair", ("c", "a")))


@settings(max_examples=15, **SETTINGS)
@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abcd"), st.sampled_from("abcd")), min_size=1, max_size=6))
def test_a_session_tells_why_at_each_epoch_that_it_keeps(changes):
    program = Program(PATHS + AFTER)
    edges = [set(EDGES["edge"])]
    with program.session(EDGES, retain=len(changes)) as session:
        asked_for = {name: session[name] for name in session}  # each epoch has what was asked for before
        assert asked_for.keys() == program.relations.keys()
        for insert, x, y in changes:
            (session.insert if insert else session.delete)("edge", [(x, y)])
            edges.append(edges[-1] | {(x, y)} if insert else edges[-1] - {(x, y)})
        for number, there in enumerate(edges):
            epoch, facts = session.at(number), {"edge": there}
            tuples = solve(program.checked, facts)
            for name, row in least_heights(program.checked, facts, tuples):
                check(epoch.why(name, row), program.checked, facts, tuples)
            for row in product("abcd", repeat=2):
                if row not in tuples["path"]:
                    assert len(epoch.why_not("path", row).failures) == 2
        asked = session.why if ("a", "a") in tuples["path"] else session.why_not
        assert asked("path", ("a", "a")).tuple == ("a", "a")


def test_a_session_has_facts_of_derived_relations_and_registered_rules():
    text = PATHS + ".input path"
    with Program(text).session({"edge": [("a", "b")], "path": [("c", "a")]}, retain=1) as session:
        assert session.why("path", ("c", "a")).height == 0 and session.why("path", ("c", "b")).height == 1
        session.delete("path", [("c", "a")])
        assert session.at(0).why("path", ("c", "b")).height == 1
        assert "there is no path" in str(session.why_not("path", ("c", "b")))
        session.register("near", '.decl near(y: symbol)\nnear(y) :- path("a", y).')
        session.subscribe("near", lambda changes, epoch: None)
        assert session.why("near", ("b",)).height == 2
        with pytest.raises(KeyError, match="nope"):
            session.why("nope", ())


OF = """
.decl of(y: symbol, n: number)
of(y, n) :- way($x, y), n = count : { way($x, _) }, $pair = [_, $x].
.decl way(x: symbol, y: symbol)
way(x, y) :- path(x, y), !path(y, x).
way($x, "home") :- back(_).
of("pair", 0) :- asked($pair).
"""


def test_registered_rules_with_parameters_are_explained_for_their_values():
    text = PATHS + ".type Pair = [n: number, x: symbol]\n.decl asked(p: Pair)\n.input asked"
    with Program(text).session({"edge": [("a", "b"), ("b", "c")], "asked": [((1, "a"),)]}, retain=1) as session:
        session.register("back", ".decl back(x: symbol)\nback(y) :- path(y, x), path(x, y).")
        session.register("of", OF)
        proof = session.why("of", ("c", 2), x="a", pair=(7, "a"))
        assert proof.rule == "of(y, n) :- way($x, y), n = count : { way($x, _) }, $pair = [_, $x]."
        assert [one.relation for one in proof.premises] == ["of.way"] and proof.height == 4
        assert proof.conditions[:2] == ('$x = "a", $pair = [7, "a"]', '2 = count : { of.way("a", _) }')
        assert session.why("of", ("pair", 0), x="b", pair=(1, "a")).premises[0].tuple == ((1, "a"),)
        assert "there is no" in str(session.why_not("of", ("a", 2), x="a", pair=(7, "a")))
        assert "there is no asked" in str(session.why_not("of", ("pair", 0), x="a", pair=(7, "a")))
        session.insert("edge", [("c", "a")])
        session.subscribe("of", lambda changes, epoch: None, x="a", pair=(7, "a"))
        assert session.why("of", ("home", 1), x="a", pair=(7, "a")).premises[0].premises[0].relation == "back"
        assert session.at(0).why("asked", ((1, "a"),)).rule is None
        with pytest.raises(KeyError, match="back"):
            session.at(0).why("of", ("c", 2), x="a", pair=(7, "a"))
        with pytest.raises(ValueError, match="has the parameters x=…, pair=…, and x is given"):
            session.why("of", ("b", 1), x="a")
        with pytest.raises(ValueError, match="path has no parameters, and x is given"):
            session.why("path", ("a", "b"), x="a")


def test_a_session_on_the_partitions_tells_why(here):
    with Program(PATHS + AFTER).session(EDGES, spark=here, local_tuples=0, retain=1) as session:
        session.insert("edge", [("d", "e")])
        assert session.why("path", ("a", "e")).height == 3 and session.why("pair", ("e", "a")).height == 4
        assert session.at(0).why("path", ("a", "d")).height == 2
        with pytest.raises(ValueError, match="is not there"):
            session.at(0).why("path", ("a", "e"))


def test_records_that_are_nowhere_are_asked_for_in_a_session():
    text = """
    .type P = [x: number, y: number]
    .decl n(x: number)
    .input n
    .decl p(p: P)
    .output p
    p([x, y]) :- n(x), n(y), x < y.
    """
    with Program(text).session({"n": [(1,), (2,)]}) as session:
        assert "it is not so that 2 < 1" in str(session.why_not("p", ((2, 1),)))
        assert "there is no n(9)" in str(session.why_not("p", ((9, 1),)))
        session.insert("n", [(9,)])
        assert session.why("p", ((1, 9),)).height == 1
