"""Why pairs of a closure are there: by its edges, and by its rules where it only looks like one."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import NAMED_PATHS as PATHS
from plot_texts import outside, overlapping, seen
from proof_oracle import check, least_heights
from session_cases import SETTINGS

from bench.fuzz.oracle import solve
from semi_naive import Program, transitive_closure
from semi_naive.provenance.closures import paths_of
from semi_naive.running.relations.on_partitions import Remade


def test_a_long_proof():
    with Program(PATHS).run({"edge": [(str(x), str(x + 1)) for x in range(400)]}) as result:
        proof = result.why("path", ("0", "300"))
    assert proof.height == 300 and proof.to_text().count("\n") == 599
    assert len(proof.to_dict()["premises"]) == 2


STEPS = {
    "path-edge": "path(x, z) :- edge(y, z), path(x, y).",
    "edge-path": "path(x, z) :- edge(x, y), path(y, z).",
    "path-path": "path(x, z) :- path(x, y), path(y, z).",
}
NUMBERS = """
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, y: number)
.output path
path(x, y) :- edge(x, y).
"""


@settings(max_examples=40, **SETTINGS)
@given(st.sampled_from(sorted(STEPS)), st.sets(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), max_size=14))
def test_pairs_of_a_closure_have_proofs_of_least_height(form, edges):
    program = Program(NUMBERS + STEPS[form])
    facts = {"edge": edges}
    tuples = solve(program.checked, facts)
    heights = least_heights(program.checked, facts, tuples)
    with program.run(facts) as result:
        assert paths_of(result["path"].relation, result.proofs.instances, {}).form == form
        for pair in product(range(-4, 5), repeat=2):
            if pair in tuples["path"]:
                proof = result.why("path", pair)
                check(proof, program.checked, facts, tuples)
                assert proof.height == heights["path", pair]
            else:
                assert len(result.why_not("path", pair).failures) == 2


def test_what_looks_like_a_closure_and_is_none_has_proofs_by_its_rules():
    derived = NUMBERS.replace(".input edge", "edge(1, 2). edge(x + 1, y + 1) :- edge(x, y), x < 3.")
    other = NUMBERS.replace(":- edge(x, y)", ":- edge(y, x)")
    given = NUMBERS + "path(7, 1)."
    for text, facts, row, height in (
        (derived, {}, (3, 4), 3), (other, {"edge": [(2, 1), (2, 3), (3, 4)]}, (1, 4), 3), (given, {"edge": [(1, 2)]}, (7, 2), 1)
    ):  # fmt: skip
        with Program(text + STEPS["path-edge"]).run(facts) as result:
            assert result.why("path", row).height == height


def test_a_closure_that_is_not_kept_is_not_made_for_a_proof(here, monkeypatch):
    edges = [(x, x + 1) for x in range(60)] + [(0, 30)]
    with Program(NUMBERS + STEPS["path-edge"]).run({"edge": edges}, here, local_tuples=0) as result:
        assert isinstance(result.database.on_partitions["path"], Remade)
        monkeypatch.setattr(Remade, "columns", None)
        assert result.why("path", (0, 60)).height == 31
        told = str(result.why_not("path", (5, 3)))
        assert "there is no edge(5, 3)" in told and "there is no path(5, 2)" in told
        with pytest.raises(ValueError, match="is not there"):
            result.why("path", (60, 0))


def test_a_closure_tells_why_in_its_own_vertices():
    for edges, last in (([(1, 2), (2, 3), (3, -1)], -1), ([("a", "b"), ("b", "c"), ("c", "d")], "d")):
        first = edges[0][0]
        for plan in ("auto", "balanced", "decomposed"):
            with transitive_closure(edges, plan=plan, any_ids=True) as closure:
                proof = closure.why(first, last)
                assert (proof.tuple, proof.height) == ((first, last), 3)
                assert {each.tuple for each in proof._below() if each.rule is None} == set(edges)
                with pytest.raises(ValueError, match="cannot be reached"):
                    closure.why(last, first)
                with pytest.raises(ValueError, match="cannot be reached"):
                    closure.why(first, "nowhere" if last == "d" else 77)


def test_a_picture_of_a_proof(tmp_path):
    text = (
        NUMBERS
        + STEPS["path-path"]
        + """
    .decl both(x: number, s: symbol)
    .output both
    both(x, "$") :- path(x, 5), path(x, 5), edge(x, _), !edge(5, x), x < 3, 4 = count : { path(x, _) }.
    """
    )
    with Program(text).run({"edge": [(1, 2), (2, 3), (3, 4), (4, 5)]}) as result:
        proof = result.why("both", (1, "$"))
        figure = proof.plot(tmp_path / "proof.png")
        assert (tmp_path / "proof.png").read_bytes()[:4] == b"\x89PNG"
        shown = seen(figure)
        assert shown.count("path(1, 5)") == 1  # of two premises
        assert shown.count("edge(1, 2)") == 1 and "!edge(5, 1)" in shown and "R3  path(x, y) :- edge(x, y)." in shown
        assert not overlapping(figure) and not outside(figure)
        assert "height 4" in proof._repr_html_() and "&quot;$&quot;" in proof._repr_html_()
        assert "<pre>both(5" in result.why_not("both", (5, "$"))._repr_html_()
    with Program(NUMBERS + STEPS["path-edge"]).run({"edge": [(x, x + 1) for x in range(90)]}) as result:
        figure = result.why("path", (0, 90)).plot()
        assert "… 1 more" in seen(figure) and not overlapping(figure) and not outside(figure)
        assert "more lines" in result.why("path", (0, 90))._repr_html_()
